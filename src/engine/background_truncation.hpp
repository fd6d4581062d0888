// A thread that empties the rings of the redo engine before a committer finds its own full.  It starts when it is first
// needed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "platform/platform.hpp"

namespace nvm::engines {

class background_truncation {
 public:
  background_truncation() = default;
  ~background_truncation() { stop(); }
  background_truncation(const background_truncation&) = delete;
  background_truncation& operator=(const background_truncation&) = delete;

  // Says that there is work; any thread may call it, often. `work` is called in the thread. If the system gives no
  // thread, committers still truncate when their rings are full.
  template <class Work>
  void wake(Work&& work) noexcept {
    // relaxed: a thread that sees a wake under way needs no other.
    if (wanted_.load(std::memory_order_relaxed)) return;
    const std::lock_guard guard{lock_};
    if (stopping_ || failed_) return;
    wanted_.store(true, std::memory_order_relaxed);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread{[this, work] { run(work); }};
      } catch (const std::system_error&) {
        failed_ = true;
      } catch (const std::bad_alloc&) {
        failed_ = true;
      }
      if (failed_) {
        wanted_.store(false, std::memory_order_relaxed);
        return;
      }
    }
    woken_.notify_one();
  }

  // Returns when the thread has ended; it is not started again.
  void stop() noexcept {
    {
      const std::lock_guard guard{lock_};
      stopping_ = true;
    }
    woken_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  template <class Work>
  void run(const Work& work) noexcept {
    std::unique_lock guard{lock_};
    for (;;) {
      woken_.wait(guard, [this] { return stopping_ || wanted_.load(std::memory_order_relaxed); });
      if (stopping_) return;
      guard.unlock();
      {
        const platform::in_call here;
        work();
      }
      guard.lock();
      wanted_.store(false, std::memory_order_relaxed);
    }
  }

  std::mutex lock_;
  std::condition_variable woken_;
  std::atomic<bool> wanted_{false};
  bool stopping_ = false;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace nvm::engines
