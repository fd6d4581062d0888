// The first layer of a mapping: from a partition's number to its list, in two steps of an array (LSNVMM, section 3.2).
//
// Threads: any, without a lock; two that make the same entry agree on one of the two.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/inlining.hpp"
#include "logheap/mapping/node_store.hpp"

namespace nvm::logheap {

class partition_table {
 public:
  static constexpr std::uint64_t entries_in_slab = node_store::slab_bytes / sizeof(node_number);

  partition_table(node_store& store, std::uint64_t partitions) noexcept
      : store_{store}, count_{partitions}, slabs_{ceil_div(partitions, entries_in_slab) * sizeof(node_number)} {}

  [[nodiscard]] bool exists() const noexcept { return slabs_.data() != nullptr; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  // 0: nothing was ever mapped there.
  [[nodiscard, NVM_INLINE]] node_number find(std::uint64_t partition) const noexcept {
    // acquire, twice: pairs with the releases in make().
    const node_number slab = slab_entry(partition).load(std::memory_order_acquire);
    return slab == 0 ? 0 : entry(slab, partition).load(std::memory_order_acquire);
  }
  // The same, made if need be; 0: memory has run out.
  [[nodiscard]] node_number make(std::uint64_t partition, std::uint64_t stretch) noexcept {
    std::atomic<node_number>& of_slab = slab_entry(partition);
    node_number slab = of_slab.load(std::memory_order_acquire);
    if (slab == 0) {
      const node_number made = store_.take_table();
      if (made == 0) return 0;
      // release: pairs with find(): its zeros are seen.  The second of two threads leaves a slab unused.
      if (of_slab.compare_exchange_strong(slab, made, std::memory_order_acq_rel, std::memory_order_acquire))
        slab = made;
    }
    std::atomic<node_number>& of_list = entry(slab, partition);
    node_number list = of_list.load(std::memory_order_acquire);
    if (list == 0) {
      const node_number made = store_.take_head(stretch);
      if (made == 0) return 0;
      if (of_list.compare_exchange_strong(list, made, std::memory_order_acq_rel, std::memory_order_acquire))
        list = made;
    }
    return list;
  }
  // Calls visit(partition, list) for those there are, in order.
  template <class Visit>
  void each(Visit&& visit) const noexcept {
    for (std::uint64_t p = 0; p < count_; ++p) {
      if (p % entries_in_slab == 0 && slab_entry(p).load(std::memory_order_acquire) == 0) {
        p += entries_in_slab - 1;
        continue;
      }
      if (const node_number list = find(p); list != 0) visit(p, list);
    }
  }

 private:
  [[nodiscard]] std::atomic<node_number>& slab_entry(std::uint64_t partition) const noexcept {
    return static_cast<std::atomic<node_number>*>(slabs_.data())[partition / entries_in_slab];
  }
  [[nodiscard]] std::atomic<node_number>& entry(node_number slab, std::uint64_t partition) const noexcept {
    return reinterpret_cast<std::atomic<node_number>*>(store_.at(slab))[partition % entries_in_slab];
  }

  node_store& store_;
  const std::uint64_t count_;
  platform::zeroed_memory slabs_;
};

}  // namespace nvm::logheap
