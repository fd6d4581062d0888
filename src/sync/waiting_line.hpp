// Threads that wait until one of several things is handed on to them, in the order in which they came.
//
// hand_on() gives a thing to the first of them.  A thing that its holder has put down without looking here is found by
// the first one's look(), within `look_again` at the latest: holders need no barrier for anybody().
//
// Progress: waits.  The lock is held for a look() and for no wait.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "platform/platform.hpp"

namespace nvm {

class waiting_line {
 public:
  // Whether somebody may wait.  Cost: a load.  relaxed: see above.
  [[nodiscard]] bool anybody() const noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }

  // By the thread that has a thing: it is the first waiter's now.  False: nobody waits, and it stays the caller's.
  [[nodiscard]] bool hand_on(unsigned thing) noexcept {
    const std::lock_guard guard{lock_};
    if (first_ == nullptr) return false;
    place& p = *first_;
    p.thing = thing;
    leave(p);
    p.changed.notify_one();
    return true;
  }

  // Waits for a thing: one that is handed on, or what look() finds by itself, which then says true; the answer is empty
  // in that case, and after `patience` (`in_vain`).
  template <class Look>
  [[nodiscard]] std::optional<unsigned> wait(std::chrono::milliseconds patience, bool& in_vain, Look&& look) noexcept {
    constexpr std::chrono::milliseconds look_again{10};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const platform::uncancelled until_it_ends;
    place mine;
    std::unique_lock held{lock_};
    enter(mine);
    in_vain = false;
    for (;;) {
      if (mine.thing) return mine.thing;
      const bool is_first = first_ == &mine;
      if (is_first && look()) break;
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) {
        in_vain = true;
        break;
      }
      mine.changed.wait_until(held, is_first ? std::min(deadline, now + look_again) : deadline);
    }
    leave(mine);
    return {};
  }

 private:
  struct place {
    std::condition_variable changed;
    std::optional<unsigned> thing;
    place* before = nullptr;
    place* after = nullptr;
  };
  void enter(place& p) noexcept {
    p.before = last_;
    (last_ != nullptr ? last_->after : first_) = &p;
    last_ = &p;
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  void leave(place& p) noexcept {
    const bool was_first = first_ == &p;
    (p.before != nullptr ? p.before->after : first_) = p.after;
    (p.after != nullptr ? p.after->before : last_) = p.before;
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (was_first && first_ != nullptr) first_->changed.notify_one();  // it looks from now on
  }

  std::mutex lock_;
  place* first_ = nullptr;
  place* last_ = nullptr;
  std::atomic<unsigned> waiting_{0};
};

}  // namespace nvm
