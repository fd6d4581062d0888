// From the number of a region to its entry (Lewat, section III-A): cuckoo hashing with two buckets of a line each, in
// shards that grow by themselves.
//
// Look-ups store nothing to shared lines.  A shard counts its displacements: a look-up that has found nothing while
// something was moved looks again.  Entries that were taken out stay readable until the caller frees them, after all
// threads that were inside (sync/epochs.hpp) have moved on.  An outgrown array is kept until the table goes: all
// of them together are smaller than the newest.
//
// A region that is not found is looked for in the table that a close has saved (saved_table.hpp), and gets its entry
// then, under the lock of its shard.
//
// Cost: a look-up reads one or two lines, and the entry's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "platform/platform.hpp"
#include "region/entry.hpp"
#include "region/saved_table.hpp"

namespace nvm::region {

class table {
 public:
  table() = default;
  ~table() { delete saved(); }
  table(const table&) = delete;
  table& operator=(const table&) = delete;

  // nullptr: there is none, or absence() says why.
  [[nodiscard]] entry* find(std::uint64_t rid) const noexcept {
    entry* const e = find_made(rid);
    const saved_table* const from = saved();
    if (e != nullptr || from == nullptr) return e;
    const auto part = static_cast<unsigned>(hash_of(rid) % shards);
    // It may have got its entry meanwhile, as the last of its part.
    return from->left(part) == 0 ? find_made(rid) : const_cast<table*>(this)->find_saved(rid);
  }
  // Why a region was not found: errc::not_found, or it cannot be read: errc::corrupt, no_memory.
  [[nodiscard]] errc absence(std::uint64_t rid) noexcept {
    if (saved() != nullptr) {
      shard& s = shards_[hash_of(rid) % shards];
      const std::lock_guard guard{s.lock};
      if (const auto e = load(s, rid); !e) return e.error();
    }
    return fail(errc::not_found, "there is no region %lu", rid);
  }
  // Called before any thread uses the table, or while none does more than count: at an exit threads may go on that have
  // no part in the regions.
  void begin_with(std::unique_ptr<saved_table> saved) noexcept {
    // release: pairs with saved().
    const std::unique_ptr<saved_table> before{saved_.exchange(saved.release(), std::memory_order_acq_rel)};
    // Those that have seen the old one have left their shard then.
    for (shard& s : shards_) {
      const std::lock_guard guard{s.lock};
    }
  }
  [[nodiscard]] const saved_table* saved() const noexcept { return saved_.load(std::memory_order_acquire); }
  // Gives all regions of a shard entries.  errc::corrupt, no_memory: some have none.
  [[nodiscard]] status load(unsigned which) noexcept {
    const saved_table* const from = saved();
    if (from == nullptr || from->left(which) == 0) return {};
    shard& s = shards_[which];
    const std::lock_guard guard{s.lock};
    status done;
    (void)from->each_left(which, [&](std::uint64_t, const layout::saved_cell& c) {
      if (const auto e = load(s, c.rid); !e) done = e.error();
      return done.has_value();
    });
    if (done && from->left(which) != 0) return fail(errc::corrupt, "a saved table of regions names one of them twice");
    return done;
  }
  [[nodiscard]] status load_all() noexcept {
    for (unsigned i = 0; i < shards; ++i) {
      if (status s = load(i); !s) return s;
    }
    return {};
  }

  // errc::exists, no_memory, corrupt.
  [[nodiscard]] status insert(entry* e) noexcept try {
    shard& s = shards_[hash_of(e->rid) % shards];
    const std::lock_guard guard{s.lock};
    const auto there = load(s, e->rid);
    if (!there) return there.error();
    if (*there != nullptr) return fail(errc::exists, "there is a region %lu already", e->rid);
    add(s, e);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the table of regions");
  }
  // Takes out an entry, which is there.
  void erase(entry* e) noexcept {
    const std::uint64_t hash = hash_of(e->rid);
    shard& s = shards_[hash % shards];
    const std::lock_guard guard{s.lock};
    buckets& b = *s.newest.load(std::memory_order_relaxed);
    for (const std::uint64_t at : {b.first_of(hash), b.second_of(hash)}) {
      for (cell& c : b.lines[at].cells) {
        if (c.of.load(std::memory_order_relaxed) != e) continue;
        c.of.store(nullptr, std::memory_order_release);
        --s.entries;
        return;
      }
    }
  }
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t n = 0;
    for (unsigned i = 0; i < shards; ++i) n += count_of(i);
    return n;
  }
  // Number of regions of one shard, also without entry.
  [[nodiscard]] std::uint64_t count_of(unsigned which) const noexcept {
    const std::lock_guard guard{shards_[which].lock};
    const saved_table* const from = saved();
    return shards_[which].entries + (from == nullptr ? 0 : from->left(which));
  }
  // Calls visit(entry*) for all of one shard, [0, shards), that have an entry, at one moment; visit must not call the
  // table.
  static constexpr unsigned shards = layout::saved_parts;
  template <class Visit>
  void for_each_of(unsigned which, Visit&& visit) const {
    const shard& s = shards_[which];
    const std::lock_guard guard{s.lock};
    visit_made(s, visit);
  }
  // The same by number, also of regions that have no entry yet.
  template <class Visit>
  void for_each_number_of(unsigned which, Visit&& visit) const {
    const shard& s = shards_[which];
    const std::lock_guard guard{s.lock};
    visit_made(s, [&](const entry* e) {
      // relaxed: a region that is dropped meanwhile may be visited.
      if (e->length.load(std::memory_order_relaxed) != entry::dropped) visit(e->rid);
    });
    const saved_table* const from = saved();
    if (from == nullptr) return;
    (void)from->each_left(which, [&](std::uint64_t, const layout::saved_cell& c) {
      visit(c.rid);
      return true;
    });
  }

 private:
  static constexpr std::uint64_t first_buckets = 4;
  static constexpr unsigned cells_of_line = 4;
  static constexpr unsigned displacements_max = 64;

  struct cell {
    std::atomic<std::uint64_t> rid{0};
    std::atomic<entry*> of{nullptr};
  };
  struct alignas(line_bytes) line {
    std::array<cell, cells_of_line> cells;
  };
  struct buckets {
    std::uint64_t count;  // a power of two
    std::unique_ptr<line[]> lines;
    [[nodiscard]] std::uint64_t first_of(std::uint64_t hash) const noexcept { return hash >> 8 & (count - 1); }
    [[nodiscard]] std::uint64_t second_of(std::uint64_t hash) const noexcept { return hash >> 36 & (count - 1); }
  };
  struct alignas(2 * line_bytes) shard {
    std::atomic<buckets*> newest{nullptr};
    std::atomic<std::uint64_t> moves{0};  // odd: an entry is in no bucket
    mutable std::mutex lock;
    std::uint64_t entries = 0;
    std::vector<std::unique_ptr<buckets>> all;
  };

  // Under the lock of the shard.
  template <class Visit>
  static void visit_made(const shard& s, Visit&& visit) {
    const buckets* b = s.newest.load(std::memory_order_relaxed);
    for (std::uint64_t i = 0; b != nullptr && i < b->count; ++i) {
      for (const cell& c : b->lines[i].cells) {
        if (entry* e = c.of.load(std::memory_order_relaxed); e != nullptr) visit(e);
      }
    }
  }

  [[nodiscard]] entry* find_made(std::uint64_t rid) const noexcept {
    const std::uint64_t hash = hash_of(rid);
    const shard& s = shards_[hash % shards];
    for (;;) {
      const std::uint64_t before = s.moves.load(std::memory_order_acquire);
      const buckets* b = s.newest.load(std::memory_order_acquire);
      if (b != nullptr) {
        for (const std::uint64_t at : {b->first_of(hash), b->second_of(hash)}) {
          if (entry* e = look(b->lines[at], rid); e != nullptr) return e;
        }
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && s.moves.load(std::memory_order_relaxed) == before) return nullptr;
      isa::spin_hint();
    }
  }

  entry* find_saved(std::uint64_t rid) noexcept {
    shard& s = shards_[hash_of(rid) % shards];
    const std::lock_guard guard{s.lock};
    const auto e = load(s, rid);
    return e ? *e : nullptr;
  }
  // The entry of a region, made if it was saved and has none; nullptr: there is no such region.  The shard is locked.
  [[nodiscard]] result<entry*> load(shard& s, std::uint64_t rid) noexcept try {
    const std::uint64_t hash = hash_of(rid);
    const buckets* b = s.newest.load(std::memory_order_relaxed);
    entry* const there = b == nullptr ? nullptr : find_locked(*b, hash, rid);
    saved_table* const from = saved_.load(std::memory_order_acquire);
    if (there != nullptr || from == nullptr) return there;
    const auto part = static_cast<unsigned>(hash % shards);
    const std::uint64_t i = from->find(part, rid);
    if (i == saved_table::none) return nullptr;
    auto made = from->make(part, i);
    if (!made) return made.error();
    add(s, made->get());
    from->take(part, i);
    return made->release();
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the table of regions");
  }
  // Adds an entry that is not there; the shard is locked.  May throw std::bad_alloc.
  static void add(shard& s, entry* e) {
    const std::uint64_t hash = hash_of(e->rid);
    buckets* b = s.newest.load(std::memory_order_relaxed);
    if (b == nullptr) b = &grow(s, first_buckets);
    while (!put(s, *b, hash, e)) b = &grow(s, 2 * b->count);
    ++s.entries;
  }

  [[nodiscard]] static entry* look(const line& l, std::uint64_t rid) noexcept {
    for (const cell& c : l.cells) {
      if (c.rid.load(std::memory_order_relaxed) != rid) continue;
      // acquire: pairs with the release of insert(): the entry's contents.
      entry* const e = c.of.load(std::memory_order_acquire);
      // The two may be of different moments.
      if (e != nullptr && e->rid == rid) return e;
    }
    return nullptr;
  }
  [[nodiscard]] static entry* find_locked(const buckets& b, std::uint64_t hash, std::uint64_t rid) noexcept {
    entry* const e = look(b.lines[b.first_of(hash)], rid);
    return e != nullptr ? e : look(b.lines[b.second_of(hash)], rid);
  }
  static bool put_in(line& l, entry* e) noexcept {
    for (cell& c : l.cells) {
      if (c.of.load(std::memory_order_relaxed) != nullptr) continue;
      c.rid.store(e->rid, std::memory_order_relaxed);
      // release: pairs with look().
      c.of.store(e, std::memory_order_release);
      return true;
    }
    return false;
  }
  // False: there was no room on a way of displacements_max steps, which were taken back.
  static bool put(shard& s, buckets& b, std::uint64_t hash, entry* e) noexcept {
    if (put_in(b.lines[b.first_of(hash)], e) || put_in(b.lines[b.second_of(hash)], e)) return true;
    s.moves.fetch_add(1, std::memory_order_acq_rel);
    std::array<cell*, displacements_max> way;
    unsigned steps = 0;
    entry* homeless = e;
    std::uint64_t at = b.first_of(hash);
    bool placed = false;
    for (; steps < displacements_max && !placed; ++steps) {
      cell& c = b.lines[at].cells[(hash + steps * 7) % cells_of_line];
      way[steps] = &c;
      homeless = exchange(c, homeless);
      const std::uint64_t its = hash_of(homeless->rid);
      at = b.first_of(its) == at ? b.second_of(its) : b.first_of(its);
      placed = put_in(b.lines[at], homeless);
    }
    while (!placed && steps != 0) homeless = exchange(*way[--steps], homeless);
    s.moves.fetch_add(1, std::memory_order_release);
    return placed;
  }
  static entry* exchange(cell& c, entry* e) noexcept {
    entry* const was = c.of.load(std::memory_order_relaxed);
    c.rid.store(e->rid, std::memory_order_relaxed);
    c.of.store(e, std::memory_order_release);
    return was;
  }
  // Everything of the shard goes into a new array; look-ups use the old one until it has.
  static buckets& grow(shard& s, std::uint64_t count) {
    const buckets* old = s.newest.load(std::memory_order_relaxed);
    for (;; count *= 2) {
      auto made = std::make_unique<buckets>(buckets{count, std::make_unique<line[]>(count)});
      bool fits = true;
      for (std::uint64_t i = 0; old != nullptr && fits && i < old->count; ++i) {
        for (const cell& c : old->lines[i].cells) {
          entry* const e = c.of.load(std::memory_order_relaxed);
          if (e != nullptr) fits = fits && put(s, *made, hash_of(e->rid), e);
        }
      }
      if (!fits) continue;
      s.all.push_back(std::move(made));
      s.newest.store(s.all.back().get(), std::memory_order_release);
      return *s.all.back();
    }
  }

  std::array<shard, shards> shards_;
  std::atomic<saved_table*> saved_{nullptr};  // own
};

}  // namespace nvm::region
