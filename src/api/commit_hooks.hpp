// Hooks of commits that are ordered and not yet known to be durable (nvm_tx_commit_async()), of one pool.
//
// Each commit's hooks are taken out once, by a thread that has nothing open in the pool and finds out what became of
// the commit: after it has waited for a commit (nvm_wait(), nvm_tx_commit(), barriers), after its own
// nvm_tx_commit_async(), or when it closes the pool.
//
// Threads: any.  The lock is a leaf: hooks run after it is released.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "nvm/nvm.h"
#include "tx/face.hpp"

namespace nvm::api {

class waiting_hooks {
 public:
  struct commit {
    lsn_t lsn;
    std::vector<tx::hook> hooks;
  };
  // May throw std::bad_alloc; then the hooks are still the caller's.
  void add(lsn_t lsn, std::vector<tx::hook>& hooks) {
    const std::lock_guard guard{lock_};
    commits_.emplace_back().lsn = lsn;
    commits_.back().hooks.swap(hooks);
    // release: pairs with the acquire in any().
    any_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  [[nodiscard]] lsn_t newest() noexcept {
    const std::lock_guard guard{lock_};
    lsn_t newest = 0;
    for (const commit& c : commits_) newest = std::max(newest, c.lsn);
    return newest;
  }
  // One commit of which over(lsn) holds, the oldest; false: there is none.
  template <class Over>
  [[nodiscard]] bool take(commit& out, Over&& over) noexcept {
    const std::lock_guard guard{lock_};
    auto oldest = commits_.end();
    for (auto c = commits_.begin(); c != commits_.end(); ++c) {
      if (over(c->lsn) && (oldest == commits_.end() || c->lsn < oldest->lsn)) oldest = c;
    }
    if (oldest == commits_.end()) return false;
    out = std::move(*oldest);
    commits_.erase(oldest);
    if (commits_.empty()) any_.store(false, std::memory_order_release);
    return true;
  }

 private:
  std::mutex lock_;
  std::vector<commit> commits_;  // in the order in which they were added
  std::atomic<bool> any_{false};
};

// Runs the hooks for this event; of a level that was rolled back only its ABORT hooks.
void run_hooks(nvm_pool* pool, std::span<const tx::hook> hooks, nvm_tx_event event) noexcept;
// Runs the pool's waiting hooks whose commit's outcome is known: COMMIT for durable commits; IN_DOUBT for the rest, if
// the pool's medium has `failed`.  Runs none while this thread has a transaction open.
void run_waiting_hooks(nvm_pool* pool, bool failed) noexcept;
[[nodiscard]] inline bool is_failure_of_medium(const status& s) noexcept {
  return s.error() == errc::io || s.error() == errc::in_doubt;
}

[[nodiscard]] constexpr bool is_event(int event) noexcept {
  return event >= NVM_TX_ON_COMMIT && event <= NVM_TX_ON_IN_DOUBT;
}

// Waits for a commit of the pool.  errc::in_doubt: a sync failed that the commit needed.
[[nodiscard]] status wait_for_commit(nvm_pool* pool, lsn_t lsn) noexcept;

}  // namespace nvm::api
