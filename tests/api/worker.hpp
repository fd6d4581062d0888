// A thread of a test that acts when it is told to.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace nvm::tests {

// A thread that does what it is told, one thing after the other, and is idle in between.
class worker {
 public:
  worker() : thread_{[this] { run(); }} {}
  ~worker() { end(); }
  bool does(std::function<bool()> what) {
    std::unique_lock lock{mutex_};
    what_ = std::move(what);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !what_; });
    return good_;
  }
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return over_ || what_; });
      if (over_) return;
      good_ = what_();
      what_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<bool()> what_;
  bool good_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace nvm::tests
