// Counters of the server. Each worker counts for itself, in words that only it writes; a report adds them up. A reset
// remembers the sums instead of clearing the words, so that no worker needs to know of it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "server/size_classes.hpp"

namespace nvm::server {

enum class count : std::uint8_t {
  get_cmds,
  get_misses,
  get_expired,
  get_flushed,
  touch_cmds,
  touch_misses,
  delete_misses,
  incr_misses,
  decr_misses,
  cas_misses,
  flush_cmds,
  meta_cmds,
  store_too_large,
  store_no_memory,
  total_items,
  bytes_read,
  bytes_written,
  reads,
  sends,
  rounds,
  waits,
  conn_yields,
  conn_no_memory,
  idle_kicks,
  reclaimed,
  expired_unfetched,
  evictions,
  evicted_unfetched,
  evicted_active,
  auth_cmds,
  auth_errors,
  how_many,
};

// Counted for each size class.
enum class class_count : std::uint8_t {
  get_hits,
  set_cmds,
  touch_hits,
  delete_hits,
  incr_hits,
  decr_hits,
  cas_hits,
  cas_badval,
  evicted,
  evicted_nonzero,
  reclaimed,
  expired_unfetched,
  evicted_unfetched,
  outofmemory,
  how_many,
};

inline constexpr std::size_t counts = static_cast<std::size_t>(count::how_many);
inline constexpr std::size_t class_counts = static_cast<std::size_t>(class_count::how_many);

template <class Word>
struct counters_of {
  std::array<Word, counts> plain{};
  std::array<std::array<Word, class_counts>, size_classes_max> by_class{};
};

// Sums of all workers.
struct count_sums : counters_of<std::uint64_t> {
  [[nodiscard]] std::uint64_t operator[](count c) const noexcept { return plain[static_cast<std::size_t>(c)]; }
  [[nodiscard]] std::uint64_t of(unsigned size_class, class_count c) const noexcept {
    return by_class[size_class][static_cast<std::size_t>(c)];
  }
  // Over all size classes.
  [[nodiscard]] std::uint64_t operator[](class_count c) const noexcept;
};

// One worker's.
class counters {
 public:
  void add(count c, std::uint64_t n = 1) noexcept { add(words_.plain[static_cast<std::size_t>(c)], n); }
  void add(unsigned size_class, class_count c) noexcept {
    add(words_.by_class[size_class][static_cast<std::size_t>(c)], 1);
  }
  void add_to(count_sums& sums) const noexcept;

 private:
  using word = std::atomic<std::uint64_t>;
  // relaxed: numbers for people; only one thread writes each, so that no locked instruction is needed.
  static void add(word& w, std::uint64_t n) noexcept {
    w.store(w.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  counters_of<word> words_;
};

class statistics {
 public:
  // The counters live as long as the statistics.
  counters& add_worker();
  [[nodiscard]] count_sums sums() const;
  void reset();

 private:
  [[nodiscard]] count_sums raw() const;

  mutable std::mutex mutex_;  // of both below
  std::vector<std::unique_ptr<counters>> workers_;
  count_sums forgotten_;
};

}  // namespace nvm::server
