// Where tests of byte-addressable memory make their pools: on tmpfs, or on real DAX, in the folder that
// HOLDFAST_TEST_DAX names.
#pragma once

#include <cstdlib>

#include "nvm/nvm.h"

namespace nvm::tests {

inline const char* dax_folder() { return std::getenv("HOLDFAST_TEST_DAX"); }
inline const char* direct_folder() { return dax_folder() != nullptr ? dax_folder() : "/dev/shm"; }
inline nvm_medium direct_medium() { return dax_folder() != nullptr ? NVM_MEDIUM_DAX : NVM_MEDIUM_SHM; }

}  // namespace nvm::tests
