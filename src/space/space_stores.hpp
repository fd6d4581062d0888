// The part of `space` that works on object stores; included by space.hpp, which says how it all hangs together.
//
// A store's objects, runs and extents are handled like all others; they differ in where a page's entry lies, in the map
// of its cluster, and in where pages come from.  A store is in no transaction's way: growth and shrinking are durable
// when they return, whatever becomes of the transaction that asked.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
/// Created (tx/): 1. S header, F it, with the transaction's fresh memory; intent: page map entry.  The transaction's
///                   commit point is the store's.
/// Longer in place, over free pages:
///   1. settle_all() the tags of the pages; S page map entry of the cluster, longer; F it
///                                                       | store/E1  the pages are the store's before an entry of the
///                                                                   cluster's map names them
/// A new cluster:
///   1. settle_all() the tags of its pages; S header: map empty, next = head; S in_work = its place; F both
///                                                       | store/E2  it can be found, and read, before it exists
///   2. S page map entry; F it                           | store/E3  it exists before the list leads there
///   3. S head = its place; F it                         | store/E4  the list has it before in_work leads elsewhere,
///                                                                   and before anything is in it
/// Extents in it: as elsewhere (space/E1, E2).  When empty: settle_all() their tags;
///   1. S entry 0; F it                                  | store/E5  its pages may get another use
/// A cluster that is empty, taken out:
///   1. S in_work = its place; F it                      | store/E6  it can be found before no list leads there
///   2. S the link that leads to it = its next; F it     | store/E7  no list leads there before it is gone
///   3. settle_all() the tags of its pages; S page map entry 0; F it
///                                                       | store/E8  its pages may get another use
/// Shorter: 1. settle_all() the tags of the pages; S page map entry; F it
///                                                       | store/E9  its last pages may get another use
/// Attached after the pool was not closed:
///   1. F the headers                                    | store/E10 a process that was killed may have left words of
///                                                                   them in caches only: what acts on them comes after
///   2. of the cluster at in_work, if the page map has it, it is this store's and no list leads there:
///      S page map entry 0; F it                         | store/E11 its pages may get another use
/// Recovery of lanes needs no store to be read; this is all that is left, and attach() does it, as does make_whole()
/// before a store is freed.  Repeatable: a cluster in no list is empty, by store/E4 and E6.
//
// Hazards of replay, beside those of space.hpp.  A page's tag stands for its word in the page map or in the map of its
// cluster: whichever the page has now.  So both are settled when a page comes to a cluster and when it goes.  A page
// map entry that a transaction made for a store page is settled when the store is attached: recovery checks the intents
// of all lanes before it makes any, and those inside a cluster only once the page map has it.
#pragma once

#include <algorithm>
#include <vector>

#include "space/cluster_image.hpp"
#include "space/space.hpp"

namespace nvm {

// ---- small things --------------------------------------------------------------------------------------------------

template <media M, log::settler S>
void space<M, S>::settle_pages(std::uint64_t page, std::uint64_t count) noexcept {
  for (std::uint64_t p = page; p < page + count; ++p) {
    const log::tag t = index_.states.tag(p);
    if (t.none()) continue;
    settler_.settle_all(t);
    index_.states.set_tag(p, {});
  }
}

template <media M, log::settler S>
void space<M, S>::settle_everything() noexcept {
  // Where lanes are replayed one by one, only words are replayed, and their tags are settled one by one.
  if constexpr (S::ordered) settler_.settle_all(log::tag::make(0, (std::uint64_t{1} << 52) - 1));
}

template <media M, log::settler S>
void space<M, S>::put_link(link_word at, std::uint64_t to) noexcept {
  auto* const word = reinterpret_cast<std::uint64_t*>(base_ + at);
  bring_first(word);
  // release: as page_map::store().
  std::atomic_ref<std::uint64_t>{*word}.store(seal_word(to, word_seed(at)), std::memory_order_release);
  medium_.flush(word, 8);
}

template <media M, log::settler S>
result<std::uint64_t> space<M, S>::entry_in_store(unsigned place, std::uint64_t page) noexcept {
  open_store* s = index_.stores.at(place);
  const auto c = s == nullptr ? std::nullopt : s->cluster_with(page);
  if (!c) return no_object(index_.sizes().page_offset(page));
  return c->entry_offset(index_.sizes(), page);
}

template <media M, log::settler S>
std::uint64_t space<M, S>::cluster_holding(std::uint64_t offset) const noexcept {
  const geometry g = sizes_now();
  if (!g.in_data(offset, 1)) return 0;
  const std::uint64_t head = index_.cluster_around(g.page_of(offset));
  return head == no_cluster ? 0 : g.page_offset(head);
}

template <media M, log::settler S>
open_store* space<M, S>::attached_at(std::uint64_t offset) noexcept {
  const std::uint64_t head = cluster_holding(offset);
  if (head == 0) return nullptr;
  const page_state s = index_.states.get(index_.sizes().page_of(head));
  return s.what() == page_state::type::cluster ? index_.stores.at(s.store()) : nullptr;
}

// ---- objects -------------------------------------------------------------------------------------------------------

template <media M, log::settler S>
bool space<M, S>::begin_to_stay(stores_stay& stay) noexcept {
  if (stay.owns_lock()) return false;
  stay = stores_stay{index_.detaching};
  return true;
}

template <media M, log::settler S>
result<bool> space<M, S>::look_up_in_store(std::uint64_t page, std::uint64_t offset) noexcept {
  const std::uint64_t head = index_.cluster_around(page);
  if (head == no_cluster) return false;
  const page_state s = index_.states.get(head);
  // A store that is being detached has given its arena up, though its clusters keep their states a while; the pages of
  // one that is being attached may be inaccessible yet.
  if (s.what() != page_state::type::cluster || !index_.stores.at(s.store())->is_open()) {
    return fail(errc::bad_pointer, "offset %lu lies in a store that is not attached: in its cluster at offset %lu",
                offset, index_.sizes().page_offset(head));
  }
  return index_.look_up_in(*index_.stores.at(s.store()), page);
}

template <media M, log::settler S>
auto space<M, S>::find_around_in_store(std::uint64_t page, std::uint64_t offset, layout::object_layout l,
                                       stores_stay& stay) noexcept -> result<object> {
  (void)begin_to_stay(stay);
  const auto known = look_up_in_store(page, offset);
  if (!known) return known.error();
  std::uint64_t head = page;
  // An extent that has only now been indexed.
  if (state_at(head).is_extent()) return find_around(offset, l, stay);
  const std::uint64_t cluster_page = index_.cluster_around(page);
  if (cluster_page == no_cluster) return no_object(offset);
  const unsigned place = index_.states.get(cluster_page).store();
  open_store* s = place == 0 ? nullptr : index_.stores.at(place);
  const auto begin = s == nullptr ? std::nullopt : s->head_of(page);
  if (!begin) return no_object(offset);
  auto found = find(index_.sizes().page_offset(*begin), l, stay);
  if (found && offset - found->offset >= found->bytes) return no_object(offset);
  return found;
}

template <media M, log::settler S>
auto space<M, S>::reserve_in(const store_attachment& in, unsigned lane, std::uint64_t bytes,
                             layout::object_layout l) noexcept -> result<reservation> {
  return reserve_from(store_room{*this, in, lane}, lane, bytes, l);
}

template <media M, log::settler S>
auto space<M, S>::store_room::run(std::uint64_t count, layout::object_layout l) const noexcept -> result<reservation> {
  arena* const a = in.index_.arena_at(arena_number());
  if (a == nullptr) return fail(errc::no_memory, "no volatile memory for an arena");
  {
    const biased_lock::guard guard{a->lock, space_index::name_of(lane)};
    if (!is_there()) return refuse();
    begin_work();
  }
  auto r = in.reserve_run_in(*at.store, lane, count, l);
  at.store->end_work();
  return r;
}

template <media M, log::settler S>
auto space<M, S>::reserve_run_in(open_store& store, unsigned lane, std::uint64_t count,
                                 layout::object_layout l) noexcept -> result<reservation> {
  const geometry& g = index_.sizes();
  const auto page = take_pages_in(store, lane, count, false);
  if (!page) return page.error();
  settler_.settle(index_.states.tag(*page), lane);
  {
    const std::lock_guard guard{index_.states.lock_of(*page)};
    index_.states.set(*page, page_state::run(count, l, true, store.place()));
  }
  const auto at = entry_in_store(store.place(), *page);
  NVM_ASSERT(at);
  const layout::page_entry e{static_cast<std::uint32_t>(count), 0, page_kind::run, l,
                             layout::slot_protocol::transactional};
  return reservation{g.page_offset(*page), count << g.page_shift,
                     log::intent::make(log::intent_op::set_entry, *at, 0, seal_word(layout::pack(e), word_seed(*at))),
                     nullptr, runs_freed_.load(std::memory_order_acquire)};
}

template <media M, log::settler S>
void space<M, S>::release_run_in(unsigned place, std::uint64_t page, std::uint64_t pages) noexcept {
  note_freed();
  index_.stores.at(place)->give(page, pages);
}

template <media M, log::settler S>
auto space<M, S>::reserve_cluster(unsigned lane, std::uint64_t pages) noexcept -> result<reservation> {
  auto r = reserve_run(lane, pages, layout::object_layout::raw);
  if (!r) return r;
  const std::uint64_t page = index_.sizes().page_of(r->offset);
  // From here on their tags stand for words of the cluster's map.
  settle_pages(page, pages);
  index_.of_stores.add(page, pages);
  r->set.value = index_.map.seal(page, layout::cluster_entry(pages));
  return r;
}

// Its state is from now on that of a run, until the transaction ends and a store is attached there.
template <media M, log::settler S>
auto space<M, S>::find_cluster(std::uint64_t offset) noexcept -> result<object> {
  const geometry g = sizes_now();
  if (!g.in_data(offset, g.page_bytes()) || (offset - g.data_offset) % g.page_bytes() != 0) {
    return fail(errc::bad_pointer, "offset %lu is no page of the pool", offset);
  }
  const std::uint64_t page = g.page_of(offset);
  const std::uint64_t word = index_.map.load(page);
  layout::page_entry e;
  if (entry_fault(word, page, g, g.size_pages, e) != nullptr || e.kind != page_kind::cluster) {
    return fail(errc::bad_pointer, "no cluster begins at offset %lu", offset);
  }
  const std::lock_guard guard{index_.states.lock_of(page)};
  const page_state s = index_.states.get(page);
  const page_state wanted = page_state::run(e.length_pages, layout::object_layout::raw, false);
  if (s.code() == 0) {
    index_.states.set(page, wanted);
  } else if (s.code() != wanted.code()) {
    return fail(errc::busy, "cluster at offset %lu is of an attached store, or is being freed", offset);
  }
  return object{offset, std::uint64_t{e.length_pages} << g.page_shift,
                log::intent::make(log::intent_op::clear_entry, g.entry_offset(page), 0), false};
}

// ---- room in a store -----------------------------------------------------------------------------------------------

template <media M, log::settler S>
status space<M, S>::refill_in(open_store& store, unsigned lane, unsigned set, unsigned count) noexcept {
  constexpr unsigned indexed_per_miss = 8;
  const unsigned who = space_index::name_of(lane);
  if (index_.index_in(store, set, count, indexed_per_miss, who)) return {};
  status s = new_extent_in(store, lane, set);
  if (s || s.error() == errc::no_memory) return s;
  // The store may not grow: room that is not indexed yet, and the pages of extents that are empty.
  if (index_.index_in(store, set, count, ~0U, who)) return {};
  for (unsigned other = 0; other < slot_sets; ++other) (void)index_.index_in(store, other, 1, ~0U, who);
  (void)trim_extents(store);
  return new_extent_in(store, lane, set);
}

template <media M, log::settler S>
status space<M, S>::new_extent_in(open_store& store, unsigned lane, unsigned set) noexcept {
  const unsigned who = space_index::name_of(lane);
  const page_kind kind = kind_of_set(set);
  const layout::extent_shape& s = index_.shape(kind);
  extent* e = index_.descriptors(kind).get();
  if (e == nullptr) return fail(errc::no_memory, "no volatile memory for the descriptor of an extent");
  const std::uint64_t count = s.bytes >> index_.sizes().page_shift;
  const auto page = take_pages_in(store, lane, count, kind == page_kind::coarse);
  if (!page) {
    index_.descriptors(kind).put(e);
    return page.error();
  }
  e->make_empty(layout_of_set(set), s);
  index_.name(*e, *page, store.arena(), who);
  {
    // As in new_extent().
    const std::lock_guard guard{index_.states.lock_of(*page)};
    index_.states.set(*page, page_state::of(*e));
  }
  const auto at = entry_in_store(store.place(), *page);
  NVM_ASSERT(at);
  lay_extent(*page,
             {static_cast<std::uint32_t>(count), 0, kind, layout_of_set(set), layout::slot_protocol::transactional},
             *at, 0);
  index_.file(*e, 0, who);
  return {};
}

template <media M, log::settler S>
auto space<M, S>::take_pages_in(open_store& store, unsigned lane, std::uint64_t count, bool aligned) noexcept
    -> result<std::uint64_t> {
  for (bool trimmed = false;;) {
    {
      const std::lock_guard guard{store.pages};
      if (const auto page = store.take(count, aligned)) return *page;
    }
    const status grown = grow_store(store, lane, count, aligned);
    if (grown) continue;
    // Other stores may have what this one wants, and empty extents of the pool that nobody has looked at.
    if (trimmed || grown.error() != errc::no_space) return grown.error();
    const bool more = trim_stores();
    if (!(quota_left(store) >= count && index_.index_everything() && trim()) && !more) return grown.error();
    trimmed = true;
  }
}

// Pages that its quota lets it have yet.
template <media M, log::settler S>
std::uint64_t space<M, S>::quota_left(const open_store& store) const noexcept {
  const std::uint64_t quota =
      link(cluster_word_at(index_.sizes(), store.page(), offsetof(layout::cluster_header, quota_pages)));
  const std::uint64_t may_have = quota == 0 ? index_.sizes().capacity_pages : quota;
  const std::uint64_t has = store.pages_now();
  return may_have > has ? may_have - has : 0;
}

// Makes room for `count` pages, unless there is some.
template <media M, log::settler S>
status space<M, S>::grow_store(open_store& store, unsigned lane, std::uint64_t count, bool aligned) noexcept {
  const std::lock_guard guard{store.growing};
  {
    const std::lock_guard pages{store.pages};
    if (store.fits(count, aligned)) return {};
  }
  const std::uint64_t more = quota_left(store);
  if (grow_in_place(store, count, aligned, more)) return {};
  // So that there are as many at a multiple of 8, wherever the cluster begins.
  const std::uint64_t least =
      layout::cluster_pages_for(count + (aligned ? layout::extent_align_pages - 1 : 0), index_.sizes().page_shift);
  if (least > more) {
    return fail(errc::no_space, "store %u has %lu pages and may have %lu by its quota; %lu more wanted", store.number(),
                store.pages_now(), store.pages_now() + more, least);
  }
  return add_cluster(store, lane, least, more);
}

// ---- growth --------------------------------------------------------------------------------------------------------

// False: no cluster can have enough of the pages after it.
template <media M, log::settler S>
bool space<M, S>::grow_in_place(open_store& store, std::uint64_t count, bool aligned, std::uint64_t may_have) noexcept {
  const geometry& g = index_.sizes();
  // `growing` is held: no other thread adds or removes clusters.
  for (cluster_pages& pages : store.clusters()) {
    cluster c;
    std::uint64_t free_at_end = 0;
    {
      const std::lock_guard guard{store.pages};
      c = pages.what();
      free_at_end = pages.trailing_free();
    }
    const std::uint64_t from = round_up(c.end() - free_at_end, aligned ? layout::extent_align_pages : 1);
    const std::uint64_t least = from + count - c.end();
    const std::uint64_t most = std::min(c.room - c.pages, may_have);
    if (least > most) continue;
    std::uint64_t by = std::clamp(std::min<std::uint64_t>(c.pages, layout::cluster_room_min), least, most);
    if (!has_spare(by, kept_for_logs_) || !take_here(c.end(), by)) {
      by = least;
      if (!has_spare(by, kept_for_logs_) || !take_here(c.end(), by)) continue;
    }
    platform::memory_watch::accessible(base_ + g.page_offset(c.end()), by << g.page_shift);
    settle_pages(c.end(), by);
    index_.of_stores.add(c.end(), by);
    enter(c.page, layout::cluster_entry(c.pages + by));
    medium_.fence(edge{"store/E1"});
    tell_came(c.end(), by);
    const std::lock_guard guard{store.pages};
    store.resize(pages, c.pages + by);
    return true;
  }
  return false;
}

template <media M, log::settler S>
status space<M, S>::add_cluster(open_store& store, unsigned lane, std::uint64_t least,
                                std::uint64_t may_have) noexcept {
  const geometry& g = index_.sizes();
  constexpr std::uint64_t chunk = 64;
  // Sizes double up to a chunk; a large store grows by an eighth.
  constexpr std::uint64_t share_max = 8192;
  const std::uint64_t has = store.pages_now();
  const std::uint64_t wanted = std::max(std::min(has, chunk), std::min(has / 8, share_max));
  std::uint64_t size = std::clamp(wanted, least, std::max(least, may_have));
  auto page = take_pages(index_.arena_number(lane), page_use::run, size, false);
  if (!page && size != least) {
    size = least;
    page = take_pages(index_.arena_number(lane), page_use::run, size, false);
  }
  if (!page) return page.error();
  const std::uint64_t store_page = g.page_offset(store.page());
  const link_word head = store_page + offsetof(layout::cluster_header, head);
  cluster c{.page = *page, .pages = size, .next = link(head), .number = store.number()};
  c.header_pages = layout::cluster_header_pages(size, g.page_shift);
  c.room = layout::cluster_room_for(size, c.header_pages, g.page_shift);
  if (status s = store.prepare_to_add(c); !s) {
    give_pages(c.page, size);
    return s;
  }
  settle_freed_runs();
  settle_pages(c.page, size);
  index_.of_stores.add(c.page, size);
  const std::uint64_t place = g.page_offset(c.page);
  medium_.flush(base_ + place, write_cluster_header(base_, g, c));
  put_link(store_page + offsetof(layout::cluster_header, in_work), place);
  medium_.fence(edge{"store/E2"});
  {
    const std::lock_guard guard{index_.states.lock_of(c.page)};
    index_.states.set(c.page, page_state::cluster_of(store.place()));
  }
  enter(c.page, layout::cluster_entry(size));
  medium_.fence(edge{"store/E3"});
  put_link(head, place);
  medium_.fence(edge{"store/E4"});
  store.add_prepared();
  tell_came(c.page, size);
  return {};
}

// ---- shrinking -----------------------------------------------------------------------------------------------------

template <media M, log::settler S>
bool space<M, S>::trim_extents(open_store& store) noexcept {
  arena* a = index_.existing_arena(store.arena());
  if (a == nullptr) return false;
  extent* leaving = nullptr;
  {
    const biased_lock::guard guard{a->lock, space_index::nobody};
    leaving = take_empty(*a);
  }
  if (leaving == nullptr) return false;
  clear_extents(leaving, edge{"store/E5"});
  forget_extents(leaving, [&](std::uint64_t page, std::uint64_t count) { release_run_in(store.place(), page, count); });
  return true;
}

template <media M, log::settler S>
bool space<M, S>::trim(open_store& store) noexcept {
  if (store.read_only()) return false;
  for (unsigned set = 0; set < slot_sets; ++set) (void)index_.index_in(store, set, 1, ~0U, nobody);
  (void)trim_extents(store);
  const std::lock_guard guard{store.growing};
  return shrink(store);
}

// Of all stores that are not growing at this moment.
template <media M, log::settler S>
bool space<M, S>::trim_stores() noexcept {
  bool any = false;
  for (unsigned i = 1; i <= index_.stores.used(); ++i) {
    const std::shared_lock stays{index_.detaching, std::try_to_lock};
    if (!stays.owns_lock()) continue;
    open_store& s = *index_.stores.at(i);
    if (!s.is_open() || s.read_only()) continue;
    const std::unique_lock guard{s.growing, std::try_to_lock};
    if (!guard.owns_lock()) continue;
    (void)trim_extents(s);
    any = shrink(s) || any;
  }
  return any;
}

// Empty clusters go, others lose what is free at their ends.  `growing` is held.
template <media M, log::settler S>
bool space<M, S>::shrink(open_store& store) noexcept {
  bool any = false;
  for (std::uint64_t after = 0;;) {
    std::optional<cluster> c;
    bool empty = false;
    std::uint64_t free = 0;
    {
      // The next one that has pages to give, which belong to no store from here on.  A thread that reads its maps keeps
      // all.
      const std::lock_guard guard{store.pages};
      if (store.is_walked()) return any;
      for (cluster_pages& pages : store.clusters()) {
        const cluster& here = pages.what();
        free = here.page >= after ? pages.trailing_free() : 0;
        empty = pages.empty() && !here.first;
        if (free == 0) continue;
        c = here;
        if (!empty) store.resize(pages, here.pages - free);
        break;
      }
      if (c && empty) store.remove(c->page);
    }
    if (!c) return any;
    after = c->page + 1;
    any = true;
    if (empty) {
      take_out(store, *c);
    } else {
      shorten_cluster(*c, c->pages - free);
    }
  }
}

// A cluster that the store's list has on media only.
template <media M, log::settler S>
void space<M, S>::take_out(open_store& store, const cluster& c) noexcept {
  const geometry& g = index_.sizes();
  const std::uint64_t store_page = g.page_offset(store.page());
  const std::uint64_t place = g.page_offset(c.page);
  link_word leads_there = store_page + offsetof(layout::cluster_header, head);
  while (link(leads_there) != place) {
    // A stray write has cut the list: what is on media is left alone.
    if (link(leads_there) == 0) return;
    leads_there = link(leads_there) + offsetof(layout::cluster_header, next);
  }
  put_link(store_page + offsetof(layout::cluster_header, in_work), place);
  medium_.fence(edge{"store/E6"});
  put_link(leads_there, link(place + offsetof(layout::cluster_header, next)));
  medium_.fence(edge{"store/E7"});
  settle_pages(c.page, c.pages);
  index_.map.store(c.page, 0);
  medium_.flush(index_.map.at(c.page), 8);
  medium_.fence(edge{"store/E8"});
  index_.states.set(c.page, page_state{});
  give_from_store(c.page, c.pages);
}

template <media M, log::settler S>
void space<M, S>::shorten_cluster(const cluster& c, std::uint64_t pages) noexcept {
  settle_pages(c.page + pages, c.pages - pages);
  enter(c.page, layout::cluster_entry(pages));
  medium_.fence(edge{"store/E9"});
  give_from_store(c.page + pages, c.pages - pages);
}

}  // namespace nvm
