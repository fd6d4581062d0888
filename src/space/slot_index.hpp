// Slot allocation index (Lewat, section III-C): for each arena, kind and object layout, extents in buckets by their
// longest run of free slots, a FIFO queue in each.
//
// A request takes the head of the lowest bucket that promises enough.  The promise is an upper bound; an extent that
// does not keep it moves, now exactly known, to the tail of a lower bucket, and the next one is tried.  Empty extents
// have a bucket of their own after all others: they are used last, and found when pages are short.
//
// Threads.  All of an arena is guarded by its lock, which favours the lane that the arena stands for.  An extent that
// is on its way between arenas names the one it goes to, and is in no bucket.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "space/extent.hpp"

namespace nvm {

inline constexpr unsigned object_layouts = 3;
inline constexpr unsigned slot_sets = 2 * object_layouts;  // fine and coarse of each layout

[[nodiscard]] constexpr unsigned slot_set_of(layout::page_kind kind, layout::object_layout l) noexcept {
  return (kind == layout::page_kind::coarse ? object_layouts : 0) + static_cast<unsigned>(l);
}
[[nodiscard]] constexpr layout::page_kind kind_of_set(unsigned set) noexcept {
  return set < object_layouts ? layout::page_kind::fine : layout::page_kind::coarse;
}
[[nodiscard]] constexpr layout::object_layout layout_of_set(unsigned set) noexcept {
  return static_cast<layout::object_layout>(set % object_layouts);
}

inline constexpr unsigned fine_slots_max = ceil_div(layout::fine_object_max, layout::fine_slot_bytes);
inline constexpr unsigned coarse_slots_max = ceil_div(layout::coarse_object_max, layout::coarse_slot_bytes);
[[nodiscard]] constexpr unsigned object_slots_max(layout::page_kind kind) noexcept {
  return kind == layout::page_kind::coarse ? coarse_slots_max : fine_slots_max;
}

// Buckets of one kind and layout: 0 no room (not kept), 1 .. max a run of that many slots (max: or more), max + 1
// empty.
class slot_buckets {
 public:
  static constexpr unsigned in_transit = 0xFFFF;

  [[nodiscard]] static unsigned bucket_of(const extent& e) noexcept {
    const unsigned max = object_slots_max(e.kind);
    return e.objects == 0 ? max + 1 : std::min<unsigned>(e.longest, max);
  }

  void insert(extent& e) noexcept {
    const unsigned b = bucket_of(e);
    e.bucket = static_cast<std::uint16_t>(b);
    if (b == 0) return;
    queue& q = queues_[b];
    e.previous = q.tail;
    e.next = nullptr;
    (q.tail == nullptr ? q.head : q.tail->next) = &e;
    q.tail = &e;
    slot_bits::set(some_.data(), b);
  }
  void remove(extent& e) noexcept {
    const unsigned b = e.bucket;
    e.bucket = in_transit;
    if (b == 0) return;
    queue& q = queues_[b];
    (e.previous == nullptr ? q.head : e.previous->next) = e.next;
    (e.next == nullptr ? q.tail : e.next->previous) = e.previous;
    e.next = e.previous = nullptr;
    if (q.head == nullptr) slot_bits::clear(some_.data(), b);
  }
  // After a change of the extent's free slots.
  void refile(extent& e) noexcept {
    if (e.bucket == in_transit || e.bucket == bucket_of(e)) return;
    remove(e);
    insert(e);
  }

  // Head of the lowest bucket that promises a run of `count` slots; nullptr: none does.
  [[nodiscard]] extent* candidate(unsigned count) const noexcept {
    const unsigned b = slot_bits::next_one(some_.data(), count, buckets);
    return b == buckets ? nullptr : queues_[b].head;
  }
  [[nodiscard]] extent* empty(layout::page_kind kind) const noexcept {
    return queues_[object_slots_max(kind) + 1].head;
  }
  // Calls f for each extent that is filed.
  template <class F>
  void each(F&& f) const {
    for (const queue& q : queues_) {
      for (extent* e = q.head; e != nullptr; e = e->next) f(*e);
    }
  }

 private:
  static constexpr unsigned buckets = std::max(fine_slots_max, coarse_slots_max) + 2;
  struct queue {
    extent* head = nullptr;
    extent* tail = nullptr;
  };
  std::array<std::uint64_t, (buckets + 63) / 64> some_{};  // bit: the bucket holds an extent
  std::array<queue, buckets> queues_{};
};

struct alignas(line_bytes) arena {
  biased_lock lock;
  std::int64_t slot_bytes_used = 0;  // a sum over all arenas makes sense, one alone need not: extents wander
  std::array<slot_buckets, slot_sets> sets;
  bool read_only = false;        // of a store that is attached so
  arena* made_before = nullptr;  // in the list of all of a pool
};

// Gives up, at the end of a scope, an arena that is locked.
struct unlocking {
  explicit unlocking(arena& a) noexcept : locked{a} {}
  ~unlocking() { locked.lock.unlock(); }
  unlocking(const unlocking&) = delete;
  unlocking& operator=(const unlocking&) = delete;
  arena& locked;
};

}  // namespace nvm
