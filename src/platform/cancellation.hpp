// Cancelled threads (pthread_cancel) go on until they have left the library: its waits and its calls of the system are
// no cancellation points. Unwinding would meet noexcept functions, and would leave transactions open and locks held.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace nvm::platform {

// While one exists, this thread is not cancelled (deferred cancellation, which is what threads begin with).
class uncancelled {
 public:
  uncancelled() noexcept { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~uncancelled() { (void)::pthread_setcancelstate(before_, nullptr); }
  uncancelled(const uncancelled&) = delete;
  uncancelled& operator=(const uncancelled&) = delete;

 private:
  int before_ = 0;
};

// A place where a thread may end: it holds nothing of the library.
inline void may_be_cancelled() { ::pthread_testcancel(); }

// std::condition_variable, whose waits are no cancellation points.
class condition {
 public:
  void notify_one() noexcept { inner_.notify_one(); }
  void notify_all() noexcept { inner_.notify_all(); }
  template <class... Arguments>
  void wait(std::unique_lock<std::mutex>& held, Arguments&&... arguments) {
    const uncancelled until_back;
    inner_.wait(held, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  auto wait_for(std::unique_lock<std::mutex>& held, Arguments&&... arguments) {
    const uncancelled until_back;
    return inner_.wait_for(held, std::forward<Arguments>(arguments)...);
  }

 private:
  std::condition_variable inner_;
};

}  // namespace nvm::platform
