// Memory at home addresses for objects that a transaction has allocated and not committed: programs store into them in
// place.  After the commit the contents are in the log, and the memory goes.
//
// Home space is unused address space: here it becomes zeros that exist when they are touched.  It is held in regions.
// Once more than `bytes_max` were touched, regions without a pin are given back, those pinned longest ago first.
//
// Threads: any.  A region's word is its own lock; the list's lock is taken under none.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "logheap/mapping.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

class home_scratch {
 public:
  static constexpr std::uint64_t region_bytes = 65536;
  static constexpr std::uint64_t bytes_max_default = std::uint64_t{16} << 20;

  // For the home space [first, first + bytes), which begins at `at` in this process; both whole pages of the system.
  home_scratch(std::byte* at, home_t first, std::uint64_t bytes, std::uint64_t bytes_max = bytes_max_default) noexcept
      : at_{at}, first_{first}, bytes_{bytes}, bytes_max_{bytes_max}, regions_{ceil_div(bytes, region_bytes)} {}
  home_scratch(const home_scratch&) = delete;
  home_scratch& operator=(const home_scratch&) = delete;
  // Reserves the address range again.
  ~home_scratch() {
    if (mapped_) (void)::mmap(at_, bytes_, PROT_NONE, flags, -1, 0);
  }

  // errc::no_memory.
  [[nodiscard]] status open() noexcept {
    try {
      touched_.reserve(2 * bytes_max_ / region_bytes);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for home space");
    }
    if (!regions_.exists() || ::mmap(at_, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
      return fail(errc::no_memory, "no volatile memory for %lu bytes of home space: %s", bytes_, std::strerror(errno));
    }
    mapped_ = true;
    return {};
  }

  // The memory of these bytes stays until unpin().  It holds anything.
  void pin(home_t home, std::uint64_t size) noexcept {
    each_region(home, size, [&](std::uint64_t region) {
      const auto word = regions_[region];
      // acquire: pairs with drop(): memory that is dropped has gone.
      std::uint32_t w = word.load(std::memory_order_relaxed);
      for (;;) {
        if ((w & dropping) != 0) {
          std::this_thread::yield();
          w = word.load(std::memory_order_relaxed);
        } else if (word.compare_exchange_weak(w, (w | touched) + 1, std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
          break;
        }
      }
      if ((w & touched) == 0) note(region);
    });
  }
  void unpin(home_t home, std::uint64_t size) noexcept {
    // release: stores to the memory come before it goes.
    each_region(home, size, [&](std::uint64_t region) { regions_[region].fetch_sub(1, std::memory_order_release); });
  }
  // Bytes touched and not given back, in whole regions.
  [[nodiscard]] std::uint64_t bytes_touched() noexcept {
    const std::lock_guard guard{lock_};
    return touched_.size() * region_bytes;
  }

 private:
  static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  static constexpr std::uint32_t dropping = 1U << 31;
  static constexpr std::uint32_t touched = 1U << 30;  // below: pins

  template <class Visit>
  void each_region(home_t home, std::uint64_t size, Visit&& visit) noexcept {
    NVM_ASSERT(size != 0 && home >= first_ && range_inside(home - first_, size, bytes_));
    const std::uint64_t last = (home - first_ + size - 1) / region_bytes;
    for (std::uint64_t region = (home - first_) / region_bytes; region <= last; ++region) visit(region);
  }
  // Notes a touched region, for which others may be dropped.
  void note(std::uint64_t region) noexcept {
    const std::lock_guard guard{lock_};
    if (touched_.size() * region_bytes >= bytes_max_) make_room();
    try {
      touched_.push_back(static_cast<std::uint32_t>(region));
    } catch (const std::bad_alloc&) {
      // A region that is not in the list stays touched until the pool is closed.
    }
  }
  // Gives back half of them, except pinned ones.
  void make_room() noexcept {
    std::size_t to_go = touched_.size() / 2;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      if (to_go != 0 && drop(touched_[i])) {
        --to_go;
      } else {
        touched_[kept++] = touched_[i];
      }
    }
    touched_.resize(kept);
  }
  [[nodiscard]] bool drop(std::uint64_t region) noexcept {
    const auto word = regions_[region];
    std::uint32_t expected = touched;
    // acquire: pairs with unpin().
    if (!word.compare_exchange_strong(expected, dropping, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    const std::uint64_t from = region * region_bytes;
    (void)::madvise(at_ + from, std::min(region_bytes, bytes_ - from), MADV_DONTNEED);
    word.store(0, std::memory_order_release);
    return true;
  }

  std::byte* const at_;
  const home_t first_;
  const std::uint64_t bytes_;
  const std::uint64_t bytes_max_;
  sparse_array<std::uint32_t> regions_;
  spin_lock lock_;  // guards touched_
  std::vector<std::uint32_t> touched_;
  bool mapped_ = false;
};

}  // namespace nvm::logheap
