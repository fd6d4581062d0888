// Objects that threads without a transaction have freed: they wait for a transaction that may free them.
//
// An object must not be freed before the transaction has committed that unlinked it: a crash would bring back the link.
// Which transaction that is, if any, cannot be known; so an object waits until each transaction has ended that was open
// when it was left, except the one that commits now and frees it (`turns`, engine::turns_of()).
//
// An object of an object store is freed in the attachment of the store in which it was left.  After a detach it is the
// store's collector's: freed before, its place may be another object's.
//
// Crashes.  Nothing of this is durable: objects that wait stay allocated.
//
// Threads: any; a mutex.  `any()` is asked by each commit, and is a load.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "engine/engine.hpp"

namespace nvm::api {

class late_frees {
 public:
  struct turn {
    unsigned lane = 0;
    std::uint64_t count = 0;
  };
  struct object {
    std::uint64_t payload = 0;
    std::uint64_t attachment = 0;  // of its object store; 0: it is in none
    std::vector<turn> open;        // transactions at that moment
  };

  // relaxed: a commit may miss an object that is left at the same moment; the next commit finds it.
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  [[nodiscard]] std::size_t waiting() const noexcept { return count_.load(std::memory_order_relaxed); }
  // Whether so many wait that a thread without a transaction frees some: again when there are twice as many as were
  // left, since each try looks at all of them.
  [[nodiscard]] bool are_many() const noexcept {
    return count_.load(std::memory_order_relaxed) > many_.load(std::memory_order_relaxed);
  }
  void tried() noexcept {
    many_.store(std::max(many_min, 2 * count_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  }

  // May throw std::bad_alloc; then nothing is left.
  void leave(const engines::engine& e, std::uint64_t payload, std::uint64_t attachment) {
    object o{payload, attachment, {}};
    for (unsigned lane = 0; lane < e.lanes(); ++lane) {
      const std::uint64_t turns = e.turns_of(lane);
      if ((turns & 1) != 0) o.open.push_back({lane, turns});
    }
    const std::lock_guard guard{lock_};
    waiting_.push_back(std::move(o));
    count_.store(waiting_.size(), std::memory_order_relaxed);
  }

  // Takes those out that a transaction on this lane may free now; `count_max` at a time, so that a commit does not
  // become long.  May throw std::bad_alloc; then all of them wait as before.
  [[nodiscard]] std::vector<object> take(const engines::engine& e, unsigned lane, std::size_t count_max) {
    std::vector<object> taken;
    const std::lock_guard guard{lock_};
    // Before anything moves: an object that lost its list of transactions would be freed too early.
    taken.reserve(std::min(waiting_.size(), count_max));
    std::size_t kept = 0;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      object& o = waiting_[i];
      std::erase_if(o.open, [&](const turn& t) { return e.turns_of(t.lane) != t.count; });
      const bool may = o.open.empty() || (o.open.size() == 1 && o.open.front().lane == lane);
      if (may && taken.size() < count_max) {
        taken.push_back(std::move(o));
      } else if (kept++ != i) {
        waiting_[kept - 1] = std::move(o);
      }
    }
    waiting_.resize(kept);
    count_.store(kept, std::memory_order_relaxed);
    return taken;
  }
  // Calls visit(payload) for each object that waits: whatever leads there, this class frees it.
  template <class Visit>
  void each(Visit&& visit) {
    const std::lock_guard guard{lock_};
    for (const object& o : waiting_) visit(o.payload);
  }
  // The transaction did not commit.
  void put_back(std::vector<object>&& objects) noexcept {
    const std::lock_guard guard{lock_};
    try {
      for (object& o : objects) waiting_.push_back(std::move(o));
    } catch (const std::bad_alloc&) {  // the others stay allocated, as after a crash
    }
    count_.store(waiting_.size(), std::memory_order_relaxed);
  }

 private:
  std::mutex lock_;
  std::vector<object> waiting_;
  static constexpr std::size_t many_min = 256;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> many_{many_min};
};

}  // namespace nvm::api
