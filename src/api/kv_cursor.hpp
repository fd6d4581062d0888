// A cursor over the entries of a key-value store.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "api/kv_stores.hpp"

// Entries copied a few at a time; what is between two fetches is the last key, or a position.
struct nvm_kv_cursor final : keyed::receiver {
  explicit nvm_kv_cursor(nvm_kv& of) noexcept
      : kv{of}, ordered{of.store.index == keyed::kv_index::btree || of.store.index == keyed::kv_index::rbtree} {}
  ~nvm_kv_cursor() = default;

  nvm::status add(const keyed::access& a, const keyed::record& r, bool& more) override try {
    if (has_to && !before_end(a, r)) {
      reached_end = true;
      more = false;
      return {};
    }
    const std::size_t at = bytes.size();
    bytes.resize(at + r.sizes.key + r.sizes.value);
    if (r.sizes.key != 0) a.read(bytes.data() + at, keyed::key_of(a, r), r.sizes.key);
    if (ordered && !goes_on({reinterpret_cast<const char*>(bytes.data()) + at, r.sizes.key})) {
      return keyed::access::damaged("order of keys", r.place);
    }
    if (r.sizes.value != 0) a.read(bytes.data() + at + r.sizes.key, keyed::value_of(a, r), r.sizes.value);
    entries.push_back({at, r.sizes.key, r.sizes.value});
    more = entries.size() < wanted && bytes.size() < fetch_bytes;
    return {};
  } catch (const std::bad_alloc&) {
    return nvm::fail(nvm::errc::no_memory, "no volatile memory for entries");
  }
  [[nodiscard]] bool before_end(const keyed::access& a, const keyed::record& r) const {
    const std::size_t n = std::min<std::size_t>(r.sizes.key, to.size());
    int sign = n == 0 ? 0 : a.compare(keyed::key_of(a, r), to.data(), n);
    if (sign == 0) sign = r.sizes.key < to.size() ? -1 : r.sizes.key > to.size() ? 1 : 0;
    return from.backward ? sign > 0 : sign < 0;
  }
  // Whether the key comes behind the one before it: a cursor that finds its place by keys would else go in circles.
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

  static constexpr std::size_t wanted_first = 16;
  static constexpr std::size_t wanted_max = 256;
  static constexpr std::size_t fetch_bytes = 64 << 10;
  struct place {
    std::size_t at, key_bytes, value_bytes;
  };
  nvm_kv& kv;
  const bool ordered;
  keyed::fetch_from from{};
  std::string last;  // key that `from` is at
  std::string to;
  bool has_to = false;
  std::uint64_t left = 0;  // entries that may still be given
  bool ended = false;      // nothing comes behind what is here
  bool reached_end = false;
  std::size_t wanted = wanted_first;
  std::size_t next = 0;
  std::vector<place> entries;
  std::vector<std::byte> bytes;
};
