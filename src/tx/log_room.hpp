// How much of the log a transaction has used.
#pragma once

#include <cstdint>

namespace nvm::tx {

// What a commit now would take of the log at most, and what it may take; most 0: as much as the pool has room for.
struct log_room {
  std::uint64_t used = 0;
  std::uint64_t most = 0;
};

}  // namespace nvm::tx
