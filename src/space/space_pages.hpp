// The part of `space` that works on whole pages: runs, growth, pages of empty extents; included by space.hpp.
#pragma once

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
  NVM_ASSERT(index_.states.get(page).what() == page_state::type::run);
  no_object_any_more(offset, bytes);
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
  return object{offset, s.pages() << g.page_shift,
                log::intent::make(log::intent_op::clear_entry, g.entry_offset(page), 0), s.reserved()};
}

template <media M, log::settler S>
status space<M, S>::begin_free_run(const object& o, unsigned lane) noexcept {
  const std::uint64_t page = index_.sizes().page_of(o.offset);
  page_state s = index_.states.get(page);
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
  // relaxed: whoever relocates or collects changes other bits of the word.
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
auto space<M, S>::take_pages(unsigned mine, page_use use, std::uint64_t count, bool last_resort) noexcept
    -> result<std::uint64_t> {
  for (;;) {
    const std::uint64_t size_seen = index_.pages.size_pages();
    if (auto page = index_.pages.take(mine, use, count)) {
      platform::memory_watch::accessible(base_ + index_.sizes().page_offset(*page), count << index_.sizes().page_shift);
      return *page;
    }
    if (trim()) continue;
    const status grown = grow_for(use, count, size_seen);
    if (grown) continue;
    // Extents that are not indexed yet may be empty.
    if (!last_resort || !index_.index_everything()) return grown.error();
  }
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

// A page map entry written directly, not by an intent; flushed.
template <media M, log::settler S>
void space<M, S>::enter(std::uint64_t page, const layout::page_entry& entry) noexcept {
  // An intent for this entry, of whichever lane, would be made again over what we write.
  settler_.settle_all(index_.states.tag(page));
  index_.states.set_tag(page, {});
  index_.map.store(page, index_.map.seal(page, entry));
  medium_.flush(index_.map.at(page), 8);
}

template <media M, log::settler S>
bool space<M, S>::trim() noexcept {
  extent* leaving = nullptr;
  for (unsigned i = 0; i <= index_.arena_count(); ++i) {
    arena* a = index_.existing_arena(i);
    if (a == nullptr) continue;
    const biased_lock::guard guard{a->lock, space_index::nobody};
    for (unsigned set = 0; set < slot_sets; ++set) {
      while (extent* e = a->sets[set].empty(kind_of_set(set))) {
        // An extent in no bucket: no thread allocates from it, and it holds no object that could be found.
        a->sets[set].remove(*e);
        e->next = leaving;
        leaving = e;
      }
    }
  }
  if (leaving == nullptr) return false;
  for (extent* e = leaving; e != nullptr; e = e->next) {
    for (unsigned w = 0; w < e->tag_words; ++w) settler_.settle_all({e->tags()[w]});
    if (e->tags_hidden != e->tags_settled) each_hiding_lane([&](unsigned, log::tag t) { settler_.settle_all(t); });
  }
  for (extent* e = leaving; e != nullptr; e = e->next) {
    index_.map.store(e->page, 0);
    medium_.flush(index_.map.at(e->page), 8);
  }
  medium_.fence(edge{"space/E3"});
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
    give_pages(page, index_.shape(e.kind).bytes >> index_.sizes().page_shift);
  }
  return true;
}

}  // namespace nvm
