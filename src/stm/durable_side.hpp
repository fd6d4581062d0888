// A pool, as a barrier transaction needs it; the C interface implements it.  Offsets are bytes from the pool's start.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "pool/pool.hpp"
#include "tx/face.hpp"

namespace nvm::stm {

enum class policy : std::uint8_t {
  unknown,  // the engine was not asked yet
  write_through,
  write_back,
};

using tx::home_reader;

class durable_side {
 public:
  virtual ~durable_side() = default;

  // A transaction of the engine, on a lane that this thread has now.
  [[nodiscard]] virtual result<tx::open_transaction*> begin() noexcept = 0;
  // Whether up to line_bytes at p are inside the data of the pool, and before all pages whose change was ever refused;
  // quick, so false may be wrong.
  [[nodiscard, NVM_INLINE]] bool surely_in_data(const void* p) const noexcept {
    // relaxed: any end that the data ever had is before the present one.
    return offset_of(p) - data_offset_ < data_known_.load(std::memory_order_relaxed);
  }
  // Whether all of this is inside the data of the pool.
  [[nodiscard]] bool in_data(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t end = data_end();
    data_ends(end);
    return offset >= data_offset_ && range_inside(offset, bytes, end);
  }
  // Places of the two copies of a word of the anchors (pool/superblock.hpp).
  struct two_words {
    std::uint64_t at[2];
  };
  [[nodiscard]] virtual two_words words_of(anchor_word which) const noexcept = 0;
  // Whether addresses of the pool are virtual, so that loads go through this thread's reader().
  [[nodiscard]] bool translates() const noexcept { return translates_; }
  [[nodiscard]] virtual result<home_reader*> reader() noexcept = 0;
  // Whether the engine also takes announced stores in place, to memory that no other thread reads meanwhile.
  [[nodiscard]] virtual bool takes_announced_stores() const noexcept = 0;
  // Waits until a commit is durable; errc::in_doubt if the sync that it needed has failed.
  [[nodiscard]] virtual status wait(lsn_t lsn) noexcept = 0;
  // Waits until the data that a transaction without changes has read are durable; errc::io if they may be lost.
  [[nodiscard]] virtual status wait_for_seen(lsn_t lsn) noexcept = 0;
  // Called before changes of pages from here on are refused.
  void refuses_from(std::uint64_t offset) noexcept {
    std::uint64_t known = first_refused_.load(std::memory_order_relaxed);
    while (offset < known && !first_refused_.compare_exchange_weak(known, offset)) {
    }
    data_ends(data_end());
  }
  // Zeroes a new object whose words a commit may take for references before they are stored.
  virtual void clear_new(std::uint32_t type, void* p, std::size_t bytes) noexcept = 0;
  // Frees the object, or lets it go where references to it are counted.
  [[nodiscard]] virtual status let_go(tx::open_transaction& t, std::uint64_t payload) noexcept = 0;
  // Called before an object with more than natural alignment is made.
  [[nodiscard]] virtual status admit_alignment() noexcept = 0;
  // Whether an aligned object may be there: none is in an object store, whose pages may not be accessible.
  [[nodiscard]] virtual bool may_be_aligned(std::uint64_t) const noexcept { return true; }
  // Whether the program may change these bytes of the data.  In a transaction of the engine: what it says then holds
  // until that ends.
  [[nodiscard]] virtual status admits_change(std::uint64_t, std::uint64_t) const noexcept { return {}; }
  // Where the data ends now; it may grow.
  [[nodiscard]] virtual std::uint64_t data_end() const noexcept = 0;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  // Where the data begins.
  [[nodiscard]] std::uint64_t data_begin() const noexcept { return data_offset_; }
  [[nodiscard]] bool holds(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_) < capacity_;
  }
  [[nodiscard]] std::uint64_t offset_of(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_);
  }

  // Barrier transactions have ordered everything up to this LSN: what a reader may have seen.
  [[nodiscard]] lsn_t ordered() const noexcept { return ordered_.load(std::memory_order_acquire); }
  // Called before the locks of the transaction are released.
  void has_ordered(lsn_t lsn) noexcept {
    lsn_t known = ordered_.load(std::memory_order_relaxed);
    while (known < lsn && !ordered_.compare_exchange_weak(known, lsn, std::memory_order_acq_rel)) {
    }
  }

  [[nodiscard]] bool wants_write_back() const noexcept {
    return engine_policy.load(std::memory_order_relaxed) == policy::write_back ||
           always_write_back.load(std::memory_order_relaxed);
  }

  std::atomic<policy> engine_policy{policy::unknown};  // what the engine wants
  std::atomic<bool> always_write_back{false};          // what the program wants

 protected:
  // `data_offset`: where the data begins, in which objects lie.
  void lies_at(std::byte* base, std::uint64_t capacity, std::uint64_t data_offset, bool translates) noexcept {
    base_ = base;
    capacity_ = capacity;
    translates_ = translates;
    data_offset_ = data_offset;
    data_ends(data_end());
  }

 private:
  // seq_cst: of two threads the later one has seen the other's first_refused_.
  void data_ends(std::uint64_t end) noexcept {
    std::uint64_t refused = first_refused_.load();
    for (;;) {
      const std::uint64_t bytes = std::min(end, refused) - data_offset_;
      const std::uint64_t known = bytes < line_bytes ? 0 : bytes - line_bytes;
      if (data_known_.load(std::memory_order_relaxed) != known) data_known_.store(known);
      const std::uint64_t again = first_refused_.load();
      if (again == refused) return;
      refused = again;
    }
  }

  std::byte* base_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t data_offset_ = 0;
  bool translates_ = false;
  std::atomic<std::uint64_t> data_known_{0};  // bytes of data that surely can be stored to, but for the last line
  std::atomic<std::uint64_t> first_refused_{~std::uint64_t{0}};
  std::atomic<lsn_t> ordered_{0};
};

}  // namespace nvm::stm
