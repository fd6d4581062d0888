// Sizes of nodes: whole cache lines, in classes.  A node of no class has a run of its own.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "space/space.hpp"

namespace nvm::lockfree {

inline constexpr std::array<std::uint8_t, 20> class_slots{1,  2,  3,  4,  5,  6,  7,  8,  10, 12,
                                                          14, 16, 20, 24, 28, 32, 40, 48, 56, 64};
inline constexpr unsigned classes = class_slots.size();
inline constexpr std::uint64_t slot_bytes = nvm::layout::coarse_slot_bytes;

// Smallest class with room for `bytes`; `classes`: none.
constexpr unsigned class_of(std::uint64_t bytes) noexcept {
  const std::uint64_t slots = ceil_div(bytes, slot_bytes);
  if (slots <= 8) return slots == 0 ? 0 : static_cast<unsigned>(slots - 1);
  unsigned c = 8;
  while (c < classes && class_slots[c] < slots) ++c;
  return c;
}
// Class whose nodes take exactly `slots`; `classes`: none does.
constexpr unsigned class_of_slots(unsigned slots) noexcept {
  const unsigned c = class_of(slots * slot_bytes);
  return c < classes && class_slots[c] == slots ? c : classes;
}
constexpr std::uint64_t class_bytes(unsigned c) noexcept { return class_slots[c] * slot_bytes; }

// Bits of an allocation word where nodes of the class begin.
constexpr std::uint64_t places_in_word(const nvm::layout::extent_shape& s, unsigned c, unsigned word) noexcept {
  const unsigned slots = class_slots[c];
  std::uint64_t places = 0;
  const unsigned first = word * checked_bits;
  for (unsigned i = 0; i < checked_bits; ++i) {
    const unsigned slot = first + i;
    if (slot < s.header_slots || slot + slots > s.slots) continue;
    if ((slot - s.header_slots) % slots == 0) places |= std::uint64_t{1} << i;
  }
  return places;
}

// Those of all classes, in each word of an extent.
using node_places = std::array<std::array<std::uint64_t, 16>, classes>;
constexpr node_places places_in_extent(const nvm::layout::extent_shape& s) noexcept {
  node_places all{};
  for (unsigned c = 0; c < classes; ++c) {
    for (unsigned w = 0; w < s.words && w < all[c].size(); ++w) all[c][w] = places_in_word(s, c, w);
  }
  return all;
}
// Known before anything runs: pages are 1, 2 or 4 KiB.
inline const node_places& places_of_nodes(const nvm::layout::extent_shape& s) noexcept {
  constexpr auto of_shift = [](unsigned page_shift) {
    return nvm::layout::shape_of(nvm::layout::page_kind::coarse, page_shift);
  };
  static constexpr std::array<node_places, 3> all{places_in_extent(of_shift(10)), places_in_extent(of_shift(11)),
                                                  places_in_extent(of_shift(12))};
  static_assert(of_shift(12).words <= all[0][0].size());
  const unsigned i = static_cast<unsigned>(std::countr_zero(s.bytes / of_shift(10).bytes));
  assert(i < all.size());
  return all[i];
}

}  // namespace nvm::lockfree
