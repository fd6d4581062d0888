// Where the regions of one set are: slots of equal size in extents, and runs of whole pages.  Which slots are free is
// known in volatile memory alone, and rebuilt from the headers (Lewat, section V: write reduction).
//
/// Extent.  S store, F flush, | fence.
///   1. S head, zero headers or lines; F them;   | region/E1  an extent is whole before the page map names it
///   2. S page map entry; F it;         | space/E6
/// Run of one region:
///   1. S page map entry; F it; the bytes of the region are fenced with it (region/E2) before a header leads there
//
// A slot is given out again last of all that were left (wear-levelling by round robin).
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "media/media.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::region {

template <media M>
class places {
 public:
  // May throw std::bad_alloc: an empty queue has memory.
  places(M& medium, std::byte* base, structure_pages& pages, std::uint16_t owner)
      : medium_{medium}, base_{base}, pages_{pages}, owner_{owner} {}

  [[nodiscard]] std::uint16_t owner() const noexcept { return owner_; }
  [[nodiscard]] std::uint64_t extent_bytes() const noexcept {
    return layout::extent_pages << pages_.sizes().page_shift;
  }

  // Offset of a free slot; its header is zero.  errc::no_space, no_memory, or the error of growth.
  [[nodiscard]] result<std::uint64_t> take_slot(unsigned in_class, unsigned arena) noexcept {
    NVM_ASSERT(in_class < layout::all_classes);
    slots& s = slots_[in_class];
    const std::lock_guard guard{s.lock};
    if (s.free.empty()) {
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
  // A slot that nobody can find.  Without memory to remember it, it comes back when the pool is opened again.
  void put_slot(unsigned in_class, std::uint64_t offset) noexcept try {
    slots& s = slots_[in_class];
    const std::lock_guard guard{s.lock};
    s.free.push_back(offset);
  } catch (const std::bad_alloc&) {
  }
  void put_runs(std::span<const std::uint64_t> offsets) noexcept { pages_.give(offsets); }

 private:
  struct slots {
    std::mutex lock;
    std::deque<std::uint64_t> free;
  };

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
  structure_pages& pages_;
  std::uint16_t owner_;
  std::array<slots, layout::all_classes> slots_;
};

// ---- reading extents: what a header says, checked -------------------------------------------------------------------

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
// What is wrong with the header at `offset` of a slot of the class; nullptr: nothing, and `out` says what it does.
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
      if (out.written > room) return "a region is larger than its slot";
      break;
    case layout::state::run:
      break;
    default:
      return "header of a region has an unknown state";
  }
  return out.written > out.length ? "a region has more written bytes than bytes" : nullptr;
}

}  // namespace nvm::region
