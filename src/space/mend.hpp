// Mends a pool's space on a copy of its bytes: the reverse of check.hpp, under the same assumption that bytes may be
// anything.
//
// What can be mended is what is known twice.  An entry of the page map follows from what lies there if that has headers
// of objects (nothing else says which owner an extent has), an extent's identity from its entry, a length byte from the
// object's header and the other way round, an allocation word from the length bytes and headers of its slots; and a
// checked word in which one bit has changed from its check, which no other word with one changed bit shares.  Of two
// explanations the one that changes fewer bits is taken; of two that change as many, none.
//
// Nothing that may be an object is given up for tidiness: where it cannot be told whether something is an object or was
// one, it stays (kept), with what is known of it.  Where not even that can be told, mend_space() says so and the pool
// cannot be mended.
//
// Logs have been replayed, and their runs freed, before.
#pragma once

#include <cstdint>
#include <functional>

#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm {

enum class mending : std::uint8_t {
  mended,  // as it was
  kept,    // an object is there; what it is, or whether it had been freed, is not certain
  lost,    // an object was there; nothing of it can be had any more
  cannot,  // left as it was: nothing says what it should be
};

struct mended_place {
  mending how = mending::mended;
  std::uint64_t offset = 0;  // from the pool's start
  const char* what = "";     // static storage
  std::uint64_t found = 0;
  std::uint64_t made = 0;
  // kept and lost: the object, as far as it is known.
  std::uint64_t object = 0;  // offset of its header; 0: not about an object
  std::uint64_t bytes = 0;   // payload; 0: not known
  std::uint32_t type = 0;
};

// The message about an allocation word of a structure's nodes that was lost: it names all places for nodes, and the
// structure knows which of them are nodes.
inline constexpr char all_places_of_nodes[] = "allocation word of a structure's nodes: all that may be there";

struct mend_summary {
  std::uint64_t mended = 0;
  std::uint64_t kept = 0;
  std::uint64_t lost = 0;
  std::uint64_t cannot = 0;
};

// Calls tell() for each place, in the order of the pages.  Afterwards check_space() finds nothing, unless something
// could not be mended.
mend_summary mend_space(std::byte* base, const geometry& g, const std::function<void(const mended_place&)>& tell);

// `word`, which fails its check, with the one bit changed back that makes it hold; 0: there is no such bit.
[[nodiscard]] constexpr std::uint64_t corrected_word(std::uint64_t word, std::uint8_t seed) noexcept {
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t other = word ^ std::uint64_t{1} << bit;
    if (other != 0 && word_holds(other, seed)) return other;
  }
  return 0;
}

}  // namespace nvm
