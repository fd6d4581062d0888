// One interface over the indexes, and what surrounds an operation: the hash of its key, its limits.
#pragma once

#include "kv/btree.hpp"
#include "kv/hash.hpp"
#include "kv/list.hpp"
#include "kv/rbtree.hpp"
#include "kv/store.hpp"

namespace nvm::keyed {

[[nodiscard]] const char* name_of(kv_index index) noexcept;

// The key as operations want it; refuses what no entry can have.
[[nodiscard]] status prepare_key(const store& s, const void* bytes, std::size_t count, key& out) noexcept;
[[nodiscard]] status check_value(std::size_t count) noexcept;

enum : unsigned { put_absent = 1, put_present = 2, put_new = 4 };

[[nodiscard]] status put(operation& op, const key& k, bytes_view value, unsigned flags);
[[nodiscard]] status find(operation& op, const key& k, record& out);
[[nodiscard]] status remove(operation& op, const key& k, bool& removed);
[[nodiscard]] status fetch(operation& op, fetch_from& from, receiver& to, bool& ended);

struct figures {
  totals sum{};
  unsigned depth = 0;
  hash::shape table{};
  btree::shape tree{};
};
// Walks everything.
[[nodiscard]] status check(operation& op, figures& out);

// What is fixed in a header, and otherwise zero.
void fill_header(layout::kv_header& header, kv_index index, std::uint64_t seed) noexcept;
// The header of a new store, with an empty index.
[[nodiscard]] status create_header(nvm_stm* tx, pool_bytes& pool, kv_index index, std::uint64_t seed,
                                   std::uint64_t& place);
// What is fixed in a header.
[[nodiscard]] status read_header(const access& a, std::uint64_t place, kv_index& index, std::uint64_t& seed);
// Frees what is left of a store without entries, in one step or more.
[[nodiscard]] status dismantle(operation& op, bool& done);
// Removes some entries, those that come behind `from`, which moves on; `ended`: there were no more.
[[nodiscard]] status empty_some(operation& op, fetch_from& from, unsigned& removed, bool& ended);
// What an operation has learnt that ran by itself and has committed.
void learn(store& s, const lessons& learnt) noexcept;

}  // namespace nvm::keyed
