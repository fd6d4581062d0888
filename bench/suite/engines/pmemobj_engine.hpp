// libpmemobj's transactions as a memory for the suite's structures.
//
// A store takes a snapshot of the word it changes, as a field of type pmem::obj::p does; what is known to change
// together is added to the transaction range by range, which is the library's only way.  Structures hold plain
// addresses here too: that saves libpmemobj its identifiers of 16 bytes, and their translation.
#pragma once

#include <cstring>
#include <type_traits>

#include "suite/engine.hpp"
#include "systems/pmemobj_heap.hpp"

namespace nvm::bench {

class pmemobj_engine {
 public:
  static constexpr bool isolates = false;
  static constexpr bool counts_itself = false;

  class transaction {
   public:
    explicit transaction(pmemobj_heap& heap) : heap_(heap) {}
    template <class T>
    T load(const T* p) const noexcept {
      return *p;
    }
    template <class T>
    void store(T* p, std::type_identity_t<T> v) {
      heap_.log(p, sizeof v);
      *p = v;
    }
    void read(void* to, const void* from, std::size_t n) const noexcept { std::memcpy(to, from, n); }
    void write(void* to, const void* from, std::size_t n) {
      heap_.log(to, n);
      std::memcpy(to, from, n);
    }
    void announce(const span_of_bytes* ranges, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i)
        if (ranges[i].n != 0) heap_.log(ranges[i].p, ranges[i].n);
    }
    template <class T>
    void store_announced(T* p, std::type_identity_t<T> v) noexcept {
      *p = v;
    }
    void write_announced(void* to, const void* from, std::size_t n) noexcept { std::memcpy(to, from, n); }
    void* alloc(std::size_t n) { return heap_.alloc(n); }
    void free(void* p) { heap_.free(p); }

   private:
    pmemobj_heap& heap_;
  };

  explicit pmemobj_engine(const engine_settings& settings) : heap_(settings.heap) {}

  pmemobj_heap& heap() noexcept { return heap_; }

  template <class Body>
  void transact(unsigned, Body&& body) {
    heap_.begin();
    transaction tx(heap_);
    body(tx);
    heap_.commit();
  }
  // To read needs no transaction.
  template <class Body>
  void examine(unsigned, Body&& body) {
    transaction tx(heap_);
    body(tx);
  }
  void* fixed(std::size_t n) { return heap_.fixed(n); }
  std::uint64_t aborts() const noexcept { return 0; }
  std::optional<std::uint64_t> bytes_logged() const { return heap_.bytes_logged(); }
  std::optional<library_counts> counts() const noexcept { return std::nullopt; }

 private:
  pmemobj_heap heap_;
};
static_assert(engine<pmemobj_engine>);

}  // namespace nvm::bench
