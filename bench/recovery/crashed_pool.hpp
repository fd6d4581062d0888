// A pool full of 1 KiB objects whose owner was killed in the middle of a transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"

namespace nvm::bench {

inline constexpr std::size_t object_bytes = 1024;
inline constexpr std::uint64_t objects_per_transaction = 64;
inline constexpr std::uint64_t freed_every = 4096;  // one object of so many is freed, so that an allocation finds room

struct open_times {
  std::uint64_t open_ns;              // the call that opens and recovers
  std::uint64_t first_allocation_ns;  // from before that call to the return of the first allocation
  std::uint64_t index_ns;             // the full volatile index apart, if it was asked for
};

// What each system does, in a process that is killed right afterwards.
struct recovery_system {
  std::string name;
  bench::role role;
  // Creates the pool, fills it, frees a few objects, begins one more transaction. Returns the number of objects.
  std::uint64_t (*fill)(const std::string& path, std::uint64_t bytes);
  // Opens, allocates, builds the index with `index_threads` threads if that is not 0, leaves a transaction open.
  open_times (*open)(const std::string& path, unsigned index_threads);
  bool builds_index;
  // Creates and closes an empty pool of 8 MiB; opens it, closes it, and returns the nanoseconds of the opening.
  void (*create_small)(const std::string& path);
  std::uint64_t (*open_clean)(const std::string& path);
};

recovery_system pmemobj_recovery();   // pmemobj_recovery.cpp
recovery_system holdfast_recovery();  // holdfast_recovery.cpp

inline constexpr std::size_t region_bytes = 256;
// Creates a pool with so many regions, numbered from 1, and closes it.
void fill_regions(const std::string& path, std::uint64_t regions);  // holdfast_recovery.cpp
// Nanoseconds from before the pool is opened to the first read of a region. Closes it, or changes a region and leaves
// the pool open.
std::uint64_t open_regions(const std::string& path, std::uint64_t rid, bool closes);

// The same of a key-value store with so many entries, keys from 1; over regions, or a hash table.
void fill_store(const std::string& path, bool by_regions, std::uint64_t entries);
// Closes the pool.
std::uint64_t open_store(const std::string& path, bool by_regions, std::uint64_t key);

inline std::vector<recovery_system> recovery_systems() {
  return {
#if NVM_BENCH_PMEMOBJ
      pmemobj_recovery(),
#endif
#if NVM_BENCH_HOLDFAST
      holdfast_recovery(),
#endif
  };
}

}  // namespace nvm::bench
