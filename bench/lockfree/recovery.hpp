// How long until a structure whose process was killed in the middle of its work can be used again (log-free, Fig. 10).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lockfree/maps.hpp"

namespace nvm::bench {

// Fills a map, has two threads insert and remove, kills them, takes everything out of the caches, opens and recovers:
// `runs` times, by each method that is not hopeless.
[[nodiscard]] nlohmann::ordered_json measure_recovery(shape what, std::uint64_t size, unsigned runs,
                                                      const std::string& directory);

}  // namespace nvm::bench
