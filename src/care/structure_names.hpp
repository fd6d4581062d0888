// Which lock-free structures the file of a pool has, also while another process has it open.
#pragma once

#include <string>
#include <vector>

#include "base/base.hpp"
#include "lockfree/lockfree_layout.hpp"

namespace nvm::care {

struct structure_on_file {
  std::string name;
  lockfree::layout::kind kind = lockfree::layout::kind::none;
  bool of_bytes = false;
  bool volatile_links = false;
};

// In the order of their names.  Takes no lock, changes nothing, and passes over what does not hold at this moment; on
// ssd what is in the log alone is not seen.  errc::system, not_a_pool, corrupt, version, no_memory.
[[nodiscard]] result<std::vector<structure_on_file>> structures_in(const char* path) noexcept;
// The same of the directory at this offset, of an object store: nvm_store_info::structures.
// errc::not_found: none is there at this moment.
[[nodiscard]] result<std::vector<structure_on_file>> structures_at(const char* path, std::uint64_t directory) noexcept;

}  // namespace nvm::care
