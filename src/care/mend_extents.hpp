// Extents of lock-free structures: the size of their nodes where the length bytes are lost, found by nodes that hold
// their sums.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "pool/pool.hpp"
#include "space/space_layout.hpp"

namespace nvm::care {

// Of structures with volatile links, by owner.
using seeds_of_seals = std::map<std::uint16_t, std::uint64_t>;
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
