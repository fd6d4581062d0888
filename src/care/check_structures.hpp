// Full check of the lock-free structures of a pool, and of its regions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "media/media.hpp"
#include "pool/pool.hpp"
#include "space/structure_pages.hpp"

namespace nvm::care {

// On a private copy of a pool whose logs have been replayed and whose space is sound: recovers the structures there,
// then calls tell(offset, finding) for each fault, and for those of its regions. errc::no_memory: it could not.
[[nodiscard]] status check_structures(std::byte* base, const geometry& g,
                                      const std::function<void(std::uint64_t offset, const char* finding)>& tell);
// The same for the structures inside of object stores: offsets of their store pages, by their numbers.
[[nodiscard]] status check_structures_of_stores(
    std::byte* base, const geometry& g, const std::map<std::uint32_t, std::uint64_t>& pages,
    const std::function<void(std::uint64_t offset, const char* finding)>& tell);
// The same after nodes were unlinked that are deleted, still linked, and therefore counted.
[[nodiscard]] status tidy_structures(std::byte* base, const geometry& g,
                                     const std::function<void(std::uint64_t offset, const char* finding)>& tell);
// The same on the pages of a face of the space: those of an attached object store.
[[nodiscard]] status tidy_structures_on(any_direct& medium, std::byte* base, structure_pages& pages,
                                        const std::function<void(std::uint64_t offset, const char* finding)>& tell);

}  // namespace nvm::care
