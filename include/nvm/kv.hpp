// Holdfast: the C++ face (C++17 and later) over kv.h.
//
//   auto pool = nvm::pool::open("/dev/shm/shop");
//   auto orders = nvm::kv::open(*pool, "orders");
//   if (!orders->put("2024-17", "3 apples")) std::puts(nvm_errormsg());
//   if (auto order = orders->get("2024-17")) std::puts(order->c_str());
//   for (auto [key, value] : orders->entries()) std::cout << key << ' ' << value << '\n';
//
// Keys and values are bytes: std::string_view of anything.  Failures are values; nvm_errno() and nvm_errormsg() say
// why. Inside nvm::atomic() every call is part of that transaction.
#ifndef NVM_KV_HPP
#define NVM_KV_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nvm/kv.h"
#include "nvm/nvm.hpp"

namespace nvm {

template <class T>
using kv_answer = answer<T>;

// Which entries a cursor meets; see nvm_kv_range.  The keys must live until the cursor is open.
struct kv_range {
  std::optional<std::string_view> from{};
  std::optional<std::string_view> to{};
  std::uint64_t limit = 0;
  bool backward = false;
  bool exclusive = false;
};

// Goes from entry to entry; see nvm_kv_cursor.
class kv_cursor {
 public:
  struct entry {
    std::string_view key;  // valid until the cursor goes on
    std::string_view value;
  };

  kv_cursor(nvm_kv *store, const kv_range &range) noexcept {
    nvm_kv_range r{};
    if (range.from) {
      r.from = range.from->data() == nullptr ? "" : range.from->data();
      r.from_bytes = range.from->size();
    }
    if (range.to) {
      r.to = range.to->data() == nullptr ? "" : range.to->data();
      r.to_bytes = range.to->size();
    }
    r.limit = range.limit;
    r.backward = range.backward ? 1 : 0;
    r.exclusive = range.exclusive ? 1 : 0;
    cursor_.reset(nvm_kv_cursor_open(store, &r));
    if (!cursor_) code_ = nvm_errno();
  }

  // The next entry; nothing at the end, and after a failure.
  std::optional<entry> next() noexcept {
    if (!cursor_) return std::nullopt;
    nvm_kv_entry e;
    const int found = nvm_kv_cursor_next(cursor_.get(), &e);
    if (found < 0) code_ = nvm_errno();
    if (found <= 0) {
      cursor_.reset();
      return std::nullopt;
    }
    return entry{{static_cast<const char *>(e.key), e.key_bytes}, {static_cast<const char *>(e.value), e.value_bytes}};
  }
  // NVM_OK, or why there are no more entries.
  int code() const noexcept { return code_; }

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = entry;
    using difference_type = std::ptrdiff_t;
    using pointer = const entry *;
    using reference = const entry &;
    iterator() noexcept = default;
    explicit iterator(kv_cursor &of) noexcept : of_{&of}, at_{of.next()} {}
    reference operator*() const noexcept { return *at_; }
    pointer operator->() const noexcept { return &*at_; }
    iterator &operator++() noexcept {
      at_ = of_->next();
      return *this;
    }
    void operator++(int) noexcept { ++*this; }
    friend bool operator==(const iterator &a, const iterator &b) noexcept {
      return a.at_.has_value() == b.at_.has_value();
    }
    friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

   private:
    kv_cursor *of_ = nullptr;
    std::optional<entry> at_;
  };
  iterator begin() noexcept { return iterator{*this}; }
  iterator end() noexcept { return {}; }

 private:
  struct closer {
    void operator()(nvm_kv_cursor *c) const noexcept { nvm_kv_cursor_close(c); }
  };
  std::unique_ptr<nvm_kv_cursor, closer> cursor_;
  int code_ = NVM_OK;
};

// An open store; closes it at the end of its life, which may come after that of the pool.
class kv {
 public:
  static std::optional<kv> open(NVM_POOL *pool, const char *name, const nvm_kv_options &options = {}) noexcept {
    nvm_kv *handle = nvm_kv_open(pool, name, &options);
    if (handle == nullptr) return std::nullopt;
    return kv{handle};
  }
  static std::optional<kv> open(const pool &p, const char *name, const nvm_kv_options &options = {}) noexcept {
    return open(p.handle(), name, options);
  }
  static std::optional<kv> open(const pool &p, const char *name, nvm_kv_index index) noexcept {
    nvm_kv_options options{};
    options.index = index;
    return open(p.handle(), name, options);
  }

  nvm_kv *handle() const noexcept { return handle_.get(); }
  std::string_view name() const noexcept { return nvm_kv_name(handle()); }
  nvm_kv_index index() const noexcept { return nvm_kv_index_of(handle()); }

  outcome put(std::string_view key, std::string_view value, unsigned flags = 0) noexcept {
    const int done = nvm_kv_put_with(handle(), key.data(), key.size(), value.data(), value.size(), flags);
    return done == 0 ? outcome{} : outcome{nvm_errno()};
  }
  // May throw std::bad_alloc.
  kv_answer<std::string> get(std::string_view key) const {
    std::string value(small_bytes, '\0');
    for (;;) {
      std::size_t bytes = 0;
      const int found = nvm_kv_get(handle(), key.data(), key.size(), value.data(), value.size(), &bytes);
      if (found < 0) return kv_answer<std::string>::failed(nvm_errno());
      if (found == 0) return {};
      const bool whole = bytes <= value.size();
      value.resize(bytes);
      if (whole) return value;
    }
  }
  // Calls f(std::string_view value) with a copy that is valid during the call, when there is one.
  template <class F>
  kv_answer<bool> visit(std::string_view key, F &&f) const {
    struct context {
      F &f;
      std::exception_ptr thrown;
    } c{f, {}};
    const int found = nvm_kv_visit(
        handle(), key.data(), key.size(),
        [](const void *value, std::size_t bytes, void *argument) {
          auto *k = static_cast<context *>(argument);
          try {
            k->f(std::string_view{static_cast<const char *>(value), bytes});
          } catch (...) {
            k->thrown = std::current_exception();
          }
        },
        &c);
    if (c.thrown) std::rethrow_exception(c.thrown);
    if (found < 0) return kv_answer<bool>::failed(nvm_errno());
    if (found == 0) return {};
    return true;
  }
  // False also on failure (a damaged store, no memory): get() and visit() tell the two apart.
  [[nodiscard]] bool contains(std::string_view key) const noexcept {
    return nvm_kv_get(handle(), key.data(), key.size(), nullptr, 0, nullptr) == 1;
  }
  // True in the answer: there was an entry, and it is removed.
  kv_answer<bool> remove(std::string_view key) noexcept {
    const int removed = nvm_kv_remove(handle(), key.data(), key.size());
    if (removed < 0) return kv_answer<bool>::failed(nvm_errno());
    if (removed == 0) return {};
    return true;
  }
  // Calls f(std::string &value) with a copy of the value, which becomes the value unless f returns false or throws; an
  // exception goes on.  f may be called several times and must not use stores or transactions.
  template <class F>
  kv_answer<bool> update(std::string_view key, F &&f) {
    detail::check_verdict<std::invoke_result_t<F &, std::string &>>();
    struct context {
      F &f;
      std::exception_ptr thrown;
      std::size_t needed;
    } c{f, {}, 0};
    for (;;) {
      const std::size_t room = c.needed;
      c.needed = 0;
      c.thrown = nullptr;
      const int found = nvm_kv_update(
          handle(), key.data(), key.size(), room,
          [](void *value, std::size_t *bytes, std::size_t room_there, void *argument) {
            auto *k = static_cast<context *>(argument);
            k->needed = 0;
            k->thrown = nullptr;
            try {
              std::string copy(static_cast<const char *>(value), *bytes);
              if constexpr (std::is_void_v<std::invoke_result_t<F &, std::string &>>) {
                k->f(copy);
              } else {
                if (!detail::verdict_of(k->f(copy))) return 1;
              }
              if (copy.size() > room_there) {
                k->needed = copy.size();
                return 1;
              }
              if (!copy.empty()) std::memcpy(value, copy.data(), copy.size());
              *bytes = copy.size();
              return 0;
            } catch (...) {
              k->thrown = std::current_exception();
              return 1;
            }
          },
          &c);
      if (c.thrown) std::rethrow_exception(c.thrown);
      if (found < 0) return kv_answer<bool>::failed(nvm_errno());
      if (found == 0) return {};
      if (c.needed == 0) return true;
    }
  }
  kv_cursor entries(const kv_range &range = {}) const noexcept { return {handle(), range}; }
  kv_answer<std::uint64_t> size() const noexcept {
    const std::int64_t n = nvm_kv_size(handle());
    if (n < 0) return kv_answer<std::uint64_t>::failed(nvm_errno());
    return static_cast<std::uint64_t>(n);
  }
  kv_answer<nvm_kv_statistics> statistics() const noexcept {
    nvm_kv_statistics s;
    if (nvm_kv_get_statistics(handle(), &s) != 0) return kv_answer<nvm_kv_statistics>::failed(nvm_errno());
    return s;
  }

  // Takes over a handle of the caller, from nvm_kv_open_in() (nvm/store_kv.h) for example; empty for NULL.
  static std::optional<kv> of(nvm_kv *handle) noexcept {
    if (handle == nullptr) return std::nullopt;
    return kv{handle};
  }

 private:
  static constexpr std::size_t small_bytes = 256;
  struct closer {
    void operator()(nvm_kv *s) const noexcept { (void)nvm_kv_close(s); }
  };
  explicit kv(nvm_kv *handle) noexcept : handle_{handle} {}
  std::unique_ptr<nvm_kv, closer> handle_;
};

// Changes on stores of one pool that happen together or not at all, in their order.  Keeps copies; may throw
// std::bad_alloc.
class kv_batch {
 public:
  kv_batch &put(const kv &store, std::string_view key, std::string_view value, unsigned flags = 0) {
    return add(store, NVM_KV_PUT, flags, key, value);
  }
  kv_batch &remove(const kv &store, std::string_view key) { return add(store, NVM_KV_REMOVE, 0, key, {}); }
  std::size_t size() const noexcept { return operations_.size(); }
  void clear() noexcept {
    operations_.clear();
    copies_.clear();
  }
  outcome commit() noexcept {
    if (operations_.empty()) return {};
    const int done = nvm_kv_batch(nvm_kv_pool(operations_[0].kv), operations_.data(), operations_.size(), &failed_);
    return done == 0 ? outcome{} : outcome{nvm_errno()};
  }
  // Index of the operation that made the last commit() fail.
  std::size_t failed() const noexcept { return failed_; }

 private:
  kv_batch &add(const kv &store, std::uint32_t kind, unsigned flags, std::string_view key, std::string_view value) {
    const std::string &k = copies_.emplace_back(key);
    const std::string &v = copies_.emplace_back(value);
    operations_.push_back({store.handle(), kind, flags, k.data(), k.size(), v.data(), v.size()});
    return *this;
  }
  std::deque<std::string> copies_;  // a deque: their addresses stay
  std::vector<nvm_kv_operation> operations_;
  std::size_t failed_ = 0;
};

}  // namespace nvm
#endif
