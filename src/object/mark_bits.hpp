// Marks of objects while a collector looks at a pool: words of 56 bits that are congruent with the allocation words of
// the extents, in the order of addresses, in memory that appears where something is marked.  So an allocation word and
// the mark word beside it differ by the garbage of 56 slots (HEAPO's Fast Scan as one operation).
#pragma once

#include <cstdint>

#include "space/face.hpp"

namespace nvm::object {

// Names a bit of a mark_bits.
class mark_place {
 public:
  constexpr mark_place() noexcept = default;
  constexpr mark_place(std::uint64_t word, unsigned bit) noexcept : code_{word << 6 | bit} {}
  [[nodiscard]] constexpr std::uint64_t word() const noexcept { return code_ >> 6; }
  [[nodiscard]] constexpr unsigned bit() const noexcept { return code_ & 63; }

 private:
  std::uint64_t code_ = 0;
};

// An object that was found.
struct found_object {
  std::uint64_t header = 0;  // offset of its header
  mark_place mark{};
};

// Threads: any number set and test.
class mark_bits {
 public:
  explicit mark_bits(std::uint64_t words) noexcept : words_{words}, count_{words} {}
  [[nodiscard]] bool exists() const noexcept { return words_.exists(); }
  [[nodiscard]] std::uint64_t words() const noexcept { return count_; }

  // False: it was set.  relaxed: a mark says nothing about the object's contents, which no thread changes.
  bool set(mark_place p) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << p.bit();
    const auto word = words_[p.word()];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
    return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  // The same where no other thread sets any.
  bool set_alone(mark_place p) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << p.bit();
    const auto word = words_[p.word()];
    const std::uint64_t old = word.load(std::memory_order_relaxed);
    word.store(old | bit, std::memory_order_relaxed);
    return (old & bit) == 0;
  }
  [[nodiscard]] bool test(mark_place p) const noexcept { return (word(p.word()) >> p.bit() & 1) != 0; }
  void clear(mark_place p) noexcept {
    words_[p.word()].fetch_and(~(std::uint64_t{1} << p.bit()), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t index) const noexcept {
    return words_[index].load(std::memory_order_relaxed);
  }

 private:
  sparse_array<std::uint64_t> words_;
  std::uint64_t count_;
};

}  // namespace nvm::object
