// A lock for critical sections of nanoseconds to a few fences, one byte; usable with std::lock_guard.
// Spins a little, then yields the core: a holder that was pre-empted gets to run.
#pragma once

#include <atomic>
#include <thread>

namespace nvm {

class spin_lock {
 public:
  void lock() noexcept {
    for (unsigned spins = 0;; ++spins) {
      // acquire: pairs with the release store in unlock().
      if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) return;
      if (spins < 64) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
  bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace nvm
