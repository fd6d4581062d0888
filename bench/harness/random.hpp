// Random streams and digests, the same on every machine for the same seed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nvm::bench {

// Bijective mixing of 64 bits (finalizer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// splitmix64: one addition and one mix a number; passes the usual test batteries, seeds from any number.
class random {
 public:
  explicit constexpr random(std::uint64_t seed) noexcept : state_(mix(seed)) {}
  constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  // Uniform in [0, bound), by multiplication: its bias of bound / 2^64 cannot be seen here.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

// Order-sensitive hash of what a system read or left behind; equal digests show equal work.
class digest {
 public:
  constexpr void add(std::uint64_t value) noexcept { state_ = mix(std::rotl(state_, 5) ^ value); }
  void add_bytes(const void* p, std::size_t n) noexcept {
    const char* bytes = static_cast<const char*>(p);
    for (; n >= 8; bytes += 8, n -= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      add(word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, bytes, n);
    add(rest ^ n);
  }
  constexpr std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x6b62'656e'6368ULL;
};

}  // namespace nvm::bench
