// Pools of the log-structured engine, for code that opens them.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.hpp"
#include "nvm/nvm.h"
#include "pool/pool.hpp"

namespace nvm::engines {

// Choices of a program at each open.
struct log_choice {
  std::uint32_t mapping = NVM_MAPPING_LEAVES;  // enum nvm_mapping
  unsigned cleaners = 1;                       // threads; 0: none
  bool one_log = false;
  bool translated = false;           // reads ask the mapping; otherwise home pages are materialised
  std::uint64_t home_bytes_max = 0;  // of materialised pages; 0: no limit
  // Sizes in bytes and thresholds in percent, as in struct nvm_log_options; 0: the heap's own.  A pool that has a heap
  // keeps its chunks.
  std::uint64_t chunk_bytes = 0;
  std::uint64_t partition_bytes = 0;
  std::uint64_t cache_entries = 0;
  std::uint32_t clean_below = 0;
  std::uint32_t clean_from = 0;
  // Of materialised pages; 0: the engine's own.
  std::uint32_t fault_threads = 0;
  std::uint32_t fault_around = 0;
};
// errc::invalid: a size or threshold is outside its bounds.
[[nodiscard]] status check_bounds(const log_choice& how) noexcept;

// The engine of an open pool that has it, on an ordinary file: a fence is a sync, and statistics count everything.  May
// throw std::bad_alloc.
[[nodiscard]] result<std::unique_ptr<engine>> start_log_on_file(pool_file& file, const log_choice& how);

}  // namespace nvm::engines
