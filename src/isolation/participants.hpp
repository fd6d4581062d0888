// Participants: the threads that run transactions, each with the version since which its present transaction reads.
//
// Quiescence.  A transaction that is inside may still read memory that another one has unlinked.  enter() publishes a
// version that is no newer than anything the transaction will see.  A thread draws version v from the clock and then
// looks at another thread: if the other is outside, or inside since v or later, it cannot reach memory that v unlinked.
// A transaction that extends its snapshot may publish the newer version.
//
// Serial mode.  One thread at a time may ask to run alone: it waits until all others are outside, and they wait outside
// until it is done.  Nothing can conflict with it then.  Asking for it while inside would wait for ever: a transaction
// leaves first.  Requests are served in the order in which they came.  Threads that wait for long sleep: with hundreds
// of them a thread that runs alone, and waits for a sync, would find no processor.
//
// The favourite.  A thread that has been the only one to run transactions for a while takes locks and draws versions by
// plain stores (in_peace()): locked instructions wait for the fence before them (docs/design/005), which costs more
// than they do. A second thread that enters ends the favour first; after each such end the favourite has to be alone
// for longer to be favoured again.
//
/// Dekker's handshake; if the system has barriers in all threads, one of these replaces the barrier of the common side
/// (sync/biased_lock.hpp):
///   enter()     S active; L serial_owner, favourite
///   others      S serial_owner, favourite or version; barrier; L active
///   in_peace()  S busy; L favourite
///   enter()     S favourite = `ending`; barrier; L busy until 0; S favourite = 0: a third thread that enters meanwhile
///               finds `ending`, and waits for the lock
#pragma once

#include <atomic>
#include <cstdint>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "isolation/version_clock.hpp"
#include "isolation/visits.hpp"
#include "platform/platform.hpp"

namespace nvm::isolation {

class alignas(line_bytes) participant {
 public:
  // A participant for this thread, from a list that only grows; nullptr: no memory, or too many.  leave_list() gives it
  // back.
  [[nodiscard]] static participant* join_list() noexcept;
  void leave_list() noexcept;

  // Calls f(), which must be short, if no other thread can get inside before it returns; false: it was not called. The
  // caller is inside.
  template <class F>
  [[nodiscard, NVM_INLINE]] bool in_peace(F&& f) noexcept {
    if (favourite.load(std::memory_order_relaxed) != this) return false;
    busy_.store(true, std::memory_order_relaxed);
    isa::compiler_fence();
    // acquire: pairs with ask_for_favour().
    const bool still = favourite.load(std::memory_order_acquire) == this;
    if (still) f();
    // release: pairs with the acquire in end_favour().
    busy_.store(false, std::memory_order_release);
    return still;
  }

  // Draws a version for this participant, which is inside.
  [[nodiscard, NVM_INLINE]] std::uint64_t draw() noexcept {
    std::uint64_t version = 0;
    if (in_peace([&] { version = version_clock::of_process().next_alone(); })) return version;
    return version_clock::of_process().next();
  }
  // The same for a thread that is no participant, or outside.
  [[nodiscard]] static std::uint64_t draw_outside() noexcept;

  // Less than orec_word::owners_max; no other thread has it at the same time.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  // Waits while another thread runs alone.  `subject` is what any_inside() asks for: a pool, for example.
  void enter(const void* subject) noexcept {
    subject_.store(subject, std::memory_order_relaxed);
    publish();
    const participant* alone = serial_owner.load(std::memory_order_seq_cst);
    if (alone != nullptr && alone != this) [[unlikely]] {
      wait_outside();
    }
    const participant* first = favourite.load(std::memory_order_seq_cst);
    if (first != this) [[unlikely]] {
      if (first != nullptr) {
        end_favour();
      } else if (++quiet_ >= patience_.load(std::memory_order_relaxed)) {
        ask_for_favour();
      }
    }
  }
  // release: what the transaction did and read is done.
  void leave() noexcept { active_.store(0, std::memory_order_release); }
  [[nodiscard]] bool inside() const noexcept { return active_.load(std::memory_order_relaxed) != 0; }
  // Everything read so far holds at this version.
  void look_from(std::uint64_t version) noexcept { active_.store(inside_since(version), std::memory_order_release); }
  void concerns(const void* subject) noexcept { subject_.store(subject, std::memory_order_relaxed); }

  // Called outside; on return the thread is inside and alone.
  void enter_alone(const void* subject) noexcept;
  // After leave().
  void end_serial() noexcept;
  [[nodiscard]] bool alone() const noexcept { return serial_owner.load(std::memory_order_relaxed) == this; }

  // Waits until no other thread is inside since before `version`.  The caller is outside: two that wait inside would
  // wait for each other.
  void wait_for_older(std::uint64_t version) noexcept;
  // The same from inside, but only so long that two threads that wait for each other notice it; false: too long.
  [[nodiscard]] bool outwait_older(std::uint64_t version) noexcept;
  // Smallest version since which another thread is inside, at most `limit`.
  [[nodiscard]] std::uint64_t oldest_of_others(std::uint64_t limit) noexcept;
  // Whether some thread is inside with this subject.
  [[nodiscard]] static bool any_inside(const void* subject) noexcept;
  // Waits until every thread that is inside with this subject has been outside once; false: that took longer than
  // `patience_ns`.  The caller is outside.
  [[nodiscard]] static bool wait_for_leaving(const void* subject, std::uint64_t patience_ns) noexcept;

  template <class Visit>
  static void each(Visit&& visit) noexcept {
    // acquire: pairs with the release in join_list(): the entry is made.
    for (participant* p = list.load(std::memory_order_acquire); p != nullptr; p = p->next_) visit(*p);
  }

  // Counters of the thread, or of several that had this place one after the other; written by it alone, readable from
  // any.
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
  friend visits;
  static constexpr std::uint64_t patience_first = 64;
  static constexpr std::uint64_t patience_max = std::uint64_t{1} << 20;
  static constexpr std::uint64_t inside_since(std::uint64_t version) noexcept { return version << 1 | 1; }
  void publish() noexcept {
    const std::uint64_t since = inside_since(version_clock::of_process().now());
    // release: pairs with visits::over(): what this thread's transactions before did.
    entered_.store(entered_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (unfenced.load(std::memory_order_relaxed)) {
      active_.store(since, std::memory_order_relaxed);
      isa::compiler_fence();
    } else {
      active_.exchange(since, std::memory_order_seq_cst);
    }
  }
  void wait_outside() noexcept;
  static void end_favour() noexcept;
  static void end_favour_locked() noexcept;
  void ask_for_favour() noexcept;
  // Times that the others have entered.
  [[nodiscard]] std::uint64_t others_entered() const noexcept;

  alignas(line_bytes) std::atomic<std::uint64_t> active_{0};  // 0: outside; else inside_since(version)
  std::atomic<const void*> subject_{nullptr};
  std::atomic<bool> busy_{false};
  std::atomic<std::uint64_t> entered_{0};
  bool taken_ = true;        // under the lock of the list
  std::uint64_t quiet_ = 0;  // enters since the last question
  std::atomic<std::uint64_t> patience_{patience_first};
  std::uint64_t others_then_ = 0;  // others_entered() at the last question
  std::uint64_t number_ = 0;
  participant* next_ = nullptr;

  static std::atomic<participant*> list;
  static std::atomic<participant*> serial_owner;
  static std::atomic<participant*> favourite;
  static std::atomic<bool> unfenced;  // the system has barriers in all threads
};

}  // namespace nvm::isolation
