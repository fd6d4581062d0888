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
// entries; a run is used again when its count is 0.
//
// Threads: any number.  take() of one `thread` by one thread at a time.  Locks: a superblock's, a class's list, both
// leaves and never two at a time.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "logheap/mapping.hpp"
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

  struct superblock;
  // A slot of a superblock, or a large object.
  struct slot {
    superblock* in = nullptr;  // nullptr: no object can be here
    unsigned index = 0;
    home_t home = 0;          // where it begins
    std::uint64_t bytes = 0;  // that may be used
    [[nodiscard]] std::atomic<std::uint64_t>& word() const noexcept { return in->words[index]; }
  };

  struct superblock {
    home_t home = 0;
    std::uint64_t slot_bytes = 0;
    unsigned slots = 0;       // 1: a large object
    unsigned size_class = 0;  // classes_max: a large object
    spin_lock lock;           // guards `taken` and `free`
    unsigned free = 0;
    bool listed = false;  // in its class's list, or the current one of a thread
    std::unique_ptr<std::uint64_t[]> taken;
    std::unique_ptr<std::atomic<std::uint64_t>[]> words;
    superblock* next = nullptr;  // in the list; guarded by the list's lock
    superblock* all = nullptr;   // constant once published
  };

  home_space(home_t first, std::uint64_t bytes, std::uint64_t superblock_bytes, unsigned threads)
      : first_{first},
        bytes_{bytes},
        superblock_bytes_{superblock_bytes},
        unit_bytes_{superblock_bytes / units_per_superblock},
        unit_shift_{static_cast<unsigned>(std::countr_zero(unit_bytes_))},
        units_{bytes / unit_bytes_, 1},
        table_{bytes / unit_bytes_} {
    for (std::uint64_t size = 16;; size += std::max<std::uint64_t>(16, round_down(size / 8, 16))) {
      if (size > superblock_bytes_ / 8 || classes_ == classes_max) break;
      class_bytes_[classes_++] = size;
    }
    current_.reset(new (std::nothrow) superblock*[std::size_t{threads} * classes_]());
    if (exists()) units_.extend(bytes_ / unit_bytes_);
  }
  ~home_space() {
    for (superblock* b = all_.load(std::memory_order_relaxed); b != nullptr;) delete std::exchange(b, b->all);
  }
  home_space(const home_space&) = delete;
  home_space& operator=(const home_space&) = delete;

  [[nodiscard]] bool exists() const noexcept { return units_.exists() && table_.exists() && current_ != nullptr; }
  [[nodiscard]] bool inside(home_t home, std::uint64_t size) const noexcept {
    return home >= first_ && range_inside(home - first_, size, bytes_);
  }
  [[nodiscard]] std::uint64_t small_max() const noexcept { return class_bytes_[classes_ - 1]; }
  // Bytes that an object of `size` bytes may use.
  [[nodiscard]] std::uint64_t room_of(std::uint64_t size) const noexcept {
    return size <= small_max() ? class_bytes_[class_of(size)] : round_up(size, unit_bytes_);
  }

  // Takes addresses for an object, which are its own until give().  errc::too_large, no_space, no_memory.
  [[nodiscard]] result<slot> take(unsigned thread, std::uint64_t size) noexcept {
    if (size == 0) return fail(errc::invalid, "an object of 0 bytes");
    if (size > bytes_) return fail(errc::too_large, "an object of %lu bytes: home space has %lu", size, bytes_);
    if (size > small_max()) return take_large(size);
    const unsigned c = class_of(size);
    for (;;) {
      superblock*& mine = current_[std::size_t{thread} * classes_ + c];
      if (mine != nullptr) {
        const std::lock_guard guard{mine->lock};
        if (mine->free != 0) return slot_of(*mine, take_bit(*mine));
        mine->listed = false;
      }
      mine = take_listed(c);
      if (mine != nullptr) continue;
      auto made = make_superblock(c);
      if (!made) return made.error();
      mine = *made;
    }
  }
  // Gives a slot back: its transaction was aborted, or has freed the object.  A run is given back only if the log has
  // no entry about it; otherwise the last drop() does that.
  void give(const slot& s) noexcept {
    superblock& b = *s.in;
    if (b.slots == 1) {
      if (s.word().load(std::memory_order_acquire) == 0) give_large(b);
      return;
    }
    bool to_list = false;
    {
      const std::lock_guard guard{b.lock};
      std::uint64_t& word = b.taken[s.index / 64];
      const std::uint64_t bit = std::uint64_t{1} << s.index % 64;
      NVM_ASSERT((word & bit) != 0);
      word &= ~bit;
      ++b.free;
      if (!b.listed) to_list = b.listed = true;
    }
    if (to_list) list(b);
  }

  // The slot that holds the address; none: `in` is nullptr.
  [[nodiscard]] slot find(home_t home) const noexcept {
    if (!inside(home, 1)) return {};
    // acquire: pairs with the release in publish().
    auto* b = reinterpret_cast<superblock*>(table_[unit_of(home)].load(std::memory_order_acquire));
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
          if (s.in->slots == 1) give_large(*s.in);
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
    const home_t at = large ? home : first_ + round_down(home - first_, superblock_bytes_);
    const auto known = [&] {
      return reinterpret_cast<superblock*>(table_[unit_of(home)].load(std::memory_order_acquire));
    };
    superblock* b = known();
    const unsigned c = large ? classes_max : class_of(size);
    std::unique_lock guard{learning_, std::defer_lock};
    if (b == nullptr) {
      guard.lock();
      b = known();
    }
    if (b == nullptr) {
      const std::uint64_t bytes = large ? round_up(size, unit_bytes_) : superblock_bytes_;
      if ((home - first_) % unit_bytes_ != 0 && large) {
        return fail(errc::corrupt, "object of %lu bytes at home %lx: no large object begins there", size, home);
      }
      const std::uint64_t unit = unit_of(at);
      if (!inside(at, bytes) || !units_.mark_busy(unit, bytes >> unit_shift_)) {
        return fail(errc::corrupt, "object of %lu bytes at home %lx overlaps another", size, home);
      }
      units_.account(bytes >> unit_shift_);
      auto made = publish(at, bytes, c);
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
  // Keeps addresses that the log has entries about, and no object, from being taken.  Called by any thread, when all
  // objects have been learnt.
  void keep_out(home_t home, std::uint64_t size) noexcept {
    const std::lock_guard guard{learning_};
    for (std::uint64_t u = unit_of(home); u <= unit_of(home + size - 1); ++u) {
      if (table_[u].load(std::memory_order_acquire) == 0 && units_.mark_busy(u, 1)) units_.account(1);
    }
  }
  // Called when the words are as in the log: slots with an object are taken, the rest is free, except bytes that only
  // damage can have left without an object.  idle() as in drop().
  template <class Idle>
  void end_learning(Idle&& idle) noexcept {
    for (superblock* b = all_.load(std::memory_order_acquire); b != nullptr; b = b->all) {
      b->free = 0;
      for (unsigned i = 0; i < b->slots; ++i) {
        slot_word w{b->words[i].load(std::memory_order_relaxed)};
        if (w.what() == slot_word::state::freed && w.count() == 0) {
          idle(w.entry());
          w = slot_word{};
          b->words[i].store(0, std::memory_order_relaxed);
        }
        const std::uint64_t bit = std::uint64_t{1} << i % 64;
        if (w.exists() || (w.what() == slot_word::state::none && w.count() != 0)) {
          b->taken[i / 64] |= bit;
        } else {
          b->taken[i / 64] &= ~bit;
          ++b->free;
        }
      }
      if (b->slots == 1) {
        if (b->words[0].load(std::memory_order_relaxed) == 0) give_large(*b);
      } else if (b->free != 0) {
        b->listed = true;
        list(*b);
      }
    }
  }
  // Calls visit(slot, word) for each slot with a word.  At rest.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (superblock* b = all_.load(std::memory_order_acquire); b != nullptr; b = b->all) {
      for (unsigned i = 0; i < b->slots; ++i) {
        const slot_word w{b->words[i].load(std::memory_order_acquire)};
        if (w.code() != 0) visit(slot_of(*b, i), w);
      }
    }
  }

 private:
  [[nodiscard]] std::uint64_t unit_of(home_t home) const noexcept { return (home - first_) >> unit_shift_; }
  [[nodiscard]] unsigned class_of(std::uint64_t size) const noexcept {
    return static_cast<unsigned>(std::lower_bound(class_bytes_.begin(), class_bytes_.begin() + classes_, size) -
                                 class_bytes_.begin());
  }
  [[nodiscard]] static slot slot_of(superblock& b, unsigned index) noexcept {
    return {&b, index, b.home + index * b.slot_bytes, b.slot_bytes};
  }
  [[nodiscard]] static unsigned take_bit(superblock& b) noexcept {
    for (unsigned w = 0;; ++w) {
      std::uint64_t free = ~b.taken[w];
      if (w == b.slots / 64) free &= (std::uint64_t{1} << b.slots % 64) - 1;
      if (free == 0) continue;
      b.taken[w] |= free & -free;
      --b.free;
      return w * 64 + static_cast<unsigned>(std::countr_zero(free));
    }
  }
  void list(superblock& b) noexcept {
    const std::lock_guard guard{list_lock_};
    b.next = listed_[b.size_class];
    listed_[b.size_class] = &b;
  }
  [[nodiscard]] superblock* take_listed(unsigned c) noexcept {
    const std::lock_guard guard{list_lock_};
    superblock* b = listed_[c];
    if (b != nullptr) listed_[c] = b->next;
    return b;
  }
  [[nodiscard]] result<superblock*> make_superblock(unsigned c) noexcept {
    const auto unit = units_.take(0, page_use::coarse, units_per_superblock);
    if (!unit) return fail(errc::no_space, "home space has no room for another superblock");
    auto made = publish(first_ + *unit * unit_bytes_, superblock_bytes_, c);
    if (!made) {
      units_.give(*unit, units_per_superblock);
      return made;
    }
    (*made)->listed = true;
    return made;
  }
  [[nodiscard]] result<slot> take_large(std::uint64_t size) noexcept {
    const std::uint64_t count = ceil_div(size, unit_bytes_);
    const auto unit = units_.take(0, page_use::run, count);
    if (!unit) return fail(errc::no_space, "home space has no room for %lu bytes", size);
    auto made = publish(first_ + *unit * unit_bytes_, count * unit_bytes_, classes_max);
    if (!made) {
      units_.give(*unit, count);
      return made.error();
    }
    (*made)->taken[0] = 1;
    (*made)->free = 0;
    return slot_of(**made, 0);
  }
  [[nodiscard]] result<superblock*> publish(home_t at, std::uint64_t bytes, unsigned c) noexcept {
    std::unique_ptr<superblock> b{new (std::nothrow) superblock};
    if (b == nullptr) return fail(errc::no_memory, "no volatile memory for home space");
    b->home = at;
    b->size_class = c;
    b->slot_bytes = c == classes_max ? bytes : class_bytes_[c];
    b->slots = static_cast<unsigned>(bytes / b->slot_bytes);
    b->free = b->slots;
    b->taken.reset(new (std::nothrow) std::uint64_t[b->slots / 64 + 1]());
    b->words.reset(new (std::nothrow) std::atomic<std::uint64_t>[b->slots]());
    if (b->taken == nullptr || b->words == nullptr) return fail(errc::no_memory, "no volatile memory for home space");
    superblock* head = all_.load(std::memory_order_relaxed);
    do {
      b->all = head;
    } while (!all_.compare_exchange_weak(head, b.get(), std::memory_order_acq_rel));
    // release: pairs with find(): a thread that finds it finds it whole.
    for (std::uint64_t u = 0; u < (bytes >> unit_shift_); ++u) {
      table_[unit_of(at) + u].store(reinterpret_cast<std::uintptr_t>(b.get()), std::memory_order_release);
    }
    return b.release();
  }
  // The descriptor stays until the heap is closed: a thread may still be reading it.
  void give_large(superblock& b) noexcept {
    const std::uint64_t count = b.slot_bytes >> unit_shift_;
    const std::uint64_t unit = unit_of(b.home);
    for (std::uint64_t u = 0; u < count; ++u) table_[unit + u].store(0, std::memory_order_release);
    units_.give(unit, count);
  }

  const home_t first_;
  const std::uint64_t bytes_;
  const std::uint64_t superblock_bytes_;
  const std::uint64_t unit_bytes_;  // a power of two
  const unsigned unit_shift_;
  unsigned classes_ = 0;
  std::array<std::uint64_t, classes_max> class_bytes_{};
  run_allocator units_;
  sparse_array<std::uint64_t> table_;       // of each unit: address of its superblock
  std::unique_ptr<superblock*[]> current_;  // of each thread, for each class
  std::atomic<superblock*> all_{nullptr};
  spin_lock list_lock_;
  std::array<superblock*, classes_max> listed_{};
  std::mutex learning_;
};

}  // namespace nvm::logheap
