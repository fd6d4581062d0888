// A mapping with one leaf for each partition, to measure the paper's skip lists against.
//
// A look-up reads the partition's slot, compares the first bytes of all pieces with its own at once (leaf.hpp) and
// loads one log address: no chain of nodes, no cache beside.  A change that leaves the pieces' bounds as they are
// stores log addresses in place, and 0 where it erases; any other makes a new leaf and puts it in the slot, so that
// each partition changes as one.
//
// Whether a commit's change will be one in place is known when it is reserved: bytes of a range that no other thread
// changes keep their bounds, or get more (a cleaner cuts), as long as no thread tidies the leaf.  So the reservation
// holds the leaf's bounds instead of a spare.
//
// Threads: as mapping.hpp says.  A slot's lowest bit is the lock of its partition's writers, one at a time, no other
// lock under it.  Look-ups take no lock and are never sent back: wait-free.  Linearization: the load of the slot, and
// of the log address.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/inlining.hpp"
#include "logheap/mapping/leaf.hpp"
#include "logheap/mapping/leaf_table.hpp"
#include "logheap/mapping/limbo.hpp"
#include "logheap/mapping/partitioned_home.hpp"
#include "logheap/mapping/promises.hpp"
#include "logheap/mapping/reserve_rule.hpp"
#include "platform/platform.hpp"

namespace nvm::logheap {

struct leaf_settings {
  bool by_vectors = true;  // false: by halves only
};

template <class Memory>
class basic_leaf_mapping : partitioned_home {
 public:
  basic_leaf_mapping(epochs& readers, const mapping_settings& home, const leaf_settings& s = {}) noexcept
      : partitioned_home{home, home.partition_bytes, 65536},
        epochs_{readers},
        settings_{s},
        table_{ceil_div(home.home_bytes, home.partition_bytes)} {}
  ~basic_leaf_mapping() { chain{*this, nullptr}.give(orphans_.list); }
  basic_leaf_mapping(const basic_leaf_mapping&) = delete;
  basic_leaf_mapping& operator=(const basic_leaf_mapping&) = delete;

  [[nodiscard]] status exists() noexcept {
    if (table_.exists()) return {};
    return fail(errc::no_memory, "mapping: no address space for partitions");
  }

  class client;

  [[nodiscard]] status reserve(client& c, std::span<const home_range> ranges) noexcept {
    bool good = true;
    const std::size_t mark = c.promises_.mark();
    for (const home_range& r : ranges) {
      each_part(r.home, r.size, [&](const part& p) {
        for (std::uint64_t n = changes_of(p.end - p.begin); good && n > 0; --n) good = promise(c, p.partition);
        if (good) c.promises_.add_bytes(p.end - p.begin);
      });
    }
    return good ? status{} : out_of_memory(c, mark);
  }
  [[nodiscard]] status reserve_whole(client& c, std::span<const home_range> assigned,
                                     std::span<const home_range> erased) noexcept {
    bool good = true;
    const std::size_t mark = c.promises_.mark();
    const auto all = [&](std::span<const home_range> ranges, bool erasing) {
      for (const home_range& r : ranges) {
        each_part(r.home, r.size, [&](const part& p) { good = good && promise_whole(c, p, erasing); });
      }
    };
    all(assigned, false);
    all(erased, true);
    return good ? status{} : out_of_memory(c, mark);
  }
  void release(client& c) noexcept { take_back_since(c, 0); }

  template <class Replaced>
  void assign(client& c, std::span<const piece> pieces, Replaced&& replaced) noexcept {
    for (const piece& whole : pieces) {
      each_part(whole.home, whole.size, [&](const part& p) {
        change(c, p, whole.log + p.before, replaced);
        spend(c, p);
      });
    }
    c.limbo_.sweep();
  }
  template <class Replaced>
  void erase(client& c, const home_range& r, Replaced&& replaced) noexcept {
    each_part(r.home, r.size, [&](const part& p) {
      change(c, p, nowhere, replaced);
      spend(c, p);
    });
    c.limbo_.sweep();
  }

  template <class Visit>
  [[NVM_INLINE]] void for_each_piece(client&, home_t home, std::uint64_t size, Visit&& visit) noexcept {
    if (!clip(home, size)) return;
    each_part(home, size, [&](const part& p) __attribute__((always_inline)) {
      slot* const s = table_.find(p.partition);
      // acquire: pairs with the release in change(): the leaf is made.
      leaf* const l = s == nullptr ? nullptr : table::leaf_of(s->load(std::memory_order_acquire));
      if (l == nullptr || l->count == 0) return;
      std::uint32_t i = first_of(l, p.begin);
      for (; i < l->count && l->firsts()[i] < p.end; ++i) {
        const std::uint64_t first = l->firsts()[i];
        const std::uint64_t from = std::max<std::uint64_t>(first, p.begin);
        const std::uint64_t stop = std::min<std::uint64_t>(l->lasts()[i] + std::uint64_t{1}, p.end);
        // acquire: pairs with assign().
        const log_t log = l->logs()[i].load(std::memory_order_acquire);
        if (log != nowhere) visit(piece{p.home + from, stop - from, log + (from - first)});
      }
    });
  }

  [[nodiscard]] std::uint64_t compare_and_move(client& c, home_t home, std::uint64_t size, log_t from,
                                               log_t to) noexcept {
    std::uint64_t moved = 0;
    each_part(home, size, [&](const part& p) {
      moved += move(c, p, from + p.before, to + p.before);
      spend(c, p);
    });
    c.limbo_.sweep();
    return moved;
  }

  [[nodiscard]] std::uint64_t move_whole_pieces(client&, home_t home, std::uint64_t size, log_t from,
                                                log_t to) noexcept {
    std::uint64_t moved = 0;
    each_part(home, size, [&](const part& p) {
      slot* const s = table_.find(p.partition);
      if (s == nullptr) return;
      leaf* const l = table::lock(*s);
      if (l != nullptr) moved += move_in_place(*l, p, from + p.before, to + p.before);
      table::unlock(*s, l);
    });
    return moved;
  }
  // Reads the slot, which lies beside those of its neighbours.
  void fetch(home_t home) const noexcept {
    const std::uint64_t x = home - home_first_;
    if (x >= home_bytes_) return;
    const slot* const s = table_.find(x >> shift_);
    if (s == nullptr) return;
    const auto* const l = reinterpret_cast<const std::byte*>(table::leaf_of(s->load(std::memory_order_relaxed)));
    // As many lines as the leaf of small pieces has.
    for (std::size_t line = 0; l != nullptr && line < fetched_lines; ++line) __builtin_prefetch(l + line * line_bytes);
  }

  // Each partition's leaf is made once, with no room to spare.
  [[nodiscard]] status fill(client& c, std::span<const piece> pieces) noexcept {
    home_t done = 0;
    while (!pieces.empty()) {
      const home_t begin = std::max(done, pieces.front().home);
      const std::uint64_t partition = (begin - home_first_) >> shift_;
      const home_t end = home_first_ + ((partition + 1) << shift_);
      if (status s = fill_partition(c, partition, begin, end, pieces); !s) return s;
      done = end;
      while (!pieces.empty() && pieces.front().home + pieces.front().size <= end) pieces = pieces.subspan(1);
    }
    return {};
  }

  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    table_.each([&](std::uint64_t partition, slot& s) {
      leaf* const l = table::leaf_of(s.load(std::memory_order_acquire));
      if (l == nullptr) return;
      const home_t base = home_first_ + (partition << shift_);
      for (std::uint32_t i = 0; i < l->count; ++i) {
        const log_t log = l->logs()[i].load(std::memory_order_acquire);
        if (log == nowhere) continue;
        visit(piece{base + l->firsts()[i], l->lasts()[i] + std::uint64_t{1} - l->firsts()[i], log});
      }
    });
  }
  [[nodiscard]] std::uint64_t bytes_used() const noexcept { return table_.bytes_used(); }

 private:
  using table = leaf_table<Memory>;
  using slot = typename table::slot;
  static constexpr log_t nowhere = 0;
  static constexpr std::size_t fetched_lines = 6;
  // Most pieces that a change in place leaves separate: if there are more, a new leaf has them as one.
  static constexpr std::uint32_t assigned_in_place_max = 2;
  static constexpr std::uint32_t erased_in_place_max = 4;

  // The part of a range that lies in one partition, by the byte from the partition's start.
  struct part {
    std::uint64_t partition;
    std::uint64_t begin, end;
    std::uint64_t before;  // bytes of the range
    home_t home;           // of the partition
  };
  // Leaves in a limbo.
  struct chain {
    using item = leaf*;
    [[nodiscard]] leaf* next(leaf* l) const noexcept { return reinterpret_cast<leaf*>(l->link); }
    void set_next(leaf* l, leaf* to) const noexcept { l->link = reinterpret_cast<std::uintptr_t>(to); }
    void give(leaf* list) const noexcept {
      while (list != nullptr) of.table_.free(std::exchange(list, next(list)), kept);
    }
    basic_leaf_mapping& of;
    leaf_cache* kept;
  };

  template <class Visit>
  [[NVM_INLINE]] void each_part(home_t home, std::uint64_t size, Visit&& visit) const noexcept {
    each_cut(home, size, size, [&](std::uint64_t partition, std::uint64_t x, std::uint64_t n, std::uint64_t before) {
      const std::uint64_t begin = x - (partition << shift_);
      visit(part{partition, begin, begin + n, before, home_first_ + (partition << shift_)});
    });
  }

  // Index of the first piece that ends after x.
  [[nodiscard, NVM_INLINE]] std::uint32_t first_of(leaf* l, std::uint64_t x) const noexcept {
    const auto at = static_cast<std::uint16_t>(x);
    const std::uint32_t n =
        settings_.by_vectors ? count_up_to(l->firsts(), l->count, at) : count_up_to_plainly(l->firsts(), l->count, at);
    return n != 0 && l->lasts()[n - 1] >= x ? n - 1 : n;
  }
  // Pieces [first, end) overlap a part; no bound of theirs is missing for a change of it in place.
  struct overlap {
    std::uint32_t first, end;
    bool in_place;
  };
  [[nodiscard]] overlap overlap_with(leaf* l, const part& p, bool erasing) const noexcept {
    overlap o{first_of(l, p.begin), 0, true};
    std::uint64_t covered = 0;
    for (o.end = o.first; o.end < l->count && l->firsts()[o.end] < p.end; ++o.end) {
      const std::uint64_t first = l->firsts()[o.end];
      const std::uint64_t last = l->lasts()[o.end];
      o.in_place = o.in_place && first >= p.begin && last < p.end;
      covered += last + 1 - first;
    }
    o.in_place = o.in_place && (erasing || covered == p.end - p.begin);
    return o;
  }
  [[nodiscard]] static bool worth_it(const overlap& o, bool erasing) noexcept {
    return o.end - o.first <= (erasing ? erased_in_place_max : assigned_in_place_max);
  }

  [[nodiscard]] bool promise(client& c, std::uint64_t partition) noexcept {
    slot* const s = table_.make(partition);
    if (s == nullptr || !c.promises_.make_room() || !table_.add_spare(*s, c.kept_)) return false;
    c.promises_.add(partition);
    return true;
  }
  // The same for a change of the whole part at once.
  [[nodiscard]] bool promise_whole(client& c, const part& p, bool erasing) noexcept {
    slot* const s = table_.make(p.partition);
    if (s == nullptr || !c.promises_.make_room()) return false;
    leaf* const l = table::lock(*s);
    if (l == nullptr && erasing) {
      table::unlock(*s, l);
      return true;
    }
    const overlap o = l != nullptr ? overlap_with(l, p, erasing) : overlap{};
    if (o.in_place && worth_it(o, erasing)) {
      ++l->holders;
      table::unlock(*s, l);
      c.promises_.add_hold(p.partition);
    } else {
      if (!table_.add_spare(*s, l, c.kept_)) return false;
      c.promises_.add(p.partition);
    }
    c.promises_.add_bytes(p.end - p.begin);
    return true;
  }
  // A change is made: if nothing else is reserved there, its spares are freed.
  void spend(client& c, const part& p) noexcept {
    take_back(c, p.partition, c.promises_.spend(p.partition, p.end - p.begin));
  }
  void take_back(client& c, std::uint64_t partition, std::uint64_t spares) noexcept {
    if (spares != 0) table_.drop_spares(*table_.find(partition), spares, c.kept_);
  }
  void take_back_since(client& c, std::size_t mark) noexcept {
    c.promises_.each_since(mark, [&](std::uint64_t partition, std::uint64_t left, std::uint64_t holds) {
      take_back(c, partition, left);
      if (holds != 0) table_.drop_holders(*table_.find(partition), holds);
    });
    c.promises_.forget_since(mark);
  }
  [[nodiscard]] status out_of_memory(client& c, std::size_t mark) noexcept {
    take_back_since(c, mark);
    return fail(errc::no_memory, "mapping: no memory for leaves, %llu bytes are in use",
                static_cast<unsigned long long>(bytes_used()));
  }
  [[nodiscard]] leaf& fresh_leaf(client& c, std::uint64_t partition, leaf& old) noexcept {
    c.promises_.use(partition);
    return *table::take_spare(old, old.count + std::uint64_t{2});
  }

  // Fills one partition with the pieces in [begin, end).
  [[nodiscard]] status fill_partition(client& c, std::uint64_t partition, home_t begin, home_t end,
                                      std::span<const piece> pieces) noexcept {
    slot* const s = table_.make(partition);
    if (s == nullptr) return out_of_memory(c, c.promises_.mark());
    const auto each_inside = [&](auto&& f) {
      for (const piece& p : pieces) {
        if (p.home >= end) break;
        const home_t from = std::max(p.home, begin);
        f(piece{from, std::min(p.home + p.size, end) - from, p.log + (from - p.home)});
      }
    };
    if (s->load(std::memory_order_relaxed) != 0) {
      status done;
      each_inside([&](const piece& p) {
        if (done) done = fill_by_changes(*this, c, std::span{&p, 1});
      });
      return done;
    }
    std::uint64_t count = 0;
    home_t next = 0;
    log_t next_log = 0;
    each_inside([&](const piece& p) {
      count += count != 0 && p.home == next && p.log == next_log ? 0 : 1;
      next = p.home + p.size;
      next_log = p.log + p.size;
    });
    leaf* const l = table_.allocate(leaf::capacity_for(count), c.kept_);
    if (l == nullptr) return out_of_memory(c, c.promises_.mark());
    const home_t home = home_first_ + (partition << shift_);
    each_inside([&](const piece& p) { l->append(p.home - home, p.home + p.size - home, p.log); });
    table::unlock(*s, l);
    return {};
  }

  // ---- changes ----

  // Maps the part's bytes to `to`.
  template <class Replaced>
  void change(client& c, const part& p, log_t to, Replaced&& replaced) noexcept {
    slot* const s = table_.find(p.partition);
    if (s == nullptr) return;
    leaf* const old = table::lock(*s);
    if (old == nullptr) {
      table::unlock(*s, old);
      return;
    }
    const overlap o = overlap_with(old, p, to == nowhere);
    if (o.in_place) {
      // The hold was for this change, or for another one, in whose place a spare is left then.
      const bool was_held = c.promises_.use_hold(p.partition);
      old->holders -= was_held ? 1 : 0;
      if (was_held || worth_it(o, to == nowhere)) {
        change_in_place(*old, o, p, to, replaced);
        table::unlock(*s, old);
        return;
      }
    }
    leaf& fresh = fresh_leaf(c, p.partition, *old);
    const bool may_tidy = old->holders == 0;
    copy(fresh, *old, 0, o.first, may_tidy);
    std::uint64_t rest_end = 0;
    log_t rest_log = nowhere;
    for (std::uint32_t i = o.first; i < o.end; ++i) {
      const std::uint64_t first = old->firsts()[i];
      const std::uint64_t end = old->lasts()[i] + std::uint64_t{1};
      const log_t log = old->logs()[i].load(std::memory_order_relaxed);
      if (log == nowhere) continue;  // a hole, whose bounds no other change needs
      if (first < p.begin) fresh.push(first, std::min(end, p.begin), log);
      const std::uint64_t from = std::max(first, p.begin);
      const std::uint64_t stop = std::min(end, p.end);
      replaced(piece{p.home + from, stop - from, log + (from - first)});
      if (end > p.end) {
        rest_end = end;
        rest_log = log + (p.end - first);
      }
    }
    if (to != nowhere && may_tidy) fresh.append(p.begin, p.end, to);
    if (to != nowhere && !may_tidy) fresh.push(p.begin, p.end, to);
    if (rest_end != 0) fresh.push(p.end, rest_end, rest_log);
    copy(fresh, *old, o.end, old->count, may_tidy);
    put_in(c, *s, *old, fresh);
  }
  template <class Replaced>
  static void change_in_place(leaf& l, const overlap& o, const part& p, log_t to, Replaced&& replaced) noexcept {
    for (std::uint32_t i = o.first; i < o.end; ++i) {
      const std::uint64_t first = l.firsts()[i];
      // relaxed: no other thread stores, the lock is held.
      const log_t was = l.logs()[i].load(std::memory_order_relaxed);
      // release: pairs with the look-up's acquire, for the contents there, too.
      l.logs()[i].store(to == nowhere ? nowhere : to + (first - p.begin), std::memory_order_release);
      l.holes += (to == nowhere ? 1U : 0U) - (was == nowhere ? 1U : 0U);
      if (was != nowhere) replaced(piece{p.home + first, l.lasts()[i] + std::uint64_t{1} - first, was});
    }
  }
  // Copies pieces; without holes, if it may tidy.
  static void copy(leaf& fresh, leaf& old, std::uint32_t from, std::uint32_t to, bool may_tidy) noexcept {
    if (old.holes == 0 || !may_tidy) {
      fresh.push_all(old, from, to);
      return;
    }
    for (std::uint32_t i = from; i < to; ++i) {
      const log_t log = old.logs()[i].load(std::memory_order_relaxed);
      if (log != nowhere) fresh.push(old.firsts()[i], old.lasts()[i] + std::uint64_t{1}, log);
    }
  }
  void put_in(client& c, slot& s, leaf& old, leaf& fresh) noexcept {
    fresh.link = std::exchange(old.link, 0);
    fresh.holders = old.holders;
    table::unlock(s, &fresh);
    c.limbo_.add(&old);
  }
  // A piece [first, end), of which [begin, stop) lies in a part and at the expected log address.
  struct match {
    std::uint32_t index;
    std::uint64_t first, end;
    log_t log;
    std::uint64_t begin, stop;
    [[nodiscard]] bool is_cut() const noexcept { return begin != first || stop != end; }
  };
  // Calls f(match) for bytes of the part that are mapped as `from` says.
  template <class F>
  void each_match(leaf& l, const part& p, log_t from, F&& f) const noexcept {
    for (std::uint32_t i = first_of(&l, p.begin); i < l.count && l.firsts()[i] < p.end; ++i) {
      const std::uint64_t first = l.firsts()[i];
      const std::uint64_t end = l.lasts()[i] + std::uint64_t{1};
      const std::uint64_t begin = std::max(first, p.begin);
      const log_t log = l.logs()[i].load(std::memory_order_relaxed);
      if (log != nowhere && log + (begin - first) == from + (begin - p.begin)) {
        f(match{i, first, end, log, begin, std::min(end, p.end)});
      }
    }
  }
  // Moves pieces that are not cut; returns their bytes.
  std::uint64_t move_in_place(leaf& l, const part& p, log_t from, log_t to) noexcept {
    std::uint64_t moved = 0;
    each_match(l, p, from, [&](const match& m) {
      if (m.is_cut()) return;
      // release: pairs with the look-up's acquire.
      l.logs()[m.index].store(to + (m.begin - p.begin), std::memory_order_release);
      moved += m.stop - m.begin;
    });
    return moved;
  }
  [[nodiscard]] std::uint64_t move(client& c, const part& p, log_t from, log_t to) noexcept {
    slot* const s = table_.find(p.partition);
    if (s == nullptr) return 0;
    leaf* const old = table::lock(*s);
    if (old == nullptr) {
      table::unlock(*s, old);
      return 0;
    }
    std::uint64_t moved = 0;
    bool cut = false;
    each_match(*old, p, from, [&](const match& m) {
      moved += m.stop - m.begin;
      cut = cut || m.is_cut();
    });
    if (!cut) {
      (void)move_in_place(*old, p, from, to);
      table::unlock(*s, old);
      return moved;
    }
    leaf& fresh = fresh_leaf(c, p.partition, *old);
    std::uint32_t copied = 0;
    const bool may_tidy = old->holders == 0;
    const auto copy_to = [&](std::uint32_t i) { copy(fresh, *old, std::exchange(copied, i), i, may_tidy); };
    each_match(*old, p, from, [&](const match& m) {
      copy_to(m.index);
      if (m.first < m.begin) fresh.push(m.first, m.begin, m.log);
      fresh.push(m.begin, m.stop, to + (m.begin - p.begin));
      if (m.stop < m.end) fresh.push(m.stop, m.end, m.log + (m.stop - m.first));
      copied = m.index + 1;
    });
    copy_to(old->count);
    put_in(c, *s, *old, fresh);
    return moved;
  }

  epochs& epochs_;
  const leaf_settings settings_;
  table table_;
  orphans<leaf*> orphans_;

 public:
  class client {
   public:
    client(basic_leaf_mapping& m, unsigned) noexcept : limbo_{chain{m, &kept_}, m.epochs_, m.orphans_}, mapping_{m} {}
    ~client() {
      mapping_.release(*this);
      kept_.empty([this](leaf* l) { mapping_.table_.free(l, nullptr); });
    }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

   private:
    friend class basic_leaf_mapping;
    promises promises_;
    leaf_cache kept_;
    limbo<chain> limbo_;
    basic_leaf_mapping& mapping_;
  };
};

using leaf_mapping = basic_leaf_mapping<leaf_memory>;
static_assert(mapping<leaf_mapping>);

}  // namespace nvm::logheap
