// Holdfast: the C++ face (C++17 and later) over lockfree.h.
//
//   auto hits = nvm::lf_map<std::uint64_t, std::uint64_t>::open(pool, "hits");   // made if need be, a hash table
//   if (!hits->put(42, 1)) std::puts(nvm_errormsg());
//   if (auto n = hits->get(42)) use(*n);
//
//   auto names = nvm::lf_map<std::string, session>::open(pool, "sessions", {NVM_LF_SKIP_LIST});
//   for (const auto &[id, s] : names->entries_from("2024-")) show(id, s);        // in the order of the keys
//
// Keys and values are std::string, any bytes, or types that are nothing but their bytes (std::is_trivially_copyable).
// Where both are of the latter kind and have 8 bytes at most, the structure holds words, otherwise bytes.  Keys that
// are integers or enumerations are ordered as numbers, std::string as memcmp() does, others byte by byte; they have no
// padding.  A key or value that is no std::string must mean something to the next process.
//
// Failures are values; nvm_errno() and nvm_errormsg() say why.  Threads: any, on one object too.  Durability, cost and
// results as those of lockfree.h.
#ifndef NVM_LOCKFREE_HPP
#define NVM_LOCKFREE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nvm/lockfree.h"
#include "nvm/nvm.hpp"

namespace nvm {

// Between nvm_lf_enter() and nvm_lf_leave(): entries that this thread finds stay what they are while it lives, however
// the block is left.  False: nvm_lf_enter() failed, see nvm_errno().  Guards nest; each belongs to its thread.
//
//   if (nvm::lf_guard inside{sessions}) {
//     nvm_lf_entry e;
//     if (nvm_lf_find(sessions, key.data(), key.size(), &e) == 1) show(e);  // e stays what it is until the guard ends
//   }
class [[nodiscard]] lf_guard {
 public:
  explicit lf_guard(nvm_lf *structure) noexcept : inside_{nvm_lf_enter(structure) == 0 ? structure : nullptr} {}
  lf_guard(lf_guard &&other) noexcept : inside_{std::exchange(other.inside_, nullptr)} {}
  lf_guard &operator=(lf_guard &&other) noexcept {
    if (this != &other) {
      leave();
      inside_ = std::exchange(other.inside_, nullptr);
    }
    return *this;
  }
  ~lf_guard() { leave(); }

  explicit operator bool() const noexcept { return inside_ != nullptr; }
  // Before the end of its life.
  void leave() noexcept {
    if (inside_ != nullptr) (void)nvm_lf_leave(std::exchange(inside_, nullptr));
  }

 private:
  nvm_lf *inside_;
};

// How a structure is opened, and of a new one what it is: see nvm_lf_options.  NVM_LF_BYTES is set where it must be.
struct lf_settings {
  nvm_lf_kind kind = nvm_lf_kind{};  // 0: its own; a new one is a hash table
  unsigned flags = 0;
  std::uint64_t expected = 0;
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint32_t allocation = 0;
  std::uint32_t recovery = 0;
  std::uint32_t area_bytes = 0;
};

enum class lf_done { nothing, inserted, replaced, removed };

namespace detail {

struct lf_nothing {};  // the value of a set

// How an integer is 8 bytes, or as many as it has, that are ordered as it is.
template <class T>
constexpr std::uint64_t lf_order_of_number(T n) noexcept {
  if constexpr (std::is_enum_v<T>) {
    return lf_order_of_number(static_cast<std::underlying_type_t<T>>(n));
  } else {
    constexpr std::uint64_t lowest = std::is_signed_v<T> ? std::uint64_t{1} << (8 * sizeof(T) - 1) : 0;
    return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(n)) ^ lowest;
  }
}
template <class T>
constexpr T lf_number_of_order(std::uint64_t order) noexcept {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(lf_number_of_order<std::underlying_type_t<T>>(order));
  } else {
    constexpr std::uint64_t lowest = std::is_signed_v<T> ? std::uint64_t{1} << (8 * sizeof(T) - 1) : 0;
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(order ^ lowest));
  }
}
template <class T>
inline constexpr bool lf_is_number = (std::is_integral_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T>;
template <class T>
inline constexpr bool lf_is_text = std::is_same_v<T, std::string>;
template <class T>
inline constexpr std::size_t lf_size = std::is_empty_v<T> ? 0 : sizeof(T);

template <class T>
constexpr void lf_must_be_bytes() noexcept {
  if constexpr (!lf_is_text<T>) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_reference_v<T>,
                  "keys and values of nvm::lf_map and nvm::lf_set are std::string, or types that are nothing but their "
                  "bytes; a pointer means nothing to the next process");
    static_assert(std::is_default_constructible_v<T>, "keys and values of nvm::lf_map are made before they are read");
    must_lie_in_pool<T>();
  }
}
template <class T>
constexpr void lf_must_be_key() noexcept {
  lf_must_be_bytes<T>();
  if constexpr (!lf_is_text<T>) {
    static_assert(std::has_unique_object_representations_v<T>,
                  "keys of nvm::lf_map and nvm::lf_set that are equal have equal bytes: no padding, no floating point");
  }
}

// The parameter of a function that takes a key or a value.
template <class T>
using lf_taken = std::conditional_t<lf_is_text<T>, std::string_view, const T &>;

// The bytes of a key, while it lives.
template <class K>
class lf_key_bytes {
 public:
  explicit lf_key_bytes(const K &key) noexcept {
    if constexpr (lf_is_number<K>) {
      const std::uint64_t order = lf_order_of_number(key);
      for (std::size_t i = 0; i < sizeof(K); ++i) bytes_[i] = static_cast<char>(order >> (8 * (sizeof(K) - 1 - i)));
    } else {
      std::memcpy(bytes_.data(), &key, sizeof(K));
    }
  }
  const void *data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  // Nothing: no key of this type has such bytes.
  static std::optional<K> key_of(const void *data, std::size_t size) noexcept {
    if (size != sizeof(K)) return std::nullopt;
    if constexpr (lf_is_number<K>) {
      std::uint64_t order = 0;
      for (std::size_t i = 0; i < size; ++i) order = order << 8 | static_cast<const unsigned char *>(data)[i];
      return lf_number_of_order<K>(order);
    } else {
      std::array<char, sizeof(K)> copy;
      std::memcpy(copy.data(), data, size);
      K key;
      std::memcpy(static_cast<void *>(&key), copy.data(), size);
      return key;
    }
  }

 private:
  std::array<char, sizeof(K)> bytes_;
};
template <>
class lf_key_bytes<std::string> {
 public:
  explicit lf_key_bytes(std::string_view key) noexcept : key_{key} {}
  const void *data() const noexcept { return key_.data(); }
  std::size_t size() const noexcept { return key_.size(); }
  static std::optional<std::string> key_of(const void *data, std::size_t size) {
    return std::string{static_cast<const char *>(data), size};
  }

 private:
  std::string_view key_;
};

// The word of a key.
template <class K>
std::uint64_t lf_key_word(const K &key) noexcept {
  if constexpr (lf_is_number<K>) {
    return lf_order_of_number(key);
  } else {
    const lf_key_bytes<K> bytes{key};
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < sizeof(K); ++i) word = word << 8 | static_cast<const unsigned char *>(bytes.data())[i];
    return word;
  }
}
template <class K>
K lf_key_of_word(std::uint64_t word) noexcept {
  if constexpr (lf_is_number<K>) {
    return lf_number_of_order<K>(word);
  } else {
    std::array<unsigned char, sizeof(K)> bytes;
    for (std::size_t i = sizeof(K); i-- > 0; word >>= 8) bytes[i] = static_cast<unsigned char>(word);
    K key;
    std::memcpy(static_cast<void *>(&key), bytes.data(), sizeof(K));
    return key;
  }
}

// Nothing: no value of this type has such bytes.
template <class V>
std::optional<V> lf_value_of(const void *data, std::size_t size) {
  if constexpr (lf_is_text<V>) {
    return std::string{static_cast<const char *>(data), size};
  } else {
    if (size != lf_size<V>) return std::nullopt;
    V value{};
    if constexpr (lf_size<V> != 0) std::memcpy(static_cast<void *>(&value), data, size);
    return value;
  }
}
template <class V>
std::uint64_t lf_value_word(const V &value) noexcept {
  std::uint64_t word = 0;
  if constexpr (lf_size<V> != 0) std::memcpy(&word, &value, sizeof(V));
  return word;
}
template <class V>
V lf_value_of_word(std::uint64_t word) noexcept {
  V value{};
  if constexpr (lf_size<V> != 0) std::memcpy(static_cast<void *>(&value), &word, sizeof(V));
  return value;
}
template <class V>
std::string_view lf_value_bytes(const V &value) noexcept {
  if constexpr (lf_is_text<V>) {
    return value;
  } else {
    return {reinterpret_cast<const char *>(&value), lf_size<V>};
  }
}

inline answer<bool> lf_answer(int done) noexcept {
  if (done < 0) return answer<bool>::failed(nvm_errno());
  if (done == 0) return {};
  return true;
}
inline int lf_of_another_type() noexcept {
  (void)nvm_fail(NVM_E_TYPE_MISMATCH, "an entry of a lock-free structure has another size than its C++ type");
  return NVM_E_TYPE_MISMATCH;
}

}  // namespace detail

// A map in a pool.  An object is one use of the structure: nvm_lf_close() at the end of its life.
template <class K, class V>
class lf_map {
 public:
  static_assert((detail::lf_must_be_key<K>(), detail::lf_must_be_bytes<V>(), true));
  // The structure holds words.
  static constexpr bool of_words =
      !detail::lf_is_text<K> && !detail::lf_is_text<V> && sizeof(K) <= 8 && detail::lf_size<V> <= 8;
  using key_taken = detail::lf_taken<K>;
  using value_taken = detail::lf_taken<V>;
  using entry = std::pair<K, V>;

  // Nothing: nvm_errno(); NVM_E_TYPE_MISMATCH where it holds bytes and this type asks for words, or the other way
  // round.
  static std::optional<lf_map> open(NVM_POOL *pool, const char *name, const lf_settings &settings = {}) noexcept {
    nvm_lf_options o{};
    o.kind = static_cast<std::uint32_t>(settings.kind);
    o.flags = of_words ? settings.flags & ~unsigned{NVM_LF_BYTES} : settings.flags | NVM_LF_BYTES;
    o.expected = settings.expected;
    o.mode = settings.mode;
    o.links = settings.links;
    o.allocation = settings.allocation;
    o.recovery = settings.recovery;
    o.area_bytes = settings.area_bytes;
    nvm_lf *handle = nvm_lf_open(pool, name, &o);
    if (handle == nullptr) return std::nullopt;
    return lf_map{handle};
  }
  static std::optional<lf_map> open(const pool &p, const char *name, const lf_settings &settings = {}) noexcept {
    return open(p.handle(), name, settings);
  }
  nvm_lf *handle() const noexcept { return handle_.get(); }

  // Nothing in the answer: there is none.  May throw std::bad_alloc where V is std::string.
  answer<V> get(key_taken key) const {
    if constexpr (of_words) {
      std::uint64_t word = 0;
      const int found = nvm_lf_get64(handle(), detail::lf_key_word<K>(key), &word);
      if (found < 0) return answer<V>::failed(nvm_errno());
      if (found == 0) return {};
      return detail::lf_value_of_word<V>(word);
    } else {
      const detail::lf_key_bytes<K> bytes{key};
      nvm_lf_entry e{};
      const lf_guard inside{handle()};
      const int found = inside ? nvm_lf_find(handle(), bytes.data(), bytes.size(), &e) : -1;
      if (found < 0) return answer<V>::failed(nvm_errno());
      if (found == 0) return {};
      auto value = detail::lf_value_of<V>(e.value, e.value_bytes);
      if (!value) return answer<V>::failed(detail::lf_of_another_type());
      return std::move(*value);
    }
  }
  // False also on failure.
  [[nodiscard]] bool contains(key_taken key) const noexcept {
    if constexpr (of_words) {
      return nvm_lf_get64(handle(), detail::lf_key_word<K>(key), nullptr) == 1;
    } else {
      const detail::lf_key_bytes<K> bytes{key};
      return nvm_lf_get(handle(), bytes.data(), bytes.size(), nullptr, 0, nullptr) == 1;
    }
  }
  // The key has this value, whether it had one or not.
  outcome put(key_taken key, value_taken value) noexcept {
    return put_with(key, value, 0) < 0 ? outcome{nvm_errno()} : outcome{};
  }
  // Nothing in the answer: the key was there, and is as it was.
  answer<bool> insert(key_taken key, value_taken value) noexcept {
    return detail::lf_answer(put_with(key, value, NVM_LF_PUT_ABSENT));
  }
  // Nothing in the answer: the key was not there, and is not.
  answer<bool> replace(key_taken key, value_taken value) noexcept {
    return detail::lf_answer(put_with(key, value, NVM_LF_PUT_PRESENT));
  }
  // Nothing in the answer: there was none.
  answer<bool> remove(key_taken key) noexcept {
    if constexpr (of_words) {
      return detail::lf_answer(nvm_lf_remove64(handle(), detail::lf_key_word<K>(key)));
    } else {
      const detail::lf_key_bytes<K> bytes{key};
      return detail::lf_answer(nvm_lf_remove(handle(), bytes.data(), bytes.size()));
    }
  }
  // Changes an entry atomically: f(const std::optional<V>& old) -> std::optional<V>, the new value, nothing: none.  f
  // is called again where another thread was faster; what it throws goes on, and nothing has changed.  Of a structure
  // of bytes.  The new value is copied, so f may return what it was given, which changes nothing else.
  template <class F, bool Bytes = !of_words>
  std::enable_if_t<Bytes, answer<lf_done>> update(key_taken key, F &&f) {
    struct context {
      F &f;
      std::optional<V> value;
      bool of_another_type;
    } c{f, std::nullopt, false};
    const detail::lf_key_bytes<K> bytes{key};
    const int done = nvm_lf_update(
        handle(), bytes.data(), bytes.size(),
        [](const nvm_lf_entry *old, nvm_lf_change *change, void *argument) {
          auto &k = *static_cast<context *>(argument);
          std::optional<V> was;
          if (old != nullptr) was = detail::lf_value_of<V>(old->value, old->value_bytes);
          k.of_another_type = old != nullptr && !was;
          if (k.of_another_type) return NVM_LF_KEEP;
          k.value = k.f(std::as_const(was));
          if (!k.value) return NVM_LF_REMOVE;
          change->mark = old == nullptr ? 0 : old->mark;
          change->value_bytes = detail::lf_value_bytes(*k.value).size();
          change->fill = [](void *to, std::size_t, const nvm_lf_entry *, void *again) {
            const std::string_view from = detail::lf_value_bytes(*static_cast<context *>(again)->value);
            if (!from.empty()) std::memcpy(to, from.data(), from.size());
          };
          return NVM_LF_REPLACE;
        },
        &c);
    if (done < 0) return answer<lf_done>::failed(nvm_errno());
    if (c.of_another_type) return answer<lf_done>::failed(detail::lf_of_another_type());
    return static_cast<lf_done>(done);
  }
  // Give or take the operations under way.
  answer<std::uint64_t> size() const noexcept {
    std::uint64_t n = 0;
    if (nvm_lf_get_count(handle(), &n) != 0) return answer<std::uint64_t>::failed(nvm_errno());
    return n;
  }

  // Entries, some at a time, as copies; those that other threads insert or remove meanwhile may be met or not.  Ends
  // early after a failure: code().  Its functions may throw std::bad_alloc.
  class range {
   public:
    class iterator {
     public:
      using iterator_category = std::input_iterator_tag;
      using value_type = entry;
      using difference_type = std::ptrdiff_t;
      using pointer = const entry *;
      using reference = const entry &;
      iterator() noexcept = default;
      explicit iterator(range &of) noexcept : of_{of.has_more() ? &of : nullptr} {}
      reference operator*() const noexcept { return of_->some_[of_->at_]; }
      pointer operator->() const noexcept { return &**this; }
      iterator &operator++() {
        ++of_->at_;
        if (!of_->has_more()) of_ = nullptr;
        return *this;
      }
      void operator++(int) { ++*this; }
      friend bool operator==(const iterator &a, const iterator &b) noexcept { return a.of_ == b.of_; }
      friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

     private:
      range *of_ = nullptr;
    };
    iterator begin() { return iterator{*this}; }
    iterator end() noexcept { return {}; }
    // NVM_OK, or why there are no more entries.
    int code() const noexcept { return code_; }

   private:
    friend lf_map;
    static constexpr std::size_t at_a_time = 64;
    range(nvm_lf *structure, std::optional<K> from) : structure_{structure}, from_{std::move(from)} {
      const int kind = nvm_lf_kind_of(structure);
      if (kind < 0) end_with(nvm_errno());
      sorted_ = from_ || (kind > 0 && kind != NVM_LF_HASH);
    }
    void end_with(int code) noexcept {
      code_ = code;
      over_ = true;
    }
    bool has_more() {
      while (at_ == some_.size()) {
        if (over_) return false;
        read_some();
      }
      return true;
    }
    void read_some() {
      // In place of the last key, which goes on.
      if (sorted_ && !some_.empty()) {
        from_ = std::move(some_.back().first);
        after_ = NVM_LF_AFTER;
      }
      some_.clear();
      at_ = 0;
      const int done = scan();
      if (done < 0) return end_with(nvm_errno());
      if (done > 0) return end_with(detail::lf_of_another_type());
      over_ = sorted_ ? some_.size() < at_a_time : cursor_ == 0;
    }
    int scan() {
      if constexpr (of_words) {
        constexpr auto visit = [](std::uint64_t key, std::uint64_t value, void *to) {
          static_cast<range *>(to)->some_.emplace_back(detail::lf_key_of_word<K>(key),
                                                       detail::lf_value_of_word<V>(value));
          return 0;
        };
        if (!sorted_) return nvm_lf_scan64(structure_, &cursor_, at_a_time, visit, this);
        return nvm_lf_scan_from64(structure_, from_ ? detail::lf_key_word<K>(*from_) : 0, after_, at_a_time, visit,
                                  this);
      } else {
        constexpr auto visit = [](const nvm_lf_entry *e, void *to) {
          auto key = detail::lf_key_bytes<K>::key_of(e->key, e->key_bytes);
          auto value = detail::lf_value_of<V>(e->value, e->value_bytes);
          if (!key || !value) return 1;
          static_cast<range *>(to)->some_.emplace_back(std::move(*key), std::move(*value));
          return 0;
        };
        if (!sorted_) return nvm_lf_scan(structure_, &cursor_, at_a_time, visit, this);
        if (!from_) return nvm_lf_scan_from(structure_, nullptr, 0, 0, at_a_time, visit, this);
        const detail::lf_key_bytes<K> bytes{*from_};
        return nvm_lf_scan_from(structure_, bytes.data(), bytes.size(), after_, at_a_time, visit, this);
      }
    }

    nvm_lf *structure_;
    std::optional<K> from_;
    unsigned after_ = 0;
    std::uint64_t cursor_ = 0;
    bool sorted_ = false;
    bool over_ = false;
    int code_ = NVM_OK;
    std::vector<entry> some_;
    std::size_t at_ = 0;
  };
  // All: in the order of the keys, of a hash table in any.
  range entries() const { return {handle(), std::nullopt}; }
  // From the first key on that is not less: NVM_E_TYPE_MISMATCH (range::code()) of a hash table.
  range entries_from(key_taken key) const { return {handle(), K{key}}; }

  // Of a handle that does not wait (NVM_LF_NO_WAIT): until what this thread has done is durable.
  outcome wait() noexcept { return nvm_lf_wait(handle()) == 0 ? outcome{} : outcome{nvm_errno()}; }

 private:
  struct closer {
    void operator()(nvm_lf *s) const noexcept { (void)nvm_lf_close(s); }
  };
  explicit lf_map(nvm_lf *handle) noexcept : handle_{handle} {}
  int put_with(key_taken key, value_taken value, unsigned flags) noexcept {
    if constexpr (of_words) {
      return nvm_lf_put64(handle(), detail::lf_key_word<K>(key), detail::lf_value_word<V>(value), flags);
    } else {
      const detail::lf_key_bytes<K> bytes{key};
      std::string_view v;
      if constexpr (detail::lf_is_text<V>) {
        v = value;
      } else {
        v = detail::lf_value_bytes<V>(value);
      }
      return nvm_lf_put(handle(), bytes.data(), bytes.size(), v.data(), v.size(), 0, flags);
    }
  }
  std::unique_ptr<nvm_lf, closer> handle_;
};

// A set in a pool, as lf_map.
template <class K>
class lf_set {
  using map = lf_map<K, detail::lf_nothing>;

 public:
  using key_taken = typename map::key_taken;
  static std::optional<lf_set> open(NVM_POOL *pool, const char *name, const lf_settings &settings = {}) noexcept {
    auto all = map::open(pool, name, settings);
    if (!all) return std::nullopt;
    return lf_set{std::move(*all)};
  }
  static std::optional<lf_set> open(const pool &p, const char *name, const lf_settings &settings = {}) noexcept {
    return open(p.handle(), name, settings);
  }
  nvm_lf *handle() const noexcept { return all_.handle(); }

  // False also on failure.
  [[nodiscard]] bool contains(key_taken key) const noexcept { return all_.contains(key); }
  // Nothing in the answer: it was there.
  answer<bool> insert(key_taken key) noexcept { return all_.insert(key, {}); }
  // Nothing in the answer: it was not there.
  answer<bool> remove(key_taken key) noexcept { return all_.remove(key); }
  answer<std::uint64_t> size() const noexcept { return all_.size(); }
  // Pairs of which the first is the key, as lf_map has them.
  typename map::range keys() const { return all_.entries(); }
  typename map::range keys_from(key_taken key) const { return all_.entries_from(key); }
  outcome wait() noexcept { return all_.wait(); }

 private:
  explicit lf_set(map all) noexcept : all_{std::move(all)} {}
  map all_;
};

}  // namespace nvm
#endif
