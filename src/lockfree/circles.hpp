// What tells that a damaged structure leads round in a circle: a walk that nobody has damaged ends, and one that goes
// round passes the place it has noted again before it has taken twice as many steps (Brent's algorithm).
#pragma once

#include <cstdint>

#include "base/inlining.hpp"

namespace nvm::lockfree {

class circle_watch {
 public:
  // False: this place was passed before.
  [[nodiscard, NVM_INLINE]] bool pass(const void* place) noexcept {
    if (place == noted_) [[unlikely]]
      return false;
    if (++steps_ == limit_) [[unlikely]] {
      noted_ = place;
      limit_ *= 2;
    }
    return true;
  }

 private:
  const void* noted_ = nullptr;
  std::uint64_t steps_ = 0;
  std::uint64_t limit_ = 16;
};

// A loop that looks again because something has changed meanwhile: after 2^20 times it has found damage, and not
// contention.
class patience {
 public:
  // False: it has come to an end.
  [[nodiscard, NVM_INLINE]] bool again() noexcept { return ++times_ < times_max; }

 private:
  static constexpr std::uint32_t times_max = 1U << 20;
  std::uint32_t times_ = 0;
};

// The same where orders ascend from step to step; equal ones are those of replaced nodes, of keys that begin alike and
// of hashes that are the same.
class climb {
 public:
  [[nodiscard, NVM_INLINE]] bool step(std::uint64_t order, const void* place) noexcept {
    if (order <= last_) [[unlikely]]
      return order == last_ && equals_.pass(place);
    last_ = order;
    equals_ = {};
    return true;
  }

 private:
  std::uint64_t last_ = 0;
  circle_watch equals_;
};

}  // namespace nvm::lockfree
