#include "soak/contents.hpp"

#include <array>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "nvm/kv.h"
#include "nvm/lockfree.hpp"
#if NVM_BENCH_COMPILER
#include "soak/ledger.h"
#endif

namespace nvm::bench::soak {
namespace {

[[noreturn]] void wrong(std::uint64_t key) {
  throw std::runtime_error{"the value of key " + std::to_string(key) + " is not what was stored"};
}
int seen(int found, std::uint64_t key, const void* data, std::uint64_t bytes) {
  if (found == 1 && !is_value_of(key, data, bytes)) wrong(key);
  return found;
}
struct value_seen {
  std::uint64_t key;
  std::uint64_t bytes;
  bool good;
};

// ---- a key-value store ----------------------------------------------------------------------------------------------

class in_store final : public contents {
 public:
  explicit in_store(NVM_POOL* pool) : kv_{nvm_kv_open(pool, "soak", nullptr)} {
    if (kv_ == nullptr) throw failure{"nvm_kv_open"};
  }
  put_result put(std::uint64_t key, const std::vector<unsigned char>& value, std::uint64_t& was) override {
    const std::uint64_t old = size_of(key);
    if (nvm_kv_put(kv_, &key, sizeof key, value.data(), value.size()) != 0) {
      if (is_want_of_room()) return put_result::no_room;
      throw failure{"nvm_kv_put"};
    }
    was = old;
    return old != 0 ? put_result::replaced : put_result::inserted;
  }
  std::uint64_t remove(std::uint64_t key) override {
    const std::uint64_t old = size_of(key);
    const int done = nvm_kv_remove(kv_, &key, sizeof key);
    if (done < 0 && !is_want_of_room()) throw failure{"nvm_kv_remove"};
    return done == 1 ? old : 0;
  }
  int get(std::uint64_t key) override {
    value_seen s{key, 0, false};
    const int found = nvm_kv_visit(
        kv_, &key, sizeof key,
        [](const void* data, std::size_t bytes, void* to) {
          auto& v = *static_cast<value_seen*>(to);
          v.good = is_value_of(v.key, data, bytes);
        },
        &s);
    if (found < 0) throw failure{"nvm_kv_visit"};
    if (found == 1 && !s.good) wrong(key);
    return found;
  }
  void each(const std::function<void(std::uint64_t, std::uint64_t)>& visit) override {
    const auto one = [](const nvm_kv_entry* e, void* to) {
      std::uint64_t key = 0;
      std::memcpy(&key, e->key, sizeof key);
      if (!is_value_of(key, e->value, e->value_bytes)) return 1;
      (*static_cast<const std::function<void(std::uint64_t, std::uint64_t)>*>(to))(key, e->value_bytes);
      return 0;
    };
    const int ended =
        nvm_kv_scan(kv_, nullptr, one, const_cast<std::function<void(std::uint64_t, std::uint64_t)>*>(&visit));
    if (ended < 0) throw failure{"nvm_kv_scan"};
    if (ended > 0) throw std::runtime_error{"a key-value store has a value that was not stored"};
  }

 private:
  [[nodiscard]] std::uint64_t size_of(std::uint64_t key) {
    std::size_t bytes = 0;
    const int found = nvm_kv_get(kv_, &key, sizeof key, nullptr, 0, &bytes);
    if (found < 0) throw failure{"nvm_kv_get"};
    return found == 1 ? bytes : 0;
  }
  nvm_kv* kv_;
};

// ---- a lock-free structure ------------------------------------------------------------------------------------------

class in_structure final : public contents {
 public:
  explicit in_structure(NVM_POOL* pool) {
    nvm_lf_options o{};
    o.flags = NVM_LF_BYTES;
    lf_ = nvm_lf_open(pool, "soak", &o);
    if (lf_ == nullptr) throw failure{"nvm_lf_open"};
  }
  put_result put(std::uint64_t key, const std::vector<unsigned char>& value, std::uint64_t& was) override {
    struct change {
      const std::vector<unsigned char>& value;
      std::uint64_t was;
    } c{value, 0};
    const int done = nvm_lf_update(
        lf_, &key, sizeof key,
        [](const nvm_lf_entry* old, nvm_lf_change* to, void* argument) {
          auto& k = *static_cast<change*>(argument);
          k.was = old == nullptr ? 0 : old->value_bytes;
          to->value_bytes = k.value.size();
          to->fill = [](void* at, std::size_t bytes, const nvm_lf_entry*, void* again) {
            std::memcpy(at, static_cast<change*>(again)->value.data(), bytes);
          };
          return NVM_LF_REPLACE;
        },
        &c);
    if (done < 0) {
      if (is_want_of_room()) return put_result::no_room;
      throw failure{"nvm_lf_update"};
    }
    was = c.was;
    return done == 2 ? put_result::replaced : put_result::inserted;
  }
  std::uint64_t remove(std::uint64_t key) override {
    std::uint64_t was = 0;
    const int done = nvm_lf_update(
        lf_, &key, sizeof key,
        [](const nvm_lf_entry* old, nvm_lf_change*, void* argument) {
          *static_cast<std::uint64_t*>(argument) = old == nullptr ? 0 : old->value_bytes;
          return old == nullptr ? NVM_LF_KEEP : NVM_LF_REMOVE;
        },
        &was);
    if (done < 0 && !is_want_of_room()) throw failure{"nvm_lf_update"};
    return done == 3 ? was : 0;
  }
  int get(std::uint64_t key) override {
    const lf_guard inside{lf_};
    nvm_lf_entry e{};
    const int found = inside ? nvm_lf_find(lf_, &key, sizeof key, &e) : -1;
    if (found < 0) throw failure{"nvm_lf_find"};
    return seen(found, key, e.value, e.value_bytes);
  }
  void each(const std::function<void(std::uint64_t, std::uint64_t)>& visit) override {
    const auto one = [](const nvm_lf_entry* e, void* to) {
      std::uint64_t key = 0;
      std::memcpy(&key, e->key, sizeof key);
      if (!is_value_of(key, e->value, e->value_bytes)) return 1;
      (*static_cast<const std::function<void(std::uint64_t, std::uint64_t)>*>(to))(key, e->value_bytes);
      return 0;
    };
    std::uint64_t cursor = 0;
    do {
      const int ended =
          nvm_lf_scan(lf_, &cursor, 1000, one, const_cast<std::function<void(std::uint64_t, std::uint64_t)>*>(&visit));
      if (ended < 0) throw failure{"nvm_lf_scan"};
      if (ended > 0) throw std::runtime_error{"a lock-free structure has a value that was not stored"};
    } while (cursor != 0);
  }

 private:
  nvm_lf* lf_ = nullptr;
};

// ---- objects of announced transactions ------------------------------------------------------------------------------

// A table of places in the root, each with an object or none; a key has one place, which other keys share.
class in_objects final : public contents {
 public:
  explicit in_objects(NVM_POOL* pool) : pool_{pool} {
    void* root = nullptr;
    if (nvm_pool_read_root(pool, &root) != 0) throw failure{"nvm_pool_read_root"};
    if (root == nullptr) {
      if (nvm_tx_begin(pool) != 0) throw failure{"nvm_tx_begin"};
      root = nvm_calloc(pool, type_table, places, sizeof(value_head*));
      if (root == nullptr || nvm_pool_set_root(pool, root) != 0 || nvm_tx_commit(pool) != 0) throw failure{"the root"};
    }
    all_ = static_cast<value_head**>(root);
  }
  put_result put(std::uint64_t key, const std::vector<unsigned char>& value, std::uint64_t& was) override {
    const std::lock_guard guard{lock_of(key)};
    value_head*& at = place_of(key);
    was = at == nullptr ? 0 : at->bytes;
    if (nvm_tx_begin(pool_) != 0) throw failure{"nvm_tx_begin"};
    void* const made = nvm_alloc(pool_, type_value, value.size());
    bool good = made != nullptr && nvm_tx_log(&at, sizeof at) == 0 && (at == nullptr || nvm_free(pool_, at) == 0);
    if (good) {
      std::memcpy(made, value.data(), value.size());
      at = static_cast<value_head*>(made);
    }
    if (!ends(good)) return put_result::no_room;
    return was != 0 ? put_result::replaced : put_result::inserted;
  }
  std::uint64_t remove(std::uint64_t key) override {
    const std::lock_guard guard{lock_of(key)};
    value_head*& at = place_of(key);
    if (at == nullptr || at->key != key) return 0;
    const std::uint64_t was = at->bytes;
    if (nvm_tx_begin(pool_) != 0) throw failure{"nvm_tx_begin"};
    const bool good = nvm_tx_log(&at, sizeof at) == 0 && nvm_free(pool_, at) == 0;
    if (good) at = nullptr;
    return ends(good) ? was : 0;
  }
  int get(std::uint64_t key) override {
    const std::lock_guard guard{lock_of(key)};
    const value_head* const at = place_of(key);
    if (at == nullptr) return 0;
    return seen(1, at->key, at, at->bytes);
  }
  void each(const std::function<void(std::uint64_t, std::uint64_t)>& visit) override {
    for (std::uint64_t i = 0; i < places; ++i) {
      if (all_[i] == nullptr) continue;
      (void)seen(1, all_[i]->key, all_[i], all_[i]->bytes);
      visit(all_[i]->key, all_[i]->bytes);
    }
  }

 private:
  static constexpr std::uint32_t type_table = 1;
  static constexpr std::uint32_t type_value = 2;
  static constexpr std::uint64_t places = std::uint64_t{1} << 17;
  [[nodiscard]] value_head*& place_of(std::uint64_t key) noexcept { return all_[mix(key) % places]; }
  [[nodiscard]] std::mutex& lock_of(std::uint64_t key) noexcept { return locks_[mix(key) % places % locks_.size()]; }
  // Ends the transaction; false: it had no room.
  [[nodiscard]] bool ends(bool good) {
    if (good && nvm_tx_commit(pool_) == 0) return true;
    const bool room = is_want_of_room();
    const failure why{"a transaction"};
    if (nvm_tx_depth(pool_) != 0) (void)nvm_tx_abort(pool_);
    if (!room) throw why;
    return false;
  }

  NVM_POOL* pool_;
  value_head** all_ = nullptr;
  std::array<std::mutex, 64> locks_;
};

// ---- a program of holdfast-cc ---------------------------------------------------------------------------------------

#if NVM_BENCH_COMPILER
class in_ledger final : public contents {
 public:
  explicit in_ledger(NVM_POOL* pool) : pool_{pool}, all_{ledger_in(pool)} {
    if (all_ == nullptr) throw failure{"ledger_in"};
  }
  put_result put(std::uint64_t key, const std::vector<unsigned char>& value, std::uint64_t& was) override {
    const std::unique_lock guard{lock_};
    std::size_t old = 0;
    const bool there = ledger_get(all_, key, &old) != nullptr;
    was = there ? old : 0;
    if (ledger_put(pool_, all_, key, value.data(), value.size()) == 1) {
      return there ? put_result::replaced : put_result::inserted;
    }
    if (is_want_of_room()) return put_result::no_room;
    throw failure{"ledger_put"};
  }
  std::uint64_t remove(std::uint64_t key) override {
    const std::unique_lock guard{lock_};
    std::size_t old = 0;
    if (ledger_get(all_, key, &old) == nullptr) return 0;
    const int done = ledger_remove(pool_, all_, key);
    if (done < 0 && !is_want_of_room()) throw failure{"ledger_remove"};
    return done == 1 ? old : 0;
  }
  int get(std::uint64_t key) override {
    const std::shared_lock guard{lock_};
    std::size_t bytes = 0;
    const void* const value = ledger_get(all_, key, &bytes);
    return value == nullptr ? 0 : seen(1, key, value, bytes);
  }
  void each(const std::function<void(std::uint64_t, std::uint64_t)>& visit) override {
    ledger_each(
        all_,
        [](std::uint64_t key, std::size_t bytes, void* to) {
          (*static_cast<const std::function<void(std::uint64_t, std::uint64_t)>*>(to))(key, bytes);
        },
        const_cast<std::function<void(std::uint64_t, std::uint64_t)>*>(&visit));
  }

 private:
  NVM_POOL* pool_;
  struct ledger* all_;
  std::shared_mutex lock_;
};
#endif

}  // namespace

std::unique_ptr<contents> contents_in(NVM_POOL* pool, std::string_view kind) {
  if (kind == "kv") return std::make_unique<in_store>(pool);
  if (kind == "structure") return std::make_unique<in_structure>(pool);
  if (kind == "objects") return std::make_unique<in_objects>(pool);
#if NVM_BENCH_COMPILER
  if (kind == "compiled") return std::make_unique<in_ledger>(pool);
#endif
  throw std::runtime_error{"no such contents: " + std::string{kind}};
}

}  // namespace nvm::bench::soak
