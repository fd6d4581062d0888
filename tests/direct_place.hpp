// Where tests make their pools.  Those of byte-addressable memory: on tmpfs, or on real DAX, in the folder that
// HOLDFAST_TEST_DAX names.  Those of the medium ssd: on tmpfs too, which syncs at once, or in the folder that
// HOLDFAST_TEST_DISK names; tests that kill processes, of the server and of the command make theirs on a disk anyway.
#pragma once

#include <cstdlib>

#include "nvm/nvm.h"

namespace nvm::tests {

inline const char* dax_folder() { return std::getenv("HOLDFAST_TEST_DAX"); }
inline const char* direct_folder() { return dax_folder() != nullptr ? dax_folder() : "/dev/shm"; }
inline nvm_medium direct_medium() { return dax_folder() != nullptr ? NVM_MEDIUM_DAX : NVM_MEDIUM_SHM; }
inline const char* ssd_folder() {
  const char* const disk = std::getenv("HOLDFAST_TEST_DISK");
  return disk != nullptr ? disk : "/dev/shm";
}

}  // namespace nvm::tests
