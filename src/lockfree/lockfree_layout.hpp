// Lock-free structures on media.  docs/format.md states every byte.
//
// The anchors name the directory of structures; the directory names each structure's root and the tables of active
// areas. Directory, tables and roots lie in runs, nodes in extents of equal nodes and in runs; the page map says for
// each which structure it belongs to, by number.  Pages of a number that the directory does not know are free.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "space/space_layout.hpp"

namespace nvm::lockfree::layout {

namespace space_layout = nvm::layout;

// ---- numbers of structures ------------------------------------------------------------------------------------------
inline constexpr std::uint16_t directory_owner = 1;  // of the directory and the tables of active areas
inline constexpr std::uint16_t first_owner = 2;
inline constexpr unsigned structures_max = 254;

enum class kind : std::uint8_t { none = 0, list = 1, hash = 2, skip_list = 3, tree = 4 };
inline constexpr kind last_kind = kind::tree;
// Whether links of such a structure may be volatile, and made anew at the next open.
constexpr bool links_may_be_volatile(kind k) noexcept { return k != kind::tree; }

// ---- directory ------------------------------------------------------------------------------------------------------
inline constexpr std::uint64_t directory_magic = 0x5249'4445'4552'464C;  // "LFREEDIR" in file order
inline constexpr unsigned name_max = 63;

// One structure.  It exists when `state` says so; everything else was durable before.
struct entry {
  std::uint64_t state;       // checked word: kind (8), number (16), version (32); 0: none; leaving()
  std::uint64_t root;        // checked word: offset of the run with its root
  std::uint64_t parameters;  // checked word: of its kind
  std::uint64_t flags;       // checked word: entry_flags
  char name[name_max + 1];   // ends with a zero byte, as does all after it
  std::uint64_t crc;         // XXH3 of all before but `state`, seeded with the entry's offset
  std::uint64_t tally;       // checked word: number of entries, while the pool is closed; 0: it is open, or they were
                             // not counted
  std::uint64_t reserved[2];
};
static_assert(sizeof(entry) == 128);
// State of a structure that is being dropped, until its pages are free: a state of zero could also be a damaged word.
constexpr std::uint64_t leaving(std::uint16_t owner) noexcept { return std::uint64_t{owner} << 8; }
inline constexpr std::uint64_t entry_map = 1;    // with values
inline constexpr std::uint64_t entry_bytes = 2;  // keys and values of any size
inline constexpr std::uint64_t entry_volatile_links = 4;
inline constexpr std::uint64_t entry_sums = 8;  // nodes have sums of their contents
// A structure with volatile links: its entries are counted when the pool is closed, since nothing else tells that one
// is missing.
inline constexpr std::uint64_t entry_tally = 16;
inline constexpr std::uint64_t entry_flags_known = 31;
// A library that knows only version 1 would make nodes without sums.
inline constexpr std::uint64_t entry_version_plain = 1;
inline constexpr std::uint64_t entry_version_sums = 2;
// A library that knows only version 2 would leave a tally from before its changes.
inline constexpr std::uint64_t entry_version_tally = 3;
constexpr std::uint64_t entry_version(std::uint64_t flags) noexcept {
  if ((flags & entry_tally) != 0) return entry_version_tally;
  return (flags & entry_sums) != 0 ? entry_version_sums : entry_version_plain;
}

// The directory, in a run of its own.
struct directory {
  std::uint64_t magic;
  std::uint64_t version;     // checked word: 1
  std::uint64_t area_shift;  // checked word
  std::uint64_t reserved[5];
  std::uint64_t tables[256];  // checked words: offset of the first table of active areas of each thread, 0: none yet
  entry entries[structures_max];
};
static_assert(sizeof(directory) == 64 + 2048 + structures_max * 128);

// ---- table of active areas: one page --------------------------------------------------------------------------------
// Words, checked: area (39), whether nodes were only unlinked there (1), structure (16); 0: none.  The last word:
// offset of the next table.
inline constexpr std::uint64_t area_unlinked_only = std::uint64_t{1} << 39;
constexpr std::uint64_t area_word(std::uint64_t area, std::uint16_t owner) noexcept {
  return area | std::uint64_t{owner} << 40;
}
constexpr std::uint64_t area_of_word(std::uint64_t content) noexcept { return content & (area_unlinked_only - 1); }
constexpr bool is_unlinked_only(std::uint64_t content) noexcept { return (content & area_unlinked_only) != 0; }
constexpr std::uint16_t owner_of_word(std::uint64_t content) noexcept {
  return static_cast<std::uint16_t>(content >> 40);
}

}  // namespace nvm::lockfree::layout
