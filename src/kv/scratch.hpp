// Private memory of an operation: copies of keys, and of values for operations that change them.
//
// A conflict may leave an operation by longjmp, so nothing in its frames owns memory: the buffers are the thread's, and
// the next operation uses them again.  While a caller's function runs inside an operation (update), operations that it
// starts itself are one level deeper and have buffers of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/base.hpp"

namespace nvm::keyed {

class scratch {
 public:
  // Memory that is valid until the next reset(); nullptr: no volatile memory.
  [[nodiscard]] std::byte* take(std::size_t bytes) noexcept try {
    bytes = round_up(bytes == 0 ? 1 : bytes, 16);
    while (at_ < blocks_.size()) {
      block& b = blocks_[at_];
      if (b.used + bytes <= b.bytes) {
        std::byte* p = b.memory.get() + b.used;
        b.used += bytes;
        return p;
      }
      ++at_;
    }
    const std::size_t size = bytes < block_bytes ? block_bytes : bytes;
    at_ = blocks_.size();
    blocks_.push_back({std::unique_ptr<std::byte[]>{new std::byte[size]}, size, bytes});
    return blocks_.back().memory.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  // Gives back what was taken since: for walks that need a little of many things.
  struct mark {
    std::size_t at = 0;
    std::size_t used = 0;
  };
  [[nodiscard]] mark here() const noexcept { return {at_, at_ < blocks_.size() ? blocks_[at_].used : 0}; }
  void rewind(mark m) noexcept {
    for (std::size_t i = m.at; i < blocks_.size(); ++i) blocks_[i].used = i == m.at ? m.used : 0;
    at_ = m.at;
  }
  // Large blocks are not kept.
  void reset() noexcept {
    at_ = 0;
    for (block& b : blocks_) b.used = 0;
    while (!blocks_.empty() && (blocks_.size() > blocks_kept || blocks_.back().bytes > block_bytes)) blocks_.pop_back();
  }

  // That of this thread at its present level.
  static scratch& of_thread() noexcept;
  // An operation begins, at the level that follows from how many functions of callers are running.
  static void begin() noexcept;
  static constexpr unsigned levels_max = 8;
  static unsigned level() noexcept;
  // A function of the caller is about to run; false: too many levels, or no memory for another.  return_to() ends that.
  [[nodiscard]] static bool enter() noexcept;
  // Leaves all levels above.
  static void return_to(unsigned level) noexcept;

 private:
  static constexpr std::size_t block_bytes = 64 << 10;
  static constexpr std::size_t blocks_kept = 4;
  struct block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
    std::size_t used;
  };
  struct thread_buffers;
  static thread_buffers& mine() noexcept;
  std::vector<block> blocks_;
  std::size_t at_ = 0;
};

// Memory of the thread itself is scarce (base/result.cpp): levels above the first are rare and lie elsewhere.
struct scratch::thread_buffers {
  scratch first;
  std::unique_ptr<scratch[]> deeper;  // levels 1 and above, once one was entered
  unsigned level = 0;
};
inline scratch::thread_buffers& scratch::mine() noexcept {
  thread_local thread_buffers buffers;
  return buffers;
}
inline scratch& scratch::of_thread() noexcept {
  thread_buffers& b = mine();
  return b.level == 0 ? b.first : b.deeper[b.level - 1];
}
inline unsigned scratch::level() noexcept { return mine().level; }
inline void scratch::begin() noexcept { of_thread().reset(); }
inline bool scratch::enter() noexcept {
  thread_buffers& b = mine();
  if (b.level + 1 == levels_max) return false;
  if (b.deeper == nullptr) b.deeper.reset(new (std::nothrow) scratch[levels_max - 1]);
  if (b.deeper == nullptr) return false;
  ++b.level;
  return true;
}
inline void scratch::return_to(unsigned level) noexcept { mine().level = std::min(mine().level, level); }

}  // namespace nvm::keyed
