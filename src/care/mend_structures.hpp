// Lock-free structures that are damaged, made anew in an image from their readable entries.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "care/notes.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "space/structure_pages.hpp"

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
// The same on the pages of a face of the space, the pool's or those of an attached object store.
[[nodiscard]] status mend_lockfree_on(any_direct& medium, std::byte* base, structure_pages& pages, bool closed,
                                      const std::set<std::uint64_t>& guessed, const told_notes& tell);

// The check of structures that are mended finds nodes that nothing leads to, which are free from here on; anything else
// is returned, empty: there is nothing.
class mended_findings {
 public:
  mended_findings(std::byte* base, const structure_pages& pages, const told_notes& tell)
      : base_{base}, pages_{pages}, tell_{tell} {}
  void operator()(std::uint64_t at, const char* what);
  // After the check.  May throw std::bad_alloc.
  [[nodiscard]] std::string settle();

 private:
  [[nodiscard]] bool free_node(std::uint64_t at);

  std::byte* const base_;
  const structure_pages& pages_;
  const told_notes& tell_;
  std::vector<std::uint64_t> leaked_;
  std::string other_;
};

}  // namespace nvm::care
