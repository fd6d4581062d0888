// Plain stores of irrevocable transactions into the pool.
//
// Once a __transaction_relaxed is irrevocable, GCC runs it without barriers, and from its first statement on if it
// surely becomes so: there is no other code.  Its stores into the pool still have to be announced, or a crash would
// tear them.  So the pool's pages are read-only while it runs: a store traps, its bytes are announced, the store is
// made alone, and the page is closed again.  No other transaction runs meanwhile.  Other threads that store in the pool
// wait.
//
// This is slow, microseconds for each store, and meant to be: such transactions call what cannot be undone, a print or
// a system call, and store little.
#pragma once

#include "compiler/itm/transaction.hpp"

namespace nvm::itm {

// This thread's transaction goes on without barriers.
void begin_guard(thread_state& t) noexcept;
void end_guard(thread_state& t) noexcept;

// The library stores where it has to while one of these lives.
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
