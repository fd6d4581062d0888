// Index of lines: a hash table of the numbers of entries that the user keeps in the order of first touch.  Forgetting
// all is O(1).
//
// line_of(i) says which line entry i is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/inlining.hpp"

namespace nvm::isolation {

class line_index {
 public:
  static constexpr std::size_t npos = ~std::size_t{0};

  // `slots` is a power of two.  May throw std::bad_alloc.
  explicit line_index(std::size_t slots) : slots_(slots) {}

  // Most entries before enlarge() is needed.
  [[nodiscard]] std::size_t room() const noexcept { return slots_.size() / 2; }

  // npos: the line has none.
  template <class LineOf>
  [[nodiscard, NVM_INLINE]] std::size_t find(std::uint64_t line, LineOf&& line_of) const noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (s.epoch != epoch_) return npos;
      if (line_of(s.entry) == line) return s.entry;
    }
  }
  // The same; a line without an entry gets `next`, the number of entries so far, if there is room.
  template <class LineOf>
  [[nodiscard, NVM_INLINE]] std::size_t at(std::uint64_t line, std::size_t next, LineOf&& line_of) noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      slot& s = slots_[i];
      if (s.epoch != epoch_) {
        if (next >= room()) return npos;
        s = {epoch_, static_cast<std::uint32_t>(next)};
        return next;
      }
      if (line_of(s.entry) == line) return s.entry;
    }
  }

  void forget() noexcept {
    if (++epoch_ == 0) {  // wrapped: old slots would look current
      slots_.assign(slots_.size(), slot{});
      epoch_ = 1;
    }
  }
  // Makes room for twice as many as the present `count`.  May throw std::bad_alloc, changing nothing.
  template <class LineOf>
  void enlarge(std::size_t count, LineOf&& line_of) {
    std::vector<slot> larger(slots_.size() * 2);
    slots_.swap(larger);
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t i = hash(line_of(k));
      while (slots_[i].epoch == epoch_) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = {epoch_, static_cast<std::uint32_t>(k)};
    }
  }

 private:
  struct slot {
    std::uint32_t epoch = 0;
    std::uint32_t entry = 0;
  };
  [[nodiscard]] std::size_t hash(std::uint64_t line) const noexcept {
    return static_cast<std::size_t>(line * 0x9E3779B97F4A7C15ULL >> 20) & (slots_.size() - 1);
  }

  std::vector<slot> slots_;
  std::uint32_t epoch_ = 1;
};

}  // namespace nvm::isolation
