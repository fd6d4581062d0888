// Log space that a transaction has used.
#pragma once

#include <cstdint>

namespace nvm::tx {

// The most that a commit now would take of the log, and what it may take; most 0: as much as the pool has room for.
struct log_room {
  std::uint64_t used = 0;
  std::uint64_t most = 0;
};

}  // namespace nvm::tx
