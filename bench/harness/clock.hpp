// Nanoseconds of the wall clock and of processor time.
#pragma once

#include <time.h>

#include <cstdint>

namespace nvm::bench {

inline std::uint64_t read_clock_ns(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}
inline std::uint64_t wall_ns() noexcept { return read_clock_ns(CLOCK_MONOTONIC); }
// Time of all threads: background work of a library is paid for as well.
inline std::uint64_t process_cpu_ns() noexcept { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace nvm::bench
