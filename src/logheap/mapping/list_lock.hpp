// The lock of a list: one word, for one writer or any number of readers; configurations without reader locks use it as
// a writer's lock only.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "platform/platform.hpp"

namespace nvm::logheap {

class list_lock {
 public:
  void lock() noexcept {
    // acquire: pairs with unlock().  The writer keeps new readers out, then waits for those inside.
    wait_until([&] {
      std::uint32_t now = word_.load(std::memory_order_relaxed);
      return (now & writer) == 0 && word_.compare_exchange_weak(now, now | writer, std::memory_order_acquire);
    });
    // acquire: pairs with unlock_shared().
    wait_until([&] { return word_.load(std::memory_order_acquire) == writer; });
  }
  void unlock() noexcept { word_.store(0, std::memory_order_release); }

  void lock_shared() noexcept {
    wait_until([&] {
      std::uint32_t now = word_.load(std::memory_order_relaxed);
      return (now & writer) == 0 && word_.compare_exchange_weak(now, now + 1, std::memory_order_acquire);
    });
  }
  void unlock_shared() noexcept { word_.fetch_sub(1, std::memory_order_release); }

 private:
  static constexpr std::uint32_t writer = std::uint32_t{1} << 31;
  template <class Ready>
  static void wait_until(Ready&& ready) noexcept {
    for (unsigned spins = 0; !ready(); ++spins) {
      if (spins < 64) {
        isa::spin_hint();
      } else {
        std::this_thread::yield();
      }
    }
  }
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace nvm::logheap
