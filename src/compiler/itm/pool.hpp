// Which pool compiled transactions allocate from (include/nvm/itm.h).
#pragma once

#include "nvm/nvm.h"

namespace nvm::itm {

// Opens, or makes, the one that the environment names when it is asked for the first time; NULL: volatile memory.
NVM_POOL* pool_in_use() noexcept;

}  // namespace nvm::itm
