// The part of `space` that hands pages of an attached object store to structures; included by space.hpp, which says how
// it all hangs together.
//
// The same as for structures of the pool (space_structures.hpp), with the entries in the maps of the store's clusters
// and pages from where the store has them (space_stores.hpp): its growth and its quota.
//
/// Extent of a structure: space/E1, E2.
/// Run of a structure:     S entry; F it;     | store/E12  it is the structure's before anything leads there
/// Either, given back:     S entry 0; F it;   | store/E13  its pages may get another use
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "space/space.hpp"

namespace nvm {

template <media M, log::settler S>
class space<M, S>::pages_in_store final : public structure_pages {
 public:
  // Until the store is detached.
  pages_in_store(space& of, open_store& store) noexcept
      : of_{of},
        store_{store},
        own_{of.index_.sizes().capacity_pages, of.index_.sizes().page_shift, links_lead::here_only} {
    store_.tell_pages(&own_);
  }
  ~pages_in_store() { store_.tell_pages(nullptr); }
  pages_in_store(const pages_in_store&) = delete;
  pages_in_store& operator=(const pages_in_store&) = delete;

  result<std::uint64_t> take_extent(unsigned arena, layout::slot_protocol protocol, std::uint16_t owner,
                                    unsigned slots_each) noexcept override {
    NVM_ASSERT(owner != 0 && protocol != layout::slot_protocol::transactional);
    const geometry& g = sizes();
    const std::uint64_t count = of_.index_.shape(page_kind::coarse).bytes >> g.page_shift;
    const auto page = of_.take_pages_in(store_, arena, count, true);
    if (!page) return page.error();
    of_.lay_extent(*page,
                   {static_cast<std::uint32_t>(count), owner, page_kind::coarse, layout::object_layout::raw, protocol},
                   entry_at(*page), slots_each);
    return g.page_offset(*page);
  }
  using structure_pages::give;
  using structure_pages::take_run;
  result<std::uint64_t> take_run(unsigned arena, const run_wish& wish) noexcept override {
    NVM_ASSERT(wish.owner != 0 && wish.protocol != layout::slot_protocol::transactional);
    const geometry& g = sizes();
    const std::uint64_t count = ceil_div(wish.bytes, g.page_bytes());
    if (count == 0 || count > g.capacity_pages) {
      return fail(errc::too_large, "a run of %lu bytes: the pool can have %lu", wish.bytes,
                  g.capacity_pages << g.page_shift);
    }
    const auto page = of_.take_pages_in(store_, arena, count, false);
    if (!page) return page.error();
    if (wish.known != nullptr) wish.known(wish.context, g.page_offset(*page));
    of_.settle_freed_runs();
    of_.enter_at(*page, {static_cast<std::uint32_t>(count), wish.owner, page_kind::run, wish.layout, wish.protocol},
                 entry_at(*page));
    if (wish.fenced) of_.medium_.fence(edge{"store/E12"});
    return g.page_offset(*page);
  }
  void give(std::span<const std::uint64_t> offsets) noexcept override {
    // As for the pool's.
    constexpr std::size_t part_max = 64;
    std::array<std::uint32_t, part_max> lengths;
    const geometry& g = sizes();
    while (!offsets.empty()) {
      const auto part = offsets.first(std::min(offsets.size(), part_max));
      offsets = offsets.subspan(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) {
        auto* const word = reinterpret_cast<std::uint64_t*>(of_.base_ + entry_at(g.page_of(part[i])));
        bring_first(word);
        const std::atomic_ref<std::uint64_t> entry{*word};
        const layout::page_entry e = layout::unpack(entry.load(std::memory_order_relaxed) & checked_mask);
        NVM_ASSERT(!layout::transactional(e));
        lengths[i] = e.length_pages;
        // release: as page_map::store().
        entry.store(0, std::memory_order_release);
        of_.medium_.flush(word, 8);
      }
      of_.medium_.fence(edge{"store/E13"});
      of_.note_freed();
      for (std::size_t i = 0; i < part.size(); ++i) store_.give(g.page_of(part[i]), lengths[i]);
    }
  }
  bool is_free(std::uint64_t page) const noexcept override { return store_.is_free(page); }

  result<owned_pages> owned_at(std::uint64_t offset) const noexcept override {
    const geometry& g = sizes();
    const std::uint64_t size = of_.index_.pages.size_pages();
    const bool in_data = offset >= g.data_offset && offset - g.data_offset < size << g.page_shift;
    if (!in_data) return fail(errc::bad_pointer, "offset %lu lies in no page of the pool", offset);
    const std::uint64_t page = g.page_of(offset);
    const walk w{store_, page};
    for (const std::uint64_t head : {page, round_down(page, layout::coarse_extent_pages)}) {
      owned_pages found;
      const bool owned = w.c && w.c->has(head) && owned_from(*w.c, head, found);
      if (owned && found.offset + found.bytes > offset) return found;
    }
    return fail(errc::bad_pointer, "offset %lu lies in no page of a structure of store %u", offset, store_.number());
  }
  void each_owned(std::uint64_t first, std::uint64_t end, void* context,
                  bool (*visit)(void*, const owned_pages&)) const noexcept override {
    while (first < end) {
      const walk w{store_, first};
      if (!w.c || w.c->page >= end) return;
      const cluster& c = *w.c;
      for (std::uint64_t page = std::max(first, c.page + c.header_pages); page < std::min(end, c.end()); ++page) {
        owned_pages found;
        if (owned_from(c, page, found) && !visit(context, found)) return;
      }
      first = c.end();
    }
  }

  pages_of_stores& of_stores() noexcept override { return own_; }
  bool is_foreign(std::uint64_t offset) const noexcept override {
    return !store_.cluster_with(sizes().page_of(offset)).has_value();
  }
  directory_words lockfree_directory() const noexcept override {
    return {{sizes().page_offset(store_.page()) + offsetof(layout::cluster_header, structures)}, 1};
  }
  void write_back_entries() noexcept override {
    for (std::uint64_t page = 0;;) {
      const walk w{store_, page};
      if (!w.c) return;
      of_.medium_.flush(of_.base_ + sizes().page_offset(w.c->page), layout::cluster_header_bytes(w.c->room));
      page = w.c->end();
    }
  }
  const geometry& sizes() const noexcept override { return of_.index_.sizes(); }
  std::uint64_t size_pages() const noexcept override { return of_.index_.pages.size_pages(); }

 private:
  // The next cluster, and its map, which stay for as long as this lives.
  struct walk {
    walk(open_store& store, std::uint64_t from) noexcept : of{store}, c{store.walk_from(from)} {}
    ~walk() {
      if (c) of.end_walk();
    }
    walk(const walk&) = delete;
    walk& operator=(const walk&) = delete;
    open_store& of;
    const std::optional<cluster> c;
  };
  // Of a page that the store has.
  [[nodiscard]] std::uint64_t entry_at(std::uint64_t page) const noexcept {
    const auto c = store_.cluster_with(page);
    NVM_ASSERT(c);
    return c->entry_offset(sizes(), page);
  }
  // What a structure owns from this page on.
  [[nodiscard]] bool owned_from(const cluster& c, std::uint64_t page, owned_pages& out) const noexcept {
    const std::uint64_t word = of_.index_.inner_word(c, page);
    layout::page_entry e;
    // The protocol first, as for the pool's.
    if (word == 0 || layout::transactional(layout::unpack(word & checked_mask))) return false;
    const geometry& g = sizes();
    if (inner_entry_fault(word, page, c, g, e) != nullptr) return false;
    out = {g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift, e.kind, e.protocol, e.store, e.layout};
    return true;
  }

  space& of_;
  open_store& store_;
  pages_of_stores own_;
};

template <media M, log::settler S>
result<structure_pages*> space<M, S>::structures_in(open_store& store) noexcept try {
  if (store.read_only()) return fail(errc::read_only, "store %u is attached read-only", store.number());
  const std::lock_guard handing{handing_};
  std::unique_ptr<pages_in_store>& place = in_stores_[store.place()];
  if (place == nullptr) place = std::make_unique<pages_in_store>(*this, store);
  return place.get();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the structures of a store");
}

}  // namespace nvm
