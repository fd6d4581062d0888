// Numbers that objects bear while a relocation by transactions goes on (object/numbered_relocation.hpp): which of the
// bases that the superblock has the pointers of an object assume.
//
// An object that is not aligned has its number in the bits of the header where an aligned one has its alignment; an
// aligned object has it in the second word of its signpost.  In a pool at rest no object bears a number.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "pool/pool.hpp"
#include "space/aligned_layout.hpp"

namespace nvm::object {

// Where the number of an object stands, and what is there.
struct number_place {
  std::uint64_t at = 0;    // offset of the word in the pool
  std::uint64_t word = 0;  // what it says
  // 0: the object bears none.  nullopt: the library has never written this.
  std::optional<unsigned> number;
  bool in_header = true;

  // The word that says `n`.
  [[nodiscard]] std::uint64_t word_of(unsigned n) const noexcept {
    if (in_header) return (word & ~layout::alignment_mask) | layout::number_bits(n);
    return layout::signpost_number(n, at - layout::signpost_number_at);
  }
};

// The place of the number of the object whose header is at `header`.
[[nodiscard]] inline number_place number_of(const std::byte* base, std::uint64_t header, const layout::alignment& a) {
  number_place p;
  if (a.natural()) {
    p.at = header;
    std::memcpy(&p.word, base + p.at, sizeof p.word);
    p.number = layout::number_in(p.word);
    return p;
  }
  p.in_header = false;
  p.at = header + a.signpost() + layout::signpost_number_at;
  std::memcpy(&p.word, base + p.at, sizeof p.word);
  p.number = layout::number_of_signpost(p.word, header + a.signpost());
  return p;
}

}  // namespace nvm::object
