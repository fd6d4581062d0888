// Layouts that a program tells in data (nvm/describe.h), as the compiler plugin would have found them.
#pragma once

#include "nvm/describe.h"
#include "object/type_map_writer.hpp"

namespace nvm::object {

// A map of the type and of its other name.  type_map::read() tells whether it makes sense.  May throw std::bad_alloc.
[[nodiscard]] type_map_writer::words map_of(const nvm_type_description& type);

}  // namespace nvm::object
