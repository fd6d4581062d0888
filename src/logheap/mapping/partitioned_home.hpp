// A mapping's home space, in partitions of the same length.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/inlining.hpp"
#include "logheap/mapping.hpp"

namespace nvm::logheap {

class partitioned_home {
 protected:
  partitioned_home(const mapping_settings& home, std::uint64_t partition_bytes, std::uint64_t partition_max) noexcept
      : home_first_{home.home_first},
        home_bytes_{home.home_bytes},
        shift_{static_cast<unsigned>(std::countr_zero(partition_bytes))} {
    NVM_ASSERT(partition_bytes >= 64 && partition_bytes <= partition_max && std::has_single_bit(partition_bytes));
  }

  // Cuts a range to home space; false: nothing is left.
  [[nodiscard]] bool clip(home_t& home, std::uint64_t& size) const noexcept {
    if (home < home_first_) {
      const std::uint64_t off = home_first_ - home;
      if (size <= off) return false;
      home += off;
      size -= off;
    }
    if (home - home_first_ >= home_bytes_) return false;
    size = std::min(size, home_bytes_ - (home - home_first_));
    return size != 0;
  }
  // Calls visit(partition, x, bytes, before) for the parts of a range, which is home space: each lies in one partition
  // and is of at most `most` bytes, the first of them x after the home space's and `before` after the range's.
  template <class Visit>
  [[NVM_INLINE]] void each_cut(home_t home, std::uint64_t size, std::uint64_t most, Visit&& visit) const noexcept {
    NVM_ASSERT(size == 0 || (home >= home_first_ && range_inside(home - home_first_, size, home_bytes_)));
    std::uint64_t x = home - home_first_;
    for (std::uint64_t before = 0; before < size;) {
      const std::uint64_t partition = x >> shift_;
      const std::uint64_t n = std::min({((partition + 1) << shift_) - x, size - before, most});
      visit(partition, x, n, before);
      x += n;
      before += n;
    }
  }

  const home_t home_first_;
  const std::uint64_t home_bytes_;
  const unsigned shift_;
};

}  // namespace nvm::logheap
