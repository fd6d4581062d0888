// An attached object store, as it is known in DRAM: which pages of its clusters are in use, which extents are not
// indexed yet.  Rebuilt from the clusters' maps when the store is attached, never persisted.
//
// Threads.  A thread that allocates may come too late: it names the attachment that it means, and asks under the lock
// of the store's arena whether that is still there.  A slot that is taken under this lock keeps the store attached;
// what takes longer counts as work, begun under the lock.  A thread that detaches holds the lock, too.
//  `growing` is held by the thread that changes which clusters there are, or how long they are, and while it tells the
// listener (cluster_listener.hpp).  `pages` guards the list of clusters and their bitmaps; nothing else is locked under
// it, and committing threads take it.
//  Objects of this class are used again and never destroyed while their space lives: a thread with a stale place finds
// a store, and looks whether it has the page that is meant.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "space/cluster_image.hpp"
#include "space/pages_of_stores.hpp"
#include "space/slot_index.hpp"
#include "space/sparse_array.hpp"
#include "space/store_attachment.hpp"
#include "sync/sync.hpp"

namespace nvm {

// Which pages of one cluster are in use, and where runs and extents begin.
class cluster_pages {
 public:
  // May throw std::bad_alloc.
  explicit cluster_pages(const cluster& c);

  [[nodiscard]] const cluster& what() const noexcept { return cluster_; }
  [[nodiscard]] std::uint64_t free() const noexcept { return free_; }
  [[nodiscard]] bool empty() const noexcept { return free_ == cluster_.pages - cluster_.header_pages; }
  // Free pages at its end.
  [[nodiscard]] std::uint64_t trailing_free() const noexcept;
  [[nodiscard]] bool is_free(std::uint64_t page) const noexcept {
    return cluster_.has(page) && !busy(page - cluster_.page);
  }
  // First of `count` free pages, at a multiple of 8 if `aligned`; they are in use now.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t count, bool aligned) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t count, bool aligned) const noexcept;
  void mark(std::uint64_t page, std::uint64_t count) noexcept;
  void give(std::uint64_t page, std::uint64_t count) noexcept;
  // First page of the run or extent that has `page`; nullopt: it is free, or of the header.
  [[nodiscard]] std::optional<std::uint64_t> head_of(std::uint64_t page) const noexcept;
  // Adds free pages at its end, or takes pages from there; no more than it has room for.
  void resize(std::uint64_t pages) noexcept;
  void set_next(std::uint64_t offset) noexcept { cluster_.next = offset; }

 private:
  [[nodiscard]] bool busy(std::uint64_t i) const noexcept { return (busy_[i / 64] >> i % 64 & 1) != 0; }

  cluster cluster_;
  std::uint64_t free_ = 0;
  std::vector<std::uint64_t> busy_;   // a bit for each page that it may have; those that it has not are set
  std::vector<std::uint64_t> heads_;  // likewise
};

class open_store {
 public:
  explicit open_store(unsigned place, unsigned arena) noexcept : place_{place}, arena_{arena} {}
  open_store(const open_store&) = delete;
  open_store& operator=(const open_store&) = delete;

  // Constant while it is attached.
  [[nodiscard]] unsigned place() const noexcept { return place_; }  // 1 or more
  [[nodiscard]] unsigned arena() const noexcept { return arena_; }
  // relaxed: a message about a place that no store has may ask while another thread attaches one.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t page() const noexcept { return page_; }  // of the pool
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }

  // A number of this attachment, which no other attachment of a store of the pool has in this process; not 0.
  // relaxed: a thread that finds the store by its pages sees what was there before them.
  [[nodiscard]] std::uint64_t attachment() const noexcept {
    return std::uint64_t{place_} << 40 | times_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] store_attachment attached_as() noexcept { return {this, attachment()}; }

  // Reads the maps of its clusters, before any other thread uses it.  errc::corrupt, no_memory.
  [[nodiscard]] status begin(const std::byte* base, const geometry& g, const std::vector<cluster>& clusters,
                             bool read_only) noexcept;
  void end() noexcept;
  // From open() to close() threads that have not attached it may look at it, and take pages that it does not need.
  // release, acquire: all that begin() has done is visible.
  void open() noexcept { open_.store(true, std::memory_order_release); }
  void close() noexcept { open_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }

  // Under the lock of its arena, except end_work().
  [[nodiscard]] bool is_attached_as(std::uint64_t number) const noexcept {
    // acquire, in is_open(): an attachment that is seen open is seen with its number.
    return is_open() && attachment() == number;
  }
  // relaxed: the lock makes it visible to the thread that detaches; of a thread that gives a run up, the run's state
  // does.
  void begin_work() noexcept { at_work_.fetch_add(1, std::memory_order_relaxed); }
  // release: pairs with is_worked_in(); a thread that detaches sees all that was done.
  void end_work() noexcept { at_work_.fetch_sub(1, std::memory_order_release); }
  [[nodiscard]] bool is_worked_in() const noexcept { return at_work_.load(std::memory_order_acquire) != 0; }

  std::mutex growing;

  // ---- under `pages` ----

  // nullptr: it has no such page.
  [[nodiscard]] cluster_pages* having(std::uint64_t page) noexcept;
  // The clusters, in the order of their pages.
  [[nodiscard]] std::vector<cluster_pages>& clusters() noexcept { return clusters_; }
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t count, bool aligned) noexcept;
  [[nodiscard]] bool fits(std::uint64_t count, bool aligned) const noexcept;
  void remove(std::uint64_t page) noexcept;
  void resize(cluster_pages& c, std::uint64_t pages_now) noexcept;
  [[nodiscard]] bool is_walked() const noexcept { return walks_ != 0; }

  // ---- without ----

  // Adding a cluster, in two steps, so that nothing can fail once the cluster exists; `growing` is held.
  // errc::no_memory.
  [[nodiscard]] status prepare_to_add(const cluster& c) noexcept;
  void add_prepared() noexcept;
  void give(std::uint64_t page, std::uint64_t count) noexcept;
  // The cluster that has `page`, as it is now.
  [[nodiscard]] std::optional<cluster> cluster_with(std::uint64_t page) noexcept;
  // Where the run or extent begins that has `page`.
  [[nodiscard]] std::optional<std::uint64_t> head_of(std::uint64_t page) noexcept;
  // The first cluster with pages at or after `page`; its map is read until end_walk(), and no page leaves the store
  // meanwhile.
  [[nodiscard]] std::optional<cluster> walk_from(std::uint64_t page) noexcept;
  void end_walk() noexcept;
  // Whether it has the page, and nothing is in it.
  [[nodiscard]] bool is_free(std::uint64_t page) noexcept;
  // From now on `bits` have the pages of its clusters; nullptr: none has.
  void tell_pages(pages_of_stores* bits) noexcept;
  // Pages that it has, headers counted.
  [[nodiscard]] std::uint64_t pages_now() const noexcept { return page_count_.load(std::memory_order_relaxed); }

  // Extents of a set (slot_index.hpp) that were found when it was attached and may not be indexed yet: one of them.
  [[nodiscard]] std::optional<std::uint64_t> next_unindexed(unsigned set) noexcept;
  [[nodiscard]] std::int64_t unindexed() const noexcept { return unindexed_left_.load(std::memory_order_relaxed); }
  void note_indexed() noexcept { unindexed_left_.fetch_sub(1, std::memory_order_relaxed); }

  spin_lock pages;

 private:
  const unsigned place_;
  const unsigned arena_;
  std::atomic<std::uint32_t> number_{0};
  std::uint64_t page_ = 0;
  bool read_only_ = false;
  [[nodiscard]] status read_maps(const std::byte* base, const geometry& g);

  std::atomic<std::uint64_t> times_{0};  // it has begun
  std::atomic<bool> open_{false};
  std::atomic<unsigned> at_work_{0};  // threads that allocate in it
  std::atomic<std::int64_t> unindexed_left_{0};
  std::atomic<std::uint64_t> page_count_{0};
  std::vector<cluster_pages> prepared_;  // one, on its way into clusters_
  std::vector<cluster_pages> clusters_;
  pages_of_stores* bits_ = nullptr;  // of structures in it
  unsigned walks_ = 0;               // under way
  std::array<std::vector<std::uint64_t>, slot_sets> unindexed_;
};

// The stores that are attached, by their places.
class attached_stores {
 public:
  explicit attached_stores(std::uint64_t places) noexcept : stores_{places + 1}, places_{places} {}
  ~attached_stores();
  attached_stores(const attached_stores&) = delete;
  attached_stores& operator=(const attached_stores&) = delete;
  [[nodiscard]] bool exists() const noexcept { return stores_.exists(); }

  // A store that no thread uses; the number of its arena is `arenas` plus its place.  errc::no_memory.  One caller at a
  // time, as of put().
  [[nodiscard]] result<open_store*> get(unsigned arenas) noexcept;
  void put(open_store& s) noexcept;
  // nullptr: there never was one.
  [[nodiscard]] open_store* at(unsigned place) const noexcept {
    // acquire: pairs with get().
    return reinterpret_cast<open_store*>(stores_[place].load(std::memory_order_acquire));
  }
  // Places that were used.
  [[nodiscard]] unsigned used() const noexcept { return used_.load(std::memory_order_acquire); }

 private:
  sparse_array<std::uint64_t> stores_;
  std::uint64_t places_;
  std::atomic<unsigned> used_{0};
  std::vector<unsigned> free_;
};

}  // namespace nvm
