// A sorted chain of nodes: Harris's list (DISC 2001), in the form that unlinks one node at a time, with links that
// become durable (log-free, section 3).  The list is such a chain; a hash table is one that can be entered at many
// places.
//
// A node is deleted when its own link gets the tag `gone`; a thread that comes by unlinks it.  A node whose value is
// replaced is deleted by a link that leads to its replacement: at every moment the key has a node.
//
/// insert    F node; CAS before -> node                (change: durable on return)
/// remove    CAS node -> next|gone                     (change);  CAS before -> next         (tidy)
/// replace   F replacement, which leads to next;
///           CAS node -> replacement|gone              (change);  CAS before -> replacement  (tidy)
// What an operation depends on is durable before it changes or reports anything:
//   - the link to be changed, and the link that leads to the node that holds it;
//   - the link that leads to a node that is reported, deleted or replaced; a deletion that is reported or unlinked.
#pragma once

#include <utility>

#include "base/inlining.hpp"
#include "base/result.hpp"
#include "lockfree/circles.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/face.hpp"
#include "lockfree/nodes.hpp"
#include "lockfree/structure.hpp"

namespace nvm::lockfree {

// Cells: places besides its start where the chain can be entered.  order_of(offset): the smallest order after the cell
// at `offset`.
struct no_cells {
  static constexpr bool exist = false;
  [[nodiscard]] static std::uint64_t order_of(std::uint64_t) noexcept { return 0; }
};

template <memory Memory, node_kind Nodes, class Cells = no_cells>
class chain {
 public:
  using session = typename Memory::session;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  explicit chain(Memory& memory, Cells cells = {}) noexcept : memory_{memory}, cells_{std::move(cells)} {}

  // Calls visit(node) where the key is; false: it is nowhere.
  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, link& start, std::uint64_t order, const key& k,
                                        Visit&& visit) noexcept {
    link* in = &start;
    link_word w = start.load();
    climb up;
    for (;;) {
      if ((w & cell) != 0 || offset_of(w) == 0) {
        if (!enter_cell(w, order, in, up)) break;
        continue;
      }
      auto* n = node_at(w, up);
      if (n == nullptr) [[unlikely]]
        break;
      const link_word next = n->next.load();
      if (n->order >= order) {
        const int c = n->order > order ? 1 : compare(n, k);
        if (c > 0) break;
        if (c == 0) {
          if ((next & gone) == 0) {
            (void)memory_.settled(s, *in, w, order);
            memory_.depend(s, order);
            visit(n);
            return true;
          }
          (void)memory_.settled(s, n->next, next, order);
        }
      }
      in = &n->next;
      w = next;
    }
    memory_.depend(s, order);
    return false;
  }

  // As face_of::write_with(): size(old), fill(at, order, old).
  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, link& start, std::uint64_t order, const key& k, write_rule rule,
                                    Size&& size, Fill&& fill) noexcept {
    std::uint64_t made = 0;
    std::uint64_t made_bytes = 0;
    const auto give_up = [&](auto outcome) -> result<written> {
      if (made != 0) memory_.discard(s, made);
      return outcome;
    };
    for (;;) {
      position p;
      if (!find(s, start, order, k, p)) return give_up(failure(s));
      link_word expected = 0;
      if (p.current != nullptr) {
        (void)memory_.settled(s, *p.before, p.word, order);
        memory_.depend(s, order);
        if (rule == write_rule::insert_only) return give_up(written::refused);
        // Its link may hold the unfinished insertion of the next node.
        expected = settled(s, p.current->next, p.next);
      } else {
        if (rule == write_rule::replace_only) {
          memory_.depend(s, order);
          return give_up(written::refused);
        }
        expected = settled(s, *p.before, p.word);
        memory_.depend(s, order);
        p.settle_before(memory_, s);
      }
      const std::uint64_t bytes = size(p.current);
      if (bytes == 0) return give_up(written::refused);
      if (made != 0 && bytes != made_bytes) {
        memory_.discard(s, made);
        made = 0;
      }
      if (made == 0) {
        const auto room = memory_.allocate(s, bytes);
        if (!room) return room.error();
        made = *room;
        made_bytes = bytes;
      }
      std::byte* at = memory_.at(made);
      fill(at, order, p.current);
      auto* n = reinterpret_cast<node_head*>(at);
      n->next.set(without(expected, pending));
      memory_.contents(at, bytes);
      if (p.current == nullptr) {
        if (!memory_.change(s, *p.before, expected, made, order)) continue;
        s.count(1);
        return written::inserted;
      }
      const std::uint64_t old = memory_.offset_in_pool(p.current);
      const deletion d = memory_.change_to_delete(s, p.current->next, expected, made | gone, order, old);
      if (d == deletion::refused) return give_up(failure(s));
      if (d == deletion::forestalled) continue;
      unlink(s, start, order, k, p, old, made);
      return written::replaced;
    }
  }

  // Calls decide(node) -> bool where the key is: whether it is deleted.  False: it was not, or is nowhere.
  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, link& start, std::uint64_t order, const key& k,
                                  Decide&& decide) noexcept {
    for (;;) {
      position p;
      if (!find(s, start, order, k, p)) return failure(s);
      if (p.current == nullptr) {
        memory_.depend(s, order);
        return false;
      }
      (void)memory_.settled(s, *p.before, p.word, order);
      const link_word next = settled(s, p.current->next, p.next);
      memory_.depend(s, order);
      if (!decide(p.current)) return false;
      const std::uint64_t old = memory_.offset_in_pool(p.current);
      const deletion d = memory_.change_to_delete(s, p.current->next, next, next | gone, order, old);
      if (d == deletion::refused) return failure(s);
      if (d == deletion::forestalled) continue;
      s.count(-1);
      unlink(s, start, order, k, p, old, next);
      return true;
    }
  }

  // Calls visit(node) for each node that is not deleted, from `start` on, until it returns false; what it sees is
  // durable.
  template <class Visit>
  void walk(session& s, link& start, Visit&& visit) noexcept {
    link* in = &start;
    link_word w = start.load();
    climb up;
    while (offset_of(w) != 0) {
      if ((w & cell) != 0) {
        if (!enter_cell(w, ~std::uint64_t{0}, in, up)) return;
        continue;
      }
      auto* n = node_at(w, up);
      if (n == nullptr) return;
      const link_word next = n->next.load();
      if ((next & gone) == 0) {
        (void)memory_.settled(s, *in, w, n->order);
        memory_.depend(s, n->order);
        if (!visit(n)) return;
      } else {
        (void)memory_.settled(s, n->next, next, n->order);
      }
      in = &n->next;
      w = next;
    }
  }

  // What is wrong from `start` on, in a chain of `shape`, while nobody is at work; nullptr: nothing.  Calls pass(cell)
  // for each cell after the start, meet(node) for each node that is not deleted.
  template <class Shape, class Pass, class Meet>
  [[nodiscard]] const char* check(const Shape& shape, link& start, Pass&& pass, Meet&& meet) {
    link* in = &start;
    const node_head* last = nullptr;
    climb up;
    for (link_word w = start.load(); offset_of(w) != 0;) {
      if ((w & cell) != 0) {
        if (!enter_cell(w, ~std::uint64_t{0}, in, up)) return "a link leads to a cell that is not there, or back";
        pass(*in);
        continue;
      }
      const node_head* n = node_at(w, up);
      if (n == nullptr) return "a link leads where no node can be, or back";
      if (!is_whole<Nodes>(memory_, n)) return "a node reaches out of the pool";
      w = n->next.load();
      if ((w & gone) != 0) continue;
      if (!has_order_of_key<Nodes>(shape, n)) return "the order of a node is not that of its key";
      if (last != nullptr && last->order == n->order && compare(last, Nodes::key_of(n)) >= 0) {
        return "nodes are out of order";
      }
      meet(n);
      last = n;
    }
    return nullptr;
  }

  // Whether the chain leads to the node at `offset`, deleted or not.  Changes nothing.  Calls pass(link) on the way.
  template <class Pass>
  [[nodiscard]] bool leads_to(link& start, std::uint64_t offset, std::uint64_t order, Pass&& pass) noexcept {
    link* in = &start;
    link_word w = start.load();
    climb up;
    for (;;) {
      pass(*in);
      if ((w & cell) != 0 || offset_of(w) == 0) {
        if (!enter_cell(w, order, in, up)) return false;
        continue;
      }
      if (offset_of(w) == offset) return true;
      auto* n = node_at(w, up);
      if (n == nullptr) return false;
      const link_word next = n->next.load();
      // Deleted nodes are no longer in order: a replacement has the order of what it replaces.
      if (n->order > order) return false;
      in = &n->next;
      w = next;
    }
  }

  // leads_to(), step by step: each ends where memory has to be waited for.
  struct probe;
  void begin(probe& p, link& start, std::uint64_t offset, std::uint64_t order) noexcept {
    p = {};
    p.by = &start;
    p.offset = offset;
    p.order = order;
    __builtin_prefetch(&start);
  }
  [[nodiscard]] progress step(probe& p) noexcept {
    if (!p.entered) {
      p.entered = true;
      p.w = p.by->load();
    } else {
      auto* n = node_at(p.w, p.up);
      if (n == nullptr) return progress::absent;
      const link_word next = n->next.load();
      if (n->order > p.order) return progress::absent;
      p.by = &n->next;
      p.w = next;
    }
    while ((p.w & cell) != 0 || offset_of(p.w) == 0) {
      if (!enter_cell(p.w, p.order, p.by, p.up)) return progress::absent;
    }
    if (offset_of(p.w) == p.offset) return progress::found;
    __builtin_prefetch(memory_.of_pool(offset_of(p.w)));
    return progress::under_way;
  }

  struct position {
    link* before = nullptr;  // leads to `current`, or to where it would be
    link_word word = 0;      // what was read there; neither gone
    node_head* current = nullptr;
    link_word next = 0;              // current's link, not gone
    link* in = nullptr;              // leads to the node that holds `before`; nullptr: that is a start
    link_word in_word = 0;           // what was read there
    std::uint64_t before_order = 0;  // of that node

    // Makes the node durable that holds `before`.
    void settle_before(Memory& memory, session& s) const noexcept {
      if (in == nullptr) return;
      (void)memory.settled(s, *in, in_word, before_order);
      memory.depend(s, before_order);
    }
  };

  // Memory::settled() of a link that is not gone, on behalf of the node that it leads to, whose insertion has changed
  // it last: on an image medium the next reader of that key has to know.
  [[nodiscard, NVM_INLINE]] link_word settled(session& s, link& l, link_word seen) noexcept {
    return (seen & pending) == 0 ? seen : settled_pending(s, l, seen);
  }

  // Finds where `order` and the key are or would be; unlinks deleted nodes on the way.  False: failure() says why.
  [[nodiscard]] bool find(session& s, link& start, std::uint64_t order, const key& k, position& p) noexcept {
    for (patience left;;) {
      const outcome o = try_find(s, start, order, k, p);
      if (o != outcome::again) [[likely]]
        return o == outcome::done;
      if (!left.again()) return give_up(start);
    }
  }
  // Finds the place before everything of `order` and after everything smaller, where a cell belongs.  `current` is not
  // set.
  [[nodiscard]] bool find_cell(session& s, link& start, std::uint64_t order, position& p) noexcept {
    for (patience left;;) {
      const outcome o = try_find<true>(s, start, order, key{}, p);
      if (o != outcome::again) return o == outcome::done;
      if (!left.again()) return give_up(start);
    }
  }
  // Unlinks the node, which is deleted and linked, and deleted nodes before it.  False: damage, or no memory.
  [[nodiscard]] bool tidy_at(session& s, link& start, std::uint64_t order, const node_head* n) noexcept {
    position p;
    return is_whole<Nodes>(memory_, n) && find(s, start, order, Nodes::key_of(n), p);
  }
  [[nodiscard]] Memory& memory() const noexcept { return memory_; }

 private:
  [[nodiscard, gnu::noinline]] link_word settled_pending(session& s, link& l, link_word seen) noexcept {
    const std::uint64_t at = offset_of(seen);
    if constexpr (Cells::exist) {
      if ((seen & cell) != 0) return memory_.settled(s, l, seen, cells_.order_of(at));
    }
    const auto* n = reinterpret_cast<const node_head*>(at == 0 ? nullptr : memory_.node_at(at));
    return memory_.settled(s, l, seen, n == nullptr ? 0 : n->order);
  }
  enum class outcome : std::uint8_t { done, again, failed };
  [[nodiscard, gnu::cold, gnu::noinline]] bool give_up(const link& start) const noexcept {
    memory_.report_damage(memory_.offset_in_pool(&start));
    return false;
  }

 public:
  struct probe {
    link* by = nullptr;
    link_word w = 0;
    std::uint64_t offset = 0;
    std::uint64_t order = 0;
    climb up;
    bool entered = false;
  };

 private:
  // < 0, 0, > 0, among nodes of the same order.  A node that reaches out of the pool is after everything.
  [[nodiscard, NVM_INLINE]] int compare(const node_head* n, const key& k) const noexcept {
    return is_whole<Nodes>(memory_, n) ? Nodes::compare(n, k) : 1;
  }
  // nullptr: no node can be there.
  [[nodiscard, NVM_INLINE]] node_head* node_at(link_word w, climb& up) const noexcept {
    auto* n = reinterpret_cast<node_head*>(memory_.node_at(offset_of(w)));
    if (n == nullptr || up.step(n->order, n)) [[likely]]
      return n;
    memory_.report_damage(offset_of(w));
    return nullptr;
  }
  // At a link that leads to no node: goes on after a cell that stands before `order`.
  [[nodiscard, NVM_INLINE]] bool enter_cell(link_word& w, std::uint64_t order, link*& in, climb& up) noexcept {
    const std::uint64_t at = offset_of(w);
    if (at == 0) return false;
    if constexpr (Cells::exist) {
      const std::uint64_t first = cells_.order_of(at);
      if (first > order) return false;
      auto* next = reinterpret_cast<link*>(memory_.at(at));
      if (next == nullptr) return false;
      if (!up.step(first, next)) {
        memory_.report_damage(at);
        return false;
      }
      in = next;
      w = in->load() & ~frozen;
      return true;
    } else {
      return false;
    }
  }
  [[nodiscard]] errc failure(const session& s) const noexcept {
    if (memory_.is_damaged()) {
      return fail(errc::corrupt, "a link leads to offset %lu, where no node can be", memory_.damaged_offset());
    }
    return s.refusal();
  }

  // ForCell: true: cells of the same order are not entered.
  template <bool ForCell = false>
  [[nodiscard]] outcome try_find(session& s, link& start, std::uint64_t order, const key& k, position& p) noexcept {
    p = {};
    p.before = &start;
    link_word w = start.load();
    climb up;
    // Where a chain is entered, only damage explains a frozen link.
    if ((w & frozen) != 0) [[unlikely]] {
      w = settled(s, start, w);
      if (!memory_.tidy(start, w, without(w, frozen))) return outcome::again;
      w = without(w, frozen);
    }
    for (;;) {
      if ((w & cell) != 0 || offset_of(w) == 0) {
        link* in = nullptr;
        link_word behind = w;
        if (ForCell ? order == 0 || !enter_cell(behind, order - 1, in, up) : !enter_cell(behind, order, in, up)) break;
        // A cell stays where it is once it is linked; when that is durable, it may be used.
        (void)settled(s, *p.before, w);
        const link_word raw = in->load();
        if ((raw & frozen) != 0) {
          // The link cache may still have the link that leads to it.
          if constexpr (Cells::exist) memory_.depend(s, cells_.order_of(offset_of(w)));
          const link_word still = settled(s, *in, raw);
          if (!memory_.tidy(*in, still, without(raw, frozen | pending))) return outcome::again;
        }
        p.in = nullptr;
        p.before = in;
        w = behind;
        continue;
      }
      auto* n = node_at(w, up);
      if (n == nullptr) return outcome::failed;
      const link_word next = n->next.load();
      if ((next & gone) != 0) {
        const link_word behind = without(memory_.settled(s, n->next, next, n->order), gone);
        if (offset_of(behind) == offset_of(w)) [[unlikely]] {
          memory_.report_damage(offset_of(w));
          return outcome::failed;
        }
        const link_word led = memory_.settled(s, *p.before, w, n->order);
        if (!memory_.may_unlink(s, offset_of(w))) return outcome::failed;
        if (!memory_.tidy(*p.before, led, behind)) return outcome::again;
        memory_.retire(s, offset_of(w));
        w = behind;
        continue;
      }
      if (n->order >= order) {
        if constexpr (ForCell) break;
        const int c = n->order > order ? 1 : compare(n, k);
        if (c == 0) {
          p.current = n;
          p.next = next;
        }
        if (c >= 0) break;
      }
      p.in = p.before;
      p.in_word = w;
      p.before_order = n->order;
      p.before = &n->next;
      w = next;
    }
    p.word = w;
    return outcome::done;
  }
  // Unlinks the node just deleted.
  [[NVM_INLINE]] void unlink(session& s, link& start, std::uint64_t order, const key& k, const position& p,
                             std::uint64_t offset, link_word behind) noexcept {
    if (memory_.tidy(*p.before, without(p.word, pending), without(behind, gone | pending))) [[likely]] {
      memory_.retire(s, offset);
    } else {
      sweep(s, start, order, k);
    }
  }
  // After another thread has changed the link before: at rest, and where its area is not active any more, no deleted
  // node is linked, which would be counted. Where this fails, the next thread that passes unlinks it.
  [[gnu::noinline]] void sweep(session& s, link& start, std::uint64_t order, const key& k) noexcept {
    position p;
    (void)find(s, start, order, k, p);
  }

  Memory& memory_;
  Cells cells_;
};

}  // namespace nvm::lockfree
