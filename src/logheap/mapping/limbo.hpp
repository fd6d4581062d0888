// Items that a client has unlinked and others may still look at: freed in batches, when all threads that were inside
// have moved on.  Needs no memory: waiting items are linked through themselves.
//
// Chain:  item (a number or a pointer, 0: none), next(item), set_next(item, item), give(item): frees a list.
// Threads: a limbo belongs to one thread, orphans to all.
#pragma once

#include <cstdint>
#include <mutex>

#include "sync/sync.hpp"

namespace nvm::logheap {

// Limbos of clients that have gone, for the next one that comes.
template <class Item>
struct orphans {
  spin_lock lock;
  Item list{};
};

template <class Chain>
class limbo {
 public:
  using item = typename Chain::item;

  limbo(Chain chain, epochs& readers, orphans<item>& left) noexcept : chain_{chain}, epochs_{readers}, orphans_{left} {
    const std::lock_guard hold{left.lock};
    open_ = left.list;
    left.list = item{};
    open_count_ = open_ == item{} ? 0 : batch;
  }
  ~limbo() {
    hand_over(open_);
    hand_over(waiting_);
  }
  limbo(const limbo&) = delete;
  limbo& operator=(const limbo&) = delete;

  // Takes an unlinked node.  Threads that may still read it do not read its link, or the link says that it is dead.
  void add(item i) noexcept {
    chain_.set_next(i, open_);
    open_ = i;
    ++open_count_;
  }
  // Frees the nodes that no thread can read; a barrier in all threads once for a batch.
  void sweep() noexcept {
    if (open_count_ < batch) return;
    if (waiting_ != item{}) {
      if (!epochs_.passed(then_)) return;
      chain_.give(waiting_);
    }
    epochs_.take_vector(then_);
    waiting_ = open_;
    open_ = item{};
    open_count_ = 0;
  }

 private:
  static constexpr std::uint64_t batch = 128;
  void hand_over(item list) noexcept {
    if (list == item{}) return;
    const std::lock_guard hold{orphans_.lock};
    item last = list;
    while (chain_.next(last) != item{}) last = chain_.next(last);
    chain_.set_next(last, orphans_.list);
    orphans_.list = list;
  }

  Chain chain_;
  epochs& epochs_;
  orphans<item>& orphans_;
  item open_{}, waiting_{};
  std::uint64_t open_count_ = 0;
  epochs::vector then_;
};

}  // namespace nvm::logheap
