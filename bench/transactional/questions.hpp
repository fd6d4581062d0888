// The questions of this program, one file each.
#pragma once

#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"

namespace nvm::bench {

std::vector<benchmark> alloc_benchmarks(const options& o, unsigned threads);      // alloc.cpp
std::vector<benchmark> overwrite_benchmarks(const options& o, unsigned threads);  // overwrite.cpp
std::vector<benchmark> sps_benchmarks(const options& o, unsigned threads);        // sps.cpp
std::vector<benchmark> ycsb_benchmarks(const options& o, unsigned threads);       // ycsb.cpp

}  // namespace nvm::bench
