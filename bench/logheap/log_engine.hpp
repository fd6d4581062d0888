// A structure of the suite (suite/engine.hpp) on a log-structured heap, for one thread: isolation is left out, and so
// is the STM that a program would have it from.
//
// Volatile memory stands where the home addresses say and holds what is there; what a transaction changes in it is what
// it commits.  Loads are plain, or `Translated`: read from the log through the mapping, but for what the transaction
// itself has changed.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "logheap/log_pool.hpp"
#include "systems/heap.hpp"

namespace nvm::bench {

// Volatile memory at addresses that are home addresses.
class home_window {
 public:
  explicit home_window(std::uint64_t bytes) : bytes_(round_up(bytes, align)) {
    void* const p =
        mmap(nullptr, bytes_ + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no address space for a copy of home space");
    start_ = p;
  }
  ~home_window() { munmap(start_, bytes_ + align); }
  home_window(const home_window&) = delete;
  home_window& operator=(const home_window&) = delete;
  [[nodiscard]] logheap::home_t first() const noexcept {
    return round_up(reinterpret_cast<std::uint64_t>(start_), align);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::uint64_t align = 65536;
  std::uint64_t bytes_;
  void* start_ = nullptr;
};

template <media Media, bool Translated, class Map = logheap::leaf_mapping>
class log_engine {
 public:
  using pool_type = log_pool<Map, Media>;
  using heap_type = typename pool_type::heap_type;
  using home_t = logheap::home_t;

  class transaction {
   public:
    explicit transaction(log_engine& e) : engine_(e) {}
    template <class T>
    T load(const T* p) {
      if (!Translated || is_changed(home_of(p), sizeof(T))) return *p;
      T v;
      engine_.pool_->read(engine_.thread_, home_of(p), &v, sizeof v);
      return v;
    }
    template <class T>
    void store(T* p, std::type_identity_t<T> v) {
      *p = v;
      changed_.push_back({home_of(p), sizeof *p});
    }
    void read(void* to, const void* from, std::size_t n) {
      if (!Translated || is_changed(home_of(from), n)) {
        std::memcpy(to, from, n);
      } else {
        engine_.pool_->read(engine_.thread_, home_of(from), to, n);
      }
    }
    void write(void* to, const void* from, std::size_t n) {
      std::memcpy(to, from, n);
      changed_.push_back({home_of(to), n});
    }
    void announce(const span_of_bytes*, std::size_t) {}
    template <class T>
    void store_announced(T* p, std::type_identity_t<T> v) {
      store(p, v);
    }
    void write_announced(void* to, const void* from, std::size_t n) { write(to, from, n); }
    void* alloc(std::size_t n) {
      const auto o = engine_.pool_->allocate(engine_.thread_, n);
      if (!o) fail_with("allocating");
      allocated_.push_back(*o);
      changed_.push_back({o->at.home, n});
      return reinterpret_cast<void*>(o->at.home);
    }
    void free(void* p) {
      const auto o = engine_.pool_->release(engine_.thread_, home_of(p));
      if (!o) fail_with("freeing");
      released_.push_back(*o);
    }
    void commit() {
      std::sort(changed_.begin(), changed_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
      std::vector<typename heap_type::store_range> stores;
      for (const logheap::home_range& c : changed_) {
        const bool is_freed = std::any_of(released_.begin(), released_.end(), [&](const auto& o) {
          return c.home >= o.at.home && c.home < o.at.home + o.at.bytes;
        });
        if (is_freed) continue;
        if (!stores.empty() && c.home <= stores.back().home + stores.back().size) {
          stores.back().size = std::max(stores.back().size, c.home + c.size - stores.back().home);
        } else {
          stores.push_back({c.home, reinterpret_cast<const std::byte*>(c.home), c.size});
        }
      }
      if (!engine_.pool_->commit(engine_.thread_, {stores, allocated_, released_})) fail_with("committing");
    }

   private:
    static home_t home_of(const void* p) { return reinterpret_cast<home_t>(p); }
    // Few ranges, the last ones most likely.  What is changed in part is read from where all of it is.
    bool is_changed(home_t home, std::uint64_t size) const {
      return std::any_of(changed_.rbegin(), changed_.rend(),
                         [&](const auto& c) { return home < c.home + c.size && c.home < home + size; });
    }
    log_engine& engine_;
    std::vector<logheap::home_range> changed_;
    std::vector<typename heap_type::object> allocated_, released_;
  };

  // `of_mapping`: what Map takes besides.
  template <class... Extra>
  log_engine(Media& medium, const std::string& directory, std::uint64_t pool_bytes, std::uint64_t home_bytes,
             const logheap::heap_settings& settings, const Extra&... of_mapping)
      : window_(home_bytes),
        pool_(medium, directory, pool_bytes, at_window(settings), of_mapping...),
        thread_(pool_.join()) {}

  template <class Body>
  void transact(Body&& body) {
    transaction tx(*this);
    body(tx);
    tx.commit();
  }
  // The same for a body that changes nothing; as engines with more threads have it.
  template <class Body>
  void examine(unsigned /*thread*/, Body&& body) {
    transaction tx(*this);
    body(tx);
  }
  // Zeros for as long as the engine lives.
  void* fixed(std::size_t n) {
    void* p = nullptr;
    transact([&](transaction& tx) { p = tx.alloc(n); });
    return p;
  }
  pool_type& pool() noexcept { return pool_; }
  heap_type& heap() noexcept { return pool_.heap(); }

 private:
  logheap::heap_settings at_window(logheap::heap_settings s) const {
    s.home_first = window_.first();
    s.home_bytes = window_.bytes();
    return s;
  }

  home_window window_;
  pool_type pool_;
  typename pool_type::thread& thread_;
};

}  // namespace nvm::bench
