// XXH3 for processors with AVX2.  Nothing else may be in this file: an inline function of another header, compiled
// here, could be the one that the linker keeps for every processor.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace nvm {

std::uint64_t checksum_avx2(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;
std::uint64_t checksum_avx2(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, count, seed);
}

}  // namespace nvm
