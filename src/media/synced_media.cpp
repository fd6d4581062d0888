#include "media/synced_media.hpp"

#include <cstdio>

namespace nvm {

void synced_media::fence(edge e) noexcept {
  std::unique_lock held{order_};
  const std::uint64_t number = ++asked_;
  waits_.fetch_add(1, std::memory_order_relaxed);
  while (done_ < number && !failed_.load(std::memory_order_relaxed)) {
    if (syncing_) {
      synced_.wait(held);
      continue;
    }
    syncing_ = true;
    const std::uint64_t serves = asked_;
    held.unlock();
    const status s = device_.sync(e);
    if (!s && on_failure_ != nullptr) on_failure_(context_);
    held.lock();
    syncing_ = false;
    if (s) {
      done_ = serves;
      syncs_.fetch_add(1, std::memory_order_relaxed);
    } else {
      refuse(last_message());
    }
    synced_.notify_all();
  }
}

status synced_media::durable(lsn_t) noexcept {
  // acquire: pairs with the release in fence().
  if (!failed_.load(std::memory_order_acquire)) return {};
  return fail(errc::io, "%s takes no more commits: %s", name_, reason_);
}

void synced_media::poison(const char* reason) noexcept {
  std::unique_lock held{order_};
  synced_.wait(held, [this] { return !syncing_; });
  syncing_ = true;
  held.unlock();
  if (on_failure_ != nullptr) on_failure_(context_);
  held.lock();
  syncing_ = false;
  if (!failed_.load(std::memory_order_relaxed)) refuse(reason);
  synced_.notify_all();
}

void synced_media::refuse(const char* reason) noexcept {
  std::snprintf(reason_, sizeof reason_, "%s", reason);
  // release: pairs with the acquire in durable(): what on_failure() did is done.
  failed_.store(true, std::memory_order_release);
}

}  // namespace nvm
