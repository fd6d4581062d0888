// How full the extents of a pool's file are, also while another process has it open.
#pragma once

#include <cstdint>

#include "base/base.hpp"

namespace nvm::care {

struct extents_on_file {
  std::uint64_t count = 0;  // of the pool's own and of structures; those inside of object stores are not looked at
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;   // of slots in which nothing is
  std::uint64_t empty_bytes = 0;  // of extents in which nothing is: a trim makes free pages of them
};

// Takes no lock and changes nothing; on ssd what is in the log alone is not seen.  Of more than 65,536 extents as many
// are read, evenly, and the rest is taken to be like them.  Cost: the page map, and a read for each of these.
// errc::system, not_a_pool, no_memory.
[[nodiscard]] result<extents_on_file> extents_in(const char* path) noexcept;

}  // namespace nvm::care
