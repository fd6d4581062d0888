// The part of structure_reader that decides which nodes are entries.
//
// A node that links lead to is one, unless it bears the mark of removed nodes.  A node that no link leads to was linked
// if it is allocated, holds its sum and bears no such mark: the mark is durable before a node is unlinked, and nodes
// that were never linked are wiped.  Where threads of a dead process may have been about to link it (active areas) that
// is not enough.  There a node of a chain was linked if another such node leads to it, or if it alone leads to the next
// one: a node that is about to be linked leads to the same node as its predecessor.  A leaf of a tree was linked when
// the way down to its key ends in damage, and not at a leaf that may be there.
//
// Of several nodes of one key the one that a look-up finds is the entry; where none is found, one that links lead to;
// of nodes with volatile links the newer.
#include <algorithm>

#include "care/structure_reader.hpp"

namespace nvm::care {

using lockfree::cell;
using lockfree::gone;
using lockfree::offset_of;
namespace seal = lockfree::seal;

// ---- what lies in a place ----

bool structure_reader::is_candidate(const item& i) const noexcept {
  return i.head != 0 && !i.gone && !i.is_branch && (i.linked || i.allocated);
}

// Whether the link leads to a place where a link of this structure may lead.
bool structure_reader::can_lead(std::uint64_t word) const noexcept {
  const std::uint64_t target = offset_of(word);
  if (target == 0) return true;
  std::uint64_t order = 0;
  if ((word & cell) != 0) return order_of_cell(target, order);
  if (!in_pool(target, format_.node_bytes())) return false;
  const std::uint64_t start = format_.start_of(target);
  if (!format_.has_skip_levels() && target != start) return false;
  if (by_start_.contains(start)) return true;
  // The link of a removed node stays as it was: empty pages may have another owner by now.
  const auto p = pages_.owned_at(target);
  return start % line_bytes == 0 && (!p || p->owner != about_.owner);
}

// The mark is part of a link.  If that leads nowhere, the mark means nothing, unless threads were at work there.
void structure_reader::judge_mark(item& i) noexcept {
  if (!format_.is_tree()) {
    const std::uint64_t w = format_.next(i.head);
    i.is_doubtful = (w & gone) != 0 && !i.leaving && !can_lead(w);
    i.gone = (w & gone) != 0 && !i.is_doubtful;
  } else if (i.linked && i.gone) {
    // The leaf is marked before the edge is without doubt.
    i.gone = i.leaving || (format_.word(i.start) & gone) != 0;
    if (!i.gone) broken("an edge says that its leaf is gone, and the leaf does not", i.head);
  } else if (!i.linked) {
    // A leaf's own link leads nowhere; a branch begins with its right edge.
    i.is_branch = offset_of(format_.word(i.start)) != 0;
    i.gone = !i.is_branch && (format_.word(i.start) & gone) != 0;
  }
}

// A node that links lead to is read as far as it reaches, even if its extent has no place there.
void structure_reader::judge_room(item& i) const noexcept {
  if (!i.linked || i.is_branch || !format_.with_sums || format_.fits(i.head, room_after(i))) return;
  if (format_.fits(i.head, end_ - i.head) && format_.sum_holds(i.head)) i.room = end_ - i.start;
}

void structure_reader::judge() {
  for (item& i : items_) {
    if (i.head == 0) continue;
    judge_mark(i);
    judge_room(i);
    i.holds = !i.is_branch && format_.fits(i.head, room_after(i)) && format_.order_holds(i.head) &&
              (!format_.with_sums || format_.sum_holds(i.head));
  }
  steps_left_ = 16 * (items_.size() + 1024);
}

bool structure_reader::looks_empty(const item& i) const noexcept {
  for (std::uint64_t at = i.head + 8; at < i.head + format_.node_bytes(); at += 8) {
    if (format_.word(at) != 0) return false;
  }
  return true;
}

// ---- whether it was linked ----

// Counts leads from roots and cells, from linked nodes, from nodes that may have been linked.
void structure_reader::count_leads() {
  if (are_leads_counted_) return;
  are_leads_counted_ = true;
  const auto add = [&](std::uint64_t w) { ++leads_[offset_of(w)]; };
  if (about_.root != 0 && format_.kind == lockfree::layout::kind::list) {
    add(format_.word(about_.root + offsetof(lockfree::list_root, first)));
  }
  if (about_.root != 0 && format_.has_skip_levels())
    add(format_.word(about_.root + offsetof(lockfree::skip_root, first)));
  for (const std::uint64_t at : cells_passed_) add(format_.word(at) & ~lockfree::frozen);
  for (const item& i : items_) {
    if (i.head != 0 && (i.linked || (i.allocated && !i.gone && i.holds))) add(format_.next(i.head));
  }
}
std::uint32_t structure_reader::leads_to(std::uint64_t target) const {
  const auto known = leads_.find(target);
  return known == leads_.end() ? 0 : known->second;
}

bool structure_reader::was_linked_in_chain(const item& i) {
  count_leads();
  if (leads_to(i.head) != 0) return true;
  const std::uint64_t w = format_.next(i.head);
  const std::uint64_t target = offset_of(w);
  // Its own lead is one of them.
  if (leads_to(target) > 1) return false;
  if (target == 0) return true;
  if ((w & cell) != 0) {
    std::uint64_t order = 0;
    return order_of_cell(target, order);
  }
  const auto next = by_start_.find(format_.start_of(target));
  return next != by_start_.end() && is_candidate(items_[next->second]) && items_[next->second].holds;
}

bool structure_reader::was_linked(const item& i) {
  if (!i.fresh) return true;
  if (!format_.with_sums) {
    count_leads();
    return !format_.is_tree() && leads_to(i.head) != 0;
  }
  if (!format_.is_tree()) return was_linked_in_chain(i);
  if (about_.root == 0) return true;
  const std::string key = format_.key(i.head);
  bool properly = false;
  (void)find_in_tree(format_.order(i.head), key, properly);
  return !properly;
}

bool structure_reader::is_entry(const item& i) {
  if (!is_candidate(i) || !i.holds) return false;
  return i.linked || (!looks_empty(i) && was_linked(i));
}

// Whether no crash can have left the node so.  A single one where threads may have been at work proves nothing: its
// wipe may not have been durable.
bool structure_reader::is_cut_off(const item& i) {
  if (i.linked || !is_candidate(i) || !i.holds || looks_empty(i)) return false;
  if (!i.fresh) return true;
  if (format_.is_tree() || !format_.with_sums) return false;
  const std::uint64_t w = format_.next(i.head);
  const auto next = by_start_.find(format_.start_of(offset_of(w)));
  if (offset_of(w) == 0 || (w & cell) != 0 || next == by_start_.end()) return false;
  const item& n = items_[next->second];
  return !n.linked && is_candidate(n) && n.holds && n.head == offset_of(w) &&
         format_.order(n.head) >= format_.order(i.head);
}

// ---- volatile links ----

// The newer node of a replacement that a crash has cut; nullptr: neither replaces the other.
const structure_reader::candidate* structure_reader::newer(const candidate& a, const candidate& b) const noexcept {
  const unsigned one = seal::version_of(format_.seal(a.of->head));
  const unsigned other = seal::version_of(format_.seal(b.of->head));
  if (other == seal::next_version(one)) return &b;
  return one == seal::next_version(other) ? &a : nullptr;
}

void structure_reader::list_sealed() {
  for (const item& i : items_) {
    if (i.holds) sealed_.emplace(format_.order(i.head), format_.seal(i.head));
  }
}
// A seal covers its place, and no two places have nodes with the same seal: this node was copied.
bool structure_reader::is_copy(const item& i) const {
  return !i.holds && sealed_.contains({format_.order(i.head), format_.seal(i.head)});
}

// Looks for damage that makes an open fail, or that the check finds after it.
void structure_reader::look_for_twins() {
  list_sealed();
  const auto copy = std::find_if(items_.begin(), items_.end(), [&](const item& i) { return is_copy(i); });
  if (copy != items_.end()) {
    copied_place_ = copy->head;
    broken("a node is a copy of one that lies elsewhere", copied_place_);
  }
  std::vector<const item*> live;
  for (const item& i : items_) {
    if (i.holds) live.push_back(&i);
    if (i.holds && (!format_.fits(i.head, room_after(i)) || !format_.sum_holds(i.head))) {
      broken("an entry fails its checksum", i.head);
    }
    if (i.holds && !format_.order_holds(i.head)) broken("the order of a node is not that of its key", i.head);
  }
  std::sort(live.begin(), live.end(), [&](const item* a, const item* b) {
    return std::pair{format_.order(a->head), a->head} < std::pair{format_.order(b->head), b->head};
  });
  for (std::size_t i = 1; i < live.size(); ++i) {
    if (format_.order(live[i]->head) != format_.order(live[i - 1]->head)) continue;
    const candidate a{format_.key(live[i - 1]->head), live[i - 1]};
    const candidate b{format_.key(live[i]->head), live[i]};
    if (a.key == b.key && newer(a, b) == nullptr) broken("two nodes have the same key", live[i]->head);
  }
  if (about_.had && live.size() != *about_.had) {
    broken("it has another number of entries than when the pool was closed", about_.root);
  }
}

// Whether a node whose seal says `live` is an entry.  If the seal does not hold, a crash may have mixed two lives of
// the place, unless the pool was closed.
bool structure_reader::is_sealed_entry(item& i) const noexcept {
  if (i.holds) return format_.order_holds(i.head);
  const bool nothing_proves =
      !format_.is_seed_known && !format_.has_skip_levels() && !(format_.of_bytes && format_.with_sums);
  i.is_torn = nothing_proves || format_.own_sum_holds(i.head, room_after(i));
  return i.is_torn && (active_.is_at_rest || about_.had) && format_.order_holds(i.head);
}

// ---- the entries ----

void structure_reader::keep(const candidate& c, structure_contents& out) {
  out.entries.push_back({c.key, format_.value(c.of->head), format_.mark(c.of->head)});
  const bool has_sure_key = format_.of_bytes || format_.kind != lockfree::layout::kind::hash || format_.is_seed_known;
  const bool is_proved = (format_.with_sums || format_.is_sealed) && has_sure_key && !c.of->is_torn;
  out.unproved += is_proved ? 0 : 1;
  const bool holds = format_.fits(c.of->head, room_after(*c.of)) && format_.order_holds(c.of->head) &&
                     (!format_.with_sums || c.of->is_torn || format_.sum_holds(c.of->head));
  if (c.of->is_doubtful) {
    out.faults.push_back({mending::kept, c.of->head, true, c.key, "its link is damaged; it may have been removed"});
  }
  if (!holds) {
    out.faults.push_back(
        {mending::kept, c.of->head, true, c.key, "an entry fails its checksum; a look-up finds it, and it stays"});
  }
}

const structure_reader::candidate& structure_reader::newest(std::span<const candidate> same,
                                                            bool& is_sure) const noexcept {
  const candidate* best = &same.front();
  for (const candidate& c : same.subspan(1)) {
    if (c.of->holds != best->of->holds) {
      if (c.of->holds) best = &c;
      continue;
    }
    const candidate* const later = newer(*best, c);
    is_sure = is_sure && later != nullptr;
    if (later != nullptr) best = later;
  }
  return *best;
}
const structure_reader::candidate& structure_reader::found_of(std::span<const candidate> same, bool& is_sure) {
  const std::uint64_t found = find(same.front().key);
  const auto is_found = [&](const candidate& c) { return c.of->head == found; };
  const auto is_linked = [](const candidate& c) { return c.of->linked; };
  auto it = std::find_if(same.begin(), same.end(), is_found);
  is_sure = it != same.end();
  if (!is_sure) it = std::find_if(same.begin(), same.end(), is_linked);
  return it == same.end() ? same.front() : *it;
}
// Whether its place is allocated, and no thread was at work there.
bool structure_reader::had_entry(const item& i) const noexcept {
  return !format_.is_sealed && i.allocated && !i.fresh && !i.is_guessed;
}
// A structure has two nodes of a key for a moment only: where no thread was at work, another entry was in one of their
// places.
void structure_reader::count_overwritten(std::span<const candidate> same, const candidate& kept,
                                         structure_contents& out) const {
  for (const candidate& c : same) {
    if (&c == &kept) continue;
    if (format_.is_sealed) {
      out.uncertain += is_copy(*c.of) ? 1 : 0;
    } else if (c.of->is_guessed) {
      ++out.uncertain;
    } else if (!format_.is_tree() && (c.of->linked || had_entry(*c.of))) {
      ++out.unreadable;  // in a tree count_of_tree() misses them
    }
  }
}

void structure_reader::choose(std::span<const candidate> same, structure_contents& out) {
  if (same.size() == 1) return keep(same.front(), out);
  bool is_sure = true;
  const candidate& best = format_.is_sealed ? newest(same, is_sure) : found_of(same, is_sure);
  keep(best, out);
  count_overwritten(same, best, out);
  const auto has_same_value = [&](const candidate& c) {
    return format_.value(c.of->head) == format_.value(best.of->head);
  };
  if (!is_sure && !std::all_of(same.begin(), same.end(), has_same_value)) {
    out.faults.push_back(
        {mending::kept, best.of->head, true, best.key, "two nodes have its key; which is newer is not known"});
  }
}

// Whether a node that was linked leads there.
bool structure_reader::is_missed(const item& i) {
  count_leads();
  return i.head != 0 && !format_.is_tree() && leads_to(i.head) != 0;
}

bool structure_reader::has_readable_key(const item& i) const noexcept {
  if (i.head == 0 || room_after(i) < format_.node_bytes() || looks_empty(i)) return false;
  if (!format_.of_bytes) return format_.kind != lockfree::layout::kind::hash || format_.is_seed_known;
  return format_.fits_in(i.head, room_after(i)) && format_.order_holds(i.head) &&
         (format_.kind != lockfree::layout::kind::hash || format_.is_seed_known);
}

void structure_reader::tell_lost(const item& i, const std::set<std::string>& kept, structure_contents& out) {
  if (!has_readable_key(i)) {
    out.unreadable += format_.is_tree() ? 0 : 1;
    return;
  }
  std::string key = format_.key(i.head);
  if (kept.contains(key)) {
    out.unreadable += !format_.is_tree() && had_entry(i) ? 1 : 0;
    return;
  }
  const char* const what = i.gone    ? "it bears the mark of what was removed"
                           : i.holds ? "nothing leads to it, and it may not have been linked"
                                     : "an entry fails its checksum";
  out.faults.push_back({mending::lost, i.head, true, std::move(key), what});
}

// Leaves are one more than branches.
void structure_reader::count_of_tree(structure_contents& out) const {
  std::uint64_t nodes = 0;
  std::uint64_t others = out.entries.size();
  for (const item& i : items_) {
    if (i.fresh || i.is_guessed) return;
    nodes += i.allocated ? 1 : 0;
    others += i.linked && i.gone && !is_marked_in_vain(i) ? 1 : 0;
  }
  for (const structure_contents::fault& f : out.faults) others += f.how == mending::lost ? 1 : 0;
  const std::uint64_t leaves = (nodes + 1) / 2;
  out.unreadable += leaves > others ? leaves - others : 0;
}

// Counts entries without a trace: their places are zero, or hold something else.
void structure_reader::count_missing(std::uint64_t had, structure_contents& out) {
  std::uint64_t known = out.entries.size() + out.unreadable + out.uncertain;
  for (const structure_contents::fault& f : out.faults) known += f.how == mending::lost ? 1 : 0;
  out.unreadable += had > known ? had - known : 0;
}

structure_contents structure_reader::contents() {
  structure_contents out;
  // Without its seed a hash of words gives no key, and nodes of several levels cannot be recognised.
  const bool needs_seed = !format_.of_bytes && format_.is_sealed && format_.kind != lockfree::layout::kind::list;
  out.is_unknown = format_.kind == lockfree::layout::kind::none || (needs_seed && !format_.is_seed_known);
  if (out.is_unknown) return out;
  std::vector<candidate> all;
  std::vector<const item*> others;
  for (item& i : items_) {
    if (format_.is_sealed ? is_sealed_entry(i) : is_entry(i)) {
      all.push_back({format_.key(i.head), &i});
    } else if (format_.is_sealed && is_copy(i)) {
      ++out.uncertain;
    } else if (format_.is_sealed) {
      // A node of several levels may begin at several places, of which only one counts.
      if (active_.is_at_rest && !format_.has_skip_levels()) others.push_back(&i);
    } else if (is_marked_in_vain(i) || (active_.is_at_rest && i.gone && !i.linked && had_entry(i))) {
      others.push_back(&i);
    } else if (i.gone || i.is_branch || (!i.linked && !i.allocated) || (!i.linked && i.fresh && !i.holds)) {
      continue;
    } else if (i.linked && !looks_empty(i) && format_.fits_in(i.head, room_after(i)) &&
               find(format_.key(i.head)) == i.head) {
      all.push_back({format_.key(i.head), &i});
    } else if (!i.linked && i.is_guessed && !is_missed(i)) {
      ++out.uncertain;
    } else if (!i.linked && i.fresh && looks_empty(i)) {
      continue;
    } else {
      others.push_back(&i);
    }
  }
  std::sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) {
    return a.key != b.key ? a.key < b.key : a.of->head < b.of->head;
  });
  std::set<std::string> kept;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && all[end].key == all[i].key) ++end;
    choose({all.data() + i, end - i}, out);
    if (!others.empty()) kept.insert(all[i].key);
    i = end;
  }
  for (const item* i : others) tell_lost(*i, kept, out);
  if (format_.is_tree()) count_of_tree(out);
  if (about_.had) count_missing(*about_.had, out);
  out.is_unknown = items_.empty() && about_.root == 0;
  return out;
}

}  // namespace nvm::care
