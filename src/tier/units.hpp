// The units of the second file's slots that are in use: a bit each, searched from where the last search ended.
//
// Threads: one at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <vector>

#include "base/base.hpp"

namespace nvm::tier {

class unit_map {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  // Takes `count` free units in one piece; at the end of the file if there is no such piece before.  none: no volatile
  // memory, or more than `units_max`.
  [[nodiscard]] std::uint64_t take(std::uint64_t count, std::uint64_t units_max) noexcept {
    std::uint64_t at = none;
    // If half of the units ever used is free, a piece is likely to be found soon.
    if (free_ >= count && (count <= small || free_ >= end_ / 2)) {
      at = find(cursor_, end_, count);
      if (at == none) at = find(0, cursor_ + count < end_ ? cursor_ + count : end_, count);
    }
    if (at == none) {
      if (count > units_max || end_ > units_max - count || !make_longer(end_ + count)) return none;
      at = end_;
      free_ += count;
      end_ += count;
    }
    set(at, count);
    cursor_ = at + count;
    return at;
  }
  // Takes these units, which a file's words claim. False: some are taken already, or no memory.
  [[nodiscard]] bool take_these(std::uint64_t first, std::uint64_t count) noexcept {
    if (first + count > end_) {
      if (!make_longer(first + count)) return false;
      free_ += first + count - end_;
      end_ = first + count;
    }
    for (std::uint64_t i = first; i < first + count; ++i) {
      if (taken(i)) return false;
    }
    set(first, count);
    return true;
  }
  void give(std::uint64_t first, std::uint64_t count) noexcept {
    for (std::uint64_t i = first; i < first + count; ++i) {
      NVM_ASSERT(taken(i));
      words_[i / 64] &= ~(std::uint64_t{1} << i % 64);
    }
    free_ += count;
  }
  [[nodiscard]] std::uint64_t used() const noexcept { return end_ - free_; }
  // Units from here on were never used.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

 private:
  static constexpr std::uint64_t small = 8;  // of one page: always worth a search

  [[nodiscard]] bool taken(std::uint64_t unit) const noexcept { return (words_[unit / 64] >> unit % 64 & 1) != 0; }
  void set(std::uint64_t first, std::uint64_t count) noexcept {
    for (std::uint64_t i = first; i < first + count; ++i) words_[i / 64] |= std::uint64_t{1} << i % 64;
    free_ -= count;
  }
  [[nodiscard]] std::uint64_t find(std::uint64_t from, std::uint64_t to, std::uint64_t count) const noexcept {
    std::uint64_t run = 0;
    for (std::uint64_t i = from; i < to;) {
      if (i % 64 == 0 && words_[i / 64] == ~std::uint64_t{0}) {
        run = 0;
        i += 64;
        continue;
      }
      run = taken(i) ? 0 : run + 1;
      ++i;
      if (run == count) return i - count;
    }
    return none;
  }
  [[nodiscard]] bool make_longer(std::uint64_t units) noexcept try {
    words_.resize(ceil_div(units, std::uint64_t{64}));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::vector<std::uint64_t> words_;
  std::uint64_t end_ = 0;   // units that have ever been used
  std::uint64_t free_ = 0;  // of these
  std::uint64_t cursor_ = 0;
};

}  // namespace nvm::tier
