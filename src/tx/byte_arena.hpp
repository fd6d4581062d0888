// Volatile bump allocator for the old bytes of ranges that need no durable undo record: inner savepoint levels, and
// every level on a medium with atomic batches.  Reset in O(1); keeps one block for reuse.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace nvm::tx {

class byte_arena {
 public:
  // Copy of [p, p + bytes); stays until reset().  May throw std::bad_alloc.
  const std::byte* keep(const std::byte* p, std::size_t bytes) {
    if (blocks_.empty() || blocks_.back().bytes - used_ < bytes) {
      const std::size_t size = std::max<std::size_t>({bytes, 4096, blocks_.empty() ? 0 : 2 * blocks_.back().bytes});
      blocks_.push_back({std::unique_ptr<std::byte[]>{new std::byte[size]}, size});
      used_ = 0;
    }
    std::byte* to = blocks_.back().data.get() + used_;
    used_ += bytes;
    std::memcpy(to, p, bytes);
    return to;
  }

  void reset() noexcept {
    if (blocks_.size() > 1 || (!blocks_.empty() && blocks_.back().bytes > keep_bytes_max)) blocks_.clear();
    used_ = 0;
  }

 private:
  static constexpr std::size_t keep_bytes_max = std::size_t{1} << 20;
  struct block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };
  std::vector<block> blocks_;
  std::size_t used_ = 0;
};

}  // namespace nvm::tx
