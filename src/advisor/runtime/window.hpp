// Where a profiled program's memory lies: at fixed addresses, so that compiled code compares with constants.
//
//   heap_base      what malloc and its kin give out; objects of up to 16 MiB in the lower half
//   granule_sites  for each 16 bytes of the heap the site that they belong to; 0: of no object
//   line_bursts    for each 64 bytes the burst in which they were last stored to
//   block_sites    for each 64 KiB the site of the one object of the upper half that has all of
//                  them; 0: look at the granules
//
// The window is reserved without memory: pages come as they are touched. The pools lie above it (NVM_WINDOW_BASE).
#pragma once

#include <cstdint>

namespace nvm::advisor {

inline constexpr std::uintptr_t heap_base = 0x1800'0000'0000;
inline constexpr std::uint64_t heap_bytes = std::uint64_t{1} << 40;
inline constexpr std::uint64_t small_bytes = heap_bytes / 2;
inline constexpr std::uintptr_t granule_base = heap_base + heap_bytes;
inline constexpr std::uint64_t granule_bytes = 16;
inline constexpr std::uintptr_t line_base = granule_base + heap_bytes / granule_bytes * sizeof(std::uint32_t);
inline constexpr std::uint64_t line_bytes = 64;
inline constexpr std::uintptr_t block_base = line_base + heap_bytes / line_bytes * sizeof(std::uint32_t);
inline constexpr std::uint64_t block_bytes = 65536;
inline constexpr std::uintptr_t window_end = block_base + heap_bytes / block_bytes * sizeof(std::uint32_t);

// Of the pools, as the pass knows them.
inline constexpr std::uintptr_t pools_base = 0x2000'0000'0000;
inline constexpr std::uintptr_t pools_end = 0x4000'0000'0000;
static_assert(window_end <= pools_base);

}  // namespace nvm::advisor
