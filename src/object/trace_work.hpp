// What marking threads share: objects whose pointers are still to be followed, and the number of threads that wait for
// more.
//
// Each thread has a stack of its own of bounded size.  A thread that has plenty gives the oldest half to threads that
// wait; objects that fit nowhere are noted in a bitmap beside the marks, and taken from there when all stacks are
// empty.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "object/mark_bits.hpp"

namespace nvm::object {

// A marked object whose pointers from `from` bytes of its payload on are to be followed.
struct grey_object {
  found_object object;
  std::uint64_t from = 0;
};

class trace_work {
 public:
  trace_work(std::uint64_t mark_words, std::size_t stack_max) noexcept
      : left_over_{mark_words}, stack_max_{stack_max} {}
  [[nodiscard]] bool exists() const noexcept { return left_over_.exists(); }
  [[nodiscard]] std::size_t stack_max() const noexcept { return stack_max_; }

  // A thread begins to take part.
  void join() noexcept {
    const std::lock_guard guard{lock_};
    ++present_;
  }
  // Some work for the caller's empty stack.  False: all threads that take part wait, so there is none; the caller
  // leaves.
  [[nodiscard]] bool take(std::vector<grey_object>& stack) noexcept {
    std::unique_lock guard{lock_};
    ++waiting_;
    hungry_.store(true, std::memory_order_relaxed);
    for (;;) {
      if (stopped_ || (shared_.empty() && waiting_ == present_)) {
        --waiting_;
        --present_;
        more_.notify_all();
        return false;
      }
      if (!shared_.empty()) {
        const std::size_t n = std::min(shared_.size(), std::max<std::size_t>(shared_.size() / present_, 1));
        const std::size_t some = std::min(n, stack_max_);
        stack.insert(stack.end(), shared_.end() - static_cast<std::ptrdiff_t>(some), shared_.end());
        shared_.resize(shared_.size() - some);
        --waiting_;
        hungry_.store(waiting_ != 0, std::memory_order_relaxed);
        return true;
      }
      more_.wait(guard);
    }
  }
  // A hint.
  [[nodiscard]] bool hungry() const noexcept { return hungry_.load(std::memory_order_relaxed); }
  // The oldest half of a stack goes to those that wait.
  void give(std::vector<grey_object>& stack) noexcept {
    const auto half = static_cast<std::ptrdiff_t>(stack.size() / 2);
    try {
      const std::lock_guard guard{lock_};
      shared_.insert(shared_.end(), stack.begin(), stack.begin() + half);
    } catch (const std::bad_alloc&) {
      return;  // it stays the caller's
    }
    stack.erase(stack.begin(), stack.begin() + half);
    more_.notify_all();
  }
  // Adds an object before any thread joins.  May throw std::bad_alloc.
  void add(const grey_object& g) { shared_.push_back(g); }

  // Every thread ends as soon as it can.
  void stop() noexcept {
    const std::lock_guard guard{lock_};
    stopped_ = true;
    more_.notify_all();
  }
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

  // ---- what fits no stack ----

  void leave_over(mark_place p) noexcept {
    left_over_.set(p);
    // relaxed: read when the threads have been joined.
    std::uint64_t first = first_left_.load(std::memory_order_relaxed);
    while (p.word() < first && !first_left_.compare_exchange_weak(first, p.word(), std::memory_order_relaxed)) {
    }
    std::uint64_t last = last_left_.load(std::memory_order_relaxed);
    while (p.word() > last && !last_left_.compare_exchange_weak(last, p.word(), std::memory_order_relaxed)) {
    }
    overflows_.fetch_add(1, std::memory_order_relaxed);
  }
  // When no thread takes part: makes some of those objects work again.  False: there is none.  May throw
  // std::bad_alloc.
  template <class Objects>
  [[nodiscard]] bool take_up_left_over(const Objects& objects) {
    std::uint64_t word = first_left_.load(std::memory_order_relaxed);
    const std::uint64_t last = last_left_.load(std::memory_order_relaxed);
    for (; word <= last && shared_.size() < std::max<std::size_t>(stack_max_, 1) * 4; ++word) {
      for (std::uint64_t left = left_over_.word(word); left != 0; left &= left - 1) {
        const mark_place p{word, static_cast<unsigned>(std::countr_zero(left))};
        shared_.push_back({objects.object_of(p), 0});
        left_over_.clear(p);
      }
    }
    if (word > last) {
      first_left_.store(~std::uint64_t{0}, std::memory_order_relaxed);
      last_left_.store(0, std::memory_order_relaxed);
    } else {
      first_left_.store(word, std::memory_order_relaxed);
    }
    return !shared_.empty();
  }
  [[nodiscard]] std::uint64_t overflows() const noexcept { return overflows_.load(std::memory_order_relaxed); }

 private:
  std::mutex lock_;
  std::condition_variable more_;
  std::vector<grey_object> shared_;
  unsigned present_ = 0;
  unsigned waiting_ = 0;
  std::atomic<bool> hungry_{false};
  std::atomic<bool> stopped_{false};
  mark_bits left_over_;
  std::size_t stack_max_;
  std::atomic<std::uint64_t> first_left_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> last_left_{0};
  std::atomic<std::uint64_t> overflows_{0};
};

}  // namespace nvm::object
