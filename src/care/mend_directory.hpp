// The directory of the key-value stores of an open pool, made anew from what can be read of it and from the stores.
#pragma once

#include <cstdint>
#include <vector>

#include "care/notes.hpp"
#include "kv/open_stores.hpp"

namespace nvm::care {

// Of a key-value store: where its payload is.
struct object_of_stores {
  std::uint64_t place, bytes;
  std::uint32_t type;
};

// Where the directory is damaged, or there is none though there are stores: another one takes its place, with the names
// that can be read, of stores that are there.  A store that no name leads to gets one that is made up, which is told as
// lost.  What only the old one led to stays allocated.  On an error the pool may hold anything.  May throw
// std::bad_alloc.
[[nodiscard]] status mend_directory(keyed::stores& all, const std::vector<object_of_stores>& objects,
                                    const told_notes& tell);

}  // namespace nvm::care
