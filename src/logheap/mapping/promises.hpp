// Spare leaves that a client has asked for, by partition, in the order of asking.  Of one thread.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/base.hpp"

namespace nvm::logheap {

class promises {
 public:
  promises() noexcept = default;
  ~promises() { std::free(rows_); }
  promises(const promises&) = delete;
  promises& operator=(const promises&) = delete;

  // For one more; false: no memory.
  [[nodiscard]] bool make_room() noexcept {
    if (count_ < room_) return true;
    const std::size_t room = room_ == 0 ? 16 : 2 * room_;
    auto* more = static_cast<row*>(std::realloc(rows_, room * sizeof(row)));
    if (more == nullptr) return false;
    rows_ = more;
    room_ = room;
    return true;
  }
  void add(std::uint64_t partition) noexcept {
    if (count_ > mark_ && rows_[count_ - 1].partition == partition) {
      ++rows_[count_ - 1].left;
    } else {
      rows_[count_++] = {partition, 1};
    }
  }
  // Changes come in the order of reserving, mostly: the search goes on where the last one ended.
  void use(std::uint64_t partition) noexcept {
    for (std::size_t n = 0; n < count_; ++n, ++next_) {
      if (next_ >= count_) next_ = 0;
      if (rows_[next_].partition != partition || rows_[next_].left == 0) continue;
      --rows_[next_].left;
      return;
    }
    NVM_ASSERT(!"a change was reserved");
  }

  // What is added from here on is in rows of its own.
  [[nodiscard]] std::size_t mark() noexcept { return mark_ = count_; }
  template <class Visit>
  void each_since(std::size_t mark, Visit&& visit) const noexcept {
    for (std::size_t i = mark; i < count_; ++i) visit(rows_[i].partition, rows_[i].left);
  }
  void forget_since(std::size_t mark) noexcept { count_ = mark_ = mark; }

 private:
  struct row {
    std::uint64_t partition;
    std::uint64_t left;
  };
  row* rows_ = nullptr;
  std::size_t count_ = 0, room_ = 0;
  std::size_t next_ = 0;
  std::size_t mark_ = 0;
};

}  // namespace nvm::logheap
