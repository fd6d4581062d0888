// libpmemobj as a careful user of it writes: no setjmp (the C++ bindings do without it, too), object identifiers made
// from the address and the pool's uuid instead of looked up, direct pointers kept.
#pragma once

#include <dlfcn.h>
#include <libpmem.h>
#include <libpmemobj.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "harness/mapped_file.hpp"
#include "harness/step_counter.hpp"
#include "systems/heap.hpp"

namespace nvm::bench {

class pmemobj_heap {
 public:
  static constexpr const char* name = "libpmemobj";
  static constexpr std::uint64_t type = 1;

  explicit pmemobj_heap(const heap_settings& settings)
      : path_(settings.directory, "pmemobj-" + std::to_string(next_++) + ".pool") {
    // Lanes take 3 MiB and chunk headers, rounding and per-thread arenas the rest of what is added.
    const std::uint64_t bytes = settings.bytes + settings.bytes / 4 + (32ULL << 20);
    pool_ = pmemobj_create(path_.c_str(), "holdfast-bench", bytes, 0600);
    if (pool_ == nullptr) fail("pmemobj_create");
    const PMEMoid root = pmemobj_root(pool_, 64);
    if (OID_IS_NULL(root)) fail("pmemobj_root");
    pool_uuid_ = root.pool_uuid_lo;
    base_ = static_cast<char*>(pmemobj_direct(root)) - root.off;
    // Undo and redo records reach the log by pmem_memcpy, and nothing else here calls it (1.12, ulog.c).
    watch_lengths({{dlsym(RTLD_DEFAULT, "pmem_memcpy"), 3, true, true, 4, PMEM_F_MEM_NOFLUSH},
                   {dlsym(RTLD_DEFAULT, "pmem_memmove"), 3, false, true, 4, PMEM_F_MEM_NOFLUSH},
                   {dlsym(RTLD_DEFAULT, "pmem_memset"), 3, false, true, 4, PMEM_F_MEM_NOFLUSH},
                   {dlsym(RTLD_DEFAULT, "pmem_flush"), 2, false, true}});
  }
  ~pmemobj_heap() { pmemobj_close(pool_); }
  pmemobj_heap(const pmemobj_heap&) = delete;
  pmemobj_heap& operator=(const pmemobj_heap&) = delete;

  PMEMobjpool* pool() const { return pool_; }

  void begin() {
    if (pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE) != 0) fail("pmemobj_tx_begin");
  }
  void commit() {
    pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0) fail("pmemobj_tx_end");
  }
  void log(void* p, std::size_t n) {
    if (pmemobj_tx_add_range_direct(p, n) != 0) fail("pmemobj_tx_add_range_direct");
  }
  // Memory that is fresh or unreachable: flushed at commit, no snapshot of the old bytes.
  void log_without_snapshot(void* p, std::size_t n) {
    if (pmemobj_tx_xadd_range_direct(p, n, POBJ_XADD_NO_SNAPSHOT) != 0) fail("pmemobj_tx_xadd_range_direct");
  }
  // There is no call for several ranges.
  void log_many(const span_of_bytes* ranges, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) log(ranges[i].p, ranges[i].n);
  }
  void* alloc(std::size_t n) {
    const PMEMoid object = pmemobj_tx_alloc(n, type);
    if (OID_IS_NULL(object)) fail("pmemobj_tx_alloc");
    return base_ + object.off;
  }
  void free(void* p) {
    if (pmemobj_tx_free({pool_uuid_, offset_of(p)}) != 0) fail("pmemobj_tx_free");
  }
  void* fixed(std::size_t n) {
    PMEMoid object = OID_NULL;
    if (pmemobj_zalloc(pool_, &object, n, type) != 0) fail("pmemobj_zalloc");
    return base_ + object.off;
  }
  std::optional<std::uint64_t> bytes_logged() const { return step_counter::counts().logged_bytes; }

  std::uint64_t offset_of(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(p) - base_);
  }
  void* at(std::uint64_t offset) const { return base_ + offset; }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw std::runtime_error(std::string(call) + ": " + pmemobj_errormsg());
  }

  static inline unsigned next_ = 0;  // names of files; heaps are made by one thread

  temporary_path path_;
  PMEMobjpool* pool_ = nullptr;
  std::uint64_t pool_uuid_ = 0;
  char* base_ = nullptr;
};

static_assert(heap<pmemobj_heap>);

}  // namespace nvm::bench
