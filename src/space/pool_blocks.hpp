// What the space of a pool needs of its file beside growth: blocks go back to the file system, and are got again.
//
// A page without blocks is a hole of the file, or lies after the pool's end.  Holes are free pages; they get blocks
// before anybody stores there.
#pragma once

#include <cstdint>

#include "base/base.hpp"

namespace nvm {

class pool_blocks {
 public:
  // Pages of the caller get blocks where they have none.  errc::no_space: the device is full.
  [[nodiscard]] virtual status fill(std::uint64_t page, std::uint64_t count) noexcept = 0;
  // From here on free pages may be holes; ordered before what comes next.
  [[nodiscard]] virtual status allow_holes() noexcept = 0;
  // Everything that was ordered is durable and in its place: nothing of it can be stored to pages that are free by now.
  [[nodiscard]] virtual status bring_home() noexcept = 0;
  // Pages of the caller, of which it is durable that they are free, have no blocks any more.  errc::system: the file
  // system cannot do that.
  [[nodiscard]] virtual status punch(std::uint64_t page, std::uint64_t count) noexcept = 0;
  // The pool ends at `pages`, durably on return; `uncut`: why its file does not.
  [[nodiscard]] virtual status shrink(std::uint64_t pages, status& uncut) noexcept = 0;

 protected:
  ~pool_blocks() = default;
};

// How a pool is to be trimmed.
struct trim_wishes {
  bool inside_only = false;  // empty extents become free pages; the file keeps its blocks
  bool indexes = true;       // extents that were not looked at since the pool was opened are
  // Waits until nobody is left who may read what was free before; false: it was no use to wait.
  bool (*readers_left)(void* context) noexcept = nullptr;
  // Pages looked at, of all; false: stops here.
  bool (*progress)(void* context, std::uint64_t done, std::uint64_t all) noexcept = nullptr;
  void* context = nullptr;
};
struct trim_outcome {
  std::uint64_t pages_freed = 0;    // of empty extents and clusters
  std::uint64_t pages_punched = 0;  // have no blocks any more
  std::uint64_t pages_cut = 0;      // are gone from the end
  bool stopped = false;             // by progress()
  char why[256] = "";               // what the file system did not do
};

}  // namespace nvm
