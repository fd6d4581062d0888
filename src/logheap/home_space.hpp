// Home space: which home addresses objects have (LSNVMM, section 4.1).  Volatile; recovery makes it anew from the
// allocation and deallocation logs.
//
// Small objects are slots of superblocks, one size class each (Hoard: a thread allocates from superblocks of its own,
// any thread frees into them); large ones are runs of units, an eighth of a superblock.  Home addresses are virtual, so
// that rounding up and superblocks with holes cost address space and no memory of the pool.
//
// A slot's word says where in the log the object's allocation is, or the tombstone of the last one; and how many
// entries about the slot's bytes are in the log, stale ones and allocations included, tombstones not.  A tombstone is
// needed as long as there are any: a slot may be allocated again at once, since the newer allocation then hides older
// entries, which are of the same slot.  An object of another size may be there when all counts are 0: a superblock of
// which no slot is taken and all words are 0 gives its addresses back, a large object's or a class's.
//
/// A superblock leaves once, under its lock, and `where` is then `gone`: the thread that gives a slot back, or drops a
/// slot's last entry, looks whether it was the last.
///   1. neither the list of its class nor the thread that keeps it leads to it
///   2. neither the table nor the list of all does (superblocks.hpp)
///   3. its units are free
// An empty one that a thread keeps for its next object stays, until addresses are short.  One in which nothing is
// taken, and about which the log has entries, waits for these to go: its addresses are what cleaning can bring.
//
// Threads: any number.  take() of one `thread` by one thread at a time.  A thread that looks for a slot by its address
// is inside the epochs until it is done with it, unless the slot is known to be taken or to have entries.  Lock order:
// a superblock's, that of the classes' lists.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "logheap/superblocks.hpp"
#include "space/space.hpp"

namespace nvm::logheap {

// Content of a slot's word: state (2), count (21), offset of the entry / 8 (41).
class slot_word {
 public:
  enum class state : std::uint8_t { none = 0, allocated = 1, freeing = 2, freed = 3 };
  static constexpr std::uint64_t count_max = (std::uint64_t{1} << 21) - 1;  // there it stays, and is never 0 again

  constexpr explicit slot_word(std::uint64_t code = 0) noexcept : code_{code} {}
  constexpr slot_word(state s, log_t entry, std::uint64_t count) noexcept
      : code_{std::uint64_t(s) | count << 2 | (entry / 8) << 23} {}
  [[nodiscard]] constexpr state what() const noexcept { return static_cast<state>(code_ & 3); }
  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return code_ >> 2 & count_max; }
  [[nodiscard]] constexpr log_t entry() const noexcept { return (code_ >> 23) * 8; }
  [[nodiscard]] constexpr std::uint64_t code() const noexcept { return code_; }
  // An object that committed transactions see.
  [[nodiscard]] constexpr bool exists() const noexcept {
    return what() == state::allocated || what() == state::freeing;
  }

 private:
  std::uint64_t code_;
};

class home_space {
 public:
  static constexpr unsigned classes_max = 64;
  static constexpr unsigned units_per_superblock = 8;

  // A slot of a superblock, or a large object.
  struct slot {
    superblock* in = nullptr;  // nullptr: no object can be here
    unsigned index = 0;
    home_t home = 0;          // where it begins
    std::uint64_t bytes = 0;  // that may be used
    [[nodiscard]] std::atomic<std::uint64_t>& word() const noexcept { return in->words[index]; }
  };

  // `e`: of the threads.
  home_space(epochs& e, home_t first, std::uint64_t bytes, std::uint64_t superblock_bytes, unsigned threads)
      : first_{first},
        bytes_{bytes},
        superblock_bytes_{superblock_bytes},
        unit_bytes_{superblock_bytes / units_per_superblock},
        unit_shift_{static_cast<unsigned>(std::countr_zero(unit_bytes_))},
        units_{bytes / unit_bytes_, 1},
        table_{bytes / unit_bytes_},
        known_{e} {
    for (std::uint64_t size = 16;; size += std::max<std::uint64_t>(16, round_down(size / 8, 16))) {
      if (size > superblock_bytes_ / 8 || classes_ == classes_max) break;
      class_bytes_[classes_++] = size;
    }
    kept_count_ = std::size_t{threads} * classes_;
    kept_.reset(new (std::nothrow) std::atomic<superblock*>[kept_count_]());
    if (exists()) units_.extend(bytes_ / unit_bytes_);
  }
  home_space(const home_space&) = delete;
  home_space& operator=(const home_space&) = delete;

  [[nodiscard]] bool exists() const noexcept { return units_.exists() && table_.exists() && kept_ != nullptr; }
  [[nodiscard]] bool inside(home_t home, std::uint64_t size) const noexcept {
    return home >= first_ && range_inside(home - first_, size, bytes_);
  }
  [[nodiscard]] std::uint64_t small_max() const noexcept { return class_bytes_[classes_ - 1]; }
  // Bytes that an object of `size` bytes may use.
  [[nodiscard]] std::uint64_t room_of(std::uint64_t size) const noexcept {
    return size <= small_max() ? class_bytes_[class_of(size)] : round_up(size, unit_bytes_);
  }

  // Superblocks that are known, large objects included; and bytes that are in none.
  [[nodiscard]] std::uint64_t superblocks_known() const noexcept { return known_.known(); }
  [[nodiscard]] std::uint64_t free_bytes() const noexcept { return units_.free_pages() << unit_shift_; }
  // Whether addresses for so many bytes, of which there are none now, may come back when the log forgets objects that
  // are gone.  What leaves before the answer is no is free by then.
  [[nodiscard]] bool may_come(std::uint64_t size) const noexcept {
    // acquire: pairs with give_back().
    const std::uint64_t waiting = waiting_bytes_.load(std::memory_order_acquire);
    const std::uint64_t needed = size > small_max() ? round_up(size, unit_bytes_) : superblock_bytes_;
    return waiting != 0 && waiting + free_bytes() >= needed;
  }
  // So many superblocks have begun to wait so far.  All entries about them are in the log by then.
  [[nodiscard]] std::uint64_t begun_to_wait() const noexcept { return begun_to_wait_.load(std::memory_order_acquire); }

  // Takes addresses for an object, which are its own until give().  Inside the epochs.  errc::too_large, no_space,
  // no_memory.
  [[nodiscard]] result<slot> take(unsigned thread, std::uint64_t size) noexcept {
    if (size == 0) return fail(errc::invalid, "an object of 0 bytes");
    if (size > bytes_) return fail(errc::too_large, "an object of %lu bytes: home space has %lu", size, bytes_);
    if (size > small_max()) return take_large(size);
    const unsigned c = class_of(size);
    std::atomic<superblock*>& mine = kept_[std::size_t{thread} * classes_ + c];
    for (;;) {
      // relaxed: this thread has stored it, or a thread that had its number before.
      if (superblock* b = mine.load(std::memory_order_relaxed); b != nullptr) {
        const std::lock_guard guard{b->lock};
        // Otherwise another thread has needed its addresses since.
        if (b->keeper == &mine) {
          if (b->free != 0) return slot_of(*b, take_bit(*b));
          b->where = superblock::place::none;
          let_keeper_go(*b);
        }
      }
      superblock* b = take_listed(c);
      if (b == nullptr) {
        auto made = make_superblock(c);
        if (!made) return made.error();
        b = *made;
      }
      const std::lock_guard guard{b->lock};
      if (b->where == superblock::place::gone) continue;
      b->where = superblock::place::kept;
      b->keeper = &mine;
      // release: pairs with give_back_kept().
      mine.store(b, std::memory_order_release);
      if (b->free != 0) return slot_of(*b, take_bit(*b));
    }
  }
  // Gives a slot back: its transaction was aborted, or has freed the object.  Until the log has no entry about it, an
  // object of another size is not put there.
  void give(const slot& s) noexcept {
    superblock& b = *s.in;
    bool empty = false;
    {
      const std::lock_guard guard{b.lock};
      std::uint64_t& word = b.taken[s.index / 64];
      const std::uint64_t bit = std::uint64_t{1} << s.index % 64;
      NVM_ASSERT((word & bit) != 0);
      word &= ~bit;
      ++b.free;
      empty = became_empty(b, s.index);
      if (!empty) look_whether_it_waits(b);
      if (!empty && b.where == superblock::place::none && b.size_class != classes_max) list(b);
    }
    if (empty) give_back(&b);
  }

  // The slot that holds the address; none: `in` is nullptr.
  [[nodiscard]] slot find(home_t home) const noexcept {
    if (!inside(home, 1)) return {};
    superblock* const b = known_at(unit_of(home));
    if (b == nullptr) return {};
    const std::uint64_t index = (home - b->home) / b->slot_bytes;
    if (index >= b->slots) return {};
    return slot_of(*b, static_cast<unsigned>(index));
  }
  // The word of the slot that holds the address is going to be read soon.
  void fetch(home_t home) const noexcept {
    if (const slot s = find(home); s.in != nullptr) __builtin_prefetch(&s.word());
  }
  // Whether the slot is taken: by an object, or by an open transaction for one.
  [[nodiscard]] bool is_taken(const slot& s) const noexcept {
    const std::lock_guard guard{s.in->lock};
    return (s.in->taken[s.index / 64] >> s.index % 64 & 1) != 0;
  }
  // Calls visit(slot) for each slot that overlaps the range, and returns whether all of its bytes lie in slots.  Time
  // in proportion to the range where none is known.
  template <class Visit>
  bool each_slot(home_t home, std::uint64_t size, Visit&& visit) const noexcept {
    const home_t end = home + size;
    bool all = true;
    while (home < end) {
      const slot s = find(home);
      all = all && s.in != nullptr;
      if (s.in != nullptr) visit(s);
      home = s.in != nullptr ? s.home + s.bytes : behind_gap(home);
    }
    return all;
  }
  // Where the next slot may begin after an address that is in no slot: a superblock begins with a unit.
  [[nodiscard]] home_t behind_gap(home_t home) const noexcept {
    return home + (unit_bytes_ - ((home - first_) & (unit_bytes_ - 1)));
  }
  [[nodiscard]] bool in_slots(home_t home, std::uint64_t size) const noexcept {
    return each_slot(home, size, [](const slot&) {});
  }

  // One entry more, or one less, is in the log about these bytes.  drop() returns through `idle` the slots that have
  // neither entries nor an object: their tombstones have become useless.  False: not all bytes are in slots.
  bool count(home_t home, std::uint64_t size) noexcept {
    return each_slot(home, size, [](const slot& s) { count(s, 1); });
  }
  // Counts so many more entries about the slot.
  static void count(const slot& s, std::uint64_t entries) noexcept {
    std::uint64_t word = s.word().load(std::memory_order_relaxed);
    for (;;) {
      const slot_word w{word};
      const std::uint64_t n = std::min(w.count() + entries, slot_word::count_max);
      if (s.word().compare_exchange_weak(word, slot_word{w.what(), w.entry(), n}.code(), std::memory_order_acq_rel))
        return;
    }
  }
  // Inside the epochs.
  template <class Idle>
  void drop(home_t home, std::uint64_t size, Idle&& idle) noexcept {
    (void)each_slot(home, size, [&](const slot& s) {
      std::uint64_t word = s.word().load(std::memory_order_relaxed);
      for (;;) {
        const slot_word w{word};
        // 0: another thread has saved it.
        if (w.count() == 0 || w.count() == slot_word::count_max) return;
        const bool ends = w.count() == 1 && w.what() == slot_word::state::freed;
        const slot_word next = ends ? slot_word{} : slot_word{w.what(), w.entry(), w.count() - 1};
        if (!s.word().compare_exchange_weak(word, next.code(), std::memory_order_acq_rel)) continue;
        if (ends) {
          idle(w.entry());
          drop_last(s);
        }
        return;
      }
    });
  }
  // Sets the slot's word to {what, entry}, with its count and `more`; returns the word before.
  static slot_word set(const slot& s, slot_word::state what, log_t entry, std::uint64_t more = 0) noexcept {
    std::uint64_t word = s.word().load(std::memory_order_relaxed);
    while (!s.word().compare_exchange_weak(
        word, slot_word{what, entry, std::min(slot_word{word}.count() + more, slot_word::count_max)}.code(),
        std::memory_order_acq_rel)) {
    }
    return slot_word{word};
  }
  // Notes that the entry has been moved; false: the word is about another one.
  [[nodiscard]] static bool move(const slot& s, log_t from, log_t to) noexcept {
    std::uint64_t word = s.word().load(std::memory_order_relaxed);
    for (;;) {
      const slot_word w{word};
      if (w.what() == slot_word::state::none || w.entry() != from) return false;
      if (s.word().compare_exchange_weak(word, slot_word{w.what(), to, w.count()}.code(), std::memory_order_acq_rel))
        return true;
    }
  }

  // ---- recovery ----

  // Learns that an object of `size` bytes was once at `home`.  Any thread.  errc::corrupt if that contradicts objects
  // learnt before; no_memory.
  [[nodiscard]] status learn(home_t home, std::uint64_t size) noexcept {
    if (!inside(home, size)) return fail(errc::corrupt, "object at home %lx of %lu bytes: outside", home, size);
    const bool large = size > small_max();
    const auto known = [&] { return known_at(unit_of(home)); };
    superblock* b = known();
    const unsigned c = large ? classes_max : class_of(size);
    std::unique_lock guard{learning_, std::defer_lock};
    if (b == nullptr) {
      guard.lock();
      b = known();
    }
    if (b == nullptr) {
      if ((home - first_) % unit_bytes_ != 0 && large) {
        return fail(errc::corrupt, "object of %lu bytes at home %lx: no large object begins there", size, home);
      }
      const home_range all = superblock_of(home, size);
      if (!inside(all.home, all.size) || !units_.take_at(unit_of(all.home), all.size >> unit_shift_)) {
        return fail(errc::corrupt, "object of %lu bytes at home %lx overlaps another", size, home);
      }
      auto made = publish(all.home, all.size, c);
      if (!made) return made.error();
      b = *made;
    }
    const bool fits =
        b->size_class == c && (!large || (b->home == home && b->slot_bytes == round_up(size, unit_bytes_)));
    if (!fits || (home - b->home) % b->slot_bytes != 0 || (home - b->home) / b->slot_bytes >= b->slots) {
      return fail(errc::corrupt, "object of %lu bytes at home %lx: between slots of %lu bytes from %lx", size, home,
                  b->slot_bytes, b->home);
    }
    return {};
  }
  // Whether a superblock is known where that of such an object would be: learn() makes none then.
  [[nodiscard]] bool is_known_around(home_t home, std::uint64_t size) const noexcept {
    if (!inside(home, size)) return true;
    const home_range all = superblock_of(home, size);
    if (!inside(all.home, all.size)) return true;
    for (std::uint64_t u = 0; u < all.size >> unit_shift_; ++u) {
      if (known_at(unit_of(all.home) + u) != nullptr) return true;
    }
    return false;
  }
  // Keeps addresses that the log has entries about, and no object, from being taken.  Called by any thread, when all
  // objects have been learnt.
  void keep_out(home_t home, std::uint64_t size) noexcept {
    const std::lock_guard guard{learning_};
    for (std::uint64_t u = unit_of(home); u <= unit_of(home + size - 1); ++u) {
      if (known_at(u) == nullptr) (void)units_.take_at(u, 1);
    }
  }
  // Called when the words are as in the log: slots with an object are taken, the rest is free, except bytes that only
  // damage can have left without an object.  idle() as in drop().
  template <class Idle>
  void end_learning(Idle&& idle) noexcept {
    known_.for_each([&](superblock& b) {
      b.free = b.in_use = 0;
      for (unsigned i = 0; i < b.slots; ++i) {
        slot_word w{b.words[i].load(std::memory_order_relaxed)};
        if (w.what() == slot_word::state::freed && w.count() == 0) {
          idle(w.entry());
          w = slot_word{};
          b.words[i].store(0, std::memory_order_relaxed);
        }
        const bool is_taken = w.exists() || (w.what() == slot_word::state::none && w.count() != 0);
        const std::uint64_t bit = std::uint64_t{1} << i % 64;
        put_bit(b.taken[i / 64], bit, is_taken);
        put_bit(b.used[i / 64], bit, w.code() != 0);
        b.free += is_taken ? 0 : 1;
        b.in_use += w.code() != 0 ? 1 : 0;
      }
      look_whether_it_waits(b);
      if (b.in_use == 0) {
        b.where = superblock::place::gone;
        give_back(&b);
      } else if (b.size_class != classes_max && b.free != 0) {
        list(b);
      }
    });
  }
  // Calls visit(slot, word) for each slot with a word.  At rest, or inside the epochs.
  template <class Visit>
  void for_each(Visit&& visit) const {
    known_.for_each([&](superblock& b) {
      for (unsigned i = 0; i < b.slots; ++i) {
        const slot_word w{b.words[i].load(std::memory_order_acquire)};
        if (w.code() != 0) visit(slot_of(b, i), w);
      }
    });
  }

 private:
  [[nodiscard]] std::uint64_t unit_of(home_t home) const noexcept { return (home - first_) >> unit_shift_; }
  [[nodiscard]] superblock* known_at(std::uint64_t unit) const noexcept {
    // acquire: pairs with the release in publish().
    return reinterpret_cast<superblock*>(table_[unit].load(std::memory_order_acquire));
  }
  // The addresses of the superblock that such an object is in.
  [[nodiscard]] home_range superblock_of(home_t home, std::uint64_t size) const noexcept {
    if (size > small_max()) return {home, round_up(size, unit_bytes_)};
    return {first_ + round_down(home - first_, superblock_bytes_), superblock_bytes_};
  }
  static void put_bit(std::uint64_t& word, std::uint64_t bit, bool set) noexcept {
    word = set ? word | bit : word & ~bit;
  }
  [[nodiscard]] unsigned class_of(std::uint64_t size) const noexcept {
    return static_cast<unsigned>(std::lower_bound(class_bytes_.begin(), class_bytes_.begin() + classes_, size) -
                                 class_bytes_.begin());
  }
  [[nodiscard]] static slot slot_of(superblock& b, unsigned index) noexcept {
    return {&b, index, b.home + index * b.slot_bytes, b.slot_bytes};
  }
  [[nodiscard]] unsigned take_bit(superblock& b) noexcept {
    for (unsigned w = 0;; ++w) {
      std::uint64_t free = ~b.taken[w];
      if (w == b.slots / 64) free &= (std::uint64_t{1} << b.slots % 64) - 1;
      if (free == 0) continue;
      const std::uint64_t bit = free & -free;
      b.taken[w] |= bit;
      --b.free;
      b.in_use += (b.used[w] & bit) != 0 ? 0 : 1;
      b.used[w] |= bit;
      look_whether_it_waits(b);
      return w * 64 + static_cast<unsigned>(std::countr_zero(free));
    }
  }

  // Under the superblock's lock.  One that has left waits until its units are free: give_back() counts it off.
  void look_whether_it_waits(superblock& b) noexcept {
    if (b.where == superblock::place::gone) return;
    const bool waits = b.free == b.slots && b.in_use != 0;
    if (std::exchange(b.waits, waits) == waits) return;
    const std::uint64_t bytes = b.units << unit_shift_;
    // release: pairs with begun_to_wait().
    if (waits) begun_to_wait_.fetch_add(1, std::memory_order_release);
    // relaxed, both: may_come() finds what other threads do while it looks, or not.
    waiting_bytes_.fetch_add(waits ? bytes : -bytes, std::memory_order_relaxed);
  }

  // ---- leaving; each under the superblock's lock ----

  // Looks whether the slot is still in use.  True: it was the last one, the superblock has left lists and threads, and
  // the caller gives it back when it has let the lock go.
  [[nodiscard]] bool became_empty(superblock& b, unsigned index) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << index % 64;
    std::uint64_t& used = b.used[index / 64];
    if ((used & bit) == 0 || (b.taken[index / 64] & bit) != 0) return false;
    // acquire: pairs with the thread that has dropped the slot's last entry.  If its store is not seen, it has not
    // taken the lock yet, and looks itself.
    if (b.words[index].load(std::memory_order_acquire) != 0 && !planted(plant::addresses_left_early)) return false;
    used &= ~bit;
    if (--b.in_use != 0 || b.where == superblock::place::kept) return false;
    leave(b);
    return true;
  }
  void leave(superblock& b) noexcept {
    if (b.where == superblock::place::listed) unlist(b);
    if (b.where == superblock::place::kept) let_keeper_go(b);
    b.where = superblock::place::gone;
  }
  static void let_keeper_go(superblock& b) noexcept {
    // relaxed: its thread looks at `keeper` under the lock.
    std::exchange(b.keeper, nullptr)->store(nullptr, std::memory_order_relaxed);
  }
  void list(superblock& b) noexcept {
    b.where = superblock::place::listed;
    const std::lock_guard guard{list_lock_};
    superblock*& head = listed_[b.size_class];
    b.linked = true;
    b.previous = nullptr;
    b.next = head;
    if (head != nullptr) head->previous = &b;
    head = &b;
  }
  void unlist(superblock& b) noexcept {
    const std::lock_guard guard{list_lock_};
    // Otherwise a thread has just taken it from the list, and finds it gone.
    if (b.linked) unlink(b);
  }

  // Under the lists' lock.
  void unlink(superblock& b) noexcept {
    b.linked = false;
    if (b.next != nullptr) b.next->previous = b.previous;
    (b.previous != nullptr ? b.previous->next : listed_[b.size_class]) = b.next;
  }
  // `where` stays `listed`: the caller looks under the superblock's lock whether it has gone meanwhile.
  [[nodiscard]] superblock* take_listed(unsigned c) noexcept {
    const std::lock_guard guard{list_lock_};
    superblock* const b = listed_[c];
    if (b != nullptr) unlink(*b);
    return b;
  }
  // The slot has no entries any more.
  void drop_last(const slot& s) noexcept {
    bool empty = false;
    {
      const std::lock_guard guard{s.in->lock};
      empty = became_empty(*s.in, s.index);
      if (!empty) look_whether_it_waits(*s.in);
    }
    if (empty) give_back(s.in);
  }
  // Gives the addresses back of one that has left: nothing is in the log about them.
  void give_back(superblock* b) noexcept {
    const std::uint64_t unit = unit_of(b->home);
    const std::uint64_t units = b->units;
    const std::uint64_t waited = b->waits ? units << unit_shift_ : 0;
    // release: a thread that finds the superblock of the next owner of the units does not find this one later.
    for (std::uint64_t u = 0; u < units; ++u) table_[unit + u].store(0, std::memory_order_release);
    known_.remove(b);
    units_.give(unit, units);
    // release: pairs with may_come(): a thread that sees that it does not wait any more finds its units.
    waiting_bytes_.fetch_sub(waited, std::memory_order_release);
  }
  // Addresses are short: gives empty ones back that threads keep.  False: there are none.
  bool give_back_kept() noexcept {
    bool any = false;
    for (std::size_t i = 0; i < kept_count_; ++i) {
      // acquire: pairs with take().
      superblock* const b = kept_[i].load(std::memory_order_acquire);
      if (b == nullptr) continue;
      {
        const std::lock_guard guard{b->lock};
        if (b->where != superblock::place::kept || b->in_use != 0) continue;
        leave(*b);
      }
      give_back(b);
      any = true;
    }
    return any;
  }
  [[nodiscard]] std::optional<std::uint64_t> take_units(page_use use, std::uint64_t count) noexcept {
    auto unit = units_.take(0, use, count);
    if (!unit && give_back_kept()) unit = units_.take(0, use, count);
    return unit;
  }

  [[nodiscard]] result<superblock*> make_superblock(unsigned c) noexcept {
    const auto unit = take_units(page_use::coarse, units_per_superblock);
    if (!unit) return fail(errc::no_space, "home space has no room for another superblock");
    auto made = publish(first_ + *unit * unit_bytes_, superblock_bytes_, c);
    if (!made) units_.give(*unit, units_per_superblock);
    return made;
  }
  [[nodiscard]] result<slot> take_large(std::uint64_t size) noexcept {
    const std::uint64_t count = ceil_div(size, unit_bytes_);
    const auto unit = take_units(page_use::run, count);
    if (!unit) return fail(errc::no_space, "home space has no room for %lu bytes", size);
    auto made = publish(first_ + *unit * unit_bytes_, count * unit_bytes_, classes_max);
    if (!made) {
      units_.give(*unit, count);
      return made.error();
    }
    const std::lock_guard guard{(*made)->lock};
    return slot_of(**made, take_bit(**made));
  }
  [[nodiscard]] result<superblock*> publish(home_t at, std::uint64_t bytes, unsigned c) noexcept {
    std::unique_ptr<superblock> b{new (std::nothrow) superblock};
    if (b == nullptr) return fail(errc::no_memory, "no volatile memory for home space");
    b->home = at;
    b->size_class = c;
    b->slot_bytes = c == classes_max ? bytes : class_bytes_[c];
    b->slots = static_cast<unsigned>(bytes / b->slot_bytes);
    b->units = bytes >> unit_shift_;
    b->free = b->slots;
    b->taken.reset(new (std::nothrow) std::uint64_t[b->slots / 64 + 1]());
    b->used.reset(new (std::nothrow) std::uint64_t[b->slots / 64 + 1]());
    b->words.reset(new (std::nothrow) std::atomic<std::uint64_t>[b->slots]());
    if (b->taken == nullptr || b->used == nullptr || b->words == nullptr) {
      return fail(errc::no_memory, "no volatile memory for home space");
    }
    known_.add(b.get());
    // release: pairs with find(): a thread that finds it finds it whole.
    for (std::uint64_t u = 0; u < b->units; ++u) {
      table_[unit_of(at) + u].store(reinterpret_cast<std::uintptr_t>(b.get()), std::memory_order_release);
    }
    return b.release();
  }

  const home_t first_;
  const std::uint64_t bytes_;
  const std::uint64_t superblock_bytes_;
  const std::uint64_t unit_bytes_;  // a power of two
  const unsigned unit_shift_;
  unsigned classes_ = 0;
  std::array<std::uint64_t, classes_max> class_bytes_{};
  run_allocator units_;
  sparse_array<std::uint64_t> table_;  // of each unit: address of its superblock
  // Of each thread, for each class: the superblock that its next object comes from.  It stores into these itself;
  // another thread, nullptr, under the superblock's lock.
  std::unique_ptr<std::atomic<superblock*>[]> kept_;
  std::size_t kept_count_ = 0;
  superblocks known_;
  std::atomic<std::uint64_t> waiting_bytes_{0};  // of superblocks that wait
  std::atomic<std::uint64_t> begun_to_wait_{0};
  spin_lock list_lock_;
  std::array<superblock*, classes_max> listed_{};
  std::mutex learning_;
};

}  // namespace nvm::logheap
