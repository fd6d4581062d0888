// Bases of a pool: the addresses at which its stored pointers may assume it to be.
//
// A pool at rest has one, `base_address`.  One that was opened elsewhere has several until a pass over all objects has
// given all pointers the newest. They are in `base_history` meanwhile, and a bit of features_incompat keeps out
// libraries that would misread them.  The ranges of all bases are disjoint, so the value of a stored pointer shows
// which base it assumes. Moving it is one aligned 8-byte store, which any number of threads may repeat in any order.
//
// Relocation.  S store, F flush, | fence.  Unit of failure atomicity: an aligned 8-byte store.
//   1. S history: the new base joins; F it;       | pool/E1, E2  known before any pointer has it
//   2. S moved pointers (object/relocation.hpp); F them; | object/E1  all are durable before a base is forgotten
//   3. S base_address = new base, no history; F;  | pool/E1, E2  commit point: the others are forgotten
// A crash before 1 leaves the pool unchanged. A crash between 1 and 3 leaves several bases: the next open takes any
// address, which joins if it is new, and begins at 2 again. Logs are recovered before 1, by offsets, and changes that
// recovery may repeat after 3 hold no pointer from before 2: rings of redo records are truncated by recovery, and one
// ring (ssd) is replayed in its order, moved pointers last.
//
// Torn copies.  A crash in 3 may leave a copy of the superblock that lacks some words. Parts of a later change could
// complete it at a time when pointers assume again a base that this copy forgets. So both copies are written whole
// before any pointer is moved: by the open, which writes state `open`. On ssd the log brings no word of a copy without
// those before it, and the checksum is last.
//
// The end. A pointer may lead one byte past the last object, which may end where the range ends. So a range includes
// its end, but not its beginning: the superblock lies there, and no pointer leads to it.
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

  // The place in the pool to which `value` leads; nullopt: into none of the ranges.
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
  // Whether a pool at `base` would overlap one of the ranges without being equal to it.
  [[nodiscard]] bool collides(std::uint64_t base) const noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (bases[i] != base && base < bases[i] + bytes && bases[i] < base + bytes) return true;
    }
    return false;
  }
};

// Ranges of a superblock that was checked: that of the preferred base first, then that of the newest.
[[nodiscard]] base_ranges ranges_of(const layout::superblock& sb) noexcept;

// Bases by the numbers that objects bear in a relocation by transactions (object/numbered_relocation.hpp).
struct numbered_bases {
  std::array<std::uint64_t, layout::base_history_max + 1>
      bases{};         // 0: the preferred one; n: entry n - 1 of the history
  unsigned count = 0;  // of the history
  std::uint64_t bytes = 0;

  // The number of the entry with this base; 0: there is none.
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

// Step 1 in the superblock, which the caller writes if this returns true; false: `base` is known already.
// errc::address, with all bases in the message: there is no room for another, or it would overlap one of them.
[[nodiscard]] result<bool> join_base(layout::superblock& sb, std::uint64_t base) noexcept;
// A relocation by transactions: as join_base(), and objects are numbered from then on.
[[nodiscard]] result<bool> join_numbered_base(layout::superblock& sb, std::uint64_t base) noexcept;
// Step 3.
void forget_other_bases(layout::superblock& sb, std::uint64_t base) noexcept;

// errc::corrupt: the bases of a superblock contradict each other, overlap, or are no addresses of pools.
[[nodiscard]] status check_bases(const layout::superblock& sb) noexcept;

}  // namespace nvm
