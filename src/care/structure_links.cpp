// The part of structure_reader that follows links: all of them, and those that a look-up follows.
#include <algorithm>
#include <bit>

#include "care/structure_reader.hpp"

namespace nvm::care {

using lockfree::cell;
using lockfree::frozen;
using lockfree::gone;
using lockfree::offset_of;

// ---- all of them ----

std::size_t structure_reader::item_at(std::uint64_t start, std::uint64_t head, bool is_branch) {
  const std::uint64_t least = head - start + format_.node_bytes();
  const auto known = by_start_.find(start);
  if (known != by_start_.end()) {
    item& i = items_[known->second];
    if (i.room < least) return none;
    i.head = head;
    return known->second;
  }
  const item i{.start = start, .room = end_ - start, .head = head};
  if (start % node_format::line != 0 || !in_pool(start, least) || !can_be_foreign(i, is_branch)) return none;
  by_start_.emplace(start, items_.size());
  items_.push_back(i);
  return items_.size() - 1;
}
// If the page map has lost the owner of the pages, or an extent the size of its nodes, a node has to prove itself.
bool structure_reader::can_be_foreign(const item& i, bool is_branch) const {
  if (!format_.with_sums) return false;
  const auto pages = pages_.owned_at(i.start);
  if (pages ? pages->owner != about_.owner : !is_free(i.start)) return false;
  if (is_branch) return format_.fits_in(i.head, room_after(i)) && format_.order_holds(i.head);
  return format_.fits(i.head, room_after(i)) && format_.sum_holds(i.head);
}
bool structure_reader::is_free(std::uint64_t at) const {
  return in_pool(round_down(at, 8), 8) && pages_.is_free(pages_.sizes().page_of(at));
}

// nullptr: there is none, or it has been told.
structure_reader::item* structure_reader::arrive(std::uint64_t word, std::uint64_t from, std::uint64_t order) {
  const std::uint64_t head = offset_of(word);
  const std::size_t at = in_pool(head, format_.node_bytes()) ? item_at(format_.start_of(head), head) : none;
  if (at == none) {
    broken("a link leads where no node can be", from);
    return nullptr;
  }
  item& i = items_[at];
  if (!i.allocated) broken("something leads to a node that is not allocated", i.start);
  if (format_.order(head) < order) broken("nodes are out of order", head);
  i.linked = true;
  return &i;
}

void structure_reader::follow_all() {
  if (about_.root == 0) return;
  switch (format_.kind) {
    case lockfree::layout::kind::list:
      return follow_chain(about_.root + offsetof(lockfree::list_root, first), 0);
    case lockfree::layout::kind::hash:
      return follow_cells();
    case lockfree::layout::kind::skip_list:
      return follow_levels();
    case lockfree::layout::kind::tree:
      return follow_tree();
    case lockfree::layout::kind::none:
      return;
  }
}

void structure_reader::follow_chain(std::uint64_t link_at, std::uint64_t order) {
  const std::uint32_t walk = ++walks_;
  std::uint64_t w = format_.word(link_at);
  while (offset_of(w) != 0) {
    if ((w & cell) != 0) {
      std::uint64_t first = 0;
      if (!order_of_cell(offset_of(w), first) || first < order) {
        return broken("a link leads to a cell that is not there, or back", link_at);
      }
      if (!cells_passed_.insert(offset_of(w)).second) return;
      link_at = offset_of(w);
      order = first;
      w = format_.word(link_at) & ~frozen;
      continue;
    }
    item* i = arrive(w, link_at, order);
    if (i == nullptr) return;
    if (i->walk == walk) broken("links lead round in a circle", link_at);
    if (i->walk != 0) return;
    i->walk = walk;
    link_at = i->head;
    order = format_.order(i->head);
    w = format_.next(i->head);
  }
}

template <class Visit>
void structure_reader::each_cell(Visit&& visit) const {
  for (std::size_t g = 0; g < arrays_.size(); ++g) {
    if (arrays_[g] == 0) continue;
    const std::uint64_t n = std::uint64_t{1} << (g == 0 ? bits_ : bits_ + g - 1);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t at = arrays_[g] + i * 8;
      if (g == 0 || was_put_in(format_.word(at))) visit(at);
    }
  }
}
void structure_reader::follow_cells() {
  bool is_first = true;
  each_cell([&](std::uint64_t at) {
    if (!cells_passed_.insert(at).second) return;
    if (!is_first) broken("a cell is not in the chain", at);
    is_first = false;
    std::uint64_t order = 0;
    (void)order_of_cell(at, order);
    follow_chain(at, order);
  });
}

// Follows all levels of a skip list: each from its beginning, then the bottom from where higher ones lead.
void structure_reader::follow_levels() {
  const std::uint64_t first = about_.root + offsetof(lockfree::skip_root, first);
  for (unsigned i = 0; i < lockfree::skip_levels; ++i) follow_level(first - i * 8, i, 0);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const item n = items_[i];
    if (n.linked && (format_.next(n.head) & gone) == 0) follow_level(n.head, 0, format_.order(n.head));
  }
}
void structure_reader::follow_level(std::uint64_t link_at, unsigned level, std::uint64_t order) {
  const std::uint32_t walk = ++walks_;
  // At the bottom a node that was passed leads to nothing new.
  const bool is_bottom = level == 0;
  for (std::uint64_t w = format_.word(link_at); offset_of(w) != 0;) {
    item* i = arrive(w, link_at, order);
    if (i == nullptr) return;
    if (format_.height_of(i->head) <= level) return broken("a node is linked above its height", i->head);
    if (i->walk == walk) return broken("links lead round in a circle", link_at);
    if (is_bottom && i->is_at_bottom) return;
    i->walk = walk;
    i->is_at_bottom = i->is_at_bottom || is_bottom;
    link_at = i->head - level * 8;
    order = format_.order(i->head);
    w = format_.word(link_at);
  }
}

void structure_reader::follow_tree() {
  const std::uint64_t top = about_.root + offsetof(lockfree::tree_root, top);
  std::vector<edge> edges{{top, 0, 0}};
  while (!edges.empty()) {
    const edge e = edges.back();
    edges.pop_back();
    if (offset_of(format_.word(e.at)) != 0) {
      arrive_in_tree(e, edges);
    } else if (e.at != top) {
      broken("a branch has an edge that leads nowhere", e.at);
    }
  }
}
void structure_reader::arrive_in_tree(const edge& e, std::vector<edge>& edges) {
  const std::uint64_t word = format_.word(e.at);
  const bool is_branch = (word & cell) != 0;
  const std::uint64_t head = offset_of(word);
  const std::uint64_t before = is_branch ? node_format::before_branch : 0;
  const bool can_be = head > before && in_pool(head - before, before + format_.node_bytes());
  const std::size_t at = can_be ? item_at(head - before, head, is_branch) : none;
  if (at == none) return broken("an edge leads where no node can be", e.at);
  item& i = items_[at];
  if (!i.allocated) broken("something leads to a node that is not allocated", i.start);
  if (i.linked) return broken("two links lead to the same node", e.at);
  i.linked = true;
  i.is_branch = is_branch;
  i.gone = !is_branch && (word & gone) != 0;
  if (const char* what = fault_in_tree(i, e); what != nullptr) broken(what, head);
  if (!is_branch) return;
  edges.push_back({head - node_format::before_branch, head, e.high});
  edges.push_back({head, e.low, head});
}
// A fault as the check finds it, with which searches go wrong.
const char* structure_reader::fault_in_tree(const item& i, const edge& e) const {
  if (!format_.fits_in(i.head, room_after(i))) return "a node reaches out of the pool";
  if (!format_.order_holds(i.head)) return "the order of a node is not that of its key";
  const std::string key = format_.key(i.head);
  const std::uint64_t order = format_.order(i.head);
  if (e.low != 0 && compare(e.low, order, key) > 0) return "a key is less than the branch allows";
  if (e.high != 0 && compare(e.high, order, key) <= 0) return "a key is greater than the branch allows";
  return nullptr;
}

bool structure_reader::order_of_cell(std::uint64_t at, std::uint64_t& order) const noexcept {
  for (std::size_t g = 0; g < arrays_.size(); ++g) {
    const std::uint64_t i = (at - arrays_[g]) / 8;
    const std::uint64_t bits = g == 0 ? bits_ : bits_ + g - 1;
    if (arrays_[g] == 0 || at < arrays_[g] || at % 8 != 0 || i >= std::uint64_t{1} << bits) continue;
    order = g == 0 ? i << (64 - bits_) : (i << 1 | 1) << (64 - (bits_ + g));
    return true;
  }
  return false;
}

// ---- those of a look-up: as search() of each shape ----

int structure_reader::compare(std::uint64_t head, std::uint64_t order, const std::string& key) const noexcept {
  const std::uint64_t own = format_.order(head);
  if (own != order) return own < order ? -1 : 1;
  return format_.fits_in(head, end_ - head) ? format_.compare(head, order, key) : 1;
}

std::uint64_t structure_reader::find(const std::string& key) {
  if (!has_root_ || format_.is_sealed) return 0;
  const std::uint64_t order = format_.order_of(key);
  if (format_.has_skip_levels()) return find_in_levels(order, key);
  if (!format_.is_tree()) return find_in_chain(order, key);
  bool properly = false;
  return find_in_tree(order, key, properly);
}

std::uint64_t structure_reader::entrance(std::uint64_t order) const noexcept {
  if (format_.kind == lockfree::layout::kind::list) return about_.root + offsetof(lockfree::list_root, first);
  std::uint64_t i = order >> (64 - all_bits_);
  const unsigned grown = all_bits_ - bits_;
  for (;;) {
    const auto zeros = i == 0 ? 64U : static_cast<unsigned>(std::countr_zero(i));
    if (zeros >= grown) return arrays_[0] + (i >> grown) * 8;
    const std::uint64_t at = arrays_[grown - zeros] + (i >> (zeros + 1)) * 8;
    if (was_put_in(format_.word(at))) return at;
    i &= i - 1;
  }
}

std::uint64_t structure_reader::find_in_chain(std::uint64_t order, const std::string& key) {
  std::uint64_t last = 0;
  for (std::uint64_t w = format_.word(entrance(order)); offset_of(w) != 0 && step();) {
    std::uint64_t first = 0;
    if ((w & cell) != 0) {
      if (!order_of_cell(offset_of(w), first) || first > order || first < last) return 0;
      last = first;
      w = format_.word(offset_of(w)) & ~frozen;
      continue;
    }
    const std::uint64_t head = offset_of(w);
    if (head % node_format::line != 0 || !in_pool(head, format_.node_bytes()) || format_.order(head) < last) return 0;
    last = format_.order(head);
    w = format_.next(head);
    const int c = compare(head, order, key);
    if (c > 0) return 0;
    if (c == 0 && (w & gone) == 0) return head;
  }
  return 0;
}

std::uint64_t structure_reader::find_in_levels(std::uint64_t order, const std::string& key) {
  std::uint64_t stand = about_.root + offsetof(lockfree::skip_root, first);
  std::uint64_t stop = 0;
  for (unsigned i = lockfree::skip_levels; i-- > 0;) {
    std::uint64_t last = 0;
    for (std::uint64_t w = format_.word(stand - i * 8); offset_of(w) != stop && offset_of(w) != 0;) {
      const std::uint64_t head = offset_of(w);
      const std::uint64_t links = head % node_format::line != 0 ? head % node_format::line : node_format::tall_head;
      if (!step() || !in_pool(head - links, links + format_.node_bytes()) || format_.order(head) < last) return 0;
      last = format_.order(head);
      w = format_.word(head - i * 8);
      const bool is_gone = ((w | format_.next(head)) & gone) != 0;
      const int c = compare(head, order, key);
      if (c == 0 && !is_gone) return head;
      if (is_gone) continue;
      if (c > 0) {
        stop = i == 0 ? stop : head;
        break;
      }
      if (i != 0) stand = head;
    }
  }
  return 0;
}

std::uint64_t structure_reader::find_in_tree(std::uint64_t order, const std::string& key, bool& properly) {
  std::uint64_t low = 0, high = 0;  // heads of branches
  std::uint64_t w = format_.word(about_.root + offsetof(lockfree::tree_root, top));
  properly = offset_of(w) == 0;
  bool can_be = true;  // each branch may be where it is
  while ((w & cell) != 0) {
    const std::uint64_t head = offset_of(w);
    const std::uint64_t before = node_format::before_branch;
    if (!step() || head < before || !in_pool(head - before, before + format_.node_bytes())) return 0;
    const item branch{.start = head - before, .room = end_ - (head - before), .head = head};
    can_be = can_be && fault_in_tree(branch, {0, low, high}) == nullptr;
    const bool is_left = compare(head, order, key) > 0;
    (is_left ? high : low) = head;
    w = format_.word(is_left ? head : head - before);
  }
  const std::uint64_t leaf = offset_of(w);
  if (leaf == 0 || !in_pool(leaf, format_.node_bytes()) || !format_.fits_in(leaf, end_ - leaf)) return 0;
  properly = can_be && fault_in_tree({.start = leaf, .room = end_ - leaf, .head = leaf}, {0, low, high}) == nullptr;
  return compare(leaf, order, key) == 0 && (w & gone) == 0 ? leaf : 0;
}

}  // namespace nvm::care
