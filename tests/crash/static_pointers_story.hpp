// A pool is opened by programs whose functions and objects lie elsewhere each time, partly where others were.
#pragma once

#include "explore/explore.hpp"
#include "ground.hpp"

namespace nvm::tests {

// Which program opens the pool next.
enum class next_program : std::uint8_t { another, the_first_again };
// Whether objects without a type may lead into programs.
enum class untyped : std::uint8_t { are_left_alone, may_lead };
[[nodiscard]] explore::subject static_pointers(kind_of_medium kind, next_program after_a_crash = next_program::another,
                                               untyped words = untyped::are_left_alone);

}  // namespace nvm::tests
