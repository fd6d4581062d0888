// The questions of the suite, one file each.
#pragma once

#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"

namespace nvm::bench {

std::vector<benchmark> swap_benchmarks(const options& o, unsigned threads);    // swaps.cpp
std::vector<benchmark> map_benchmarks(const options& o, unsigned threads);     // maps.cpp
std::vector<benchmark> insert_benchmarks(const options& o, unsigned threads);  // inserts.cpp
std::vector<benchmark> store_benchmarks(const options& o, unsigned threads);   // stores.cpp

}  // namespace nvm::bench
