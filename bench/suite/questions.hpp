// The questions of the suite, one file each.
#pragma once

#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"
#include "suite/engine.hpp"

namespace nvm::bench {

// Operations of a repetition; where each transaction waits for a device, fewer do.
inline std::uint64_t transactions(const options& o, std::uint64_t full, std::uint64_t quick) {
  const std::uint64_t all = o.full_or_quick(full, quick);
  return is_memory(o.directory) ? all : all / 50;
}

// The same where the command line may say another number.
inline std::uint64_t operations(const options& o, std::uint64_t full, std::uint64_t quick) {
  return o.ops != 0 ? o.ops : transactions(o, full, quick);
}

std::vector<benchmark> swap_benchmarks(const options& o, unsigned threads);    // swaps.cpp
std::vector<benchmark> map_benchmarks(const options& o, unsigned threads);     // maps.cpp
std::vector<benchmark> insert_benchmarks(const options& o, unsigned threads);  // inserts.cpp
std::vector<benchmark> store_benchmarks(const options& o, unsigned threads);   // stores.cpp

}  // namespace nvm::bench
