// The part of `space` that hands pages to structures; included by space.hpp, which says how it all hangs together.
#pragma once

#include <algorithm>
#include <array>

#include "space/space.hpp"

namespace nvm {

template <media M, log::settler S>
result<std::uint64_t> space<M, S>::take_extent(unsigned arena, layout::slot_protocol protocol, std::uint16_t owner,
                                               unsigned slots_each) noexcept {
  NVM_ASSERT(owner != 0 && protocol != layout::slot_protocol::transactional);
  const geometry& g = index_.sizes();
  const std::uint64_t count = index_.shape(page_kind::coarse).bytes >> g.page_shift;
  const auto page = take_pages(index_.arena_number(arena), page_use::coarse, count, true);
  if (!page) return page.error();
  lay_extent(*page, {static_cast<std::uint32_t>(count), owner, page_kind::coarse, layout::object_layout::raw, protocol},
             g.entry_offset(*page), slots_each);
  return g.page_offset(*page);
}

template <media M, log::settler S>
result<std::uint64_t> space<M, S>::take_run(unsigned arena, const run_wish& wish) noexcept {
  NVM_ASSERT(wish.owner != 0 && wish.protocol != layout::slot_protocol::transactional);
  const geometry& g = index_.sizes();
  const std::uint64_t count = ceil_div(wish.bytes, g.page_bytes());
  if (count == 0 || count > g.capacity_pages) {
    return fail(errc::too_large, "a run of %lu bytes: the pool can have %lu", wish.bytes,
                g.capacity_pages << g.page_shift);
  }
  const auto page = take_pages(index_.arena_number(arena), page_use::run, count, true, wish.for_log);
  if (!page) return page.error();
  if (wish.known != nullptr) wish.known(wish.context, g.page_offset(*page));
  settle_freed_runs();
  enter(*page, {static_cast<std::uint32_t>(count), wish.owner, page_kind::run, wish.layout, wish.protocol});
  if (wish.fenced) medium_.fence(edge{"space/E6"});
  return g.page_offset(*page);
}

template <media M, log::settler S>
void space<M, S>::give(std::span<const std::uint64_t> offsets) noexcept {
  const geometry& g = index_.sizes();
  // In parts: lengths are remembered here only once the entries are gone.
  constexpr std::size_t part_max = 64;
  std::array<std::uint32_t, part_max> lengths;
  while (!offsets.empty()) {
    const auto part = offsets.first(std::min(offsets.size(), part_max));
    offsets = offsets.subspan(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::uint64_t page = g.page_of(part[i]);
      const layout::page_entry e = layout::unpack(index_.map.load(page) & checked_mask);
      NVM_ASSERT(!layout::transactional(e));
      lengths[i] = e.length_pages;
      index_.map.store(page, 0);
      medium_.flush(index_.map.at(page), 8);
    }
    medium_.fence(edge{"space/E5"});
    for (std::size_t i = 0; i < part.size(); ++i) give_pages(g.page_of(part[i]), lengths[i]);
  }
}

template <media M, log::settler S>
status space<M, S>::extend(std::uint64_t offset, std::uint64_t pages) noexcept {
  const geometry& g = index_.sizes();
  const std::uint64_t page = g.page_of(offset);
  layout::page_entry e = layout::unpack(index_.map.load(page) & checked_mask);
  NVM_ASSERT(!layout::transactional(e) && e.kind == page_kind::run);
  const std::uint64_t end = page + e.length_pages;
  if (!has_spare(pages, kept_for_logs_) || !take_here(end, pages)) {
    return fail(errc::no_space, "the %lu pages after the run at offset %lu are not free", pages, offset);
  }
  platform::memory_watch::accessible(base_ + g.page_offset(end), pages << g.page_shift);
  settle_freed_runs();
  e.length_pages += static_cast<std::uint32_t>(pages);
  enter(page, e);
  medium_.fence(edge{"space/E7"});
  return {};
}
template <media M, log::settler S>
void space<M, S>::shorten(std::uint64_t offset, std::uint64_t pages) noexcept {
  const std::uint64_t page = index_.sizes().page_of(offset);
  layout::page_entry e = layout::unpack(index_.map.load(page) & checked_mask);
  NVM_ASSERT(!layout::transactional(e) && e.kind == page_kind::run && pages != 0 && pages < e.length_pages);
  e.length_pages = static_cast<std::uint32_t>(pages);
  enter(page, e);
  medium_.fence(edge{"space/E8"});
  note_freed();
}
template <media M, log::settler S>
void space<M, S>::release(std::uint64_t offset, std::uint64_t pages) noexcept {
  give_pages(index_.sizes().page_of(offset), pages);
}

template <media M, log::settler S>
result<owned_pages> space<M, S>::owned_at(std::uint64_t offset) const noexcept {
  const geometry& g = index_.sizes();
  const std::uint64_t size = index_.pages.size_pages();
  if (offset < g.data_offset || offset - g.data_offset >= size << g.page_shift) {
    return fail(errc::bad_pointer, "offset %lu lies in no page of the pool", offset);
  }
  const std::uint64_t page = g.page_of(offset);
  for (const std::uint64_t head : {page, round_down(page, layout::coarse_extent_pages)}) {
    const std::uint64_t word = index_.map.load(head);
    layout::page_entry e;
    if (word == 0 || entry_fault(word, head, g, size, e) != nullptr || layout::transactional(e)) continue;
    if (head + e.length_pages <= page || e.kind == page_kind::log) continue;
    return owned_pages{
        g.page_offset(head), std::uint64_t{e.length_pages} << g.page_shift, e.kind, e.protocol, e.store, e.layout};
  }
  return fail(errc::bad_pointer, "offset %lu lies in no page of a structure", offset);
}

template <media M, log::settler S>
void space<M, S>::each_owned(std::uint64_t first, std::uint64_t end, void* context,
                             bool (*visit)(void*, const owned_pages&)) const noexcept {
  const geometry& g = index_.sizes();
  const std::uint64_t size = index_.pages.size_pages();
  for (std::uint64_t page = first; page < std::min(end, size); ++page) {
    const std::uint64_t word = index_.map.load(page);
    layout::page_entry e;
    // The protocol first: nearly all entries are none, and checking one is dear.
    if (word == 0 || layout::transactional(layout::unpack(word & checked_mask))) continue;
    if (entry_fault(word, page, g, size, e) != nullptr || e.kind == page_kind::log) continue;
    const owned_pages found{
        g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift, e.kind, e.protocol, e.store, e.layout};
    if (!visit(context, found)) return;
  }
}

template <media M, log::settler S>
void space<M, S>::write_back_entries() noexcept {
  medium_.flush(index_.map.at(0), index_.pages.size_pages() * 8);
}

}  // namespace nvm
