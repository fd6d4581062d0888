// The paper's mapping (LSNVMM, sections 3.2 and 4.3): home space in partitions, a skip list of pieces in each, a cache
// of nodes in each thread.  Each of its steps can be left out (skip_list_settings.hpp).
//
// Cost.  A look-up that hits the thread's cache: an entry, a node.  Else: two steps of the partition's table and about
// as many nodes as the logarithm of the partition's pieces.  DRAM: 18.1 bytes a piece on average, and 28 a partition of
// 4 KiB that has any (docs/design/015-mapping.md).
//
// Threads: as mapping.hpp says.  Lock order: one list's lock at a time; under it no other, and no memory is taken.
// reserve() takes the locks of node_store.hpp.  With lock_free_readers look-ups take no lock (skip_list.hpp); without,
// those that miss the cache hold the list's lock for reading while they call back.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/inlining.hpp"
#include "logheap/mapping/limbo.hpp"
#include "logheap/mapping/node_cache.hpp"
#include "logheap/mapping/node_stock.hpp"
#include "logheap/mapping/partition_table.hpp"
#include "logheap/mapping/partitioned_home.hpp"
#include "logheap/mapping/reserve_rule.hpp"
#include "logheap/mapping/skip_list.hpp"
#include "logheap/mapping/skip_list_settings.hpp"

namespace nvm::logheap {

class skip_list_mapping : partitioned_home {
 public:
  skip_list_mapping(epochs& readers, const mapping_settings& home, const skip_list_settings& s = {}) noexcept
      : partitioned_home{home, s.two_layers ? home.partition_bytes : low_bits + 1, low_bits + 1},
        epochs_{readers},
        settings_{s},
        levels_{levels_for(shift_)},
        store_{home.home_bytes, s.node_bytes_max, head_units_of(levels_)},
        table_{store_, ceil_div(home.home_bytes, std::uint64_t{1} << shift_)} {}
  skip_list_mapping(const skip_list_mapping&) = delete;
  skip_list_mapping& operator=(const skip_list_mapping&) = delete;

  [[nodiscard]] status exists() noexcept {
    if (store_.exists() && table_.exists()) return {};
    return fail(errc::no_memory, "mapping: no address space for nodes");
  }
  [[nodiscard]] const skip_list_settings& settings() const noexcept { return settings_; }

  class client {
   public:
    // Without memory for a cache there is none.
    client(skip_list_mapping& m, unsigned thread) noexcept
        : stock_{m.store_, thread + 1, m.levels_},
          limbo_{node_chain{m.store_}, m.epochs_, m.orphans_},
          cache_{m.settings_.node_cache ? m.settings_.cache_entries : 0},
          mapping_{m} {
      m.cache_bytes_.fetch_add(cache_.bytes(), std::memory_order_relaxed);
    }
    ~client() { mapping_.cache_bytes_.fetch_sub(cache_.bytes(), std::memory_order_relaxed); }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    // Counters of the cache.
    [[nodiscard]] std::uint64_t hits() const noexcept { return hits_; }
    [[nodiscard]] std::uint64_t misses() const noexcept { return misses_; }

   private:
    friend class skip_list_mapping;
    friend class skip_list;
    [[nodiscard]] node_number take(unsigned& height) noexcept { return stock_.take(height); }
    void retire(node_number n) noexcept { limbo_.add(n); }

    node_stock stock_;
    limbo<node_chain> limbo_;
    node_cache cache_;
    std::uint64_t hits_ = 0, misses_ = 0;
    skip_list_mapping& mapping_;
  };

  [[nodiscard]] status reserve(client& c, std::span<const home_range> ranges) noexcept {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      std::uint64_t done = 0;
      if (promise(c, ranges[i], done)) continue;
      take_back(c, {ranges[i].home, done});
      while (i-- > 0) take_back(c, ranges[i]);
      return fail(errc::no_memory, "mapping: no memory for nodes, %llu bytes are in use",
                  static_cast<unsigned long long>(bytes_used()));
    }
    return {};
  }
  [[nodiscard]] status reserve_whole(client& c, std::span<const home_range> assigned,
                                     std::span<const home_range> erased) noexcept {
    if (status s = reserve(c, assigned); !s) return s;
    status s = reserve(c, erased);
    for (std::size_t i = 0; !s && i < assigned.size(); ++i) take_back(c, assigned[i]);
    return s;
  }
  void release(client& c) noexcept { c.stock_.release(); }

  template <class Replaced>
  void assign(client& c, std::span<const piece> pieces, Replaced&& replaced) noexcept {
    for (std::size_t i = 0; i < pieces.size();) {
      piece whole = pieces[i++];
      while (settings_.group_update && i < pieces.size() && pieces[i].home == whole.home + whole.size &&
             pieces[i].log == whole.log + whole.size) {
        whole.size += pieces[i++].size;
      }
      each_part(whole.home, whole.size, node_piece_max, [&](const part& p) {
        skip_list list = list_of_change(c, p);
        list.lock().lock();
        list.assign(c, p.begin, p.end, whole.log + p.before, settings_.group_update, told(p, replaced));
        list.lock().unlock();
        c.stock_.spend(p.end - p.begin);
      });
    }
    c.limbo_.sweep();
  }
  template <class Replaced>
  void erase(client& c, const home_range& r, Replaced&& replaced) noexcept {
    each_part(r.home, r.size, part_max, [&](const part& p) {
      if (table_.find(p.partition) == 0) return;
      skip_list list = list_of_change(c, p);
      list.lock().lock();
      list.erase(c, p.begin, p.end, told(p, replaced));
      list.lock().unlock();
      c.stock_.spend(p.end - p.begin);
    });
    c.limbo_.sweep();
  }

  template <class Visit>
  [[NVM_INLINE]] void for_each_piece(client& c, home_t home, std::uint64_t size, Visit&& visit) noexcept {
    if (!clip(home, size)) return;
    std::uint64_t x = home - home_first_;
    const std::uint64_t end = x + size;
    while (x < end) {
      if (c.cache_) {
        const node_cache::hit h = c.cache_.find(x, [&](node_number n) -> skip_node& { return store_.node(n); });
        if (h.where != 0) {
          ++c.hits_;
          const std::uint64_t skipped = static_cast<std::uint32_t>(x) - h.home;
          const std::uint64_t n = std::min(size_of(h.where) - skipped, end - x);
          visit(piece{home_first_ + x, n, log_of(h.where) + skipped});
          x += n;
          continue;
        }
        ++c.misses_;
      }
      x = find_in_list(c, x, end, visit);
    }
  }

  [[nodiscard]] std::uint64_t compare_and_move(client& c, home_t home, std::uint64_t size, log_t from,
                                               log_t to) noexcept {
    std::uint64_t moved = 0;
    each_part(home, size, part_max, [&](const part& p) {
      if (table_.find(p.partition) == 0) return;
      skip_list list = list_of_change(c, p);
      list.lock().lock();
      moved += list.move(c, p.begin, p.end, from + p.before, to + p.before);
      list.lock().unlock();
      c.stock_.spend(p.end - p.begin);
    });
    c.limbo_.sweep();
    return moved;
  }

  [[nodiscard]] std::uint64_t move_whole_pieces(client&, home_t home, std::uint64_t size, log_t from,
                                                log_t to) noexcept {
    std::uint64_t moved = 0;
    each_part(home, size, part_max, [&](const part& p) {
      const node_number head = table_.find(p.partition);
      if (head == 0) return;
      skip_list list{store_, head, levels_};
      list.lock().lock();
      moved += list.move_whole_nodes(p.begin, p.end, from + p.before, to + p.before);
      list.lock().unlock();
    });
    return moved;
  }
  void fetch(home_t home) const noexcept {
    const std::uint64_t x = home - home_first_;
    const node_number head = x < home_bytes_ ? table_.find(x >> shift_) : 0;
    if (head != 0) __builtin_prefetch(store_.at(head));
  }

  [[nodiscard]] status fill(client& c, std::span<const piece> pieces) noexcept {
    return fill_by_changes(*this, c, pieces);
  }

  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    table_.each([&](std::uint64_t partition, node_number head) {
      const std::uint64_t first = partition << shift_;
      const home_t high = home_first_ + (first & ~low_bits);
      const std::uint64_t begin = first & low_bits;
      skip_list{store_, head, levels_}.each(
          begin, begin + (std::uint64_t{1} << shift_),
          [&](std::uint64_t x, std::uint64_t n, log_t log, node_number) { visit(piece{high + x, n, log}); });
    });
  }
  // Slabs, and the clients' caches.
  [[nodiscard]] std::uint64_t bytes_used() noexcept {
    return store_.bytes_used() + cache_bytes_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t low_bits = (std::uint64_t{1} << node_store::stretch_bits) - 1;
  static constexpr std::uint64_t part_max = ~std::uint64_t{0};

  // The part of a range that lies in one partition; addresses as in the nodes.
  struct part {
    std::uint64_t partition;
    std::uint64_t begin, end;
    std::uint64_t before;  // bytes of the range
    home_t high;           // plus an address as in the nodes: a home address
  };

  // A quarter of the nodes goes up a level; pieces of 8 bytes.
  [[nodiscard]] static unsigned levels_for(unsigned shift) noexcept {
    return std::clamp((shift - 3 + 1) / 2, 1U, skip_height_max);
  }
  template <class Visit>
  void each_part(home_t home, std::uint64_t size, std::uint64_t most, Visit&& visit) const noexcept {
    each_cut(home, size, most, [&](std::uint64_t partition, std::uint64_t x, std::uint64_t n, std::uint64_t before) {
      const std::uint64_t begin = x & low_bits;
      visit(part{partition, begin, begin + n, before, home_first_ + (x & ~low_bits)});
    });
  }
  template <class Replaced>
  [[nodiscard]] static auto told(const part& p, Replaced& replaced) noexcept {
    return
        [high = p.high, &replaced](std::uint64_t x, std::uint64_t n, log_t log) { replaced(piece{high + x, n, log}); };
  }
  [[nodiscard]] std::uint64_t stretch_of(std::uint64_t partition) const noexcept {
    return partition << shift_ >> node_store::stretch_bits;
  }
  [[nodiscard]] skip_list list_of_change(client& c, const part& p) noexcept {
    const node_number head = table_.find(p.partition);
    NVM_ASSERT(head != 0);  // reserve()
    c.stock_.use(stretch_of(p.partition));
    return {store_, head, levels_};
  }
  // false: no memory; `done` bytes of the range are promised.
  [[nodiscard]] bool promise(client& c, const home_range& r, std::uint64_t& done) noexcept {
    bool good = true;
    each_part(r.home, r.size, part_max, [&](const part& p) {
      const std::uint64_t stretch = stretch_of(p.partition);
      good = good && table_.make(p.partition, stretch) != 0 &&
             c.stock_.promise(stretch, 2 * changes_of(p.end - p.begin), p.end - p.begin);
      if (good) done += p.end - p.begin;
    });
    return good;
  }
  void take_back(client& c, const home_range& r) noexcept {
    each_part(r.home, r.size, part_max, [&](const part& p) {
      c.stock_.take_back(stretch_of(p.partition), 2 * changes_of(p.end - p.begin), p.end - p.begin);
    });
  }
  // In the partition of x.  Returns where to go on.
  template <class Visit>
  [[gnu::noinline]] std::uint64_t find_in_list(client& c, std::uint64_t x, std::uint64_t end, Visit& visit) noexcept {
    const std::uint64_t partition = x >> shift_;
    const std::uint64_t stop = std::min(end, (partition + 1) << shift_);
    const node_number head = table_.find(partition);
    if (head == 0) return stop;
    const std::uint64_t high = x & ~low_bits;
    skip_list list{store_, head, levels_};
    const auto found = [&](std::uint64_t low, std::uint64_t n, log_t log, node_number node) {
      if (c.cache_) c.cache_.add(high + low, node);
      visit(piece{home_first_ + high + low, n, log});
    };
    if (!settings_.lock_free_readers) list.lock().lock_shared();
    list.each(x - high, stop - high, found);
    if (!settings_.lock_free_readers) list.lock().unlock_shared();
    return stop;
  }

  epochs& epochs_;
  const skip_list_settings settings_;
  const unsigned levels_;
  node_store store_;
  partition_table table_;
  orphans<node_number> orphans_;
  std::atomic<std::uint64_t> cache_bytes_{0};
};
static_assert(mapping<skip_list_mapping>);

}  // namespace nvm::logheap
