// Finds out that a damaged structure leads round in a circle.  A walk over an undamaged one ends; a walk that goes
// round passes the place that it has noted again before it has taken twice as many steps, and 64 (Brent's algorithm).
#pragma once

#include <cstdint>
#include <optional>

#include "base/inlining.hpp"

namespace nvm::lockfree {

class circle_watch {
 public:
  // False: this place was passed before.
  [[nodiscard, NVM_INLINE]] bool pass(const void* place) noexcept {
    // Most walks end before it is worth while to look.
    if (--unwatched_ >= 0) [[likely]]
      return true;
    unwatched_ = 0;
    return look(place);
  }

 private:
  [[nodiscard, NVM_INLINE]] bool look(const void* place) noexcept {
    if (place == noted_) return false;
    if (++steps_ == limit_) {
      noted_ = place;
      limit_ *= 2;
    }
    return true;
  }

  std::int32_t unwatched_ = 64;
  const void* noted_ = nullptr;
  std::uint64_t steps_ = 0;
  std::uint64_t limit_ = 16;
};

// A loop that looks again because something has changed meanwhile: after 2^20 times it has found damage, and not
// contention.
class patience {
 public:
  // False: patience has come to an end.
  [[nodiscard, NVM_INLINE]] bool again() noexcept { return ++times_ < times_max; }

 private:
  static constexpr std::uint32_t times_max = 1U << 20;
  std::uint32_t times_ = 0;
};

// The same for walks with ascending orders.  Equal orders are those of replaced nodes, of keys that begin alike and of
// equal hashes.
class climb {
 public:
  // Another climb begins.
  [[NVM_INLINE]] void again() noexcept {
    last_ = 0;
    equals_.reset();
  }
  [[nodiscard, NVM_INLINE]] bool step(std::uint64_t order, const void* place) noexcept {
    if (order <= last_) [[unlikely]]
      return order == last_ && pass_equal(place);
    last_ = order;
    return true;
  }

 private:
  // The watch begins anew at each order that differs from the last equal ones.
  [[nodiscard, NVM_INLINE]] bool pass_equal(const void* place) noexcept {
    if (!equals_ || watched_ != last_) {
      watched_ = last_;
      equals_.emplace();
    }
    return equals_->pass(place);
  }

  std::uint64_t last_ = 0;
  std::optional<circle_watch> equals_;  // empty in most walks: making it would cost each of them
  std::uint64_t watched_ = 0;           // the order that `equals_` is about
};

}  // namespace nvm::lockfree
