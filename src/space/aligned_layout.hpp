// Objects whose payload lies at a multiple of more than 16 bytes, format 1.
//
// Such an object is an ordinary one, larger by its alignment than asked for, so that it has an aligned place with room
// enough after it.  Its header lies where every header does, and holds the alignment and the gap (bytes from the header
// to the payload).  A signpost 16 bytes before the payload holds the same, and leads from the payload back to the
// header.  Slots, runs, allocation words and lengths are those of any object.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/base.hpp"
#include "space/space_layout.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t natural_alignment = sizeof(object_header);
inline constexpr std::uint64_t alignment_max = std::uint64_t{1} << 15;

struct alignment {
  std::uint64_t bytes = natural_alignment;
  std::uint64_t gap = sizeof(object_header);
  [[nodiscard]] constexpr bool natural() const noexcept { return bytes == natural_alignment; }
  // The part of the object's size that the program did not ask for.
  [[nodiscard]] constexpr std::uint64_t padding() const noexcept { return natural() ? 0 : bytes; }
  // From the header to the signpost.
  [[nodiscard]] constexpr std::uint64_t signpost() const noexcept { return gap - natural_alignment; }
};

// Bits 40 to 55 of the header's first word: the gap in units of 16 bytes, less two (11), binary logarithm of the
// alignment (5); all zero for an object that is not aligned.  A relocation by transactions numbers objects there while
// it lasts.
inline constexpr unsigned alignment_shift = 40;
inline constexpr std::uint64_t alignment_mask = std::uint64_t{0xFFFF} << alignment_shift;
constexpr std::uint64_t alignment_bits(const alignment& a) noexcept {
  return ((a.gap / natural_alignment - 2) | static_cast<std::uint64_t>(std::countr_zero(a.bytes)) << 11)
         << alignment_shift;
}

// Numbers of such a relocation, 1 to 8, with their complement, so that no flipped bit makes another; 0: none.
inline constexpr unsigned number_max = 8;
constexpr std::uint64_t number_bits(unsigned n) noexcept {
  return n == 0 ? 0 : (std::uint64_t{n} | std::uint64_t{~n & 15U} << 4) << alignment_shift;
}
// The number in the first word of a header; nullopt: the bits hold something else.
constexpr std::optional<unsigned> number_in(std::uint64_t word) noexcept {
  const auto n = static_cast<unsigned>(word >> alignment_shift & 15);
  return n <= number_max && number_bits(n) == (word & alignment_mask) ? std::optional{n} : std::nullopt;
}
// nullopt: no object's header at `offset` says this.
constexpr std::optional<alignment> alignment_of(const object_header& h, std::uint64_t offset) noexcept {
  const std::uint64_t code = (h.size_generation_check & alignment_mask) >> alignment_shift;
  if (code == 0 || number_in(h.size_generation_check)) return alignment{};
  const alignment a{std::uint64_t{1} << (code >> 11), ((code & 0x7FF) + 2) * natural_alignment};
  const bool can_be = a.bytes > natural_alignment && a.bytes <= alignment_max && a.gap <= a.bytes + natural_alignment &&
                      (offset + a.gap) % a.bytes == 0 && object_size(h) > a.padding();
  return can_be ? std::optional{a} : std::nullopt;
}
// Where the payload of an object that begins at `offset` lies.
constexpr alignment align_at(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return {bytes, round_up(offset + 2 * sizeof(object_header), bytes) - offset};
}

// The words before the payload of an aligned object.
struct signpost {
  std::uint64_t word;    // a checked word: gap (32), alignment
  std::uint64_t number;  // zero; during a relocation by transactions a checked word, the object's number
};
inline constexpr std::uint64_t signpost_number_at = offsetof(signpost, number);
static_assert(sizeof(signpost) == sizeof(object_header));
constexpr signpost signpost_at(std::uint64_t offset, const alignment& a) noexcept {
  return {seal_word(a.gap | a.bytes << 32, word_seed(offset)), 0};
}
constexpr std::uint64_t signpost_number(unsigned n, std::uint64_t offset) noexcept {
  return n == 0 ? 0 : seal_word(n, word_seed(offset + signpost_number_at));
}
// nullopt: the library has never written this word.
constexpr std::optional<unsigned> number_of_signpost(std::uint64_t word, std::uint64_t offset) noexcept {
  for (unsigned n = 0; n <= number_max; ++n) {
    if (word == signpost_number(n, offset)) return n;
  }
  return std::nullopt;
}
// Whether the signpost at `offset` is that of an object with this alignment, whatever its number.
constexpr bool signpost_holds(const signpost& s, std::uint64_t offset, const alignment& a) noexcept {
  return s.word == signpost_at(offset, a).word && number_of_signpost(s.number, offset).has_value();
}
// The gap that a signpost's word at `offset` names; 0: there is none.
constexpr std::uint64_t gap_of(std::uint64_t word, std::uint64_t offset) noexcept {
  const std::uint64_t gap = word & 0xFFFF'FFFF;
  const bool can_be =
      gap >= 2 * natural_alignment && gap <= alignment_max + natural_alignment && gap % natural_alignment == 0;
  return can_be && word_holds(word, word_seed(offset)) ? gap : 0;
}

}  // namespace nvm::layout
