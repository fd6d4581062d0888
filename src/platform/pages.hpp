// Memory of private mappings, given back; how much there is.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/base.hpp"

namespace nvm::platform {

// Drops what was stored to the pages of a private mapping of a file: they show the file again.  `base`
// is aligned to a page of the system.
[[nodiscard]] inline status drop_private_pages(void* base, std::uint64_t bytes) noexcept {
  if (::madvise(base, static_cast<std::size_t>(bytes), MADV_DONTNEED) == 0) return {};
  return fail(errc::system, "giving back %llu bytes of memory: %s", static_cast<unsigned long long>(bytes),
              std::strerror(errno));
}

// Of the machine.
[[nodiscard]] inline std::uint64_t memory_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long bytes = ::sysconf(_SC_PAGESIZE);
  return pages <= 0 || bytes <= 0 ? 0 : static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes);
}

}  // namespace nvm::platform
