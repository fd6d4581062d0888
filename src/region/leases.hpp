// Leases: pointers to committed bytes of regions that stay as they are while writers go on (hole V4 of design 023).
//
// The first lease of a place marks it as leased in the lock of its region, and it stays marked until the region has
// another place: writers move the region, and store nothing where a lease may look.  The leased places are kept here,
// for limbo, which gives a place back after its leases, and for a writer of a large region, which looks whether any
// lease is left before it copies all of it.
//
// A lease stores to a slot of its thread's own.  Its place cannot be given back meanwhile: its thread is inside
// (sync/epochs.hpp) until the slot names the place, and limbo looks at slots after all threads that were inside have
// moved on.
//
// Cost: two stores to a line of the thread's own; the first lease of a place also one locked instruction on the line of
// its region.  No fence.
//
// Threads: a thread takes slots of its own number; any thread gives them back.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "region/face.hpp"
#include "sync/sync.hpp"

namespace nvm::region {

class leases {
 public:
  leases() = default;
  ~leases() {
    for (auto& t : threads_) delete t.load(std::memory_order_relaxed);
  }
  leases(const leases&) = delete;
  leases& operator=(const leases&) = delete;

  class slot {
   public:
    // Holds the place from here on, for limbo.
    void hold(std::uint64_t place) noexcept {
      place_.store(place, std::memory_order_release);
      // Pairs with holds_after_barrier(): either it sees this, or this thread sees that no lease may begin.
      if (platform::can_fence_all_threads()) {
        isa::compiler_fence();
      } else {
        std::atomic_thread_fence(std::memory_order_seq_cst);
      }
    }
    void hold_nothing() noexcept { place_.store(taken, std::memory_order_relaxed); }
    // Bytes of its own, zeros, which go with it; nullptr: there is no memory.
    [[nodiscard]] std::byte* make_copy(std::uint64_t bytes) noexcept {
      return static_cast<std::byte*>(copy_.emplace(bytes).data());
    }
    void forget_copy() noexcept { copy_.reset(); }

   private:
    friend class leases;
    static constexpr std::uint64_t free = 0;
    static constexpr std::uint64_t taken = 1;  // no offset of bytes
    std::atomic<std::uint64_t> place_{free};
    std::atomic<std::uint64_t> ticket_{0};
    std::optional<platform::zeroed_memory> copy_;
  };

  // A free slot of the thread; it is named in `out`.  errc::no_memory.
  [[nodiscard]] result<slot*> take(unsigned thread, lease& out) noexcept try {
    of_thread* mine = threads_[thread].load(std::memory_order_acquire);
    if (mine == nullptr) {
      mine = new of_thread;
      threads_[thread].store(mine, std::memory_order_release);
      // seq_cst: threads that look for leases see it no later than the slot that is taken.
      unsigned end = end_.load();
      while (end <= thread && !end_.compare_exchange_weak(end, thread + 1)) {
      }
    }
    const std::uint64_t index = mine->free_slot();
    slot& s = mine->at(index);
    out.slot = std::uint64_t{thread} << 32 | index;
    out.ticket = (s.ticket_.load(std::memory_order_relaxed) & ~given) + 1;
    s.ticket_.store(out.ticket, std::memory_order_relaxed);
    s.place_.store(slot::taken, std::memory_order_relaxed);
    return &s;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a lease of a region");
  }
  // False: there is no such lease, or it was let go.
  [[nodiscard]] bool give(const lease& l) noexcept {
    const std::uint64_t thread = l.slot >> 32;
    const auto index = static_cast<std::uint32_t>(l.slot);
    if (thread >= epochs::threads_max) return false;
    of_thread* const its = threads_[thread].load(std::memory_order_acquire);
    if (its == nullptr || index >= its->size.load(std::memory_order_acquire)) return false;
    slot& s = its->at(index);
    if (s.place_.load(std::memory_order_acquire) == slot::free) return false;
    // Of two threads that let it go, one does.  relaxed: the load of the place orders it.
    std::uint64_t ticket = l.ticket;
    if (!s.ticket_.compare_exchange_strong(ticket, ticket | given, std::memory_order_relaxed)) return false;
    give(s);
    return true;
  }
  void give(slot& s) noexcept {
    s.forget_copy();
    // release: pairs with held() and free_slot(): the holder's reads come before.
    s.place_.store(slot::free, std::memory_order_release);
  }

  // Leases that are held.
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t n = 0;
    each([&](std::uint64_t) {
      ++n;
      return true;
    });
    return n;
  }
  // Whether a lease holds the place.
  [[nodiscard]] bool holds(std::uint64_t place) const noexcept {
    bool found = false;
    each([&](std::uint64_t held) {
      found = held == place;
      return !found;
    });
    return found;
  }
  // The same, asked by a thread that has closed the region to leases.  Costs microseconds.
  [[nodiscard]] bool holds_after_barrier(std::uint64_t place) const noexcept {
    if (platform::can_fence_all_threads()) {
      platform::fence_all_threads();
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return holds(place);
  }
  // The places that are held, in order.  May throw std::bad_alloc.
  void held(std::vector<std::uint64_t>& out) const {
    out.clear();
    each([&](std::uint64_t place) {
      if (place != slot::taken) out.push_back(place);
      return true;
    });
    std::sort(out.begin(), out.end());
  }

 private:
  static constexpr std::uint64_t given = std::uint64_t{1} << 63;  // in a ticket: the lease was let go

  struct of_thread {
    static constexpr unsigned parts_max = 28;
    static constexpr std::uint64_t first_slots = 8;
    std::atomic<std::uint64_t> size{0};
    std::uint64_t next = 0;  // where the search for a free one begins
    std::array<std::unique_ptr<slot[]>, parts_max> parts;

    // Part k has 8 << k slots.
    [[nodiscard]] slot& at(std::uint64_t index) const noexcept {
      const unsigned part = static_cast<unsigned>(std::bit_width(index / first_slots + 1)) - 1;
      return parts[part][index - first_slots * ((std::uint64_t{1} << part) - 1)];
    }
    [[nodiscard]] std::uint64_t free_slot() {
      const std::uint64_t n = size.load(std::memory_order_relaxed);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t index = next + i < n ? next + i : next + i - n;
        // acquire: pairs with give(), which another thread may have called.
        if (at(index).place_.load(std::memory_order_acquire) != slot::free) continue;
        next = index + 1 < n ? index + 1 : 0;
        return index;
      }
      const unsigned part = static_cast<unsigned>(std::bit_width(n / first_slots + 1)) - 1;
      if (part == parts_max) throw std::bad_alloc{};
      const std::uint64_t more = first_slots << part;
      parts[part] = std::make_unique<slot[]>(more);
      next = n + 1;
      // release: pairs with threads that look at other threads' slots.
      size.store(n + more, std::memory_order_release);
      return n;
    }
  };
  template <class Visit>
  void each(Visit&& visit) const {
    const unsigned end = end_.load();
    for (unsigned i = 0; i < end; ++i) {
      const of_thread* const its = threads_[i].load(std::memory_order_acquire);
      const std::uint64_t n = its == nullptr ? 0 : its->size.load(std::memory_order_acquire);
      for (std::uint64_t s = 0; s < n; ++s) {
        // acquire: pairs with give().
        const std::uint64_t place = its->at(s).place_.load(std::memory_order_acquire);
        if (place != slot::free && !visit(place)) return;
      }
    }
  }

  std::array<std::atomic<of_thread*>, epochs::threads_max> threads_{};
  std::atomic<unsigned> end_{0};  // of the threads that ever had one
};

}  // namespace nvm::region
