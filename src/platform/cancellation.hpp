// Threads that are cancelled (pthread_cancel) go on until they have left the library: what it waits for and the calls
// of the system that it makes are no cancellation points.  The unwinding would meet functions that are noexcept, and
// would leave transactions and locks as they are.
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

// A place where the thread has nothing to leave.
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
