// A mapping with one leaf for each partition: what the paper's skip lists are to be measured against.
//
// A look-up reads the partition's slot, compares the first bytes of all pieces with its own at once (leaf.hpp) and
// loads one log address: no chain of nodes, no cache beside.  A change that leaves the pieces' bounds as they are
// stores log addresses in place; any other makes a new leaf and puts it in the slot, so that each partition changes as
// one.
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
  ~basic_leaf_mapping() { chain{*this}.give(orphans_.list); }
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
    if (good) return {};
    c.promises_.each_since(mark, [&](std::uint64_t partition, std::uint64_t left) { take_back(partition, left); });
    c.promises_.forget_since(mark);
    return fail(errc::no_memory, "mapping: no memory for leaves, %llu bytes are in use",
                static_cast<unsigned long long>(bytes_used()));
  }
  void release(client& c) noexcept {
    c.promises_.each_since(0, [&](std::uint64_t partition, std::uint64_t left) { take_back(partition, left); });
    c.promises_.forget_since(0);
  }

  template <class Replaced>
  void assign(client& c, std::span<const piece> pieces, Replaced&& replaced) noexcept {
    for (const piece& whole : pieces) {
      each_part(whole.home, whole.size, [&](const part& p) {
        change(
            c, p, replaced,
            [&](leaf* old) {
              const std::uint32_t i = exact(old, p);
              if (i == none) return false;
              // release: pairs with the look-up's acquire; so do the contents there.
              const log_t was = old->logs()[i].exchange(whole.log + p.before, std::memory_order_release);
              replaced(piece{p.home + p.begin, p.end - p.begin, was});
              return true;
            },
            [&](leaf& fresh) { fresh.append(p.begin, p.end, whole.log + p.before); });
        spend(c, p);
      });
    }
    c.limbo_.sweep();
  }
  template <class Replaced>
  void erase(client& c, const home_range& r, Replaced&& replaced) noexcept {
    each_part(r.home, r.size, [&](const part& p) {
      change(c, p, replaced, [&](leaf* old) { return !overlaps(old, p); }, [](leaf&) {});
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
        visit(piece{p.home + from, stop - from, l->logs()[i].load(std::memory_order_acquire) + (from - first)});
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

  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    table_.each([&](std::uint64_t partition, slot& s) {
      leaf* const l = table::leaf_of(s.load(std::memory_order_acquire));
      if (l == nullptr) return;
      const home_t base = home_first_ + (partition << shift_);
      for (std::uint32_t i = 0; i < l->count; ++i) {
        visit(piece{base + l->firsts()[i], l->lasts()[i] + std::uint64_t{1} - l->firsts()[i],
                    l->logs()[i].load(std::memory_order_acquire)});
      }
    });
  }
  [[nodiscard]] std::uint64_t bytes_used() const noexcept { return table_.bytes_used(); }

 private:
  using table = leaf_table<Memory>;
  using slot = typename table::slot;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // What of a range lies in one partition, by the byte from the partition's start.
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
      while (list != nullptr) of.table_.free(std::exchange(list, next(list)));
    }
    basic_leaf_mapping& of;
  };

  template <class Visit>
  [[NVM_INLINE]] void each_part(home_t home, std::uint64_t size, Visit&& visit) const noexcept {
    each_cut(home, size, size, [&](std::uint64_t partition, std::uint64_t x, std::uint64_t n, std::uint64_t before) {
      const std::uint64_t begin = x - (partition << shift_);
      visit(part{partition, begin, begin + n, before, home_first_ + (partition << shift_)});
    });
  }

  // Index of the first piece that ends behind x.
  [[nodiscard, NVM_INLINE]] std::uint32_t first_of(leaf* l, std::uint64_t x) const noexcept {
    const auto at = static_cast<std::uint16_t>(x);
    const std::uint32_t n =
        settings_.by_vectors ? count_up_to(l->firsts(), l->count, at) : count_up_to_plainly(l->firsts(), l->count, at);
    return n != 0 && l->lasts()[n - 1] >= x ? n - 1 : n;
  }
  [[nodiscard]] std::uint32_t exact(leaf* l, const part& p) const noexcept {
    if (l == nullptr) return none;
    const std::uint32_t i = first_of(l, p.begin);
    return i < l->count && l->firsts()[i] == p.begin && l->lasts()[i] == p.end - 1 ? i : none;
  }
  [[nodiscard]] bool overlaps(leaf* l, const part& p) const noexcept {
    if (l == nullptr) return false;
    const std::uint32_t i = first_of(l, p.begin);
    return i < l->count && l->firsts()[i] < p.end;
  }

  [[nodiscard]] bool promise(client& c, std::uint64_t partition) noexcept {
    slot* const s = table_.make(partition);
    if (s == nullptr || !c.promises_.make_room() || !table_.add_spare(*s)) return false;
    c.promises_.add(partition);
    return true;
  }
  // A change is made: if it was the last of what was reserved there, its spares go.
  void spend(client& c, const part& p) noexcept {
    take_back(p.partition, c.promises_.spend(p.partition, p.end - p.begin));
  }
  void take_back(std::uint64_t partition, std::uint64_t spares) noexcept {
    if (spares != 0) table_.drop_spares(*table_.find(partition), spares);
  }
  [[nodiscard]] leaf& fresh_leaf(client& c, std::uint64_t partition, leaf& old) noexcept {
    c.promises_.use(partition);
    return *table::take_spare(old, old.count + std::uint64_t{2});
  }

  // ---- changes ----

  // in_place(leaf): true: nothing else is to be done.  Else the partition gets a new leaf: the old pieces but for the
  // part's, and in their place what put(fresh) appends, at most one.
  template <class Replaced, class InPlace, class Put>
  void change(client& c, const part& p, Replaced&& replaced, InPlace&& in_place, Put&& put) noexcept {
    slot* const s = table_.find(p.partition);
    if (s == nullptr) return;
    leaf* const old = table::lock(*s);
    if (old == nullptr || in_place(old)) {
      table::unlock(*s, old);
      return;
    }
    leaf& fresh = fresh_leaf(c, p.partition, *old);
    std::uint64_t rest_end = 0;
    log_t rest_log = 0;
    std::uint32_t i = 0;
    for (; i < old->count && old->firsts()[i] < p.end; ++i) {
      const std::uint64_t first = old->firsts()[i];
      const std::uint64_t end = old->lasts()[i] + std::uint64_t{1};
      const log_t log = old->logs()[i].load(std::memory_order_relaxed);
      if (first < p.begin) fresh.append(first, std::min(end, p.begin), log);
      const std::uint64_t from = std::max(first, p.begin);
      const std::uint64_t stop = std::min(end, p.end);
      if (from < stop) replaced(piece{p.home + from, stop - from, log + (from - first)});
      if (end > p.end) {
        rest_end = end;
        rest_log = log + (p.end - first);
      }
    }
    put(fresh);
    if (rest_end != 0) fresh.append(p.end, rest_end, rest_log);
    copy_rest(fresh, *old, i);
    put_in(c, *s, *old, fresh);
  }
  static void copy_rest(leaf& fresh, leaf& old, std::uint32_t from) noexcept {
    for (std::uint32_t i = from; i < old.count; ++i) {
      fresh.append(old.firsts()[i], old.lasts()[i] + std::uint64_t{1}, old.logs()[i].load(std::memory_order_relaxed));
    }
  }
  void put_in(client& c, slot& s, leaf& old, leaf& fresh) noexcept {
    fresh.link = std::exchange(old.link, 0);
    table::unlock(s, &fresh);
    c.limbo_.add(&old);
  }
  [[nodiscard]] std::uint64_t move(client& c, const part& p, log_t from, log_t to) noexcept {
    slot* const s = table_.find(p.partition);
    if (s == nullptr) return 0;
    leaf* const old = table::lock(*s);
    if (old == nullptr) {
      table::unlock(*s, old);
      return 0;
    }
    // Calls f(index, first, end, log, begin of the moved part, its end) for what is where `from` says.
    const auto each_match = [&](auto&& f) {
      for (std::uint32_t i = first_of(old, p.begin); i < old->count && old->firsts()[i] < p.end; ++i) {
        const std::uint64_t first = old->firsts()[i];
        const std::uint64_t end = old->lasts()[i] + std::uint64_t{1};
        const std::uint64_t begin = std::max(first, p.begin);
        const log_t log = old->logs()[i].load(std::memory_order_relaxed);
        if (log + (begin - first) == from + (begin - p.begin)) f(i, first, end, log, begin, std::min(end, p.end));
      }
    };
    std::uint64_t moved = 0;
    bool cut = false;
    each_match(
        [&](std::uint32_t, std::uint64_t first, std::uint64_t end, log_t, std::uint64_t begin, std::uint64_t stop) {
          moved += stop - begin;
          cut = cut || begin != first || stop != end;
        });
    if (!cut) {
      each_match([&](std::uint32_t i, std::uint64_t, std::uint64_t, log_t, std::uint64_t begin, std::uint64_t) {
        // release: pairs with the look-up's acquire.
        old->logs()[i].store(to + (begin - p.begin), std::memory_order_release);
      });
      table::unlock(*s, old);
      return moved;
    }
    leaf& fresh = fresh_leaf(c, p.partition, *old);
    std::uint32_t copied = 0;
    const auto copy_to = [&](std::uint32_t i) {
      for (; copied < i; ++copied) {
        fresh.append(old->firsts()[copied], old->lasts()[copied] + std::uint64_t{1},
                     old->logs()[copied].load(std::memory_order_relaxed));
      }
    };
    each_match([&](std::uint32_t i, std::uint64_t first, std::uint64_t end, log_t log, std::uint64_t begin,
                   std::uint64_t stop) {
      copy_to(i);
      if (first < begin) fresh.append(first, begin, log);
      fresh.append(begin, stop, to + (begin - p.begin));
      if (stop < end) fresh.append(stop, end, log + (stop - first));
      copied = i + 1;
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
    client(basic_leaf_mapping& m, unsigned) noexcept : limbo_{chain{m}, m.epochs_, m.orphans_}, mapping_{m} {}
    ~client() { mapping_.release(*this); }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

   private:
    friend class basic_leaf_mapping;
    promises promises_;
    limbo<chain> limbo_;
    basic_leaf_mapping& mapping_;
  };
};

using leaf_mapping = basic_leaf_mapping<leaf_memory>;
static_assert(mapping<leaf_mapping>);

}  // namespace nvm::logheap
