// Large objects on a file system: the benchmarks of objects.cpp.
#pragma once

#include <cstdint>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"

namespace nvm::bench {

// One object of so many bytes is made, filled and committed, and the one before freed; beside it a plain file, which is
// written by pwrite() and synced once.
[[nodiscard]] benchmark large_objects(const options& o, std::uint64_t bytes);

}  // namespace nvm::bench
