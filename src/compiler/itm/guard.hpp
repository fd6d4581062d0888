// Plain stores of irrevocable transactions into the pool.
//
// Once a __transaction_relaxed is irrevocable, GCC runs it without barriers; one that surely becomes so, from its first
// statement on. There is no other code for it.  Its stores into the pool still have to be announced, or a crash would
// tear them.  So the pool's pages are read-only while it runs: a store traps, its bytes are announced, the store is
// made alone, and the page is closed again.  No other transaction runs meanwhile.  Other threads that store in the pool
// wait.
//
// This costs microseconds for each store, which is acceptable: such transactions do what cannot be undone, a print or a
// system call, and store little.
#pragma once

#include "compiler/itm/transaction.hpp"

namespace nvm::itm {

// From here on this thread's transaction runs without barriers.
void begin_guard(thread_state& t) noexcept;
void end_guard(thread_state& t) noexcept;

// While one of these lives, the library may store anywhere in the pool.
class guard_lifted {
 public:
  guard_lifted() noexcept;
  ~guard_lifted();
  guard_lifted(const guard_lifted&) = delete;
  guard_lifted& operator=(const guard_lifted&) = delete;

 private:
  bool was_up_;
};

}  // namespace nvm::itm
