// The part of logs that all code about logged bytes needs.
#pragma once

#include <cstdint>

namespace nvm::log {

// Bytes of the pool, by offset.
struct byte_range {
  std::uint64_t offset;
  std::uint64_t bytes;
};

}  // namespace nvm::log
