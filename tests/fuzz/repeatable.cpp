#include "repeatable.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

// 0: the system's own.
std::atomic<std::uint64_t> state{0};

}  // namespace

// In place of the C library's, for this program.
extern "C" __attribute__((visibility("default"))) ssize_t getrandom(void* to, std::size_t bytes, unsigned flags);
extern "C" ssize_t getrandom(void* to, std::size_t bytes, unsigned flags) {
  if (state == 0) return ::syscall(SYS_getrandom, to, bytes, flags);
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(state >> 56);
  }
  return static_cast<ssize_t>(bytes);
}

namespace nvm::fuzz {

repeatable_randomness::repeatable_randomness() noexcept { state = 1; }
repeatable_randomness::~repeatable_randomness() { state = 0; }

}  // namespace nvm::fuzz
