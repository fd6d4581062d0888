// Emulated non-volatile memory, for the machine's limit and for peers that know of none: Holdfast's media emulate by
// themselves, by the same rule.
//
// What a thread wrote back between two fences is a batch.  The fence that ends it takes
//   max(fence_ns, bytes / bandwidth) + lines * writeback_ns
// more, spun on the time-stamp counter; a fence with nothing to wait for takes nothing more (LSNVMM, section 5.1).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "harness/clock.hpp"

namespace nvm::bench {

struct emulation {
  std::uint64_t fence_ns = 0;
  std::uint64_t writeback_ns = 0;       // per line
  std::uint64_t bandwidth_bytes_s = 0;  // 0: unlimited
  bool any() const noexcept { return (fence_ns | writeback_ns | bandwidth_bytes_s) != 0; }
};

// Ticks of the time-stamp counter in a nanosecond, measured once against the monotonic clock.
inline double ticks_per_ns() noexcept {
  static const double ticks = [] {
    constexpr std::uint64_t window_ns = 5'000'000;
    const std::uint64_t start_ns = wall_ns();
    const std::uint64_t start = __rdtsc();
    std::uint64_t now_ns = start_ns;
    while (now_ns - start_ns < window_ns) now_ns = wall_ns();
    return static_cast<double>(__rdtsc() - start) / static_cast<double>(now_ns - start_ns);
  }();
  return ticks;
}

// Lines that one thread wrote back since its last fence.
class emulated_batch {
 public:
  void wrote(std::uint64_t lines) noexcept { lines_ += lines; }
  void fence(const emulation& e) noexcept {
    if (lines_ == 0) return;
    const auto lines = static_cast<double>(lines_);
    lines_ = 0;
    const double transfer_ns =
        e.bandwidth_bytes_s == 0 ? 0 : lines * 64 * 1e9 / static_cast<double>(e.bandwidth_bytes_s);
    const double delay_ns =
        std::max(static_cast<double>(e.fence_ns), transfer_ns) + lines * static_cast<double>(e.writeback_ns);
    const auto ticks = static_cast<std::uint64_t>(delay_ns * ticks_per_ns());
    const std::uint64_t start = __rdtsc();
    while (__rdtsc() - start < ticks) _mm_pause();
  }

 private:
  std::uint64_t lines_ = 0;
};

}  // namespace nvm::bench
