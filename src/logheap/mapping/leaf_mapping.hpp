// A mapping with one leaf for each partition: what the paper's skip lists are to be measured against.
//
// A look-up reads the partition's slot, compares the first bytes of all pieces with its own at once (leaf.hpp) and
// loads one log address: no chain of nodes, no cache beside.  A change that leaves the pieces' bounds as they are
// stores log addresses in place; any other makes a new leaf and puts it in the slot, so that each partition changes as
// one.
//
// Memory.  A change needs a leaf for what will be there then, which is not known when it has to be asked for.  So
// reserve() leaves a spare leaf in the partition, with room for two pieces more than all changes promised before can
// make: sorted by size, the k-th spare holds the pieces there are and 2k more.  A change takes the first that is large
// enough; that keeps the rule.  Whoever needs one no more takes the largest away.
//
// Threads: as mapping.hpp says.  A slot's lowest bit is the lock of its partition's writers, one at a time, no other
// lock under it.  Look-ups take no lock and are never sent back: wait-free.  Linearization: the load of the slot, and
// of the log address.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <thread>

#include "logheap/mapping/leaf.hpp"
#include "logheap/mapping/limbo.hpp"
#include "logheap/mapping/promises.hpp"
#include "logheap/mapping/reserve_rule.hpp"
#include "platform/platform.hpp"

namespace nvm::logheap {

struct leaf_settings {
  bool by_vectors = true;  // false: by halves only
};

// Where leaves come from; zeroed or not.
struct leaf_memory {
  [[nodiscard]] static void* take(std::size_t bytes) noexcept { return std::malloc(bytes); }
  static void give(void* p) noexcept { std::free(p); }
  // What the C library takes for so many.
  [[nodiscard]] static constexpr std::uint64_t taken(std::uint64_t bytes) noexcept { return round_up(bytes + 8, 16); }
};

template <class Memory>
class basic_leaf_mapping {
 public:
  basic_leaf_mapping(epochs& readers, const mapping_settings& home, const leaf_settings& s = {}) noexcept
      : epochs_{readers},
        settings_{s},
        home_first_{home.home_first},
        home_bytes_{home.home_bytes},
        shift_{shift_of(home.partition_bytes)},
        tables_{ceil_div(ceil_div(home.home_bytes, home.partition_bytes), slots_in_table) * sizeof(slot*)} {}
  ~basic_leaf_mapping() {
    chain{*this}.give(orphans_.list);
    each_slot([&](std::uint64_t, slot& s) {
      leaf* l = leaf_of(s.load(std::memory_order_relaxed));
      while (l != nullptr) {
        auto* spare = reinterpret_cast<leaf*>(l->link);
        Memory::give(l);
        l = spare;
      }
    });
    for (std::uint64_t t = 0; t < tables_count(); ++t) Memory::give(table(t).load(std::memory_order_relaxed));
  }
  basic_leaf_mapping(const basic_leaf_mapping&) = delete;
  basic_leaf_mapping& operator=(const basic_leaf_mapping&) = delete;

  [[nodiscard]] status exists() noexcept {
    if (tables_.data() != nullptr) return {};
    return fail(errc::no_memory, "mapping: no address space for partitions");
  }

  class client;

  [[nodiscard]] status reserve(client& c, std::span<const home_range> ranges) noexcept {
    bool good = true;
    const std::size_t mark = c.promises_.mark();
    for (const home_range& r : ranges) {
      each_part(r.home, r.size, [&](const part& p) {
        for (std::uint64_t n = changes_of(p.end - p.begin); good && n > 0; --n) good = promise(c, p.partition);
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
      });
    }
    c.limbo_.sweep();
  }
  template <class Replaced>
  void erase(client& c, const home_range& r, Replaced&& replaced) noexcept {
    each_part(r.home, r.size, [&](const part& p) {
      change(c, p, replaced, [&](leaf* old) { return !overlaps(old, p); }, [](leaf&) {});
    });
    c.limbo_.sweep();
  }

  template <class Visit>
  [[gnu::always_inline]] void for_each_piece(client&, home_t home, std::uint64_t size, Visit&& visit) noexcept {
    if (!clip(home, size)) return;
    each_part(home, size, [&](const part& p) __attribute__((always_inline)) {
      slot* const s = find(p.partition);
      // acquire: pairs with the release in change(): the leaf is made.
      leaf* const l = s == nullptr ? nullptr : leaf_of(s->load(std::memory_order_acquire));
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
    each_part(home, size, [&](const part& p) { moved += move(c, p, from + p.before, to + p.before); });
    c.limbo_.sweep();
    return moved;
  }

  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    each_slot([&](std::uint64_t partition, slot& s) {
      leaf* const l = leaf_of(s.load(std::memory_order_acquire));
      if (l == nullptr) return;
      const home_t base = home_first_ + (partition << shift_);
      for (std::uint32_t i = 0; i < l->count; ++i) {
        visit(piece{base + l->firsts()[i], l->lasts()[i] + std::uint64_t{1} - l->firsts()[i],
                    l->logs()[i].load(std::memory_order_acquire)});
      }
    });
  }
  [[nodiscard]] std::uint64_t bytes_used() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  using slot = std::atomic<std::uintptr_t>;
  static constexpr std::uint64_t slots_in_table = 4096;
  static constexpr std::uintptr_t locked = 1;
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
      while (list != nullptr) of.free(std::exchange(list, next(list)));
    }
    basic_leaf_mapping& of;
  };

  [[nodiscard]] static unsigned shift_of(std::uint64_t partition_bytes) noexcept {
    NVM_ASSERT(partition_bytes >= 64 && partition_bytes <= 65536);
    NVM_ASSERT((partition_bytes & (partition_bytes - 1)) == 0);
    return static_cast<unsigned>(__builtin_ctzll(partition_bytes));
  }
  [[nodiscard]] bool clip(home_t& home, std::uint64_t& size) const noexcept {
    if (home < home_first_) {
      const std::uint64_t off = home_first_ - home;
      if (size <= off) return false;
      home += off;
      size -= off;
    }
    if (home - home_first_ >= home_bytes_) return false;
    size = std::min(size, home_bytes_ - (home - home_first_));
    return size != 0;
  }
  template <class Visit>
  [[gnu::always_inline]] void each_part(home_t home, std::uint64_t size, Visit&& visit) const noexcept {
    NVM_ASSERT(size == 0 || (home >= home_first_ && range_inside(home - home_first_, size, home_bytes_)));
    std::uint64_t x = home - home_first_;
    for (std::uint64_t before = 0; before < size;) {
      const std::uint64_t partition = x >> shift_;
      const std::uint64_t begin = x - (partition << shift_);
      const std::uint64_t n = std::min((std::uint64_t{1} << shift_) - begin, size - before);
      visit(part{partition, begin, begin + n, before, home_first_ + (partition << shift_)});
      x += n;
      before += n;
    }
  }

  // ---- slots ----

  [[nodiscard]] std::uint64_t tables_count() const noexcept {
    return ceil_div(ceil_div(home_bytes_, std::uint64_t{1} << shift_), slots_in_table);
  }
  [[nodiscard]] std::atomic<slot*>& table(std::uint64_t n) const noexcept {
    return static_cast<std::atomic<slot*>*>(tables_.data())[n];
  }
  [[nodiscard, gnu::always_inline]] slot* find(std::uint64_t partition) const noexcept {
    // acquire: pairs with make().
    slot* const slots = table(partition / slots_in_table).load(std::memory_order_acquire);
    return slots == nullptr ? nullptr : slots + partition % slots_in_table;
  }
  [[nodiscard]] slot* make(std::uint64_t partition) noexcept {
    if (slot* there = find(partition); there != nullptr) return there;
    constexpr std::size_t bytes = slots_in_table * sizeof(slot);
    void* const fresh = Memory::take(bytes);
    if (fresh == nullptr) return nullptr;
    std::memset(fresh, 0, bytes);
    slot* other = nullptr;
    // release: its zeros.
    if (table(partition / slots_in_table)
            .compare_exchange_strong(other, static_cast<slot*>(fresh), std::memory_order_acq_rel)) {
      bytes_.fetch_add(Memory::taken(bytes), std::memory_order_relaxed);
    } else {
      Memory::give(fresh);
    }
    return find(partition);
  }
  template <class Visit>
  void each_slot(Visit&& visit) noexcept {
    if (tables_.data() == nullptr) return;
    for (std::uint64_t t = 0; t < tables_count(); ++t) {
      slot* const slots = table(t).load(std::memory_order_acquire);
      for (std::uint64_t i = 0; slots != nullptr && i < slots_in_table; ++i) visit(t * slots_in_table + i, slots[i]);
    }
  }
  [[nodiscard, gnu::always_inline]] static leaf* leaf_of(std::uintptr_t word) noexcept {
    return reinterpret_cast<leaf*>(word & ~locked);
  }
  [[nodiscard]] static leaf* lock(slot& s) noexcept {
    for (unsigned spins = 0;; ++spins) {
      std::uintptr_t now = s.load(std::memory_order_relaxed);
      // acquire: pairs with unlock().
      if ((now & locked) == 0 && s.compare_exchange_weak(now, now | locked, std::memory_order_acquire)) {
        return leaf_of(now);
      }
      if (spins < 64) {
        isa::spin_hint();
      } else {
        std::this_thread::yield();
      }
    }
  }
  // release: also publishes a new leaf.
  static void unlock(slot& s, leaf* l) noexcept {
    s.store(reinterpret_cast<std::uintptr_t>(l), std::memory_order_release);
  }

  // ---- leaves ----

  [[nodiscard]] leaf* allocate(std::uint32_t capacity) noexcept {
    const std::uint64_t bytes = leaf::bytes_for(capacity);
    void* const p = Memory::take(bytes);
    if (p == nullptr) return nullptr;
    bytes_.fetch_add(Memory::taken(bytes), std::memory_order_relaxed);
    auto* const l = static_cast<leaf*>(p);
    *l = {0, 0, capacity};
    return l;
  }
  void free(leaf* l) noexcept {
    bytes_.fetch_sub(Memory::taken(leaf::bytes_for(l->capacity)), std::memory_order_relaxed);
    Memory::give(l);
  }
  // Index of the first piece that ends behind x.
  [[nodiscard, gnu::always_inline]] std::uint32_t first_of(leaf* l, std::uint64_t x) const noexcept {
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

  // ---- promises: spares behind the partition's leaf, ascending ----

  [[nodiscard]] static leaf* spare_of(leaf* l) noexcept { return reinterpret_cast<leaf*>(l->link); }
  [[nodiscard]] bool promise(client& c, std::uint64_t partition) noexcept {
    slot* const s = make(partition);
    if (s == nullptr || !c.promises_.make_room()) return false;
    leaf* l = lock(*s);
    if (l == nullptr) l = allocate(leaf::capacity_for(0));
    leaf* spare = nullptr;
    if (l != nullptr) {
      std::uint64_t pieces = l->count + std::uint64_t{2};
      for (leaf* x = spare_of(l); x != nullptr; x = spare_of(x)) pieces += 2;
      spare = allocate(leaf::capacity_for(pieces));
    }
    if (spare != nullptr) {
      std::uintptr_t* at = &l->link;
      while (*at != 0 && reinterpret_cast<leaf*>(*at)->capacity < spare->capacity)
        at = &reinterpret_cast<leaf*>(*at)->link;
      spare->link = *at;
      *at = reinterpret_cast<std::uintptr_t>(spare);
      c.promises_.add(partition);
    }
    unlock(*s, l);
    return spare != nullptr;
  }
  // The largest of them.
  void take_back(std::uint64_t partition, std::uint64_t spares) noexcept {
    if (spares == 0) return;
    slot& s = *find(partition);
    leaf* const l = lock(s);
    for (; spares > 0; --spares) {
      std::uintptr_t* at = &l->link;
      while (reinterpret_cast<leaf*>(*at)->link != 0) at = &reinterpret_cast<leaf*>(*at)->link;
      free(reinterpret_cast<leaf*>(std::exchange(*at, 0)));
    }
    unlock(s, l);
  }
  // Large enough for so many pieces; there is one.
  [[nodiscard]] leaf* take_spare(client& c, std::uint64_t partition, leaf* l, std::uint64_t pieces) noexcept {
    std::uintptr_t* at = &l->link;
    while (*at != 0 && reinterpret_cast<leaf*>(*at)->capacity < pieces) at = &reinterpret_cast<leaf*>(*at)->link;
    auto* const spare = reinterpret_cast<leaf*>(*at);
    NVM_ASSERT(spare != nullptr);
    *at = spare->link;
    c.promises_.use(partition);
    return spare;
  }

  // ---- changes ----

  // in_place(leaf): true: nothing else is to be done.  Else the partition gets a new leaf: the old pieces but for the
  // part's, and in their place what put(fresh) appends, at most one.
  template <class Replaced, class InPlace, class Put>
  void change(client& c, const part& p, Replaced&& replaced, InPlace&& in_place, Put&& put) noexcept {
    slot* const s = find(p.partition);
    if (s == nullptr) return;
    leaf* const old = lock(*s);
    if (old == nullptr || in_place(old)) {
      unlock(*s, old);
      return;
    }
    leaf& fresh = *take_spare(c, p.partition, old, old->count + std::uint64_t{2});
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
    unlock(s, &fresh);
    c.limbo_.add(&old);
  }
  [[nodiscard]] std::uint64_t move(client& c, const part& p, log_t from, log_t to) noexcept {
    slot* const s = find(p.partition);
    if (s == nullptr) return 0;
    leaf* const old = lock(*s);
    if (old == nullptr) {
      unlock(*s, old);
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
      unlock(*s, old);
      return moved;
    }
    leaf& fresh = *take_spare(c, p.partition, old, old->count + std::uint64_t{2});
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
  const home_t home_first_;
  const std::uint64_t home_bytes_;
  const unsigned shift_;
  platform::zeroed_memory tables_;
  orphans<leaf*> orphans_;
  std::atomic<std::uint64_t> bytes_{0};

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
