// The durable memory of lock-free structures (concept.hpp): links that become durable one by one (persistence.hpp),
// nodes that come and go (node_heap.hpp), threads and epochs (domain.hpp), as a structure sees them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "base/brought_first.hpp"
#include "base/inlining.hpp"
#include "lockfree/domain.hpp"

namespace nvm::lockfree {

struct nothing_else {
  void operator()() const noexcept {}
};

template <media M>
class node_memory {
 public:
  class session {
   public:
    explicit session(typename domain<M>::thread& t) noexcept
        : thread_{&t}, random_{(t.number() + 1) * 0x9E37'79B9'7F4A'7C15ULL} {}
    [[nodiscard]] typename domain<M>::thread& thread() noexcept { return *thread_; }
    // What the thread has done and seen may be acknowledged once the log is durable up to here.
    [[nodiscard]] lsn_t lsn() const noexcept { return thread_->client.lsn; }
    [[NVM_INLINE]] void enter() noexcept { thread_->enter(); }
    [[NVM_INLINE]] void leave() noexcept { thread_->leave(); }

    // Keys inserted less keys removed, by this session: ever, and since the last note was taken.
    void count(std::int64_t more) noexcept {
      // relaxed: a reader that adds the sessions up wants a recent number.
      ever_.store(ever_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
      lately += more;
    }
    [[nodiscard]] std::int64_t inserted_ever() const noexcept { return ever_.load(std::memory_order_relaxed); }
    std::int64_t lately = 0;
    // Keeps the reason if a node may not be unlinked or deleted.
    [[nodiscard, NVM_INLINE]] bool permits(const status& s) noexcept {
      if (!s) [[unlikely]]
        refusal_ = s.error();
      return s.has_value();
    }
    [[nodiscard]] errc refusal() const noexcept { return refusal_; }
    // xorshift64: heights of nodes.  The same each time a thread of this number comes.
    [[nodiscard, NVM_INLINE]] std::uint64_t random() noexcept {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      return random_;
    }

   private:
    friend node_memory;
    typename domain<M>::thread* thread_;
    std::atomic<std::int64_t> ever_{0};
    std::uint64_t random_;
    node_cache cache_;
    errc refusal_ = errc::no_memory;
  };

  // The domain outlives it.
  node_memory(domain<M>& d, const typename node_heap<M>::settings& s) noexcept
      : in_{d},
        base_{d.base()},
        data_offset_{d.pages().sizes().data_offset},
        reach_{d.pages().of_stores(), d.pages().size_pages() << d.pages().sizes().page_shift},
        heap_{d.medium(), d.base(), d.pages(), d.words(), s} {
    d.add(heap_);
  }
  ~node_memory() { in_.remove(heap_); }
  node_memory(const node_memory&) = delete;
  node_memory& operator=(const node_memory&) = delete;

  // Gives back what the session has reserved.  False: it had nothing.  Called by its thread, or while that is kept
  // outside.
  bool end(session& s) noexcept {
    const bool any = s.cache_.has_any();
    heap_.release(s.cache_, s.thread_->areas, s.thread_->operation());
    return any;
  }

  // A link, or a place whose first word is read.
  [[nodiscard, NVM_INLINE]] std::byte* at(std::uint64_t offset) const noexcept {
    if (offset - data_offset_ >= reach_.bytes()) [[unlikely]] {
      if (!may_lead_to(offset, sizeof(link))) return damaged(offset);
    }
    return base_ + offset;
  }
  // The same for a node, which lies at a multiple of a line.
  [[nodiscard, NVM_INLINE]] std::byte* node_at(std::uint64_t offset) const noexcept {
    // A misaligned offset's low bits go to the top: it fails the comparison.
    if (std::rotr(offset - data_offset_, 6) >= reach_.bytes() / line_bytes) [[unlikely]] {
      if (offset % line_bytes != 0 || !may_lead_to(offset, line_bytes)) return damaged(offset);
    }
    return base_ + offset;
  }
  // The same with so many bytes from there on, at most a line, and all from start() on.  Those are in the pool: its
  // data, which may begin with a node that has pages of its own, come after a superblock, a page map and a log.
  template <class Start>
  [[nodiscard, NVM_INLINE]] std::byte* inside(std::uint64_t offset, std::uint64_t behind,
                                              Start&& start) const noexcept {
    // One comparison for nearly all of them; an offset that is too small wraps to a huge number.
    if (offset - data_offset_ >= reach_.ends_of_lines()) [[unlikely]] {
      if (!may_lead_between(start(), offset, behind)) return damaged(offset);
    }
    return base_ + offset;
  }
  // A node that is known to be in the pool.
  [[nodiscard, NVM_INLINE]] std::byte* of_pool(std::uint64_t offset) const noexcept { return base_ + offset; }
  // Offsets of nodes count from here.
  [[nodiscard]] const std::byte* origin() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t offset_in_pool(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }

  [[nodiscard, NVM_INLINE]] bool change(session& s, link& l, link_word expected, link_word desired,
                                        std::uint64_t key) noexcept {
    return in_.links.change(s.thread_->client, l, expected, desired, key);
  }
  [[nodiscard, NVM_INLINE]] bool tidy(link& l, link_word expected, link_word desired) noexcept {
    return in_.links.tidy(l, expected, desired);
  }
  // persistence.hpp: a change of several links.
  [[nodiscard, NVM_INLINE]] bool begin(session&, link& l, link_word expected, link_word desired,
                                       std::uint64_t) noexcept {
    return in_.links.begin(l, expected, desired);
  }
  // In the same change, a link that leads to the same node at another level.
  [[nodiscard, NVM_INLINE]] bool begin_above(link& l, link_word expected, link_word desired) noexcept {
    return in_.links.begin(l, expected, desired);
  }
  void finish(session& s, std::uint64_t key) noexcept { in_.links.finish(s.thread_->client, key); }
  void unmark(link& l, link_word desired) noexcept { in_.links.unmark(l, desired); }
  [[nodiscard]] bool tidy_behind(link& l, link_word expected, link_word desired) noexcept {
    return in_.links.tidy_behind(l, expected, desired);
  }
  [[nodiscard, NVM_INLINE]] bool swing(link& l, link_word expected, link_word desired) noexcept {
    return in_.links.swing(l, expected, desired);
  }
  void write_back(const link& l) noexcept { in_.links.write_back(l); }
  void fence_tidied() noexcept { in_.links.fence_tidied(); }
  // Whether tidying that can be seen may be lost while a later change is kept.
  [[nodiscard]] bool may_lose_order() const noexcept { return !M::atomic_batches && !in_.links.plain(); }
  [[nodiscard, NVM_INLINE]] link_word settled(session& s, link& l, link_word seen, std::uint64_t key) noexcept {
    return in_.links.settled(s.thread_->client, l, seen, key);
  }
  [[NVM_INLINE]] void depend(session& s, std::uint64_t key) noexcept { in_.links.depend(s.thread_->client, key); }

  // A word of a node besides its link.
  void store_word(session& s, std::uint64_t* word, std::uint64_t value, std::uint64_t key) noexcept {
    in_.links.store(s.thread_->client, word, value, key);
  }
  [[nodiscard]] bool exchange_word(session& s, std::uint64_t* word, std::uint64_t& expected, std::uint64_t value,
                                   std::uint64_t key, bool durable) noexcept {
    return in_.links.exchange(s.thread_->client, word, expected, value, key, durable);
  }

  [[nodiscard, NVM_INLINE]] result<std::uint64_t> allocate(session& s, std::uint64_t bytes) noexcept {
    return heap_.allocate(s.cache_, s.thread_->areas, s.thread_->number(), s.thread_->operation(), bytes);
  }
  [[NVM_INLINE]] void contents(const void* p, std::size_t bytes) noexcept { in_.links.contents(p, bytes); }
  void discard(session& s, std::uint64_t offset) noexcept {
    heap_.discard(s.cache_, s.thread_->areas, s.thread_->operation(), offset);
  }
  // Room for an array of links, which publish_run() makes known.
  [[nodiscard]] result<std::uint64_t> take_array(session& s, std::uint64_t bytes) noexcept {
    return allocate(s, std::max(bytes, array_min));
  }
  // A run that was allocated becomes known by a checked word of the structure's root.
  void publish_run(const void* contents, std::size_t bytes, std::uint64_t* word, std::uint64_t offset) noexcept {
    M& m = in_.medium();
    m.flush(contents, bytes);
    m.fence(edge{"lockfree/E11"});
    bring_first(word);
    // release: pairs with the acquire of a thread that opens the structure.
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(offset, word_seed(offset_in_pool(word))),
                                                std::memory_order_release);
    m.flush(word, sizeof *word);
    m.fence(edge{"lockfree/E12"});
  }
  // False: s.refusal() says why.
  [[nodiscard, NVM_INLINE]] bool may_unlink(session& s, std::uint64_t offset, std::size_t count = 1) noexcept {
    return s.permits(in_.may_unlink(*s.thread_, heap_, offset, false, count));
  }
  // Asked for nodes that leave with one that is deleted next, `count` in all.
  [[nodiscard, NVM_INLINE]] bool may_leave(session& s, std::uint64_t offset, std::size_t count) noexcept {
    return s.permits(in_.may_unlink(*s.thread_, heap_, offset, !in_.links.defers(), count));
  }
  // may_unlink() before the change of a link that deletes the node: its area is noted first, or recovery would count a
  // deleted node that is still linked.  The write-back is waited for with the change (lockfree/E1).
  [[nodiscard, NVM_INLINE]] bool will_delete(session& s, std::uint64_t offset) noexcept {
    return s.permits(in_.may_unlink(*s.thread_, heap_, offset, true));
  }
  // change() of the link that deletes the node at `offset`, if may_unlink() allows it.  `at_once`: past the link cache.
  // first(): writes back what else tells recovery of the deletion; not called where the link cache has it.
  template <class First = nothing_else>
  [[nodiscard, NVM_INLINE]] deletion change_to_delete(session& s, link& l, link_word expected, link_word desired,
                                                      std::uint64_t key, std::uint64_t offset, bool at_once = false,
                                                      First&& first = {}) noexcept {
    if (in_.links.defers() && !at_once) {
      // A deletion that is only in the link cache has left no trace on media.
      if (!may_unlink(s, offset)) return deletion::refused;
      return deleted_if(in_.links.change(s.thread_->client, l, expected, desired, key));
    }
    const bool late = planted(plant::deleted_unannounced);
    if (!late) {
      if (!will_delete(s, offset)) return deletion::refused;
      first();
    }
    const bool done = in_.links.change_now(s.thread_->client, l, expected, desired, key);
    if (done && late) {
      first();
      (void)may_unlink(s, offset);
    }
    return deleted_if(done);
  }
  void retire(session& s, std::uint64_t offset) noexcept { in_.retire(*s.thread_, heap_, offset); }
  void retire_twice(session& s, std::uint64_t offset) noexcept { in_.retire_twice(*s.thread_, heap_, offset); }

  [[nodiscard]] node_heap<M>& heap() noexcept { return heap_; }
  [[nodiscard]] const node_heap<M>& heap() const noexcept { return heap_; }
  [[nodiscard]] domain<M>& of() noexcept { return in_; }
  // As many nodes and cells of tables as the pool can hold.
  [[nodiscard]] std::uint64_t nodes_max() const noexcept {
    const geometry& g = in_.pages().sizes();
    return (in_.pages().size_pages() << g.page_shift) / sizeof(link);
  }
  // A node of so many bytes ends inside the pool.
  [[nodiscard]] bool holds(const void* node, std::uint64_t bytes) const noexcept {
    if (range_inside(offset_in_pool(node) - data_offset_, bytes, reach_.bytes())) return true;
    if (may_lead_to(offset_in_pool(node), bytes)) return true;
    (void)damaged(offset_in_pool(node));
    return false;
  }
  void report_damage(std::uint64_t offset) const noexcept { (void)damaged(offset); }
  // A link led where no node can be.
  [[nodiscard]] bool is_damaged() const noexcept { return damaged_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::uint64_t damaged_offset() const noexcept {
    return damaged_.load(std::memory_order_relaxed) & ~damaged_bit;
  }

 private:
  static constexpr std::uint64_t damaged_bit = std::uint64_t{1} << 63;  // a link may lead to offset 0, too
  static constexpr std::uint64_t array_min = 8192;                      // more than any class of nodes
  // Whether the pool has these bytes, and no object store does.
  [[nodiscard, gnu::noinline]] bool may_lead_to(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t from = offset - data_offset_;
    if (!range_inside(from, bytes, reach_.pool_bytes())) {
      reach_.see(in_.pages().size_pages() << in_.pages().sizes().page_shift);
      if (!range_inside(from, bytes, reach_.pool_bytes())) return false;
    }
    return !reach_.may_lead_into_store(from, bytes) || !leads_into_store(offset, bytes);
  }
  [[nodiscard, gnu::noinline]] bool may_lead_between(std::uint64_t first, std::uint64_t offset,
                                                     std::uint64_t behind) const noexcept {
    const std::uint64_t from = std::max(std::min(first, offset), data_offset_);
    return offset >= data_offset_ && may_lead_to(from, offset - from + behind);
  }
  [[nodiscard, gnu::noinline]] bool leads_into_store(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t page_bytes = in_.pages().sizes().page_bytes();
    const std::uint64_t first = round_down(offset - data_offset_, page_bytes) + data_offset_;
    for (std::uint64_t at = first; at < offset + bytes; at += page_bytes) {
      if (in_.pages().is_foreign(at)) return true;
    }
    return false;
  }
  [[gnu::cold, gnu::noinline]] std::byte* damaged(std::uint64_t offset) const noexcept {
    damaged_.store(offset | damaged_bit, std::memory_order_relaxed);
    return nullptr;
  }

  domain<M>& in_;
  std::byte* const base_;
  const std::uint64_t data_offset_;
  mutable link_reach reach_;
  node_heap<M> heap_;
  mutable std::atomic<std::uint64_t> damaged_{0};
};

}  // namespace nvm::lockfree
