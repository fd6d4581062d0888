// The skip list of one partition (LSNVMM, section 4.3): pieces in order of home addresses.  One writer at a time, under
// the list's lock; readers take none.
//
// At rest pieces do not overlap.  While a writer is at work they may, and a reader goes by this: a byte belongs to the
// last node that begins at or before it.  So a change is in steps each of which leaves every byte outside of it told as
// it was, and every byte in it told as before or as after:
//
/// [a, b) goes to a new log address.  P is the last node before a; D are the nodes that begin in [a, b).
///   1. what P or the last D has after b becomes a node of its own, at b: the same log bytes
///   2. [a, b) becomes a node, or P's or the first D's: one store of `where`, or of the lowest link
///   3. the other D are unlinked, at each level by one store, from the highest down; then they are marked dead
///   4. P ends at a
/// Erasing is the same without 2.
//
// Readers.  Linearization: the load of `where`.  A node that was unlinked under a reader tells the old bytes, and the
// reader was there before it was unlinked; a dead one sends it back.  A reader that finds a byte after the end of its
// node looks for the next node after it has seen that end: 2 comes before 3 and 4.  If that leaves a gap it looks at
// the end again: 2 may have moved it, and 3 unlinked what was there.  Progress: a reader is sent back only by a writer
// that has made step 2 or 3.  Nodes that are unlinked stay as they are, except `where`, until all threads that were
// inside have moved on (epochs); a link that a reader follows from one leads to a node that was linked while the reader
// was inside.
//
// Within the change a reader may see a byte as after, and a later reader, by a node it remembers (node_cache.hpp), as
// before: that one ends with the change.  Transactions hold the ownership of what they change meanwhile; the cleaner's
// moves leave the same contents at both.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/inlining.hpp"
#include "logheap/mapping/list_lock.hpp"
#include "logheap/mapping/node_store.hpp"

namespace nvm::logheap {

// Head of a list; lies in the node store, zeroed at first.
struct list_head {
  list_lock lock;
  std::atomic<node_number> lowest;  // and the others after it
};
static_assert(sizeof(list_head) == 8);
constexpr unsigned head_units_of(unsigned levels) noexcept { return (4 + 4 * levels + node_unit - 1) / node_unit; }

class skip_list {
 public:
  using links = std::atomic<node_number>*;

  skip_list(node_store& store, node_number head, unsigned levels) noexcept
      : store_{store}, head_{*reinterpret_cast<list_head*>(store.at(head))}, levels_{levels} {}

  [[nodiscard]] list_lock& lock() noexcept { return head_.lock; }
  [[nodiscard]] links first() noexcept { return &head_.lowest; }

  // visit(home, size, log, node) for each piece in [x, end), cut to it.  32-bit addresses in 64 bits, so that an end of
  // 2^32 can be told.
  template <class Visit>
  [[NVM_INLINE]] void each(std::uint64_t x, std::uint64_t end, Visit&& visit) noexcept {
    while (x < end) {
      node_number at = 0;
      links l = last_at(x, at);
      x = walk(l, at, x, end, visit);
    }
  }

  // ---- by the holder of the lock ----

  // Nodes for a change, at most two; the client's (skip_list_mapping.hpp).
  //   node_number take(unsigned& height)     retire(node_number)
  template <class Client, class Replaced>
  void assign(Client& c, std::uint64_t a, std::uint64_t b, log_t log, bool merge, Replaced&& replaced) noexcept {
    change<true>(c, a, b, log, merge, replaced);
  }
  template <class Client, class Replaced>
  void erase(Client& c, std::uint64_t a, std::uint64_t b, Replaced&& replaced) noexcept {
    change<false>(c, a, b, 0, false, replaced);
  }
  // Moves each byte of [a, b), at distance d from a, that is mapped to from + d: it is mapped to to + d now.  Returns
  // how many.
  template <class Client>
  std::uint64_t move(Client& c, std::uint64_t a, std::uint64_t b, log_t from, log_t to) noexcept {
    return each_match(a, b, from, [&](std::uint64_t x, std::uint64_t stop, node_number whole) {
      if (whole != 0) {
        set_where(whole, live_node(to + (x - a), stop - x));
      } else {
        change<true>(c, x, stop, to + (x - a), false, [](std::uint64_t, std::uint64_t, log_t) {});
      }
      return true;
    });
  }
  // The same for nodes that are not cut by it.
  std::uint64_t move_whole_nodes(std::uint64_t a, std::uint64_t b, log_t from, log_t to) noexcept {
    return each_match(a, b, from, [&](std::uint64_t x, std::uint64_t stop, node_number whole) {
      if (whole != 0) set_where(whole, live_node(to + (x - a), stop - x));
      return whole != 0;
    });
  }

 private:
  using before_all = std::array<links, skip_height_max>;

  // Calls move(x, stop, node) for bytes of [a, b) that are mapped as `from` says; `node`: 0 if it is only a part of
  // one.  Returns the bytes of those for which it was true.
  template <class Move>
  std::uint64_t each_match(std::uint64_t a, std::uint64_t b, log_t from, Move&& move) noexcept {
    std::uint64_t moved = 0;
    for (std::uint64_t x = a; x < b;) {
      node_number at = 0;
      links l = last_at(x, at);
      std::uint64_t end = 0;
      std::uint64_t begin = 0;
      if (at != 0) {
        begin = home(at);
        end = begin + size_of(where(at));
      }
      if (end <= x) {
        const node_number next = l[0].load(std::memory_order_relaxed);
        if (next == 0 || home(next) >= b) break;
        x = home(next);
        continue;
      }
      const std::uint64_t stop = end < b ? end : b;
      const bool is_there = log_of(where(at)) + (x - begin) == from + (x - a);
      if (is_there && move(x, stop, x == begin && stop == end ? at : 0)) moved += stop - x;
      x = stop;
    }
    return moved;
  }

  [[nodiscard, NVM_INLINE]] skip_node& node(node_number n) const noexcept { return store_.node(n); }
  // relaxed: a thread that follows a link has acquired the node's contents.
  [[nodiscard, NVM_INLINE]] std::uint64_t home(node_number n) const noexcept {
    return node(n).home.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t where(node_number n) const noexcept {
    return node(n).where.load(std::memory_order_relaxed);
  }
  // release: pairs with readers' acquire; a reader that sees this sees the links of the steps before.
  void set_where(node_number n, std::uint64_t to) noexcept { node(n).where.store(to, std::memory_order_release); }

  // Links of the last node that begins at x or before; `at` is its number, 0: the head.
  [[nodiscard, NVM_INLINE]] links last_at(std::uint64_t x, node_number& at) noexcept {
    links l = first();
    for (unsigned level = levels_; level-- > 0;) {
      // acquire: pairs with link(); the node is made.
      node_number n = l[level].load(std::memory_order_acquire);
      while (n != 0 && home(n) <= x) {
        at = n;
        l = node(n).links();
        n = l[level].load(std::memory_order_acquire);
      }
    }
    return l;
  }
  // From the node `at`, which begins at x or before.  Returns where to go on from the head: `end` if it is done.
  template <class Visit>
  [[NVM_INLINE]] std::uint64_t walk(links l, node_number at, std::uint64_t x, std::uint64_t end,
                                    Visit&& visit) noexcept {
    for (;;) {
      std::uint64_t begin = 0;
      std::uint64_t stop = 0;
      std::uint64_t w = 0;
      log_t log = 0;
      if (at != 0) {
        // acquire: pairs with set_where().
        w = node(at).where.load(std::memory_order_acquire);
        if (is_dead(w)) return x;
        begin = home(at);
        stop = begin + size_of(w);
        log = log_of(w);
      }
      // After `where`: see above.
      const node_number next = l[0].load(std::memory_order_acquire);
      const std::uint64_t next_home = next == 0 ? ~std::uint64_t{0} : home(next);
      // Bytes between them have no node, unless this one has grown over others meanwhile, which were unlinked then.
      // relaxed: `next` was acquired, and 2 comes before 3.
      if (at != 0 && stop < next_home && stop < end && !planted(plant::grown_unseen) && where(at) != w) return x;
      if (next_home > x) {
        if (stop > x) {
          if (stop > next_home) stop = next_home;
          if (stop > end) stop = end;
          visit(x, stop - x, log + (x - begin), at);
          x = stop;
        }
        if (next_home >= end) return end;
        x = next_home;
      }
      at = next;
      l = node(next).links();
    }
  }

  // At each level, links of the last node that begins before x.
  [[nodiscard]] node_number find_before(std::uint64_t x, before_all& before) noexcept {
    node_number at = 0;
    links l = first();
    for (unsigned level = levels_; level-- > 0;) {
      // relaxed: this is the writer.
      for (node_number n = l[level].load(std::memory_order_relaxed); n != 0 && home(n) < x;
           n = l[level].load(std::memory_order_relaxed)) {
        at = n;
        l = node(n).links();
      }
      before[level] = l;
    }
    return at;
  }
  // Links a new node after `before`, whose place it takes from then on; in the lowest list first, where it counts.
  template <class Client>
  void link(Client& c, before_all& before, std::uint64_t begin, std::uint64_t to, bool stand_on_it) noexcept {
    unsigned height = 0;
    const node_number n = c.take(height);
    skip_node& made = node(n);
    made.home.store(static_cast<std::uint32_t>(begin), std::memory_order_relaxed);
    // release: pairs with node_cache.hpp.
    made.where.store(to, std::memory_order_release);
    std::atomic<node_number>* const l = made.links();
    for (unsigned level = 0; level < height; ++level) {
      l[level].store(before[level][level].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    for (unsigned level = 0; level < height; ++level) {
      // release: pairs with last_at(): the node is made.
      before[level][level].store(n, std::memory_order_release);
      if (stand_on_it) before[level] = l;
    }
  }

  // Unlinks all nodes from `first_in` on, which follows `before`, that begin before `unlink_to`, except the node made
  // or kept.
  template <class Client>
  void unlink(Client& c, before_all& before, node_number first_in, node_number kept, std::uint64_t unlink_to) noexcept {
    node_number dead = first_in;
    if (kept != 0) {
      dead = node(kept).links()[0].load(std::memory_order_relaxed);
      for (unsigned level = 0; level < levels_ && before[level][level].load(std::memory_order_relaxed) == kept;
           ++level) {
        before[level] = node(kept).links();
      }
    }
    if (dead != 0 && home(dead) < unlink_to) {
      for (unsigned level = levels_; level-- > 0;) {
        const node_number from = before[level][level].load(std::memory_order_relaxed);
        node_number to = from;
        while (to != 0 && home(to) < unlink_to) to = node(to).links()[level].load(std::memory_order_relaxed);
        // release: as in link(), for readers that come by this link.
        if (to != from) before[level][level].store(to, std::memory_order_release);
      }
      while (dead != 0 && home(dead) < unlink_to) {
        const node_number next = node(dead).links()[0].load(std::memory_order_relaxed);
        c.retire(dead);
        dead = next;
      }
    }
  }

  template <bool Assign, class Client, class Replaced>
  void change(Client& c, std::uint64_t a, std::uint64_t b, log_t log, bool merge, Replaced&& replaced) noexcept {
    NVM_ASSERT(a < b && (!Assign || b - a <= node_piece_max));
    before_all before;
    const node_number p = find_before(a, before);
    const std::uint64_t p_begin = p == 0 ? 0 : home(p);
    const std::uint64_t p_where = p == 0 ? 0 : where(p);
    const std::uint64_t p_end = p == 0 ? 0 : p_begin + size_of(p_where);
    const node_number first_in = before[0][0].load(std::memory_order_relaxed);

    // Replaced bytes, and the rest after b.
    std::uint64_t rest_end = 0;
    log_t rest_log = 0;
    const auto overlaps = [&](std::uint64_t begin, std::uint64_t w) {
      const std::uint64_t end = begin + size_of(w);
      const std::uint64_t from = begin > a ? begin : a;
      if (end <= from) return;
      replaced(from, (end < b ? end : b) - from, log_of(w) + (from - begin));
      if (end > b) {
        rest_end = end;
        rest_log = log_of(w) + (b - begin);
      }
    };
    if (p != 0) overlaps(p_begin, p_where);
    node_number n = first_in;
    for (; n != 0 && home(n) < b; n = node(n).links()[0].load(std::memory_order_relaxed)) overlaps(home(n), where(n));
    const auto link_rest = [&] {
      before_all behind;
      (void)find_before(b, behind);
      link(c, behind, b, live_node(rest_log, rest_end - b), false);
    };
    if (rest_end != 0 && !planted(plant::rest_last)) link_rest();
    if (planted(plant::piece_cut_first) && p_end > a) set_where(p, live_node(log_of(p_where), a - p_begin));

    std::uint64_t unlink_to = b;  // nodes that begin before this
    node_number kept = 0;
    if constexpr (Assign) {
      std::uint64_t end = b;
      if (merge && rest_end == 0 && n != 0 && home(n) == b && log_of(where(n)) == log + (b - a) &&
          b - a + size_of(where(n)) <= node_piece_max) {
        end = b + size_of(where(n));
        unlink_to = b + 1;  // which is part of it now
      }
      if (merge && p != 0 && p_end == a && log_of(p_where) + (a - p_begin) == log && end - p_begin <= node_piece_max) {
        set_where(p, live_node(log_of(p_where), end - p_begin));
      } else if (first_in != 0 && home(first_in) == a) {
        kept = first_in;
        set_where(first_in, live_node(log, end - a));
      } else {
        link(c, before, a, live_node(log, end - a), true);
      }
    }
    unlink(c, before, first_in, kept, unlink_to);
    if (p_end > a) set_where(p, live_node(log_of(p_where), a - p_begin));
    if (rest_end != 0 && planted(plant::rest_last)) link_rest();
  }

  node_store& store_;
  list_head& head_;
  const unsigned levels_;
};

}  // namespace nvm::logheap
