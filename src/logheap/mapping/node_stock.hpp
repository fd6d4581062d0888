// Nodes that a client holds ready for its next changes, by stretch of home space.  Threads: one.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "logheap/mapping/node_store.hpp"

namespace nvm::logheap {

class node_stock {
 public:
  node_stock(node_store& store, std::uint64_t seed, unsigned height_max) noexcept
      : store_{store}, random_{seed * 0x9E37'79B9'7F4A'7C15U | 1}, height_max_{height_max} {}
  ~node_stock() {
    for (std::size_t i = 0; i < count_; ++i) store_.give(rows_[i].list);
    std::free(rows_);
  }
  node_stock(const node_stock&) = delete;
  node_stock& operator=(const node_stock&) = delete;

  // Promises so many more nodes for changes of so many bytes of this stretch; false: memory has run out, and nothing is
  // promised.
  [[nodiscard]] bool promise(std::uint64_t stretch, std::uint64_t nodes, std::uint64_t bytes) noexcept {
    row* r = find(stretch);
    if (r == nullptr) r = make(stretch);
    if (r == nullptr) return false;
    const std::uint64_t wanted = r->promised + nodes;
    if (r->count < wanted && !store_.fill(stretch, r->list, r->count, wanted + spare, random_, height_max_) &&
        r->count < wanted) {
      return false;
    }
    r->promised = wanted;
    r->bytes += bytes;
    return true;
  }
  void take_back(std::uint64_t stretch, std::uint64_t nodes, std::uint64_t bytes) noexcept {
    row* const r = find(stretch);
    r->promised -= nodes;
    r->bytes -= bytes;
  }
  // Ends all promises; nodes beyond a small stock go back to the store.
  void release() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      row& r = rows_[i];
      r.promised = 0;
      r.bytes = 0;
      if (r.count <= keep_max) continue;
      store_.give(r.list);
      r.list = 0;
      r.count = 0;
    }
  }

  // So many bytes of the stretch in use were changed: with the last of them its promise ends.
  void spend(std::uint64_t bytes) noexcept {
    if (current_ == nullptr) return;
    current_->bytes -= bytes < current_->bytes ? bytes : current_->bytes;
    if (current_->bytes == 0) current_->promised = 0;
  }
  // The stretch of the next changes.
  void use(std::uint64_t stretch) noexcept { current_ = find(stretch); }
  [[nodiscard]] node_number take(unsigned& height) noexcept {
    NVM_ASSERT(current_ != nullptr && current_->count != 0);
    const node_number n = current_->list;
    current_->list = next_dead(store_.node(n).where.load(std::memory_order_relaxed));
    --current_->count;
    if (current_->promised != 0) --current_->promised;
    height = store_.node(n).home.load(std::memory_order_relaxed);
    return n;
  }

 private:
  static constexpr std::uint64_t spare = 16;
  static constexpr std::uint64_t keep_max = 256;
  struct row {
    std::uint64_t stretch;
    std::uint64_t count;
    std::uint64_t promised;
    std::uint64_t bytes;  // that they are for
    node_number list;
  };
  [[nodiscard]] row* find(std::uint64_t stretch) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (rows_[i].stretch == stretch) return &rows_[i];
    }
    return nullptr;
  }
  [[nodiscard]] row* make(std::uint64_t stretch) noexcept {
    if (count_ == room_) {
      const std::size_t room = room_ == 0 ? 4 : 2 * room_;
      auto* more = static_cast<row*>(std::realloc(rows_, room * sizeof(row)));
      if (more == nullptr) return nullptr;
      rows_ = more;
      room_ = room;
      current_ = nullptr;
    }
    rows_[count_] = {stretch, 0, 0, 0, 0};
    return &rows_[count_++];
  }

  node_store& store_;
  std::uint64_t random_;
  const unsigned height_max_;
  row* rows_ = nullptr;
  std::size_t count_ = 0, room_ = 0;
  row* current_ = nullptr;
};

// Dead nodes in a limbo.
struct node_chain {
  using item = node_number;
  [[nodiscard]] node_number next(node_number n) const noexcept {
    return next_dead(store.node(n).where.load(std::memory_order_relaxed));
  }
  // release: pairs with readers' acquire; the node is unlinked.
  void set_next(node_number n, node_number to) const noexcept {
    store.node(n).where.store(dead_node(to), std::memory_order_release);
  }
  void give(node_number list) const noexcept { store.give(list); }
  node_store& store;
};

}  // namespace nvm::logheap
