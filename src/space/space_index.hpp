// Everything volatile about a pool's space: page bitmaps, page states, descriptors, arenas.  A pure function of
// (base, geometry) after boot(): no file, no thread of its own, no clock; it never writes to the pool.
//
// boot() reads the page map.  Extents are indexed later, one by one: when an object in them is looked up, when an arena
// runs out (a few at a time, by a cursor), or all by build_index().  An extent that proves to be damaged is
// quarantined.
//
// Arenas stand for lanes; one more holds extents that were indexed for no lane, until a lane adopts them.  Each
// attached store has an arena of its own, whose extents stay in it.
#pragma once

#include <atomic>
#include <cstdint>

#include "space/open_store.hpp"
#include "space/page_map.hpp"
#include "space/page_states.hpp"
#include "space/pages_of_stores.hpp"
#include "space/run_allocator.hpp"
#include "space/slot_index.hpp"
#include "sync/sync.hpp"

namespace nvm {

class space_index {
 public:
  space_index(std::byte* base, const geometry& g) noexcept;
  ~space_index();
  space_index(const space_index&) = delete;
  space_index& operator=(const space_index&) = delete;

  // errc::no_memory if the tables could not be had; nothing else may be called then.
  [[nodiscard]] status exists() const noexcept;
  // Parts may run in parallel; each reads its share of the page map.
  [[nodiscard]] status boot(unsigned part, unsigned parts) noexcept;
  [[nodiscard]] status build_index(unsigned part, unsigned parts) noexcept;

  [[nodiscard]] const layout::extent_shape& shape(layout::page_kind kind) const noexcept {
    return kind == layout::page_kind::coarse ? coarse_ : fine_;
  }
  [[nodiscard]] extent_pool& descriptors(layout::page_kind kind) noexcept {
    return kind == layout::page_kind::coarse ? coarse_pool_ : fine_pool_;
  }
  [[nodiscard]] const geometry& sizes() const noexcept { return geometry_; }

  // ---- arenas ----

  [[nodiscard]] unsigned arena_count() const noexcept { return arena_count_; }
  [[nodiscard]] unsigned arena_number(unsigned lane) const noexcept { return lane % arena_count_; }
  [[nodiscard]] unsigned orphans() const noexcept { return arena_count_; }
  // nullptr: no memory.
  [[nodiscard]] arena* arena_at(unsigned number) noexcept;
  // nullptr: never used.
  [[nodiscard]] arena* existing_arena(unsigned number) const noexcept {
    return reinterpret_cast<arena*>(arenas_[number].load(std::memory_order_acquire));
  }
  // Name of a lane for the locks of arenas (sync/biased_lock.hpp); `nobody`: work of no lane.
  static constexpr unsigned nobody = 0;
  [[nodiscard]] static constexpr unsigned name_of(unsigned lane) noexcept { return lane + 1; }
  // Locks the arena that guards `e`.
  [[nodiscard]] arena& lock(extent& e, unsigned who) noexcept {
    for (;;) {
      const std::uint32_t number = e.arena.load(std::memory_order_acquire);
      arena& a = *existing_arena(number);
      a.lock.lock(who);
      if (e.arena.load(std::memory_order_relaxed) == number) return a;
      a.lock.unlock();
    }
  }
  // Makes a private descriptor that of the extent at `page`, guarded by an arena but in no bucket of it;
  void name(extent& e, std::uint64_t page, unsigned arena_number, unsigned who) noexcept;
  // and puts it into a bucket, from which threads allocate.
  void file(extent& e, std::int64_t bytes_used, unsigned who) noexcept;
  // Makes `e` part of arena `to`, unless a store has it; the caller holds no lock.
  void move(extent& e, unsigned to, unsigned who) noexcept;
  // An extent of the set that promises a run of `count` slots comes from arena `from` to arena `to`.
  [[nodiscard]] bool adopt(unsigned from, unsigned to, unsigned set, unsigned count, unsigned who) noexcept;
  [[nodiscard]] bool adopt_from_any(unsigned to, unsigned set, unsigned count, unsigned who) noexcept;

  // ---- indexing ----

  // A few extents of the set that were not indexed yet join arena `to`; true if one has a run of `count` free slots.
  [[nodiscard]] bool index_some(unsigned to, unsigned set, unsigned count, unsigned who) noexcept;
  // The same for all that are left.
  [[nodiscard]] bool index_rest(unsigned to, unsigned set, unsigned count, unsigned who) noexcept;
  // As many of each set, for no lane.  True if there were any.
  [[nodiscard]] bool index_up_to(unsigned extents_max) noexcept;
  // Indexes whatever is left of every set.  True if there was anything.
  [[nodiscard]] bool index_everything() noexcept;
  // Looks up what the page map says about a page whose state is none: sets the state of the run or extent that holds it
  // and returns true; false: there is none.  errc::corrupt, errc::no_memory.
  [[nodiscard]] result<bool> look_up(std::uint64_t page) noexcept;

  // ---- attached stores (open_store.hpp) ----

  attached_stores stores;
  // Held shared by a thread that looks something up in a store which it found by an address, alone by one that detaches
  // a store.
  writers_first_lock detaching;

  // As look_up(), of a page that an attached store has; `detaching` is held.
  [[nodiscard]] result<bool> look_up_in(open_store& s, std::uint64_t page) noexcept;
  // Up to `extents_max` extents of the set that were not indexed yet are indexed; true if one has a run of `count` free
  // slots.
  [[nodiscard]] bool index_in(open_store& s, unsigned set, unsigned count, unsigned extents_max, unsigned who) noexcept;
  // The word of a page in the map of a cluster.
  [[nodiscard]] std::uint64_t inner_word(const cluster& c, std::uint64_t page) const noexcept {
    // acquire: as page_map::load().
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + c.entry_offset(geometry_, page))}
        .load(std::memory_order_acquire);
  }
  // Page where the cluster begins, attached or not, that has `page`; no_cluster.
  [[nodiscard]] std::uint64_t cluster_around(std::uint64_t page) const noexcept;
  void count_unindexed(std::int64_t extents) noexcept {
    unindexed_.fetch_add(static_cast<std::uint64_t>(extents), std::memory_order_relaxed);
  }
  void forget_quarantined(std::uint64_t extents) noexcept {
    quarantined_.fetch_sub(extents, std::memory_order_relaxed);
  }

  run_allocator pages;
  page_states states;
  page_map map;
  pages_of_stores of_stores;

  struct counts {
    std::uint64_t extents_unindexed;
    std::uint64_t extents_quarantined;
  };
  [[nodiscard]] counts count() const noexcept {
    return {unindexed_.load(std::memory_order_relaxed), quarantined_.load(std::memory_order_relaxed)};
  }

 private:
  static constexpr unsigned indexed_per_miss = 8;
  static constexpr unsigned chunks_per_miss = 64;

  // The extent at `page`, as its entry says, gets a descriptor in arena `to`; nullptr if it has a state already.
  [[nodiscard]] result<extent*> index(std::uint64_t page, const layout::page_entry& entry, unsigned to,
                                      unsigned who) noexcept;
  // The same of an extent whose entry lies at `entry_at`.
  [[nodiscard]] result<extent*> index_at(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at,
                                         unsigned to, unsigned who) noexcept;
  [[nodiscard]] bool walk(unsigned to, unsigned set, unsigned count, unsigned chunks_max, unsigned extents_max,
                          unsigned who) noexcept;
  struct slice {
    std::uint64_t first, end;  // pages
  };
  [[nodiscard]] slice slice_of(unsigned part, unsigned parts) const noexcept;

  std::byte* base_;
  geometry geometry_;  // as booted; run_allocator knows the size of today
  layout::extent_shape fine_, coarse_;
  extent_pool fine_pool_, coarse_pool_;
  unsigned arena_count_;
  sparse_array<std::uint64_t> arenas_;  // pointers
  // All arenas, in a list: a finder of leaks sees no pointers in the table.
  std::atomic<arena*> made_{nullptr};
  std::atomic<std::uint64_t> cursors_[slot_sets] = {};  // next chunk to walk
  std::atomic<std::uint64_t> unindexed_{0};
  std::atomic<std::uint64_t> quarantined_{0};
};

}  // namespace nvm
