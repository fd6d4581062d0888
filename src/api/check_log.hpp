// Full check of the log-structured heap of a pool.
#pragma once

#include <cstdint>
#include <functional>

#include "pool/pool.hpp"

namespace nvm::api {

struct log_summary {
  std::uint64_t objects = 0;
  std::uint64_t object_bytes = 0;    // asked for
  std::uint64_t dropped_blocks = 0;  // of transactions that had not committed
};

// On a private copy of a pool whose space is sound: reads the whole log, then calls tell(offset, finding) for each
// fault.  errc::no_memory: it could not.
[[nodiscard]] status check_log(pool_file& file,
                               const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                               log_summary& summary);

}  // namespace nvm::api
