// A lock for many readers and rare writers.  A writer that waits goes before readers that come later: with the system's
// own locks readers that come all the time keep it out.  No thread takes it again that has it.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace nvm {

class writers_first_lock {
 public:
  void lock() noexcept {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard turn{turn_};
    lock_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() noexcept { lock_.unlock(); }

  void lock_shared() noexcept {
    // relaxed: a reader that does not see it goes first.
    if (waiting_.load(std::memory_order_relaxed) != 0) {
      const std::lock_guard turn{turn_};
    }
    lock_.lock_shared();
  }
  bool try_lock_shared() noexcept { return lock_.try_lock_shared(); }
  void unlock_shared() noexcept { lock_.unlock_shared(); }

 private:
  std::shared_mutex lock_;
  std::mutex turn_;  // of the writer that waits
  std::atomic<unsigned> waiting_{0};
};

}  // namespace nvm
