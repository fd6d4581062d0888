// The compiled transaction of a thread: levels, restarts, and the thread's own memory.
//
// The STM (nvm/stm.h) isolates, logs and rolls back shared memory. This is the rest that the ABI requires.
//
// Levels.  `levels` has one entry for each begin that can be cancelled, the outermost first; each is a level of the
// STM's transaction, too.  A begin inside that cannot be cancelled, or that is inside an irrevocable transaction, is
// only counted in `flat` of the level around it.
//
// The stack.  Frames made since the outermost begin lie below its caller's stack pointer (`frames_end`).  They are not
// shared, die when the transaction is rolled back, and are gone when it commits: writes to them go there at once, never
// to the STM.  When an inner level is rolled back, frames between its begin and the outermost one are alive: old bytes
// of writes to them inside the level are kept in the journal.
//
// Irrevocable.  GCC runs an irrevocable transaction in code without barriers, since it has no other code.  See
// guard.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/itm/abi.hpp"
#include "compiler/itm/journal.hpp"
#include "nvm/stm.h"

namespace nvm::itm {

// begin_x86_64.S knows this structure.
struct landing {
  std::uint64_t frame_end;  // the caller's stack pointer after the return
  std::uint64_t registers[6];
  std::uint64_t return_address;
  std::uint32_t mxcsr;
  std::uint16_t x87_control;
  std::uint16_t unused;
};
static_assert(sizeof(landing) == 72 && offsetof(landing, return_address) == 56 && offsetof(landing, mxcsr) == 64 &&
              offsetof(landing, x87_control) == 68);

struct level {
  landing back;
  std::uint32_t properties;
  std::uint32_t flat;        // begins inside that have no level of their own
  std::size_t journal_mark;  // the journal, the exceptions when it began
  std::size_t exceptions_mark;
  std::size_t caught_mark;
};

// An exception object made in the transaction.  Only its thread sees it, also code without barriers (its destructor).
struct own_exception {
  void* object;
  std::size_t bytes;
  bool thrown;
};

struct transaction {
  NVM_POOL* pool = nullptr;  // whose objects it allocates; NULL: volatile memory
  transaction_id id = no_transaction_id;
  std::vector<level> levels;
  itm::journal journal;
  std::vector<own_exception> exceptions;
  std::vector<void*> caught;  // objects of begun and not ended catches
};

// Looked at by each barrier.
struct thread_state {
  nvm_stm* stm = nullptr;  // NULL: no transaction
  std::uintptr_t frames_end = 0;
  bool inner = false;        // more than one level
  bool exceptions = false;   // transaction::exceptions is not empty
  bool irrevocable = false;  // it has announced that it goes on without barriers
  transaction* rest = nullptr;
};
// initial-exec: one instruction; the library is small enough for the room that the loader keeps for late libraries.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit thread_state this_thread;

inline std::uintptr_t stack_pointer() noexcept {
  std::uintptr_t sp;
  asm("movq %%rsp, %0" : "=r"(sp));
  return sp;
}

// Memory that only this thread uses.
inline bool in_own_frames(const thread_state& t, std::uintptr_t address) noexcept {
  const std::uintptr_t sp = stack_pointer();
  return address - sp < t.frames_end - sp;
}
bool in_own_exception(const transaction& tx, std::uintptr_t address) noexcept;
inline bool is_own(const thread_state& t, const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return in_own_frames(t, address) || (t.exceptions && in_own_exception(*t.rest, address));
}
// Before a write to own memory.
void keep_own(thread_state& t, const void* p, std::size_t n) noexcept;

// The transaction that a call belongs to; ends the process if there is none.
thread_state& open_transaction(const char* call) noexcept;
// From here on it cannot be rolled back, and code without barriers may run.
void become_irrevocable(thread_state& t) noexcept;

// Ends the process after a failure that cannot be reported to the program.  The next open rolls back the transactions
// that are open in a pool.
[[noreturn, gnu::format(printf, 1, 2)]] void fatal(const char* format, ...) noexcept;

}  // namespace nvm::itm
