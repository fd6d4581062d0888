// The link cache (log-free, section 4): links that were changed and are not written back yet, in volatile memory, so
// that many are made durable by one fence.
//
// Best effort.  32 buckets of one cache line; a bucket holds six addresses of links, a hash of 16 bits for the key each
// belongs to, and a state each: free, taken (its link is about to change), busy (changed, not durable).  A thread that
// depends on a key looks for its hash and flushes the whole bucket.
//
// Most look-ups depend on nothing that is in here, and must not pay for it: half of each hash is in the word with the
// states (the tags, of free entries stale ones), so that one load and some arithmetic without a jump rule it out.
//
/// add     free -> taken, tag (CAS); S address, hash; CAS link to desired|pending; taken -> busy; CAS the mark off
///         A thread that meets the link between the two CASes sees `pending` and makes it durable; afterwards it finds
///         it busy.
/// flush   set the bucket's flushing mark (CAS); F the links of busy entries; | lockfree/E3
///         these entries -> free, mark off
///         Only the thread that set the mark frees entries.  A second flusher meanwhile flushes the same links itself:
///         no thread waits for another.
//
// Where contention makes the cache lose, it is bypassed for a while, by each thread whose links were mostly flushed one
// by one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/inlining.hpp"
#include "lockfree/link.hpp"
#include "media/media.hpp"

namespace nvm::lockfree {

class link_cache {
 public:
  static constexpr unsigned buckets = 32;
  static constexpr unsigned entries = 6;

  explicit link_cache(bool on) noexcept : on_{on} {}

  [[nodiscard]] bool on() const noexcept { return on_; }

  // One thread's experience with the cache.
  struct client {
    std::uint64_t added = 0;
    std::uint64_t fences = 0;  // of buckets, by this thread
    std::uint32_t window = 0;  // calls of add() in it
    std::uint32_t window_fences = 0;
    std::uint32_t resting = 0;  // calls that will bypass the cache
  };

  enum class outcome : std::uint8_t { added, changed_meanwhile, no_room };

  // `desired` is without the mark.
  template <media M>
  [[nodiscard]] outcome add(M& m, client& who, link& l, link_word expected, link_word desired,
                            std::uint64_t key) noexcept {
    if (rests(who)) return outcome::no_room;
    const std::uint64_t h = spread(key);
    bucket& b = bucket_of(h);
    std::uint64_t now = b.states.load(std::memory_order_acquire);
    unsigned free = 0;
    for (;;) {
      free = 0;
      while (free < entries && state_of(now, free) != state::free) ++free;
      if (free == entries) {
        flush(m, who, b);
        return outcome::no_room;
      }
      // acquire: pairs with the release that freed it; the flusher is through with its address.
      if (b.states.compare_exchange_weak(now, with_tag(now, free, h) | taken_bit(free), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        break;
      }
    }
    b.links[free].store(&l, std::memory_order_relaxed);
    b.hashes[free].store(hash_of(h), std::memory_order_relaxed);
    fence_by_rmw(m, edge{"lockfree/E5"});
    if (!l.exchange(expected, desired | pending)) {
      b.states.fetch_xor(taken_bit(free), std::memory_order_acq_rel);
      return outcome::changed_meanwhile;
    }
    // release: pairs with the acquire loads: a thread that finds it busy finds its address, and the link changed.
    b.states.fetch_xor(taken_bit(free) | busy_bit(free), std::memory_order_acq_rel);
    (void)l.exchange(desired | pending, desired);
    ++who.added;
    return outcome::added;
  }

  // Links that were added for `key` are durable on return.
  template <media M>
  [[NVM_INLINE]] void depend(M& m, client& who, std::uint64_t key) noexcept {
    if (!on_) return;
    const std::uint64_t h = spread(key);
    bucket& b = bucket_of(h);
    // acquire: pairs with add(): the link that is busy has changed, and its tag is there.
    const std::uint64_t now = b.states.load(std::memory_order_acquire);
    if (!may_have(now, h)) [[likely]]
      return;
    look(m, who, b, now, h);
  }

  // Everything added before is durable on return.  One fence at most.
  template <media M>
  void flush_all(M& m) noexcept {
    if (!on_) return;
    std::array<std::uint64_t, buckets> busy{};
    std::uint32_t mine = 0;  // buckets whose flushing mark is ours
    bool any = false;
    for (unsigned i = 0; i < buckets; ++i) {
      if ((table_[i].states.load(std::memory_order_acquire) & busy_bits) == 0) continue;
      if (set_mark(table_[i])) mine |= std::uint32_t{1} << i;
      busy[i] = write_back(m, table_[i]);
      any = true;
    }
    if (!any) return;
    m.fence(edge{"lockfree/E4"});
    for (unsigned i = 0; i < buckets; ++i) {
      if ((mine >> i & 1) != 0) release(table_[i], busy[i]);
    }
  }

 private:
  // States of entries, two bits each; bit 12: a thread flushes; from bit 16 on their tags, 8 bits each.
  enum class state : std::uint32_t { free = 0, taken = 1, busy = 2 };
  static constexpr std::uint64_t busy_bits = 0b10'10'10'10'10'10;
  static constexpr std::uint64_t flushing = 1U << 12;
  static constexpr unsigned tags_at = 16;
  static constexpr std::uint64_t each_byte = 0x0101'0101'0101;
  static constexpr std::uint32_t window_calls = 1024;
  static constexpr std::uint32_t rest_calls = 1U << 15;

  struct alignas(line_bytes) bucket {
    std::atomic<std::uint64_t> states{0};
    std::array<std::atomic<std::uint8_t>, entries> hashes{};  // their other halves
    std::array<std::atomic<link*>, entries> links{};
  };
  static_assert(sizeof(bucket) == line_bytes);

  static constexpr state state_of(std::uint64_t states, unsigned i) noexcept {
    return static_cast<state>(states >> 2 * i & 3);
  }
  static constexpr std::uint64_t taken_bit(unsigned i) noexcept { return 1U << 2 * i; }
  static constexpr std::uint64_t busy_bit(unsigned i) noexcept { return 2U << 2 * i; }
  static constexpr std::uint64_t spread(std::uint64_t key) noexcept { return key * 0x9E37'79B9'7F4A'7C15ULL; }
  // `h` is the spread key from here on: its top bits name the bucket, others the hash and the tag.
  [[nodiscard]] bucket& bucket_of(std::uint64_t h) noexcept { return table_[h >> 59]; }
  static constexpr std::uint8_t hash_of(std::uint64_t h) noexcept { return static_cast<std::uint8_t>(h >> 32); }
  static constexpr std::uint64_t tag_of(std::uint64_t h) noexcept { return h >> 48 & 0xFF; }
  static constexpr std::uint64_t with_tag(std::uint64_t states, unsigned i, std::uint64_t h) noexcept {
    const unsigned at = tags_at + 8 * i;
    return (states & ~(std::uint64_t{0xFF} << at)) | tag_of(h) << at;
  }
  // False: no entry has the tag.
  static constexpr bool may_have(std::uint64_t states, std::uint64_t h) noexcept {
    const std::uint64_t differs = states >> tags_at ^ tag_of(h) * each_byte;
    // A byte of zeros borrows from its highest bit.
    return ((differs - each_byte) & ~differs & each_byte << 7) != 0;
  }
  static_assert(buckets == 1U << (64 - 59));

  // True: this call bypasses the cache.
  [[nodiscard]] static bool rests(client& who) noexcept {
    if (who.resting != 0) {
      --who.resting;
      return true;
    }
    if (++who.window < window_calls) return false;
    // A fence for three links or fewer in four saves less than the cache costs.
    if (who.window_fences > window_calls / 4 * 3) who.resting = rest_calls;
    who.window = who.window_fences = 0;
    return false;
  }

  template <media M>
  [[gnu::noinline]] void look(M& m, client& who, bucket& b, std::uint64_t now, std::uint64_t h) noexcept {
    for (unsigned i = 0; i < entries; ++i) {
      if (state_of(now, i) == state::busy && (now >> (tags_at + 8 * i) & 0xFF) == tag_of(h) &&
          b.hashes[i].load(std::memory_order_relaxed) == hash_of(h)) {
        flush(m, who, b);
        return;
      }
    }
  }
  // False: another thread flushes the bucket.
  [[nodiscard]] static bool set_mark(bucket& b) noexcept {
    return (b.states.fetch_or(flushing, std::memory_order_acq_rel) & flushing) == 0;
  }
  // Begins the write-back of the busy entries; returns which these are.
  template <media M>
  [[nodiscard]] std::uint64_t write_back(M& m, bucket& b) noexcept {
    const std::uint64_t busy = b.states.load(std::memory_order_acquire) & busy_bits;
    for (unsigned i = 0; i < entries; ++i) {
      if (state_of(busy, i) == state::busy) m.flush(b.links[i].load(std::memory_order_relaxed), sizeof(link));
    }
    return busy;
  }
  template <media M>
  [[gnu::noinline]] void flush(M& m, client& who, bucket& b) noexcept {
    const bool mine = set_mark(b);
    const std::uint64_t busy = write_back(m, b);
    m.fence(edge{"lockfree/E3"});
    ++who.fences;
    ++who.window_fences;
    if (mine) release(b, busy);
  }
  // Frees the entries that the caller, which set the mark, has made durable.
  static void release(bucket& b, std::uint64_t busy) noexcept {
    b.states.fetch_and(~(busy | flushing), std::memory_order_acq_rel);
  }

  const bool on_;
  std::array<bucket, buckets> table_;
};

}  // namespace nvm::lockfree
