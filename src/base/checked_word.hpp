// A 64-bit word that proves itself: 56 bits of content and a CRC-8 of them in the top byte.
//
// Allocation state changes by single aligned 8-byte stores, so its check has to be in the same eight bytes.  The CRC
// finds every single-bit error and every error confined to one byte (bursts up to 8 bits); `seed` binds a word to its
// place, so that a word that landed elsewhere fails too.  The all-zero word is valid everywhere and means "nothing":
// zeroed memory is a valid empty bitmap and a valid free page.
#pragma once

#include <array>
#include <cstdint>

namespace nvm {

namespace detail {
// CRC-8, polynomial x^8 + x^5 + x^3 + x^2 + x + 1 (0x2F): detects all double-bit errors up to 127 bits.
inline constexpr std::array<std::array<std::uint8_t, 256>, 8> crc8_tables = [] {
  std::array<std::array<std::uint8_t, 256>, 8> t{};
  for (unsigned i = 0; i < 256; ++i) {
    unsigned c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 0x80) ? (c << 1) ^ 0x2F : c << 1;
    t[0][i] = static_cast<std::uint8_t>(c);
  }
  for (unsigned k = 1; k < 8; ++k)
    for (unsigned i = 0; i < 256; ++i) t[k][i] = t[0][t[k - 1][i]];
  return t;
}();
}  // namespace detail

inline constexpr unsigned checked_bits = 56;
inline constexpr std::uint64_t checked_mask = (std::uint64_t{1} << checked_bits) - 1;

// CRC-8 of the low 56 bits; byte-sliced, so the seven look-ups are independent.
constexpr std::uint8_t crc8_56(std::uint64_t content, std::uint8_t seed) noexcept {
  const auto& t = detail::crc8_tables;  // written out: a compiler keeps a loop of seven turns
  return static_cast<std::uint8_t>(t[7][seed] ^ t[0][content & 0xFF] ^ t[1][content >> 8 & 0xFF] ^
                                   t[2][content >> 16 & 0xFF] ^ t[3][content >> 24 & 0xFF] ^
                                   t[4][content >> 32 & 0xFF] ^ t[5][content >> 40 & 0xFF] ^
                                   t[6][content >> 48 & 0xFF]);
}

// Seed of the word at `offset` bytes from the pool's start.  Always an even number of one bits: the polynomial is
// divisible by x + 1, so no content of a single bit has the CRC 0 then, and one flipped bit never turns the all-zero
// word, which is valid everywhere, into another valid word or back.
constexpr std::uint8_t word_seed(std::uint64_t offset) noexcept {
  const std::uint64_t w = offset >> 3;
  const std::uint64_t folded = (w ^ (w >> 7) ^ (w >> 14) ^ (w >> 21) ^ (w >> 28) ^ (w >> 35)) & 0x7F;
  // Without an instruction for it, std::popcount() would be a call.
  return static_cast<std::uint8_t>(folded << 1 | static_cast<unsigned>(__builtin_parityll(folded)));
}

// The stored form of `content` (which must fit 56 bits).  Zero stays zero.
constexpr std::uint64_t seal_word(std::uint64_t content, std::uint8_t seed) noexcept {
  if (content == 0) return 0;
  return content | (std::uint64_t{crc8_56(content, seed)} << checked_bits);
}

constexpr bool word_holds(std::uint64_t word, std::uint8_t seed) noexcept {
  return seal_word(word & checked_mask, seed) == word;
}

}  // namespace nvm
