// Lock-free structures that are damaged, made anew in an image from their readable entries.
#pragma once

#include <cstdint>
#include <set>

#include "care/notes.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

// On a private image of a pool whose logs have been replayed and whose space is sound, with the places of anchors
// mended.  A damaged structure is dropped, and one of the same name and kind is made with its readable entries; other
// entries are told as lost, by key as far as that can be read.  A structure of unknown kind loses its name, and is told
// as lost.  The directory is mended before.
//
// `closed`: as the superblock says; `guessed`: allocation words that claim nodes in all places. errc::corrupt,
// no_space, version: the image may hold anything, and the caller gives it up.  Cost: reads all structures; memory for
// the places of one, and for all entries of those that are damaged.  May throw std::bad_alloc.
[[nodiscard]] status mend_lockfree(std::byte* base, const geometry& g, bool closed,
                                   const std::set<std::uint64_t>& guessed, const told_notes& tell);

}  // namespace nvm::care
