#include "isolation/limbo.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "sync/sync.hpp"

namespace nvm::isolation {

namespace {
struct orphans {
  spin_lock lock;
  std::vector<std::pair<void*, std::uint64_t>> list;
};
// Never destroyed: threads may end after this library's destructors have run.
orphans& of_ended_threads() noexcept {
  alignas(orphans) static std::byte room[sizeof(orphans)];
  static orphans& all = *new (room) orphans;
  return all;
}
}  // namespace

void limbo::add(void* p, std::uint64_t version) noexcept {
  try {
    list_.push_back({p, version});
  } catch (const std::bad_alloc&) {
    // No room to remember it: wait for it instead.  The transaction that freed it has ended.
    who_.wait_for_older(version);
    std::free(p);
    return;
  }
  if (list_.size() >= sweep_at_) sweep();
}

void limbo::sweep() noexcept {
  if (!list_.empty()) {
    const std::uint64_t oldest = who_.oldest_of_others(list_.back().version);
    const auto kept = std::find_if(list_.begin(), list_.end(), [&](const waiting& w) { return w.version > oldest; });
    for (auto w = list_.begin(); w != kept; ++w) std::free(w->p);
    list_.erase(list_.begin(), kept);
  }
  // The next sweep waits until the list has doubled, so that with one slow thread not each free looks at all of them.
  sweep_at_ = list_.size() * 2 + sweep_every;
  orphans& others = of_ended_threads();
  const std::lock_guard guard{others.lock};
  std::erase_if(others.list, [&](const auto& w) {
    const bool free_now = who_.oldest_of_others(w.second) >= w.second;
    if (free_now) std::free(w.first);
    return free_now;
  });
}

void limbo::hand_over() noexcept {
  sweep();
  if (list_.empty()) return;
  orphans& others = of_ended_threads();
  const std::lock_guard guard{others.lock};
  for (const waiting& w : list_) {
    try {
      others.list.emplace_back(w.p, w.version);
    } catch (const std::bad_alloc&) {
      who_.wait_for_older(w.version);
      std::free(w.p);
    }
  }
  list_.clear();
}

}  // namespace nvm::isolation
