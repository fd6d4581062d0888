// Full check of the key-value stores of a pool.
#pragma once

#include <cstdint>
#include <functional>

#include "kv/kv.hpp"

namespace nvm::care {

// Walks the directory of stores, whose header is at that place, and every store that it names, in a pool at rest; calls
// tell(offset, finding) for each fault.  errc::no_memory: it could not.
[[nodiscard]] status check_stores(keyed::byte_source& from, std::uint64_t directory,
                                  const std::function<void(std::uint64_t offset, const char* finding)>& tell);

}  // namespace nvm::care
