// The part of `space` that works on slotted extents; included by space.hpp, which says how it all hangs together.
#pragma once

#include "space/space.hpp"

namespace nvm {

template <media M, log::settler S>
template <class Room>
auto space<M, S>::reserve_from(const Room& from, unsigned lane, std::uint64_t bytes, layout::object_layout l) noexcept
    -> result<reservation> {
  if (bytes == 0) return fail(errc::invalid, "an object of 0 bytes");
  const geometry& g = index_.sizes();
  if (bytes > layout::object_bytes_max || bytes > g.capacity_pages << g.page_shift) {
    return fail(errc::too_large, "an object of %lu bytes: the pool can have %lu", bytes,
                g.capacity_pages << g.page_shift);
  }
  const layout::room room = layout::room_of(bytes, g.page_shift);
  if (room.kind == page_kind::run) return from.run(room.units, l);
  auto r = reserve_slots(from, lane, room.kind, l, static_cast<unsigned>(room.units));
  if (r || r.error() != errc::no_space) return r;
  // The last pages may be too scattered for the kind of extent that wastes least: any other will do.
  if (room.kind == page_kind::fine)
    return reserve_slots(from, lane, page_kind::coarse, l, slots_for(page_kind::coarse, bytes));
  if (bytes <= layout::fine_object_max)
    return reserve_slots(from, lane, page_kind::fine, l, slots_for(page_kind::fine, bytes));
  return from.run(ceil_div(bytes, g.page_bytes()), l);
}

template <media M, log::settler S>
template <class Room>
auto space<M, S>::reserve_slots(const Room& from, unsigned lane, page_kind kind, layout::object_layout l,
                                unsigned count) noexcept -> result<reservation> {
  const unsigned mine = from.arena_number();
  const unsigned who = space_index::name_of(lane);
  arena* a = index_.arena_at(mine);
  if (a == nullptr) return fail(errc::no_memory, "no volatile memory for an arena");
  const unsigned set = slot_set_of(kind, l);
  const layout::extent_shape& s = index_.shape(kind);
  for (;;) {
    a->lock.lock(who);
    if (!from.is_there()) [[unlikely]] {
      const errc why = from.refuse();
      a->lock.unlock();
      return why;
    }
    slot_buckets& buckets = a->sets[set];
    while (extent* e = buckets.candidate(count)) {
      const unsigned slot = e->take(count);
      buckets.refile(*e);
      if (slot == 0) continue;
      const std::uint64_t at = index_.sizes().page_offset(e->page);
      std::byte* length = base_ + at + s.lengths_at + slot;
      // So that find() knows the length; its durable store is the intent's, hence atomic.
      std::atomic_ref<std::byte>{*length}.store(std::byte{layout::length_byte(count)}, std::memory_order_relaxed);
      a->slot_bytes_used += static_cast<std::int64_t>(count * s.slot_bytes);
      const tags_seen seen = see_tags(*e, slot);
      const std::uint64_t freed_by = e->freed_by;
      fetch_next(buckets, count, s);
      a->lock.unlock();
      settle(*e, seen, lane);
      const first_bit f = first_bit_of(at, slot);
      return reservation{at + slot * s.slot_bytes,
                         count * s.slot_bytes,
                         log::intent::make_object(f.word_offset, f.bit, layout::length_byte(count),
                                                  layout::lengths_distance(s, f.word)),
                         length,
                         freed_by,
                         e};
    }
    from.begin_work();
    a->lock.unlock();
    if (status more = from.refill(set, count); !more) return more.error();
  }
}

// The next allocation will most likely ask for as much: what it will touch comes into the cache while this transaction
// goes on.  The descriptor of the extent after that comes too, so that reading it then costs nothing.
template <media M, log::settler S>
void space<M, S>::fetch_next(slot_buckets& buckets, unsigned count, const layout::extent_shape& s) noexcept {
  extent* e = buckets.candidate(count);  // one that was just taken from keeps its promise until a search fails
  NVM_ASSERT(e != nullptr);
  unsigned slot = e->look_for(count);
  if (slot == 0) {
    // Mostly the one that was just taken from.
    buckets.refile(*e);
    e = buckets.candidate(count);
    if (e == nullptr) return;
    slot = e->look_for(count);
    if (slot == 0) return;
  }
  if (e->next != nullptr) fetch_lines(e->next, index_.descriptors(e->kind).bytes_of_one());
  const std::byte* const at = base_ + index_.sizes().page_offset(e->page);
  fetch_lines(at + slot * s.slot_bytes, count * s.slot_bytes);
  fetch_lines(at + layout::first_words_at + slot / checked_bits * 8, 8);
  fetch_lines(at + s.lengths_at + slot, 1);
}

// Room for `count` slots comes into the arena of `lane`, from the cheapest source that has any.
template <media M, log::settler S>
status space<M, S>::refill(unsigned lane, unsigned set, unsigned count) noexcept {
  const unsigned mine = index_.arena_number(lane);
  const unsigned who = space_index::name_of(lane);
  if (index_.adopt(index_.orphans(), mine, set, count, who)) return {};
  if (index_.index_some(mine, set, count, who)) return {};
  if (status s = new_extent(lane, set, false); s || s.error() == errc::no_memory) return s;
  // The pool is full and cannot grow: takes room of other arenas, or room that is not indexed yet.
  if (index_.adopt_from_any(mine, set, count, who)) return {};
  if (index_.index_rest(mine, set, count, who)) return {};
  return new_extent(lane, set, true);
}

template <media M, log::settler S>
status space<M, S>::new_extent(unsigned lane, unsigned set, bool last_resort) noexcept {
  const unsigned mine = index_.arena_number(lane);
  const unsigned who = space_index::name_of(lane);
  const page_kind kind = kind_of_set(set);
  const layout::extent_shape& s = index_.shape(kind);
  extent* e = index_.descriptors(kind).get();
  if (e == nullptr) return fail(errc::no_memory, "no volatile memory for the descriptor of an extent");
  const std::uint64_t count = s.bytes >> index_.sizes().page_shift;
  const auto page = take_pages(mine, kind == page_kind::fine ? page_use::fine : page_use::coarse, count, last_resort);
  if (!page) {
    index_.descriptors(kind).put(e);
    return page.error();
  }
  e->make_empty(layout_of_set(set), s);
  index_.name(*e, *page, mine, who);
  {
    // Before the entry: a thread that finds the entry must not index the extent a second time.
    const std::lock_guard guard{index_.states.lock_of(*page)};
    index_.states.set(*page, page_state::of(*e));
  }
  lay_extent(*page,
             {static_cast<std::uint32_t>(count), 0, kind, layout_of_set(set), layout::slot_protocol::transactional},
             index_.sizes().entry_offset(*page), 0);
  index_.file(*e, 0, who);
  return {};
}

// An empty extent, durable on return.  slots_each: all objects will take as many; 0: each says how many.
template <media M, log::settler S>
void space<M, S>::lay_extent(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at,
                             unsigned slots_each) noexcept {
  const layout::extent_shape& s = index_.shape(entry.kind);
  const std::uint64_t at = index_.sizes().page_offset(page);
  settle_freed_runs();
  const std::uint64_t header_bytes = write_empty_extent(base_, at, entry.kind, s);
  if (slots_each != 0) write_equal_lengths(base_, at, s, slots_each);
  medium_.flush(base_ + at, header_bytes);
  medium_.fence(edge{"space/E1"});
  enter_at(page, entry, entry_at);
  medium_.fence(edge{"space/E2"});
}

template <media M, log::settler S>
void space<M, S>::release_slots(extent& e, std::uint64_t offset, std::uint64_t bytes, unsigned lane, log::tag t,
                                const log::intent* clear) noexcept {
  const held h = hold(e, offset, lane);
  const unsigned count = slots_for(h.e->kind, bytes);
  NVM_ASSERT(slot_bits::test(h.e->first(), h.slot));
  no_object_any_more(offset, bytes);
  if (clear != nullptr) log::apply_alone(base_, *clear);
  if (!t.none()) {
    put_tag(*h.e, h.slot, t);
    if constexpr (S::ordered) h.e->freed_by = std::max(h.e->freed_by, t.generation());
  }
  h.e->drop(h.slot, count);
  h.in->slot_bytes_used -= static_cast<std::int64_t>(bytes);
  h.in->sets[slot_set_of(h.e->kind, h.e->layout)].refile(*h.e);
  h.in->lock.unlock();
}

// Locks the arena of the extent that holds a reservation or an object that was found: it cannot go away.
template <media M, log::settler S>
auto space<M, S>::hold(extent& e, std::uint64_t offset, unsigned lane) noexcept -> held {
  arena& a = index_.lock(e, space_index::name_of(lane));
  const std::uint64_t inside = offset - index_.sizes().page_offset(e.page);
  return {&e, &a, static_cast<unsigned>(inside >> index_.shape(e.kind).slot_shift)};
}

// Whether the object that was found there before still begins at `slot`, as long as it was; the lock is held.
template <media M, log::settler S>
bool space<M, S>::is_still(extent& e, unsigned slot, const object& o) const noexcept {
  const layout::extent_shape& s = index_.shape(e.kind);
  const std::uint64_t at = index_.sizes().page_offset(e.page);
  if (e.page == no_page || slot >= s.slots || at + slot * s.slot_bytes != o.offset) return false;
  if (!slot_bits::test(e.first(), slot)) return false;
  const std::byte length = std::atomic_ref<std::byte>{base_[at + s.lengths_at + slot]}.load(std::memory_order_relaxed);
  return layout::slots_of_length(static_cast<std::uint8_t>(length)) << s.slot_shift == o.bytes &&
         slot_bits::test(e.reserved(), slot) == o.reserved;
}

// The object that begins at `offset`; the lock of the extent's arena is held.
template <media M, log::settler S>
auto space<M, S>::look(extent& e, std::uint64_t offset, layout::object_layout wanted) noexcept -> result<object> {
  const layout::extent_shape& s = index_.shape(e.kind);
  const std::uint64_t at = index_.sizes().page_offset(e.page);
  const auto slot = static_cast<unsigned>((offset - at) >> s.slot_shift);
  if (((offset - at) & (s.slot_bytes - 1)) != 0 || !slot_bits::test(e.first(), slot) || e.layout != wanted) {
    return no_object(offset);
  }
  // relaxed: an intent that is being applied stores the same value.
  const std::byte length = std::atomic_ref<std::byte>{base_[at + s.lengths_at + slot]}.load(std::memory_order_relaxed);
  const unsigned count = layout::slots_of_length(static_cast<std::uint8_t>(length));
  if (!e.spans(slot, count)) {
    return fail(errc::corrupt, "length byte at offset %lu, of the object at offset %lu, is damaged: found %02x",
                at + s.lengths_at + slot, offset, static_cast<unsigned>(length));
  }
  const bool reserved = slot_bits::test(e.reserved(), slot);
  // Until its transaction commits the header may not have been written.
  if (!reserved && wanted == layout::object_layout::typed) {
    if (status good = check_header(offset, count, s.slot_shift); !good) return good.error();
  }
  const first_bit b = first_bit_of(at, slot);
  return object{offset, count * s.slot_bytes, log::intent::make(log::intent_op::clear_bit, b.word_offset, b.bit),
                reserved, &e};
}

template <media M, log::settler S>
auto space<M, S>::find(std::uint64_t offset, layout::object_layout l, unsigned who, stores_stay& stay,
                       lasting kept) noexcept -> result<object> {
  const geometry& g = index_.sizes();
  if (offset < g.data_offset || offset - g.data_offset >= index_.pages.size_pages() << g.page_shift) {
    return fail(errc::bad_pointer, "offset %lu lies in no page of the pool", offset);
  }
  const std::uint64_t page = g.page_of(offset);
  for (;;) {
    std::uint64_t head = page;
    const page_state s = state_at(head);
    if (s.is_extent()) {
      extent& e = s.descriptor();
      const auto may_go = [&] {
        return kept == lasting::yes && e.arena.load(std::memory_order_relaxed) > index_.orphans();
      };
      if (may_go() && begin_to_stay(stay)) continue;
      const unlocking guard{index_.lock(e, who)};
      // Otherwise it was given back since we read the state: look again.  A store is detached under the lock of its
      // arena.
      if (e.page == head && (stay.owns_lock() || !may_go())) return look(e, offset, l);
      continue;
    }
    if (s.what() == page_state::type::run) {
      if (s.store() != 0 && begin_to_stay(stay)) continue;
      return run_at(page, s, offset, l);
    }
    if (s.what() == page_state::type::quarantined) {
      return fail(errc::corrupt, "offset %lu lies in an extent whose metadata is damaged", offset);
    }
    const auto known = index_.look_up(page);
    if (!known) return known.error();
    if (*known) continue;
    if (index_.cluster_around(page) == no_cluster) return no_object(offset);
    if (begin_to_stay(stay)) continue;
    const auto in_store = look_up_in_store(page, offset);
    if (!in_store) return in_store.error();
    if (!*in_store) return no_object(offset);
  }
}

template <media M, log::settler S>
auto space<M, S>::find_around(std::uint64_t offset, layout::object_layout l, stores_stay& stay) noexcept
    -> result<object> {
  const geometry& g = index_.sizes();
  if (offset < g.data_offset || offset - g.data_offset >= index_.pages.size_pages() << g.page_shift) {
    return fail(errc::bad_pointer, "offset %lu lies in no page of the pool", offset);
  }
  std::uint64_t begin = no_page;  // of the object, if there is one
  const std::uint64_t page = g.page_of(offset);
  if (const auto known = index_.look_up(page); !known) return known.error();
  std::uint64_t head = page;
  if (const page_state s = state_at(head); s.is_extent()) {
    extent& e = s.descriptor();
    const unlocking guard{index_.lock(e, nobody)};
    if (e.page != head) return no_object(offset);
    const layout::extent_shape& shape = index_.shape(e.kind);
    const std::uint64_t at = g.page_offset(head);
    const auto slot = static_cast<unsigned>((offset - at) >> shape.slot_shift);
    const unsigned before = slot_bits::zeros_below(e.first(), slot + 1);
    if (before <= slot) begin = at + (slot - before) * shape.slot_bytes;
  } else {
    if (index_.pages.is_free(page)) return no_object(offset);
    if (index_.cluster_around(page) != no_cluster) return find_around_in_store(page, offset, l, stay);
    if (const auto nearest = index_.pages.head_before(page)) {
      auto found = find(g.page_offset(*nearest), l, stay);
      if (found && offset - found->offset < found->bytes) return found;
    }
    // A head was missed while its neighbours changed (page_heads.hpp).  Pages of a run, but for the first, have neither
    // a state nor an entry.
    while (head > 0 && index_.states.get(head).code() == 0 && index_.map.load(head) == 0) --head;
    begin = g.page_offset(head);
  }
  if (begin == no_page) return no_object(offset);
  auto found = find(begin, l, stay);
  if (found && offset - begin >= found->bytes) return no_object(offset);
  return found;
}

// ---- tags ----------------------------------------------------------------------------------------------------------

// Notes that t has changed the word of `slot`.  The tag that the word had may not be settled: lanes that change other
// bits at the same time need not settle each other.
template <media M, log::settler S>
void space<M, S>::put_tag(extent& e, unsigned slot, log::tag t) noexcept {
  std::uint64_t& word = e.tags()[slot / checked_bits];
  const log::tag old{word};
  if constexpr (S::ordered) {
    if (old.none() || old.generation() < t.generation()) word = t.code;
    return;
  }
  word = t.code;
  if (old.none() || old.lane() == t.lane()) return;
  ++e.tags_hidden;
  const auto newest = hidden_[old.lane()];
  std::uint64_t g = newest.load(std::memory_order_relaxed);
  while (g < old.generation() && !newest.compare_exchange_weak(g, old.generation(), std::memory_order_relaxed)) {
  }
  // relaxed: a thread that finds `hidden` counted has taken the arena's lock after us, and so sees the rest.
  hiding_[old.lane() / 64].fetch_or(std::uint64_t{1} << old.lane() % 64, std::memory_order_relaxed);
}

template <media M, log::settler S>
template <class F>
void space<M, S>::each_hiding_lane(F&& f) const noexcept {
  for (std::uint64_t w = 0; w < lane_words; ++w) {
    for (std::uint64_t left = hiding_[w].load(std::memory_order_relaxed); left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned>(w * 64 + static_cast<unsigned>(std::countr_zero(left)));
      f(lane, log::tag::make(lane, hidden_[lane].load(std::memory_order_relaxed)));
    }
  }
}

// Before `lane` changes a word: keeps earlier changes of other lanes from being replayed over its own.  No lock is
// held; the slot is reserved or being freed, so no other thread changes its bit meanwhile, and the extent stays.
template <media M, log::settler S>
void space<M, S>::settle(extent& e, const tags_seen& seen, unsigned lane) noexcept {
  if constexpr (S::ordered) return;
  const bool foreign = !seen.tag.none() && seen.tag.lane() != lane;
  if (!foreign && !seen.any_hidden) return;
  bool own_hidden = false;
  if (foreign) settler_.settle(seen.tag, lane);
  if (seen.any_hidden) {
    each_hiding_lane([&](unsigned other, log::tag t) {
      own_hidden = own_hidden || other == lane;
      settler_.settle(t, lane);
    });
  }
  // A settled tag is cleared, unless it has changed meanwhile.  Hidden changes of the lane itself are not settled.
  arena& a = index_.lock(e, space_index::name_of(lane));
  if (foreign && e.tags()[seen.word] == seen.tag.code) e.tags()[seen.word] = 0;
  if (!own_hidden && seen.any_hidden) e.tags_settled = seen.hidden;
  a.lock.unlock();
}

}  // namespace nvm
