// Lines of memory with some of their bytes: the new ones that a transaction will write home, or the old ones that it
// will put back.  In order of first touch, found by a hash.  Clearing is O(1), and memory is kept from one transaction
// to the next.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "isolation/shared_memory.hpp"
#include "isolation/written_line.hpp"

namespace nvm::isolation {

// Mask of n bytes from byte `from` of a line; n is 1 to 64.
[[nodiscard]] constexpr std::uint64_t bytes_mask(unsigned from, std::size_t n) noexcept {
  return (~std::uint64_t{0} >> (line_bytes - n)) << from;
}

// Calls visit(from, n) for each maximal run of bytes in `mask`.
template <class Visit>
void each_run(std::uint64_t mask, Visit&& visit) {
  while (mask != 0) {
    const auto from = static_cast<unsigned>(std::countr_zero(mask));
    const auto n = static_cast<unsigned>(std::countr_one(mask >> from));
    visit(from, std::size_t{n});
    if (from + n == line_bytes) return;
    mask &= ~std::uint64_t{0} << (from + n);
  }
}

class line_table {
 public:
  static constexpr std::size_t npos = ~std::size_t{0};

  line_table() : slots_(slots_first), lines_{std::make_unique_for_overwrite<written_line[]>(slots_first / 2)} {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const written_line> lines() const noexcept { return {lines_.get(), size_}; }
  [[nodiscard]] written_line& operator[](std::size_t i) noexcept { return lines_[i]; }

  void clear() noexcept {
    if (size_ == 0) return;
    size_ = 0;
    if (slots_.size() > keep_slots_max) give_memory_back();
    forget_slots();
  }

  // Index of the line, npos: it is not there.
  [[nodiscard]] std::size_t find(std::uint64_t line) const noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (s.epoch != epoch_) return npos;
      if (lines_[s.index].line == line) return s.index;
    }
  }
  // Index of the line, which is added with an empty mask if it is not there; npos: there is no room for that.
  [[nodiscard, gnu::always_inline]] std::size_t at_quickly(std::uint64_t line) noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      slot& s = slots_[i];
      if (s.epoch == epoch_) {
        if (lines_[s.index].line == line) return s.index;
        continue;
      }
      if (size_ == slots_.size() / 2) return npos;
      lines_[size_].line = line;
      lines_[size_].mask = 0;
      s = {epoch_, static_cast<std::uint32_t>(size_)};
      return size_++;
    }
  }
  // May throw std::bad_alloc, changing nothing.
  [[nodiscard]] std::size_t at(std::uint64_t line) {
    std::size_t i = at_quickly(line);
    if (i != npos) return i;
    enlarge();
    return at_quickly(line);
  }

  // Removes lines without bytes; what find() and at() said is void, and they may not be called before clear().
  void drop_empty_lines() noexcept {
    written_line* const end = lines_.get() + size_;
    size_ = static_cast<std::size_t>(
        std::remove_if(lines_.get(), end, [](const written_line& w) { return w.mask == 0; }) - lines_.get());
    forget_slots();  // they name places where other lines are now, or none
  }

  // All bytes to where they belong.
  void store_home() const noexcept {
    for (const written_line& w : lines()) isolation::store_home(w);
  }

 private:
  static constexpr std::size_t slots_first = 128;
  static constexpr std::size_t keep_slots_max = 1 << 17;

  struct slot {
    std::uint32_t epoch = 0;
    std::uint32_t index = 0;
  };

  [[nodiscard]] std::size_t hash(std::uint64_t line) const noexcept {
    return static_cast<std::size_t>(line * 0x9E3779B97F4A7C15ULL >> 20) & (slots_.size() - 1);
  }
  void forget_slots() noexcept {
    if (++epoch_ == 0) {  // wrapped: old slots would look current
      slots_.assign(slots_.size(), slot{});
      epoch_ = 1;
    }
  }
  [[gnu::noinline]] void enlarge() {
    std::vector<slot> slots(slots_.size() * 2);
    auto lines = std::make_unique_for_overwrite<written_line[]>(slots_.size());
    std::copy_n(lines_.get(), size_, lines.get());
    lines_ = std::move(lines);
    slots_.swap(slots);
    for (std::uint32_t k = 0; k < size_; ++k) {
      std::size_t i = hash(lines_[k].line);
      while (slots_[i].epoch == epoch_) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = {epoch_, k};
    }
  }
  [[gnu::noinline]] void give_memory_back() noexcept try {
    std::vector<slot> slots(slots_first);
    lines_ = std::make_unique_for_overwrite<written_line[]>(slots_first / 2);
    slots_ = std::move(slots);
  } catch (const std::bad_alloc&) {
    // Then it is kept.
  }

  std::vector<slot> slots_;
  std::unique_ptr<written_line[]> lines_;  // room for half as many as there are slots
  std::size_t size_ = 0;
  std::uint32_t epoch_ = 1;
};

}  // namespace nvm::isolation
