// Runs of bits in an array of words: what an extent's descriptor knows about its slots.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace nvm::slot_bits {

inline bool test(const std::uint64_t* words, unsigned i) noexcept { return (words[i / 64] >> i % 64 & 1) != 0; }
inline void set(std::uint64_t* words, unsigned i) noexcept { words[i / 64] |= std::uint64_t{1} << i % 64; }
inline void clear(std::uint64_t* words, unsigned i) noexcept { words[i / 64] &= ~(std::uint64_t{1} << i % 64); }

// Calls f(word, mask) for each word that [first, first + count) touches.
template <class F>
inline void each_word(std::uint64_t* words, unsigned first, unsigned count, F&& f) noexcept {
  while (count != 0) {
    const unsigned at = first % 64;
    const unsigned here = std::min(count, 64 - at);
    f(words[first / 64], (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << at);
    first += here;
    count -= here;
  }
}
inline void set_range(std::uint64_t* words, unsigned first, unsigned count) noexcept {
  each_word(words, first, count, [](std::uint64_t& w, std::uint64_t mask) { w |= mask; });
}
inline void clear_range(std::uint64_t* words, unsigned first, unsigned count) noexcept {
  each_word(words, first, count, [](std::uint64_t& w, std::uint64_t mask) { w &= ~mask; });
}

// First bit in [from, end) whose value differs from those of `flip` (0 or all ones); `end` if there is none.
inline unsigned next(const std::uint64_t* words, unsigned from, unsigned end, std::uint64_t flip) noexcept {
  if (from >= end) return end;
  unsigned w = from / 64;
  std::uint64_t v = (words[w] ^ flip) >> from % 64 << from % 64;
  while (v == 0) {
    if (++w * 64 >= end) return end;
    v = words[w] ^ flip;
  }
  return std::min(w * 64 + static_cast<unsigned>(std::countr_zero(v)), end);
}
inline unsigned next_one(const std::uint64_t* words, unsigned from, unsigned end) noexcept {
  return next(words, from, end, 0);
}
inline unsigned next_zero(const std::uint64_t* words, unsigned from, unsigned end) noexcept {
  return next(words, from, end, ~std::uint64_t{0});
}
// Number of zeros right below `from`.
inline unsigned zeros_below(const std::uint64_t* words, unsigned from) noexcept {
  unsigned w = from / 64;
  unsigned count = from % 64;
  if (count != 0) {
    const std::uint64_t below = words[w] << (64 - count);
    if (below != 0) return static_cast<unsigned>(std::countl_zero(below));
  }
  for (; w-- > 0; count += 64) {
    if (words[w] != 0) return count + static_cast<unsigned>(std::countl_zero(words[w]));
  }
  return count;
}

}  // namespace nvm::slot_bits
