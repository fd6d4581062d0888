// Waiting for another thread: a few pauses, then yields, then short sleeps, since the other thread may not be running.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "platform/platform.hpp"

namespace nvm::isolation {

// Pauses between look number `round` and the next.
inline void pause_in_round(unsigned round) noexcept {
  if (round < 64) {
    isa::spin_hint();
  } else if (round < 256) {
    std::this_thread::yield();
  } else {
    const platform::uncancelled until_awake;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}
template <class Ready>
void wait_until(Ready&& ready) noexcept {
  for (unsigned round = 0; !ready(); ++round) pause_in_round(round);
}

// Pauses between attempts of one transaction: random, so that two that met once do not meet again in step, and longer
// each time, so that they get out of each other's way.
class back_off {
 public:
  explicit back_off(std::uint64_t seed) noexcept : state_{seed * 0x9E3779B97F4A7C15ULL | 1} {}

  void pause(unsigned attempt) noexcept {
    const unsigned shift = attempt < 10 ? attempt : 10;
    const std::uint64_t pauses = random() & ((std::uint64_t{8} << shift) - 1);
    for (std::uint64_t i = 0; i < pauses; ++i) isa::spin_hint();
    // With more threads than processors the other one may be waiting for ours.
    if (attempt > 2) std::this_thread::yield();
  }

 private:
  std::uint64_t random() noexcept {  // xorshift
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }
  std::uint64_t state_;
};

}  // namespace nvm::isolation
