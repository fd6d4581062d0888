// Facts about lock-free structures, for callers of an interface that names no template.
#pragma once

#include <cstdint>

#include "lockfree/lockfree_layout.hpp"

namespace nvm::lockfree {

enum class write_rule : std::uint8_t { insert_only, replace_only, either };
enum class written : std::uint8_t { inserted, replaced, refused };

// How recovery finds which nodes of an active area are linked (log-free, section 5.5): it looks for each by its key, or
// walks over all links; automatic: the former, but in lists.
enum class recovery_method : std::uint8_t { automatic, search, traversal };

struct recovery_report {
  std::uint64_t areas = 0;        // active when the last process ended
  std::uint64_t allocated = 0;    // nodes in them
  std::uint64_t searched = 0;     // of these, because they might be unlinked
  std::uint64_t freed = 0;        // of these, because nothing led to them
  std::uint64_t pages_freed = 0;  // extents and runs of structures that do not exist
};

}  // namespace nvm::lockfree
