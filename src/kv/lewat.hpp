// An index over regions (Lewat-KV; Lewat, section VII): an entry is a region, small entries are packed into regions
// that are the buckets of a linear hash table.
//
// The regions of a store are a set of their own.  An entry of more than item_packed_max bytes is in the region whose
// number its hash is; entries of equal hash share it.  The others lie in the buckets of the segment that the hash
// names; each segment splits its buckets in turn.  A change costs as much as the change of a region: one fence; where
// the value keeps its size, only the bytes that differ are written.
//
/// Change of one region:         one call of the region: it has the commit point
/// Entry that moves, split, batch: one group of the regions: it has the commit point; V version of each segment odd
///                                before it and even after
//
// Threads.  A writer holds the locks of the segments that its keys are in, lowest number first, and no lock while a
// program's function runs.  A reader takes none: an entry that it finds was there.  If it finds none in either place
// and the segment's version has moved meanwhile, it looks again; after some tries it looks under the lock.  On ssd a
// lock is let go before the wait for the disk.  A drop or a rename waits for readers (reading), then for writers.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "api/open_regions.hpp"
#include "kv/item_image.hpp"
#include "kv/lewat_rest.hpp"
#include "kv/scratch.hpp"
#include "kv/store.hpp"
#include "nvm/kv.h"

namespace nvm::keyed::lewat {

// Name of the set of a store's regions: a number that its header has, whatever the store is called.
[[nodiscard]] std::string set_name(std::uint64_t seed);
// Sets are made and dropped outside of transactions; the directory of stores says which of them count.
[[nodiscard]] status make_set(NVM_POOL* pool, std::uint64_t seed);
[[nodiscard]] status drop_set(NVM_POOL* pool, std::uint64_t seed);  // no failure where there is none, or can be none
[[nodiscard]] status can_have_sets(NVM_POOL* pool);                 // errc::engine
// Regions take part in no transaction: errc::tx_open, and the one that is open is rolled back.
[[nodiscard]] status outside_of_transactions() noexcept;

// The message of a failure, kept while other calls may fail.
class kept_message {
 public:
  explicit kept_message(const status& of) noexcept : why_{of.error()} {
    if (!of) std::snprintf(text_, sizeof text_, "%s", last_message());
  }
  [[nodiscard]] status again() const noexcept { return why_ == errc::ok ? status{} : fail(why_, "%s", text_); }

 private:
  errc why_;
  char text_[400];
};

// What a reader wants of an entry.
struct wish {
  std::uint64_t bytes = ~std::uint64_t{0};  // of the value
  bool verified = false;
};
// What the reader got; the bytes lie in the thread's scratch.
struct answer {
  bool there = false;
  bytes_view value{};  // its size is that of the whole value; the bytes that were wished for are there
};

class regions_index;

// While one lives that has begun, the store has its regions and its index: drop and rename wait for its end.
//
/// Reader   inside of the regions' epoch (sync/epochs.hpp); L handles of the store: none, and it does not begin
/// Drop     S handles, by the close; W for all that were inside then; now regions and index may go
//
// Meanwhile no function of the program runs, and the thread takes no segment's lock and waits for no disk.
class reading {
 public:
  reading(const NVM_POOL* pool, const store& of) noexcept {
    auto part = api::part_in(pool);
    if (!part) {
      refused_ = part.error();
      return;
    }
    side_ = (*part)->of->side.get();
    who_ = (*part)->number();
    part_.emplace(std::move(*part));
    side_->enter(who_);
    // relaxed: the epoch orders it.
    if (of.handles.load(std::memory_order_relaxed) == 0) refused_ = was_closed(of);
  }
  ~reading() {
    if (side_ != nullptr) side_->exit(who_);
  }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;

  [[nodiscard]] status begun() const noexcept { return refused_; }

 private:
  std::optional<api::part_in_use> part_;
  api::region_side* side_ = nullptr;
  unsigned who_ = 0;
  errc refused_ = errc::ok;
};

// The lock of a segment.  No std::mutex: a batch may hold all of them, more than thread sanitizers have room for.
class segment_lock {
 public:
  void lock() noexcept {
    std::uint32_t was = free;
    // acquire: pairs with unlock(): what the last holder has done is seen.
    if (state_.compare_exchange_strong(was, held, std::memory_order_acquire, std::memory_order_relaxed)) return;
    while (state_.exchange(waited_for, std::memory_order_acquire) != free) {
      state_.wait(waited_for, std::memory_order_relaxed);
    }
  }
  void unlock() noexcept {
    if (state_.exchange(free, std::memory_order_release) == waited_for) state_.notify_one();
  }

 private:
  enum : std::uint32_t { free, held, waited_for };
  std::atomic<std::uint32_t> state_{free};
};

// Some of the segments.
class segment_set {
 public:
  void set(unsigned number) noexcept { words_[number / 64] |= std::uint64_t{1} << number % 64; }
  void clear() noexcept { words_ = {}; }
  static segment_set everything() noexcept {
    segment_set all;
    all.words_.fill(~std::uint64_t{0});
    return all;
  }
  // From the lowest number on.
  template <class Visit>
  void each(Visit&& visit) const {
    for (unsigned w = 0; w < words_.size(); ++w) {
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1) {
        visit(64 * w + static_cast<unsigned>(std::countr_zero(left)));
      }
    }
  }

 private:
  std::array<std::uint64_t, layout::item_segments / 64> words_{};
};

class segment_locks {
 public:
  segment_locks(regions_index& of, const segment_set& which) noexcept;
  ~segment_locks();
  segment_locks(const segment_locks&) = delete;
  segment_locks& operator=(const segment_locks&) = delete;

 private:
  regions_index& of_;
  const segment_set which_;
};

class regions_index : public std::enable_shared_from_this<regions_index> {
 public:
  explicit regions_index(const store& s, NVM_POOL* pool);
  // Finds the set and what its segments have.  errc::not_found: there is no set.
  [[nodiscard]] status open();

  // By the index that `from` names while the store is open.
  [[nodiscard]] static status get(const std::shared_ptr<regions_index>& from, const store& of, NVM_POOL* pool,
                                  const key& k, const wish& w, answer& out);
  // Other calls: by a thread that keeps the index.
  [[nodiscard]] status put(const key& k, bytes_view value, unsigned flags);
  [[nodiscard]] status remove(const key& k, bool& removed);
  // edit(value, bytes, room, argument) as nvm_kv_update() has it, called without a lock by `call`.
  using edit_function = int (*)(void*, size_t*, size_t, void*);
  [[nodiscard]] status update(const key& k, std::uint64_t room_wanted, edit_function edit, void* argument,
                              bool& was_there);
  // Operations whose stores are this one; `at`: the one under way.
  [[nodiscard]] status batch(const nvm_kv_operation* operations, std::size_t count, std::size_t& at);
  [[nodiscard]] status size(std::uint64_t& entries);
  // Waits until no call is under way that began before the store was closed.  Not by a reader.
  void await_calls() noexcept {
    at_once_->all->side->await_inside();
    const segment_locks all{*this, segment_set::everything()};
  }

 private:
  friend class change;
  friend class walk;
  friend class segment_locks;

  struct alignas(2 * line_bytes) segment {
    segment_lock lock;
    std::atomic<std::uint64_t> version{0};  // odd: entries are moving
    std::atomic<std::uint64_t> buckets{1};
    std::atomic<bool> has_packed{false};  // once true, always
    std::atomic<bool> has_own{false};
    std::atomic<std::uint64_t> entries{0};  // counts from count() on
    // Under the lock.
    std::uint64_t packed_bytes = 0;   // once they are counted
    bool packed_counted = false;      // by the first change of the segment
    std::vector<std::uint64_t> made;  // own regions, while somebody walks
    bool made_is_short = false;       // of memory: one is missing
  };

  [[nodiscard]] segment& of_hash(std::uint64_t hash) noexcept { return segments_[layout::item_segment(hash)]; }
  [[nodiscard]] std::uint64_t bucket_now(std::uint64_t hash) noexcept {
    return layout::bucket_region(hash, of_hash(hash).buckets.load(std::memory_order_acquire));
  }
  // Bytes from the region's beginning; 0 and `there` false: there is no such region.
  [[nodiscard]] status read(std::uint64_t rid, std::span<std::byte> to, std::uint64_t& count, bool& there) noexcept;
  [[nodiscard]] status length(std::uint64_t rid, std::uint64_t& bytes, bool& there) noexcept;
  [[nodiscard]] status absent(errc why) const noexcept;
  // Calls visit(rid) for each region of the set, also one that is dropped meanwhile; visit() calls nothing.
  template <class Visit>
  [[nodiscard]] status each_number(Visit&& visit) noexcept {
    const auto seen = api::run<api::effect::looks>(at_once_, [&](api::part_of_thread& p) -> result<int> {
      at_once_->of->numbers(
          p.number(), [](std::uint64_t rid, void* raw) { (*static_cast<std::remove_reference_t<Visit>*>(raw))(rid); },
          &visit);
      return 0;
    });
    return seen ? status{} : status{seen.error()};
  }
  // Calls visit(rid, bytes) for each region of the set; of each the header is read.
  [[nodiscard]] status each_region(const std::function<void(std::uint64_t rid, std::uint64_t bytes)>& visit) noexcept;

  // Without a lock, by a reader.  `settled`: the answer holds.
  [[nodiscard]] status look_freely(const key& k, const wish& w, answer& out, bool& settled);
  [[nodiscard]] status look_alone(const key& k, const wish& w, answer& out);
  [[nodiscard]] status look(const key& k, const wish& w, answer& out);
  [[nodiscard]] status look_in(std::uint64_t rid, const key& k, const wish& w, answer& out);
  [[nodiscard]] status take_found(std::uint64_t rid, const std::byte* image, const item& i, const key& k, const wish& w,
                                  answer& out) const;
  [[nodiscard]] errc damaged(std::uint64_t rid) const noexcept;
  [[nodiscard]] errc damaged_entry(std::uint64_t rid, const key& k, verdict what) const noexcept;
  // Splits the buckets of a segment that have become full, as far as there is room; its lock is held.
  void split_if_full(unsigned number);
  void count_packed_bytes(unsigned number);
  [[nodiscard]] status split(unsigned number);
  [[nodiscard]] status count_all();
  [[nodiscard]] status count_packed(unsigned number, std::vector<std::byte>& image);
  // Waits until what this thread did and saw is durable.
  [[nodiscard]] status wait() noexcept;
  [[nodiscard]] status answer_of(const status& done) noexcept;
  [[nodiscard]] status accepts_changes() const noexcept;
  // Asked under the lock of a segment: the store may have been closed, and dropped or renamed, since the call began.
  [[nodiscard]] status still_open() const noexcept;

  const store& store_;
  NVM_POOL* const pool_;
  nvm_regions* at_once_ = nullptr;  // calls with it wait for no disk: wait() does
  std::unique_ptr<segment[]> segments_;
  std::atomic<bool> counted_{false};
  std::atomic<unsigned> walks_{0};
};

// Each entry of a store, in no order.  What a segment has at the moment when the walk comes to it is met once: its
// small entries are copied then, with the numbers of its own regions; of these the walk knows those that there were at
// its beginning, and those that were made since.  If an own region has gone when it is read, its entry may have become
// small.
class walk {
 public:
  // The index outlives the store where a program closes that first.
  explicit walk(std::shared_ptr<regions_index> of) noexcept;
  ~walk();
  walk(const walk&) = delete;
  walk& operator=(const walk&) = delete;

  enum class step : std::uint8_t { entry, damage, end };
  struct entry_view {
    std::string_view key{}, value{};
    std::uint64_t rid = 0;
  };
  // The views are valid until the next call.  damage: `rid` is that of the damaged region, and a message says what is
  // wrong.
  [[nodiscard]] result<step> next(entry_view& out);
  [[nodiscard]] status wait() noexcept { return of_.wait(); }
  struct shape {
    std::uint64_t buckets = 0, own = 0, longest = 0, packed_bytes = 0, depth = 0;
  };
  [[nodiscard]] const shape& seen() const noexcept { return seen_; }

 private:
  struct part {
    std::uint64_t rid;
    std::size_t from, to;
  };
  [[nodiscard]] status begin();
  [[nodiscard]] status take_next();
  template <class Take>
  [[nodiscard]] status take_whole(Take&& take);
  [[nodiscard]] status take_segment(unsigned number);
  [[nodiscard]] status take_numbers(std::vector<std::uint64_t>& to, unsigned number);
  [[nodiscard]] status take_bucket(std::uint64_t rid);
  [[nodiscard]] status take_own(std::uint64_t rid);
  [[nodiscard]] status read_own(std::uint64_t rid, bool& there);
  [[nodiscard]] status take_if_packed(std::uint64_t rid);

  const std::shared_ptr<regions_index> held_;
  regions_index& of_;
  bool begun_ = false;
  std::vector<std::uint64_t> own_;      // numbers of regions, by segment
  std::vector<std::uint64_t> own_now_;  // of the segment, at its moment
  std::size_t own_ends_[layout::item_segments + 1] = {};
  unsigned segment_ = 0;  // the next
  std::uint64_t buckets_ = 1;
  std::size_t own_at_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<part> parts_;
  std::size_t part_ = 0;
  std::uint64_t at_ = 0;  // in the part
  shape seen_{};
};

}  // namespace nvm::keyed::lewat
