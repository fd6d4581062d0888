// Measured costs of write-back on this machine and this medium, for the choice between few fences and few lines.
//
// A fence with one line, one with many, one with as many copied past the caches, each several times: the quickest
// counts, since nothing makes them too quick.  Half a millisecond where a line takes as long as on the slowest medium.
//
/// S, F lines;  | region/E20  nothing depends on it: it is measured
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/base.hpp"
#include "media/media.hpp"

namespace nvm::region {

// Picoseconds; at least 1.
struct write_costs {
  std::uint32_t fence = 0;        // 0: they are not known
  std::uint32_t line = 0;         // stored to and flushed
  std::uint32_t copied_line = 0;  // copied by copy_out()
  std::uint32_t byte = 0;         // of a checksum
};

inline constexpr std::size_t cost_scratch_bytes = 4096;

// Stores to `scratch`, which is durable memory of cost_scratch_bytes, and free.
template <media M>
[[nodiscard]] write_costs measure_costs(M& m, std::byte* scratch) noexcept {
  constexpr unsigned rounds = 8;
  constexpr std::uint64_t lines = cost_scratch_bytes / line_bytes;
  std::uint64_t sum = 0;
  const auto quickest = [&](auto&& work) {
    std::uint64_t best = ~std::uint64_t{0};
    for (unsigned i = 0; i < rounds; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      work(i);
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin);
      best = std::min<std::uint64_t>(best, static_cast<std::uint64_t>(ns.count()));
    }
    return 1000 * best;
  };
  const auto fenced = [&](auto&& work) {
    return quickest([&](unsigned i) {
      work(static_cast<int>(i + 1));
      m.fence(edge{"region/E20"});
    });
  };
  const auto flushed = [&](std::uint64_t n) {
    return fenced([&](int i) {
      std::memset(scratch, i, n * line_bytes);
      m.flush(scratch, n * line_bytes);
    });
  };
  const std::uint64_t one = flushed(1);
  const std::uint64_t many = flushed(lines);
  alignas(line_bytes) std::byte from[cost_scratch_bytes];
  const std::uint64_t copied = fenced([&](int i) {
    std::memset(from, i, sizeof from);
    copy_out(m, scratch, from, sizeof from);
  });
  const std::uint64_t summed = quickest([&](unsigned i) {
    from[0] = static_cast<std::byte>(i);
    sum += checksum(from, sizeof from, sum);
  });
  const auto at_least_1 = [](std::uint64_t ps) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ps, 1, ~std::uint32_t{0}));
  };
  write_costs c;
  c.line = at_least_1(many > one ? (many - one) / (lines - 1) : 0);
  c.fence = at_least_1(one > c.line ? one - c.line : 0);
  c.copied_line = at_least_1(copied > c.fence ? (copied - c.fence) / lines : 0);
  c.byte = at_least_1(summed / sizeof from + (sum == 0 ? 1 : 0));
  return c;
}

}  // namespace nvm::region
