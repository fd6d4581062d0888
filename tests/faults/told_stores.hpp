// Stores, structures and regions in a life of told_run.hpp: the changes of each attempt, and the state afterwards.
#pragma once

#include <cstdint>
#include <optional>

#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/region.h"
#include "told_run.hpp"

namespace nvm::tests {

inline constexpr unsigned told_attempts = 9;
inline constexpr std::size_t told_large = std::size_t{400} << 10;
// These attempts allocate so much that the pool grows.
constexpr bool told_grows(unsigned n) { return n % 3 == 0; }

struct told_stores {
  NVM_POOL* pool = nullptr;
  nvm_kv* kv = nullptr;
  nvm_lf* lf = nullptr;
  nvm_regions* set = nullptr;
};
[[nodiscard]] bool is_of_stores(told_face face);
[[nodiscard]] bool is_of_regions(told_face face);
// What the face needs of them; false: nvm_errormsg() says why not.  `is_new`: the pool.
[[nodiscard]] bool open_stores(const told_case& c, told_stores& s, bool is_new);
// Until what the thread has done is durable; 0, or the code.
[[nodiscard]] int wait_in_stores(const told_stores& s);

// The n-th attempt of a thread, which replaces the thread's own entry or removes it, and in structures puts one that
// stays.  0, or the code.
[[nodiscard]] int attempt_in_stores(const told_case& c, const told_stores& s, unsigned thread, unsigned n);
// Whether it removes the thread's entry, where it is done.
[[nodiscard]] bool removes_entry(const told_case& c, unsigned n);
// The attempt whose value the thread's entry has; 0: there is no entry; nullopt: it has no attempt's value, or cannot
// be read.
[[nodiscard]] std::optional<unsigned> entry_of(const told_case& c, const told_stores& s, unsigned thread);
// Whether the entry of the attempt is there that stays.
[[nodiscard]] bool has_left_one(const told_case& c, const told_stores& s, unsigned thread, unsigned n);

}  // namespace nvm::tests
