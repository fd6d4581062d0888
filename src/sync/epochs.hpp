// Epochs: which threads may still read unlinked memory (Fraser; log-free, section 5.2).
//
// Each thread counts its operations, once when one begins and once when it ends: an odd count is inside.  A thread that
// unlinks memory keeps a vector of all counts; when every thread that was inside then has moved on, no reference to
// that memory is left.
//
/// Dekker's handshake; a barrier in all threads replaces that of the common side (sync/biased_lock.hpp):
///   enter()      S count odd; compiler barrier; L links
///   take_vector  S unlinked (before); fence_all_threads(); L counts
/// Either the reader's count is seen odd, or its loads come after the unlinking.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "platform/platform.hpp"

namespace nvm {

class epochs {
 public:
  static constexpr unsigned threads_max = 256;

  struct vector {
    std::array<std::uint64_t, threads_max> counts{};
    unsigned threads = 0;
  };

  // A number for a thread; threads_max: there are too many.
  [[nodiscard]] unsigned join() noexcept {
    for (unsigned i = 0; i < threads_max; ++i) {
      bool free = false;
      // acquire: pairs with leave_for_good(): memory that belongs to the number is as its last thread left it.
      if (slots_[i].taken.load(std::memory_order_relaxed) ||
          !slots_[i].taken.compare_exchange_strong(free, true, std::memory_order_acquire, std::memory_order_relaxed)) {
        continue;
      }
      unsigned used = used_.load(std::memory_order_relaxed);
      // release: pairs with take_vector().
      while (used <= i && !used_.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
      }
      return i;
    }
    return threads_max;
  }
  // Outside.
  void leave_for_good(unsigned thread) noexcept { slots_[thread].taken.store(false, std::memory_order_release); }

  // Number of the operation that begins.
  [[NVM_INLINE]] std::uint64_t enter(unsigned thread) noexcept {
    std::atomic<std::uint64_t>& count = slots_[thread].count;
    const std::uint64_t now = count.load(std::memory_order_relaxed) + 1;
    if (unfenced_) {
      count.store(now, std::memory_order_relaxed);
      isa::compiler_fence();
    } else {
      count.exchange(now, std::memory_order_seq_cst);
    }
    return now;
  }
  // release: what the operation has read, it has read.
  [[NVM_INLINE]] void leave(unsigned thread) noexcept {
    std::atomic<std::uint64_t>& count = slots_[thread].count;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Whether a thread is inside.
  [[nodiscard]] bool any_inside() const noexcept {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const slot& s) { return s.count.load(std::memory_order_acquire) % 2 != 0; });
  }
  [[nodiscard]] bool inside(unsigned thread) const noexcept {
    return slots_[thread].count.load(std::memory_order_relaxed) % 2 != 0;
  }

  // Costs microseconds: a barrier in all threads.
  void take_vector(vector& out) noexcept {
    if (unfenced_) {
      platform::fence_all_threads();
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    out.threads = used_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < out.threads; ++i) out.counts[i] = slots_[i].count.load(std::memory_order_acquire);
  }
  // After this, stores and write-backs of other threads so far are as if each thread had executed a fence: an interrupt
  // of its processor executes a locked instruction, and so does a switch to another thread.
  void fence_others() noexcept {
    if (unfenced_) platform::fence_all_threads();
  }
  [[nodiscard]] bool fences_others() const noexcept { return unfenced_; }
  // Whether every thread that was inside at `then` has moved on.
  [[nodiscard]] bool passed(const vector& then) const noexcept {
    for (unsigned i = 0; i < then.threads; ++i) {
      // acquire: pairs with leave().
      if (then.counts[i] % 2 != 0 && slots_[i].count.load(std::memory_order_acquire) == then.counts[i]) {
        return false;
      }
    }
    return true;
  }

 private:
  struct alignas(2 * line_bytes) slot {
    std::atomic<std::uint64_t> count{0};
    std::atomic<bool> taken{false};
  };
  std::array<slot, threads_max> slots_;
  std::atomic<unsigned> used_{0};
  const bool unfenced_ = platform::can_fence_all_threads();
};

}  // namespace nvm
