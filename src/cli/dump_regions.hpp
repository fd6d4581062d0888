// The part of holdfast dump that is about regions.
#pragma once

#include <cstdint>

#include "cli/console.hpp"
#include "nvm/nvm.h"

namespace nvm::cli {

struct region_dump {
  const console& out;
  NVM_POOL* pool;
  std::uint64_t hex_bytes = 0;
  bool summary = false;
  std::uint64_t limit = UINT64_MAX;  // of regions
  bool stopped = false;              // there: more may come

  // Prints text, or a further field of the document; nothing for a pool without sets.  False: the library says why.
  [[nodiscard]] bool print();
};

}  // namespace nvm::cli
