// Plain stores of irrevocable transactions into the pool.
//
// GCC lets a __transaction_relaxed go on without barriers once it may not be rolled back any more, and one that surely
// comes to that from its first statement on: there is no other code to run.  What such code stores in the pool has to
// be announced all the same, or a crash would tear it.  So while it runs, the pool's pages are read-only; a store
// traps, its bytes are announced, it is made alone, and the page is closed again.  No other transaction runs meanwhile.
// Other threads that store in the pool wait.
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
