// Holdfast: barrier transactions in C++ (C++17 and later) over stm.h.
//
//   nvm::outcome done = nvm::atomic(pool, [&](nvm::tx& tx) {
//     const long have = tx.load(&from->balance);
//     if (have < amount) tx.cancel();
//     tx.store(&from->balance, have - amount);
//     tx.store(&to->balance, tx.load(&to->balance) + amount);
//   });
//
// The body may run several times before it commits: it must set anything that it changes outside of transactions anew
// each time. A conflict leaves the body by an exception of the library; a body that swallows it (catch (...)) is left
// at its next access.
#ifndef NVM_STM_HPP
#define NVM_STM_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "nvm/nvm.hpp"
#include "nvm/stm.h"

namespace nvm {

class tx;

namespace detail {

// How a level is left.
struct level_left {
  int why;  // enum nvm_stm_why
};
[[noreturn]] inline void leave_by_exception(nvm_stm * /*tx*/, int why, void * /*argument*/) { throw level_left{why}; }

}  // namespace detail

// An open barrier transaction, in the body of atomic().
class tx {
 public:
  explicit tx(nvm_stm *handle) noexcept : handle_{handle} {}
  nvm_stm *handle() const noexcept { return handle_; }

  template <class T>
  [[nodiscard]] T load(const T *p) {
    return detail::load(handle_, p);
  }
  template <class T>
  void store(T *p, const typename detail::same<T>::type &value) {
    detail::store(handle_, p, value);
  }
  void read(void *to, const void *from, std::size_t n) { nvm_stm_read(handle_, to, from, n); }
  void write(void *to, const void *from, std::size_t n) { nvm_stm_write(handle_, to, from, n); }
  void copy(void *to, const void *from, std::size_t n) { nvm_stm_copy(handle_, to, from, n); }
  // Prepares stores to these ranges, which then wait together instead of one by one: nvm_stm_expect().
  void expect(const nvm_range *ranges, std::size_t count) { nvm_stm_expect(handle_, ranges, count); }
  void fill(void *to, int byte, std::size_t n) { nvm_stm_fill(handle_, to, byte, n); }
  [[nodiscard]] int compare(const void *shared, const void *mine, std::size_t n) {
    return nvm_stm_compare(handle_, shared, mine, n);
  }

  // Without room the level is rolled back and left; atomic() returns the code.
  [[nodiscard]] void *alloc(std::uint32_t type_id, std::size_t n) {
    void *made = nvm_stm_alloc(handle_, type_id, n);
    if (made == nullptr) cancel(nvm_errno());
    return made;
  }
  [[nodiscard]] void *alloc_aligned(std::uint32_t type_id, std::size_t n, std::size_t alignment) {
    void *made = nvm_stm_alloc_aligned(handle_, type_id, n, alignment);
    if (made == nullptr) cancel(nvm_errno());
    return made;
  }
  // A T in the pool, at a multiple of alignof(T); its constructor may store plainly, since the memory is private to
  // this transaction.
  template <class T, class... Arguments>
  [[nodiscard]] T *make(std::uint32_t type_id, Arguments &&...arguments) {
    detail::must_lie_in_pool<T>();
    return ::new (alloc_aligned(type_id, sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
  }
  // Volatile memory, given back if the transaction is rolled back.
  [[nodiscard]] void *malloc(std::size_t n) {
    void *made = nvm_stm_malloc(handle_, n);
    if (made == nullptr) cancel(nvm_errno());
    return made;
  }
  // Frees without calling a destructor.
  void free(void *p) {
    if (nvm_stm_free(handle_, p) != 0) cancel(nvm_errno());
  }

  template <class T>
  [[nodiscard]] T *root() {
    return static_cast<T *>(nvm_stm_get_root(handle_));
  }
  void set_root(void *object) {
    if (nvm_stm_set_root(handle_, object) != 0) cancel(nvm_errno());
  }

  [[noreturn]] void cancel(int code = NVM_E_MUST_ABORT) { nvm_stm_cancel(handle_, code); }
  [[noreturn]] void retry() { nvm_stm_retry(handle_); }
  void become_irrevocable() { nvm_stm_become_irrevocable(handle_); }

  // Copies f, which must not throw, and calls it once after the end, outside of the transaction.  on_commit(): when the
  // transaction is durable.
  template <class F>
  void on_commit(F f) {
    on(NVM_TX_ON_COMMIT, std::move(f));
  }
  // When the transaction is visible to others and not durable yet; on_commit() or on_in_doubt() follow.
  template <class F>
  void on_ordered(F f) {
    on(NVM_TX_ON_ORDERED, std::move(f));
  }
  // When the sync of the commit has failed: atomic() returns NVM_E_IN_DOUBT.
  template <class F>
  void on_in_doubt(F f) {
    on(NVM_TX_ON_IN_DOUBT, std::move(f));
  }
  template <class F>
  void on_abort(F f) {
    on(NVM_TX_ON_ABORT, std::move(f));
  }

 private:
  // The function lives until the last of the hooks that can run has run.
  template <class F>
  void on(nvm_tx_event when, F f) {
    struct call {
      F f;
      nvm_tx_event when;
      static void run(NVM_POOL * /*pool*/, nvm_tx_event event, void *argument) noexcept {
        call *c = static_cast<call *>(argument);
        if (event == c->when) c->f();
        if (event != NVM_TX_ON_ORDERED) delete c;
      }
    };
    call *c = new call{std::move(f), when};
    // ABORT last: after a registration that fails, the earlier ones never run.
    for (const nvm_tx_event event : {NVM_TX_ON_ORDERED, NVM_TX_ON_COMMIT, NVM_TX_ON_IN_DOUBT, NVM_TX_ON_ABORT}) {
      if (event == NVM_TX_ON_ORDERED && when != event) continue;
      if (nvm_stm_on(handle_, event, call::run, c) != 0) {
        delete c;
        cancel(nvm_errno());
      }
    }
  }

  nvm_stm *handle_;
};

// Runs body(tx), or body(), as a transaction, or as a savepoint when this thread has one open; `pool` as for
// nvm_stm_run().  True: committed and durable; NVM_E_IN_DOUBT as for nvm_stm_commit().  A body that returns false or an
// outcome that is false, or throws, is rolled back; an exception goes on to the caller.  tx.cancel(code): rolled back,
// an outcome with the code.
template <class Body>
outcome atomic(NVM_POOL *pool, Body &&body) {
  unsigned depth = 1;
  if (nvm_stm *around = nvm_stm_current(); around != nullptr) {
    nvm_stm_check(around);
    depth = nvm_stm_depth(around) + 1;
  }
  for (;;) {
    nvm_stm *handle = nvm_stm_begin(pool, detail::leave_by_exception, nullptr);
    if (handle == nullptr) return outcome{nvm_errno()};
    const auto gone = [&] { return nvm_stm_depth(handle) != depth; };
    const auto run = [&] {
      tx t{handle};
      if constexpr (std::is_invocable_v<Body &, tx &>) {
        return body(t);
      } else {
        return body();
      }
    };
    try {
      detail::check_verdict<decltype(run())>();
      if constexpr (std::is_void_v<decltype(run())>) {
        run();
      } else {
        const outcome wanted = detail::verdict_of(run());
        if (!gone() && !wanted) {
          // A commit after a failure rolls back, and says what the failure was.
          if (nvm_tx_cause(nullptr) != NVM_OK) {
            return nvm_stm_commit(handle) == 0 ? outcome{} : outcome{nvm_errno()};
          }
          nvm_stm_rollback(handle);
          return detail::refused(wanted);
        }
      }
      if (!gone()) return nvm_stm_commit(handle) == 0 ? outcome{} : outcome{nvm_errno()};
      // The body has swallowed the exception that was to end it.
      nvm_stm_check(handle);
      return outcome{nvm_stm_code(handle)};
    } catch (const detail::level_left &left) {
      if (left.why == NVM_STM_CANCEL || left.why == NVM_STM_FAILED) return outcome{nvm_stm_code(handle)};
      if (depth > 1) nvm_stm_unwind(handle);
    } catch (...) {
      if (nvm_stm_depth(handle) == depth) {
        nvm_stm_rollback(handle);
        throw;
      }
      if (nvm_stm_depth(handle) != 0) throw;  // thrown by a body that had been cancelled
      // A body that goes on after it was rolled back: its exception never happened.
      if (nvm_stm_current() == nullptr) throw;
      if (depth > 1) nvm_stm_unwind(handle);
    }
  }
}
template <class Body>
outcome atomic(const pool &p, Body &&body) {
  return atomic(p.handle(), std::forward<Body>(body));
}
// Volatile memory only.
template <class Body>
outcome atomic(Body &&body) {
  return atomic(static_cast<NVM_POOL *>(nullptr), std::forward<Body>(body));
}

}  // namespace nvm
#endif
