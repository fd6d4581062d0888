// Bytes that two open transactions have announced: what one of them rolls back may be the other's.
#pragma once

#include <cstddef>

#include "nvm/compiled.h"

namespace nvm::checked {

// A transaction of this thread announces [p, p + n), inside of a pool, at this place.  Reports if another one that is
// open has announced some of these bytes.  Threads: any; one lock.
void note_announced(const void* p, std::size_t n, const nvm_site* site);

}  // namespace nvm::checked
