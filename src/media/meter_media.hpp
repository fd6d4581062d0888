// Meter: counts what passes.  Lines and bytes written back, flush calls, fences by edge, publishes,
// and on request how often each 256-byte block was written (LSNVMM, Fig. 8; Lewat, Fig. 15).
//
// Counters are striped over threads and summed on read; all accesses are relaxed, since a count orders
// nothing.  A reading beside running threads is a moment's mixture, exact once they have stopped.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "media/concept.hpp"
#include "media/ordered_media.hpp"
#include "platform/platform.hpp"

namespace nvm {

struct edge_count {
  const char* name;
  std::uint64_t fences;
};

struct meter_totals {
  std::uint64_t flushes = 0;  // calls
  std::uint64_t lines = 0;    // written back
  std::uint64_t bytes = 0;    // asked to be written back: at least all that really change
  std::uint64_t fences = 0;
  std::uint64_t rmw_fences = 0;  // replaced by a locked instruction that follows anyway
  std::uint64_t publishes = 0;
  std::uint64_t durable_waits = 0;  // calls of durable() with an LSN
};
struct meter_reading : meter_totals {
  std::vector<edge_count> edges;  // fences and publishes by name, sorted
};

class meter {
 public:
  meter() noexcept = default;
  meter(const meter&) = delete;
  meter& operator=(const meter&) = delete;

  // Starts the count per block of [base, base + bytes); false if memory for it is short.
  [[nodiscard]] bool count_blocks(const void* base, std::size_t bytes) noexcept;

  void flushed(const void* p, std::size_t bytes) noexcept {
    stripe& s = mine();
    add(s.flushes, 1);
    add(s.lines, lines_touched(p, bytes));
    add(s.bytes, bytes);
    if (blocks_ != nullptr && bytes != 0) blocks_flushed(p, bytes);
  }
  void fenced(edge e) noexcept {
    add(mine().fences, 1);
    at_edge(e);
  }
  void fenced_by_rmw(edge e) noexcept {
    add(mine().rmw_fences, 1);
    at_edge(e);
  }
  void published(edge e) noexcept {
    add(mine().publishes, 1);
    at_edge(e);
  }
  void waited() noexcept { add(mine().durable_waits, 1); }

  [[nodiscard]] meter_totals totals() const noexcept;
  // May throw std::bad_alloc, as read_blocks() may.
  [[nodiscard]] meter_reading read() const;
  // Times that block i of the counted range was written, one a flush call that touches it.
  [[nodiscard]] std::vector<std::uint32_t> read_blocks() const;
  void reset() noexcept;

  static constexpr std::size_t block_bytes = 256;
  // Distinct edges that can be told apart; fences beyond are counted in the total only.
  static constexpr std::size_t edges_max = 256;

 private:
  using counter = std::atomic<std::uint64_t>;
  struct alignas(128) stripe {
    counter flushes{0}, lines{0}, bytes{0}, fences{0}, rmw_fences{0}, publishes{0}, durable_waits{0};
  };
  struct edge_slot {
    std::atomic<const char*> name{nullptr};
    counter count{0};
  };
  static void add(counter& c, std::uint64_t n) noexcept { c.fetch_add(n, std::memory_order_relaxed); }
  stripe& mine() noexcept;
  void at_edge(edge e) noexcept;
  void blocks_flushed(const void* p, std::size_t bytes) noexcept;

  std::array<stripe, 16> stripes_;
  std::array<edge_slot, edges_max> edges_;  // open addressing by the address of the name
  std::uintptr_t blocks_base_ = 0;
  std::size_t block_count_ = 0;
  std::unique_ptr<std::atomic<std::uint32_t>[]> blocks_;
};

template <media M>
class meter_media {
 public:
  static constexpr bool atomic_batches = M::atomic_batches;
  using batch = typename M::batch;

  meter_media(M& inner, meter& counts) noexcept : inner_{inner}, counts_{counts} {}

  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept {
    counts_.flushed(p, bytes);
    inner_.flush(p, bytes, s);
  }
  void copy(void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
    counts_.flushed(to, bytes);
    copy_out(inner_, to, from, bytes, s);
  }
  void fence(edge e) noexcept {
    counts_.fenced(e);
    inner_.fence(e);
  }
  void fence_by_rmw(edge e) noexcept {
    counts_.fenced_by_rmw(e);
    nvm::fence_by_rmw(inner_, e);
  }
  [[nodiscard]] bool stores_survive() const noexcept { return nvm::stores_survive(inner_); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return inner_.last_lsn(); }
  [[nodiscard]] bool is_durable(lsn_t lsn) noexcept { return nvm::is_durable(inner_, lsn); }
  status durable(lsn_t lsn) noexcept {
    if (lsn != 0) counts_.waited();
    return inner_.durable(lsn);
  }
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept
    requires atomic_batches
  {
    counts_.published(e);
    return inner_.publish(b, std::forward<F>(stores), e);
  }

  [[nodiscard]] status await_room(typename M::batch& b) noexcept
    requires atomic_batches
  {
    return nvm::await_room(inner_, b);
  }
  result<straight_outcome> write_straight(const void* p, std::size_t bytes, lsn_t free_since,
                                          straight_patience patience) noexcept
    requires atomic_batches
  {
    result<straight_outcome> done = nvm::write_straight(inner_, p, bytes, free_since, patience);
    if (done && done->written) counts_.flushed(p, bytes);
    return done;
  }
  [[nodiscard]] std::uint64_t straight_from() const noexcept { return nvm::straight_from(inner_); }

  status quiesce() noexcept
    requires atomic_batches
  {
    return bring_home(inner_);
  }

  void poison(const char* reason) noexcept
    requires requires(M& m) { m.poison(reason); }
  {
    inner_.poison(reason);
  }

  [[nodiscard]] M& inner() noexcept { return inner_; }
  [[nodiscard]] meter& counts() noexcept { return counts_; }

 private:
  M& inner_;
  meter& counts_;
};
static_assert(media<meter_media<ordered_media>>);

}  // namespace nvm
