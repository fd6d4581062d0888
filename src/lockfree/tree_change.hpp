// The part of tree.hpp that changes: leaves are inserted, replaced and deleted, and deleted ones leave. Included by
// that, which says in which order and why.
#pragma once

#include "lockfree/tree.hpp"

namespace nvm::lockfree {

template <memory Memory, node_kind Nodes>
inline bool tree<Memory, Nodes>::seek(std::uint64_t order, const key& k, position& p) noexcept {
  p.parent = nullptr;
  p.in = nullptr;
  p.in_word = 0;
  p.above = p.edge = &root_.top;
  p.above_word = p.word = root_.top.load();
  p.rerouted_count = 0;
  circle_watch way;
  while ((p.word & branch) != 0) {
    node_head* n = node_at(p.word);
    if (n == nullptr || !pass(way, n, p.word)) [[unlikely]]
      return false;
    if ((p.word & rerouted) != 0) [[unlikely]]
      pass_rerouted(p);
    if ((p.word & frozen) == 0) [[likely]] {
      p.above = p.edge;
      p.above_word = p.word;
    }
    p.parent = n;
    p.in = p.edge;
    p.in_word = p.word;
    p.edge = towards(n, order, k);
    p.word = p.edge->load();
  }
  p.leaf = nullptr;
  if (offset_of(p.word) == 0) return p.parent == nullptr || !damaged_here();
  p.leaf = node_at(p.word);
  return p.leaf != nullptr;
}

template <memory Memory, node_kind Nodes>
template <class Size, class Fill>
inline result<written> tree<Memory, Nodes>::put(session& s, std::uint64_t order, const key& k, write_rule rule,
                                                Size&& size, Fill&& fill) noexcept {
  made_node leaf_room, over_room;
  const auto give_up = [&](auto outcome) -> result<written> {
    drop(s, over_room);
    drop(s, leaf_room);
    return outcome;
  };
  position p;
  for (patience left;;) {
    if (!seek(order, k, p)) return give_up(failure(s));
    const bool is_there = p.leaf != nullptr && (p.word & gone) == 0 && compare(p.leaf, order, k) == 0;
    node_head* const old = is_there ? p.leaf : nullptr;
    const link_word expected = settle(s, p, order);
    if (rule == (is_there ? write_rule::insert_only : write_rule::replace_only)) return give_up(written::refused);
    if ((expected & (gone | frozen)) != 0) [[unlikely]] {
      if (!tidy_up(s, p, order, k) || !goes_on(left, p)) return give_up(failure(s));
      continue;
    }
    const std::uint64_t bytes = size(old);
    if (bytes == 0) return give_up(written::refused);
    if (status room = have_room(s, leaf_room, bytes); !room) return give_up(room.error());
    std::byte* at = memory_.at(leaf_room.offset);
    auto* leaf = reinterpret_cast<node_head*>(at);
    fill(at, order, old);
    leaf->next.set(0);
    memory_.contents(at, bytes);
    if (old != nullptr) {
      if (!memory_.may_unlink(s, offset_of(expected))) return give_up(failure(s));
      mark(old);
      if (!memory_.change(s, *p.edge, expected, leaf_room.offset, order)) continue;
      memory_.retire(s, offset_of(expected));
      drop(s, over_room);
      return written::replaced;
    }
    if (p.leaf == nullptr) {
      if (!memory_.change(s, *p.edge, expected, leaf_room.offset, order)) continue;
      drop(s, over_room);
      s.count(1);
      return written::inserted;
    }
    if (!is_whole<Nodes>(memory_, p.leaf)) return give_up(failure(s));
    // The greater of the two shows the way.
    const bool is_left = compare(p.leaf, order, k) > 0;
    const key shown = is_left ? Nodes::key_of(p.leaf) : k;
    const std::uint64_t over_bytes = before_head + Nodes::bytes(shown, value{});
    if (status room = have_room(s, over_room, over_bytes); !room) return give_up(room.error());
    std::byte* over_at = memory_.at(over_room.offset);
    auto* over = reinterpret_cast<node_head*>(over_at + before_head);
    Nodes::fill(over_at + before_head, is_left ? p.leaf->order : order, shown, value{});
    maker(over) = order;
    over->next.set(is_left ? leaf_room.offset : offset_of(expected));
    right(over).set(is_left ? offset_of(expected) : leaf_room.offset);
    memory_.contents(over_at, over_bytes);
    if (!memory_.change(s, *p.edge, expected, (over_room.offset + before_head) | branch, order)) continue;
    way_is_durable(p);
    s.count(1);
    return written::inserted;
  }
}

template <memory Memory, node_kind Nodes>
template <class Decide>
inline result<bool> tree<Memory, Nodes>::take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept {
  position p;
  for (patience left;;) {
    if (!seek(order, k, p)) return failure(s);
    if (p.leaf == nullptr || compare(p.leaf, order, k) != 0) {
      memory_.depend(s, order);
      return false;
    }
    const link_word w = settle(s, p, order);
    if ((w & gone) != 0) return false;
    if (!decide(p.leaf)) return false;
    if ((w & frozen) != 0) {
      if (!tidy_up(s, p, order, k) || !goes_on(left, p)) return failure(s);
      continue;
    }
    // With the leaf its branch leaves.
    if (p.parent != nullptr && !memory_.may_leave(s, start_of(p.in_word), 2)) return failure(s);
    const deletion d =
        memory_.change_to_delete(s, *p.edge, w, w | gone, order, offset_of(w), false, [&] { mark(p.leaf); });
    if (d == deletion::refused) return failure(s);
    if (d == deletion::forestalled) continue;
    s.count(-1);
    p.word = w | gone;
    // It is not in the tree any more.
    const std::uint64_t leaf = offset_of(w);
    while (goes_on(left, p) && tidy_up(s, p, order, k)) {
      if (p.word == 0 || !seek(order, k, p) || offset_of(p.word) != leaf) break;
    }
    return true;
  }
}

template <memory Memory, node_kind Nodes>
bool tree<Memory, Nodes>::tidy_up(session& s, position& p, std::uint64_t order, const key& k) noexcept {
  if (p.parent == nullptr) {
    // The only leaf.
    const link_word w = settled(s, *p.edge, p.word);
    if ((w & gone) == 0) return true;  // all has changed
    node_head* leaf = node_at(w);
    if (leaf == nullptr) return false;
    mark_if_not(leaf);
    if (!memory_.may_unlink(s, offset_of(w))) return false;
    if (!memory_.tidy(*p.edge, w, 0)) return true;
    memory_.retire(s, offset_of(w));
    p.word = 0;
    return true;
  }
  link* dead = p.edge;
  link_word dead_word = dead->load();
  if ((dead_word & gone) == 0) {
    dead = &other(p.parent, dead);
    dead_word = dead->load();
    // An edge is frozen when the other one is gone, and both stay so.
    if ((dead_word & gone) == 0) return !damaged_here();
  }
  if (!settle_deletion(s, *dead, dead_word)) return false;
  link* keep = &other(p.parent, dead);
  link_word kept = keep->load();
  while ((kept & frozen) == 0) {
    const link_word w = settled(s, *keep, kept);
    if (memory_.swing(*keep, w, w | frozen)) {
      kept = w | frozen;
      break;
    }
    kept = keep->load();
  }
  // The nodes that leave: from the branch that the edge above leads to down to the parent, and a leaf of each.
  std::array<std::uint64_t, leaving_max> leaving;
  std::size_t count = 0;
  for (link_word w = p.above_word;;) {
    node_head* n = node_at(w);
    if (n == nullptr || count == leaving_max) return false;
    leaving[count++] = start_of(w);
    if (n == p.parent) {
      leaving[count++] = offset_of(dead_word);
      break;
    }
    link* next = towards(n, order, k);
    link& side = other(n, next);
    const link_word side_word = side.load();
    w = next->load();
    if ((side_word & gone) == 0 || (w & frozen) == 0 || (w & branch) == 0) return !damaged_here();
    if (!settle_deletion(s, side, side_word)) return false;
    leaving[count++] = offset_of(side_word);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!memory_.may_unlink(s, leaving[i], count)) return false;
  }
  const link_word above = settled(s, *p.above, p.above_word);
  const link_word past = without(kept, frozen | pending | rerouted);
  // The neighbour may have been deleted, too. Then the edge above has to be durable before the neighbour's branch
  // leaves in turn, since it is that branch's mark.
  const link_word tag = (past & gone) != 0 ? pending : (past & branch) != 0 ? rerouted : 0;
  if (!memory_.tidy(*p.above, above, memory_.may_lose_order() ? past | tag : past)) return true;
  for (std::size_t i = 0; i < count; ++i) memory_.retire(s, leaving[i]);
  p.word = 0;
  return true;
}

}  // namespace nvm::lockfree
