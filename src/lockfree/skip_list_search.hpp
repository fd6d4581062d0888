// The part of skip_list.hpp that searches: to report a key, to walk, and to make a change.  Included by that.
//
// A reader unlinks nothing.  A search for a change unlinks deleted nodes on the way, and finds for each level the link
// by which a node of this key would be linked.
#pragma once

#include "lockfree/skip_list.hpp"

namespace nvm::lockfree {

// ---- reading ----

template <memory Memory, node_kind Nodes>
template <class Visit>
inline bool skip_list<Memory, Nodes>::search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
  link* stand = &root_.first;
  std::uint64_t stop = 0;
  climb up;
  for (unsigned i = levels(); i-- > 1;) {
    link_word w = level(stand, i).load();
    up.again();
    while (offset_of(w) != stop && offset_of(w) != 0) {
      node_head* n = node_at(w, up);
      if (n == nullptr) [[unlikely]]
        return false;
      const link_word next = level(&n->next, i).load();
      prefetch(next);
      if (is_deleted(n, next)) [[unlikely]] {
        w = next;
        continue;
      }
      const int c = compare(n, order, k);
      if (c > 0) {
        stop = offset_of(w);
        break;
      }
      if (c == 0) {
        // Its insertion has ended when the mark here is gone, and is durable.
        if ((w & pending) != 0) break;
        memory_.depend(s, order);
        visit(n);
        return true;
      }
      stand = &n->next;
      w = next;
    }
  }
  link* in = stand;
  link_word w = in->load();
  up.again();
  while (offset_of(w) != stop && offset_of(w) != 0) {
    node_head* n = node_at(w, up);
    if (n == nullptr) [[unlikely]]
      break;
    const link_word next = n->next.load();
    prefetch(next);
    const int c = compare(n, order, k);
    if (c == 0) {
      if ((next & gone) == 0) {
        (void)memory_.settled(s, *in, w, order);
        memory_.depend(s, order);
        visit(n);
        return true;
      }
      (void)memory_.settled(s, n->next, next, order);
    } else if (c > 0 && (next & gone) == 0) {
      break;
    }
    in = &n->next;
    w = next;
  }
  memory_.depend(s, order);
  return false;
}

template <memory Memory, node_kind Nodes>
template <class Before>
inline link* skip_list<Memory, Nodes>::bottom_behind(Before&& is_before) noexcept {
  std::uint64_t left = memory_.nodes_max();  // a damaged list may lead round in a circle
  link* stand = &root_.first;
  for (unsigned i = levels(); i-- > 0;) {
    link_word w = level(stand, i).load();
    while (offset_of(w) != 0 && left-- != 0) {
      node_head* n = node_at(w);
      if (n == nullptr) break;
      const link_word next = level(&n->next, i).load();
      if (!is_deleted(n, next)) {
        if (!is_before(n)) break;
        stand = &n->next;
      }
      w = next;
    }
  }
  return stand;
}

template <memory Memory, node_kind Nodes>
template <class Visit>
inline void skip_list<Memory, Nodes>::walk(session& s, link* in, link_word w, Visit&& visit) noexcept {
  climb up;
  while (offset_of(w) != 0) {
    node_head* n = node_at(w, up);
    if (n == nullptr) return;
    const link_word next = n->next.load();
    prefetch(next);
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

// ---- to change something ----

template <memory Memory, node_kind Nodes>
inline bool skip_list<Memory, Nodes>::find(session& s, std::uint64_t order, const key& k, position& p,
                                           bool& owes) noexcept {
  for (patience left;;) {
    const outcome o = try_find(s, order, k, p, owes);
    if (o != outcome::again) [[likely]]
      return o == outcome::done;
    if (!left.again()) {
      memory_.report_damage(memory_.offset_in_pool(&root_));
      return false;
    }
  }
}

template <memory Memory, node_kind Nodes>
inline auto skip_list<Memory, Nodes>::try_find(session& s, std::uint64_t order, const key& k, position& p,
                                               bool& owes) noexcept -> outcome {
  link* stand = &root_.first;
  std::uint64_t stop = 0;
  p.levels = levels();
  for (unsigned i = p.levels; i-- > 1;) {
    const outcome o = find_above(s, order, k, i, stand, stop, p, owes);
    if (o != outcome::done) [[unlikely]]
      return o;
  }
  return find_at_bottom(s, order, k, stand, stop, p);
}
// Goes on at level i, from the node with link of level 0 `stand`, to where `stop` begins.
template <memory Memory, node_kind Nodes>
inline auto skip_list<Memory, Nodes>::find_above(session& s, std::uint64_t order, const key& k, unsigned i,
                                                 link*& stand, std::uint64_t& stop, position& p, bool& owes) noexcept
    -> outcome {
  link* in = &level(stand, i);
  link_word w = in->load();
  if ((w & gone) != 0) [[unlikely]]
    return outcome::again;
  climb up;
  while (offset_of(w) != stop && offset_of(w) != 0) {
    node_head* n = node_at(w, up);
    if (n == nullptr || is_too_high(n, i)) [[unlikely]]
      return outcome::failed;
    link& own = level(&n->next, i);
    const link_word next = own.load();
    prefetch(next);
    if (is_deleted(n, next)) [[unlikely]] {
      if ((next & gone) == 0) {
        (void)close(s, *n, height_of(n));
        up.again();
        continue;
      }
      const link_word behind = offset_of(next);
      if (!memory_.tidy(*in, memory_.settled(s, *in, w, n->order), behind)) return outcome::again;
      owes = true;
      w = behind;
      continue;
    }
    const int c = compare(n, order, k);
    if (c >= 0) {
      if (c > 0) stop = offset_of(w);
      break;
    }
    if ((w & pending) != 0) [[unlikely]]
      (void)memory_.settled(s, *in, w, n->order);
    stand = &n->next;
    in = &own;
    w = next;
  }
  p.at[i] = {in, w};
  return outcome::done;
}
template <memory Memory, node_kind Nodes>
inline auto skip_list<Memory, Nodes>::find_at_bottom(session& s, std::uint64_t order, const key& k, link* stand,
                                                     std::uint64_t stop, position& p) noexcept -> outcome {
  p.current = nullptr;
  p.in = nullptr;
  link* in = stand;
  link_word w = in->load();
  if ((w & gone) != 0) [[unlikely]]
    return outcome::again;
  climb up;
  while (offset_of(w) != stop && offset_of(w) != 0) {
    node_head* n = node_at(w, up);
    if (n == nullptr) [[unlikely]]
      return outcome::failed;
    const link_word next = n->next.load();
    prefetch(next);
    if ((next & gone) != 0) [[unlikely]] {
      const link_word behind = without(memory_.settled(s, n->next, next, n->order), gone);
      const link_word led = memory_.settled(s, *in, w, n->order);
      const std::uint64_t start = start_of(offset_of(w));
      if (!memory_.may_unlink(s, start)) return outcome::failed;
      if (!memory_.tidy(*in, led, behind)) return outcome::again;
      retire(s, start, n);
      w = behind;
      continue;
    }
    const int c = compare(n, order, k);
    if (c >= 0) {
      if (c == 0) {
        p.current = n;
        p.next = next;
      }
      break;
    }
    p.in = in;
    p.in_word = w;
    p.before_order = n->order;
    in = &n->next;
    w = next;
  }
  p.at[0] = {in, w};
  return outcome::done;
}

}  // namespace nvm::lockfree
