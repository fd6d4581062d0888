// A pool is opened by programs whose functions and objects lie elsewhere each time, partly where others were.
#pragma once

#include "explore/explore.hpp"
#include "ground.hpp"

namespace nvm::tests {

// Which program opens the pool next.
enum class next_program : std::uint8_t { another, the_first_again };
[[nodiscard]] explore::subject static_pointers(kind_of_medium kind, next_program after_a_crash = next_program::another);

}  // namespace nvm::tests
