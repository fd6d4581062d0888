#include <nvm/kv.h>
#include <nvm/nvm.h>
#include <nvm/region.h>

#include <stdexcept>

#include "harness/clock.hpp"
#include "recovery/crashed_pool.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint32_t type = 1;
constexpr std::uint64_t small_bytes = 8ULL << 20;

[[noreturn]] void fail(const char* call) { throw std::runtime_error(std::string(call) + ": " + nvm_errormsg()); }

void check(int result, const char* call) {
  if (result != 0) fail(call);
}

nvm_pool_options shm_with_write_back() {
  nvm_pool_options options{};
  options.medium = NVM_MEDIUM_SHM;
  options.persist = NVM_PERSIST_BEST;
  return options;
}

NVM_POOL* create(const std::string& path, std::uint64_t bytes) {
  nvm_pool_options options = shm_with_write_back();
  options.size = bytes;
  options.capacity = bytes;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &options);
  if (pool == nullptr) fail("nvm_pool_create_with");
  return pool;
}

NVM_POOL* open(const std::string& path) {
  const nvm_pool_options options = shm_with_write_back();
  NVM_POOL* pool = nvm_pool_open_with(path.c_str(), &options);
  if (pool == nullptr) fail("nvm_pool_open_with");
  return pool;
}

// Allocates until the pool is full; returns how many objects were committed. What the last, failing transaction had
// allocated is rolled back.
std::uint64_t allocate_all(NVM_POOL* pool, std::vector<void*>* to_free) {
  for (std::uint64_t objects = 0;;) {
    check(nvm_tx_begin(pool), "nvm_tx_begin");
    void* sample = nullptr;
    for (std::uint64_t i = 0; i < objects_per_transaction; ++i) {
      void* object = nvm_alloc(pool, type, object_bytes);
      if (object == nullptr) {
        if (nvm_errno() != NVM_E_NO_SPACE) fail("nvm_alloc");
        check(nvm_tx_abort(pool), "nvm_tx_abort");
        return objects;
      }
      if ((objects + i) % freed_every == 0) sample = object;
    }
    check(nvm_tx_commit(pool), "nvm_tx_commit");
    if (sample != nullptr) to_free->push_back(sample);
    objects += objects_per_transaction;
  }
}

std::uint64_t fill(const std::string& path, std::uint64_t bytes) {
  NVM_POOL* pool = create(path, bytes);
  std::vector<void*> to_free;
  const std::uint64_t objects = allocate_all(pool, &to_free);
  for (void* object : to_free) {
    check(nvm_tx_begin(pool), "nvm_tx_begin");
    check(nvm_free(pool, object), "nvm_free");
    check(nvm_tx_commit(pool), "nvm_tx_commit");
  }
  check(nvm_tx_begin(pool), "nvm_tx_begin");
  if (nvm_alloc(pool, type, object_bytes) == nullptr) fail("nvm_alloc");
  return objects - to_free.size();
}

open_times open_crashed(const std::string& path, unsigned index_threads) {
  const std::uint64_t start = wall_ns();
  NVM_POOL* pool = open(path);
  const std::uint64_t opened = wall_ns();
  if (index_threads != 0) {
    const std::uint64_t index_start = wall_ns();
    check(nvm_pool_build_index(pool, index_threads), "nvm_pool_build_index");
    return {opened - start, 0, wall_ns() - index_start};
  }
  check(nvm_tx_begin(pool), "nvm_tx_begin");
  if (nvm_alloc(pool, type, object_bytes) == nullptr) fail("nvm_alloc");
  return {opened - start, wall_ns() - start, 0};
}

void create_small(const std::string& path) { check(nvm_pool_close(create(path, small_bytes)), "nvm_pool_close"); }

std::uint64_t open_clean(const std::string& path) {
  const std::uint64_t start = wall_ns();
  NVM_POOL* pool = open(path);
  const std::uint64_t opened = wall_ns();
  check(nvm_pool_close(pool), "nvm_pool_close");
  return opened - start;
}

}  // namespace

void fill_regions(const std::string& path, std::uint64_t regions) {
  NVM_POOL* pool = create(path, (regions * region_bytes * 3 / 2) + (32ULL << 20));
  nvm_regions* set = nvm_regions_open(pool, "measured", nullptr);
  if (set == nullptr) fail("nvm_regions_open");
  std::vector<char> bytes(region_bytes, 'r');
  for (std::uint64_t rid = 1; rid <= regions; ++rid) {
    check(nvm_region_create_with(set, rid, bytes.data(), bytes.size(), 0), "nvm_region_create_with");
  }
  check(nvm_pool_close(pool), "nvm_pool_close");
}

std::uint64_t open_regions(const std::string& path, std::uint64_t rid, bool closes) {
  std::vector<char> bytes(region_bytes);
  const std::uint64_t start = wall_ns();
  NVM_POOL* pool = open(path);
  nvm_regions* set = nvm_regions_open(pool, "measured", nullptr);
  if (set == nullptr) fail("nvm_regions_open");
  if (nvm_region_read(set, rid, 0, bytes.data(), bytes.size()) != static_cast<std::int64_t>(region_bytes)) {
    fail("nvm_region_read");
  }
  const std::uint64_t ns = wall_ns() - start;
  if (closes) {
    check(nvm_pool_close(pool), "nvm_pool_close");
  } else {
    check(nvm_region_write(set, rid, 0, bytes.data(), bytes.size()), "nvm_region_write");
  }
  return ns;
}

namespace {
nvm_kv* open_measured(NVM_POOL* pool, bool by_regions) {
  nvm_kv_options options{};
  options.index = by_regions ? NVM_KV_REGIONS : NVM_KV_HASH;
  nvm_kv* kv = nvm_kv_open(pool, "measured", &options);
  if (kv == nullptr) fail("nvm_kv_open");
  return kv;
}
}  // namespace

void fill_store(const std::string& path, bool by_regions, std::uint64_t entries) {
  NVM_POOL* pool = create(path, (entries * region_bytes * 2) + (64ULL << 20));
  nvm_kv* kv = open_measured(pool, by_regions);
  std::vector<char> bytes(region_bytes, 's');
  for (std::uint64_t key = 1; key <= entries; ++key) {
    check(nvm_kv_put(kv, &key, sizeof key, bytes.data(), bytes.size()), "nvm_kv_put");
  }
  check(nvm_kv_close(kv), "nvm_kv_close");
  check(nvm_pool_close(pool), "nvm_pool_close");
}

std::uint64_t open_store(const std::string& path, bool by_regions, std::uint64_t key) {
  std::vector<char> bytes(region_bytes);
  const std::uint64_t start = wall_ns();
  NVM_POOL* pool = open(path);
  nvm_kv* kv = open_measured(pool, by_regions);
  if (nvm_kv_get(kv, &key, sizeof key, bytes.data(), bytes.size(), nullptr) != 1) fail("nvm_kv_get");
  const std::uint64_t ns = wall_ns() - start;
  check(nvm_kv_close(kv), "nvm_kv_close");
  check(nvm_pool_close(pool), "nvm_pool_close");
  return ns;
}

recovery_system holdfast_recovery() {
  return {"holdfast", role::subject, fill, open_crashed, true, create_small, open_clean};
}

}  // namespace nvm::bench
