// Barrier transactions as a ground: the stories of announced stores, told by threads that each have a lane of their
// own.
#pragma once

#include "ground.hpp"

namespace nvm::tests {

[[nodiscard]] std::unique_ptr<ground> open_stm_ground(explore::machine& m, kind_of_medium kind);

}  // namespace nvm::tests
