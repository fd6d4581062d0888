// Extents of nodes in which nothing is left, on their way back to the pool.
//
// An extent whose words are all empty, and none of them a thread's, is set aside (allocation_words.hpp): nobody
// allocates in it any more. A class keeps one, so that a structure whose size goes up and down does not take and give
// pages each time; the others leave, in batches:
//
///   set aside: no durable or volatile way leads to a node there (domain.hpp: E9, epochs)
///   the passage: threads that may still write back an allocation word of it have moved on
///   S page-map entries 0; F them;              | space/E5  before anybody else gets the pages
// The passage: a thread that clears a bit writes the word back a little later. On an image medium that captures the
// word as it is then, and it must not be another owner's. So each thread that is inside of an operation, or frees a
// generation, has to move on once.
//
// Tables of active areas may still name areas of an extent that has gone: recovery looks only at pages that the page
// map gives to the structure, and a table that names more costs it a look.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "lockfree/allocation_words.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

// Threads inside of operations, and of frees, at one time.
struct passage {
  epochs::vector inside;
  std::array<std::uint32_t, epochs::threads_max> frees{};
};

// Empty extents of one heap, to which the words and stacks belong.
class empty_extents {
 public:
  static constexpr unsigned kept = 1;  // of a class, while the pool has room

  empty_extents(word_table& words, structure_pages& pages, std::array<word_stack, classes>& stacks) noexcept
      : words_{words}, pages_{pages}, stacks_{stacks} {}
  empty_extents(const empty_extents&) = delete;
  empty_extents& operator=(const empty_extents&) = delete;

  // ---- by who fills the class ----

  // The words of an extent were set aside.
  void keep(std::uint64_t first, unsigned c) noexcept {
    words_.next[first].store(set_aside_[c].top, std::memory_order_relaxed);
    set_aside_[c].top = first + 1;
    // relaxed: a hint.
    if (++set_aside_[c].count > kept) leaves_.store(true, std::memory_order_relaxed);
  }
  // First word + 1 of one, which is the caller's; 0: there is none.
  [[nodiscard]] std::uint64_t take(unsigned c) noexcept {
    const std::uint64_t top = set_aside_[c].top;
    if (top == 0) return 0;
    set_aside_[c].top = words_.next[top - 1].load(std::memory_order_relaxed);
    --set_aside_[c].count;
    return top;
  }

  // Gives empty extents back, except `most_kept` of each class, as soon as no thread is left that may write to them.
  // Called outside of operations and frees.  False: none went.
  template <class Domain>
  bool give(Domain& in, unsigned most_kept) noexcept {
    if (most_kept != 0 && !leaves_.load(std::memory_order_relaxed)) return false;
    std::unique_lock guard{lock_, std::defer_lock};
    if (most_kept == 0) {
      guard.lock();
    } else if (!guard.try_lock()) {
      return false;
    }
    for (bool given = false;; given = true) {
      if (count_ == 0 && !let_some_leave(in, most_kept)) return given;
      if (!in.passed(*then_)) return given;
      pages_.give(std::span<const std::uint64_t>{leaving_.data(), count_});
      count_ = 0;
    }
  }
  // The structure was dropped, and its pages go with it.  From the return on no thread gives any of them back.
  void abandon() noexcept {
    const std::lock_guard guard{lock_};
    abandoned_ = true;
    count_ = 0;
  }

 private:
  // False: none may go.
  template <class Domain>
  [[nodiscard]] bool let_some_leave(Domain& in, unsigned most_kept) noexcept {
    if (abandoned_) return false;
    if (then_ == nullptr) then_.reset(new (std::nothrow) passage);
    if (then_ == nullptr) return false;
    leaves_.store(false, std::memory_order_relaxed);
    for (unsigned c = 0; c < classes; ++c) {
      if (!stacks_[c].filling.try_lock()) continue;
      const std::lock_guard guard{stacks_[c].filling, std::adopt_lock};
      while (set_aside_[c].count > most_kept && count_ < leaving_.size()) {
        leaving_[count_++] = words_.extent_offset(take(c) - 1);
      }
    }
    if (count_ == 0) return false;
    leaves_.store(true, std::memory_order_relaxed);  // until they have gone
    in.take_passage(*then_);
    return true;
  }

  word_table& words_;
  structure_pages& pages_;
  std::array<word_stack, classes>& stacks_;
  struct of_class {
    std::uint64_t top = 0;  // first word + 1 of one, linked by `next`
    std::uint32_t count = 0;
  };
  std::array<of_class, classes> set_aside_{};  // by who fills the class
  std::atomic<bool> leaves_{false};            // there may be some to be given

  spin_lock lock_;  // of all that follows; `filling` is tried inside
  bool abandoned_ = false;
  std::array<std::uint64_t, 32> leaving_{};  // offsets
  std::size_t count_ = 0;
  std::unique_ptr<passage> then_;  // of these extents
};

}  // namespace nvm::lockfree
