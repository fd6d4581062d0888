// What a barrier transaction needs of a pool; the C interface implements it.  Offsets are bytes from the pool's start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "pool/pool.hpp"
#include "tx/tx.hpp"

namespace nvm::stm {

enum class policy : std::uint8_t {
  unknown,  // nobody has asked the engine yet
  write_through,
  write_back,
};

class durable_side {
 public:
  virtual ~durable_side() = default;

  // A transaction of the engine, on a lane that this thread has now.
  [[nodiscard]] virtual result<tx::open_transaction*> begin() noexcept = 0;
  // Whether all of this is inside the data of the pool.
  [[nodiscard]] virtual bool in_data(std::uint64_t offset, std::uint64_t bytes) const noexcept = 0;
  // Bytes of the object with this payload, up to the end of its room; errc::bad_pointer.
  [[nodiscard]] virtual result<std::uint64_t> room_of(std::uint64_t payload) noexcept = 0;
  // Where the two words are that are one of the anchors' (pool/superblock.hpp).
  struct two_words {
    std::uint64_t at[2];
  };
  [[nodiscard]] virtual two_words words_of(anchor_word which) const noexcept = 0;
  // Whether the engine can also take stores in place that were announced, where nobody looks meanwhile.
  [[nodiscard]] virtual bool takes_announced_stores() const noexcept = 0;
  [[nodiscard]] virtual status wait(lsn_t lsn) noexcept = 0;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] bool holds(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_) < capacity_;
  }
  [[nodiscard]] std::uint64_t offset_of(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_);
  }

  // Everything up to here was ordered by barrier transactions: what a reader may have seen.
  [[nodiscard]] lsn_t ordered() const noexcept { return ordered_.load(std::memory_order_acquire); }
  // Before the locks of the transaction are released.
  void has_ordered(lsn_t lsn) noexcept {
    lsn_t known = ordered_.load(std::memory_order_relaxed);
    while (known < lsn && !ordered_.compare_exchange_weak(known, lsn, std::memory_order_acq_rel)) {
    }
  }

  std::atomic<policy> engine_policy{policy::unknown};  // what the engine wants
  std::atomic<bool> always_write_back{false};          // what the program wants

 protected:
  void lies_at(std::byte* base, std::uint64_t capacity) noexcept {
    base_ = base;
    capacity_ = capacity;
  }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::atomic<lsn_t> ordered_{0};
};

}  // namespace nvm::stm
