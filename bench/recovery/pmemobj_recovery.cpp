#include <libpmemobj.h>

#include <stdexcept>

#include "harness/clock.hpp"
#include "recovery/crashed_pool.hpp"

namespace nvm::bench {
namespace {

constexpr const char* layout = "recovery";
constexpr std::uint64_t type = 1;

[[noreturn]] void fail(const char* call) { throw std::runtime_error(std::string(call) + ": " + pmemobj_errormsg()); }

void begin(PMEMobjpool* pool) {
  if (pmemobj_tx_begin(pool, nullptr, TX_PARAM_NONE) != 0) fail("pmemobj_tx_begin");
}
void end() {
  if (pmemobj_tx_end() != 0) fail("pmemobj_tx_end");
}

// Allocates until the pool is full; returns how many.
std::uint64_t allocate_all(PMEMobjpool* pool, std::vector<PMEMoid>* to_free) {
  for (std::uint64_t objects = 0;;) {
    begin(pool);
    for (std::uint64_t i = 0; i < objects_per_transaction; ++i) {
      const PMEMoid object = pmemobj_tx_xalloc(object_bytes, type, POBJ_XALLOC_NO_ABORT);
      if (OID_IS_NULL(object)) {
        pmemobj_tx_commit();
        end();
        return objects;
      }
      if (objects % freed_every == 0) to_free->push_back(object);
      ++objects;
    }
    pmemobj_tx_commit();
    end();
  }
}

std::uint64_t fill(const std::string& path, std::uint64_t bytes) {
  PMEMobjpool* pool = pmemobj_create(path.c_str(), layout, bytes, 0600);
  if (pool == nullptr) fail("pmemobj_create");
  std::vector<PMEMoid> to_free;
  const std::uint64_t objects = allocate_all(pool, &to_free);
  for (const PMEMoid& object : to_free) {
    begin(pool);
    if (pmemobj_tx_free(object) != 0) fail("pmemobj_tx_free");
    pmemobj_tx_commit();
    end();
  }
  begin(pool);
  if (OID_IS_NULL(pmemobj_tx_alloc(object_bytes, type))) fail("pmemobj_tx_alloc");
  return objects - to_free.size();
}

open_times open_crashed(const std::string& path, unsigned) {
  const std::uint64_t start = wall_ns();
  PMEMobjpool* pool = pmemobj_open(path.c_str(), layout);
  if (pool == nullptr) fail("pmemobj_open");
  const std::uint64_t opened = wall_ns();
  begin(pool);
  if (OID_IS_NULL(pmemobj_tx_alloc(object_bytes, type))) fail("pmemobj_tx_alloc");
  return {opened - start, wall_ns() - start, 0};
}

void create_small(const std::string& path) {
  PMEMobjpool* pool = pmemobj_create(path.c_str(), layout, PMEMOBJ_MIN_POOL, 0600);  // 8 MiB
  if (pool == nullptr) fail("pmemobj_create");
  pmemobj_close(pool);
}

std::uint64_t open_clean(const std::string& path) {
  const std::uint64_t start = wall_ns();
  PMEMobjpool* pool = pmemobj_open(path.c_str(), layout);
  const std::uint64_t opened = wall_ns();
  if (pool == nullptr) fail("pmemobj_open");
  pmemobj_close(pool);
  return opened - start;
}

}  // namespace

recovery_system pmemobj_recovery() {
  return {"libpmemobj", role::peer, fill, open_crashed, false, create_small, open_clean};
}

}  // namespace nvm::bench
