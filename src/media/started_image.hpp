// An image medium with a checkpointer, whose thread starts with the first change: a pool that is only read costs no
// thread.  Without a thread the writers checkpoint themselves when the ring is full, and the next one tries again.
//
// Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "media/checkpointer.hpp"
#include "media/image_media.hpp"

namespace nvm {

class started_image {
 public:
  static constexpr bool atomic_batches = true;
  using batch = image_media::batch;

  explicit started_image(std::unique_ptr<image_media> inner) noexcept : inner_{std::move(inner)} {}

  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept {
    // acquire: pairs with the release in start_thread().
    if (!started_.load(std::memory_order_acquire)) [[unlikely]]
      start_thread();
    inner_->flush(p, bytes, s);
  }
  void fence(edge e) noexcept { inner_->fence(e); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return inner_->last_lsn(); }
  [[nodiscard]] bool is_durable(lsn_t lsn) const noexcept { return inner_->is_durable(lsn); }
  status durable(lsn_t lsn) noexcept { return inner_->durable(lsn); }
  void poison(const char* reason) noexcept { inner_->poison(reason); }
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept {
    // acquire: pairs with the release in start_thread().
    if (!started_.load(std::memory_order_acquire)) start_thread();
    return inner_->publish(b, std::forward<F>(stores), e);
  }
  result<straight_outcome> write_straight(const void* p, std::size_t bytes, lsn_t free_since,
                                          straight_patience patience) noexcept {
    // acquire: pairs with the release in start_thread().
    if (!started_.load(std::memory_order_acquire)) start_thread();
    return inner_->write_straight(p, bytes, free_since, patience);
  }
  [[nodiscard]] std::uint64_t straight_from() const noexcept { return inner_->straight_from(); }
  status quiesce() noexcept { return inner_->quiesce(); }
  void start_thread() noexcept {
    const std::lock_guard guard{starting_};
    // relaxed: it is changed under the lock.
    if (started_.load(std::memory_order_relaxed)) return;
    // release: pairs with the acquire loads above: the thread is there.
    if (thread_.start(*inner_)) started_.store(true, std::memory_order_release);
  }
  image_media& inner() noexcept { return *inner_; }
  // Stops the thread and closes the image.
  status stop() noexcept {
    thread_.stop();
    return inner_->close();
  }

 private:
  std::unique_ptr<image_media> inner_;
  std::mutex starting_;
  std::atomic<bool> started_{false};
  checkpointer thread_;
};
static_assert(media<started_image>);

}  // namespace nvm
