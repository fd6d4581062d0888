// Holdfast: the C++ face (C++17 and later) over nvm.h.
//
// A pool is an object, a transaction a function call, a durable field a type that announces its own changes:
//
//   struct account { nvm::p<long> balance; };
//   auto pool = nvm::pool::open("/dev/shm/bank");
//   auto* a = pool->root<account>();
//   if (!nvm::transaction(*pool, [&] { a->balance += 10; })) std::puts(nvm_errormsg());
//
// Failures are values: an empty optional, a null pointer, an outcome that is false; nvm_errno() and nvm_errormsg() say
// why.  Exceptions come from the caller's own code only: a body that throws is rolled back and the exception goes on.
#ifndef NVM_NVM_HPP
#define NVM_NVM_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "nvm/nvm.h"
#include "nvm/pool_type.hpp"
#include "nvm/stm.h"

namespace nvm {

// Result of a transaction: true when it is durable, else the enum nvm_error it failed with, everything rolled back.
// After NVM_E_IN_DOUBT memory has the changes, and the next open finds all of them or none (nvm_tx_commit()).
// A body returns this, bool or void.  No other type is a verdict: a C programmer's `return 0;` means success, and a
// null pointer may mean anything.
class [[nodiscard]] outcome {
 public:
  outcome() noexcept = default;
  explicit outcome(int code) noexcept : code_{code} {}
  explicit operator bool() const noexcept { return code_ == NVM_OK; }
  int code() const noexcept { return code_; }
  // True: not rolled back, and perhaps not durable.
  bool in_doubt() const noexcept { return code_ == NVM_E_IN_DOUBT; }

 private:
  int code_ = NVM_OK;
};

// What a look-up found: true when there is something; code() tells "there is none" (NVM_OK) from a failure.
template <class T>
class [[nodiscard]] answer {
 public:
  answer() noexcept = default;
  answer(T value) noexcept : value_{std::move(value)} {}
  static answer failed(int code) noexcept {
    answer a;
    a.code_ = code;
    return a;
  }
  explicit operator bool() const noexcept { return value_.has_value(); }
  bool has_value() const noexcept { return value_.has_value(); }
  T &operator*() noexcept { return *value_; }
  const T &operator*() const noexcept { return *value_; }
  T *operator->() noexcept { return &*value_; }
  const T *operator->() const noexcept { return &*value_; }
  int code() const noexcept { return code_; }

 private:
  std::optional<T> value_;
  int code_ = NVM_OK;
};

// Owns an open pool; closes it at the end of its life.  If that is refused (a transaction is open, a thread is inside
// of a lock-free structure) the pool stays open until the process ends; close() tells of it.
class pool {
 public:
  static std::optional<pool> create(const char *path, const nvm_pool_options &options = {}) noexcept {
    return take(nvm_pool_create_with(path, &options));
  }
  static std::optional<pool> open(const char *path, const nvm_pool_options &options = {}) noexcept {
    return take(nvm_pool_open_with(path, &options));
  }
  static std::optional<pool> open_or_create(const char *path, const nvm_pool_options &options = {}) noexcept {
    return take(nvm_pool_open_or_create(path, &options));
  }
  NVM_POOL *handle() const noexcept { return handle_.get(); }

  // The root as a T, null when unset, or if it cannot be read: see read_root().  The caller knows the type; see
  // nvm_type_of().
  template <class T>
  T *root() const noexcept {
    return static_cast<T *>(nvm_pool_get_root(handle()));
  }
  // The same into `root`; false, and null, if it cannot be read.
  template <class T>
  outcome read_root(T *&root) const noexcept {
    void *found = nullptr;
    const bool good = nvm_pool_read_root(handle(), &found) == 0;
    root = static_cast<T *>(found);
    return good ? outcome{} : outcome{nvm_errno()};
  }
  outcome set_root(void *object) noexcept {
    return nvm_pool_set_root(handle(), object) == 0 ? outcome{} : outcome{nvm_errno()};
  }
  // Closes now, and with it the stores and structures in it; false (and the pool stays open) while a transaction is
  // open in it or a thread inside of a structure.
  outcome close() noexcept {
    if (nvm_pool_close(handle()) != 0) return outcome{nvm_errno()};
    (void)handle_.release();
    return {};
  }

 private:
  struct closer {
    void operator()(NVM_POOL *p) const noexcept { (void)nvm_pool_close(p); }
  };
  explicit pool(NVM_POOL *handle) noexcept : handle_{handle} {}
  static std::optional<pool> take(NVM_POOL *handle) noexcept {
    if (handle == nullptr) return std::nullopt;
    return pool{handle};
  }
  std::unique_ptr<NVM_POOL, closer> handle_;
};

namespace detail {

// What the body of a transaction may return.
template <class Result>
constexpr void check_verdict() noexcept {
  using plain = std::remove_cv_t<std::remove_reference_t<Result>>;
  static_assert(std::is_void_v<plain> || std::is_same_v<plain, bool> || std::is_same_v<plain, outcome>,
                "the body of a transaction returns nothing, a bool (false: roll back) or an nvm::outcome; "
                "an int or a pointer would be taken for that bool: write `return x != 0;`, or end with `return true;`");
}
inline outcome verdict_of(bool wanted) noexcept { return wanted ? outcome{} : outcome{NVM_E_MUST_ABORT}; }
inline outcome verdict_of(outcome o) noexcept { return o; }
// The body's answer becomes this thread's failure, unless it is that already.
inline outcome refused(outcome wanted) noexcept {
  if (wanted.code() == NVM_E_MUST_ABORT || nvm_errno() != wanted.code()) {
    (void)nvm_fail(wanted.code(), "the body of the transaction returned false");
  }
  return wanted;
}

}  // namespace detail

// Runs body() as a transaction, or as a savepoint when one is open in the pool.  A body that returns false or an
// outcome that is false, or throws, is rolled back; an exception goes on to the caller.
template <class Body>
outcome transaction(NVM_POOL *pool, Body &&body) {
  using verdict = std::invoke_result_t<Body>;
  detail::check_verdict<verdict>();
  if (nvm_tx_begin(pool) != 0) return outcome{nvm_errno()};
  struct guard {
    NVM_POOL *pool;
    ~guard() {
      if (pool != nullptr) (void)nvm_tx_abort(pool);
    }
  } undo{pool};
  if constexpr (std::is_void_v<verdict>) {
    std::forward<Body>(body)();
  } else {
    if (const outcome wanted = detail::verdict_of(std::forward<Body>(body)()); !wanted) {
      // A commit after a failure rolls back, and says what the failure was.
      if (nvm_tx_cause(pool) != NVM_OK) {
        undo.pool = nullptr;
        return nvm_tx_commit(pool) == 0 ? outcome{} : outcome{nvm_errno()};
      }
      return detail::refused(wanted);
    }
  }
  undo.pool = nullptr;
  return nvm_tx_commit(pool) == 0 ? outcome{} : outcome{nvm_errno()};
}
template <class Body>
outcome transaction(const pool &p, Body &&body) {
  return transaction(p.handle(), std::forward<Body>(body));
}

namespace detail {

template <class T>
struct same {
  using type = T;  // not deduced
};

template <class T>
union room_for {
  room_for() noexcept {}
  T value;
  std::uint64_t word;
};

// Barriers of any type whose bytes may be copied.
template <class T>
T load(nvm_stm *tx, const T *p) {
  static_assert(std::is_trivially_copyable_v<T>, "bytes of shared memory are copied as such");
  const void *from = p;
  room_for<T> to;
  if constexpr (sizeof(T) == 8) {
    const std::uint64_t word = nvm_stm_load64(tx, static_cast<const std::uint64_t *>(from));
    std::memcpy(static_cast<void *>(&to), &word, sizeof word);
  } else if constexpr (sizeof(T) == 4) {
    const std::uint32_t word = nvm_stm_load32(tx, static_cast<const std::uint32_t *>(from));
    std::memcpy(static_cast<void *>(&to), &word, sizeof word);
  } else if constexpr (sizeof(T) == 2) {
    const std::uint16_t word = nvm_stm_load16(tx, static_cast<const std::uint16_t *>(from));
    std::memcpy(static_cast<void *>(&to), &word, sizeof word);
  } else if constexpr (sizeof(T) == 1) {
    const std::uint8_t word = nvm_stm_load8(tx, static_cast<const std::uint8_t *>(from));
    std::memcpy(static_cast<void *>(&to), &word, sizeof word);
  } else {
    nvm_stm_read(tx, &to, from, sizeof(T));
  }
  return to.value;
}
template <class T>
void store(nvm_stm *tx, T *p, const T &value) {
  static_assert(std::is_trivially_copyable_v<T>, "bytes of shared memory are copied as such");
  void *to = p;
  if constexpr (sizeof(T) == 8) {
    std::uint64_t word;
    std::memcpy(&word, &value, sizeof word);
    nvm_stm_store64(tx, static_cast<std::uint64_t *>(to), word);
  } else if constexpr (sizeof(T) == 4) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    nvm_stm_store32(tx, static_cast<std::uint32_t *>(to), word);
  } else {
    nvm_stm_write(tx, to, &value, sizeof value);
  }
}

}  // namespace detail

// A durable field: assignment announces the old bytes, then stores.  Reads are plain.  If the announcement fails the
// store is left out, and the transaction allows only abort.  Assigning to a field in a pool without a transaction is
// misuse: a message with the place and abort(), or the handler of nvm_set_misuse_handler().  Outside of a pool the
// field is an ordinary T.
//
// Inside nvm::atomic() (stm.hpp) and nvm_stm_run() reads and writes are barriers of that transaction, wherever the
// field lies; a read then may leave the body, by an exception or longjmp.
template <class T>
class p {
  static_assert(std::is_trivially_copyable_v<T>, "bytes of a durable field are copied and restored as such");
  static_assert((detail::must_lie_in_pool<T>(), true));

 public:
  p() noexcept = default;
  p(const T &value) noexcept : value_{value} {}
  p(const p &other) : value_{other.get()} {}
  [[gnu::always_inline]] inline p &operator=(const p &other) {
    assign(other.get());
    return *this;
  }
  [[gnu::always_inline]] inline p &operator=(const T &value) {
    assign(value);
    return *this;
  }
  operator T() const { return get(); }
  T get() const {
    nvm_stm *tx = nvm_stm_of_thread;
    return tx == nullptr ? value_ : detail::load(tx, &value_);
  }
  T operator->() const { return get(); }

  template <class U>
  [[gnu::always_inline]] inline p &operator+=(const U &by) {
    return *this = static_cast<T>(get() + by);
  }
  template <class U>
  [[gnu::always_inline]] inline p &operator-=(const U &by) {
    return *this = static_cast<T>(get() - by);
  }
  template <class U>
  [[gnu::always_inline]] inline p &operator*=(const U &by) {
    return *this = static_cast<T>(get() * by);
  }
  template <class U>
  [[gnu::always_inline]] inline p &operator|=(const U &by) {
    return *this = static_cast<T>(get() | by);
  }
  template <class U>
  [[gnu::always_inline]] inline p &operator&=(const U &by) {
    return *this = static_cast<T>(get() & by);
  }
  template <class U>
  [[gnu::always_inline]] inline p &operator^=(const U &by) {
    return *this = static_cast<T>(get() ^ by);
  }
  [[gnu::always_inline]] inline p &operator++() { return *this += 1; }
  [[gnu::always_inline]] inline p &operator--() { return *this -= 1; }
  [[gnu::always_inline]] inline T operator++(int) {
    const T before = get();
    *this = static_cast<T>(before + 1);
    return before;
  }
  [[gnu::always_inline]] inline T operator--(int) {
    const T before = get();
    *this = static_cast<T>(before - 1);
    return before;
  }

 private:
  // Inlined always, so that the caller that a misuse message names is the program's own code.
  [[gnu::always_inline]] inline void assign(const T &value) {
    if (nvm_stm *tx = nvm_stm_of_thread; tx != nullptr) {
      detail::store(tx, &value_, value);
    } else if (nvm_tx_log_or_fail(&value_, sizeof value_) == 0) {
      value_ = value;
    }
  }

  T value_;
};

namespace detail {

// A pointer in a durable object, as p<T *>: assignment announces the old value, and inside nvm::atomic() (stm.hpp)
// loads and stores are barriers.
template <class T>
class pointer_field {
 public:
  pointer_field() noexcept = default;
  pointer_field(T *to) noexcept : to_{to} {}
  pointer_field(const pointer_field &other) = default;
  [[gnu::always_inline]] inline pointer_field &operator=(const pointer_field &other) {
    to_ = other.to_;
    return *this;
  }
  [[gnu::always_inline]] inline pointer_field &operator=(T *to) {
    to_ = to;
    return *this;
  }
  operator T *() const { return to_.get(); }
  T *get() const { return to_.get(); }
  T *operator->() const { return to_.get(); }

 private:
  p<T *> to_;
};

}  // namespace detail

// A reference in a durable object, of which type maps say NVM_PTR: where the pool counts references
// (nvm_pool_options.collect), an object lives as long as there is one.  A p<T *> is counted as well; a ref names that
// purpose, and does no arithmetic.
template <class T>
class ref : public detail::pointer_field<T> {
 public:
  using detail::pointer_field<T>::pointer_field;
  using detail::pointer_field<T>::operator=;
  ref() noexcept = default;
  ref(const ref &other) = default;
  [[gnu::always_inline]] inline ref &operator=(const ref &other) {
    detail::pointer_field<T>::operator=(other);
    return *this;
  }
};

// A weak pointer in a durable object, of which type maps say NVM_WEAK_PTR: it keeps nothing alive, and becomes null
// before the memory of the object can become anything else.  nvm::lock() (gc.hpp) asks whether its object lives.
template <class T>
class weak : public detail::pointer_field<T> {
 public:
  using detail::pointer_field<T>::pointer_field;
  using detail::pointer_field<T>::operator=;
  weak() noexcept = default;
  weak(const weak &other) = default;
  [[gnu::always_inline]] inline weak &operator=(const weak &other) {
    detail::pointer_field<T>::operator=(other);
    return *this;
  }
};

// Constructs a T in the pool's open transaction, at a multiple of alignof(T); null: no room.  If the constructor
// throws, the memory is freed.  A T whose memory is elsewhere, std::string say, does not compile: pool_type.hpp.
template <class T, class... Arguments>
[[nodiscard]] T *make(NVM_POOL *pool, std::uint32_t type_id, Arguments &&...arguments) {
  detail::must_lie_in_pool<T>();
  void *room = nvm_alloc_aligned(pool, type_id, sizeof(T), alignof(T));
  if (room == nullptr) return nullptr;
  struct guard {
    NVM_POOL *pool;
    void *room;
    ~guard() {
      if (room != nullptr) (void)nvm_free(pool, room);
    }
  } give_back{pool, room};
  T *object = ::new (room) T(std::forward<Arguments>(arguments)...);
  give_back.room = nullptr;
  return object;
}
template <class T, class... Arguments>
[[nodiscard]] T *make(const pool &p, std::uint32_t type_id, Arguments &&...arguments) {
  return make<T>(p.handle(), type_id, std::forward<Arguments>(arguments)...);
}

// Destroys and frees in the pool's open transaction.
template <class T>
outcome destroy(NVM_POOL *pool, T *object) noexcept {
  if (object == nullptr) return {};
  // Announced first: if the transaction aborts, the object is whole again.
  if (nvm_tx_log(object, sizeof *object) != 0) return outcome{nvm_errno()};
  object->~T();
  return nvm_free(pool, object) == 0 ? outcome{} : outcome{nvm_errno()};
}
template <class T>
outcome destroy(const pool &p, T *object) noexcept {
  return destroy(p.handle(), object);
}

}  // namespace nvm
#endif
