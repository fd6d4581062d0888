// Where the pointers of a pool lead, and what they lead to: as the collector sees it, in an image that does not change.
//
// A pointer to no object is no damage: a field may never have been written, and a program may free what it still points
// to.  So it is a note.
#pragma once

#include <cstdint>
#include <functional>

#include "pool/pool.hpp"

namespace nvm::care {

struct pointer_summary {
  std::uint64_t garbage_objects = 0;  // 0 also if an object of unknown type was reached
  std::uint64_t stray = 0;            // pointers into the pool, to no object
  std::uint64_t foreign = 0;          // to anywhere else
};
// Looks at pointers in objects that the root, or that of an object store, leads to, by fields that the type map at
// offset `types` describes.  Calls note(offset of the object, sentence) for each that leads to no object, or into a
// store that the object is not in.  errc::no_memory.
[[nodiscard]] status check_pointers(const std::byte* bytes, const geometry& g, std::uint64_t base, std::uint64_t root,
                                    std::uint64_t types, const std::function<void(std::uint64_t, const char*)>& note,
                                    pointer_summary& out) noexcept;

}  // namespace nvm::care
