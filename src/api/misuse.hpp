// A mistake of the program in a place that has no way to hand an error on.
#pragma once

#include "base/base.hpp"

namespace nvm::api {

// Calls the program's handler; without one, prints what is wrong and where, and aborts.  `code` and its sentence were
// reported last; `address` is where the store was to go, `caller` the code that made it.  Returns only if a handler
// does.
void misused(errc code, const void* address, const void* caller);

}  // namespace nvm::api
