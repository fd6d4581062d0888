#include "compiler/itm/transaction.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "compiler/itm/exceptions.hpp"
#include "compiler/itm/guard.hpp"
#include "compiler/itm/pool.hpp"

extern "C" {
// begin_x86_64.S
[[noreturn]] void nvm_itm_land(std::uint32_t action, const nvm::itm::landing* back);
std::uint32_t nvm_itm_begin(std::uint32_t properties, const nvm::itm::landing* back) noexcept;
}

namespace nvm::itm {

void fatal(const char* format, ...) noexcept {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "libnvm-itm: %s\n", text);
  std::abort();
}

bool in_own_exception(const transaction& tx, std::uintptr_t address) noexcept {
  for (const own_exception& e : tx.exceptions) {
    if (address - reinterpret_cast<std::uintptr_t>(e.object) < e.bytes) return true;
  }
  return false;
}

void keep_own(thread_state& t, const void* p, std::size_t n) noexcept try {
  if (!t.inner) return;
  // Frames of the innermost level die with it.
  if (reinterpret_cast<std::uintptr_t>(p) < t.rest->levels.back().back.frame_end) return;
  t.rest->journal.keep(p, n);
} catch (const std::bad_alloc&) {
  fatal("no memory to keep %zu bytes of the stack", n);
}

thread_state& open_transaction(const char* call) noexcept {
  thread_state& t = this_thread;
  if (t.stm == nullptr) fatal("%s is called outside of a transaction", call);
  return t;
}

namespace {

transaction& rest_of(thread_state& t) {
  if (t.rest == nullptr) {
    thread_local std::unique_ptr<transaction> owner = std::make_unique<transaction>();
    t.rest = owner.get();
  }
  return *t.rest;
}

transaction_id next_id() noexcept {
  // relaxed: only uniqueness counts.
  static std::atomic<transaction_id> last{no_transaction_id};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void forget(thread_state& t) noexcept {
  t.rest->levels.clear();
  t.rest->id = no_transaction_id;
  t.stm = nullptr;
  t.frames_end = 0;
  t.inner = false;
  t.irrevocable = false;
}

// Undoes the changes of level k and the levels inside it to the thread's own state; the STM has done its part. Frames
// from here to where the level began have ended.
void undo_from(thread_state& t, std::size_t k) noexcept {
  transaction& tx = *t.rest;
  const level l = tx.levels[k];
  tx.journal.undo(l.journal_mark, stack_pointer(), l.back.frame_end);
  drop_exceptions(t, l.exceptions_mark, l.caught_mark);
  tx.levels.resize(k + 1);
  tx.levels[k].flat = 0;
}

void restarted(nvm_stm* stm, int why, void* argument);

// Begins the STM's transaction for the outermost level; returns what the code has to do then.
std::uint32_t start(thread_state& t) noexcept {
  transaction& tx = *t.rest;
  level& outermost = tx.levels.front();
  t.inner = false;
  t.irrevocable = false;
  t.frames_end = outermost.back.frame_end;
  t.stm = nvm_stm_begin(tx.pool, restarted, &t);
  if (t.stm == nullptr) fatal("a transaction cannot begin: %s", nvm_errormsg());
  // The program may use memory that a transaction has unlinked outside of transactions.
  nvm_stm_quiesce_at_commit(t.stm);
  if ((outermost.properties & (has_instrumented_code | does_go_irrevocable)) == has_instrumented_code)
    return run_instrumented_code;
  become_irrevocable(t);
  return (outermost.properties & has_instrumented_code) != 0 ? run_instrumented_code : run_uninstrumented_code;
}

// Called by the STM, in the middle of the transaction's code, after it has rolled its part back: for each level, the
// innermost first, or for the innermost only when that cannot go on.
void restarted(nvm_stm* stm, int why, void* argument) {
  auto& t = *static_cast<thread_state*>(argument);
  transaction& tx = *t.rest;
  if (why != NVM_STM_CONFLICT && why != NVM_STM_RETRY) fatal("a transaction cannot go on: %s", nvm_errormsg());
  undo_from(t, tx.levels.size() - 1);
  if (tx.levels.size() > 1) {
    tx.levels.pop_back();
    nvm_stm_unwind(stm);
  }
  const std::uint32_t action = start(t) | restore_live_variables;
  nvm_itm_land(action, &tx.levels.front().back);
}

void commit(thread_state& t) noexcept {
  transaction& tx = *t.rest;
  level& innermost = tx.levels.back();
  if (innermost.flat != 0) {
    --innermost.flat;
    return;
  }
  if (tx.levels.size() > 1) {
    if (nvm_stm_commit(t.stm) != 0) fatal("an inner transaction cannot commit: %s", nvm_errormsg());
    tx.levels.pop_back();
    t.inner = tx.levels.size() > 1;
    return;
  }
  if (t.irrevocable) end_guard(t);
  if (nvm_stm_commit(t.stm) != 0) {
    // Commit actions have not run.
    fatal("a transaction %s: %s", nvm_errno() == NVM_E_IN_DOUBT ? "has committed, and is not durable" : "cannot commit",
          nvm_errormsg());
  }
  keep_exceptions(t);
  forget(t);
  tx.journal.finish();
}

}  // namespace

void become_irrevocable(thread_state& t) noexcept {
  if (t.irrevocable) return;
  nvm_stm_become_irrevocable(t.stm);
  if (nvm_stm_is_in_place(t.stm) == 0) {
    fatal("irrevocable transactions need another engine than redo, which keeps changes apart until the commit");
  }
  t.irrevocable = true;
  begin_guard(t);
}

}  // namespace nvm::itm

namespace itm = nvm::itm;

extern "C" {

std::uint32_t nvm_itm_begin(std::uint32_t properties, const itm::landing* back) noexcept try {
  itm::thread_state& t = itm::this_thread;
  itm::transaction& tx = itm::rest_of(t);
  if (t.stm == nullptr) {
    tx.pool = itm::pool_in_use();
    tx.id = itm::next_id();
    tx.levels.push_back({*back, properties, 0, 0, 0, 0});
    return itm::start(t) | itm::save_live_variables;
  }
  const bool plain_code_only = (properties & itm::has_instrumented_code) == 0;
  if (plain_code_only || (properties & itm::does_go_irrevocable) != 0) itm::become_irrevocable(t);
  if (t.irrevocable || (properties & itm::has_no_abort) != 0) {
    ++tx.levels.back().flat;
    // Barriers work in both modes, so the code that has them is always right.
    return plain_code_only ? itm::run_uninstrumented_code : itm::run_instrumented_code;
  }
  tx.levels.push_back({*back, properties, 0, tx.journal.mark(), tx.exceptions.size(), tx.caught.size()});
  if (nvm_stm_begin(tx.pool, itm::restarted, &t) == nullptr)
    itm::fatal("an inner transaction cannot begin: %s", nvm_errormsg());
  t.inner = true;
  return itm::run_instrumented_code | itm::save_live_variables;
} catch (const std::bad_alloc&) {
  itm::fatal("no memory to begin a transaction");
}

NVM_API void _ITM_commitTransaction() { itm::commit(itm::open_transaction("_ITM_commitTransaction")); }

// An exception leaves the transaction, which commits; the exception goes on.
NVM_API void _ITM_commitTransactionEH(void*) { itm::commit(itm::open_transaction("_ITM_commitTransactionEH")); }

[[noreturn]] NVM_API void _ITM_abortTransaction(std::uint32_t reason) {
  itm::thread_state& t = itm::open_transaction("_ITM_abortTransaction");
  itm::transaction& tx = *t.rest;
  if (t.irrevocable) itm::fatal("an irrevocable transaction cannot be cancelled");
  if ((reason & itm::user_retry) != 0) nvm_stm_retry(t.stm);
  if ((reason & itm::user_abort) == 0) itm::fatal("_ITM_abortTransaction knows no reason %u", reason);
  if ((reason & itm::outer_abort) != 0 || tx.levels.size() == 1) {
    for (std::size_t k = tx.levels.size(); k-- > 0;) nvm_stm_rollback(t.stm);
    itm::undo_from(t, 0);
    const itm::landing back = tx.levels.front().back;
    itm::forget(t);
    nvm_itm_land(itm::abort_transaction | itm::restore_live_variables, &back);
  }
  nvm_stm_rollback(t.stm);
  itm::undo_from(t, tx.levels.size() - 1);
  const itm::landing back = tx.levels.back().back;
  tx.levels.pop_back();
  t.inner = tx.levels.size() > 1;
  nvm_itm_land(itm::abort_transaction | itm::restore_live_variables, &back);
}

// There is one mode to change to: serial and irrevocable.
NVM_API void _ITM_changeTransactionMode(int) {
  itm::become_irrevocable(itm::open_transaction("_ITM_changeTransactionMode"));
}

NVM_API int _ITM_inTransaction() {
  const itm::thread_state& t = itm::this_thread;
  if (t.stm == nullptr) return itm::outside_transaction;
  return t.irrevocable ? itm::in_irrevocable_transaction : itm::in_retryable_transaction;
}

NVM_API itm::transaction_id _ITM_getTransactionId() {
  const itm::thread_state& t = itm::this_thread;
  return t.stm == nullptr ? itm::no_transaction_id : t.rest->id;
}

// The id names a transaction after which the action may run; the only one with an id is the outermost, so the action
// runs when that has committed.
NVM_API void _ITM_addUserCommitAction(itm::user_action action, itm::transaction_id, void* argument) try {
  itm::open_transaction("_ITM_addUserCommitAction").rest->journal.on_commit(action, argument);
} catch (const std::bad_alloc&) {
  itm::fatal("no memory for a commit action");
}

NVM_API void _ITM_addUserUndoAction(itm::user_action action, void* argument) try {
  itm::open_transaction("_ITM_addUserUndoAction").rest->journal.on_undo(action, argument);
} catch (const std::bad_alloc&) {
  itm::fatal("no memory for an undo action");
}

// A hint that bytes will not be read again in the transaction; it may be ignored.
NVM_API void _ITM_dropReferences(void*, std::size_t) {}

NVM_API const char* _ITM_libraryVersion() { return "holdfast libnvm-itm, Intel TM ABI 1.0"; }

// The ABI's version is 0.90 to libitm and so to all programs.
NVM_API int _ITM_versionCompatible(int version) { return static_cast<int>(version == 90); }

struct source_location {
  std::uint32_t reserved_1, flags, reserved_2, reserved_3;
  const char* text;
};
[[noreturn]] NVM_API void _ITM_error(const source_location* where, int code) {
  itm::fatal("the program reports error %d%s%s", code, where != nullptr && where->text != nullptr ? " at " : "",
             where != nullptr && where->text != nullptr ? where->text : "");
}

}  // extern "C"
