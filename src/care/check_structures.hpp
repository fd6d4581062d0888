// Full check of the lock-free structures of a pool, and of its regions.
#pragma once

#include <cstdint>
#include <functional>

#include "pool/pool.hpp"

namespace nvm::care {

// On a private copy of a pool whose logs have been replayed and whose space is sound: recovers the structures there,
// then calls tell(offset, finding) for each fault, and for those of its regions. errc::no_memory: it could not.
[[nodiscard]] status check_structures(std::byte* base, const geometry& g,
                                      const std::function<void(std::uint64_t offset, const char* finding)>& tell);
// The same after nodes were unlinked that are deleted, still linked, and therefore counted.
[[nodiscard]] status tidy_structures(std::byte* base, const geometry& g,
                                     const std::function<void(std::uint64_t offset, const char* finding)>& tell);

}  // namespace nvm::care
