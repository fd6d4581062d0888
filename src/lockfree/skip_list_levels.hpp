// The part of skip_list.hpp that changes: a node comes into its levels from below and leaves them from above.
// Included by that, which says in which order and why.
#pragma once

#include "lockfree/skip_list.hpp"

namespace nvm::lockfree {

// ---- insert, replace ----

template <memory Memory, node_kind Nodes>
template <class Size, class Fill>
inline result<written> skip_list<Memory, Nodes>::put_owing(session& s, std::uint64_t order, const key& k,
                                                           write_rule rule, Size&& size, Fill&& fill,
                                                           bool& owes) noexcept {
  std::uint64_t made = 0;
  std::uint64_t made_bytes = 0;
  unsigned height = 0;
  const auto give_up = [&](auto outcome) -> result<written> {
    if (made != 0) memory_.discard(s, made);
    return outcome;
  };
  position p;
  for (;;) {
    if (!find(s, order, k, p, owes)) return give_up(failure(s));
    node_head* const old = p.current;
    link_word expected = settled(s, p.at[0]);
    memory_.depend(s, order);
    if (old != nullptr) {
      if (rule == write_rule::insert_only) return give_up(written::refused);
      // Its link may hold the insertion of the next one.
      expected = settled(s, {&old->next, p.next});
    } else {
      if (rule == write_rule::replace_only) return give_up(written::refused);
      if (p.in != nullptr) {
        (void)memory_.settled(s, *p.in, p.in_word, p.before_order);
        memory_.depend(s, p.before_order);
      }
    }
    const std::uint64_t bytes = size(old);
    if (bytes == 0) return give_up(written::refused);
    if (height == 0) height = old != nullptr ? height_of(old) : random_height(s);
    if (height > p.levels) [[unlikely]] {
      raise(height);
      continue;
    }
    if (made != 0 && bytes != made_bytes) {
      memory_.discard(s, made);
      made = 0;
    }
    if (made == 0) {
      const auto room = memory_.allocate(s, head_at(height) + bytes);
      if (!room) return room.error();
      made = *room;
      made_bytes = bytes;
    }
    if (old != nullptr) {
      if (!may_close(s, *old)) return give_up(failure(s));
      expected = close(s, *old, height_of(old));
      if ((expected & gone) != 0) continue;
    }
    std::byte* start = memory_.at(made);
    *reinterpret_cast<std::uint64_t*>(start) = height;
    std::byte* at = start + head_at(height);
    fill(at, order, old);
    auto* n = reinterpret_cast<node_head*>(at);
    n->next.set(offset_of(expected));
    for (unsigned i = 1; i < height; ++i) level(&n->next, i).set(follows(p, old, i));
    memory_.contents(start, head_at(height) + bytes);
    const deletion d = link_in(s, p, old, n, height, expected, order, k, owes);
    if (d == deletion::refused) return give_up(failure(s));
    if (d == deletion::forestalled) continue;
    if (old != nullptr) return written::replaced;
    s.count(1);
    return written::inserted;
  }
}

template <memory Memory, node_kind Nodes>
inline deletion skip_list<Memory, Nodes>::link_in(session& s, position& p, node_head* old, node_head* n,
                                                  unsigned height, link_word expected, std::uint64_t order,
                                                  const key& k, bool& owes) noexcept {
  const std::uint64_t to = memory_.offset_in_pool(n);
  link& bottom = old == nullptr ? *p.at[0].in : old->next;
  const link_word desired = old == nullptr ? to : to | gone;
  const std::uint64_t old_start = old == nullptr ? 0 : start_of(memory_.offset_in_pool(old));
  bool may_go = true;
  unsigned taken_over = 0;
  if (height == 1) {
    if (old == nullptr) return deleted_if(memory_.change(s, bottom, expected, desired, order));
    const deletion d = memory_.change_to_delete(s, bottom, expected, desired, order, old_start);
    if (d != deletion::done) return d;
  } else {
    // may_close() has done what change_to_delete() does first.
    if (!memory_.begin(s, bottom, expected, desired, order)) return deletion::forestalled;
    taken_over = build(s, p, bottom, desired, old, n, height, order, k, owes);
    // Nodes that were unlinked on the way have taken some of the room.
    if (old != nullptr) may_go = memory_.may_unlink(s, old_start);
  }
  if (old != nullptr) unlink(s, p, old, to, may_go, taken_over, order, k, owes);
  // It was deleted while it was built, and the thread that did so may have looked too early.
  if (height > 1 && (n->next.load() & gone) != 0) [[unlikely]]
    sweep(s, order, k, owes);
  return deletion::done;
}

template <memory Memory, node_kind Nodes>
unsigned skip_list<Memory, Nodes>::build(session& s, position& p, link& bottom, link_word desired, node_head* old,
                                         node_head* n, unsigned height, std::uint64_t order, const key& k,
                                         bool& owes) noexcept {
  const std::uint64_t to = memory_.offset_in_pool(n);
  std::array<link*, skip_levels> begun;
  const auto link_at = [&](unsigned i) {
    link& own = level(&n->next, i);
    for (;;) {
      const link_word led = settled(s, p.at[i]);
      const std::uint64_t behind = follows(p, old, i);
      const link_word now = own.load();
      if ((now & gone) != 0) return false;
      if (offset_of(now) != behind && !memory_.tidy(own, now, behind)) continue;
      if (memory_.begin_above(*p.at[i].in, led, to)) {
        begun[i] = p.at[i].in;
        return true;
      }
      // The place has changed; or the node was deleted, and perhaps replaced by another.
      position q;
      if (!find(s, order, k, q, owes) || q.current != n) return false;
      p.at = q.at;
      old = nullptr;
    }
  };
  unsigned i = 1;
  unsigned taken_over = 1;
  for (; i < height && link_at(i); ++i) {
    if (old != nullptr && taken_over == i && offset_of(p.at[i].word) == memory_.offset_in_pool(old)) ++taken_over;
  }
  memory_.finish(s, order);
  memory_.unmark(bottom, desired);
  while (i-- > 1) memory_.unmark(*begun[i], to);
  return taken_over;
}

// ---- remove ----

template <memory Memory, node_kind Nodes>
template <class Decide>
inline result<bool> skip_list<Memory, Nodes>::take_owing(session& s, std::uint64_t order, const key& k, Decide&& decide,
                                                         bool& owes) noexcept {
  position p;
  for (;;) {
    if (!find(s, order, k, p, owes)) return failure(s);
    node_head* const n = p.current;
    if (n == nullptr) {
      memory_.depend(s, order);
      return false;
    }
    (void)settled(s, p.at[0]);
    memory_.depend(s, order);
    if (!decide(n)) return false;
    const std::uint64_t start = start_of(memory_.offset_in_pool(n));
    if (!may_close(s, *n)) return failure(s);
    const link_word next = close(s, *n, height_of(n));
    if ((next & gone) != 0) continue;
    // A node that is linked above is durably deleted before it leaves the bottom, or searches would stand on it there
    // after a crash.
    const bool at_once = height_of(n) > 1;
    const deletion d = memory_.change_to_delete(s, n->next, next, next | gone, order, start, at_once);
    if (d == deletion::refused) return failure(s);
    if (d == deletion::forestalled) continue;
    s.count(-1);
    unlink(s, p, n, next, true, 0, order, k, owes);
    return true;
  }
}

template <memory Memory, node_kind Nodes>
inline link_word skip_list<Memory, Nodes>::close(session& s, node_head& n, unsigned height) noexcept {
  for (unsigned i = height; i-- > 1;) {
    link& l = level(&n.next, i);
    for (;;) {
      link_word w = l.load();
      if ((w & gone) != 0) break;
      w = settled(s, {&l, w});
      if (height == 2 ? memory_.swing(l, w, w | gone) : memory_.tidy_behind(l, w, w | gone)) break;
    }
  }
  const link_word w = n.next.load();
  return (w & gone) != 0 ? memory_.settled(s, n.next, w, n.order) : settled(s, {&n.next, w});
}

template <memory Memory, node_kind Nodes>
inline void skip_list<Memory, Nodes>::unlink(session& s, const position& p, node_head* n, link_word behind, bool may_go,
                                             unsigned taken_over, std::uint64_t order, const key& k,
                                             bool& owes) noexcept {
  const std::uint64_t at = memory_.offset_in_pool(n);
  const std::uint64_t start = start_of(at);
  bool all = may_go;
  const unsigned height = height_of(n);
  std::uint32_t written = 0;
  for (unsigned i = height; i-- > 1;) {
    if (i < taken_over) continue;
    // Where it was not linked, another thread may have linked it since.
    if (i < p.levels && offset_of(p.at[i].word) == at &&
        memory_.swing(*p.at[i].in, without(p.at[i].word, pending), offset_of(level(&n->next, i).load()))) {
      written |= 1U << i;
    } else {
      all = false;
    }
  }
  // Where a replacement was built, the position may be a newer one, and the node has left it.
  all = all && offset_of(p.at[0].word) == at &&
        memory_.swing(*p.at[0].in, without(p.at[0].word, pending), offset_of(behind));
  if (all) [[likely]]
    memory_.write_back(*p.at[0].in);
  for (unsigned i = height; i-- > 1;) {
    if ((written >> i & 1) != 0) memory_.write_back(*p.at[i].in);
  }
  if (all) [[likely]] {
    retire(s, start, n);
    return;
  }
  owes = true;
  sweep(s, order, k, owes);
}

}  // namespace nvm::lockfree
