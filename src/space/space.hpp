// Door of layer 5: where objects are.  Reserving, committing and freeing them; it hides page map, extents and indexes.
//
// Nothing durable changes before a transaction commits, but for the creation of an extent and for log runs: reserve()
// and begin_free() take hold of space in DRAM and hand out an intent (log/intent.hpp), which the transaction's lane
// makes durable with its commit record and applies; committed() and finish_free() are told afterwards.
//
/// Extent.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. S header: identity, no objects; F header;   | space/E1  a header is durable before the entry that names it
///   2. S page map entry; F it;                     | space/E2  it exists: intents may name its words
///   An object: its transaction's intent stores bit and length byte, and is made again until both are durable.
///   3. when empty: settle_all() all of its tags;
///      S page map entry 0; F it;                   | space/E3  its pages may get another use
/// Log run.
///   1. S page map entry; F it; the lane fences (lane/E1) before a record leads there
///   2. when released: S page map entry 0; F it;    | space/E4  its pages may get another use
/// Extent of a structure: steps 1 and 2 of an extent; its objects are the structure's business.
/// Run of a structure:
///   1. S page map entry; F it;                     | space/E6  it is the structure's before anything leads there
///   longer: 1. S page map entry; F it;             | space/E7  before anything leads to bytes there
///   shorter: 1. S page map entry; F it;            | space/E8  the pages after it may get another use
/// Either, given back:
///   1. S page map entry 0; F it;                   | space/E5  its pages may get another use
/// Stores (clusters_layout.hpp): space_stores.hpp; pages of structures in them: space_store_structures.hpp.
/// Recovery: an extent without objects is one like any other; recovery of the lanes frees every log run that has an
/// entry.  It would survive a zero entry (space/E4) that comes late.  But one that came after close(), which promises
/// that there is nothing to recover, would hit pages with another use.
//
// A process that is killed leaves words of the page map in caches.  The next process sees them.  If a power cut lost
// one after its pages had got another use, or an object, the map would contradict itself, or lack an extent.
/// Opened without having been closed:
///   1. F the page map;                             | recover/E8, E9, mnemosyne/E13, logheap/E11  with what else
///                                                  recovery looks at: it and allocation may act on what the map says
//
// Hazards of replay (log/tag.hpp).  An intent may be made again after a crash as long as its lane has not settled.  So
//   - every allocation word has a tag, and reserve() and begin_free() settle the tag of the word that they are going to
//     change if it names another lane.  A tag that was replaced before it was settled is remembered by the newest such
//     generation of its lane (hidden_) and by a count in its extent.  With one order of replays over all lanes no
//     settling is needed;
//   - an extent's pages, and an entry that is written directly, change their use only after settle_all();
//   - replays that store contents may store into freed memory: a reservation names the generation that freed something
//     there last, and pages that are written directly wait for the last free of any run.
// Settling happens under no lock of this layer; the slot or run in question is held by a reservation or a freeing mark.
//
// Threads.  Any number; a lane is used by one at a time, and stands for the arena it allocates from.  Objects are freed
// by any lane.  Lock order:
//   0. trimming_; (settling a lane: taken by settle(), under nothing of the following but open_store::growing and
//      handing_)
//      handing_, then space_index::detaching; open_store::growing: none is taken by a committing thread
//   1. growing_                      one growth at a time; the callback takes the locks of pool/
//   2. bits of run_allocator's lock map, under which no thread waits
//   3. page_states::lock_of(page)    a page's state leaves 0
//   4. arena::lock                   never two at a time
//   5. extent_pool's lock; open_store::pages
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/brought_first.hpp"
#include "media/media.hpp"
#include "space/check.hpp"
#include "space/object_in_image.hpp"
#include "space/pool_blocks.hpp"
#include "space/space_index.hpp"
#include "space/store_pages.hpp"
#include "space/structure_pages.hpp"

namespace nvm {

struct space_types {
  struct reservation {
    std::uint64_t offset = 0;                // of the object with its header, from the pool's start
    std::uint64_t bytes = 0;                 // that may be used from there
    log::intent set;                         // makes the object exist
    const std::byte* length_byte = nullptr;  // which `set` stores, too; nullptr: a run has none
    std::uint64_t freed_by = 0;  // where replays store contents: newest generation that freed something here; 0: none
    extent* in = nullptr;        // nullptr: a run
  };
  struct object {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    log::intent clear;      // frees the object
    bool reserved = false;  // allocated by a transaction that is still open
    extent* in = nullptr;   // nullptr: a run
  };
  struct space_statistics {
    std::uint64_t size_pages = 0;
    std::uint64_t free_pages = 0;
    std::uint64_t extents_unindexed = 0;    // not looked at since the pool was opened
    std::uint64_t extents_quarantined = 0;  // damaged, left alone
    std::uint64_t slot_bytes_used = 0;      // by objects and reservations in indexed extents
  };
};

template <media M, log::settler S>
class space final : public space_types, public region_pages, public store_pages {
 public:
  // grow(pages_min): makes the pool at least that many data pages large, returns its size, or an error; what it wrote
  // is ordered before anything the caller does next.
  using grow_function = std::function<result<std::uint64_t>(std::uint64_t pages_min)>;

  space(M& medium, S& settler, std::byte* base, const geometry& g, grow_function grow = nullptr)
      : medium_{medium},
        settler_{settler},
        base_{base},
        grow_{std::move(grow)},
        index_{base, g},
        hidden_{lane_words * 64},
        hiding_{lane_words},
        holes_{ceil_div(g.capacity_pages, 64)} {}

  // Begins the write-back of the page map, of which a process that was killed may have left words in caches only.
  // Recovery comes next, in this thread, and fences before it acts on anything.
  void write_back_map() noexcept {
    if (M::atomic_batches || stores_survive(medium_)) return;
    maps_doubtful_ = true;
    // Zero words, too: the pages may be free.
    medium_.flush(index_.map.at(0), index_.sizes().size_pages * 8);
  }
  // Parts may run in parallel.  errc::corrupt names the page map entry.
  [[nodiscard]] status boot(unsigned part, unsigned parts) noexcept {
    if (!hidden_.exists() || !hiding_.exists() || !holes_.exists())
      return fail(errc::no_memory, "no volatile memory for the tags of lanes");
    return index_.boot(part, parts);
  }
  // Indexes all extents now instead of on demand.  Damaged ones are quarantined, which is no error.
  [[nodiscard]] status build_index(unsigned part, unsigned parts) noexcept { return index_.build_index(part, parts); }

  // The pool's file, before anything is allocated; and after boot() that free pages may be holes of it.
  void keep_blocks_by(pool_blocks& blocks) noexcept { blocks_ = &blocks; }
  // Before anything is allocated: only log runs get the last pages of the capacity, so that a transaction in a full
  // pool has a log to free with.
  void keep_pages_for_logs() noexcept {
    constexpr std::uint64_t some = 16;
    constexpr std::uint64_t most = 1024;
    const std::uint64_t all = index_.sizes().capacity_pages;
    kept_for_logs_ = std::clamp(all / 64, std::min(some, all / 16), most);
  }
  void doubt_free_pages() noexcept;

  // ---- allocation ----

  // Room for an object of `bytes` bytes, its header included.  errc::invalid for 0 bytes, too_large if no pool of this
  // capacity could hold it, no_space, no_memory, or the error of growth.
  [[nodiscard]] result<reservation> reserve(unsigned lane, std::uint64_t bytes, layout::object_layout l) noexcept {
    return reserve_from(pool_room{*this, lane}, lane, bytes, l);
  }
  // The same in an attached store.  errc::read_only; errc::no_space where its quota is used up, too; errc::invalid: the
  // attachment has ended.
  [[nodiscard, gnu::noinline]] result<reservation> reserve_in(const store_attachment& in, unsigned lane,
                                                              std::uint64_t bytes, layout::object_layout l) noexcept;
  // Pages for a cluster that the transaction writes, as from reserve(); and a free of such a cluster, or of any cluster
  // of a store that is not attached.
  [[nodiscard, gnu::noinline]] result<reservation> reserve_cluster(unsigned lane, std::uint64_t pages) noexcept;
  [[nodiscard, gnu::noinline]] result<object> find_cluster(std::uint64_t offset) noexcept;

  // Called when the transaction that reserved it has given it up.
  void cancel(const reservation& r, unsigned lane) noexcept {
    if (r.length_byte == nullptr) {
      release_run(r.offset, r.bytes);
    } else {
      release_slots(*r.in, r.offset, r.bytes, lane, log::tag{});
    }
  }

  // Applies the intent of a reservation whose transaction has committed, as `generation` of the lane.  Generation 0:
  // the medium has nothing to replay, and the intent has been applied already.
  void committed(const reservation& r, unsigned lane, std::uint64_t generation) noexcept {
    const log::tag t = tag_of(lane, generation);
    const bool to_apply = generation != 0;
    if (r.length_byte == nullptr) {
      const std::uint64_t page = index_.sizes().page_of(r.offset);
      if (to_apply) log::apply(base_, r.set);
      index_.states.set_tag(page, t);
      index_.states.clear(page, page_state::reserved_bit);
      return;
    }
    const held h = hold(*r.in, r.offset, lane);
    if (to_apply) log::apply_alone(base_, r.set);
    slot_bits::clear(h.e->reserved(), h.slot);
    if (!t.none()) put_tag(*h.e, h.slot, t);
    h.in->lock.unlock();
  }

  // ---- objects ----

  // Keeps attached stores as they are, and their pages accessible; empty: nothing had to be kept.
  using stores_stay = std::shared_lock<writers_first_lock>;

  // The object that starts at `offset`, its header included.  errc::bad_pointer if none does; corrupt if what stands
  // there fails its checks.  The store that has it may be detached on return.
  // `who` is the caller: name_of() a lane that it holds, or nobody.
  [[nodiscard]] result<object> find(std::uint64_t offset, layout::object_layout l,
                                    unsigned who = space_index::nobody) noexcept {
    stores_stay stay;
    return find(offset, l, who, stay, lasting::no);
  }
  // The same; as long as `stay` lives the object can be looked at, also in a store.
  [[nodiscard]] result<object> find(std::uint64_t offset, layout::object_layout l, stores_stay& stay) noexcept {
    return find(offset, l, space_index::nobody, stay, lasting::yes);
  }

  // The object that holds the byte at `offset`, its header included.  errc::bad_pointer if none does.  O(1), however
  // far the object begins before it.  `stay` as above.
  [[nodiscard]] result<object> find_around(std::uint64_t offset, layout::object_layout l, stores_stay& stay) noexcept;

  // The open transaction of `lane` frees `o`.  errc::bad_pointer if one does already, or if `o` is not what it was when
  // it was found.
  [[nodiscard]] status begin_free(const object& o, unsigned lane) noexcept {
    if (o.in == nullptr) return begin_free_run(o, lane);
    held h = hold(*o.in, o.offset, lane);
    const auto taken = [&] { return !is_still(*h.e, h.slot, o) || slot_bits::test(h.e->freeing(), h.slot); };
    // The extent belongs to no lane, or to a store.
    if (h.e->arena.load(std::memory_order_relaxed) >= index_.orphans() && !taken()) {
      const bool read_only = h.in->read_only;
      h.in->lock.unlock();
      if (read_only) return of_read_only_store(o.offset);
      const unsigned mine = index_.arena_number(lane);
      if (index_.arena_at(mine) != nullptr) index_.move(*o.in, mine, space_index::name_of(lane));
      h = hold(*o.in, o.offset, lane);
    }
    if (taken()) {
      h.in->lock.unlock();
      return fail(errc::bad_pointer, "object at offset %lu is being freed already", o.offset);
    }
    slot_bits::set(h.e->freeing(), h.slot);
    const tags_seen seen = see_tags(*h.e, h.slot);
    h.in->lock.unlock();
    settle(*h.e, seen, lane);
    return {};
  }
  void cancel_free(const object& o, unsigned lane) noexcept {
    if (o.in == nullptr) {
      index_.states.clear(index_.sizes().page_of(o.offset), page_state::freeing_bit);
      return;
    }
    const held h = hold(*o.in, o.offset, lane);
    slot_bits::clear(h.e->freeing(), h.slot);
    h.in->lock.unlock();
  }
  // Its transaction has committed, as with committed(): applies the clear intent, and the space may be used again.
  void finish_free(const object& o, unsigned lane, std::uint64_t generation) noexcept {
    const log::tag t = tag_of(lane, generation);
    if (o.in == nullptr) {
      if (generation != 0) log::apply(base_, o.clear);
      index_.states.set_tag(index_.sizes().page_of(o.offset), t);
      if constexpr (S::ordered) {
        // release: pairs with the thread that takes the pages afterwards.
        std::uint64_t newest = runs_freed_.load(std::memory_order_relaxed);
        while (newest < generation && !runs_freed_.compare_exchange_weak(newest, generation, std::memory_order_release,
                                                                         std::memory_order_relaxed)) {
        }
      }
      release_run(o.offset, o.bytes);
    } else {
      release_slots(*o.in, o.offset, o.bytes, lane, t, generation != 0 ? &o.clear : nullptr);
    }
  }

  // Calls visit(offset, bytes, layout) for each object on media, in address order, until it returns false.  No
  // transaction may be open.  errc::corrupt if some metadata could not be read; the rest is visited.
  template <class Visit>
  [[nodiscard]] status for_each_object(Visit&& visit) {
    geometry g = index_.sizes();
    g.size_pages = index_.pages.size_pages();
    return nvm::for_each_object(base_, g, visit);
  }

  // ---- log runs ----

  // Pages for the overflow of a lane's log.  The page map entry is flushed; the lane fences before a record leads
  // there.  `last`: also of those that are kept for logs.
  [[nodiscard, gnu::noinline]] result<reservation> reserve_log_run(std::uint64_t bytes, bool last = true) noexcept {
    const geometry& g = index_.sizes();
    const std::uint64_t count = ceil_div(bytes, g.page_bytes());
    if (count == 0 || count > g.capacity_pages) return fail(errc::too_large, "a log run of %lu bytes", bytes);
    const auto page = take_pages(0, page_use::run, count, true, last);
    if (!page) return page.error();
    settle_freed_runs();
    enter(*page, {static_cast<std::uint32_t>(count), 0, page_kind::log, layout::object_layout::raw,
                  layout::slot_protocol::transactional});
    return reservation{g.page_offset(*page), count << g.page_shift, {}, nullptr};
  }
  // Frees a log run after the last record that leads to it.
  void release_log_run(std::uint64_t offset) noexcept {
    const std::uint64_t page = index_.sizes().page_of(offset);
    const layout::page_entry e = layout::unpack(index_.map.load(page) & checked_mask);
    NVM_ASSERT(e.kind == page_kind::log);
    index_.map.store(page, 0);
    medium_.flush(index_.map.at(page), 8);
    medium_.fence(edge{"space/E4"});
    give_pages(page, e.length_pages);
  }

  // ---- pages of structures (structure_pages.hpp) ----
  [[nodiscard]] result<std::uint64_t> take_extent(unsigned arena, layout::slot_protocol protocol, std::uint16_t owner,
                                                  unsigned slots_each) noexcept override;
  using structure_pages::give;
  using structure_pages::take_run;
  [[nodiscard]] result<std::uint64_t> take_run(unsigned arena, const run_wish& wish) noexcept override;
  void give(std::span<const std::uint64_t> offsets) noexcept override;
  [[nodiscard]] status extend(std::uint64_t offset, std::uint64_t pages) noexcept override;
  void shorten(std::uint64_t offset, std::uint64_t pages) noexcept override;
  void release(std::uint64_t offset, std::uint64_t pages) noexcept override;
  [[nodiscard]] bool take_free(std::uint64_t offset, std::uint64_t pages) noexcept override {
    return take_here(index_.sizes().page_of(offset), pages);
  }
  [[nodiscard]] bool is_free(std::uint64_t page) const noexcept override { return index_.pages.is_free(page); }
  // acquire: pairs with give_pages(): of pages that were taken.
  [[nodiscard]] std::uint64_t freed_by() const noexcept override { return freed_by_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t free_pages() const noexcept override {
    const std::uint64_t all = index_.pages.free_pages() + (index_.sizes().capacity_pages - index_.pages.size_pages());
    return all - std::min(all, kept_for_logs_);
  }
  [[nodiscard]] result<owned_pages> owned_at(std::uint64_t offset) const noexcept override;
  void each_owned(std::uint64_t first, std::uint64_t end, void* context,
                  bool (*visit)(void* context, const owned_pages&)) const noexcept override;
  [[nodiscard]] pages_of_stores& of_stores() noexcept override { return index_.of_stores; }
  [[nodiscard]] bool is_foreign(std::uint64_t offset) const noexcept override { return cluster_holding(offset) != 0; }
  [[nodiscard]] directory_words lockfree_directory() const noexcept override {
    const geometry& g = index_.sizes();
    return {{anchor_word_at(g, 0, anchor_word::lockfree), anchor_word_at(g, 1, anchor_word::lockfree)}, 2};
  }
  void write_back_entries() noexcept override;
  [[nodiscard]] const geometry& sizes() const noexcept override { return index_.sizes(); }
  [[nodiscard]] std::uint64_t size_pages() const noexcept override { return index_.pages.size_pages(); }

  // ---- stores (store_pages.hpp) ----
  [[nodiscard]] result<open_store*> attach(std::uint64_t offset, bool read_only) noexcept override;
  void make_known(open_store& store) noexcept override { store.open(); }
  [[nodiscard]] status detach(open_store& store) noexcept override;
  [[nodiscard]] stores_stay stay() noexcept override { return stores_stay{index_.detaching}; }
  void wait_for_stays() noexcept override { const std::unique_lock alone{index_.detaching}; }
  [[nodiscard]] bool trim(open_store& store) noexcept override;
  [[nodiscard]] result<structure_pages*> structures_in(open_store& store) noexcept override;
  [[nodiscard]] status make_whole(std::uint64_t offset) noexcept override;
  [[nodiscard]] open_store* attached_at(std::uint64_t offset) noexcept override;
  [[nodiscard]] std::uint64_t cluster_holding(std::uint64_t offset) const noexcept override;
  [[nodiscard]] const std::atomic<std::uint64_t>& rights_lost_so_far() const noexcept override { return rights_lost_; }
  // release: pairs with api/allowed_pages.hpp.
  void rights_are_lost() noexcept override { rights_lost_.fetch_add(1, std::memory_order_release); }
  void settle_everything() noexcept override;
  void tell_pages_to(cluster_listener* watch) noexcept override { watch_ = watch; }

  // ---- knowing ----

  [[nodiscard]] std::uint64_t used_pages() const noexcept {
    return index_.pages.size_pages() - index_.pages.free_pages();
  }
  [[nodiscard]] space_statistics statistics() noexcept {
    space_statistics s;
    s.size_pages = index_.pages.size_pages();
    s.free_pages = index_.pages.free_pages();
    const auto counts = index_.count();
    s.extents_unindexed = counts.extents_unindexed;
    s.extents_quarantined = counts.extents_quarantined;
    std::int64_t used = 0;
    for (unsigned i = 0; i <= index_.arena_count(); ++i) {
      arena* a = index_.existing_arena(i);
      if (a == nullptr) continue;
      const biased_lock::guard guard{a->lock, nobody};
      used += a->slot_bytes_used;
    }
    for (unsigned i = 1; i <= index_.stores.used(); ++i) {
      arena* a = index_.existing_arena(index_.arena_count() + i);
      if (a == nullptr) continue;
      const biased_lock::guard guard{a->lock, nobody};
      used += a->slot_bytes_used;
    }
    s.slot_bytes_used = static_cast<std::uint64_t>(used);
    return s;
  }
  // Gives the pages of all empty extents back.  True if there were any.
  [[gnu::noinline]] bool trim() noexcept;
  // The same of extents that were not indexed yet and of attached stores; then blocks of free pages to the file system
  // (space_trim.hpp).  errc::io of the medium, busy, no_memory; what was done until then is done.
  [[nodiscard]] status give_back(const trim_wishes& wishes, trim_outcome& out) noexcept;

  [[nodiscard]] const space_index& index() const noexcept { return index_; }

  // Names for the locks of this layer (sync/biased_lock.hpp).
  static constexpr unsigned nobody = space_index::nobody;
  [[nodiscard]] static constexpr unsigned name_of(unsigned lane) noexcept { return space_index::name_of(lane); }

 private:
  class pages_in_store;
  using page_kind = layout::page_kind;
  static constexpr std::uint64_t lane_words = ceil_div(log::lanes_max + 1, 64);

  struct held {  // an extent whose arena is locked, and the slot of the object meant
    extent* e;
    arena* in;
    unsigned slot;
  };
  struct tags_seen {
    unsigned word;
    log::tag tag;
    std::uint32_t hidden;
    bool any_hidden;
  };

  // Called when this thread has flushed what frees pages, before the pages are free.
  void note_freed() noexcept {
    if constexpr (M::atomic_batches) {
      const lsn_t now = medium_.last_lsn();
      lsn_t newest = freed_by_.load(std::memory_order_relaxed);
      // release: pairs with freed_by().
      while (newest < now &&
             !freed_by_.compare_exchange_weak(newest, now, std::memory_order_release, std::memory_order_relaxed)) {
      }
    }
  }
  void give_pages(std::uint64_t page, std::uint64_t count) noexcept {
    note_freed();
    index_.pages.give(page, count);
  }

  // ---- blocks (space_trim.hpp) ----
  struct page_range {
    std::uint64_t page = 0, count = 0;
  };
  // Blocks for pages that were just taken.
  [[nodiscard]] status fill(std::uint64_t page, std::uint64_t count) noexcept {
    // relaxed: set before the first hole is free.
    if (!any_holes_.load(std::memory_order_relaxed)) [[likely]]
      return {};
    return fill_holes(page, count);
  }
  // These pages if they are free, with blocks.
  [[nodiscard]] bool take_here(std::uint64_t page, std::uint64_t count) noexcept {
    if (!index_.pages.take_at(page, count)) return false;
    if (fill(page, count)) [[likely]]
      return true;
    index_.pages.give(page, count);
    return false;
  }
  [[nodiscard, gnu::noinline]] status fill_holes(std::uint64_t page, std::uint64_t count) noexcept;
  template <class F>
  void each_hole_word(std::uint64_t page, std::uint64_t count, F&& f) noexcept;
  [[nodiscard]] status make_certain(std::span<const page_range> taken, const trim_wishes& wishes) noexcept;
  void take_for_holes(std::uint64_t chunk, std::uint64_t most, std::vector<page_range>& taken) noexcept;
  [[nodiscard]] status punch(std::span<const page_range> taken, trim_outcome& out) noexcept;
  // May throw std::bad_alloc.
  [[nodiscard]] status make_holes(const trim_wishes& wishes, trim_outcome& out);
  [[nodiscard]] page_range take_end(std::uint64_t size) noexcept;
  [[nodiscard]] status cut_end(const trim_wishes& wishes, trim_outcome& out) noexcept;
  [[nodiscard]] bool go_on(const trim_wishes& wishes, trim_outcome& out, std::uint64_t done) const noexcept;

  // ---- slots (space_slots.hpp) ----
  // Debuggers of memory are told before another thread can get the room.
  void no_object_any_more(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    constexpr std::uint64_t header = sizeof(layout::object_header);
    if (bytes > header) platform::memory_watch::inaccessible(base_ + offset + header, bytes - header);
  }
  // Where a request is served from: an arena, and what is done when that has no room.
  struct pool_room {
    space& in;
    unsigned lane;
    [[nodiscard]] unsigned arena_number() const noexcept { return in.index_.arena_number(lane); }
    [[nodiscard]] static bool is_there() noexcept { return true; }
    [[nodiscard]] static errc refuse() noexcept { return errc::invalid; }
    static void begin_work() noexcept {}
    [[nodiscard]] status refill(unsigned set, unsigned count) const noexcept { return in.refill(lane, set, count); }
    [[nodiscard]] result<reservation> run(std::uint64_t count, layout::object_layout l) const noexcept {
      return in.reserve_run(lane, count, l);
    }
  };
  struct store_room {
    space& in;
    const store_attachment& at;
    unsigned lane;
    [[nodiscard]] unsigned arena_number() const noexcept { return at.store->arena(); }
    // Under the lock of the arena: a store that is not attached as `at` any more, or read-only, has no room.
    [[nodiscard]] bool is_there() const noexcept {
      return at.store->is_attached_as(at.number) && !at.store->read_only();
    }
    [[nodiscard, gnu::noinline]] errc refuse() const noexcept {
      if (!at.store->is_attached_as(at.number)) return fail(errc::invalid, "the store was detached meanwhile");
      return fail(errc::read_only, "store %u is attached read-only", at.store->number());
    }
    // Likewise; refill() ends it.
    void begin_work() const noexcept { at.store->begin_work(); }
    [[nodiscard]] status refill(unsigned set, unsigned count) const noexcept {
      const status s = in.refill_in(*at.store, lane, set, count);
      at.store->end_work();
      return s;
    }
    [[nodiscard]] result<reservation> run(std::uint64_t count, layout::object_layout l) const noexcept;
  };
  template <class Room>
  [[nodiscard]] result<reservation> reserve_from(const Room& from, unsigned lane, std::uint64_t bytes,
                                                 layout::object_layout l) noexcept;
  template <class Room>
  [[nodiscard]] result<reservation> reserve_slots(const Room& from, unsigned lane, page_kind kind,
                                                  layout::object_layout l, unsigned count) noexcept;
  void fetch_next(slot_buckets& buckets, unsigned count, const layout::extent_shape& s) noexcept;
  [[nodiscard, gnu::noinline]] status refill(unsigned lane, unsigned set, unsigned count) noexcept;
  [[nodiscard, gnu::noinline]] status new_extent(unsigned lane, unsigned set, bool last_resort) noexcept;
  void release_slots(extent& e, std::uint64_t offset, std::uint64_t bytes, unsigned lane, log::tag t,
                     const log::intent* clear = nullptr) noexcept;
  [[nodiscard]] held hold(extent& e, std::uint64_t offset, unsigned lane) noexcept;
  [[nodiscard]] bool is_still(extent& e, unsigned slot, const object& o) const noexcept;
  // Whether `stay` has to keep what was found, or only what is looked at on the way.
  enum class lasting : bool { no, yes };
  [[nodiscard]] result<object> find(std::uint64_t offset, layout::object_layout l, unsigned who, stores_stay& stay,
                                    lasting kept) noexcept;
  [[nodiscard]] result<object> look(extent& e, std::uint64_t offset, layout::object_layout wanted) noexcept;
  // Generation 0: of a medium that has nothing to replay.
  [[nodiscard]] static log::tag tag_of(unsigned lane, std::uint64_t generation) noexcept {
    return generation == 0 ? log::tag{} : log::tag::make(lane, generation);
  }
  [[nodiscard]] tags_seen see_tags(extent& e, unsigned slot) const noexcept {
    const unsigned word = slot / checked_bits;
    return {word, {e.tags()[word]}, e.tags_hidden, e.tags_hidden != e.tags_settled};
  }
  void put_tag(extent& e, unsigned slot, log::tag t) noexcept;
  void settle(extent& e, const tags_seen& seen, unsigned lane) noexcept;
  // Called before pages get contents that no log has.
  void settle_freed_runs() noexcept {
    if constexpr (S::ordered) {
      const std::uint64_t newest = runs_freed_.load(std::memory_order_acquire);
      if (newest != 0) settler_.settle_all(log::tag::make(0, newest));
    }
  }
  template <class F>
  void each_hiding_lane(F&& f) const noexcept;

  // ---- pages (space_pages.hpp) ----
  [[nodiscard, gnu::noinline]] result<reservation> reserve_run(unsigned lane, std::uint64_t count,
                                                               layout::object_layout l) noexcept;
  void release_run(std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] result<object> run_at(std::uint64_t page, page_state s, std::uint64_t offset,
                                      layout::object_layout wanted) noexcept;
  [[nodiscard]] status begin_free_run(const object& o, unsigned lane) noexcept;
  [[nodiscard]] result<std::uint64_t> take_pages(unsigned mine, page_use use, std::uint64_t count, bool last_resort,
                                                 bool for_log = false) noexcept;
  // Whether these pages may be taken, now or after growth, with `keep` left.
  [[nodiscard]] bool has_spare(std::uint64_t count, std::uint64_t keep) const noexcept {
    if (keep == 0) return true;
    const std::uint64_t growth = grow_ ? index_.sizes().capacity_pages - index_.pages.size_pages() : 0;
    return index_.pages.free_pages() + growth >= count + keep;
  }
  [[nodiscard, gnu::noinline]] status no_spare(std::uint64_t count) const noexcept;
  [[nodiscard, gnu::noinline]] bool trim_before_growth(bool stores) noexcept;
  [[nodiscard]] status grow_for(page_use use, std::uint64_t count, std::uint64_t size_seen) noexcept;
  void enter(std::uint64_t page, const layout::page_entry& entry) noexcept {
    enter_at(page, entry, index_.sizes().entry_offset(page));
  }
  // Its entry lies at `entry_at`.
  void enter_at(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at) noexcept;
  void lay_extent(std::uint64_t page, const layout::page_entry& entry, std::uint64_t entry_at,
                  unsigned slots_each) noexcept;
  // Zero entries for these extents, which are in no bucket; their pages are left to the caller: given(page, pages).
  void settle_tags(extent& e) noexcept;
  void clear_extents(extent* leaving, edge label) noexcept;
  template <class Given>
  void forget_extents(extent* leaving, Given&& given) noexcept;
  [[nodiscard]] static extent* take_empty(arena& a) noexcept;

  // ---- stores (space_stores.hpp) ----
  using link_word = std::uint64_t;  // offset of a checked word that leads to a cluster
  // True: `stay` keeps the stores only now, and what was seen before may be gone.
  [[nodiscard, gnu::noinline]] bool begin_to_stay(stores_stay& stay) noexcept;
  // Stores stay meanwhile.
  [[nodiscard, gnu::noinline]] result<bool> look_up_in_store(std::uint64_t page, std::uint64_t offset) noexcept;
  [[nodiscard, gnu::noinline]] result<object> find_around_in_store(std::uint64_t page, std::uint64_t offset,
                                                                   layout::object_layout l, stores_stay& stay) noexcept;
  [[nodiscard, gnu::noinline]] static errc of_read_only_store(std::uint64_t offset) noexcept {
    return fail(errc::read_only, "object at offset %lu lies in a store that is attached read-only", offset);
  }
  [[nodiscard]] result<reservation> reserve_run_in(open_store& store, unsigned lane, std::uint64_t count,
                                                   layout::object_layout l) noexcept;
  [[nodiscard]] status refill_in(open_store& store, unsigned lane, unsigned set, unsigned count) noexcept;
  [[nodiscard]] status new_extent_in(open_store& store, unsigned lane, unsigned set) noexcept;
  [[nodiscard]] result<std::uint64_t> take_pages_in(open_store& store, unsigned lane, std::uint64_t count,
                                                    bool aligned) noexcept;
  [[gnu::noinline]] void release_run_in(unsigned place, std::uint64_t page, std::uint64_t pages) noexcept;
  [[nodiscard, gnu::noinline]] result<std::uint64_t> entry_in_store(unsigned place, std::uint64_t page) noexcept;
  [[nodiscard]] std::uint64_t quota_left(const open_store& store) const noexcept;
  [[nodiscard]] status grow_store(open_store& store, unsigned lane, std::uint64_t count, bool aligned) noexcept;
  [[nodiscard]] bool grow_in_place(open_store& store, std::uint64_t count, bool aligned,
                                   std::uint64_t may_have) noexcept;
  [[nodiscard]] status add_cluster(open_store& store, unsigned lane, std::uint64_t least,
                                   std::uint64_t may_have) noexcept;
  [[nodiscard]] bool trim_extents(open_store& store) noexcept;
  [[nodiscard]] bool shrink(open_store& store) noexcept;
  void take_out(open_store& store, const cluster& c) noexcept;
  void shorten_cluster(const cluster& c, std::uint64_t pages) noexcept;
  // Pages of an attached store that it has now, and those that are given back.
  void tell_came(std::uint64_t page, std::uint64_t pages) noexcept {
    if (watch_ != nullptr) watch_->came(index_.sizes().page_offset(page), pages << index_.sizes().page_shift);
  }
  void give_from_store(std::uint64_t page, std::uint64_t pages) noexcept {
    if (watch_ != nullptr) watch_->left(index_.sizes().page_offset(page), pages << index_.sizes().page_shift);
    give_pages(page, pages);
  }
  [[nodiscard]] bool trim_stores() noexcept;
  void settle_pages(std::uint64_t page, std::uint64_t count) noexcept;
  void put_link(link_word at, std::uint64_t to) noexcept;
  [[nodiscard]] std::uint64_t link(link_word at) const noexcept { return load_word(base_, at) & checked_mask; }
  // The geometry with the present size.
  [[nodiscard]] geometry sizes_now() const noexcept {
    geometry g = index_.sizes();
    g.size_pages = index_.pages.size_pages();
    return g;
  }
  [[nodiscard]] result<std::vector<cluster>> read_store(std::uint64_t offset, bool writes) noexcept;
  [[nodiscard]] status finish_work(const std::vector<cluster>& clusters) noexcept;
  [[nodiscard]] status claim_store(std::uint64_t page, unsigned place) noexcept;
  [[nodiscard]] status claim_clusters(const std::vector<cluster>& clusters, unsigned place) noexcept;
  void let_clusters_go(open_store& store) noexcept;
  template <class Visit>
  bool each_state_in(open_store& store, Visit&& visit) noexcept;
  [[nodiscard]] bool is_at_rest(open_store& store) noexcept;

  // State of the page that `page` belongs to as far as it is known; `page` becomes the head.
  [[nodiscard]] page_state state_at(std::uint64_t& page) const noexcept {
    const page_state s = index_.states.get(page);
    if (s.code() != 0) return s;
    // Pages of a coarse extent after its first have no state of their own.
    const std::uint64_t head = round_down(page, layout::coarse_extent_pages);
    const page_state first = index_.states.get(head);
    const bool inside = first.what() == page_state::type::coarse ||
                        (first.what() == page_state::type::quarantined && head + first.pages() > page);
    if (!inside) return s;
    page = head;
    return first;
  }
  [[nodiscard]] static errc no_object(std::uint64_t offset) noexcept {
    return fail(errc::bad_pointer, "no object begins at offset %lu", offset);
  }
  [[nodiscard]] unsigned slots_for(page_kind kind, std::uint64_t bytes) const noexcept {
    const layout::extent_shape& s = index_.shape(kind);
    return static_cast<unsigned>((bytes + s.slot_bytes - 1) >> s.slot_shift);
  }
  // The header of a typed object in `units` of 1 << `shift` bytes.
  [[nodiscard]] status check_header(std::uint64_t offset, std::uint64_t units, unsigned shift) const noexcept;

  M& medium_;
  S& settler_;
  std::byte* base_;
  grow_function grow_;
  space_index index_;
  // Newest generation of each lane that a replaced, not yet settled tag named, and which lanes have one.
  sparse_array<std::uint64_t> hidden_;
  sparse_array<std::uint64_t> hiding_;
  // Free pages without blocks, a bit each; a page that is taken loses its bit, or is given back.
  sparse_array<std::uint64_t> holes_;
  std::atomic<bool> any_holes_{false};
  bool doubtful_ = false;  // with trimming_: what is said to be a hole may have blocks
  pool_blocks* blocks_ = nullptr;
  std::uint64_t kept_for_logs_ = 0;  // pages
  std::mutex trimming_;              // one at a time; before all others
  std::mutex growing_;
  std::atomic<lsn_t> freed_by_{0};
  std::atomic<std::uint64_t> runs_freed_{0};  // newest generation that freed a run; where replays store contents
  std::atomic<std::uint64_t> rights_lost_{0};
  cluster_listener* watch_ = nullptr;
  std::mutex handing_;                                             // one store at a time is attached or detached
  std::map<unsigned, std::unique_ptr<pages_in_store>> in_stores_;  // under handing_: by their places, while attached
  bool maps_doubtful_ = false;  // a process that was killed may have left words of clusters' maps in caches only
};

}  // namespace nvm

#include "space/space_pages.hpp"             // IWYU pragma: export
#include "space/space_slots.hpp"             // IWYU pragma: export
#include "space/space_store_structures.hpp"  // IWYU pragma: export
#include "space/space_store_visits.hpp"      // IWYU pragma: export
#include "space/space_stores.hpp"            // IWYU pragma: export
#include "space/space_structures.hpp"        // IWYU pragma: export
#include "space/space_trim.hpp"              // IWYU pragma: export
