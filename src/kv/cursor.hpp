// A cursor over the entries of a key-value store.
#pragma once

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv/open_stores.hpp"

// Entries copied a few at a time; between two fetches it keeps the last key, or a position.
struct nvm_kv_cursor final : keyed::receiver {
  explicit nvm_kv_cursor(nvm_kv& of) noexcept : kv{of}, ordered{is_ordered(of.store.index)} {}
  ~nvm_kv_cursor() = default;

  nvm::status add(const keyed::operation& a, const keyed::record& r, bool& more) override try {
    const auto mark = keyed::scratch::of_thread().here();
    keyed::key key;
    keyed::bytes_view value;
    if (nvm::status s = keyed::read_whole(a, r, key, value); !s) {
      keyed::scratch::of_thread().rewind(mark);
      return s.error() == nvm::errc::corrupt ? skip(r.place) : s;
    }
    const std::string_view text{reinterpret_cast<const char*>(key.bytes), key.count};
    if (has_to && (from.backward ? text <= to : text >= to)) {
      reached_end = true;
      more = false;
      return {};
    }
    if (ordered && !goes_on(text)) {
      return keyed::access::damaged("order of keys", r.place);
    }
    const std::size_t at = bytes.size();
    bytes.insert(bytes.end(), key.bytes, key.bytes + key.count);
    if (value.count != 0) bytes.insert(bytes.end(), value.bytes, value.bytes + value.count);
    keyed::scratch::of_thread().rewind(mark);
    entries.push_back({at, r.sizes.key, r.sizes.value});
    more = entries.size() < wanted && bytes.size() < fetch_bytes;
    return {};
  } catch (const std::bad_alloc&) {
    return nvm::fail(nvm::errc::no_memory, "no volatile memory for entries");
  }
  nvm::status skip(std::uint64_t place) override {
    note_why();
    return pass_over(place);
  }
  void note_why() {
    if (passed_now.empty()) std::snprintf(why_now, sizeof why_now, "%s", nvm::last_message());
  }
  // With room for keep_passed().
  nvm::status pass_over(std::uint64_t place) try {
    const std::size_t then = passed.size() + passed_now.size() + 1;
    if (passed.capacity() < then) passed.reserve(2 * then);
    passed_now.push_back(place);
    return {};
  } catch (const std::bad_alloc&) {
    return nvm::fail(nvm::errc::no_memory, "no volatile memory for entries");
  }
  // Keeps what the attempt that has committed passed over; a fetch may come to the same record again.
  void keep_passed() noexcept;
  // The end: 0, or -1 where something was passed over.
  int end() const;
  // Whether the key comes after the one before it; otherwise a cursor that finds its place by keys would go in circles.
  [[nodiscard]] bool goes_on(std::string_view key) const noexcept {
    std::string_view before = last;
    if (!entries.empty()) {
      before = {reinterpret_cast<const char*>(bytes.data()) + entries.back().at, entries.back().key_bytes};
    } else if (!from.has_key) {
      return true;
    }
    const int sign = key.compare(before);
    const bool same = sign == 0 && from.inclusive && entries.empty();
    return same || (from.backward ? sign < 0 : sign > 0);
  }
  nvm::status refill();
  nvm::status refill_from_regions();

  static constexpr std::size_t wanted_first = 16;
  static constexpr std::size_t wanted_max = 256;
  static constexpr std::size_t fetch_bytes = 64 << 10;
  struct place {
    std::size_t at, key_bytes, value_bytes;
  };
  nvm_kv& kv;
  const bool ordered;
  keyed::fetch_from from{};
  std::unique_ptr<keyed::lewat::walk> walk{};        // of index regions, in place of `from`
  keyed::lewat::walk::entry_view of_walk{};          // what it has met
  std::optional<keyed::lewat::walk::step> unkept{};  // what that is, until it is among the entries
  std::string last;                                  // key that `from` is at
  std::string to;
  bool has_to = false;
  std::uint64_t left = 0;  // entries that may still be given
  bool ended = false;      // nothing comes after what is here
  bool reached_end = false;
  std::size_t wanted = wanted_first;
  std::size_t next = 0;
  bool filling = false;  // by a fetch that has not returned; it began at
  keyed::fetch_from begun{};
  std::vector<place> entries;
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> passed_now;  // places of damaged records of this attempt of a fetch
  std::vector<std::uint64_t> passed;      // of all before
  char why_now[256] = "";
  char why[256] = "";  // message about the first of them
};
