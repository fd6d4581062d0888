// A file that is mapped shared, on a file system with a page cache: stores go to the file's pages, a fence is a sync
// of the file.  For engines whose log is the only copy of the data, which need no image and no ring beside it.
//
/// fence() of several threads.  A sync serves every thread that asked before it began.
///   1. number += 1
///   2. if a sync is under way, wait; otherwise sync for all numbers so far
///   3. repeat 2 until a sync that began after 1 has ended
//
// Between fences the kernel writes pages at any time, in any order, in sectors, as a cache evicts lines: so every
// protocol that is correct on direct media is correct here.
//
// Failure.  After a failed sync the content of the device is unknown, and the kernel takes the pages for written.
// `on_failure` runs before any fence returns, and keeps every later store from the file, so that no store can overtake
// a lost one.  durable() says errc::io for ever.
//
// Threads: any.
#pragma once

#include <atomic>
#include <mutex>

#include "media/block_device.hpp"

namespace nvm {

class synced_media {
 public:
  static constexpr bool atomic_batches = false;
  using batch = no_batch;
  using failure_call = void (*)(void* context) noexcept;

  // Only sync() of the device is used.  `name`: of the pool, in messages.
  explicit synced_media(block_device& device, failure_call on_failure = nullptr, void* context = nullptr,
                        const char* name = "the pool") noexcept
      : device_{device}, on_failure_{on_failure}, context_{context}, name_{name} {}
  synced_media(const synced_media&) = delete;
  synced_media& operator=(const synced_media&) = delete;

  void flush(const void*, std::size_t, site = site::here()) noexcept {}
  void fence(edge e) noexcept;
  // Every fenced store is already durable; not 0, so that a commit asks durable() whether a sync has failed.
  [[nodiscard]] lsn_t last_lsn() noexcept { return 1; }
  status durable(lsn_t) noexcept;
  // LSNs do not tell which stores a failed sync covered: after one nothing counts as durable.
  [[nodiscard]] bool is_durable(lsn_t) const noexcept {
    // acquire: pairs with the release in refuse(): what on_failure() did is done.
    return !failed_.load(std::memory_order_acquire);
  }
  // As if a sync had failed.
  void poison(const char* reason) noexcept;

  [[nodiscard]] std::uint64_t syncs() const noexcept { return syncs_.load(std::memory_order_relaxed); }
  // Fences, each of which waited for a sync.
  [[nodiscard]] std::uint64_t waits() const noexcept { return waits_.load(std::memory_order_relaxed); }

 private:
  void refuse(const char* reason) noexcept;  // under order_

  block_device& device_;
  failure_call on_failure_;
  void* context_;
  const char* name_;
  std::mutex order_;            // guards what follows; not held during I/O
  platform::condition synced_;  // done_ moved, or failed
  std::uint64_t asked_ = 0;
  std::uint64_t done_ = 0;
  bool syncing_ = false;
  std::atomic<bool> failed_{false};  // written under order_, once
  char reason_[160] = {};            // written before it
  std::atomic<std::uint64_t> syncs_{0}, waits_{0};
};
static_assert(media<synced_media>);

}  // namespace nvm
