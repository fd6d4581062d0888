// Fetching of memory that will be needed soon.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.hpp"

namespace nvm {

// Most lines that are fetched of one range: more than a processor loads at once.
inline constexpr std::uint64_t fetched_lines_max = 16;

// Begins to bring the first lines of [p, p + n) into the cache.  Any address will do.  Inlined: GCC removes calls of a
// function that only prefetches.
[[gnu::always_inline]] inline void fetch_lines(const void* p, std::size_t n) noexcept {
  if (n == 0) return;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{line_bytes - 1};
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(p) + n;
  for (std::uintptr_t at = first; at < end && at - first < fetched_lines_max * line_bytes; at += line_bytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(at));
  }
}

}  // namespace nvm
