// Link-and-persist (log-free, section 3): how a link changes so that no thread depends on a change that a crash could
// undo.
//
/// Change of the contents (an insertion, a deletion):
///   0. F the contents of the node, F its allocation word       | lockfree/E1  by the CAS: durable before anything
///                                                                              leads there
///   1. CAS the link, with the mark `pending`
///   2. F the link                                              | lockfree/E2  the operation has happened
///   3. CAS the mark off
///   A thread that depends on a link with the mark does 2 and 3 itself: no thread waits for another.
///   Or the link cache takes it (link_cache.hpp), and 2 comes when a thread depends on it.
/// Change that only tidies up (unlinking what is deleted): CAS, F; durable before the node's memory is free
/// (domain.hpp).
///   where one such change must not outlive another:            CAS, F; | lockfree/E22  by the CAS;  CAS, F
///   where another thread will free the node:                   CAS, F; | lockfree/E23  before the operation ends
//
// Where stores survive by themselves, a change is a CAS.
//
// On an image medium a change is durable when the log is, up to its LSN: an operation tells the largest LSN of all that
// it has changed or read, and the thread that acknowledges it waits for that.  For readers the LSN is kept by key,
// coarsely.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/inlining.hpp"
#include "base/plant.hpp"
#include "lockfree/link.hpp"
#include "lockfree/link_cache.hpp"
#include "media/media.hpp"

namespace nvm::lockfree {

// State of an operation and of the thread that runs it.
struct persistence_client {
  link_cache::client cache;
  lsn_t lsn = 0;  // durable up to here: whatever the thread has done and seen so far may be acknowledged
};

template <media M>
class persistence {
 public:
  persistence(M& medium, bool with_link_cache) noexcept
      : medium_{medium}, plain_{stores_survive(medium)}, cache_{with_link_cache && !plain_ && !M::atomic_batches} {}

  // The contents of a node that no other thread can see yet will be durable before a link leads to it.
  void contents(const void* p, std::size_t bytes) noexcept {
    if (!planted(plant::node_not_flushed)) medium_.flush(p, bytes);
  }

  // From `expected`, which is not pending, to `desired`, on behalf of `key`.  False: the link has changed meanwhile.
  [[nodiscard, NVM_INLINE]] bool change(persistence_client& who, link& l, link_word expected, link_word desired,
                                        std::uint64_t key) noexcept {
    NVM_ASSERT((expected & pending) == 0);
    if (plain_) return l.exchange(expected, desired);
    if (cache_.on()) {
      const auto o = cache_.add(medium_, who.cache, l, expected, desired, key);
      if (o != link_cache::outcome::no_room) return o == link_cache::outcome::added;
    }
    return change_now(who, l, expected, desired, key);
  }
  // The same past the link cache.
  [[nodiscard, NVM_INLINE]] bool change_now(persistence_client& who, link& l, link_word expected, link_word desired,
                                            std::uint64_t key) noexcept {
    if (plain_) return l.exchange(expected, desired);
    if (!begin(l, expected, desired)) return false;
    finish(who, key);
    (void)l.exchange(desired | pending, desired);
    return true;
  }
  // A change of several links, in this order: begin() each, then finish() and unmark() each.  When one of them can be
  // seen, those before it are durable.  Past the link cache: what is in there becomes durable in no order.
  [[nodiscard, NVM_INLINE]] bool begin(link& l, link_word expected, link_word desired) noexcept {
    NVM_ASSERT((expected & pending) == 0);
    if (plain_) return l.exchange(expected, desired);
    fence_by_rmw(medium_, edge{"lockfree/E1"});
    if (!l.exchange(expected, desired | pending)) return false;
    medium_.flush(&l, sizeof l);
    return true;
  }
  [[gnu::noinline]] void finish(persistence_client& who, std::uint64_t key) noexcept {
    if (plain_) return;
    medium_.fence(edge{"lockfree/E2"});
    take_note(who, key);
  }
  // If it has changed since, the thread that changed it found it without the mark.
  void unmark(link& l, link_word desired) noexcept {
    if (!plain_) (void)l.exchange(desired | pending, desired);
  }
  // The same for a change that no thread depends on.
  [[nodiscard, NVM_INLINE]] bool tidy(link& l, link_word expected, link_word desired) noexcept {
    NVM_ASSERT((expected & pending) == 0);
    if (!l.exchange(expected, desired)) return false;
    if (!plain_) medium_.flush(&l, sizeof l);
    return true;
  }
  // tidy() in two parts, for several of them: a locked instruction waits for every write-back before it.
  [[nodiscard, NVM_INLINE]] bool swing(link& l, link_word expected, link_word desired) noexcept {
    NVM_ASSERT((expected & pending) == 0);
    return l.exchange(expected, desired);
  }
  void write_back(const link& l) noexcept {
    if (!plain_) medium_.flush(&l, sizeof l);
  }
  // tidy(); when the change can be seen, this thread's earlier tidying is durable.
  [[nodiscard]] bool tidy_behind(link& l, link_word expected, link_word desired) noexcept {
    if (!plain_) fence_by_rmw(medium_, edge{"lockfree/E22"});
    return tidy(l, expected, desired);
  }
  // This thread's tidying is durable on return.
  void fence_tidied() noexcept {
    if (!plain_) medium_.fence(edge{"lockfree/E23"});
  }

  // A word that is no link.
  void store(persistence_client& who, std::uint64_t* word, std::uint64_t value, std::uint64_t key) noexcept {
    // relaxed: it orders nothing.
    std::atomic_ref<std::uint64_t>{*word}.store(value, std::memory_order_relaxed);
    keep_word(who, word, key);
  }
  // The same if it is `expected`; otherwise false, and `expected` becomes its value.  The word becomes durable with the
  // value that it then has, so that of two threads neither takes the other's change back.
  [[nodiscard]] bool exchange(persistence_client& who, std::uint64_t* word, std::uint64_t& expected,
                              std::uint64_t value, std::uint64_t key, bool durable) noexcept {
    // relaxed: it orders nothing.
    if (!std::atomic_ref<std::uint64_t>{*word}.compare_exchange_strong(expected, value, std::memory_order_relaxed)) {
      return false;
    }
    if (durable) keep_word(who, word, key);
    return true;
  }

  // Makes durable what was read from the link.  Returns it without the mark.
  [[nodiscard, NVM_INLINE]] link_word settled(persistence_client& who, link& l, link_word seen,
                                              std::uint64_t key) noexcept {
    if ((seen & pending) != 0 && !planted(plant::mark_not_settled)) [[unlikely]]
      make_durable(who, l, seen, key);
    return without(seen, pending);
  }
  // Every earlier change of `key` that is not pending is durable on return, or when the operation's LSN is.
  [[NVM_INLINE]] void depend(persistence_client& who, std::uint64_t key) noexcept {
    if (planted(plant::no_dependence)) return;
    if constexpr (M::atomic_batches) {
      // acquire: pairs with the release in make_durable().
      who.lsn = std::max(who.lsn, seen_[place_of(key)].load(std::memory_order_acquire));
    } else {
      cache_.depend(medium_, who.cache, key);
    }
  }
  // Everything done so far by any thread is durable on return, except pending changes.
  void settle_all() noexcept { cache_.flush_all(medium_); }
  // Notes that this thread's last capture concerns the key.
  [[NVM_INLINE]] void take_note(persistence_client& who, std::uint64_t key) noexcept {
    if constexpr (M::atomic_batches) {
      const lsn_t lsn = medium_.last_lsn();
      who.lsn = std::max(who.lsn, lsn);
      std::atomic<lsn_t>& newest = seen_[place_of(key)];
      lsn_t old = newest.load(std::memory_order_relaxed);
      // release: pairs with depend(); before the mark goes.
      while (old < lsn &&
             !newest.compare_exchange_weak(old, lsn, std::memory_order_release, std::memory_order_relaxed)) {
      }
    }
  }

  [[nodiscard]] M& medium() noexcept { return medium_; }
  [[nodiscard]] bool plain() const noexcept { return plain_; }  // stores survive by themselves
  // Whether change() may leave a link to the link cache.
  [[nodiscard]] bool defers() const noexcept { return cache_.on(); }

 private:
  static constexpr std::size_t places = M::atomic_batches ? 4096 : 1;
  static constexpr std::size_t place_of(std::uint64_t key) noexcept {
    return static_cast<std::size_t>(key * 0x9E37'79B9'7F4A'7C15ULL >> 52) % places;
  }

  void keep_word(persistence_client& who, std::uint64_t* word, std::uint64_t key) noexcept {
    medium_.flush(word, sizeof *word);
    medium_.fence(edge{"lockfree/E21"});
    take_note(who, key);
  }
  [[gnu::noinline]] void make_durable(persistence_client& who, link& l, link_word marked, std::uint64_t key) noexcept {
    medium_.flush(&l, sizeof l);
    finish(who, key);
    (void)l.exchange(marked, without(marked, pending));
  }

  M& medium_;
  const bool plain_;
  link_cache cache_;
  std::array<std::atomic<lsn_t>, places> seen_{};
};

}  // namespace nvm::lockfree
