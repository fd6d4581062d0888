// Superblocks of home space as this process knows them: looked through, and let go when no thread can be looking at
// them.
//
/// A superblock leaves.  A reader that finds one by an address, or in for_each(), is inside the epochs.
///   1. no table leads to it (home_space.hpp); remove(): the list neither; it waits
///   2. when some wait: a vector of the epochs; once every thread that was inside then has moved on, they are deleted
// A thread that is at one in the list goes on: what follows has left later, and waits, too.
//
// Threads: any.  Locks: the list's, and that of who turns; leaves, and never waited for with another.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "logheap/mapping.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

struct superblock {
  enum class place : std::uint8_t { none, listed, kept, gone };

  // Constant once it is known.
  home_t home = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t units = 0;  // of home space
  unsigned slots = 0;       // 1: a large object
  unsigned size_class = 0;
  std::unique_ptr<std::uint64_t[]> taken;  // by an object, or by an open transaction for one
  std::unique_ptr<std::uint64_t[]> used;   // taken, or with a word that is not 0
  std::unique_ptr<std::atomic<std::uint64_t>[]> words;

  spin_lock lock;  // guards bits and what follows
  unsigned free = 0;
  unsigned in_use = 0;  // bits of `used`
  bool waits = false;   // none is taken, and the log has entries about it
  place where = place::none;
  std::atomic<superblock*>* keeper = nullptr;  // `kept`: that leads here

  // Of the list of its class, guarded by that list's lock.
  bool linked = false;
  superblock* next = nullptr;
  superblock* previous = nullptr;

  // Of all; `before` guarded by their lock.
  std::atomic<superblock*> behind{nullptr};
  superblock* before = nullptr;
};

class superblocks {
 public:
  // So many wait for the next vector, which costs microseconds.
  static constexpr unsigned waiting_max = 32;

  explicit superblocks(epochs& e) noexcept : epochs_{e} {}
  ~superblocks() {
    for (superblock* b = first_.load(std::memory_order_relaxed); b != nullptr;) {
      delete std::exchange(b, b->behind.load(std::memory_order_relaxed));
    }
    free_all(left_);
    free_all(ready_);
  }
  superblocks(const superblocks&) = delete;
  superblocks& operator=(const superblocks&) = delete;

  void add(superblock* b) noexcept {
    const std::lock_guard guard{lock_};
    superblock* const head = first_.load(std::memory_order_relaxed);
    b->behind.store(head, std::memory_order_relaxed);
    if (head != nullptr) head->before = b;
    // release: pairs with for_each().
    first_.store(b, std::memory_order_release);
    // relaxed: for statistics.
    known_.fetch_add(1, std::memory_order_relaxed);
  }
  // One that no thread can find any more, and that is in no other list.  Another thread may delete it at once.
  void remove(superblock* b) noexcept {
    bool many = false;
    {
      const std::lock_guard guard{lock_};
      superblock* const behind = b->behind.load(std::memory_order_relaxed);
      if (behind != nullptr) behind->before = b->before;
      // release: as in add(), whose store this one may replace.
      (b->before != nullptr ? b->before->behind : first_).store(behind, std::memory_order_release);
      b->next = std::exchange(left_, b);
      many = ++left_count_ >= waiting_max;
    }
    if (many) turn();
  }
  // Calls visit(superblock&) for each.  Inside the epochs, or at rest; visit() may remove the one that it is about.
  template <class Visit>
  void for_each(Visit&& visit) const {
    // acquire: pairs with add() and remove().
    for (superblock* b = first_.load(std::memory_order_acquire); b != nullptr;) {
      superblock* const behind = b->behind.load(std::memory_order_acquire);
      visit(*b);
      b = behind;
    }
  }
  // Those that wait included.
  [[nodiscard]] std::uint64_t known() const noexcept { return known_.load(std::memory_order_relaxed); }

 private:
  void turn() noexcept {
    const std::unique_lock guard{turning_, std::try_to_lock};
    if (!guard || (ready_ != nullptr && !epochs_.passed(then_))) return;
    free_all(std::exchange(ready_, nullptr));
    {
      const std::lock_guard of_list{lock_};
      ready_ = std::exchange(left_, nullptr);
      left_count_ = 0;
    }
    epochs_.take_vector(then_);
  }
  void free_all(superblock* b) noexcept {
    while (b != nullptr) {
      delete std::exchange(b, b->next);
      known_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  epochs& epochs_;
  spin_lock lock_;  // of the list, left_ and left_count_
  std::atomic<superblock*> first_{nullptr};
  superblock* left_ = nullptr;  // wait for a vector
  unsigned left_count_ = 0;
  spin_lock turning_;  // of ready_ and then_
  superblock* ready_ = nullptr;
  epochs::vector then_;
  std::atomic<std::uint64_t> known_{0};
};

}  // namespace nvm::logheap
