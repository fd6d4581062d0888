// Memory of private mappings, given back; which pages of a mapped file can be read; how much memory there is.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/base.hpp"
#include "platform/map.hpp"

namespace nvm::platform {

// Drops stores to the pages of a private mapping of a file: they show the file again.  `base` is aligned to a page of
// the system.
[[nodiscard]] inline status drop_private_pages(void* base, std::uint64_t bytes) noexcept {
  if (::madvise(base, static_cast<std::size_t>(bytes), MADV_DONTNEED) == 0) return {};
  return fail(errc::system, "giving back %llu bytes of memory: %s", static_cast<unsigned long long>(bytes),
              std::strerror(errno));
}

// The first page of [base, base + bytes), whole pages of a mapped file, on which a load would raise SIGBUS: it lies
// after the file's end, or its device or memory has lost it.  nullptr: none, or a kernel that does not tell (before
// 5.14).  Readable pages are in memory afterwards.  Cost: that of a fault for each of them, without the trap.
[[nodiscard]] inline std::byte* unreadable_page(std::byte* base, std::uint64_t bytes) noexcept {
  const auto lost = [](std::byte* p, std::uint64_t n) noexcept {
    int failed = 0;
    do {
      failed = ::madvise(p, static_cast<std::size_t>(n), MADV_POPULATE_READ);
    } while (failed != 0 && (errno == EINTR || errno == EAGAIN));
    return failed != 0 && (errno == EFAULT || errno == EHWPOISON);
  };
  if (bytes == 0 || !lost(base, bytes)) return nullptr;
  for (std::uint64_t at = 0; at < bytes; at += page_bytes()) {
    if (lost(base + at, page_bytes())) return base + at;
  }
  return nullptr;
}

// Memory of the machine.
[[nodiscard]] inline std::uint64_t memory_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long bytes = ::sysconf(_SC_PAGESIZE);
  return pages <= 0 || bytes <= 0 ? 0 : static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes);
}

}  // namespace nvm::platform
