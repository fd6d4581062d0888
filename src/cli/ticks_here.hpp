// The guard of the explorer has a clock that ticks for the process; its handler jumps, which only the exploring thread
// may do.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace nvm::cli {

// Threads that are started between the constructor and begin() get no ticks.
class ticks_here {
 public:
  ticks_here() {
    sigemptyset(&tick_);
    sigaddset(&tick_, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &tick_, nullptr);
  }
  void begin() { pthread_sigmask(SIG_UNBLOCK, &tick_, nullptr); }
  ~ticks_here() { begin(); }
  ticks_here(const ticks_here&) = delete;

 private:
  sigset_t tick_;
};

}  // namespace nvm::cli
