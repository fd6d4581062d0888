// Repair of the words that lead to the log of a log-structured pool: the heap's root, the headers of its chunks, their
// list.
//
// The root's first line stands twice; the list follows from the page map and the headers of chunks.  The use of a chunk
// is bound into the checks of its blocks: possible values are tried until one of them holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "care/repair.hpp"
#include "pool/pool.hpp"
#include "space/space.hpp"

namespace nvm::care {

struct chunk_mending {
  std::byte* base;
  const geometry& g;
  bool closed;  // the pool was closed, and has a saved mapping
  std::function<void(mending how, std::uint64_t offset, const std::string& what)> note;
  // Pages that are free become those of `e`; false: they are not free.
  std::function<bool(std::uint64_t page, const layout::page_entry& e)> enter;
};

// Called before the anchors are mended, on an image whose page map is sound: afterwards the root that they name holds,
// if it can be restored.
void mend_log_root(const chunk_mending& m);
// On an image whose anchors and space are sound: headers of chunks, and their list.  Nothing changes where they hold.
void mend_chunks(const chunk_mending& m);
// Calls tell(offset, finding) where the copy of the root's first line is neither that nor zeros.
void check_log_root_copy(const std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t offset, const char* finding)>& tell);

}  // namespace nvm::care
