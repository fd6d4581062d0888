// A mistake of the program in a place that cannot hand an error on.
#pragma once

#include "base/base.hpp"

namespace nvm::api {

// Calls the program's handler; without one, prints what is wrong and where, and aborts.  `code` and its sentence were
// reported last; `address` is where the program wanted to store, `caller` the code that wanted it.  Returns only if a
// handler does.
void misused(errc code, const void* address, const void* caller);

}  // namespace nvm::api
