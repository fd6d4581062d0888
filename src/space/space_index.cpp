#include "space/space_index.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace nvm {

using layout::page_kind;

namespace {
// Where lanes are volatile the geometry names none; more arenas than cores are no use.
constexpr unsigned arenas_without_lanes = 64;
// Each has a page at least.
constexpr std::uint64_t attached_max = std::uint64_t{1} << 20;
static_assert(attached_max < std::uint64_t{1} << (64 - page_state::store_shift));

bool is_indexed_later(const layout::page_entry& e) noexcept {
  return layout::transactional(e) && (e.kind == page_kind::fine || e.kind == page_kind::coarse);
}
}  // namespace

space_index::space_index(std::byte* base, const geometry& g) noexcept
    : stores{std::min(g.capacity_pages, attached_max)},
      pages{g.capacity_pages, g.lane_count != 0 ? g.lane_count : arenas_without_lanes},
      states{g.capacity_pages},
      map{base, geometry_},
      of_stores{g.capacity_pages, g.page_shift},
      base_{base},
      geometry_{g},
      fine_{layout::shape_of(page_kind::fine, g.page_shift)},
      coarse_{layout::shape_of(page_kind::coarse, g.page_shift)},
      fine_pool_{page_kind::fine, fine_},
      coarse_pool_{page_kind::coarse, coarse_},
      arena_count_{g.lane_count != 0 ? g.lane_count : arenas_without_lanes},
      arenas_{arena_count_ + 1 + std::min(g.capacity_pages, attached_max)} {
  if (exists()) pages.extend(g.size_pages);
}

space_index::~space_index() {
  for (arena* a = made_.load(std::memory_order_relaxed); a != nullptr;) delete std::exchange(a, a->made_before);
}

status space_index::exists() const noexcept {
  if (pages.exists() && states.exists() && arenas_.exists() && stores.exists()) return {};
  return fail(errc::no_memory, "no volatile memory for the page tables of %lu pages", geometry_.capacity_pages);
}

// ---- boot ----------------------------------------------------------------------------------------------------------

space_index::slice space_index::slice_of(unsigned part, unsigned parts) const noexcept {
  const std::uint64_t chunks = ceil_div(geometry_.size_pages, 64);
  const std::uint64_t share = ceil_div(chunks, parts);
  return {std::min(part * share * 64, geometry_.size_pages), std::min((part + 1) * share * 64, geometry_.size_pages)};
}

status space_index::boot(unsigned part, unsigned parts) noexcept {
  if (status s = exists(); !s) return s;
  const slice own = slice_of(part, parts);
  std::uint64_t busy = 0;
  std::uint64_t extents = 0;
  // Bits of the chunk at hand are gathered and set at once.
  std::uint64_t chunk = own.first / 64;
  std::uint64_t gathered = 0;
  std::uint64_t heads = 0;
  std::uint64_t of_stores_here = 0;
  bool apart = true;
  const auto flush = [&] {
    if (heads != 0) pages.mark_heads_in_chunk(chunk, heads);
    if (gathered != 0) apart = pages.mark_busy_in_chunk(chunk, gathered);
    if (of_stores_here != 0) of_stores.add_in_chunk(chunk, of_stores_here);
    gathered = heads = of_stores_here = 0;
  };
  const auto overlap = [&](std::uint64_t page) {
    return fail(errc::corrupt, "page map entry at offset %lu: page %lu belongs to two entries or to none before it",
                geometry_.entry_offset(page), page);
  };
  for (std::uint64_t page = own.first; page < own.end; ++page) {
    layout::page_entry entry;
    if (page % 64 == 0 && map.has_alike(page, own.end, entry)) {
      if (entry.length_pages != 0) {
        flush();
        chunk = page / 64;
        heads = gathered = ~std::uint64_t{0};
        if (entry.kind == page_kind::cluster) of_stores_here = gathered;
        busy += 64;
        if (is_indexed_later(entry)) extents += 64;
        if (!apart) return overlap(page);
      }
      page += 63;
      continue;
    }
    const std::uint64_t word = map.load(page);
    if (word == 0) continue;
    if (const char* what = entry_fault(word, page, geometry_, geometry_.size_pages, entry)) {
      return fail(errc::corrupt, "page %lu: %s, at offset %lu: found %016lx", page, what, geometry_.entry_offset(page),
                  word);
    }
    if (page / 64 != chunk) {
      flush();
      chunk = page / 64;
    }
    heads |= std::uint64_t{1} << page % 64;
    busy += entry.length_pages;
    if (is_indexed_later(entry)) ++extents;
    if (page % 64 + entry.length_pages <= 64) {
      const std::uint64_t ones =
          entry.length_pages == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << entry.length_pages) - 1;
      const std::uint64_t mask = ones << page % 64;
      if ((gathered & mask) != 0) return overlap(page);
      gathered |= mask;
      if (entry.kind == page_kind::cluster) of_stores_here |= mask;
    } else if (!pages.mark_busy(page, entry.length_pages)) {
      return overlap(page);
    } else if (entry.kind == page_kind::cluster) {
      of_stores.add(page, entry.length_pages);
    }
    if (!apart) return overlap(page);
  }
  flush();
  if (!apart) return overlap(own.end - 1);
  pages.account(busy);
  unindexed_.fetch_add(extents, std::memory_order_relaxed);
  return {};
}

status space_index::build_index(unsigned part, unsigned parts) noexcept {
  if (status s = exists(); !s) return s;
  const slice own = slice_of(part, parts);
  for (std::uint64_t page = own.first; page < own.end; ++page) {
    const std::uint64_t word = map.load(page);
    layout::page_entry entry;
    if (word == 0 || entry_fault(word, page, geometry_, pages.size_pages(), entry) != nullptr) continue;
    if (entry.kind != page_kind::fine && entry.kind != page_kind::coarse) continue;
    if (!layout::transactional(entry) || states.get(page).code() != 0) continue;
    if (auto e = index(page, entry, orphans(), nobody); !e && e.error() != errc::corrupt) return e.error();
  }
  return {};
}

// ---- arenas --------------------------------------------------------------------------------------------------------

arena* space_index::arena_at(unsigned number) noexcept {
  arena* a = existing_arena(number);
  if (a != nullptr) return a;
  auto* made = new (std::nothrow) arena;
  if (made == nullptr) return nullptr;
  std::uint64_t found = 0;
  if (arenas_[number].compare_exchange_strong(found, reinterpret_cast<std::uintptr_t>(made), std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
    made->made_before = made_.load(std::memory_order_relaxed);
    // relaxed: read by the destructor alone.
    while (!made_.compare_exchange_weak(made->made_before, made, std::memory_order_relaxed)) {
    }
    return made;
  }
  delete made;
  return reinterpret_cast<arena*>(found);
}

void space_index::move(extent& e, unsigned to, unsigned who) noexcept {
  const unsigned set = slot_set_of(e.kind, e.layout);
  arena& old = lock(e, who);
  const bool on_its_way = e.bucket == slot_buckets::in_transit;
  const std::uint32_t from = e.arena.load(std::memory_order_relaxed);
  if (!on_its_way && from != to && from <= orphans()) {
    old.sets[set].remove(e);
    e.arena.store(to, std::memory_order_release);
    old.lock.unlock();
    arena& a = lock(e, who);
    a.sets[set].insert(e);
    a.lock.unlock();
    return;
  }
  old.lock.unlock();
}

bool space_index::adopt(unsigned from, unsigned to, unsigned set, unsigned count, unsigned who) noexcept {
  arena* source = existing_arena(from);
  if (source == nullptr || from == to) return false;
  extent* e = nullptr;
  {
    const biased_lock::guard guard{source->lock, who};
    e = source->sets[set].candidate(count);
    if (e == nullptr) return false;
    source->sets[set].remove(*e);
    e->arena.store(to, std::memory_order_release);
  }
  arena& a = lock(*e, who);
  a.sets[set].insert(*e);
  a.lock.unlock();
  return true;
}

bool space_index::adopt_from_any(unsigned to, unsigned set, unsigned count, unsigned who) noexcept {
  for (unsigned i = 0; i <= arena_count_; ++i) {
    if (adopt(i, to, set, count, who)) return true;
  }
  return false;
}

void space_index::name(extent& e, std::uint64_t page, unsigned arena_number, unsigned who) noexcept {
  // A thread with a stale pointer to it looks at its page under the lock of the arena that it was part of last.
  arena* const last = e.arena.load(std::memory_order_relaxed) == extent::no_arena ? nullptr : &lock(e, who);
  e.arena.store(arena_number, std::memory_order_release);
  if (last != nullptr) last->lock.unlock();
  const unlocking guard{lock(e, who)};
  e.page = page;
  e.bucket = slot_buckets::in_transit;
}

void space_index::file(extent& e, std::int64_t bytes_used, unsigned who) noexcept {
  arena& a = lock(e, who);
  const unlocking guard{a};
  a.slot_bytes_used += bytes_used;
  a.sets[slot_set_of(e.kind, e.layout)].insert(e);
}

// ---- indexing ------------------------------------------------------------------------------------------------------

result<extent*> space_index::index(std::uint64_t page, const layout::page_entry& entry, unsigned to,
                                   unsigned who) noexcept {
  return index_at(page, entry, geometry_.entry_offset(page), to, who);
}

result<extent*> space_index::index_at(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at,
                                      unsigned to, unsigned who) noexcept {
  arena* a = arena_at(to);
  extent* e = a == nullptr ? nullptr : descriptors(entry.kind).get();
  if (e == nullptr) return fail(errc::no_memory, "no volatile memory to index the extent at page %lu", page);
  const layout::extent_shape& s = shape(entry.kind);
  const std::uint64_t at = geometry_.page_offset(page);
  damage first_damage;
  {
    const std::lock_guard guard{states.lock_of(page)};
    // acquire: as page_map::load().
    const std::uint64_t now = std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + entry_at)}.load(
        std::memory_order_acquire);
    if (states.get(page).code() != 0 || now != seal_word(layout::pack(entry), word_seed(entry_at))) {
      descriptors(entry.kind).put(e);
      return nullptr;
    }
    e->make_empty(entry.layout, s);
    unsigned damages = 0;
    std::uint64_t used = 0;
    read_extent(
        base_, at, entry.kind, s,
        [&](unsigned slot, unsigned slots) {
          e->add(slot, slots);
          used += slots;
        },
        [&](const damage& d) {
          if (damages++ == 0) first_damage = d;
        });
    unindexed_.fetch_sub(1, std::memory_order_relaxed);
    if (damages == 0) {
      e->measure();
      name(*e, page, to, who);
      states.set(page, page_state::of(*e));
      file(*e, static_cast<std::int64_t>(used * s.slot_bytes), who);
      return e;
    }
    states.set(page, page_state::quarantine(entry.length_pages));
  }
  quarantined_.fetch_add(1, std::memory_order_relaxed);
  descriptors(entry.kind).put(e);
  return fail(errc::corrupt, "extent at page %lu: %s, at offset %lu: found %lx, expected %lx", page, first_damage.what,
              first_damage.offset, first_damage.found, first_damage.expected);
}

bool space_index::walk(unsigned to, unsigned set, unsigned count, unsigned chunks_max, unsigned extents_max,
                       unsigned who) noexcept {
  const std::uint64_t end = ceil_div(geometry_.size_pages, 64);
  std::atomic<std::uint64_t>& cursor = cursors_[set];
  bool found = false;
  unsigned indexed = 0;
  for (unsigned i = 0; i < chunks_max && indexed < extents_max; ++i) {
    const std::uint64_t chunk = cursor.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= end) break;
    const std::uint64_t last = std::min(chunk * 64 + 64, geometry_.size_pages);
    for (std::uint64_t page = chunk * 64; page < last; ++page) {
      const std::uint64_t word = map.load(page);
      layout::page_entry entry;
      if (word == 0 || states.get(page).code() != 0) continue;
      if (entry_fault(word, page, geometry_, pages.size_pages(), entry) != nullptr) continue;
      if (entry.kind != kind_of_set(set) || entry.layout != layout_of_set(set) || !layout::transactional(entry))
        continue;
      const auto e = index(page, entry, to, who);
      if (!e || *e == nullptr) continue;
      ++indexed;
      arena& a = lock(**e, who);
      found = found || ((*e)->page == page && (*e)->longest >= count);
      a.lock.unlock();
    }
  }
  return found;
}

bool space_index::index_some(unsigned to, unsigned set, unsigned count, unsigned who) noexcept {
  return walk(to, set, count, chunks_per_miss, indexed_per_miss, who);
}

bool space_index::index_rest(unsigned to, unsigned set, unsigned count, unsigned who) noexcept {
  return walk(to, set, count, ~0U, ~0U, who);
}

bool space_index::index_up_to(unsigned extents_max) noexcept {
  const std::uint64_t before = unindexed_.load(std::memory_order_relaxed);
  if (before == 0) return false;
  for (unsigned set = 0; set < slot_sets; ++set) (void)walk(orphans(), set, 1, ~0U, extents_max, nobody);
  return unindexed_.load(std::memory_order_relaxed) != before;
}

bool space_index::index_everything() noexcept { return index_up_to(~0U); }

result<bool> space_index::look_up(std::uint64_t page) noexcept {
  std::uint64_t head = page;
  std::uint64_t word = map.load(page);
  if (word == 0) {
    head = round_down(page, layout::coarse_extent_pages);
    word = map.load(head);
    if (word == 0) return false;
  }
  layout::page_entry entry;
  if (const char* what = entry_fault(word, head, geometry_, pages.size_pages(), entry)) {
    return fail(errc::corrupt, "page %lu: %s, at offset %lu: found %016lx", head, what, geometry_.entry_offset(head),
                word);
  }
  if (head + entry.length_pages <= page || !layout::transactional(entry)) return false;
  if (entry.kind == page_kind::run) {
    const std::lock_guard guard{states.lock_of(head)};
    // The state is 0 and then the entry is still there: no thread has looked the run up, so none can free it.
    if (states.get(head).code() == 0 && map.load(head) == word) {
      states.set(head, page_state::run(entry.length_pages, entry.layout, false));
    }
    return head == page;
  }
  if (entry.kind != page_kind::fine && entry.kind != page_kind::coarse) return false;
  if (states.get(head).code() != 0) return true;
  auto e = index(head, entry, orphans(), nobody);
  if (!e && e.error() != errc::corrupt) return e.error();
  return true;
}

// ---- attached stores -----------------------------------------------------------------------------------------------

std::uint64_t space_index::cluster_around(std::uint64_t page) const noexcept {
  if (pages.is_free(page)) return no_cluster;
  if (const auto nearest = pages.head_before(page)) {
    layout::page_entry e;
    const std::uint64_t word = map.load(*nearest);
    const bool holds = word != 0 && entry_fault(word, *nearest, geometry_, pages.size_pages(), e) == nullptr;
    if (holds && *nearest + e.length_pages > page) return e.kind == page_kind::cluster ? *nearest : no_cluster;
  }
  // A head was missed while its neighbours changed (page_heads.hpp), or another is being made.
  geometry now = geometry_;
  now.size_pages = pages.size_pages();
  return cluster_head(base_, now, page);
}

result<bool> space_index::look_up_in(open_store& s, std::uint64_t page) noexcept {
  const auto c = s.cluster_with(page);
  if (!c) return false;
  std::uint64_t head = page;
  std::uint64_t word = inner_word(*c, page);
  if (word == 0) {
    head = round_down(page, layout::coarse_extent_pages);
    if (!c->has(head)) return false;
    word = inner_word(*c, head);
    if (word == 0) return false;
  }
  layout::page_entry entry;
  if (const char* what = inner_entry_fault(word, head, *c, geometry_, entry)) {
    return fail(errc::corrupt, "store %u: %s, at offset %lu: found %016lx", s.number(), what,
                c->entry_offset(geometry_, head), word);
  }
  if (head + entry.length_pages <= page || !layout::transactional(entry)) return false;
  if (entry.kind == page_kind::run) {
    const std::lock_guard guard{states.lock_of(head)};
    // As in look_up().
    if (states.get(head).code() == 0 && inner_word(*c, head) == word) {
      states.set(head, page_state::run(entry.length_pages, entry.layout, false, s.place()));
    }
    return head == page;
  }
  if (states.get(head).code() != 0) return true;
  auto e = index_at(head, entry, c->entry_offset(geometry_, head), s.arena(), nobody);
  if (!e && e.error() != errc::corrupt) return e.error();
  if (!e || *e != nullptr) s.note_indexed();
  return true;
}

bool space_index::index_in(open_store& s, unsigned set, unsigned count, unsigned extents_max, unsigned who) noexcept {
  bool found = false;
  for (unsigned indexed = 0; indexed < extents_max;) {
    const auto page = s.next_unindexed(set);
    if (!page) break;
    // Since the store was attached the extent may have been indexed, or given back.
    const auto c = s.cluster_with(*page);
    if (!c || states.get(*page).code() != 0) continue;
    const std::uint64_t word = inner_word(*c, *page);
    layout::page_entry entry;
    if (word == 0 || inner_entry_fault(word, *page, *c, geometry_, entry) != nullptr) continue;
    if (entry.kind != kind_of_set(set) || entry.layout != layout_of_set(set) || !layout::transactional(entry)) continue;
    const auto e = index_at(*page, entry, c->entry_offset(geometry_, *page), s.arena(), who);
    if (!e ? e.error() == errc::corrupt : *e != nullptr) s.note_indexed();
    if (!e || *e == nullptr) continue;
    ++indexed;
    arena& a = lock(**e, who);
    found = found || ((*e)->page == *page && (*e)->longest >= count);
    a.lock.unlock();
  }
  return found;
}

}  // namespace nvm
