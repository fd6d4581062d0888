// Where the regions of one set are: slots of equal size in extents, and runs of whole pages.  Free slots are known only
// in volatile memory, and found again by the headers (Lewat, section V: write reduction).
//
/// Extent.  S store, F flush, | fence.
///   1. S head, zero headers or lines; F them;   | region/E1  an extent is whole before the page map names it
///   2. S page map entry; F it;         | space/E6
/// Run of one region:
///   1. S page map entry; F it; the bytes of the region are fenced with it (region/E2) before a header leads there
//
// Slots are given out again in the order in which they were left (wear-levelling by round robin).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "media/media.hpp"
#include "region/entry.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::region {

[[nodiscard]] inline bool is_slot_of(const std::byte* base, const region_pages& pages, std::uint16_t owner,
                                     std::uint64_t place) noexcept;

template <media M>
class places {
 public:
  // May throw std::bad_alloc: an empty queue has memory.
  places(M& medium, std::byte* base, region_pages& pages, std::uint16_t owner)
      : medium_{medium}, base_{base}, pages_{pages}, owner_{owner} {}

  [[nodiscard]] std::uint16_t owner() const noexcept { return owner_; }
  [[nodiscard]] std::uint64_t extent_bytes() const noexcept {
    return layout::extent_pages << pages_.sizes().page_shift;
  }

  // Offset of a free slot; its header is zero.  grows() is called before an extent is taken.  errc::no_space,
  // no_memory, or the error of growth.
  template <class Grows>
  [[nodiscard]] result<std::uint64_t> take_slot(unsigned in_class, unsigned arena, Grows&& grows) noexcept {
    NVM_ASSERT(in_class < layout::all_classes);
    slots& s = slots_[in_class];
    // acquire: pairs with read_saved().
    if (unread_.load(std::memory_order_acquire) && is_empty(in_class)) read_saved();
    const std::lock_guard guard{s.lock};
    if (s.free.empty()) {
      grows();
      if (status made = new_extent(in_class, arena); !made) return made.error();
    }
    const std::uint64_t at = s.free.front();
    s.free.pop_front();
    return at;
  }
  // Pages for the bytes of a region; the page map entry is flushed, and not fenced.
  [[nodiscard]] result<std::uint64_t> take_run(std::uint64_t bytes, unsigned arena) noexcept {
    return pages_.take_run(
        arena,
        run_wish{.protocol = nvm::layout::slot_protocol::region, .owner = owner_, .bytes = bytes, .fenced = false});
  }
  // Takes back a slot that no thread can find.  Without memory to remember it, it comes back when the pool is opened
  // again, and its headers are looked at.
  void put_slot(unsigned in_class, std::uint64_t offset) noexcept try {
    slots& s = slots_[in_class];
    const std::lock_guard guard{s.lock};
    s.free.push_back(offset);
  } catch (const std::bad_alloc&) {
    forgets_.store(true, std::memory_order_relaxed);
  }

  // ---- the table that a close saves (saved_table.hpp) ----

  // For a set whose table is taken, before any thread uses it: free slots, which are read when one of their class is
  // wanted and there is no other; and the extents of partners.  May throw std::bad_alloc.
  void begin_with(std::span<const std::uint64_t> free, std::span<const std::uint64_t> extents) {
    partner_extents_.assign(extents.begin(), extents.end());
    saved_ = free;
    unread_.store(!free.empty(), std::memory_order_relaxed);
  }
  // Reads the free slots; afterwards the saved table is not needed.
  void read_saved() noexcept {
    const std::lock_guard guard{reading_};
    if (!unread_.load(std::memory_order_relaxed)) return;
    std::uint64_t before = 0;
    for (const std::uint64_t place : saved_) {
      const std::uint64_t at = layout::offset_of(place);
      layout::header h{};
      // Ascending: none is there twice.
      if (at > before && is_slot_of(base_, pages_, owner_, place) && !layout::is_of_partners(layout::class_in(place))) {
        std::memcpy(&h, base_ + at, sizeof h);
        before = at;
      } else {
        h.rid = 1;
      }
      if ((h.rid | h.length_state | h.place_written | h.seal) == 0) {
        put_slot(layout::class_in(place), at);
      } else {
        forgets_.store(true, std::memory_order_relaxed);
      }
    }
    saved_ = {};
    unread_.store(false, std::memory_order_release);
  }
  // Whether there may be free slots that are not known.
  [[nodiscard]] bool forgets() const noexcept { return forgets_.load(std::memory_order_relaxed); }
  // As saved_place(), ascending.  May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::uint64_t> free_slots() {
    std::vector<std::uint64_t> all;
    for (unsigned c = 0; c < layout::classes; ++c) {
      const std::lock_guard guard{slots_[c].lock};
      for (const std::uint64_t at : slots_[c].free) all.push_back(layout::saved_place(at, c));
    }
    std::sort(all.begin(), all.end(),
              [](std::uint64_t a, std::uint64_t b) { return layout::offset_of(a) < layout::offset_of(b); });
    return all;
  }
  // May throw std::bad_alloc.
  void note_partners(std::uint64_t extent) {
    const std::lock_guard guard{extents_lock_};
    const auto at = std::lower_bound(partner_extents_.begin(), partner_extents_.end(), extent);
    if (at == partner_extents_.end() || *at != extent) partner_extents_.insert(at, extent);
  }
  // Ascending.
  [[nodiscard]] std::vector<std::uint64_t> partner_extents() const {
    const std::lock_guard guard{extents_lock_};
    return partner_extents_;
  }
  [[nodiscard]] bool has_partners_in(std::uint64_t extent) const noexcept {
    const std::lock_guard guard{extents_lock_};
    return std::binary_search(partner_extents_.begin(), partner_extents_.end(), extent);
  }

  void put_runs(std::span<const std::uint64_t> offsets) noexcept { pages_.give(offsets); }

 private:
  struct slots {
    std::mutex lock;
    std::deque<std::uint64_t> free;
  };

  [[nodiscard]] bool is_empty(unsigned in_class) noexcept {
    const std::lock_guard guard{slots_[in_class].lock};
    return slots_[in_class].free.empty();
  }
  [[nodiscard]] status new_extent(unsigned in_class, unsigned arena) noexcept try {
    slots& s = slots_[in_class];
    const std::uint64_t count = layout::slots_in(extent_bytes(), in_class);
    // A queue has no room of its own to ask for.
    std::deque<std::uint64_t> more(count);
    struct job {
      places* all;
      unsigned in_class;
      std::uint64_t count;
    } lays{this, in_class, count};
    const auto lay = [](void* raw, std::uint64_t offset) {
      const job& j = *static_cast<job*>(raw);
      j.all->lay_extent(offset, j.in_class, j.count);
    };
    const auto at = pages_.take_run(arena, run_wish{.protocol = nvm::layout::slot_protocol::region,
                                                    .owner = owner_,
                                                    .bytes = extent_bytes(),
                                                    .layout = nvm::layout::object_layout::region,
                                                    .known = lay,
                                                    .context = &lays});
    if (!at) return at.error();
    if (layout::is_of_partners(in_class)) note_partners(*at);
    for (std::uint64_t i = 0; i < count; ++i) more[i] = *at + layout::slot_at(in_class, i);
    s.free.swap(more);  // it was empty
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the slots of an extent of regions");
  }
  void lay_extent(std::uint64_t offset, unsigned in_class, std::uint64_t count) noexcept {
    layout::extent_head head{};
    head.magic_and_slot = seal_word(layout::head_of_class(in_class), word_seed(offset));
    std::memcpy(base_ + offset, &head, sizeof head);
    medium_.flush(base_ + offset, sizeof head);
    const std::size_t first = layout::is_of_partners(in_class) ? sizeof(layout::partner) : sizeof(layout::header);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::byte* const at = base_ + offset + layout::slot_at(in_class, i);
      std::memset(at, 0, first);
      medium_.flush(at, first);
    }
    medium_.fence(edge{"region/E1"});
  }

  M& medium_;
  std::byte* base_;
  region_pages& pages_;
  std::uint16_t owner_;
  std::array<slots, layout::all_classes> slots_;
  std::mutex reading_;  // taken before those of slots
  std::span<const std::uint64_t> saved_;
  std::atomic<bool> unread_{false};
  mutable std::mutex extents_lock_;  // taken after those of slots
  std::vector<std::uint64_t> partner_extents_;
  std::atomic<bool> forgets_{false};
};

// ---- reading extents: headers, checked -------------------------------------------------------------------

[[nodiscard]] inline std::uint64_t seal_of(const layout::header& h, std::uint64_t offset, std::uint64_t key) noexcept {
  return checksum(&h, offsetof(layout::header, seal), mix_seed(key, offset));
}
[[nodiscard]] inline layout::header sealed(const layout::facts& f, std::uint64_t offset, std::uint64_t key) noexcept {
  layout::header h = layout::pack(f);
  h.seal = seal_of(h, offset, key);
  return h;
}
// The class of the slots of the extent at `offset`; `all_classes`: it is none.
[[nodiscard]] inline unsigned class_of_extent(const std::byte* base, std::uint64_t offset) noexcept {
  layout::extent_head head;
  std::memcpy(&head, base + offset, sizeof head);
  if (!word_holds(head.magic_and_slot, word_seed(offset))) return layout::all_classes;
  return layout::class_of_head(head.magic_and_slot & checked_mask);
}
// What is wrong with the header at `offset` of a slot of the class; nullptr: nothing, and `out` has its facts.
[[nodiscard]] inline const char* header_fault(const std::byte* base, std::uint64_t offset, unsigned in_class,
                                              std::uint64_t key, layout::facts& out) noexcept {
  layout::header h;
  std::memcpy(&h, base + offset, sizeof h);
  out = {};
  if (h.rid == 0 && h.length_state == 0 && h.place_written == 0 && h.seal == 0) return nullptr;
  out = layout::unpack(h);
  if (h.seal != seal_of(h, offset, key)) return "header of a region fails its check";
  const std::uint64_t room = layout::slot_bytes_of_class[in_class] - sizeof h;
  switch (out.where) {
    case layout::state::nowhere:
      if (out.written != 0) return "a region without a place says that it was written";
      break;
    case layout::state::inside:
      if (in_class == 0) return "a region is inside of a slot without room";
      if (out.written > room) return "a region is larger than its slot";
      break;
    case layout::state::run:
      break;
    default:
      return "header of a region has an unknown state";
  }
  return out.written > out.length ? "a region has more written bytes than bytes" : nullptr;
}
// Whether a slot is there, in an extent of the owner; `place` as saved_place().
inline bool is_slot_of(const std::byte* base, const region_pages& pages, std::uint16_t owner,
                       std::uint64_t place) noexcept {
  const unsigned in_class = layout::class_in(place);
  const geometry& g = pages.sizes();
  if (!g.in_data(layout::offset_of(place), sizeof(layout::header))) return false;
  // Its extent begins in this page, or in one of those before.
  const std::uint64_t page = g.page_of(layout::offset_of(place));
  auto run = pages.owned_at(g.page_offset(page));
  for (std::uint64_t back = 1; !run && back < layout::extent_pages && back <= page; ++back) {
    run = pages.owned_at(g.page_offset(page - back));
  }
  if (in_class >= layout::all_classes || !run || run->owner != owner ||
      run->protocol != nvm::layout::slot_protocol::region || run->layout != nvm::layout::object_layout::region ||
      run->bytes != layout::extent_pages << g.page_shift || class_of_extent(base, run->offset) != in_class) {
    return false;
  }
  const std::uint64_t first = layout::offset_of(place) - run->offset;
  if (first < sizeof(layout::extent_head)) return false;
  const std::uint64_t index = (first - sizeof(layout::extent_head)) / layout::slot_bytes(in_class);
  return layout::slot_at(in_class, index) == first && index < layout::slots_in(run->bytes, in_class);
}
// Fills the entry of an open region from its header at `at`.  Returns nullptr, or what is wrong with it.
[[nodiscard]] inline const char* fill_entry(entry& made, const layout::facts& f, std::uint64_t at, unsigned in_class,
                                            const region_pages& pages, std::uint16_t owner) noexcept {
  made.rid = f.rid;
  made.header = at;
  made.in_class = in_class;
  made.levelling = f.levelling;
  // Bytes that were cut off may have been logged before; all of that is home.
  made.length.store(f.length, std::memory_order_relaxed);
  made.written.store(f.written, std::memory_order_relaxed);
  made.capacity = layout::slot_bytes_of_class[in_class] - sizeof(layout::header);
  std::uint64_t place = at + sizeof(layout::header);
  if (f.where != layout::state::inside) {
    place = 0;
    made.in_class = 0;
    made.capacity = f.length;
    if (in_class != 0) return "a region that is elsewhere has a slot with room for it";
  }
  if (f.where == layout::state::run) {
    place = pages.sizes().page_offset(f.page);
    const auto run = pages.owned_at(place);
    const bool its = run && run->offset == place && run->owner == owner &&
                     run->protocol == nvm::layout::slot_protocol::region &&
                     run->layout == nvm::layout::object_layout::raw && f.written <= run->bytes;
    if (!its) return "a region names pages that are not its own";
    made.capacity = run->bytes;
    // More pages than it has for growth.
    made.cut = run->bytes > round_up(f.length + f.length / 4, pages.sizes().page_bytes()) ? 1 : 0;
  }
  made.place.store(place, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace nvm::region
