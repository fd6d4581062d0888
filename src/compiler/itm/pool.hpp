// The pool from which compiled transactions allocate (include/nvm/itm.h).
#pragma once

#include "nvm/nvm.h"

namespace nvm::itm {

// The first call opens or makes the pool that the environment names; NULL: volatile memory.
NVM_POOL* pool_in_use() noexcept;

}  // namespace nvm::itm
