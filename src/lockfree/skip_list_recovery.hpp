// The part of skip_list.hpp that recovery, rebuilding and the check call: no thread is at work, and bytes may be
// anything. Included by that.
#pragma once

#include "lockfree/skip_list.hpp"

namespace nvm::lockfree {

// ---- what a crash has left ----

template <memory Memory, node_kind Nodes>
progress skip_list<Memory, Nodes>::step(probe& p) noexcept {
  if (p.level == 0 && offset_of(p.w) == p.at) return progress::found;
  node_head* n = offset_of(p.w) == 0 || p.left == 0 ? nullptr : node_at(p.w);
  if (p.left != 0) --p.left;
  const key k = Nodes::key_of(p.of);
  if (p.level == 0) {
    if (n == nullptr) return progress::absent;
    const link_word behind = n->next.load();
    if ((behind & gone) == 0 && compare(n, p.of->order, k) > 0) return progress::absent;
    p.by = &n->next;
    p.w = behind;
  } else {
    const link_word next = n == nullptr ? 0 : level(&n->next, p.level).load();
    if (n != nullptr && is_deleted(n, next)) {
      p.w = next;
    } else if (n != nullptr && before(n, p.of->order, k)) {
      p.stand = &n->next;
      p.w = next;
    } else {
      p.by = p.stand;
      p.w = level(p.stand, --p.level).load();
    }
  }
  prefetch(p.w);
  return progress::under_way;
}

template <memory Memory, node_kind Nodes>
template <class Pass>
void skip_list<Memory, Nodes>::each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept {
  node_head* n = candidate(offset, bytes);
  if (n == nullptr) return;
  const key k = Nodes::key_of(n);
  const unsigned height = height_of(n);
  std::uint64_t left = memory_.nodes_max();
  link* from = &root_.first;
  for (unsigned i = levels(); i-- > 0;) {
    link* stand = from;
    for (;;) {
      const link& l = level(stand, i);
      if (i < height) pass(l);
      const link_word w = l.load();
      node_head* next = offset_of(w) == 0 || left-- == 0 ? nullptr : node_at(w);
      if (next == nullptr) break;
      if (!is_deleted(next, level(&next->next, i).load())) {
        if (compare(next, n->order, k) > 0) break;
        if (before(next, n->order, k)) from = &next->next;
      }
      stand = &next->next;
    }
  }
}

template <memory Memory, node_kind Nodes>
bool skip_list<Memory, Nodes>::detach(std::uint64_t offset, std::uint64_t bytes) noexcept {
  node_head* n = candidate(offset, bytes);
  if (n == nullptr) return false;
  const std::uint64_t at = memory_.offset_in_pool(n);
  const key k = Nodes::key_of(n);
  const unsigned height = height_of(n);
  if (height == 1) return false;
  bool was = false;
  std::uint64_t left = memory_.nodes_max();
  link* from = &root_.first;
  for (unsigned i = levels(); i-- > 1;) {
    link* stand = from;
    link_word w = level(stand, i).load();
    while (offset_of(w) != 0 && left-- != 0) {
      if (offset_of(w) == at && i < height) {
        link& l = level(stand, i);
        l.set((w & gone) | offset_of(level(&n->next, i).load()));
        memory_.contents(&l, sizeof l);
        was = true;
        break;
      }
      node_head* next = node_at(w);
      if (next == nullptr) return was;
      const link_word behind = level(&next->next, i).load();
      if (!is_deleted(next, behind)) {
        if (compare(next, n->order, k) > 0) break;
        if (before(next, n->order, k)) from = &next->next;
      }
      stand = &next->next;
      w = behind;
    }
  }
  return was;
}

template <memory Memory, node_kind Nodes>
template <class Visit>
bool skip_list<Memory, Nodes>::each_linked(Visit&& visit) noexcept {
  // A damaged list may lead round in a circle.
  std::uint64_t left = memory_.nodes_max();
  const link* in = &root_.first;
  for (link_word w = in->load(); offset_of(w) != 0;) {
    const node_head* n = node_at(w);
    if (n == nullptr) return true;
    if (left-- == 0) {
      memory_.report_damage(offset_of(w));
      return true;
    }
    visit(start_of(offset_of(w)), in);
    in = &n->next;
    w = in->load();
  }
  return true;
}

// ---- all of it ----

template <memory Memory, node_kind Nodes>
template <class Head>
void skip_list<Memory, Nodes>::link_all(std::size_t count, Head&& head, unsigned) noexcept {
  std::array<link*, skip_levels> last;
  for (unsigned i = 0; i < skip_levels; ++i) last[i] = &level(&root_.first, i);
  unsigned levels = 1;
  constexpr std::size_t ahead = 16;
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(origin_ + head(i + ahead), 1);
    auto* n = reinterpret_cast<node_head*>(memory_.at(head(i)));
    if (head(i) % line == 0) {
      const auto zeros = static_cast<unsigned>(std::countr_zero(mix_seed(i, head(i)) | std::uint64_t{1} << 62));
      *(reinterpret_cast<std::uint64_t*>(n) - skip_levels) = std::min(low_heights + 1 + zeros / rise_bits, skip_levels);
    }
    const unsigned height = height_of(n);
    levels = std::max(levels, height);
    for (unsigned j = 0; j < height; ++j) {
      last[j]->set(head(i));
      last[j] = &level(&n->next, j);
    }
  }
  for (link* l : last) l->set(0);
  levels_.store(levels, std::memory_order_relaxed);
}

template <memory Memory, node_kind Nodes>
template <class Meet>
const char* skip_list<Memory, Nodes>::check(Meet&& meet) {
  for (unsigned i = levels(); i-- > 0;) {
    const node_head* last = nullptr;
    std::uint64_t left = memory_.nodes_max();
    for (link_word w = level(&root_.first, i).load(); offset_of(w) != 0;) {
      if (left-- == 0) return "a level leads round in a circle";
      const node_head* n = node_at(w);
      if (n == nullptr) return "a link leads where no node can be";
      if (height_of(n) <= i) return "a node is linked above its height";
      if (!is_whole<Nodes>(memory_, n)) return "a node reaches out of the pool";
      w = level(&n->next, i).load();
      if (is_deleted(n, w)) continue;
      if (!has_order_of_key<Nodes>(*this, n)) return "the order of a node is not that of its key";
      if (last != nullptr && !before(last, n->order, Nodes::key_of(n))) return "nodes are out of order";
      if (!is_at_bottom(n) || (n->next.load() & gone) != 0) return "a node is above and not at the bottom";
      if (i == 0) meet(n);
      last = n;
    }
  }
  return nullptr;
}

}  // namespace nvm::lockfree
