// What the words of a pool's anchors lead to.
#pragma once

#include "pool/pool.hpp"

namespace nvm::engines {

// The pool's own names are the same in both copies, and something lies where they lead: a copy that was lost reads as
// one that names nothing, a part of the page map as free pages.  errc::corrupt.
[[nodiscard]] status check_names(const pool_file& file) noexcept;

}  // namespace nvm::engines
