// Who takes part: every thread that runs transactions, and since which version its present one has been looking.
//
// Quiescence.  A transaction that is inside may still look at what another one has unlinked.  enter() publishes, with a
// full barrier, a version that is no newer than anything the transaction will see; whoever draws version v from the
// clock and then finds a thread outside, or inside since v or later, knows that this thread does not look at anything
// that v took away.  A transaction that extends its snapshot may publish the newer version.
//
// Serial mode.  One thread at a time may ask to run alone: it waits until all others are outside, and they wait outside
// until it is done.  Nothing can conflict with it then.  Asking for it while inside would wait for ever: a transaction
// leaves first.  Requests are served in the order in which they came.
//
/// Dekker: enter()  S active; full barrier; L serial_owner        serial  S serial_owner; full barrier; L each active
#pragma once

#include <atomic>
#include <cstdint>

#include "base/base.hpp"
#include "isolation/version_clock.hpp"

namespace nvm::isolation {

class alignas(line_bytes) participant {
 public:
  // Of this thread, from a list that only grows; nullptr: no memory, or too many.  Given back by leave_list().
  [[nodiscard]] static participant* join_list() noexcept;
  void leave_list() noexcept;

  // Less than orec_word::owners_max; of no other thread at the same time.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  // Waits while another thread runs alone.  `subject` is whatever the caller wants to be asked about (any_inside()).
  void enter(const void* subject) noexcept {
    subject_.store(subject, std::memory_order_relaxed);
    // exchange, seq_cst: the full barrier of both handshakes above.
    active_.exchange(inside_since(version_clock::of_process().now()), std::memory_order_seq_cst);
    const participant* alone = serial_owner.load(std::memory_order_seq_cst);
    if (alone != nullptr && alone != this) [[unlikely]] {
      wait_outside();
    }
  }
  // release: what the transaction did and read is done.
  void leave() noexcept { active_.store(0, std::memory_order_release); }
  [[nodiscard]] bool inside() const noexcept { return active_.load(std::memory_order_relaxed) != 0; }
  // Everything read so far holds at this version.
  void look_from(std::uint64_t version) noexcept { active_.store(inside_since(version), std::memory_order_release); }
  void concerns(const void* subject) noexcept { subject_.store(subject, std::memory_order_relaxed); }

  // From outside: inside and alone on return.
  void enter_alone(const void* subject) noexcept;
  // After leave().
  void end_serial() noexcept;
  [[nodiscard]] bool alone() const noexcept { return serial_owner.load(std::memory_order_relaxed) == this; }

  // Waits until no other thread is inside since before `version`.  The caller is outside: two that wait inside would
  // wait for each other.
  void wait_for_older(std::uint64_t version) const noexcept;
  // The same from inside, and no longer than it takes two that wait for each other to notice; false: too long.
  [[nodiscard]] bool outwait_older(std::uint64_t version) const noexcept;
  // Smallest version that another thread is inside since, at most `limit`.
  [[nodiscard]] std::uint64_t oldest_of_others(std::uint64_t limit) const noexcept;
  // Whether some thread is inside with this subject.
  [[nodiscard]] static bool any_inside(const void* subject) noexcept;
  // In the child of a fork: the other threads are not there.
  static void forget_others() noexcept;

  template <class Visit>
  static void each(Visit&& visit) noexcept {
    // acquire: pairs with the release in join_list(): the entry is made.
    for (participant* p = list.load(std::memory_order_acquire); p != nullptr; p = p->next_) visit(*p);
  }

  // Counters of the thread, or threads one after the other; written by it alone, readable from any.
  struct counters {
    std::atomic<std::uint64_t> commits{0}, read_only{0}, conflicts{0}, retries{0}, rollbacks{0}, extensions{0},
        serial{0};
    static void add(std::atomic<std::uint64_t>& c, std::uint64_t by = 1) noexcept {
      // relaxed: a reader wants a recent number, no order.
      c.store(c.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
  };
  alignas(line_bytes) counters count;

 private:
  static constexpr std::uint64_t inside_since(std::uint64_t version) noexcept { return version << 1 | 1; }
  void wait_outside() noexcept;

  alignas(line_bytes) std::atomic<std::uint64_t> active_{0};  // 0: outside; else inside_since(version)
  std::atomic<const void*> subject_{nullptr};
  std::atomic<bool> taken_{true};
  std::uint64_t number_ = 0;
  participant* next_ = nullptr;

  static std::atomic<participant*> list;
  static std::atomic<participant*> serial_owner;
};

}  // namespace nvm::isolation
