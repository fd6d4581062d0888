// The page map on media: one checked word a data page (space_layout.hpp).  Reads are checked, every one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/brought_first.hpp"
#include "base/checked_word.hpp"
#include "pool/pool.hpp"
#include "space/space_layout.hpp"

namespace nvm {

// What is wrong with a page map entry; nullptr: nothing.  `out` is set unless the word fails its check.
[[nodiscard]] inline const char* entry_fault(std::uint64_t word, std::uint64_t page, const geometry& g,
                                             std::uint64_t size_pages, layout::page_entry& out) noexcept {
  if (!word_holds(word, word_seed(g.entry_offset(page)))) return "page map entry fails its check";
  out = layout::unpack(word & checked_mask);
  if (word == 0) return nullptr;
  if (out.layout > layout::object_layout::region) return "page map entry has an unknown object layout";
  if (out.protocol == layout::slot_protocol::region && out.kind != layout::page_kind::run) {
    return "page map entry of a region is none of a run";
  }
  if (layout::transactional(out) != (out.store == 0)) return "page map entry has a wrong owner";
  std::uint64_t expected = out.length_pages;
  switch (out.kind) {
    case layout::page_kind::run:
    case layout::page_kind::log:
      break;
    case layout::page_kind::cluster:
      if (!layout::transactional(out) || out.layout != layout::object_layout::raw) {
        return "page map entry of a cluster has a layout or protocol";
      }
      break;
    case layout::page_kind::fine:
      expected = layout::fine_extent_pages;
      break;
    case layout::page_kind::coarse:
      expected = layout::coarse_extent_pages;
      if (page % layout::extent_align_pages != 0) return "page map entry of a coarse extent stands at no multiple of 8";
      break;
    default:
      return "page map entry has an unknown kind";
  }
  if (out.length_pages == 0 || out.length_pages != expected) return "page map entry has a wrong length";
  if (!range_inside(page, out.length_pages, size_pages)) return "page map entry reaches behind the pool's end";
  return nullptr;
}

// Differences of checks in a chunk of 64 entries alike, each from the first's.  A check is the sum of a part by content
// and a part by place (CRC and seed are linear); places in a chunk differ in their lowest six bits.
inline constexpr std::array<std::uint64_t, 64> checks_of_places = [] {
  std::array<std::uint64_t, 64> checks{};
  for (std::uint64_t i = 0; i < checks.size(); ++i)
    checks[i] = std::uint64_t{detail::crc8_tables[7][word_seed(i * 8)]} << checked_bits;
  return checks;
}();

// Number of pages with an entry: those that exist, and later ones whose entries share a page of the map with theirs.
// Growth takes over the latter as it finds them.
[[nodiscard]] inline std::uint64_t pages_with_entries(const geometry& g) noexcept {
  return std::min(round_up(g.size_pages, g.page_bytes() / 8), g.capacity_pages);
}

class page_map {
 public:
  page_map(std::byte* base, const geometry& g) noexcept : base_{base}, geometry_{g} {}

  // acquire: pairs with release stores of entries, here and in log::apply().
  [[nodiscard]] std::uint64_t load(std::uint64_t page) const noexcept {
    return ref(page).load(std::memory_order_acquire);
  }
  // release: a thread that finds the entry sees the pages as they were left.
  void store(std::uint64_t page, std::uint64_t word) const noexcept {
    bring_first(reinterpret_cast<std::uint64_t*>(at(page)));
    ref(page).store(word, std::memory_order_release);
  }
  // Whether all 64 pages from `page` on, which begins a chunk, are free, or have valid entries that are alike and of
  // one page each; `out` is any of these, or has length 0.  A third of a nanosecond a page.  False: look at each.
  [[nodiscard]] bool has_alike(std::uint64_t page, std::uint64_t size_pages, layout::page_entry& out) const noexcept {
    if (page + 64 > size_pages || geometry_.entry_offset(page) / 8 % 64 != 0) return false;
    const std::uint64_t first = load(page);
    const std::uint64_t bound = first == 0 ? 0 : ~std::uint64_t{0};  // a free page's entry is zero everywhere
    std::uint64_t differs = 0;
    for (unsigned i = 0; i < 64; ++i) differs |= load(page + i) ^ first ^ (checks_of_places[i] & bound);
    if (differs != 0) return false;
    out = {};
    return first == 0 || (entry_fault(first, page, geometry_, size_pages, out) == nullptr && out.length_pages == 1);
  }
  [[nodiscard]] std::uint64_t seal(std::uint64_t page, const layout::page_entry& e) const noexcept {
    return seal_word(layout::pack(e), word_seed(geometry_.entry_offset(page)));
  }
  [[nodiscard]] std::byte* at(std::uint64_t page) const noexcept { return base_ + geometry_.entry_offset(page); }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> ref(std::uint64_t page) const noexcept {
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(at(page))};
  }
  std::byte* base_;
  const geometry& geometry_;
};

}  // namespace nvm
