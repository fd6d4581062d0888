// Bases of a pool: the addresses that its stored pointers may assume it to be at.
//
// A pool at rest has one, `base_address`.  One that was opened elsewhere has several until a pass over everything has
// given all pointers the newest; then they are in `base_history`, and a bit of features_incompat keeps libraries out
// that would misread them.  The ranges of all bases are disjoint, so a stored pointer says by its value which base it
// assumes: moving it is one aligned 8-byte store that may be made again, in any order, by any number of threads.
//
// Relocation.  S store, F flush, | fence.  Unit of failure atomicity: an aligned 8-byte store.
//   1. S history: the new base joins; F it;       | pool/E1, E2  known before any pointer has it
//   2. S moved pointers (object/relocation.hpp); F them; | object/E1  all are durable before a base is forgotten
//   3. S base_address = new base, no history; F;  | pool/E1, E2  commit point: the others are forgotten
// A crash before 1 leaves the pool as it was.  One between 1 and 3 leaves several bases: the next open takes any
// address, which joins if it is new, and begins at 2 again.  Logs are recovered before 1, by offsets, and nothing that
// recovery may make again after 3 holds a pointer that is older than 2: rings of redo records are truncated by
// recovery, and one ring (ssd) is replayed in its order, moved pointers last.
//
// Torn copies.  A crash in 3 may leave a copy of the superblock of which some words are missing.  Parts of a later
// change could make that one whole, when pointers have got back to a base that it forgets.  So both copies are written
// whole before anything is moved: by the open, which says `open` in them; on ssd the log brings no word of a copy
// without those before it, and its checksum is the last.
//
// The end.  A pointer may lead one byte past the last object, which may end where the range does: a range has its end,
// and not its beginning, where the superblock lies and no pointer leads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/base.hpp"
#include "pool/geometry.hpp"
#include "pool/pool_layout.hpp"

namespace nvm {

// Bases are multiples of this: a granule of the smallest window.
inline constexpr std::uint64_t base_unit = std::uint64_t{1} << 25;

// The ranges that a stored pointer may lead into.
struct base_ranges {
  std::array<std::uint64_t, layout::base_history_max> bases{};
  unsigned count = 0;
  std::uint64_t bytes = 0;

  // Where in the pool `value` leads to; nullopt: into none of the ranges.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t value) const noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (value - bases[i] - 1 < bytes) return value - bases[i];
    }
    return std::nullopt;
  }
  [[nodiscard]] bool has(std::uint64_t base) const noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (bases[i] == base) return true;
    }
    return false;
  }
  // Whether a pool at `base` would overlap one of the ranges without being it.
  [[nodiscard]] bool collides(std::uint64_t base) const noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (bases[i] != base && base < bases[i] + bytes && bases[i] < base + bytes) return true;
    }
    return false;
  }
};

// Those of a superblock that was checked, the preferred base first and then the newest.
[[nodiscard]] base_ranges ranges_of(const layout::superblock& sb) noexcept;

// Bases by the numbers that objects bear in a relocation by transactions (object/numbered_relocation.hpp).
struct numbered_bases {
  std::array<std::uint64_t, layout::base_history_max + 1>
      bases{};         // 0: the preferred one; n: entry n - 1 of the history
  unsigned count = 0;  // of the history
  std::uint64_t bytes = 0;

  // The number of an entry; 0: it is in none.
  [[nodiscard]] unsigned number_of(std::uint64_t base) const noexcept {
    for (unsigned n = 1; n <= count; ++n) {
      if (bases[n] == base) return n;
    }
    return 0;
  }
};
[[nodiscard]] numbered_bases numbers_of(const layout::superblock& sb) noexcept;

// Whether stored pointers may assume the pool to be anywhere else than at `base`.
[[nodiscard]] inline bool must_relocate(const layout::superblock& sb, std::uint64_t base) noexcept {
  return sb.base_history_count != 0 || sb.base_address != base;
}

// Step 1 in the superblock, which the caller writes if this says true: false where `base` is known already.
// errc::address, naming all bases, where there is no room for another; or if it would overlap one of them.
[[nodiscard]] result<bool> join_base(layout::superblock& sb, std::uint64_t base) noexcept;
// A relocation by transactions: as join_base(), and objects are numbered from then on.
[[nodiscard]] result<bool> join_numbered_base(layout::superblock& sb, std::uint64_t base) noexcept;
// Step 3.
void forget_other_bases(layout::superblock& sb, std::uint64_t base) noexcept;

// errc::corrupt: the bases of a superblock contradict each other, overlap, or are no addresses of pools.
[[nodiscard]] status check_bases(const layout::superblock& sb) noexcept;

}  // namespace nvm
