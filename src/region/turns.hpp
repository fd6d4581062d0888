// Threads that wait for regions, in the order of coming: a writer that has waited long gets the region before those
// that came later, so that none starves (Lewat, section IV-F: a writer that registers; and IV-G).
//
// A waiting thread is known by a slot of its own: the region's entry may be freed meanwhile.  The region's lock says
// only that it is wanted; then only the thread takes it that has waited longest.  A scan that misreads a slot which is
// being stored to costs a thread one more look.
//
// Threads: any; each has the slot of its number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/base.hpp"
#include "sync/sync.hpp"

namespace nvm::region {

class turns {
 public:
  // Looks in vain after which a thread marks the region as wanted: some 50 us.
  static constexpr unsigned patience = 128;

  void come(unsigned thread, unsigned set, std::uint64_t rid) noexcept {
    slot& s = slots_[thread];
    s.set.store(set, std::memory_order_relaxed);
    s.rid.store(rid, std::memory_order_relaxed);
    unsigned end = end_.load(std::memory_order_relaxed);
    while (end <= thread && !end_.compare_exchange_weak(end, thread + 1, std::memory_order_relaxed)) {
    }
    // release: pairs with came_before().
    s.ticket.store(next_.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
  }
  void go(unsigned thread) noexcept { slots_[thread].ticket.store(0, std::memory_order_relaxed); }
  // Whether a thread waits for the same region that came before this one; and whether any does.
  [[nodiscard]] bool has_predecessor(unsigned thread) const noexcept {
    return any_with(thread, slots_[thread].ticket.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool has_company(unsigned thread) const noexcept { return any_with(thread, ~std::uint64_t{0}); }
  // Threads that wait.
  [[nodiscard]] unsigned count() const noexcept {
    unsigned n = 0;
    for (const slot& s : slots_) n += s.ticket.load(std::memory_order_acquire) != 0 ? 1 : 0;
    return n;
  }

 private:
  struct alignas(line_bytes) slot {
    std::atomic<std::uint64_t> ticket{0};  // 0: it waits for nothing
    std::atomic<std::uint64_t> rid{0};
    std::atomic<unsigned> set{0};
  };
  [[nodiscard]] bool any_with(unsigned thread, std::uint64_t ticket_below) const noexcept {
    const slot& mine = slots_[thread];
    const unsigned end = end_.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < end; ++i) {
      const slot& s = slots_[i];
      // acquire: pairs with come().
      const std::uint64_t ticket = s.ticket.load(std::memory_order_acquire);
      if (i != thread && ticket != 0 && ticket < ticket_below &&
          s.rid.load(std::memory_order_relaxed) == mine.rid.load(std::memory_order_relaxed) &&
          s.set.load(std::memory_order_relaxed) == mine.set.load(std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  std::array<slot, epochs::threads_max> slots_;
  std::atomic<std::uint64_t> next_{1};
  std::atomic<unsigned> end_{0};
};

}  // namespace nvm::region
