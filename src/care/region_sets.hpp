// Which sets of regions the file of a pool has, also while another process has it open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/base.hpp"

namespace nvm::care {

struct region_set_on_file {
  std::string name;
  std::uint64_t bytes = 0;  // of pages that are its own
};

// In the order of their names.  Takes no lock, changes nothing, and passes over words that do not hold at this moment;
// on ssd sets that are only in the log are not seen.  Cost: the page map is read, if the pool may have regions.
// errc::system, not_a_pool, no_memory.
[[nodiscard]] result<std::vector<region_set_on_file>> region_sets_in(const char* path) noexcept;

}  // namespace nvm::care
