// Owners of numbers below a bound, such as those of a log's lanes: one thread at a time has a number, and threads come
// back to the one they used last, so a number stands for a core.
//
// acquire() gives a number to one thread.  A thread may park() its number between uses: it stays the thread's, which
// resumes it without a locked instruction, until another thread finds none free and takes a parked one (Dekker's
// handshake, as in sync/biased_lock.hpp).  From then on that number is acquired and released for each use.  A thread
// that may not wait for others keep()s one: nobody takes it.
//
// Progress: resume() of a number that nobody took waits for nothing.  acquire() waits in line while all are in use;
// the first in line looks for parked ones again (sync/waiting_line.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "sync/spin_lock.hpp"
#include "sync/waiting_line.hpp"

namespace nvm {

class number_owners {
 public:
  // State of a number.  A thread that has parked the number may keep a reference.
  class alignas(line_bytes) owner {
    friend class number_owners;
    std::atomic<bool> taken{false};
    std::atomic<bool> parked{false};  // taken, and one thread's own; stored by that thread, or under taking_parked_
    std::atomic<bool> in_use{false};  // of a parked one; stored by the thread that first parked it, perhaps late
    bool taken_back = false;          // from such a thread: it is not parked again
    bool kept = false;                // parked, and not to be taken
  };

  // `nouns`: what messages call them.  May throw std::bad_alloc.
  explicit number_owners(unsigned count, const char* nouns = "lanes")
      : count_{count}, nouns_{nouns}, owners_{new owner[count]} {}

  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] owner& at(unsigned index) noexcept { return owners_[index]; }

  // A free number, `hint` if it is free; waits while all are taken; errc::no_lane after `patience`, since threads that
  // hold numbers of two pools in opposite order would wait for ever.
  [[nodiscard]] result<unsigned> acquire(unsigned hint,
                                         std::chrono::milliseconds patience = std::chrono::seconds{10}) noexcept {
    constexpr unsigned rounds = 100;
    for (unsigned round = 0; round < rounds; ++round) {
      if (const auto found = find(hint)) return *found;
      std::this_thread::yield();
    }
    bool in_vain = false;
    std::optional<unsigned> seen;
    const auto handed = line_.wait(patience, in_vain, [&] { return (seen = find(hint)).has_value(); });
    if (handed) return *handed;
    if (!in_vain) return *seen;
    return fail(errc::no_lane, "all %u %s have been in use for %ld ms", count_, nouns_,
                static_cast<long>(patience.count()));
  }
  void release(unsigned index) noexcept {
    if (line_.anybody() && line_.hand_on(index)) return;
    // release: pairs with the acquire in find(): the number's state of its last use.
    owners_[index].taken.store(false, std::memory_order_release);
  }

  // Makes the number the calling thread's own; the thread holds it and from now on ends each use by leave(). False: not
  // possible.
  [[nodiscard]] bool park(unsigned index) noexcept {
    owner& l = owners_[index];
    if (l.taken_back || !platform::can_fence_all_threads()) return false;
    l.in_use.store(true, std::memory_order_relaxed);
    // release: pairs with the acquire in take_parked(); a thread that sees the number parked sees it in use.
    l.parked.store(true, std::memory_order_release);
    return true;
  }
  // The same, and no other thread takes it before give_back().  False: it was another thread's, which may be about to
  // resume it.
  [[nodiscard]] bool keep(unsigned index) noexcept {
    owner& l = owners_[index];
    if (l.taken_back) return false;
    l.kept = true;
    l.in_use.store(true, std::memory_order_relaxed);
    // release: pairs with the acquire in take_parked(): it is seen to be kept.
    l.parked.store(true, std::memory_order_release);
    return true;
  }
  // Begins another use, by the number's own thread. False: it was taken away and belongs to another thread now.
  [[nodiscard]] bool resume(unsigned index) noexcept { return resume(owners_[index]); }
  [[nodiscard]] bool resume(owner& l) noexcept {
    l.in_use.store(true, std::memory_order_relaxed);
    isa::compiler_fence();
    if (l.parked.load(std::memory_order_relaxed)) return true;
    return resume_late(l);
  }
  // Ends a use of a parked number, in place of release().
  void leave(unsigned index) noexcept {
    if (is_wanted() && unpark(index)) [[unlikely]]
      return release(index);
    leave_parked(owners_[index]);
  }
  // The same, for a caller that has something to do before another thread gets a number: it asks whether one waits, and
  // unparks its own, to release it then.
  static void leave_parked(owner& l) noexcept {
    // release: pairs with the acquire in take_parked().
    l.in_use.store(false, std::memory_order_release);
  }
  [[nodiscard]] bool is_wanted() const noexcept { return line_.anybody(); }
  // By its own thread, in a use: the number is parked no more, and the use ends by release().  False: it is kept.
  [[nodiscard, gnu::noinline]] bool unpark(unsigned index) noexcept {
    owner& l = owners_[index];
    if (l.kept) return false;
    const std::lock_guard guard{taking_parked_};
    l.parked.store(false, std::memory_order_relaxed);
    l.in_use.store(false, std::memory_order_relaxed);
    l.taken_back = true;
    return true;
  }
  // The thread gives its parked number up, between two uses.
  void give_back(unsigned index) noexcept {
    if (!resume(index)) return;
    owner& l = owners_[index];
    {
      // Under the lock, since a thread that saw us use the number may be about to put `parked` back, over this store.
      const std::lock_guard guard{taking_parked_};
      l.parked.store(false, std::memory_order_relaxed);
      l.kept = false;
    }
    l.in_use.store(false, std::memory_order_relaxed);
    release(index);
  }

 private:
  [[nodiscard]] std::optional<unsigned> find(unsigned hint) noexcept {
    for (unsigned k = 0; k < count_; ++k) {
      const unsigned i = (hint + k) % count_;
      owner& l = owners_[i];
      // acquire: pairs with the release in release(): the number's state of its last use.
      if (l.taken.load(std::memory_order_relaxed) || l.taken.exchange(true, std::memory_order_acquire)) continue;
      return i;
    }
    for (unsigned i = 0; i < count_; ++i) {
      if (take_parked(owners_[i])) return i;
    }
    return {};
  }
  [[gnu::noinline]] bool resume_late(owner& l) noexcept {
    // A thread that looked for a number may have seen us and put it back.
    const std::lock_guard guard{taking_parked_};
    if (l.parked.load(std::memory_order_relaxed)) return true;
    l.in_use.store(false, std::memory_order_release);
    return false;
  }
  [[nodiscard]] bool take_parked(owner& l) noexcept {
    // relaxed: looked at again; a barrier in all threads is spared.
    if (!l.parked.load(std::memory_order_relaxed) || l.in_use.load(std::memory_order_relaxed)) return false;
    const std::lock_guard guard{taking_parked_};
    if (!l.parked.load(std::memory_order_acquire) || l.kept) return false;
    l.parked.store(false, std::memory_order_relaxed);
    platform::fence_all_threads();
    // acquire: pairs with leave(): the number's state of its last use.
    if (l.in_use.load(std::memory_order_acquire)) {
      l.parked.store(true, std::memory_order_release);
      return false;
    }
    // The use may have begun before the barrier and ended after it: what its thread wrote back is as if fenced now.
    platform::fence_all_threads();
    l.taken_back = true;
    return true;
  }

  unsigned count_;
  const char* nouns_;
  std::unique_ptr<owner[]> owners_;
  spin_lock taking_parked_;
  waiting_line line_;
};

}  // namespace nvm
