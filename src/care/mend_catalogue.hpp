// The directory of lock-free structures in an image: made what it was, or what is left of it.
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

// Afterwards every entry of the directory holds or is empty.  Structures whose root is not known (root 0), or of which
// nothing says what they were (kind none), have no entry any more.  A structure whose name is lost has one that is made
// up.  errc::version: of a later library.  May throw std::bad_alloc.
[[nodiscard]] result<mended_catalogue> mend_catalogue(std::byte* base, structure_pages& pages, bool closed,
                                                      const told_notes& tell);

// The entry says that there is no structure.
void forget_entry(std::byte* base, const described_structure& d) noexcept;

}  // namespace nvm::care
