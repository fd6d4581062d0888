// What is known in DRAM about one slotted extent: rebuilt from its header, never persisted.
//
//   busy      slots that belong to an object, to a reservation, or to the header
//   first     slots where an object or a reservation begins: the volatile twin of the first words
//   reserved  of these, the ones whose transaction is still open
//   freeing   of these, the ones that an open transaction frees
//   tags      for each first word, who changed it last (log/tag.hpp)
//
// `longest` is at least the longest run of free slots; a search that fails makes it exact, so that an allocation does
// not pay for a scan of the whole extent.  Slots are handed out clockwise from `mark` (Lewat, section V).
//
// Threads.  Everything but `arena` and `kind` is guarded by the lock of the arena that `arena` names; while `page` is
// no_page, all but `page` belongs to the thread that took the descriptor from its pool.  Descriptors are never unmapped
// while their space lives and keep their kind: a stale pointer to one leads to a descriptor, whose page tells whether
// it is still the one that was meant.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "log/log.hpp"
#include "space/extent_image.hpp"
#include "space/slot_bits.hpp"
#include "sync/sync.hpp"

namespace nvm {

inline constexpr std::uint64_t no_page = ~std::uint64_t{0};

struct alignas(line_bytes) extent {
  extent* next = nullptr;  // in its bucket
  extent* previous = nullptr;
  std::uint64_t page = no_page;
  static constexpr std::uint32_t no_arena = ~std::uint32_t{0};  // a descriptor of no extent: no thread points to it
  std::atomic<std::uint32_t> arena{no_arena};
  std::uint32_t tags_hidden = 0;   // counts tags that another lane's replaced before they were settled
  std::uint32_t tags_settled = 0;  // so many of these have been settled
  std::uint16_t slots = 0;
  std::uint16_t header_slots = 0;
  std::uint16_t bit_words = 0;  // 64-bit words of each bitmap
  std::uint16_t tag_words = 0;
  std::uint16_t mark = 0;
  std::uint16_t longest = 0;
  std::uint16_t objects = 0;  // begun in `first`
  std::uint16_t bucket = 0;
  layout::page_kind kind;
  layout::object_layout layout = layout::object_layout::raw;
  std::uint64_t freed_by = 0;  // newest generation that freed an object; where replays store contents (space.hpp)

  explicit extent(layout::page_kind k) noexcept : kind{k} {}

  [[nodiscard]] std::uint64_t* busy() noexcept { return reinterpret_cast<std::uint64_t*>(this + 1); }
  [[nodiscard]] std::uint64_t* first() noexcept { return busy() + bit_words; }
  [[nodiscard]] std::uint64_t* reserved() noexcept { return first() + bit_words; }
  [[nodiscard]] std::uint64_t* freeing() noexcept { return reserved() + bit_words; }
  [[nodiscard]] std::uint64_t* tags() noexcept { return freeing() + bit_words; }

  [[nodiscard]] static std::size_t bytes_for(const layout::extent_shape& s) noexcept {
    return round_up(sizeof(extent) + (4 * ceil_div(s.slots, 64) + s.words) * 8, line_bytes);
  }

  // Makes an unused descriptor.  It has no page, so that a thread with a stale pointer to it stops there.
  void make_empty(layout::object_layout l, const layout::extent_shape& s) noexcept {
    next = previous = nullptr;
    tags_hidden = tags_settled = 0;
    freed_by = 0;
    layout = l;
    slots = static_cast<std::uint16_t>(s.slots);
    header_slots = static_cast<std::uint16_t>(s.header_slots);
    bit_words = static_cast<std::uint16_t>(ceil_div(s.slots, 64));
    tag_words = static_cast<std::uint16_t>(s.words);
    std::memset(busy(), 0, (4U * bit_words + tag_words) * 8);
    slot_bits::set_range(busy(), 0, header_slots);
    slot_bits::set_range(busy(), slots, bit_words * 64U - slots);
    mark = header_slots;
    longest = static_cast<std::uint16_t>(slots - header_slots);
    objects = 0;
  }

  // An object found on media.
  void add(unsigned slot, unsigned count) noexcept {
    slot_bits::set_range(busy(), slot, count);
    slot_bits::set(first(), slot);
    ++objects;
  }

  // Makes `longest` exact.
  void measure() noexcept {
    unsigned best = 0;
    (void)seek(header_slots, slots, slots, best);
    longest = static_cast<std::uint16_t>(best);
  }

  // First of the slots that take() would reserve, to which the mark moves; 0: there are none, and `longest` is exact
  // now.
  [[nodiscard]] unsigned look_for(unsigned count) noexcept {
    unsigned best = 0;
    unsigned slot = seek(mark, slots, count, best);
    if (slot == 0) slot = seek(header_slots, mark, count, best);
    if (slot == 0) {
      longest = static_cast<std::uint16_t>(best);
      return 0;
    }
    mark = static_cast<std::uint16_t>(slot);
    return slot;
  }
  // Reserves `count` consecutive free slots; returns the first, or 0 as above.
  [[nodiscard]] unsigned take(unsigned count) noexcept {
    const unsigned slot = look_for(count);
    if (slot == 0) return 0;
    slot_bits::set_range(busy(), slot, count);
    slot_bits::set(first(), slot);
    slot_bits::set(reserved(), slot);
    ++objects;
    const unsigned behind = slot + count;
    mark = static_cast<std::uint16_t>(behind < slots ? behind : header_slots);
    return slot;
  }

  // The object or reservation at `slot` is freed.
  void drop(unsigned slot, unsigned count) noexcept {
    slot_bits::clear_range(busy(), slot, count);
    slot_bits::clear(first(), slot);
    slot_bits::clear(reserved(), slot);
    slot_bits::clear(freeing(), slot);
    --objects;
    const unsigned begin = slot - slot_bits::zeros_below(busy(), slot);
    const unsigned run = slot_bits::next_one(busy(), slot + count, slots) - begin;
    if (run > longest) longest = static_cast<std::uint16_t>(run);
  }

  // An object begins at `slot` and its slots are its own: what a length byte claims is plausible.
  [[nodiscard]] bool spans(unsigned slot, unsigned count) noexcept {
    return count != 0 && count <= unsigned{slots} - slot &&
           slot_bits::next_zero(busy(), slot, slot + count) == slot + count &&
           slot_bits::next_one(first(), slot + 1, slot + count) == slot + count;
  }

 private:
  // First of `count` free slots in a run that begins in [from, stop); 0: none, `best` is the longest seen.
  [[nodiscard]] unsigned seek(unsigned from, unsigned stop, unsigned count, unsigned& best) noexcept {
    for (unsigned p = from;;) {
      p = slot_bits::next_zero(busy(), p, stop);
      if (p >= stop) return 0;
      const unsigned q = slot_bits::next_one(busy(), p, std::min(p + count, unsigned{slots}));
      if (q - p >= count) return p;
      best = std::max(best, q - p);
      p = q;
    }
  }
};

// Descriptors of one kind, recycled; memory is returned when the space goes.
class extent_pool {
 public:
  extent_pool(layout::page_kind kind, const layout::extent_shape& s) noexcept
      : kind_{kind}, bytes_{extent::bytes_for(s)} {}
  extent_pool(const extent_pool&) = delete;
  extent_pool& operator=(const extent_pool&) = delete;
  ~extent_pool() {
    while (slabs_ != nullptr) {
      slab* s = slabs_;
      slabs_ = s->next;
      std::free(s);
    }
  }

  [[nodiscard]] std::size_t bytes_of_one() const noexcept { return bytes_; }
  // nullptr: no memory.
  [[nodiscard]] extent* get() noexcept {
    const std::lock_guard guard{lock_};
    if (free_ == nullptr && !more()) return nullptr;
    extent* e = free_;
    free_ = e->next;
    e->next = nullptr;
    return e;
  }
  void put(extent* e) noexcept {
    const std::lock_guard guard{lock_};
    e->next = free_;
    free_ = e;
  }

 private:
  struct alignas(line_bytes) slab {
    slab* next;
  };
  static constexpr std::size_t per_slab = 64;

  [[nodiscard]] bool more() noexcept {
    void* memory = std::aligned_alloc(line_bytes, sizeof(slab) + per_slab * bytes_);
    if (memory == nullptr) return false;
    slabs_ = ::new (memory) slab{slabs_};
    auto* at = reinterpret_cast<std::byte*>(slabs_ + 1);
    for (std::size_t i = 0; i < per_slab; ++i, at += bytes_) {
      auto* e = ::new (static_cast<void*>(at)) extent{kind_};
      e->next = free_;
      free_ = e;
    }
    return true;
  }

  const layout::page_kind kind_;
  const std::size_t bytes_;
  spin_lock lock_;
  extent* free_ = nullptr;
  slab* slabs_ = nullptr;
};

}  // namespace nvm
