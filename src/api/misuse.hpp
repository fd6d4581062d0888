// A mistake of the program in a place that has no way to hand an error on.
#pragma once

#include "base/base.hpp"

namespace nvm::api {

// Tells the program's handler, or says what is wrong and where, and aborts.  `code` and its sentence are what was
// reported last; `address` is what was to be stored to, `caller` the code that did it.  Returns only if a handler does.
void misused(errc code, const void* address, const void* caller);

}  // namespace nvm::api
