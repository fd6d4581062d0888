// The memory of node_memory.hpp with links that are volatile: nodes alone are durable (sealed_nodes.hpp).  Lists, hash
// tables and skip lists become sets of durable nodes over it, as they are; rebuilt.hpp finds the nodes when a pool is
// opened, and links them.
//
// A link bears the mark `pending` until the nodes that it is about are durable:
//
/// insert    S node, its seal fresh;  CAS before -> node, pending
///           CAS seal live; F node;                   | records/E1  the node exists
///           CAS the mark off
/// remove    CAS node -> next|gone, pending
///           CAS seal gone; F seal;                   | records/E2  the node is gone
///           CAS the mark off
/// replace   S replacement, its version one higher;  CAS node -> replacement|gone, pending
///           CAS replacement's seal live; F it;       | records/E1  the replacement is there
///           CAS node's seal gone; F it;              | records/E2  and alone
///           CAS the mark off
/// bytes     F the contents;                          | records/E3  by the CAS: durable before their seal says `live`
// A thread that depends on a link with the mark does all of this itself, so no thread waits for another: a look-up that
// meets the mark on the link that it reports waits for a fence, any other for none.
//
// Where stores survive by themselves the marks remain, because the seal survives and not the link: it has to be raised
// before any thread reports what the link says.
//
// Allocation words are volatile, too, and no area is ever active: a node that was allocated and is not live after a
// crash is free.  A node is retired when its seal is durably `gone`, so freeing it waits for the epochs alone.
//
// Roots and arrays of cells lie in ordinary memory, at offsets beyond every pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/brought_first.hpp"
#include "base/inlining.hpp"
#include "lockfree/node_memory.hpp"
#include "lockfree/sealed_nodes.hpp"
#include "platform/platform.hpp"

namespace nvm::lockfree {

template <media M, sealed_node_kind Nodes>
class sealed_memory : public node_memory<M> {
  using base = node_memory<M>;

 public:
  using session = typename base::session;
  using nodes = Nodes;

  // `seed`: of the structure's seals.
  sealed_memory(domain<M>& d, std::uint16_t owner, std::uint64_t seed) noexcept
      : base{d,
             {.owner = owner,
              .protocol = nvm::layout::slot_protocol::self_validating,
              .area_shift = d.settings().area_shift,
              .size_pages_at_open = d.pages().size_pages(),
              .durable_words = false,
              .gives_extents = true}},
        seed_{seed},
        plain_{d.links.plain()},
        index_bytes_{round_up(d.pages().sizes().capacity_pages << d.pages().sizes().page_shift, 4096) / 4 +
                     index_bytes_min},
        index_memory_{index_bytes_},
        index_{static_cast<std::byte*>(index_memory_.data())} {}
  [[nodiscard]] bool exists() const noexcept { return index_ != nullptr; }

  [[nodiscard, NVM_INLINE]] std::byte* at(std::uint64_t offset) const noexcept {
    if (offset >= index_offset) return index_ + (offset - index_offset);
    return base::at(offset);
  }
  using base::at;  // for nodes only
  [[nodiscard, NVM_INLINE]] std::uint64_t offset_in_pool(const void* p) const noexcept {
    const auto inside = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - index_);
    return inside < index_bytes_ ? index_offset + inside : base::offset_in_pool(p);
  }
  [[nodiscard]] static constexpr bool is_in_index(std::uint64_t offset) noexcept { return offset >= index_offset; }
  // Volatile, zero, for as long as the structure is open.  errc::no_memory.
  [[nodiscard]] result<std::uint64_t> take_index(std::uint64_t bytes) noexcept {
    const std::uint64_t needs = round_up(bytes, line_bytes);
    std::uint64_t first = index_next_.load(std::memory_order_relaxed);
    do {
      if (needs > index_bytes_ - first) {
        return fail(errc::no_memory, "the volatile index of a lock-free structure has %lu bytes", index_bytes_);
      }
    } while (!index_next_.compare_exchange_weak(first, first + needs, std::memory_order_relaxed));
    return index_offset + first;
  }
  [[nodiscard]] std::uint64_t index_bytes() const noexcept { return index_bytes_; }
  [[nodiscard]] result<std::uint64_t> take_array(session&, std::uint64_t bytes) noexcept { return take_index(bytes); }
  void publish_run(const void*, std::size_t, std::uint64_t* word, std::uint64_t offset) noexcept {
    bring_first(word);
    // release: a thread that finds the array finds its contents.
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(offset, word_seed(offset_in_pool(word))),
                                                std::memory_order_release);
  }

  // ---- a change ----

  [[nodiscard, NVM_INLINE]] bool change(session& s, link& l, link_word expected, link_word desired,
                                        std::uint64_t key) noexcept {
    if ((desired & cell) != 0) return l.exchange(expected, desired);
    prepare(offset_of(desired), 0);
    if (!l.exchange(expected, desired | pending)) return false;
    make_durable(s, l, desired | pending, key, false);
    return true;
  }
  [[nodiscard, NVM_INLINE]] deletion change_to_delete(session& s, link& l, link_word expected, link_word desired,
                                                      std::uint64_t key, std::uint64_t offset, bool = false) noexcept {
    if (!will_delete(s, offset)) return deletion::refused;
    return deleted_if(change_to_gone(s, l, expected, desired, key));
  }
  [[nodiscard, NVM_INLINE]] bool change_to_gone(session& s, link& l, link_word expected, link_word desired,
                                                std::uint64_t key) noexcept {
    const bool replaces = offset_of(desired) != offset_of(expected);
    if (replaces) prepare(offset_of(desired), seal::next_version(seal::version_of(seal::load(holder_of(l)))));
    if (!l.exchange(expected, desired | pending)) return false;
    make_durable(s, l, desired | pending, key, replaces);
    return true;
  }
  // All of a change is in its first link: when others are begun, it has happened.
  [[nodiscard, NVM_INLINE]] bool begin(session& s, link& l, link_word expected, link_word desired,
                                       std::uint64_t key) noexcept {
    return (desired & gone) == 0 ? change(s, l, expected, desired, key) : change_to_gone(s, l, expected, desired, key);
  }
  [[nodiscard, NVM_INLINE]] static bool begin_above(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  static void finish(session&, std::uint64_t) noexcept {}
  static void unmark(link&, link_word) noexcept {}

  // ---- changes of the way alone ----

  [[nodiscard, NVM_INLINE]] static bool tidy(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard]] static bool tidy_behind(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard, NVM_INLINE]] static bool swing(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  static void write_back(const link&) noexcept {}
  static void fence_tidied() noexcept {}
  // No tidying is on media.
  [[nodiscard]] static constexpr bool may_lose_order() noexcept { return false; }

  // Makes durable what was read from the link.  Returns it without the mark.
  [[nodiscard, NVM_INLINE]] link_word settled(session& s, link& l, link_word seen, std::uint64_t) noexcept {
    if ((seen & pending) != 0 && !planted(plant::mark_not_settled)) [[unlikely]]
      help(s, l, seen);
    return without(seen, pending);
  }
  [[NVM_INLINE]] void depend(session& s, std::uint64_t key) noexcept {
    if constexpr (M::atomic_batches) this->of().links.depend(s.thread().client, key);
  }

  // Contents of a node that no other thread can see yet, or of a cell.
  [[NVM_INLINE]] void contents(const void* p, std::size_t bytes) noexcept {
    if constexpr (!Nodes::sealed_whole) {
      if (!plain_ && !is_in_index(offset_in_pool(p))) medium().flush(p, bytes);
    }
  }
  // A deletion is durable by itself: nothing is looked for in areas.
  [[nodiscard, NVM_INLINE]] bool will_delete(session& s, std::uint64_t) noexcept {
    return s.permits(this->of().has_room(s.thread()));
  }
  [[nodiscard, NVM_INLINE]] bool may_unlink(session& s, std::uint64_t, std::size_t count = 1) noexcept {
    return s.permits(this->of().has_room(s.thread(), count));
  }

  // ---- seals ----

  [[nodiscard, NVM_INLINE]] sealed_head* node(std::uint64_t offset) const noexcept {
    return reinterpret_cast<sealed_head*>(this->of_pool(offset));
  }
  [[nodiscard]] std::uint64_t sum_of(const sealed_head* n, std::uint64_t offset) const noexcept {
    return Nodes::sum_of(n, offset, seed_);
  }
  // Begins the write-back of the bytes that make the node live.
  [[NVM_INLINE]] void write_back_live(const sealed_head* n) noexcept {
    if constexpr (Nodes::sealed_whole) {
      medium().flush(&n->order, sizeof(typename Nodes::node) - offsetof(node_head, order));
    } else {
      medium().flush(&n->seal, sizeof n->seal);
    }
  }
  [[nodiscard]] bool plain() const noexcept { return plain_; }

 private:
  static constexpr std::uint64_t index_offset = std::uint64_t{1} << 55;  // fits a checked word
  static constexpr std::uint64_t index_bytes_min = 64 * 1024;

  [[nodiscard]] M& medium() noexcept { return this->of().medium(); }
  // The node whose link of the bottom this is.
  [[nodiscard]] static sealed_head* holder_of(link& l) noexcept { return reinterpret_cast<sealed_head*>(&l); }

  [[NVM_INLINE]] void prepare(std::uint64_t offset, unsigned version) noexcept {
    sealed_head* n = node(offset);
    seal::set(n, sum_of(n, offset) | std::uint64_t{version} << seal::version_shift | seal::fresh);
    if constexpr (!Nodes::sealed_whole) {
      if (!plain_) fence_by_rmw(medium(), edge{"records/E3"});
    }
  }
  // Called by the thread that changed the link to `marked`, or by one that found it so.
  [[NVM_INLINE]] void make_durable(session& s, link& l, link_word marked, std::uint64_t key, bool replaces) noexcept {
    if ((marked & gone) == 0 || replaces) {
      sealed_head* n = node(offset_of(marked));
      seal::raise(n, seal::live);
      if (!plain_) {
        write_back_live(n);
        medium().fence(edge{"records/E1"});
      }
    }
    if ((marked & gone) != 0) {
      sealed_head* n = holder_of(l);
      seal::raise(n, seal::gone);
      if (!plain_) {
        medium().flush(&n->seal, sizeof n->seal);
        medium().fence(edge{"records/E2"});
      }
    }
    this->of().links.take_note(s.thread().client, key);
    (void)l.exchange(marked, without(marked, pending));
  }
  // Makes a pending change durable.  The key noted is the changed entry's, whichever thread helps: by it other threads
  // find the position of the change.
  [[gnu::noinline]] void help(session& s, link& l, link_word seen) noexcept {
    // A deletion leaves a link to the next node, which is durable; a replacement has the order of the node that it
    // replaces. A next node of the same order is made durable once more.
    const bool to_node = (seen & cell) == 0 && offset_of(seen) != 0;
    const bool replaces = (seen & gone) != 0 && to_node && node(offset_of(seen))->order == holder_of(l)->order;
    make_durable(s, l, seen, ((seen & gone) != 0 ? holder_of(l) : node(offset_of(seen)))->order, replaces);
  }

  const std::uint64_t seed_;
  const bool plain_;
  const std::uint64_t index_bytes_;
  platform::zeroed_memory index_memory_;
  std::byte* const index_;
  std::atomic<std::uint64_t> index_next_{line_bytes};  // 0 leads nowhere
};

}  // namespace nvm::lockfree
