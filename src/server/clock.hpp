// The server's time: unix time in seconds, as items expire by it.  It is the wall clock, because an expiry must mean
// the same after a restart; memcached's tests move it.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace nvm::server {

class wall_clock {
 public:
  // For tests: 0, or the time at which the wall clock stands; pausing and moving work as usual.
  explicit wall_clock(std::uint32_t stands_at = 0) noexcept : stands_at_{stands_at} {}
  [[nodiscard]] std::uint32_t now() const noexcept {
    // relaxed: for tests; nothing else depends on it.
    if (const std::int64_t paused = paused_at_.load(std::memory_order_relaxed); paused != 0) {
      return static_cast<std::uint32_t>(paused);
    }
    return static_cast<std::uint32_t>(read() + shift_.load(std::memory_order_relaxed));
  }

  // relaxed: as above.
  void move(std::int64_t seconds) noexcept {
    shift_.fetch_add(seconds, std::memory_order_relaxed);
    if (paused_at_.load(std::memory_order_relaxed) != 0) paused_at_.fetch_add(seconds, std::memory_order_relaxed);
  }
  void pause() noexcept { paused_at_.store(now(), std::memory_order_relaxed); }
  void go_on() noexcept { paused_at_.store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::int64_t read() const noexcept {
    if (stands_at_ != 0) return stands_at_;
    timespec t{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return t.tv_sec;
  }

  std::atomic<std::int64_t> shift_{0};
  std::atomic<std::int64_t> paused_at_{0};
  const std::int64_t stands_at_;
};

}  // namespace nvm::server
