// Spare leaves that a client has asked for, and changes in place for which it holds a leaf's bounds, by partition, in
// the order of asking.  Threads: one.
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
  void add(std::uint64_t partition) noexcept { ++last_of(partition).left; }
  // The same of a change in place.
  void add_hold(std::uint64_t partition) noexcept { ++last_of(partition).holds; }
  // Adds bytes that the promises of the partition added last are for.
  void add_bytes(std::uint64_t bytes) noexcept { rows_[count_ - 1].bytes += bytes; }
  // One of them is used.
  void use(std::uint64_t partition) noexcept {
    row* const r = find(partition, [](const row& x) { return x.left != 0; });
    NVM_ASSERT(r != nullptr);  // reserve()
    --r->left;
  }
  // A change is made in place; false: nothing was held for it.
  [[nodiscard]] bool use_hold(std::uint64_t partition) noexcept {
    row* const r = find(partition, [](const row& x) { return x.holds != 0; });
    if (r == nullptr) return false;
    --r->holds;
    return true;
  }
  // So many bytes are changed.  Returns how many spares are of no more use: none as long as there may be other rows of
  // the partition, since changes come in any order, and use each other's; release() gives those back.
  [[nodiscard]] std::uint64_t spend(std::uint64_t partition, std::uint64_t bytes) noexcept {
    row* const r = find(partition, [](const row& x) { return x.bytes != 0; });
    if (r == nullptr) return 0;
    r->bytes -= bytes < r->bytes ? bytes : r->bytes;
    if (r->bytes != 0 || !is_alone(*r)) return 0;
    const std::uint64_t left = r->left;
    r->left = 0;
    while (count_ != 0 && rows_[count_ - 1].is_spent()) --count_;
    if (mark_ > count_) mark_ = count_;
    return left;
  }

  // Later additions are in rows of their own.
  [[nodiscard]] std::size_t mark() noexcept { return mark_ = count_; }
  template <class Visit>
  void each_since(std::size_t mark, Visit&& visit) const noexcept {
    for (std::size_t i = mark; i < count_; ++i) visit(rows_[i].partition, rows_[i].left, rows_[i].holds);
  }
  void forget_since(std::size_t mark) noexcept { count_ = mark_ = mark; }

 private:
  struct row {
    std::uint64_t partition;
    std::uint64_t left;
    std::uint64_t bytes;
    std::uint64_t holds;
    [[nodiscard]] bool is_spent() const noexcept { return (left | bytes | holds) == 0; }
  };
  [[nodiscard]] row& last_of(std::uint64_t partition) noexcept {
    if (count_ == mark_ || rows_[count_ - 1].partition != partition) rows_[count_++] = {partition, 0, 0, 0};
    return rows_[count_ - 1];
  }
  // Changes come in the order of reserving, mostly: the search goes on where the last one ended.
  template <class Fits>
  [[nodiscard]] row* find(std::uint64_t partition, Fits&& fits) noexcept {
    for (std::size_t n = 0; n < count_; ++n, ++next_) {
      if (next_ >= count_) next_ = 0;
      if (rows_[next_].partition == partition && fits(rows_[next_])) return &rows_[next_];
    }
    return nullptr;
  }
  // Whether no other row is about its partition; false without a look if there are many rows.
  [[nodiscard]] bool is_alone(const row& r) const noexcept {
    if (count_ > looked_at_max) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (rows_[i].partition == r.partition && &rows_[i] != &r && !rows_[i].is_spent()) return false;
    }
    return true;
  }
  static constexpr std::size_t looked_at_max = 64;

  row* rows_ = nullptr;
  std::size_t count_ = 0, room_ = 0;
  std::size_t next_ = 0;
  std::size_t mark_ = 0;
};

}  // namespace nvm::logheap
