// The bytes of a region of an index of regions, in private memory: entries one after the other.
//
// Nothing that is read is believed: an entry counts if it ends where the region does, or before.
#pragma once

#include <cstring>

#include "kv/kv_layout.hpp"
#include "kv/record.hpp"

namespace nvm::keyed::lewat {

// An entry in an image.
struct item {
  std::uint64_t at = 0;  // where it begins
  layout::record_sizes sizes{};

  [[nodiscard]] std::uint64_t key_at() const noexcept { return at + layout::item_sizes_bytes; }
  [[nodiscard]] std::uint64_t value_at() const noexcept { return key_at() + sizes.key; }
};

// Bytes of an entry.
[[nodiscard]] inline std::uint64_t bytes_of(const layout::record_sizes& s, const record_sums& sums) noexcept {
  return layout::item_sizes_bytes + s.key + s.value + sums.bytes();
}
// The sizes that stand at `at`, where eight bytes are; false: no entry has such.
[[nodiscard]] inline bool read_sizes(const std::byte* image, std::uint64_t at, item& out) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, image + at, sizeof word);
  out = {at, layout::unpack_sizes(word)};
  return out.sizes.value <= layout::kv_value_bytes_max && out.sizes.room_units == 0;
}

enum class found : std::uint8_t { yes, no, damaged };

// The entry at `at` of an image of `count` bytes; no: the image ends there.
[[nodiscard]] inline found read_item(const std::byte* image, std::uint64_t count, std::uint64_t at,
                                     const record_sums& sums, item& out) noexcept {
  if (at == count) return found::no;
  out = {at, {}};
  if (count - at < layout::item_sizes_bytes || !read_sizes(image, at, out)) return found::damaged;
  return bytes_of(out.sizes, sums) <= count - at ? found::yes : found::damaged;
}
[[nodiscard]] inline bool has_key(const std::byte* image, const item& i, const key& k) noexcept {
  return i.sizes.key == k.count && (k.count == 0 || std::memcmp(image + i.key_at(), k.bytes, k.count) == 0);
}
// The entry with that key.
[[nodiscard]] inline found find_item(const std::byte* image, std::uint64_t count, const key& k, const record_sums& sums,
                                     item& out) noexcept {
  for (std::uint64_t at = 0;; at += bytes_of(out.sizes, sums)) {
    const found here = read_item(image, count, at, sums, out);
    if (here != found::yes || has_key(image, out, k)) return here;
  }
}
[[nodiscard]] inline key key_in(const std::byte* image, const item& i) noexcept {
  return {image + i.key_at(), static_cast<std::uint32_t>(i.sizes.key)};
}
// Whether its sum holds; a sum has no place in it, so that entries move as they are.
[[nodiscard]] inline bool sum_holds(const std::byte* image, const item& i, const key& k,
                                    const record_sums& sums) noexcept {
  return !sums.on || sums.hold(k, {0, i.sizes}, image + i.value_at());
}
// The first of the entries before byte `end` whose sum fails.
[[nodiscard]] inline bool find_damaged(const std::byte* image, std::uint64_t end, const record_sums& sums,
                                       item& out) noexcept {
  if (!sums.on) return false;
  for (std::uint64_t at = 0; read_item(image, end, at, sums, out) == found::yes; at += bytes_of(out.sizes, sums)) {
    if (!sum_holds(image, out, key_in(image, out), sums)) return true;
  }
  return false;
}
inline void write_item(std::byte* to, const key& k, bytes_view value, const record_sums& sums) noexcept {
  const layout::record_sizes sizes{value.count, k.count, 0};
  const std::uint64_t word = layout::pack(sizes);
  std::memcpy(to, &word, sizeof word);
  to += sizeof word;
  if (k.count != 0) std::memcpy(to, k.bytes, k.count);
  to += k.count;
  if (value.count != 0) std::memcpy(to, value.bytes, value.count);
  if (!sums.on) return;
  const std::uint64_t sum = sums.of(k, {0, sizes}, value.bytes);
  std::memcpy(to + value.count, &sum, sizeof sum);
}

// Bytes [from, to) that differ.
struct stretch {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};
struct stretches {
  static constexpr unsigned most = 8;
  static constexpr std::uint64_t gap_min = 64;  // equal bytes that are written with the others up to here
  stretch of[most];
  unsigned count = 0;

  void add(std::uint64_t from, std::uint64_t to) noexcept {
    if (from == to) return;
    if (count != 0 && (from - of[count - 1].to < gap_min || count == most)) {
      of[count - 1].to = to;
    } else {
      of[count++] = {from, to};
    }
  }
};
// What of `after` is different from `before`, both of `count` bytes.
inline void compare_images(const std::byte* before, const std::byte* after, std::uint64_t count,
                           stretches& out) noexcept {
  constexpr std::uint64_t block = line_bytes;
  for (std::uint64_t at = 0; at < count; at += block) {
    const std::uint64_t end = std::min(count, at + block);
    if (std::memcmp(before + at, after + at, end - at) == 0) continue;
    std::uint64_t from = at;
    std::uint64_t to = end;
    while (before[from] == after[from]) ++from;
    while (before[to - 1] == after[to - 1]) --to;
    out.add(from, to);
  }
}

}  // namespace nvm::keyed::lewat
