// A random workload on regions, as a subject of the explorer.
#pragma once

#include "region_player.hpp"

namespace nvm::tests {

[[nodiscard]] explore::subject random_region_subject(std::uint64_t seed, unsigned operations, const region_variant& v);

}  // namespace nvm::tests
