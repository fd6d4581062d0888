// The pieces of one partition in one block of memory, in order: 12 bytes each.
//
//   link, count, capacity, holders, holes   24 bytes
//   first bytes, last bytes                 2 bytes for each of capacity, counted from the partition's start; constant
//                                           once others see the leaf; beside the count
//   log addresses                           8 bytes for each; change in place, one atomic store
//
// A piece whose log address is 0 is a hole: its bytes are nowhere, its bounds are kept until it is filled again.
// Pieces do not overlap.  A probe may read a few first bytes too many, which are other words; hence the smallest
// capacities.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/inlining.hpp"
#include "logheap/mapping.hpp"

namespace nvm::logheap {

struct leaf {
  std::uintptr_t link;  // another leaf; belongs to the holder of the partition's lock, or to a limbo
  std::uint32_t count;
  std::uint32_t capacity;
  std::uint32_t holders;  // changes to come, in place: bounds stay until they are made.  Under the partition's lock
  std::uint32_t holes;    // pieces.  Under the partition's lock

  [[nodiscard]] std::uint16_t* firsts() noexcept { return reinterpret_cast<std::uint16_t*>(this + 1); }
  [[nodiscard]] std::uint16_t* lasts() noexcept { return firsts() + capacity; }
  [[nodiscard]] std::atomic<log_t>* logs() noexcept {
    return reinterpret_cast<std::atomic<log_t>*>(reinterpret_cast<std::byte*>(this + 1) + bounds_bytes(capacity));
  }

  [[nodiscard]] static constexpr std::uint32_t capacity_for(std::uint64_t pieces) noexcept {
    return static_cast<std::uint32_t>(pieces <= 4 ? 4 : pieces <= 8 ? 8 : pieces);
  }
  [[nodiscard]] static constexpr std::uint64_t bytes_for(std::uint32_t capacity) noexcept {
    return sizeof(leaf) + bounds_bytes(capacity) + std::uint64_t{capacity} * sizeof(log_t);
  }
  [[nodiscard]] static constexpr std::uint64_t bounds_bytes(std::uint32_t capacity) noexcept {
    return round_up(std::uint64_t{capacity} * 4, sizeof(log_t));
  }
  // Appends a piece at the end, in order, while no other thread sees the leaf.  It is merged with its neighbour if the
  // two are neighbours in the log, too.
  void append(std::uint64_t first, std::uint64_t end, log_t log) noexcept {
    if (count != 0 && lasts()[count - 1] + std::uint64_t{1} == first) {
      const std::uint64_t before = firsts()[count - 1];
      if (logs()[count - 1].load(std::memory_order_relaxed) + (first - before) == log) {
        lasts()[count - 1] = static_cast<std::uint16_t>(end - 1);
        return;
      }
    }
    push(first, end, log);
  }
  // The same, as a piece of its own.
  void push(std::uint64_t first, std::uint64_t end, log_t log) noexcept {
    NVM_ASSERT(count < capacity && first < end);
    holes += log == 0 ? 1 : 0;
    logs()[count].store(log, std::memory_order_relaxed);
    firsts()[count] = static_cast<std::uint16_t>(first);
    lasts()[count] = static_cast<std::uint16_t>(end - 1);
    ++count;
  }
  // Pieces [from, to) of another leaf, whose lock is held, as they are.
  void push_all(leaf& other, std::uint32_t from, std::uint32_t to) noexcept {
    const std::uint32_t n = to - from;
    NVM_ASSERT(count + n <= capacity);
    std::memcpy(static_cast<void*>(logs() + count), static_cast<const void*>(other.logs() + from), n * sizeof(log_t));
    std::memcpy(firsts() + count, other.firsts() + from, n * sizeof(std::uint16_t));
    std::memcpy(lasts() + count, other.lasts() + from, n * sizeof(std::uint16_t));
    if (other.holes != 0) {
      for (std::uint32_t i = 0; i < n; ++i) holes += logs()[count + i].load(std::memory_order_relaxed) == 0 ? 1 : 0;
    }
    count += n;
  }
};
static_assert(sizeof(leaf) == 24);

// How many of `count` ascending numbers are at most x, one at a time.
[[nodiscard]] inline std::uint32_t count_up_to_plainly(const std::uint16_t* numbers, std::uint32_t count,
                                                       std::uint16_t x) noexcept {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (numbers[middle] <= x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The same by eight at a time: halves it down to a few lines, then compares them all, without a branch that depends on
// x.  The vectors are the compiler's: instructions where the processor has them, a loop where not.  Up to seven numbers
// after the last are read and ignored.
[[nodiscard, NVM_INLINE]] inline std::uint32_t count_up_to(const std::uint16_t* numbers, std::uint32_t count,
                                                           std::uint16_t x) noexcept {
  using eight = std::uint16_t __attribute__((vector_size(16)));
  constexpr std::uint32_t compared_max = 64;
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > compared_max) {
    const std::uint32_t middle = (low + high) / 2;
    if (numbers[middle] <= x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const eight wanted = eight{} + x;
  const std::uint16_t left = static_cast<std::uint16_t>(high - low);
  eight sum{};
  eight index{0, 1, 2, 3, 4, 5, 6, 7};
  const eight valid = eight{} + left;
  for (std::uint32_t i = 0; i < left; i += 8) {
    eight some;
    std::memcpy(&some, numbers + low + i, sizeof some);
    sum -= reinterpret_cast<eight>((some <= wanted) & (index < valid));
    index += 8;
  }
  std::uint64_t halves[2];
  std::memcpy(halves, &sum, sizeof halves);
  // At most 8 in each of four numbers of 16 bits.
  const std::uint64_t both = halves[0] + halves[1];
  return low + static_cast<std::uint32_t>(both * 0x0001'0001'0001'0001U >> 48);
}

}  // namespace nvm::logheap
