// The part of `space` that works on whole pages: runs, growth, pages of empty extents; included by space.hpp.
#pragma once

#include <utility>

#include "space/space.hpp"

namespace nvm {

template <media M, log::settler S>
auto space<M, S>::reserve_run(unsigned lane, std::uint64_t count, layout::object_layout l) noexcept
    -> result<reservation> {
  const geometry& g = index_.sizes();
  const auto page = take_pages(index_.arena_number(lane), page_use::run, count, true);
  if (!page) return page.error();
  settler_.settle(index_.states.tag(*page), lane);
  {
    const std::lock_guard guard{index_.states.lock_of(*page)};
    index_.states.set(*page, page_state::run(count, l, true));
  }
  const std::uint64_t word = index_.map.seal(
      *page, {static_cast<std::uint32_t>(count), 0, page_kind::run, l, layout::slot_protocol::transactional});
  return reservation{g.page_offset(*page), count << g.page_shift,
                     log::intent::make(log::intent_op::set_entry, g.entry_offset(*page), 0, word), nullptr,
                     runs_freed_.load(std::memory_order_acquire)};
}

template <media M, log::settler S>
void space<M, S>::release_run(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const geometry& g = index_.sizes();
  const std::uint64_t page = g.page_of(offset);
  const page_state s = index_.states.get(page);
  NVM_ASSERT(s.what() == page_state::type::run);
  no_object_any_more(offset, bytes);
  if (s.store() != 0) {
    // Without the reservation the store could be detached before it has the pages back.
    open_store& store = *index_.stores.at(s.store());
    store.begin_work();
    index_.states.set(page, page_state{});
    release_run_in(s.store(), page, bytes >> g.page_shift);
    return store.end_work();
  }
  index_.states.set(page, page_state{});
  give_pages(page, bytes >> g.page_shift);
}

template <media M, log::settler S>
auto space<M, S>::run_at(std::uint64_t page, page_state s, std::uint64_t offset, layout::object_layout wanted) noexcept
    -> result<object> {
  const geometry& g = index_.sizes();
  if (offset != g.page_offset(page) || s.layout() != wanted) return no_object(offset);
  if (!s.reserved() && wanted == layout::object_layout::typed) {
    if (status good = check_header(offset, s.pages(), g.page_shift); !good) return good.error();
  }
  std::uint64_t entry_at = g.entry_offset(page);
  if (s.store() != 0) {
    const auto inside = entry_in_store(s.store(), page);
    if (!inside) return inside.error();
    entry_at = *inside;
  }
  return object{offset, s.pages() << g.page_shift, log::intent::make(log::intent_op::clear_entry, entry_at, 0),
                s.reserved()};
}

template <media M, log::settler S>
status space<M, S>::begin_free_run(const object& o, unsigned lane) noexcept {
  const std::uint64_t page = index_.sizes().page_of(o.offset);
  page_state s = index_.states.get(page);
  if (const unsigned place = s.what() == page_state::type::run ? s.store() : 0;
      place != 0 && index_.stores.at(place)->read_only()) {
    return of_read_only_store(o.offset);
  }
  do {
    if (s.what() != page_state::type::run || s.freeing() || s.reserved() != o.reserved ||
        s.pages() << index_.sizes().page_shift != o.bytes) {
      return fail(errc::bad_pointer, "object at offset %lu is being freed already", o.offset);
    }
  } while (!index_.states.change(page, s, s.code() | page_state::freeing_bit));
  settler_.settle(index_.states.tag(page), lane);
  return {};
}

template <media M, log::settler S>
status space<M, S>::check_header(std::uint64_t offset, std::uint64_t units, unsigned shift) const noexcept {
  layout::object_header h;
  // relaxed: relocation and collection change other bits of the word.
  h.size_generation_check = load_word(base_, offset);
  std::memcpy(&h.type, base_ + offset + offsetof(layout::object_header, type), sizeof h.type);
  h.references = 0;
  if (!layout::object_header_holds(h, offset)) {
    return fail(errc::corrupt, "object header at offset %lu fails its check: found %016lx, type %u", offset,
                h.size_generation_check, h.type);
  }
  const std::uint64_t unit = std::uint64_t{1} << shift;
  const std::uint64_t needs = (layout::object_size(h) + sizeof h + unit - 1) >> shift;
  if (needs != units) {
    return fail(errc::corrupt, "object at offset %lu has %lu units of %lu bytes, its header says %lu", offset, units,
                unit, needs);
  }
  return {};
}

// ---- pages from where they can be had ------------------------------------------------------------------------------

template <media M, log::settler S>
auto space<M, S>::take_pages(unsigned mine, page_use use, std::uint64_t count, bool last_resort, bool for_log) noexcept
    -> result<std::uint64_t> {
  const std::uint64_t keep = for_log ? 0 : kept_for_logs_;
  for (bool looked = false;;) {
    const std::uint64_t size_seen = index_.pages.size_pages();
    bool spare = has_spare(count, keep);
    auto page = spare ? index_.pages.take(mine, use, count) : std::nullopt;
    // Threads that looked at once may have taken more than was to spare.
    if (page && !has_spare(0, keep)) {
      index_.pages.give(*page, count);
      page.reset();
      spare = false;
    }
    if (page) {
      if (status s = fill(*page, count); !s) {
        index_.pages.give(*page, count);
        return s.error();
      }
      platform::memory_watch::accessible(base_ + index_.sizes().page_offset(*page), count << index_.sizes().page_shift);
      return *page;
    }
    if (trim()) continue;
    // Before it grows, what costs no more than growing would.
    if (!std::exchange(looked, true) && trim_before_growth(last_resort)) continue;
    const status grown = spare ? grow_for(use, count, size_seen) : no_spare(count);
    if (grown) continue;
    // Extents that are not indexed yet may be empty, and attached stores may have clusters that are.
    if (!last_resort || (!index_.index_everything() && !trim_stores())) return grown.error();
  }
}

template <media M, log::settler S>
status space<M, S>::no_spare(std::uint64_t count) const noexcept {
  const std::uint64_t size = index_.pages.size_pages();
  return fail(
      errc::no_space,
      "the pool is full: %lu of %lu pages in use, %lu more wanted, it can grow to %lu, and %lu are kept for the "
      "logs of transactions that free",
      size - index_.pages.free_pages(), size, count, grow_ ? index_.sizes().capacity_pages : size, kept_for_logs_);
}

// Extents that are not indexed yet may be empty, and so may clusters of attached stores (`stores`: the caller holds
// none of their locks).
template <media M, log::settler S>
bool space<M, S>::trim_before_growth(bool stores) noexcept {
  constexpr unsigned extents_most = 4096;
  if (!grow_ || index_.pages.size_pages() >= index_.sizes().capacity_pages) return false;
  const bool trimmed = index_.index_up_to(extents_most) && trim();
  return (stores && trim_stores()) || trimmed;
}

// Makes the pool so large that `count` pages can be had, unless its size has changed since `size_seen`.
template <media M, log::settler S>
status space<M, S>::grow_for(page_use use, std::uint64_t count, std::uint64_t size_seen) noexcept {
  const std::lock_guard guard{growing_};
  const std::uint64_t size = index_.pages.size_pages();
  if (size != size_seen) return {};
  const std::uint64_t first_free = size - index_.pages.trailing_free();
  const std::uint64_t first = round_up(first_free, use == page_use::coarse ? layout::coarse_extent_pages : 1);
  const std::uint64_t needed = first + count;
  const std::uint64_t capacity = index_.sizes().capacity_pages;
  if (needed <= size) return {};  // pages became free meanwhile
  if (needed > capacity || !grow_) {
    return fail(errc::no_space, "the pool is full: %lu of %lu pages in use, %lu more wanted, it can grow to %lu",
                size - index_.pages.free_pages(), size, count, grow_ ? capacity : size);
  }
  const auto grown = grow_(needed);
  if (!grown) return grown.error();
  NVM_ASSERT(*grown >= needed && *grown <= capacity);
  index_.pages.extend(*grown);
  return {};
}

// An entry written directly, not by an intent; flushed.
template <media M, log::settler S>
void space<M, S>::enter_at(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at) noexcept {
  // An intent for this entry, of whichever lane, would be made again over what we write.
  settler_.settle_all(index_.states.tag(page));
  index_.states.set_tag(page, {});
  auto* const word = reinterpret_cast<std::uint64_t*>(base_ + entry_at);
  bring_first(word);
  // release: as page_map::store().
  std::atomic_ref<std::uint64_t>{*word}.store(seal_word(layout::pack(entry), word_seed(entry_at)),
                                              std::memory_order_release);
  medium_.flush(word, 8);
}

// ---- extents that are empty ----------------------------------------------------------------------------------------

// Those of an arena, whose lock is held, in a list.  They are in no bucket any more: no thread allocates from them, and
// they hold no object that could be found.
template <media M, log::settler S>
extent* space<M, S>::take_empty(arena& a) noexcept {
  extent* leaving = nullptr;
  for (unsigned set = 0; set < slot_sets; ++set) {
    while (extent* e = a.sets[set].empty(kind_of_set(set))) {
      a.sets[set].remove(*e);
      e->next = leaving;
      leaving = e;
    }
  }
  return leaving;
}

// No intent about its words can be made again.
template <media M, log::settler S>
void space<M, S>::settle_tags(extent& e) noexcept {
  for (unsigned w = 0; w < e.tag_words; ++w) settler_.settle_all({e.tags()[w]});
  if (e.tags_hidden != e.tags_settled) each_hiding_lane([&](unsigned, log::tag t) { settler_.settle_all(t); });
}

template <media M, log::settler S>
void space<M, S>::clear_extents(extent* leaving, edge label) noexcept {
  for (extent* e = leaving; e != nullptr; e = e->next) settle_tags(*e);
  for (extent* e = leaving; e != nullptr; e = e->next) {
    std::uint64_t at = index_.sizes().entry_offset(e->page);
    if (e->arena.load(std::memory_order_relaxed) > index_.orphans()) {
      const auto inside = entry_in_store(e->arena.load(std::memory_order_relaxed) - index_.orphans(), e->page);
      NVM_ASSERT(inside);
      at = *inside;
    }
    auto* const word = reinterpret_cast<std::uint64_t*>(base_ + at);
    bring_first(word);
    // release: as page_map::store().
    std::atomic_ref<std::uint64_t>{*word}.store(0, std::memory_order_release);
    medium_.flush(word, 8);
  }
  medium_.fence(label);
}

template <media M, log::settler S>
template <class Given>
void space<M, S>::forget_extents(extent* leaving, Given&& given) noexcept {
  while (leaving != nullptr) {
    extent& e = *leaving;
    leaving = e.next;
    const std::uint64_t page = e.page;
    {
      const unlocking guard{index_.lock(e, space_index::nobody)};
      e.page = no_page;
    }
    index_.states.set(page, page_state{});
    index_.descriptors(e.kind).put(&e);
    given(page, index_.shape(e.kind).bytes >> index_.sizes().page_shift);
  }
}

template <media M, log::settler S>
bool space<M, S>::trim() noexcept {
  extent* leaving = nullptr;
  for (unsigned i = 0; i <= index_.arena_count(); ++i) {
    arena* a = index_.existing_arena(i);
    if (a == nullptr) continue;
    const biased_lock::guard guard{a->lock, space_index::nobody};
    extent* last = take_empty(*a);
    while (last != nullptr) {
      extent* const next = last->next;
      last->next = leaving;
      leaving = last;
      last = next;
    }
  }
  if (leaving == nullptr) return false;
  clear_extents(leaving, edge{"space/E3"});
  forget_extents(leaving, [this](std::uint64_t page, std::uint64_t count) { give_pages(page, count); });
  return true;
}

}  // namespace nvm
