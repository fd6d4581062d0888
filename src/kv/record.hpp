// Records: a key and its value in one object, and a sum of both where the store has sums.
//
// The sum is stored by the same transaction as the bytes that it covers: a reader sees both or neither, and no fence is
// added.  It stands right after the value, so that both are one piece to log.
#pragma once

#include <algorithm>
#include <cstring>

#include "kv/access.hpp"
#include "kv/counters.hpp"
#include "kv/scratch.hpp"

namespace nvm::keyed {

// Where a record is, and its sizes as read.
struct record {
  std::uint64_t place = 0;  // of the record itself, after links; 0: none
  layout::record_sizes sizes{};
};

// Values up to this size are changed where they are; larger ones are written beside, which logs nothing of them.
inline constexpr std::uint64_t in_place_bytes_max = 4096;

// The sums of a store's records; `seed` is the store's.
struct record_sums {
  bool on = false;
  std::uint64_t seed = 0;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return on ? layout::record_sum_bytes : 0; }
  [[nodiscard]] std::uint64_t of(const key& k, const record& r, const std::byte* value) const noexcept {
    const std::uint64_t hash = k.has_hash ? k.hash : checksum(k.bytes, k.count, seed);
    return layout::record_sum(hash, r.place, layout::pack(r.sizes), value, r.sizes.value);
  }
  // Whether the sum that follows `value` there is that of the record.
  [[nodiscard]] bool hold(const key& k, const record& r, const std::byte* value) const noexcept {
    std::uint64_t found = 0;
    std::memcpy(&found, value + r.sizes.value, sizeof found);
    return found == of(k, r, value);
  }
};

[[nodiscard]] inline status check_sizes(const access& a, std::uint64_t place, const layout::record_sizes& s) {
  if (s.value > layout::kv_value_bytes_max ||
      a.at<std::byte>(round_down(place, 16), layout::record_bytes(s) + place % 16) == nullptr) {
    return access::damaged("record", place);
  }
  return {};
}

// Reads the record at `place`, whose first 16 bytes are in the pool in any case.
[[nodiscard]] inline status read_record(const access& a, std::uint64_t place, record& out) {
  out.place = place;
  if (a.at<std::byte>(round_down(place, 16), 16 + place % 16) == nullptr) return errc::corrupt;
  out.sizes = layout::unpack_sizes(a.load(a.known<std::uint64_t>(place)));
  return check_sizes(a, place, out.sizes);
}

// As read_record(), and whether its key is `k`.
[[nodiscard]] inline status read_if_equal(const access& a, std::uint64_t place, const key& k, record& out,
                                          bool& equal) {
  if (a.at<std::byte>(round_down(place, 16), 16 + place % 16) == nullptr) return errc::corrupt;
  std::uint64_t words[2];
  a.read(words, a.known<std::byte>(place), sizeof words);
  out.place = place;
  out.sizes = layout::unpack_sizes(words[0]);
  equal = false;
  if (out.sizes.key != k.count) return {};
  if (status s = check_sizes(a, place, out.sizes); !s) return s;
  if (std::memcmp(&words[1], k.bytes, std::min<std::size_t>(k.count, 8)) != 0) return {};
  equal = k.count <= 8 || a.compare(a.known<std::byte>(place + 16), k.bytes + 8, k.count - 8) == 0;
  return {};
}

[[nodiscard]] inline const std::byte* key_of(const access& a, const record& r) noexcept {
  return a.known<std::byte>(r.place + 8);
}
[[nodiscard]] inline std::byte* value_of(const access& a, const record& r) noexcept {
  return a.known<std::byte>(r.place + layout::record_value_at(r.sizes.key));
}

// A private copy of the record's key; nullptr: no volatile memory.
[[nodiscard]] inline std::byte* scratch_key(const access& a, const record& r) {
  std::byte* copy = scratch::of_thread().take(r.sizes.key);
  if (copy != nullptr && r.sizes.key != 0) a.read(copy, key_of(a, r), r.sizes.key);
  return copy;
}

// Room that an allocation of `bytes` takes anyway: objects lie in slots of 16 or 64 bytes, or on pages of their own.
constexpr std::uint64_t whole_slots(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t header = 16;
  const std::uint64_t total = bytes + header;
  return round_up(total, total <= 256 ? 16 : total <= 4160 ? 64 : 4096) - header;
}

// A new object: `links` bytes, which are left for the caller to fill, then a record.  Returns the place of the object,
// 0: no room.
[[nodiscard]] inline std::uint64_t make_record(const access& a, const counters& c, const record_sums& sums,
                                               std::uint64_t links, const key& k, bytes_view value) {
  layout::record_sizes s{value.count, k.count, 0};
  const std::uint64_t needed = links + layout::record_bytes(s) + sums.bytes();
  const std::uint64_t room = whole_slots(needed);
  auto* object = a.allocate<std::byte>(layout::kv_type_record, room);
  if (object == nullptr) return 0;
  s.room_units =
      std::min((room - links - layout::record_value_at(k.count) - sums.bytes()) / 8, layout::record_room_units_max);
  std::byte* at = object + links;
  const std::uint64_t sizes = pack(s);
  std::memcpy(at, &sizes, 8);
  if (k.count != 0) {
    std::uint64_t last = 0;
    std::memcpy(at + 8 + round_down(k.count - 1, 8), &last, 8);
    std::memcpy(at + 8, k.bytes, k.count);
  }
  std::byte* to = at + layout::record_value_at(k.count);
  if (value.count != 0) std::memcpy(to, value.bytes, value.count);
  if (sums.on) {
    const std::uint64_t sum = sums.of(k, {a.place_of(at), s}, value.bytes);
    std::memcpy(to + value.count, &sum, sizeof sum);
  }
  std::memset(to + value.count + sums.bytes(), 0, room - needed);
  c.add(a, 1, k.count, value.count);
  return a.place_of(object);
}

// Whether a value of `bytes` bytes belongs where the record has its value now; `links` bytes of its object come before
// the record.  Sizes that are damaged may lead out of the object: such a record is replaced.
[[nodiscard]] inline bool fits(const access& a, const record_sums& sums, std::uint64_t links, const record& r,
                               std::uint64_t bytes) {
  const std::uint64_t room = std::max(r.sizes.value, r.sizes.room_units * 8);
  if (bytes > room || bytes < room / 4) return false;
  if (bytes > in_place_bytes_max || r.sizes.value > in_place_bytes_max) return false;
  return a.object_has(r.place - links, layout::kv_type_record,
                      links + layout::record_value_at(r.sizes.key) + bytes + sums.bytes());
}
// A value and its sum are written as one piece: as two, each line would be looked up twice.  A short value is put
// together with its sum before; to copy a long one once more costs more than to store from two places.
inline void overwrite(const access& a, const counters& c, const record_sums& sums, record& r, const key& k,
                      bytes_view value) {
  std::byte* to = value_of(a, r);
  const std::size_t bytes = value.count + sums.bytes();
  if (value.count != r.sizes.value) {
    const std::uint64_t more = value.count - r.sizes.value;
    a.expect({{a.known<std::byte>(r.place), sizeof(std::uint64_t)}, {to, bytes}, c.place_of_bytes()});
    c.add(a, 0, 0, more);
    r.sizes.value = value.count;
    a.store(a.known<std::uint64_t>(r.place), pack(r.sizes));
  }
  if (!sums.on) {
    if (value.count != 0) a.write(to, value.bytes, value.count);
    return;
  }
  const std::uint64_t sum = sums.of(k, r, value.bytes);
  constexpr std::size_t short_bytes = 256;
  if (value.count > short_bytes) return a.write_with_word(to, value.bytes, value.count, sum);
  std::byte both[short_bytes + sizeof sum];
  if (value.count != 0) std::memcpy(both, value.bytes, value.count);
  std::memcpy(both + value.count, &sum, sizeof sum);
  a.write(to, both, bytes);
}

// Frees the object that holds the record, whose links take `links` bytes.
[[nodiscard]] inline status drop_record(const access& a, const counters& c, std::uint64_t links, const record& r) {
  c.add(a, ~std::uint64_t{0}, std::uint64_t{0} - r.sizes.key, std::uint64_t{0} - r.sizes.value);
  return a.release(r.place - links);
}

}  // namespace nvm::keyed
