// Places for the nodes of skip lists: 32-bit numbers instead of pointers, and memory that keeps its use.
//
// A number counts units of 8 bytes from the store's start; 0 leads nowhere.  Memory is taken in slabs of 16 KiB.  A
// slab serves nodes of one size, of one stretch of 4 GiB of home space, for as long as the store lives.  So 32 bits of
// a home address in a node are the whole address for a thread that knows the node's number: this lets a cache of nodes
// check a node that may have been freed and used again (node_cache.hpp), with 16 bytes for most nodes.
//
// Free nodes are linked through their own first word and are marked dead (skip_node.hpp).  They are not given back to
// the system.  Address space for all slabs is taken at once; slabs get memory when they are first touched.
//
// Threads: any; one spin lock for each stretch and one for slabs, taken in that order, held for a batch of nodes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/inlining.hpp"
#include "logheap/mapping/skip_node.hpp"
#include "platform/platform.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

class node_store {
 public:
  static constexpr std::uint64_t slab_bytes = 16384;
  static constexpr unsigned stretch_bits = 32;
  static constexpr std::uint64_t bytes_max = (std::uint64_t{1} << 32) * node_unit;
  // Sizes of nodes by their heights, and one more for heads of lists.
  static constexpr unsigned kinds = units_of(skip_height_max) - units_of(1) + 2;
  static constexpr unsigned head_kind = kinds - 1;

  node_store(std::uint64_t home_bytes, std::uint64_t limit, unsigned head_units) noexcept
      : head_units_{head_units},
        stretches_count_{(home_bytes >> stretch_bits) + 1},
        stretches_{stretches_count_ * sizeof(stretch)} {
    std::uint64_t bytes = limit < bytes_max ? limit : bytes_max;
    bytes = round_up(bytes, slab_bytes) + slab_bytes;  // nothing has the number 0
    if (bytes > bytes_max) bytes = bytes_max;
    // A process whose address space is limited gets less.
    for (;; bytes = round_up(bytes / 2, slab_bytes)) {
      memory_.emplace(bytes);
      if (memory_->data() != nullptr || bytes <= smallest) break;
    }
    base_ = static_cast<std::byte*>(memory_->data());
    slabs_max_ = bytes / slab_bytes;
    infos_.emplace(slabs_max_ * sizeof(slab_info));
  }

  [[nodiscard]] bool exists() const noexcept {
    return base_ != nullptr && infos_->data() != nullptr && stretches_.data() != nullptr;
  }

  [[nodiscard, NVM_INLINE]] std::byte* at(node_number n) const noexcept { return base_ + std::uint64_t{n} * node_unit; }
  [[nodiscard, NVM_INLINE]] skip_node& node(node_number n) const noexcept {
    return *reinterpret_cast<skip_node*>(at(n));
  }

  // Adds nodes of random heights to a list of free ones until it has `wanted`; false: memory has run out.  Each has its
  // height in `home`.
  [[nodiscard]] bool fill(std::uint64_t stretch_number, node_number& list, std::uint64_t& count, std::uint64_t wanted,
                          std::uint64_t& random, unsigned height_max) noexcept {
    stretch& s = at_stretch(stretch_number);
    const std::lock_guard hold{s.lock};
    while (count < wanted) {
      const unsigned height = draw_height(random, height_max);
      const node_number n = take(s, stretch_number, units_of(height) - units_of(1), units_of(height));
      if (n == 0) return false;
      skip_node& fresh = node(n);
      fresh.home.store(height, std::memory_order_relaxed);
      fresh.where.store(dead_node(list), std::memory_order_release);
      list = n;
      ++count;
    }
    return true;
  }
  // A head for a list, zeroed; 0: memory has run out.
  [[nodiscard]] node_number take_head(std::uint64_t stretch_number) noexcept {
    stretch& s = at_stretch(stretch_number);
    const std::lock_guard hold{s.lock};
    return take(s, stretch_number, head_kind, head_units_);
  }
  // A zeroed slab for other uses; 0: memory has run out.
  [[nodiscard]] node_number take_table() noexcept { return take_slab(0, kinds); }

  // Takes free nodes, linked through `where`, that no thread can read.
  void give(node_number list) noexcept {
    while (list != 0) {
      const node_number next = next_dead(node(list).where.load(std::memory_order_relaxed));
      const slab_info& of = info_of(list);
      stretch& s = at_stretch(of.stretch);
      const std::lock_guard hold{s.lock};
      node(list).where.store(dead_node(s.free[of.kind]), std::memory_order_relaxed);
      s.free[of.kind] = list;
      list = next;
    }
  }

  [[nodiscard]] std::uint64_t bytes_used() const noexcept {
    return slabs_.load(std::memory_order_relaxed) * slab_bytes;
  }

 private:
  static constexpr std::uint64_t smallest = std::uint64_t{1} << 26;
  struct stretch {
    spin_lock lock;
    node_number free[kinds];
    node_number fresh[kinds], fresh_end[kinds];
  };
  struct slab_info {
    std::uint32_t stretch;
    std::uint32_t kind;
  };

  [[nodiscard]] stretch& at_stretch(std::uint64_t n) noexcept {
    NVM_ASSERT(n < stretches_count_);
    return static_cast<stretch*>(stretches_.data())[n];
  }
  [[nodiscard]] slab_info& info_of(node_number n) noexcept {
    return static_cast<slab_info*>(infos_->data())[n / (slab_bytes / node_unit)];
  }
  [[nodiscard]] node_number take(stretch& s, std::uint64_t number, unsigned kind, unsigned units) noexcept {
    if (const node_number n = s.free[kind]; n != 0) {
      s.free[kind] = next_dead(node(n).where.load(std::memory_order_relaxed));
      return n;
    }
    if (s.fresh_end[kind] - s.fresh[kind] < units) {
      const node_number slab = take_slab(static_cast<std::uint32_t>(number), kind);
      if (slab == 0) return 0;
      s.fresh[kind] = slab;
      s.fresh_end[kind] = slab + static_cast<node_number>(slab_bytes / node_unit);
    }
    const node_number n = s.fresh[kind];
    s.fresh[kind] += units;
    return n;
  }
  [[nodiscard]] node_number take_slab(std::uint32_t stretch_number, unsigned kind) noexcept {
    const std::lock_guard hold{slab_lock_};
    const std::uint64_t number = slabs_.load(std::memory_order_relaxed) + 1;
    if (number >= slabs_max_) return 0;
    slabs_.store(number, std::memory_order_relaxed);
    const auto n = static_cast<node_number>(number * (slab_bytes / node_unit));
    info_of(n) = {stretch_number, kind};
    return n;
  }
  // One node in four is in the next list above.
  [[nodiscard]] static unsigned draw_height(std::uint64_t& random, unsigned height_max) noexcept {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    unsigned height = 1;
    for (std::uint64_t bits = random >> 8; height < height_max && bits % 4 == 0; bits /= 4) ++height;
    return height;
  }

  const unsigned head_units_;
  const std::uint64_t stretches_count_;
  platform::zeroed_memory stretches_;
  std::optional<platform::zeroed_memory> memory_;
  std::optional<platform::zeroed_memory> infos_;  // of slabs
  std::byte* base_ = nullptr;
  std::uint64_t slabs_max_ = 0;
  spin_lock slab_lock_;
  std::atomic<std::uint64_t> slabs_{0};
};

}  // namespace nvm::logheap
