// What the indexes share: the volatile side of a store, and the state that an operation hands around.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "kv/access.hpp"
#include "kv/counters.hpp"
#include "kv/record.hpp"

namespace nvm::keyed {

using layout::kv_index;

// Places of the segments of a hash table, so that a lookup need not go through their lists: they are never freed while
// the store is open.  Only what is committed comes in here.
class segment_cache {
 public:
  segment_cache() noexcept = default;
  ~segment_cache() { clear(); }
  segment_cache(const segment_cache&) = delete;
  segment_cache& operator=(const segment_cache&) = delete;

  // While no other thread is in a call.
  void clear() noexcept {
    for (auto& list : lists_) delete[] list.exchange(nullptr, std::memory_order_relaxed);
  }
  // 0: not known.
  [[nodiscard]] std::uint64_t find(std::uint64_t number) const noexcept {
    const unsigned k = list_of(number);
    // acquire: pairs with the release in put(): the list is filled with zero.
    const auto* list = lists_[k].load(std::memory_order_acquire);
    // acquire: pairs with the release in put(): the segment is filled with zero, also for a thread that writes there
    // first.
    return list == nullptr ? 0 : list[number - first_of(k)].load(std::memory_order_acquire);
  }
  void put(std::uint64_t number, std::uint64_t place) noexcept {
    const unsigned k = list_of(number);
    auto* list = lists_[k].load(std::memory_order_acquire);
    if (list == nullptr) {
      auto* made = new (std::nothrow) std::atomic<std::uint64_t>[k == 0 ? 1 : std::uint64_t{1} << (k - 1)] {};
      if (made == nullptr) return;
      if (lists_[k].compare_exchange_strong(list, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
        list = made;
      } else {
        delete[] made;
      }
    }
    list[number - first_of(k)].store(place, std::memory_order_release);
  }
  // Segments are numbered through lists that double: 0 | 1 | 2 3 | 4 5 6 7 | ...
  static unsigned list_of(std::uint64_t number) noexcept { return static_cast<unsigned>(std::bit_width(number)); }
  static std::uint64_t first_of(unsigned list) noexcept { return list == 0 ? 0 : std::uint64_t{1} << (list - 1); }

 private:
  std::atomic<std::atomic<std::uint64_t>*> lists_[layout::segment_lists] = {};
};

// What an operation that runs by itself has learnt and may tell when it has committed.
struct lessons {
  static constexpr unsigned segments_max = 4;
  struct {
    std::uint64_t number;
    std::uint64_t place;
  } segments[segments_max];
  unsigned count = 0;
  void add(std::uint64_t number, std::uint64_t place) noexcept {
    if (count < segments_max) segments[count++] = {number, place};
  }
};

// What is fixed when a store is made.
struct store_facts {
  kv_index index{};
  std::uint64_t seed = 0;
  bool with_sums = true;
};

// The volatile side of an open store.
class store {
 public:
  store(pool_bytes& bytes, std::uint64_t header, const store_facts& facts, std::string name)
      : pool{bytes},
        header_place{header},
        index{facts.index},
        seed{facts.seed},
        sums{facts.with_sums, facts.seed},
        name{std::move(name)} {}

  [[nodiscard]] layout::kv_header* header() const noexcept {
    return reinterpret_cast<layout::kv_header*>(pool.base + header_place);
  }
  [[nodiscard]] counters count() const noexcept { return counters{header()->stripes}; }

  pool_bytes& pool;
  const std::uint64_t header_place;
  const kv_index index;
  const std::uint64_t seed;
  const record_sums sums;
  const std::string name;
  std::atomic<bool> verify_reads{false};  // reads of one entry compare its sum: one of the open handles asked for it
  std::atomic<unsigned> handles{0};       // open; 0: calls are refused.  Raised under the registry's lock.

  // Hash: where a lookup begins, and how far the buckets of the present level are split.  Hints: every bucket says for
  // itself what it holds.
  segment_cache segments;
  std::atomic<std::uint64_t> hint{0};
};

// The refusal of a call with a handle that is open no more.
[[nodiscard]] inline errc was_closed(const store& s) noexcept {
  return fail(errc::invalid, "key-value store \"%s\" was closed", s.name.c_str());
}

// One operation on one store, in one attempt of a transaction.
struct operation : access {
  operation(nvm_stm* tx, keyed::store& s) noexcept
      : access{tx, s.pool}, of{s}, sums{s.sums}, header{s.header()}, count{s.count()} {}
  keyed::store& of;
  const record_sums& sums;
  layout::kv_header* header;
  counters count;
  lessons learnt;
};

// Position and bounds of what a cursor fetches next; keys are private memory.
struct fetch_from {
  key at{};              // key to begin at, or after
  bool has_key = false;  // false: from the first, or backward from the last
  bool inclusive = true;
  bool backward = false;
  std::uint64_t position =
      0;  // list: sequence of the last record, 0: from the newest; hash: place in the order of hashes
};

// Receives the entries of a fetch until it clears `more`; a few more may come after that.
class receiver {
 public:
  [[nodiscard]] virtual status add(const operation& a, const record& r, bool& more) = 0;
  // Called in place of a record that fails its check, when the message is set; an error ends the fetch.
  [[nodiscard]] virtual status skip(std::uint64_t) { return errc::corrupt; }

 protected:
  ~receiver() = default;  // a conflict leaves the frames of an operation without running destructors
};

// What a fetch has met: a record that was read, or that could not be.
[[nodiscard]] inline status hand_over(receiver& to, const operation& a, status read, const record& r, bool& more) {
  if (read) return to.add(a, r, more);
  return read.error() == errc::corrupt ? to.skip(r.place) : read;
}

enum class put_mode { any, known_absent };

}  // namespace nvm::keyed
