#include "base/checksum.hpp"

namespace nvm {

// In a file of its own, compiled for that instruction set; the values are the same.
std::uint64_t checksum_avx2(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;

namespace {

using function = std::uint64_t (*)(const void*, std::size_t, std::uint64_t) noexcept;

std::uint64_t checksum_anywhere(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, count, seed);
}

function fastest() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") ? checksum_avx2 : checksum_anywhere;
}

}  // namespace

std::uint64_t long_checksum(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
  static const function f = fastest();
  return f(bytes, count, seed);
}

}  // namespace nvm
