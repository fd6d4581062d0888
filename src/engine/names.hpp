// Targets of the words of a pool's anchors.
#pragma once

#include "pool/pool.hpp"

namespace nvm::engines {

// Checks that both copies of each of the pool's own names agree and lead to something: a lost copy reads as no name, a
// lost part of the page map as free pages.  errc::corrupt.
[[nodiscard]] status check_names(const pool_file& file) noexcept;

}  // namespace nvm::engines
