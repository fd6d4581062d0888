// How many changes reserve() makes ready for a range.
//
// A range may be changed in parts (contents that are split where a chunk of the log ends): at most one cut in each
// partition it touches, and one more for each full 16 KiB of it there.  Chunks are 32 KiB, so that two cuts of one
// transaction's contents lie further apart than that.
#pragma once

#include <cstdint>

namespace nvm::logheap {

inline constexpr std::uint64_t bytes_between_cuts = 16384;

// Changes in a partition, for so many bytes of a range in it; the last term: no piece of a list is longer than 32 KiB.
constexpr std::uint64_t changes_of(std::uint64_t bytes) noexcept {
  return 2 + bytes / bytes_between_cuts + bytes / (2 * bytes_between_cuts);
}

}  // namespace nvm::logheap
