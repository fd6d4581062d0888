// Owners of lanes: one transaction at a time has a lane, and threads come back to the one they used last, so a lane
// stands for a core.
//
// acquire() gives a lane to one thread.  A thread may park() its lane between transactions: it stays the thread's,
// which resumes it without a locked instruction, until another thread finds no lane free and takes a parked one
// (Dekker's handshake, as in sync/biased_lock.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "sync/sync.hpp"

namespace nvm::log {

class lane_owners {
 public:
  // May throw std::bad_alloc.
  explicit lane_owners(unsigned count) : count_{count}, owners_{new owner[count]} {}

  [[nodiscard]] unsigned count() const noexcept { return count_; }

  // A free lane, `hint` if it is free; waits while all are taken; errc::no_lane after `patience`, since threads that
  // hold lanes of two pools in opposite order would wait for ever.
  [[nodiscard]] result<unsigned> acquire(unsigned hint,
                                         std::chrono::milliseconds patience = std::chrono::seconds{10}) noexcept {
    std::chrono::steady_clock::time_point deadline{};
    for (unsigned round = 0;; ++round) {
      for (unsigned k = 0; k < count_; ++k) {
        const unsigned i = (hint + k) % count_;
        owner& l = owners_[i];
        // acquire: pairs with the release in release(): the lane's state of its last transaction.
        if (l.taken.load(std::memory_order_relaxed) || l.taken.exchange(true, std::memory_order_acquire)) continue;
        return i;
      }
      for (unsigned i = 0; i < count_; ++i) {
        if (take_parked(owners_[i])) return i;
      }
      const auto now = std::chrono::steady_clock::now();
      if (round == 0) deadline = now + patience;
      if (now > deadline) {
        return fail(errc::no_lane, "all %u lanes have been in use for %ld ms", count_,
                    static_cast<long>(patience.count()));
      }
      if (round < 100) {
        std::this_thread::yield();
      } else {
        const platform::uncancelled until_awake;
        std::this_thread::sleep_for(std::chrono::microseconds{100});
      }
    }
  }
  void release(unsigned index) noexcept { owners_[index].taken.store(false, std::memory_order_release); }

  // Makes the lane the calling thread's own; the thread holds it and from now on ends each use by leave(). False: not
  // possible.
  [[nodiscard]] bool park(unsigned index) noexcept {
    owner& l = owners_[index];
    if (l.taken_back || !platform::can_fence_all_threads()) return false;
    l.in_use.store(true, std::memory_order_relaxed);
    // release: pairs with the acquire in take_parked(); a thread that sees the lane parked sees it in use.
    l.parked.store(true, std::memory_order_release);
    return true;
  }
  // Begins another use, by the lane's own thread. False: the lane was taken away and belongs to another thread now.
  [[nodiscard]] bool resume(unsigned index) noexcept {
    owner& l = owners_[index];
    l.in_use.store(true, std::memory_order_relaxed);
    isa::compiler_fence();
    if (l.parked.load(std::memory_order_relaxed)) return true;
    // A thread that looked for a lane may have seen us and put it back.
    const std::lock_guard guard{taking_parked_};
    if (l.parked.load(std::memory_order_relaxed)) return true;
    l.in_use.store(false, std::memory_order_release);
    return false;
  }
  // Ends a use of a parked lane, in place of release().  release: pairs with the acquire in take_parked().
  void leave(unsigned index) noexcept { owners_[index].in_use.store(false, std::memory_order_release); }
  // The thread gives its parked lane up, between two uses.
  void give_back(unsigned index) noexcept {
    if (!resume(index)) return;
    owner& l = owners_[index];
    {
      // Under the lock, since a thread that saw us use the lane may be about to put `parked` back, over this store.
      const std::lock_guard guard{taking_parked_};
      l.parked.store(false, std::memory_order_relaxed);
    }
    l.in_use.store(false, std::memory_order_relaxed);
    release(index);
  }

 private:
  struct alignas(line_bytes) owner {
    std::atomic<bool> taken{false};
    std::atomic<bool> parked{false};  // taken, and one thread's own; stored by that thread, or under taking_parked_
    std::atomic<bool> in_use{false};  // of a parked lane; stored by the thread that first parked it, perhaps late
    bool taken_back = false;          // from such a thread: it is not parked again
  };

  [[nodiscard]] bool take_parked(owner& l) noexcept {
    if (!l.parked.load(std::memory_order_relaxed)) return false;
    const std::lock_guard guard{taking_parked_};
    if (!l.parked.load(std::memory_order_acquire)) return false;
    l.parked.store(false, std::memory_order_relaxed);
    platform::fence_all_threads();
    // acquire: pairs with leave(): the lane's state of its last transaction.
    if (l.in_use.load(std::memory_order_acquire)) {
      l.parked.store(true, std::memory_order_release);
      return false;
    }
    l.taken_back = true;
    return true;
  }

  unsigned count_;
  std::unique_ptr<owner[]> owners_;
  spin_lock taking_parked_;
};

}  // namespace nvm::log
