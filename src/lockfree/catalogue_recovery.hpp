// The part of catalogue.hpp that looks at the nodes of active areas after a crash, in parallel, and frees what nothing
// leads to; included by that.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <tuple>
#include <vector>

#include "lockfree/catalogue.hpp"

namespace nvm::lockfree {

// ---- from the beginning to the end ----

template <media M>
template <class StructureOf>
status catalogue<M>::begin_recovery(recovery& r, StructureOf&& structure_of, recovery_method method) noexcept try {
  r.method = method;
  if (!exists()) return {};
  r.shift = area_shift();
  each_table_word([&](std::uint64_t, std::uint64_t content) {
    const std::uint16_t owner = layout::owner_of_word(content);
    structure* s = structure_of(owner);
    if (s == nullptr) return;
    r.areas.push_back({layout::area_of_word(content), owner, layout::is_unlinked_only(content), s});
  });
  // Of the threads listed for one area, one that allocated there comes first.
  std::sort(r.areas.begin(), r.areas.end(), [](const auto& a, const auto& b) {
    return std::tie(a.owner, a.number, a.unlinked_only) < std::tie(b.owner, b.number, b.unlinked_only);
  });
  r.areas.erase(std::unique(r.areas.begin(), r.areas.end(),
                            [](const auto& a, const auto& b) { return a.owner == b.owner && a.number == b.number; }),
                r.areas.end());
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the recovery of lock-free structures");
}

template <media M>
void catalogue<M>::recover_part(recovery& r) noexcept try {
  part p{r};
  for (;;) {
    const std::size_t first = r.next.fetch_add(areas_at_once, std::memory_order_relaxed);
    if (first >= r.areas.size()) break;
    const std::size_t end = std::min(first + areas_at_once, r.areas.size());
    // Memory is waited for once for all of them: for their words, and for their nodes.
    for (std::size_t i = first; i < end; ++i) r.areas[i].of->prefetch_words(r.areas[i].number << r.shift);
    for (std::size_t i = first; i < end; ++i) {
      const auto& a = r.areas[i];
      if (!traverses(r, *a.of)) {
        list_area(p, a);
      } else if (i == 0 || r.areas[i - 1].of != a.of) {
        // One pass over the structure serves all of its areas: the first of them stands for the rest.
        traverse(r, i, p.dead, p.allocated);
      }
      if (looks_at_caches()) a.of->write_back_words(a.number << r.shift, (a.number + 1) << r.shift);
    }
    look_at_listed(p);
  }
  search_for(p);
  if (looks_at_caches()) {
    // A node without a mark was never linked.
    for (const auto& d : p.dead) {
      if (d.of->bears_mark(d.offset, d.bytes)) d.of->write_back_links(d.offset, d.bytes);
    }
    medium_.fence(edge{"lockfree/E26"});
  }
  r.allocated.fetch_add(p.allocated, std::memory_order_relaxed);
  r.searched.fetch_add(p.searched, std::memory_order_relaxed);
  const std::lock_guard guard{r.lock};
  r.dead.insert(r.dead.end(), p.dead.begin(), p.dead.end());
} catch (const std::bad_alloc&) {
  r.out_of_memory.store(true, std::memory_order_relaxed);
}

template <media M>
status catalogue<M>::check_recovery(const recovery& r) const noexcept {
  if (r.out_of_memory.load(std::memory_order_relaxed)) {
    return fail(errc::no_memory, "no volatile memory for the recovery of lock-free structures");
  }
  for (const auto& a : r.areas) {
    if (a.of->is_damaged()) {
      return fail(errc::corrupt, "lock-free structure %u: a link leads where no node can be; nothing was freed",
                  a.owner);
    }
  }
  return {};
}

template <media M>
template <class Tell>
void catalogue<M>::tell_lost(const recovery& r, Tell&& tell) const {
  std::vector<std::pair<std::uint64_t, const node_head*>> whole;
  for (const dead_node& d : r.dead) {
    const node_head* n = d.of->whole_at(d.offset, d.bytes);
    if (n != nullptr) whole.emplace_back(offset_in_pool(n), n);
  }
  std::sort(whole.begin(), whole.end());
  const auto at_place = [&](std::uint64_t place) {
    const auto at =
        std::lower_bound(whole.begin(), whole.end(), std::pair<std::uint64_t, const node_head*>{place, nullptr});
    return at != whole.end() && at->first == place ? at->second : nullptr;
  };
  bool told = false;
  for (const auto& [place, n] : whole) {
    const node_head* next = at_place(offset_of(n->next.load()));
    if (next == nullptr || next->order < n->order) continue;
    tell(place, "nodes that were linked, and nothing leads there");
    told = true;
  }
  if (!told && whole.size() > unlinked_a_thread * (threads_known() + 1)) {
    tell(whole.front().first, "more nodes that nothing leads to than threads can have been about to link");
  }
}

template <media M>
template <class Settle>
status catalogue<M>::end_recovery(recovery& r, recovery_report& report, Settle&& settle) noexcept {
  bool detached = false;
  for (const dead_node& d : r.dead) detached = d.of->detach(d.offset, d.bytes) || detached;
  if (detached) medium_.fence(edge{"lockfree/E24"});
  for (const dead_node& d : r.dead) d.of->wipe_unlinked(d.offset, d.bytes);
  free_all(r.dead);
  medium_.fence(edge{"lockfree/E18"});
  if (status s = settle(); !s) return s;
  if (exists()) {
    clear_tables();
    clear_tallies();
    medium_.fence(edge{"lockfree/E19"});
  }
  report.areas = r.areas.size();
  report.allocated = r.allocated.load(std::memory_order_relaxed);
  report.searched = r.searched.load(std::memory_order_relaxed);
  report.freed = r.dead.size();
  return {};
}

// ---- by looking for each node (section 5.5, first method) ----

template <media M>
void catalogue<M>::list_area(part& p, const typename recovery::area& a) {
  const std::size_t begin = p.nodes.size();
  p.areas.push_back({a.of, a.unlinked_only, begin});
  a.of->each_allocated(a.number << p.r.shift, (a.number + 1) << p.r.shift, &p,
                       [](void* raw, std::uint64_t offset, std::uint64_t bytes) {
                         auto& in = *static_cast<part*>(raw);
                         keep(in.r, in.nodes, {offset, bytes});
                       });
  for (std::size_t i = begin; i < p.nodes.size(); ++i) __builtin_prefetch(base_ + p.nodes[i].offset);
}

template <media M>
void catalogue<M>::look_at_listed(part& p) {
  p.allocated += p.nodes.size();
  for (std::size_t i = 0; i < p.areas.size(); ++i) {
    const listed_area& a = p.areas[i];
    const std::size_t end = i + 1 == p.areas.size() ? p.nodes.size() : p.areas[i + 1].begin;
    if (p.of != a.of || p.candidates.size() >= candidates_at_once) search_for(p);
    p.of = a.of;
    for (std::size_t n = a.begin; n < end; ++n) {
      const structure::candidate& c = p.nodes[n];
      // Where nodes were only unlinked, a node without a mark is linked, durably.
      if (!a.unlinked_only || a.of->bears_mark(c.offset, c.bytes)) p.candidates.push_back(c);
    }
  }
  p.areas.clear();
  p.nodes.clear();
}

template <media M>
void catalogue<M>::search_for(part& p) {
  if (p.candidates.empty()) return;
  p.searched += p.candidates.size();
  p.of->look_for(p.candidates);
  for (const structure::candidate& c : p.candidates) {
    if (c.linked) {
      if (!p.of->note_linked(c.offset, c.bytes, c.by)) p.r.out_of_memory.store(true, std::memory_order_relaxed);
      write_back_linked(*p.of, c.offset, c.bytes, c.by);
    } else {
      p.dead.push_back({p.of, c.offset, c.bytes});
    }
  }
  p.candidates.clear();
}

// ---- by traversal (second method) ----

template <media M>
void catalogue<M>::traverse(recovery& r, std::size_t first, std::vector<dead_node>& dead,
                            std::uint64_t& allocated) noexcept {
  structure* const of = r.areas[first].of;
  std::size_t end = first;
  while (end < r.areas.size() && r.areas[end].of == of) ++end;
  struct closure {
    catalogue* self;
    recovery& r;
    std::size_t first, end;
    structure* of;
    std::vector<linked_node> linked;
    std::vector<dead_node>& dead;
    std::uint64_t& allocated;
  } k{this, r, first, end, of, {}, dead, allocated};
  const bool all = of->each_linked(&k, [](void* raw, std::uint64_t offset, const link* by) {
    auto& in = *static_cast<closure*>(raw);
    const auto begin = in.r.areas.begin();
    const auto found =
        std::lower_bound(begin + static_cast<std::ptrdiff_t>(in.first), begin + static_cast<std::ptrdiff_t>(in.end),
                         offset >> in.r.shift, [](const auto& a, std::uint64_t number) { return a.number < number; });
    if (found != begin + static_cast<std::ptrdiff_t>(in.end) && found->number == offset >> in.r.shift) {
      keep(in.r, in.linked, {offset, by});
      if (in.self->looks_at_caches() && by != nullptr) in.self->medium_.flush(by, sizeof *by);
    }
  });
  if (!all) r.out_of_memory.store(true, std::memory_order_relaxed);
  std::sort(k.linked.begin(), k.linked.end());
  for (std::size_t i = first; i < end; ++i) {
    of->each_allocated(r.areas[i].number << r.shift, (r.areas[i].number + 1) << r.shift, &k,
                       [](void* raw, std::uint64_t offset, std::uint64_t bytes) {
                         auto& in = *static_cast<closure*>(raw);
                         ++in.allocated;
                         const auto at = std::lower_bound(in.linked.begin(), in.linked.end(), linked_node{offset});
                         if (at != in.linked.end() && at->offset == offset) {
                           if (!in.of->note_linked(offset, bytes, at->by)) {
                             in.r.out_of_memory.store(true, std::memory_order_relaxed);
                           }
                           in.self->write_back_linked(*in.of, offset, bytes, nullptr);
                         } else {
                           keep(in.r, in.dead, {in.of, offset, bytes});
                         }
                       });
  }
}

template <media M>
void catalogue<M>::free_all(const std::vector<dead_node>& dead) noexcept {
  std::array<std::uint64_t, 256> some;
  for (std::size_t i = 0; i < dead.size();) {
    std::size_t count = 0;
    structure* const of = dead[i].of;
    for (; i < dead.size() && dead[i].of == of && count < some.size(); ++i) some[count++] = dead[i].offset;
    of->free_unlinked({some.data(), count});
  }
}

}  // namespace nvm::lockfree
