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

// The value of a record and, where the store has sums, its sum, copied to `to`, which has room for both: value_room().
// `verify`: errc::corrupt, naming key and place, where the sum does not hold.
[[nodiscard]] inline std::uint64_t value_room(const operation& op, const record& r) noexcept {
  return r.sizes.value + op.sums.bytes();
}
[[nodiscard]] status read_value(const operation& op, const key& k, const record& r, bool verify, std::byte* to);
// All of a record, copied to scratch and verified; key and value stay there until it is reset.
[[nodiscard]] status read_whole(const operation& op, const record& r, key& k, bytes_view& value);

// What is fixed in a header, and otherwise zero, for that place.
void fill_header(layout::kv_header& header, const store_facts& facts, std::uint64_t place) noexcept;
// The header of a new store, with an empty index.
[[nodiscard]] status create_header(nvm_stm* tx, pool_bytes& pool, const store_facts& facts, std::uint64_t& place);
// What is fixed in a header.
[[nodiscard]] status read_header(const access& a, std::uint64_t place, store_facts& out);
// The same for a header that was read from `place`: its words up to the check, and the check.
[[nodiscard]] status check_header(const layout::kv_header& header, std::uint64_t place, store_facts& out) noexcept;
// Frees what is left of a store without entries, in one step or more.
[[nodiscard]] status dismantle(operation& op, bool& done);
// Removes some entries, those that come after `from`, which moves on; `ended`: there were no more.
[[nodiscard]] status empty_some(operation& op, fetch_from& from, unsigned& removed, bool& ended);
// Takes over what an operation has learnt that ran by itself and has committed.
void learn(store& s, const lessons& learnt) noexcept;

}  // namespace nvm::keyed
