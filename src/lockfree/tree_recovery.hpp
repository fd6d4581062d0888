// The part of tree.hpp that recovery and the check call: no thread is at work, and bytes may be anything.  Included by
// that.
#pragma once

#include "lockfree/tree.hpp"

namespace nvm::lockfree {

// ---- what a crash has left ----

template <memory Memory, node_kind Nodes>
bool tree<Memory, Nodes>::begin(probe& p, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::byte* at = memory_.at(offset);
  if (at == nullptr || bytes <= before_head) return false;
  const auto* leaf = reinterpret_cast<const node_head*>(at);
  const auto* over = reinterpret_cast<const node_head*>(at + before_head);
  p = {};
  if (Nodes::fits(leaf, bytes)) p.of = leaf;
  if (Nodes::fits(over, bytes - before_head)) p.other = over;
  // A leaf's own link leads nowhere.  Its content is not trusted.
  if (p.of == nullptr || (p.other != nullptr && offset_of(leaf->next.load()) != 0)) {
    std::swap(p.of, p.other);
    p.kind = branch;
  }
  begin(p);
  return p.of != nullptr;
}

template <memory Memory, node_kind Nodes>
progress tree<Memory, Nodes>::step(probe& p) noexcept {
  if (offset_of(p.w) == memory_.offset_in_pool(p.of) && (p.w & branch) == p.kind) return progress::found;
  node_head* over = (p.w & branch) == 0 || p.left == 0 ? nullptr : node_at(p.w);
  if (over != nullptr) {
    --p.left;
    p.by = towards(over, p.of->order, Nodes::key_of(p.of));
    p.w = p.by->load();
    prefetch(p.w);
    return progress::under_way;
  }
  if (p.other == nullptr) return progress::absent;
  p.of = std::exchange(p.other, nullptr);
  p.kind ^= branch;
  begin(p);
  return progress::under_way;
}

template <memory Memory, node_kind Nodes>
bool tree<Memory, Nodes>::bears_mark(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  const auto* leaf = reinterpret_cast<const node_head*>(memory_.at(offset));
  if (leaf == nullptr || bytes <= before_head) return false;
  // Here a leaf has its own link, which leads nowhere, and a branch its right edge.
  const link_word first = leaf->next.load();
  if (offset_of(first) == 0) return (first & gone) != 0;
  const auto* over = reinterpret_cast<const node_head*>(reinterpret_cast<const std::byte*>(leaf) + before_head);
  return ((first | over->next.load()) & gone) != 0;
}

template <memory Memory, node_kind Nodes>
template <class Pass>
void tree<Memory, Nodes>::each_link_to(std::uint64_t offset, std::uint64_t bytes, Pass&& pass) noexcept {
  const std::byte* at = memory_.at(offset);
  if (at == nullptr || bytes <= before_head) return;
  const auto* leaf = reinterpret_cast<const node_head*>(at);
  const auto* over = reinterpret_cast<const node_head*>(at + before_head);
  const auto pass_some = [&](const link& edge) {
    const link_word w = edge.load();
    if ((w & branch) == 0 || (w & (rerouted | pending)) != 0) pass(edge);
  };
  if (Nodes::fits(leaf, bytes)) (void)is_on_way(leaf, 0, pass_some);
  if (Nodes::fits(over, bytes - before_head)) (void)is_on_way(over, branch, pass_some);
}

template <memory Memory, node_kind Nodes>
template <class Pass>
bool tree<Memory, Nodes>::is_on_way(const node_head* n, link_word kind, Pass&& pass) noexcept {
  const std::uint64_t at = memory_.offset_in_pool(n);
  const key k = Nodes::key_of(n);
  link* edge = &root_.top;
  for (std::uint64_t left = memory_.nodes_max(); left != 0; --left) {
    pass(*edge);
    const link_word w = edge->load();
    if (offset_of(w) == at && (w & branch) == kind) return true;
    if ((w & branch) == 0) return false;
    node_head* over = node_at(w);
    if (over == nullptr) return false;
    edge = towards(over, n->order, k);
  }
  return false;
}

// ---- all of it ----

template <memory Memory, node_kind Nodes>
template <class Visit>
bool tree<Memory, Nodes>::each_linked(Visit&& visit) noexcept try {
  std::vector<const link*> ahead{&root_.top};
  // A damaged tree may lead round in a circle.
  for (std::uint64_t left = memory_.nodes_max(); !ahead.empty() && left != 0; --left) {
    const link* edge = ahead.back();
    const link_word w = edge->load();
    ahead.pop_back();
    if (offset_of(w) == 0) continue;
    if (node_at(w) == nullptr) return true;
    visit(start_of(w), edge);
    if ((w & branch) == 0) continue;
    node_head* n = node_at(w);
    if (n == nullptr) return true;
    ahead.push_back(&right(n));
    ahead.push_back(&n->next);
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

template <memory Memory, node_kind Nodes>
template <class Meet>
const char* tree<Memory, Nodes>::check(Meet&& meet) {
  struct step {
    link_word word;
    const node_head* low;   // keys are not less
    const node_head* high;  // keys are less
  };
  std::vector<step> ahead;
  std::uint64_t left = memory_.nodes_max();
  if (offset_of(root_.top.load()) != 0) ahead.push_back({root_.top.load(), nullptr, nullptr});
  while (!ahead.empty()) {
    if (left-- == 0) return "edges lead round in a circle";
    const step at = ahead.back();
    ahead.pop_back();
    if (offset_of(at.word) == 0) return "a branch has an edge that leads nowhere";
    node_head* n = node_at(at.word);
    if (n == nullptr) return "an edge leads where no node can be";
    if (!is_whole<Nodes>(memory_, n)) return "a node reaches out of the pool";
    if (!has_order_of_key<Nodes>(*this, n)) return "the order of a node is not that of its key";
    const key k = Nodes::key_of(n);
    if (at.low != nullptr && compare(at.low, n->order, k) > 0) return "a key is less than the branch allows";
    if (at.high != nullptr && compare(at.high, n->order, k) <= 0) return "a key is greater than the branch allows";
    if ((at.word & branch) == 0) {
      if ((at.word & gone) == 0) meet(n);
      continue;
    }
    if ((at.word & gone) != 0) return "an edge to a branch is gone";
    ahead.push_back({right(n).load(), n, at.high});
    ahead.push_back({n->next.load(), at.low, n});
  }
  return nullptr;
}

}  // namespace nvm::lockfree
