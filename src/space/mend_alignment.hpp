// Where the payload of an aligned object lies is said twice (space/aligned_layout.hpp): by bits of its header and by
// the signpost before the payload.  Repair mends one by the other.
#pragma once

#include <cstdint>
#include <cstring>

#include "space/aligned_layout.hpp"

namespace nvm {

struct mended_alignment {
  const char* what = nullptr;  // nullptr: nothing was wrong
  std::uint64_t offset = 0;
  std::uint64_t found = 0;
  std::uint64_t made = 0;
  bool certain = true;
};

// Whether the signpost of the object at `offset` says the same as its header.
inline bool signpost_agrees(const std::byte* base, std::uint64_t offset, const layout::alignment& a) {
  if (a.natural()) return true;
  layout::signpost found;
  std::memcpy(&found, base + offset + a.signpost(), sizeof found);
  return layout::signpost_holds(found, offset + a.signpost(), a);
}

// Mends what is said of the alignment of the object at `offset`, whose header holds and whose room holds its size.
inline mended_alignment mend_alignment(std::byte* base, std::uint64_t offset) {
  layout::object_header h;
  std::memcpy(&h, base + offset, sizeof h);
  const auto post_of = [&](const layout::alignment& a) { return offset + a.signpost(); };
  const auto agrees = [&](const layout::alignment& a) { return signpost_agrees(base, offset, a); };
  const auto a = layout::alignment_of(h, offset);
  if (a && agrees(*a)) return {};
  const std::uint64_t found = h.size_generation_check;
  unsigned ways = 0;
  bool by_signpost = false;
  std::uint64_t made = 0;
  for (unsigned bit = 0; bit < 16; ++bit) {
    h.size_generation_check = found ^ std::uint64_t{1} << (layout::alignment_shift + bit);
    const auto other = layout::alignment_of(h, offset);
    if (!other || !agrees(*other)) continue;
    // A header and a signpost that agree say more than a header alone.
    if (other->natural() && ways != 0) continue;
    ways = other->natural() || by_signpost ? ways + 1 : 1;
    by_signpost = by_signpost || !other->natural();
    made = h.size_generation_check;
  }
  if (ways != 1 && a) {
    const layout::signpost s = layout::signpost_at(post_of(*a), *a);
    std::uint64_t before = 0;
    std::memcpy(&before, base + post_of(*a), sizeof before);
    std::memcpy(base + post_of(*a), &s, sizeof s);
    return {"signpost before an aligned object", post_of(*a), before, s.word, true};
  }
  if (ways != 1) made = found & ~layout::alignment_mask;
  std::memcpy(base + offset, &made, sizeof made);
  return {"alignment in an object header", offset, found, made, ways == 1};
}

}  // namespace nvm
