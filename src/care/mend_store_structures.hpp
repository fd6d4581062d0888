// Damaged lock-free structures inside of object stores, made anew in an image from their readable entries.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "care/notes.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

// As of mend_lockfree(): the image, and what is known of it.
struct image_to_mend {
  std::byte* base;
  const geometry& shape;
  bool closed;
  const std::set<std::uint64_t>& guessed;
};

// On an image whose clusters and lists of stores are sound.  `stores`: offset of each store page, by the number of the
// store, with which notes begin; those that are being dropped are left alone.  First the word that names the directory
// is mended: its pages are known by their owner.  New structures take the pages that the damaged ones had; their store
// grows where these do not suffice.  `left`: what the check of the mended ones finds; empty: nothing.
//
// Errors and costs as of mend_lockfree(); the memory is that of one store at a time.
[[nodiscard]] status mend_lockfree_in_stores(const image_to_mend& image,
                                             const std::map<std::uint32_t, std::uint64_t>& stores,
                                             const told_notes& tell, std::string& left);

}  // namespace nvm::care
