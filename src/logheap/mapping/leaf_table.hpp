// Partitions of a leaf mapping: for each a slot with its leaf and its writers' lock, in tables made when they are
// needed.
//
// Memory for changes.  A change needs a leaf for the pieces after it, whose number is unknown when memory has to be
// asked for.  So asking adds a spare leaf to the partition, after its leaf, sorted by size: the k-th spare has room for
// the present pieces and 2k more.  A change adds two at most and takes the first that is large enough; that keeps the
// rule.  A change that no longer needs its spare takes the largest away.
//
// Threads: any.  A slot's lowest bit is the lock; nothing else is locked under it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/inlining.hpp"
#include "logheap/mapping/leaf.hpp"
#include "platform/platform.hpp"

namespace nvm::logheap {

// Where leaves come from.
struct leaf_memory {
  [[nodiscard]] static void* take(std::size_t bytes) noexcept { return std::malloc(bytes); }
  static void give(void* p) noexcept { std::free(p); }
  // Bytes that the C library takes for so many.
  [[nodiscard]] static constexpr std::uint64_t taken(std::uint64_t bytes) noexcept { return round_up(bytes + 8, 16); }
};

// Leaves that a client has freed and may want again, by capacity: a few, which still count for the table's bytes.  For
// one thread.
class leaf_cache {
 public:
  // A leaf with room for at least so many pieces, and a few more at most.
  [[nodiscard]] leaf* take(std::uint32_t capacity) noexcept {
    for (std::uint32_t c = capacity; c < std::min<std::size_t>(capacity + spare_pieces_max + 1, lists_.size()); ++c) {
      leaf* const l = lists_[c];
      if (l == nullptr) continue;
      lists_[c] = reinterpret_cast<leaf*>(l->link);
      --count_;
      return l;
    }
    return nullptr;
  }
  // False: it keeps enough.
  [[nodiscard]] bool give(leaf* l) noexcept {
    if (l->capacity >= lists_.size() || count_ == kept_max) return false;
    l->link = reinterpret_cast<std::uintptr_t>(std::exchange(lists_[l->capacity], l));
    ++count_;
    return true;
  }
  template <class Visit>
  void empty(Visit&& visit) noexcept {
    for (leaf*& list : lists_) {
      while (list != nullptr) visit(std::exchange(list, reinterpret_cast<leaf*>(list->link)));
    }
    count_ = 0;
  }

 private:
  static constexpr unsigned kept_max = 256;
  static constexpr std::uint32_t spare_pieces_max = 3;
  std::array<leaf*, 128> lists_{};
  unsigned count_ = 0;
};

template <class Memory>
class leaf_table {
 public:
  using slot = std::atomic<std::uintptr_t>;

  explicit leaf_table(std::uint64_t partitions) noexcept
      : count_{ceil_div(partitions, slots_in_table)}, tables_{count_ * sizeof(slot*)} {}
  ~leaf_table() {
    each([&](std::uint64_t, slot& s) {
      leaf* l = leaf_of(s.load(std::memory_order_relaxed));
      while (l != nullptr) Memory::give(std::exchange(l, spare_of(*l)));
    });
    for (std::uint64_t t = 0; exists() && t < count_; ++t) Memory::give(table(t).load(std::memory_order_relaxed));
  }
  leaf_table(const leaf_table&) = delete;
  leaf_table& operator=(const leaf_table&) = delete;

  [[nodiscard]] bool exists() const noexcept { return tables_.data() != nullptr; }
  [[nodiscard]] std::uint64_t bytes_used() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  // nullptr: nothing was ever reserved near it.
  [[nodiscard, NVM_INLINE]] slot* find(std::uint64_t partition) const noexcept {
    // acquire: pairs with make().
    slot* const slots = table(partition / slots_in_table).load(std::memory_order_acquire);
    return slots == nullptr ? nullptr : slots + partition % slots_in_table;
  }
  // The same, made if need be; nullptr: memory has run out.
  [[nodiscard]] slot* make(std::uint64_t partition) noexcept {
    if (slot* there = find(partition); there != nullptr) return there;
    constexpr std::size_t bytes = slots_in_table * sizeof(slot);
    void* const fresh = Memory::take(bytes);
    if (fresh == nullptr) return nullptr;
    std::memset(fresh, 0, bytes);
    slot* other = nullptr;
    // release: pairs with find(): its zeros are seen.
    if (table(partition / slots_in_table)
            .compare_exchange_strong(other, static_cast<slot*>(fresh), std::memory_order_acq_rel)) {
      bytes_.fetch_add(Memory::taken(bytes), std::memory_order_relaxed);
    } else {
      Memory::give(fresh);
    }
    return find(partition);
  }
  template <class Visit>
  void each(Visit&& visit) noexcept {
    if (!exists()) return;
    for (std::uint64_t t = 0; t < count_; ++t) {
      slot* const slots = table(t).load(std::memory_order_acquire);
      for (std::uint64_t i = 0; slots != nullptr && i < slots_in_table; ++i) visit(t * slots_in_table + i, slots[i]);
    }
  }
  [[nodiscard, NVM_INLINE]] static leaf* leaf_of(std::uintptr_t word) noexcept {
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
  // Empty; nullptr: memory has run out.
  [[nodiscard]] leaf* allocate(std::uint32_t capacity, leaf_cache& kept) noexcept {
    leaf* l = kept.take(capacity);
    if (l != nullptr) {
      capacity = l->capacity;
    } else {
      const std::uint64_t bytes = leaf::bytes_for(capacity);
      l = static_cast<leaf*>(Memory::take(bytes));
      if (l == nullptr) return nullptr;
      bytes_.fetch_add(Memory::taken(bytes), std::memory_order_relaxed);
    }
    *l = {0, 0, capacity, 0, 0};
    return l;
  }
  void free(leaf* l, leaf_cache* kept) noexcept {
    if (kept != nullptr && kept->give(l)) return;
    bytes_.fetch_sub(Memory::taken(leaf::bytes_for(l->capacity)), std::memory_order_relaxed);
    Memory::give(l);
  }

  // For one more change; false: memory has run out.
  [[nodiscard]] bool add_spare(slot& s, leaf_cache& kept) noexcept { return add_spare(s, lock(s), kept); }
  // The same of a slot that is locked and has this leaf; unlocks it.
  [[nodiscard]] bool add_spare(slot& s, leaf* l, leaf_cache& kept) noexcept {
    if (l == nullptr) l = allocate(leaf::capacity_for(0), kept);
    leaf* spare = nullptr;
    if (l != nullptr) {
      std::uint64_t pieces = l->count + std::uint64_t{2};
      for (leaf* x = spare_of(*l); x != nullptr; x = spare_of(*x)) pieces += 2;
      spare = allocate(leaf::capacity_for(pieces), kept);
    }
    if (spare != nullptr) {
      std::uintptr_t& at = link_to(*l, spare->capacity);
      spare->link = at;
      at = reinterpret_cast<std::uintptr_t>(spare);
    }
    unlock(s, l);
    return spare != nullptr;
  }
  // The largest of them.
  void drop_spares(slot& s, std::uint64_t spares, leaf_cache& kept) noexcept {
    leaf* const l = lock(s);
    for (; spares > 0; --spares) {
      std::uintptr_t* at = &l->link;
      while (reinterpret_cast<leaf*>(*at)->link != 0) at = &reinterpret_cast<leaf*>(*at)->link;
      free(reinterpret_cast<leaf*>(std::exchange(*at, 0)), &kept);
    }
    unlock(s, l);
  }
  // Drops holds of changes that will not be made in place, or have been made.
  void drop_holders(slot& s, std::uint64_t holders) noexcept {
    leaf* const l = lock(s);
    l->holders -= static_cast<std::uint32_t>(holders);
    unlock(s, l);
  }
  // Takes a spare that is large enough for so many pieces; there is one.  Under the lock.
  [[nodiscard]] static leaf* take_spare(leaf& l, std::uint64_t pieces) noexcept {
    std::uintptr_t& at = link_to(l, pieces);
    auto* const spare = reinterpret_cast<leaf*>(at);
    NVM_ASSERT(spare != nullptr);
    at = spare->link;
    return spare;
  }

 private:
  static constexpr std::uint64_t slots_in_table = 4096;
  static constexpr std::uintptr_t locked = 1;

  [[nodiscard]] std::atomic<slot*>& table(std::uint64_t n) const noexcept {
    return static_cast<std::atomic<slot*>*>(tables_.data())[n];
  }
  [[nodiscard]] static leaf* spare_of(leaf& l) noexcept { return reinterpret_cast<leaf*>(l.link); }
  // Leads to the first spare that holds so many pieces.
  [[nodiscard]] static std::uintptr_t& link_to(leaf& l, std::uint64_t pieces) noexcept {
    std::uintptr_t* at = &l.link;
    while (*at != 0 && reinterpret_cast<leaf*>(*at)->capacity < pieces) at = &reinterpret_cast<leaf*>(*at)->link;
    return *at;
  }

  const std::uint64_t count_;  // of tables
  platform::zeroed_memory tables_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace nvm::logheap
