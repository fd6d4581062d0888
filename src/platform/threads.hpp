// Threads for work that divides into parts: recovery, index rebuild, check.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "platform/cancellation.hpp"
#include "platform/lost_pages.hpp"

namespace nvm::platform {

// Processors this process may use; at least 1.
[[nodiscard]] unsigned processors() noexcept;

// Calls f(part) for part 0 .. parts - 1, each in a thread of its own but the first, which runs here; returns when all
// have returned. f must not throw; it is inside a call (lost_pages.hpp). If the system gives no more threads, the
// remaining parts run here, one after the other: so the parts must not wait for each other.
template <class F>
void run_parts(unsigned parts, F&& f) noexcept {
  static_assert(std::is_nothrow_invocable_v<F&, unsigned>, "a part may not throw");
  const uncancelled until_joined;
  std::vector<std::thread> others;
  unsigned next = 1;
  try {
    others.reserve(parts);
    for (; next < parts; ++next) {
      others.emplace_back([&f, next]() noexcept {
        const in_call here;
        f(next);
      });
    }
  } catch (...) {
    // no memory or no thread for part `next`: it and all after it run here
  }
  if (parts != 0) f(0U);
  for (; next < parts; ++next) f(next);
  for (std::thread& t : others) t.join();
}

// While one exists, this thread takes no signals, and neither do, for ever, the threads that it starts: for threads
// that must not run a program's handlers, because the program's threads wait for them.  SIGBUS is not blocked:
// otherwise a lost page would end the process (lost_pages.hpp).
class signals_blocked {
 public:
  signals_blocked() noexcept;
  ~signals_blocked();
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t before_;
};

// Whether one thread can order a full memory barrier in every thread of this process (membarrier(2)), so that the
// common side of a handshake needs none. False: the system cannot, and the caller must use plain locks.  Also false
// under ThreadSanitizer, which does not know this barrier.
[[nodiscard]] bool can_fence_all_threads() noexcept;
// Costs microseconds.  Only after can_fence_all_threads() has said yes; then it cannot fail.
void fence_all_threads() noexcept;

}  // namespace nvm::platform
