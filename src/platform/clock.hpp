// Clocks of the operating system.  Code that can be replayed takes times as parameters; this is for its callers.
#pragma once

#include <cstdint>
#include <ctime>

namespace nvm::platform {

// Nanoseconds since an arbitrary moment; never goes back.
[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
  std::timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// Seconds since 1970; may jump, so it is for display only.
[[nodiscard]] inline std::uint64_t unix_s() noexcept {
  std::timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec < 0 ? 0 : static_cast<std::uint64_t>(t.tv_sec);
}

}  // namespace nvm::platform
