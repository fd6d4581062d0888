// How long until a structure whose process was killed in the middle of its work can be used again (log-free, Fig. 10).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lockfree/maps.hpp"

namespace nvm::bench {

// Fills a map; then, `runs` times by each method that is not hopeless: has two threads insert and remove, kills them
// when their tables of active areas are full, takes everything out of the caches, opens and recovers.
[[nodiscard]] nlohmann::ordered_json measure_recovery(shape what, std::uint64_t size, unsigned runs,
                                                      const std::string& directory);
// The same through the public C interface: from the call that opens the pool to the return of the first look-up, in a
// process of its own.
[[nodiscard]] nlohmann::ordered_json measure_opening(shape what, std::uint64_t size, unsigned runs,
                                                     const std::string& directory);

}  // namespace nvm::bench
