// Extents of lock-free structures: the size of their nodes where the length bytes are lost, found by nodes that hold
// their sums.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "pool/pool.hpp"
#include "space/cluster_image.hpp"
#include "space/page_map.hpp"
#include "space/space_layout.hpp"

namespace nvm::care {

// A structure: number of the object store that it lies in, 0 for the pool's own, and its owner, which is unique there.
using structure_number = std::pair<std::uint32_t, std::uint16_t>;

// Calls visit(page, entry, number of the object store or 0) for each run and extent that holds its check, in the page
// map and in the maps of clusters whose headers hold; for these clusters, too.
template <class Visit>
void each_good_entry(const std::byte* base, const geometry& g, Visit&& visit) {
  for (std::uint64_t page = 0; page < g.size_pages;) {
    const std::uint64_t word = load_word(base, g.entry_offset(page));
    layout::page_entry e;
    const bool holds = word != 0 && entry_fault(word, page, g, g.size_pages, e) == nullptr;
    if (holds) visit(page, e, std::uint32_t{0});
    cluster c;
    if (holds && e.kind == layout::page_kind::cluster &&
        cluster_fault(base, g, page, e.length_pages, c).what == nullptr) {
      const auto inner = [&](std::uint64_t at, const layout::page_entry& of, std::uint64_t) {
        visit(at, of, c.number);
        return true;
      };
      each_inner_entry(base, g, c, inner, [](const damage&) {});
    }
    page += holds && e.length_pages != 0 ? e.length_pages : 1;
  }
}

// Of structures with volatile links.
using seeds_of_seals = std::map<structure_number, std::uint64_t>;
[[nodiscard]] seeds_of_seals seeds_in(const std::byte* base, const geometry& g);

// Offset of another page with the same bytes; 0: there is none.
[[nodiscard]] std::uint64_t twin_of_page(const std::byte* base, const geometry& g, std::uint64_t at);

// Class of the nodes between two offsets; lockfree::classes: unknown.  `seed`: of seals; nullptr: there are none.
[[nodiscard]] unsigned class_of_nodes_in(const std::byte* base, std::uint64_t begin, std::uint64_t end,
                                         const std::uint64_t* seed);
// A node that holds its sum, and was not removed, begins at `start` and ends before `end`.
[[nodiscard]] bool is_node_at(const std::byte* base, std::uint64_t start, std::uint64_t end, const std::uint64_t* seed);

// Makes length bytes and allocation words of an extent say that nodes of the class are in all places.
void lay_nodes(std::byte* base, std::uint64_t extent, const layout::extent_shape& shape, unsigned c);

// On an image whose page map may be damaged.  Where nodes that hold their sums agree about the size of the nodes of an
// extent, its length bytes say so again, and its allocation words, which lie beside them, that there are nodes in all
// places; tell(offset of the extent, slots of each).
void mend_sizes_of_nodes(std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t extent, unsigned slots)>& tell);

}  // namespace nvm::care
