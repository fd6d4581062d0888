// Checksums of records and headers: XXH3 (64 bits), inlined from the header-only library.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace nvm {

// The same value by the widest instructions that this processor has.
[[nodiscard]] std::uint64_t long_checksum(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;
inline constexpr std::size_t long_checksum_min = 512;

// `seed` binds the bytes to their place and time (generation, offset, pool), so that a valid record of another
// generation, lane or pool does not pass here.
inline std::uint64_t checksum(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
  if (count >= long_checksum_min) return long_checksum(bytes, count, seed);
  return XXH3_64bits_withSeed(bytes, count, seed);
}

// Seeds are combined by multiplication with odd constants: cheap, and distinct small inputs stay distinct.
constexpr std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b) noexcept {
  return (a ^ (b * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
}

}  // namespace nvm
