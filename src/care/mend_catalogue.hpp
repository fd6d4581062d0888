// The directory of lock-free structures in an image: restored as far as possible.
#pragma once

#include <vector>

#include "care/notes.hpp"
#include "care/structure_reader.hpp"

namespace nvm::care {

struct mended_catalogue {
  std::vector<described_structure> structures{};
  active_places active{};
  std::uint64_t place = 0;  // of the directory; 0: there is none
};

// Afterwards every entry of the directory holds or is empty.  Structures whose root (root 0) or kind (kind none) is not
// known have no entry any more.  A structure whose name is lost gets a made-up one.  errc::version: the directory is of
// a later library.  May throw std::bad_alloc.
[[nodiscard]] result<mended_catalogue> mend_catalogue(std::byte* base, structure_pages& pages, bool closed,
                                                      const told_notes& tell);

// Makes the entry say that there is no structure.
void forget_entry(std::byte* base, const described_structure& d) noexcept;

}  // namespace nvm::care
