// The log of the mnemosyne engines on media: a raw word log in each lane, after Mnemosyne (Volos et al., ASPLOS 2011),
// the baseline of LSNVMM (section 5.3) and HEAPO (section III-B).  docs/format.md states every byte.
//
//   line 0   head and tail
//   the rest a ring of lines; a transaction's entries begin at a line of their own
//
// A position counts lines over two laps of the ring: the line is position mod lines, and a word written there has a
// torn bit of 1 in the even laps and 0 in the odd ones.  A ring begins as zeros at position 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

struct mnemosyne_head {
  std::uint64_t head;         // checked word: position of the oldest entry that counts
  std::uint64_t tail;         // checked word, plain log only: position after the newest entry that counts
  std::uint64_t reserved[6];  // zero
};
static_assert(sizeof(mnemosyne_head) == line_bytes);
static_assert(std::has_unique_object_representations_v<mnemosyne_head>);

inline constexpr std::uint64_t mnemosyne_ring_at = line_bytes;

// Torn-bit log: the log's words carry 63 bits each and the torn bit on top; entries are 64-bit words cut to fit.  Plain
// log: words as they are.
inline constexpr std::uint64_t torn_bit = std::uint64_t{1} << 63;

// An entry of bytes: a word {offset (44 bits), bytes (20 bits)}, then the bytes, padded to 8: new ones (redo) or old
// ones (undo).  A word of 0 bytes instead ends a group of entries; the next group begins at the next line.
enum class mnemosyne_end : std::uint64_t {
  commit = 1,  // the entries before count, and the allocation intents that follow; their number in bits 4 to 43
  abort = 2,   // the entries before, up to the last end, do not count
  group = 3,   // undo: the entries before count; more may follow
};
constexpr std::uint64_t pack_end(mnemosyne_end kind, std::uint64_t intents) noexcept {
  return static_cast<std::uint64_t>(kind) | intents << 4;
}

}  // namespace nvm::layout
