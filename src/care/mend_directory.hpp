// The directory of the key-value stores of an open pool, made anew from its readable records and from the stores.
#pragma once

#include <cstdint>
#include <vector>

#include "care/notes.hpp"
#include "kv/open_stores.hpp"

namespace nvm::care {

// The header object of a key-value store: where its payload is.
struct object_of_stores {
  std::uint64_t place, bytes;
  std::uint32_t type;
};

// Where the directory is damaged, or there is none though there are stores: another one takes its place, with the
// readable names of existing stores.  A store that no name leads to gets a made-up one, and its name is told as lost.
// Objects that only the old one led to stay allocated.  On an error the pool may hold anything.  May throw
// std::bad_alloc.
[[nodiscard]] status mend_directory(keyed::stores& all, const std::vector<object_of_stores>& objects,
                                    const told_notes& tell);

}  // namespace nvm::care
