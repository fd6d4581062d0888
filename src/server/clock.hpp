// The server's time: unix time in seconds, as items expire by it.  It is the wall clock, because an expiry must mean
// the same after a restart; memcached's tests move it.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace nvm::server {

class wall_clock {
 public:
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
  void pause() noexcept { pause_at(now()); }
  void pause_at(std::uint32_t time) noexcept { paused_at_.store(time, std::memory_order_relaxed); }
  void go_on() noexcept { paused_at_.store(0, std::memory_order_relaxed); }

 private:
  static std::int64_t read() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return t.tv_sec;
  }

  std::atomic<std::int64_t> shift_{0};
  std::atomic<std::int64_t> paused_at_{0};
};

}  // namespace nvm::server
