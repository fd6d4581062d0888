// Lock-free structures that are damaged, made anew in an image from what can be read of them.
#pragma once

#include <cstdint>
#include <set>

#include "care/notes.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

// On a private image of a pool whose logs have been replayed and whose space is sound, with the places of anchors
// mended.  A structure that is damaged is dropped, and one of the same name and kind made with the entries that can be
// read; what cannot be is told as lost, by its key as far as that can be read.  A structure of which nothing says what
// it was loses its name, and is told as lost.  The directory is mended before.
//
// `closed`: as the superblock says; `guessed`: allocation words that say of all places that there are nodes.
// errc::corrupt, no_space, version: the image may hold anything, and the caller gives it up.  Cost: reads all
// structures; memory for the places of one, and for all entries of those that are damaged.  May throw std::bad_alloc.
[[nodiscard]] status mend_lockfree(std::byte* base, const geometry& g, bool closed,
                                   const std::set<std::uint64_t>& guessed, const told_notes& tell);

}  // namespace nvm::care
