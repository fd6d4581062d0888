// Facts of an open region in volatile memory: a line for each.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/base.hpp"
#include "region/region_layout.hpp"
#include "region/region_lock.hpp"

namespace nvm::region {

// Changed by the thread that holds `lock`; words that readers look at, while it is marked as changing.
struct alignas(line_bytes) entry {
  region_lock lock;
  std::uint64_t rid = 0;
  std::uint64_t header : 46 = 0;          // its offset
  std::uint64_t partner : 18 = 0;         // of the set's partners; 0: it has none
  std::atomic<std::uint64_t> place{0};    // offset of the bytes, 0: it has none
  std::atomic<std::uint64_t> length{0};   // `dropped`: the region is gone
  std::atomic<std::uint64_t> written{0};  // bytes from here on read as zeros
  // Version of the newest record that stored something of the region; on an image medium its LSN.
  std::atomic<std::uint64_t> newest{0};
  std::uint64_t capacity : 41 = 0;  // of the place, bytes
  std::uint64_t in_class : 7 = 0;   // of the header's slot
  std::uint64_t levelling : 12 = 0;
  // The region has lost bytes at its end since its place was taken: a record may be replayed there.
  std::uint64_t shrunk : 1 = 0;
  std::uint64_t cut : 1 = 0;  // it may have pages that it does not need since it was cut off

  static constexpr std::uint64_t dropped = ~std::uint64_t{0};

  [[nodiscard]] bool inside() const noexcept { return in_class != 0; }
  // Offset of the bytes of a region that has them after its header.
  [[nodiscard]] std::uint64_t home() const noexcept { return header + sizeof(layout::header); }
};
static_assert(sizeof(entry) == line_bytes);

}  // namespace nvm::region
