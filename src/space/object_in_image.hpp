// Which object a place of a pool lies in, as the page map and the words of its extent say: of images at rest that may
// be damaged.
#pragma once

#include <bit>
#include <cstdint>

#include "space/cluster_image.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm {

// The room of an object with its header; 0 bytes: no object is allocated there.
struct object_room {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] bool holds(std::uint64_t place, std::uint64_t n) const noexcept {
    return bytes != 0 && place >= offset && range_inside(place - offset, n, bytes);
  }
};

// The object of the extent at `extent` that has the slot.
[[nodiscard]] inline object_room object_in_extent(const std::byte* base, std::uint64_t extent,
                                                  const layout::extent_shape& s, unsigned slot) noexcept {
  for (unsigned w = slot / checked_bits + 1; w-- != 0;) {
    const std::uint64_t at = extent + layout::first_words_at + w * 8;
    const std::uint64_t word = load_word(base, at);
    if (!word_holds(word, word_seed(at))) return {};
    std::uint64_t bits = word & checked_mask;
    if (w == slot / checked_bits) bits &= (std::uint64_t{2} << slot % checked_bits) - 1;
    if (bits == 0) continue;
    const unsigned first = w * checked_bits + 63U - static_cast<unsigned>(std::countl_zero(bits));
    const unsigned slots = layout::slots_of_length(static_cast<std::uint8_t>(base[extent + s.lengths_at + first]));
    if (first < s.header_slots || first + slots <= slot) return {};
    return {extent + first * s.slot_bytes, slots * s.slot_bytes};
  }
  return {};
}

// The object of entry `e` of page `head` that has the place.
[[nodiscard]] inline object_room object_in_entry(const std::byte* base, const geometry& g, std::uint64_t head,
                                                 const layout::page_entry& e, std::uint64_t place) noexcept {
  const std::uint64_t at = g.page_offset(head);
  if (e.kind == layout::page_kind::run) return {at, std::uint64_t{e.length_pages} << g.page_shift};
  if (e.kind != layout::page_kind::fine && e.kind != layout::page_kind::coarse) return {};
  const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
  return object_in_extent(base, at, s, static_cast<unsigned>((place - at) >> s.slot_shift));
}
// The same of a cluster of an object store.
[[nodiscard]] inline object_room object_in_cluster(const std::byte* base, const geometry& g, std::uint64_t page,
                                                   std::uint64_t pages, std::uint64_t place) noexcept {
  cluster c;
  if (cluster_fault(base, g, page, pages, c).what != nullptr) return {};
  const std::uint64_t sought = g.page_of(place);
  for (std::uint64_t head = sought + 1; head-- > c.page + c.header_pages;) {
    const std::uint64_t word = load_word(base, c.entry_offset(g, head));
    if (word == 0) continue;
    layout::page_entry e;
    if (inner_entry_fault(word, head, c, g, e) != nullptr || head + e.length_pages <= sought) return {};
    if (!layout::transactional(e)) return {};
    return object_in_entry(base, g, head, e, place);
  }
  return {};
}

// Whether a cluster of an object store has the page of that place.  Cost: as object_in_image().
[[nodiscard]] inline bool in_cluster_of_image(const std::byte* base, const geometry& g, std::uint64_t place) noexcept {
  if (!g.in_data(place, 1)) return false;
  const std::uint64_t page = g.page_of(place);
  for (std::uint64_t head = page + 1; head-- != 0;) {
    const std::uint64_t word = load_word(base, g.entry_offset(head));
    if (word == 0) continue;
    layout::page_entry e;
    return entry_fault(word, head, g, g.size_pages, e) == nullptr && head + e.length_pages > page &&
           e.kind == layout::page_kind::cluster;
  }
  return false;
}

// Cost: an entry for each page back to the head of the run, or back to the last page that is not free.
[[nodiscard]] inline object_room object_in_image(const std::byte* base, const geometry& g,
                                                 std::uint64_t place) noexcept {
  if (!g.in_data(place, 1)) return {};
  const std::uint64_t page = g.page_of(place);
  for (std::uint64_t head = page + 1; head-- != 0;) {
    const std::uint64_t word = load_word(base, g.entry_offset(head));
    if (word == 0) continue;
    layout::page_entry e;
    if (entry_fault(word, head, g, g.size_pages, e) != nullptr) return {};
    if (head + e.length_pages <= page || !layout::transactional(e)) return {};
    if (e.kind == layout::page_kind::cluster) return object_in_cluster(base, g, head, e.length_pages, place);
    return object_in_entry(base, g, head, e, place);
  }
  return {};
}

}  // namespace nvm
