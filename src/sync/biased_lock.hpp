// A lock that costs its favourite no locked instruction.
//
// A locked instruction waits for every write-back before it and lets nothing after it begin. A processor does the work
// between two fences while the first is still under way; a locked instruction there turns it into waiting. Most locks
// in a transaction's path are nearly always taken by one lane. That lane takes such a lock by two plain stores and a
// load; any other lane has to take the bias away first, which costs a barrier in all threads (microseconds).  Each time
// this happens, the lane has to use the lock longer, undisturbed, to be favoured again: so a lock that is contended
// soon favours no lane.
//
// Names.  `who` is a number that at most one thread has at a time, handed over with acquire and release (a lane, plus
// one); 0 is any other thread and never favoured.  A lock can only ever favour its first user: two favourites could not
// share `held_`, since a thread that was interrupted in lock() may store there late.
//
/// Dekker's handshake; a barrier in all threads replaces the fence of the common side.
///   favourite: S held = 1; compiler barrier; L biased       in if still biased
///   others:    (spin held) S biased = 0; fence_all_threads(); L held until 0
/// Either the favourite's load comes after the others' store and it retreats, or its store of `held` is seen.
#pragma once

#include <atomic>
#include <thread>

#include "platform/platform.hpp"
#include "sync/spin_lock.hpp"

namespace nvm {

class biased_lock {
 public:
  void lock(unsigned who) noexcept {
    if (who != 0 && favourite_.load(std::memory_order_relaxed) == who) {
      held_.store(true, std::memory_order_relaxed);
      isa::compiler_fence();
      // relaxed: while it is biased no other thread has held the lock since this favourite did.
      if (biased_.load(std::memory_order_relaxed)) {
        if (favours_ < favours_that_pay) ++favours_;
        return;
      }
      held_.store(false, std::memory_order_release);
    }
    lock_slowly(who);
  }

  void unlock() noexcept {
    if (!slowly_) {
      // release: pairs with the acquire load of the thread that takes the bias away.
      held_.store(false, std::memory_order_release);
      return;
    }
    slowly_ = false;
    slow_.unlock();
  }

  // Whether the favourite's next lock() takes no locked instruction.
  [[nodiscard]] bool biased() const noexcept { return biased_.load(std::memory_order_relaxed); }

  // Takes the lock for a scope.
  class guard {
   public:
    guard(biased_lock& l, unsigned who) noexcept : lock_{l} { l.lock(who); }
    ~guard() { lock_.unlock(); }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

   private:
    biased_lock& lock_;
  };

 private:
  static constexpr unsigned patience_first = 4;
  static constexpr unsigned patience_max = 1U << 20;
  // Taking the bias away costs about as much as this many locked instructions.
  static constexpr unsigned favours_that_pay = 256;

  [[gnu::noinline]] void lock_slowly(unsigned who) noexcept {
    slow_.lock();
    if (biased_.load(std::memory_order_relaxed)) {
      biased_.store(false, std::memory_order_relaxed);
      platform::fence_all_threads();
      // acquire: pairs with the release store in unlock().
      for (unsigned spins = 0; held_.load(std::memory_order_acquire); ++spins) {
        if (spins < 64) {
          isa::spin_hint();
        } else {
          std::this_thread::yield();
        }
      }
      if (favours_ >= favours_that_pay) {
        patience_ = patience_first;
      } else if (patience_ < patience_max) {
        patience_ *= 8;
      }
      favours_ = 0;
    }
    slowly_ = true;
    if (favourite_.load(std::memory_order_relaxed) == 0) favourite_.store(who, std::memory_order_relaxed);
    if (who == 0 || favourite_.load(std::memory_order_relaxed) != who) {
      calm_ = 0;
    } else if (++calm_ >= patience_ && platform::can_fence_all_threads()) {
      calm_ = 0;
      biased_.store(true, std::memory_order_relaxed);
    }
  }

  std::atomic<unsigned> favourite_{0};  // stored once
  std::atomic<bool> biased_{false};     // stored by the holder of slow_
  std::atomic<bool> held_{false};       // by the favourite, in the fast way; stored by the favourite only
  bool slowly_ = false;                 // the holder holds slow_; the rest is guarded by that
  spin_lock slow_;
  unsigned favours_ = 0;  // since it was biased; the favourite's, by its `held_`
  unsigned calm_ = 0;
  unsigned patience_ = patience_first;
};

}  // namespace nvm
