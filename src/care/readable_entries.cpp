#include "care/readable_entries.hpp"

#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "kv/kv_layout.hpp"
#include "nvm/kv.h"
#include "nvm/nvm.h"

namespace nvm::care {
namespace {

struct closes_pool_read {
  void operator()(NVM_POOL* pool) const noexcept { (void)nvm_pool_close(pool); }
};
struct closes_store {
  void operator()(nvm_kv* kv) const noexcept { (void)nvm_kv_close(kv); }
};
struct closes_cursor {
  void operator()(nvm_kv_cursor* cursor) const noexcept { nvm_kv_cursor_close(cursor); }
};
using open_pool = std::unique_ptr<NVM_POOL, closes_pool_read>;
using open_store = std::unique_ptr<nvm_kv, closes_store>;
using open_cursor = std::unique_ptr<nvm_kv_cursor, closes_cursor>;

open_pool opened(const std::string& path) {
  nvm_pool_options how{};
  how.read_only = 1;
  return open_pool{nvm_pool_open_with(path.c_str(), &how)};
}
open_store opened(NVM_POOL* pool, const std::string& name) {
  nvm_kv_options how{};
  how.mode = NVM_KV_OPEN_ONLY;
  how.flags = NVM_KV_VERIFY_READS;
  return open_store{nvm_kv_open(pool, name.c_str(), &how)};
}
std::uint64_t sum_of(const void* value, std::size_t bytes) noexcept {
  return checksum(static_cast<const std::byte*>(value), bytes, bytes);
}

// Names of the stores, as far as the directory has them.
std::vector<std::string> names_in(NVM_POOL* pool) {
  struct list {
    std::vector<std::string> names;
    bool out_of_memory = false;
  } all;
  const auto add = [](const char* name, nvm_kv_index, void* to) noexcept {
    auto& in = *static_cast<list*>(to);
    try {
      in.names.emplace_back(name);
    } catch (const std::bad_alloc&) {
      in.out_of_memory = true;
    }
    return in.out_of_memory ? 1 : 0;
  };
  (void)nvm_kv_each(pool, add, &all);
  if (all.out_of_memory) throw std::bad_alloc{};
  return std::move(all.names);
}

using entries = std::map<std::string, std::uint64_t>;

// Adds the entries from `from` on, as far as the walk comes.  1: it has come somewhere, `from` is the last key; 0: to
// the end; -1: nowhere.
int walk_from(nvm_kv* kv, std::string* from, bool backward, entries& to) {
  nvm_kv_range range{};
  range.backward = backward ? 1 : 0;
  if (from != nullptr && !from->empty()) {
    range.from = from->data();
    range.from_bytes = from->size();
  }
  const open_cursor cursor{nvm_kv_cursor_open(kv, &range)};
  nvm_kv_entry e{};
  int more = -1;
  bool any = false;
  while (cursor != nullptr && (more = nvm_kv_cursor_next(cursor.get(), &e)) == 1) {
    std::string key{static_cast<const char*>(e.key), e.key_bytes};
    to.try_emplace(key, sum_of(e.value, e.value_bytes));
    if (from != nullptr) *from = std::move(key);
    any = true;
  }
  return more == 0 ? 0 : any ? 1 : -1;
}
// Goes on in a tree after unreadable entries: from the next possible keys, the nearest first.
bool walk_on(nvm_kv* kv, std::string& last, entries& to) {
  constexpr unsigned byte_values = 256;
  constexpr std::size_t places_tried = 16;  // the last ones of a key
  const std::size_t first = last.size() - std::min(last.size(), places_tried);
  for (std::size_t i = last.size(); i > first; --i) {
    for (unsigned b = static_cast<unsigned char>(last[i - 1]) + 1U; b < byte_values; ++b) {
      std::string from = last.substr(0, i - 1) + static_cast<char>(b);
      const int came = walk_from(kv, &from, false, to);
      if (came < 0) continue;
      last = std::move(from);
      return came == 1;
    }
  }
  return false;
}
// Adds all entries that walks can read.
void walk(nvm_kv* kv, entries& to) {
  constexpr unsigned gaps_max = 64;
  if (!is_ordered(static_cast<layout::kv_index>(nvm_kv_index_of(kv)))) {
    (void)walk_from(kv, nullptr, false, to);
    return;
  }
  std::string last;
  int came = walk_from(kv, &last, false, to);
  if (came == 0) return;
  for (unsigned gap = 0; came == 1 && gap < gaps_max; ++gap) came = walk_on(kv, last, to) ? 1 : 0;
  (void)walk_from(kv, nullptr, true, to);
}

// Whether there is an entry, with this value.
bool has(nvm_kv* kv, std::string_view key, const std::uint64_t* sum) {
  struct value {
    const std::uint64_t* expected;
    bool same;
  } v{sum, sum == nullptr};
  const auto look = [](const void* bytes, std::size_t n, void* to) {
    auto& in = *static_cast<value*>(to);
    in.same = in.same || sum_of(bytes, n) == *in.expected;
  };
  return nvm_kv_visit(kv, key.data(), key.size(), look, &v) == 1 && v.same;
}

// Keys that bytes anywhere in the pool name as those of an entry of the store, also a former one.
std::vector<std::string> keys_said(const std::string& path, const std::string& name) {
  struct list {
    std::vector<std::string> keys;
    bool out_of_memory = false;
    void add(const void* key, std::size_t bytes) noexcept {
      try {
        if (key != nullptr) keys.emplace_back(static_cast<const char*>(key), bytes);
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
    }
  } said;
  nvm_kv_salvage_options how{};
  how.argument = &said;
  how.entry = [](const nvm_kv_entry* e, enum nvm_kv_proof, void* to) noexcept {
    static_cast<list*>(to)->add(e->key, e->key_bytes);
  };
  how.lost = [](std::uint64_t, const void* key, std::size_t bytes, const char*, void* to) noexcept {
    static_cast<list*>(to)->add(key, bytes);
  };
  (void)nvm_kv_salvage(path.c_str(), name.c_str(), &how);
  if (said.out_of_memory) throw std::bad_alloc{};
  return std::move(said.keys);
}
// Adds entries that only look-ups read: where the order of a tree is damaged a walk passes over entries that they find.
void look_up(nvm_kv* kv, const std::vector<std::string>& keys, entries& to) {
  for (const std::string& key : keys) {
    std::uint64_t sum = 0;
    const auto look = [](const void* bytes, std::size_t n, void* into) {
      *static_cast<std::uint64_t*>(into) = sum_of(bytes, n);
    };
    if (!to.contains(key) && nvm_kv_visit(kv, key.data(), key.size(), look, &sum) == 1) to.emplace(key, sum);
  }
}

}  // namespace

readable_entries readable_in(const std::string& path) {
  readable_entries all;
  std::vector<std::string> short_of_some;
  open_pool pool = opened(path);
  if (pool == nullptr) return all;
  for (const std::string& name : names_in(pool.get())) {
    const open_store store = opened(pool.get(), name);
    if (store == nullptr) continue;
    walk(store.get(), all[name]);
    const std::int64_t counted = nvm_kv_size(store.get());
    if (std::cmp_not_equal(all[name].size(), counted)) short_of_some.push_back(name);
  }
  for (const std::string& name : short_of_some) {
    pool.reset();
    const std::vector<std::string> keys = keys_said(path, name);
    pool = opened(path);
    const open_store store = pool == nullptr ? nullptr : opened(pool.get(), name);
    if (store != nullptr) look_up(store.get(), keys, all[name]);
  }
  return all;
}

std::optional<std::string> first_lost(const readable_entries& before, const std::string& path, bool values) {
  const readable_entries after = readable_in(path);
  const open_pool pool = opened(path);
  for (const auto& [name, entries_before] : before) {
    const auto now = after.find(name);
    const open_store store = pool == nullptr ? nullptr : opened(pool.get(), name);
    for (const auto& [key, sum] : entries_before) {
      if (now != after.end()) {
        const auto same = now->second.find(key);
        if (same != now->second.end() && (!values || same->second == sum)) continue;
      }
      if (store == nullptr || !has(store.get(), key, values ? &sum : nullptr)) return name + ": " + key;
    }
  }
  return std::nullopt;
}

}  // namespace nvm::care
