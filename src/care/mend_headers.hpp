// Headers of extents that are those of other extents: two that were exchanged, or one that was copied over another.
//
// Each word of a header is checked with its place, so a header tells its extent.  Two exchanged headers are exchanged
// again.  If an extent's own header is gone, its contents have to tell: objects with headers of their own become its
// objects again, all that do not overlap, since freed ones keep their headers; nodes of a lock-free structure tell
// their size, and the structure tells which of them exist.
#pragma once

#include <cstdint>
#include <functional>

#include "pool/pool.hpp"
#include "space/mend.hpp"

namespace nvm::care {

struct mended_header {
  std::uint64_t extent = 0;     // offset
  std::uint64_t other = 0;      // offset of the extent that it was exchanged with; 0: none
  bool has_all_places = false;  // of nodes: its allocation words say that there are nodes in all places
  std::uint64_t objects = 0;    // of objects: as many may be there
  std::uint64_t twin = 0;       // offset of another page with the bytes of its first one, which are lost; 0: none
  std::uint64_t places = 0;     // for nodes in that first page, or slots of objects
};

// On an image whose page map may be damaged.  object(offset of its header) is called for each object that may be one.
void mend_headers(std::byte* base, const geometry& g, const std::function<void(const mended_header&)>& tell,
                  const std::function<void(std::uint64_t)>& object);

}  // namespace nvm::care
