// Objects with numbers, of as many bytes as each has: as regions, and as what a program would make of transactions: a
// table of addresses, lengths and capacities, and one object each.
#pragma once

#include <nvm/region.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "suite/engines/engines.hpp"

namespace nvm::bench {

// Regions, changed as `mode` says: enum nvm_region_mode.  One technique by itself needs a transaction, of three calls;
// `in_transactions`: so does the adaptive choice then, which is one call else.
class region_store {
 public:
  region_store(const engine_settings& settings, std::uint64_t objects, unsigned mode, bool in_transactions)
      : heap_{settings.heap, options(settings)},
        counting_{settings.counting},
        mode_{mode},
        one_call_{mode == NVM_REGION_ADAPTIVE && !in_transactions} {
    nvm_regions_options how{};
    how.replicas =
        static_cast<std::uint32_t>(objects);  // one each: the technique by itself, not which regions have one
    set_ = nvm_regions_open(heap_.pool(), "objects", &how);
    if (set_ == nullptr) holdfast_heap::fail("nvm_regions_open");
  }

  void create(std::uint64_t i, const void* from, std::size_t n, std::uint64_t room) {
    check(nvm_region_create_with(set_, i, from, n, room), "nvm_region_create_with");
  }
  void drop(std::uint64_t i) { check(nvm_region_drop(set_, i), "nvm_region_drop"); }
  bool there(std::uint64_t i) {
    std::uint64_t size = 0;
    return nvm_region_size(set_, i, &size) == 0;
  }
  // A word of what its address leads to.
  std::uint64_t attach(std::uint64_t i) {
    nvm_region_lease l;
    check(nvm_region_hold(set_, i, &l), "nvm_region_hold");
    std::uint64_t word = 0;
    std::memcpy(&word, l.bytes, sizeof word);
    check(nvm_region_let_go(&l), "nvm_region_let_go");
    return word;
  }
  std::uint64_t read(std::uint64_t i, void* to, std::uint64_t offset, std::size_t n) {
    const std::int64_t got = nvm_region_read(set_, i, offset, to, n);
    if (got < 0) holdfast_heap::fail("nvm_region_read");
    return static_cast<std::uint64_t>(got);
  }
  void write(std::uint64_t i, std::uint64_t offset, const void* from, std::size_t n) {
    if (one_call_) return check(nvm_region_write(set_, i, offset, from, n), "nvm_region_write");
    check(nvm_region_begin(set_, i, mode_), "nvm_region_begin");
    check(nvm_region_write(set_, i, offset, from, n), "nvm_region_write");
    check(nvm_region_commit(set_, i), "nvm_region_commit");
  }
  void append(std::uint64_t i, const void* from, std::size_t n) {
    check(nvm_region_append(set_, i, from, n, nullptr), "nvm_region_append");
  }
  void truncate(std::uint64_t i, std::uint64_t length) {
    check(nvm_region_truncate(set_, i, length), "nvm_region_truncate");
  }
  std::uint64_t length(std::uint64_t i) {
    std::uint64_t size = 0;
    check(nvm_region_size(set_, i, &size), "nvm_region_size");
    return size;
  }
  std::optional<library_counts> counts() {
    if (!counting_) return std::nullopt;
    nvm_statistics s{};
    check(nvm_pool_get_statistics(heap_.pool(), &s), "nvm_pool_get_statistics");
    return library_counts{s.fences, s.flushed_lines, s.flushed_bytes, s.logged_bytes};
  }

 private:
  static nvm_pool_options options(const engine_settings& settings) {
    nvm_pool_options o = holdfast_heap::direct();
    o.engine = NVM_ENGINE_UNDO;
    o.meter = settings.counting ? 1 : 0;
    return o;
  }
  static void check(int answer, const char* call) { holdfast_heap::check(answer, call); }

  holdfast_heap heap_;
  const bool counting_;
  const unsigned mode_;
  const bool one_call_;
  nvm_regions* set_ = nullptr;
};

// One object each under an engine, found by a table.
template <engine E>
class object_store {
 public:
  object_store(std::unique_ptr<guarded<E>> memory, std::uint64_t objects) : memory_{std::move(memory)} {
    table_ = static_cast<row*>(memory_->engine().fixed(objects * sizeof(row)));
  }

  void create(std::uint64_t i, const void* from, std::size_t n, std::uint64_t room) {
    const std::uint64_t capacity = std::max<std::uint64_t>(n, room);
    change([&](auto& tx) {
      void* const p = tx.alloc(capacity);
      tx.write(p, from, n);
      put(tx, i, {reinterpret_cast<std::uint64_t>(p), n, capacity});
    });
  }
  void drop(std::uint64_t i) {
    change([&](auto& tx) {
      tx.free(at(row_of(tx, i)));
      put(tx, i, {});
    });
  }
  bool there(std::uint64_t i) {
    bool is = false;
    look([&](auto& tx) { is = row_of(tx, i).address != 0; });
    return is;
  }
  std::uint64_t attach(std::uint64_t i) {
    std::uint64_t word = 0;
    look([&](auto& tx) { word = tx.load(reinterpret_cast<const std::uint64_t*>(tx.load(&table_[i].address))); });
    return word;
  }
  std::uint64_t read(std::uint64_t i, void* to, std::uint64_t offset, std::size_t n) {
    std::uint64_t got = 0;
    look([&](auto& tx) {
      const row r = row_of(tx, i);
      got = std::min<std::uint64_t>(n, r.length - offset);
      tx.read(to, static_cast<const char*>(at(r)) + offset, got);
    });
    return got;
  }
  void write(std::uint64_t i, std::uint64_t offset, const void* from, std::size_t n) {
    change([&](auto& tx) { tx.write(static_cast<char*>(at(row_of(tx, i))) + offset, from, n); });
  }
  void append(std::uint64_t i, const void* from, std::size_t n) {
    change([&](auto& tx) {
      row r = row_of(tx, i);
      if (r.length + n > r.capacity) {
        r.capacity = (r.length + n) + (r.length + n) / 4;
        void* const larger = tx.alloc(r.capacity);
        const auto old = std::make_unique<char[]>(r.length);
        tx.read(old.get(), at(r), r.length);
        tx.write(larger, old.get(), r.length);
        tx.free(at(r));
        r.address = reinterpret_cast<std::uint64_t>(larger);
      }
      tx.write(static_cast<char*>(at(r)) + r.length, from, n);
      r.length += n;
      put(tx, i, r);
    });
  }
  void truncate(std::uint64_t i, std::uint64_t length) {
    change([&](auto& tx) { tx.store(&table_[i].length, length); });
  }
  std::uint64_t length(std::uint64_t i) {
    std::uint64_t n = 0;
    look([&](auto& tx) { n = tx.load(&table_[i].length); });
    return n;
  }
  std::optional<library_counts> counts() { return memory_->engine().counts(); }

 private:
  struct row {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t capacity = 0;
  };
  static void* at(const row& r) { return reinterpret_cast<void*>(r.address); }
  template <class T>
  row row_of(T& tx, std::uint64_t i) {
    row r;
    tx.read(&r, table_ + i, sizeof r);
    return r;
  }
  template <class T>
  void put(T& tx, std::uint64_t i, const row& r) {
    tx.write(table_ + i, &r, sizeof r);
  }
  template <class Body>
  void change(Body&& body) {
    memory_->transact(0, 0, body);
  }
  template <class Body>
  void look(Body&& body) {
    memory_->examine(0, 0, body);
  }

  std::unique_ptr<guarded<E>> memory_;
  row* table_;
};

#if NVM_BENCH_PMEMOBJ
// libpmemobj's atomic calls: objects come and go without a transaction.  What they cannot do atomically is refused, and
// measured with transactions only.
class pmemobj_atomic_store {
 public:
  pmemobj_atomic_store(const engine_settings& settings, std::uint64_t objects) : heap_{settings.heap} {
    table_ = static_cast<PMEMoid*>(heap_.fixed(objects * sizeof(PMEMoid)));
  }
  void create(std::uint64_t i, const void* from, std::size_t n, std::uint64_t room) {
    struct wish {
      const void* from;
      std::size_t n;
    } w{from, n};
    const auto fill = [](PMEMobjpool* pool, void* p, void* raw) {
      const auto& is = *static_cast<const wish*>(raw);
      std::memcpy(p, &is.n, sizeof is.n);
      pmemobj_memcpy(pool, static_cast<char*>(p) + sizeof is.n, is.from, is.n, PMEMOBJ_F_MEM_NODRAIN);
      pmemobj_flush(pool, p, sizeof is.n);
      pmemobj_drain(pool);
      return 0;
    };
    if (pmemobj_alloc(heap_.pool(), &table_[i], sizeof n + std::max<std::size_t>(n, room), 1, fill, &w) != 0) {
      throw std::runtime_error(std::string("pmemobj_alloc: ") + pmemobj_errormsg());
    }
  }
  void drop(std::uint64_t i) { pmemobj_free(&table_[i]); }
  bool there(std::uint64_t i) { return !OID_IS_NULL(table_[i]); }
  std::uint64_t attach(std::uint64_t i) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<char*>(pmemobj_direct(table_[i])) + sizeof(std::size_t), sizeof word);
    return word;
  }
  std::uint64_t read(std::uint64_t i, void* to, std::uint64_t offset, std::size_t n) {
    const std::uint64_t got = std::min<std::uint64_t>(n, length(i) - offset);
    std::memcpy(to, static_cast<char*>(pmemobj_direct(table_[i])) + sizeof(std::size_t) + offset, got);
    return got;
  }
  std::uint64_t length(std::uint64_t i) {
    std::size_t n = 0;
    std::memcpy(&n, pmemobj_direct(table_[i]), sizeof n);
    return n;
  }
  void write(std::uint64_t, std::uint64_t, const void*, std::size_t) { throw std::logic_error("not atomic"); }
  void append(std::uint64_t, const void*, std::size_t) { throw std::logic_error("not atomic"); }
  // Frees what is after the new end, which is what the paper's peer does: its objects know no shorter length.
  void truncate(std::uint64_t i, std::uint64_t length) {
    auto* const at = static_cast<std::size_t*>(pmemobj_direct(table_[i]));
    *at = length;
    pmemobj_persist(heap_.pool(), at, sizeof *at);
    if (pmemobj_realloc(heap_.pool(), &table_[i], sizeof length + length, 1) != 0) {
      throw std::runtime_error(std::string("pmemobj_realloc: ") + pmemobj_errormsg());
    }
  }
  static std::optional<library_counts> counts() { return std::nullopt; }

 private:
  pmemobj_heap heap_;
  PMEMoid* table_;
};
#endif

}  // namespace nvm::bench
