// Extents of lock-free structures whose length bytes say nothing: what size their nodes have.
#pragma once

#include <functional>

#include "pool/pool.hpp"

namespace nvm::care {

// On an image whose page map may be damaged.  Where nodes that hold their sums agree about the size of the nodes of an
// extent, its length bytes say so again, and its allocation words, which lie beside them, that there are nodes in all
// places; tell(offset of the extent, slots of each).
void mend_sizes_of_nodes(std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t extent, unsigned slots)>& tell);

}  // namespace nvm::care
