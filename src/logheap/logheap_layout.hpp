// The log-structured heap on media: root, chunks, transaction blocks, entries (LSNVMM, sections 3.3, 3.4 and 4.2;
// docs/design/014-log-structured-heap.md).
//
//   root    one run; the pool names it by a checked word
//   chunk   chunk_bytes of a run; a header line, then blocks, each at a multiple of 8
//   block   header, entries, contents in the order of the entries, without gaps
//
// Single words that change by themselves are checked words (base/checked_word.hpp), bound to their place; a block
// proves itself by two checks that are bound to its place and to its chunk's use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::logheap::layout {

inline constexpr std::uint64_t root_magic = 0x5041'4548'474F'4C48;  // "HLOGHEAP" in file order
inline constexpr std::uint64_t root_version = 1;                    // raise it with any change below
inline constexpr std::uint16_t owner = 0xFFFF;                      // of all runs, in the page map

// Two lines; the first is written once, and once more in the last line of the run: a copy proves itself by `check`, and
// serves repair alone. Roots of earlier libraries have zeros there until they are opened.
struct root {
  std::uint64_t magic;
  std::uint64_t version;           // greater than ours: refuse
  std::uint64_t chunk_bytes;       // a power of two
  std::uint64_t home_first;        // home addresses are [home_first, home_first + home_bytes)
  std::uint64_t home_bytes;        // multiple of superblock_bytes
  std::uint64_t superblock_bytes;  // of home space, a power of two
  std::uint64_t key;               // seed of all checks of this heap
  std::uint64_t check;             // of the line before
  std::uint64_t first_chunk;       // checked word: head of the list of all chunks; 0: there are none
  std::uint64_t through;           // checked word: every transaction of a version up to this one has committed
  std::uint64_t session;           // checked word: processes that have opened the heap; at last session_after_last
  std::uint64_t saved;             // checked word: first chunk of the saved mapping; 0: the heap was not closed
  std::uint64_t reserved[4];       // zero
};
static_assert(sizeof(root) == 2 * line_bytes && offsetof(root, first_chunk) == line_bytes);
static_assert(std::is_trivially_copyable_v<root> && std::is_standard_layout_v<root>);
static_assert(std::has_unique_object_representations_v<root>);
inline constexpr std::uint64_t root_line_bytes = offsetof(root, first_chunk);
constexpr std::uint64_t root_copy_at(std::uint64_t run_bytes) noexcept { return run_bytes - root_line_bytes; }

// What a chunk is used for.
enum class chunk_use : std::uint8_t {
  free = 0,
  update = 1,        // stores
  allocation = 2,    // allocations with their contents
  deallocation = 3,  // tombstones
  mixed = 4,         // all of it: one log a thread
  saved = 5,         // the mapping of a heap that was closed
};
inline constexpr unsigned chunk_uses = 6;

// One line.  The list of all chunks is doubly linked: `next` counts, `previous` is checked against it.
struct chunk_header {
  std::uint64_t identity;  // checked word: chunk_magic
  std::uint64_t next;      // checked word: offset, 0: the last
  std::uint64_t previous;  // checked word: offset, 0: the first
  std::uint64_t use;       // checked word: by a cleaner << 55 | chunk_use << 52 | generation: the number of this use
  std::uint64_t owner;     // checked word: low generation << 32 | stamp of the thread that fills it
  std::uint64_t
      end;  // checked word: low generation << 32 | bytes of the chunk, up to which blocks count and are durable
  std::uint64_t reserved[2];  // zero
};
static_assert(sizeof(chunk_header) == line_bytes);
static_assert(std::is_trivially_copyable_v<chunk_header> && std::is_standard_layout_v<chunk_header>);
static_assert(std::has_unique_object_representations_v<chunk_header>);

inline constexpr std::uint64_t chunk_magic = 0x4B'4E55'4843;  // "CHUNK"
inline constexpr std::uint64_t chunk_bytes_default = 32768;
inline constexpr std::uint64_t chunk_bytes_min = 512;
inline constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 20;
inline constexpr std::uint64_t superblock_bytes_min = 512;
inline constexpr std::uint64_t superblock_bytes_max = std::uint64_t{1} << 20;  // a word in memory for each slot

// Generation: session (20) << 32 | uses of the chunk so far (32).  A use that a crash has kept from becoming durable
// may have left blocks; the session keeps them from passing for those of the next use.
inline constexpr unsigned generation_bits = 52;
inline constexpr unsigned uses_bits = 32;
// Reads as 1 in a generation, and is no smaller than the session of any.
inline constexpr std::uint64_t session_after_last = (std::uint64_t{1} << (generation_bits - uses_bits)) + 1;
constexpr std::uint64_t next_generation(std::uint64_t before, std::uint64_t session) noexcept {
  return (session & 0xF'FFFF) << uses_bits | ((before + 1) & 0xFFFF'FFFF);
}
// Content of `use`.
constexpr std::uint64_t pack_use(chunk_use use, std::uint64_t generation, bool by_cleaner) noexcept {
  return std::uint64_t{by_cleaner} << 55 | std::uint64_t(use) << generation_bits | generation;
}
constexpr bool by_cleaner(std::uint64_t content) noexcept { return (content >> 55 & 1) != 0; }
constexpr chunk_use use_of(std::uint64_t content) noexcept {
  return static_cast<chunk_use>(content >> generation_bits & 7);
}
constexpr std::uint64_t generation_of(std::uint64_t content) noexcept {
  return content & ((std::uint64_t{1} << generation_bits) - 1);
}
// Content of `owner` and of `end`, which count for this generation only.
constexpr std::uint64_t pack_bound(std::uint32_t value, std::uint64_t generation) noexcept {
  return std::uint64_t{value} | std::uint64_t{generation & 0xFF'FFFF} << 32;
}
constexpr bool bound_to(std::uint64_t content, std::uint64_t generation) noexcept {
  return content >> 32 == (generation & 0xFF'FFFF);
}
// Stamp: session << 9 | cleaner << 8 | number of the thread in the epochs.
inline constexpr std::uint32_t stamp_cleaner = 1U << 8;
constexpr std::uint32_t stamp(std::uint64_t session, unsigned thread, bool cleaner) noexcept {
  return static_cast<std::uint32_t>(session << 9) | (cleaner ? stamp_cleaner : 0) | thread;
}

struct block_header {
  std::uint64_t version;         // of the transaction
  std::uint64_t peer_and_count;  // offset of the transaction's next block (48), number of entries (16)
  std::uint32_t bytes;           // of the block, this header included
  std::uint32_t flags;
  std::uint32_t header_check;   // of all before
  std::uint32_t content_check;  // of the rest of the block
};
static_assert(sizeof(block_header) == 32);
static_assert(std::is_trivially_copyable_v<block_header> && std::is_standard_layout_v<block_header>);
static_assert(std::has_unique_object_representations_v<block_header>);
inline constexpr std::uint64_t version_max = std::uint64_t{1} << 55;  // the next ones too fit a checked word
inline constexpr std::uint64_t versions_under_way = 1 << 16;          // commits that have been let in take fewer
inline constexpr std::uint64_t block_align = 8;
inline constexpr std::uint32_t block_moved = 1;            // a cleaner's copy, of a block that had committed before
inline constexpr std::uint32_t block_allocations = 2;      // short entries are allocations with their contents
inline constexpr std::uint32_t block_entries_checked = 4;  // the upper 24 bits are a check of the entries
inline constexpr unsigned entry_check_shift = 8;
inline constexpr unsigned peer_bits = 48;
inline constexpr std::uint64_t entries_max = 0xFFFF;

// Entry: home address (47), tombstone (1), size in bytes (16).  Size 0: wide, a second word has size (48) and kind (8).
enum class entry_kind : std::uint8_t {
  update = 0,      // contents of home bytes
  allocation = 1,  // an object, and its contents
  bare = 2,        // an object of zeros; its contents follow as updates of the same version
  tombstone = 3,   // an object was freed
};
inline constexpr unsigned home_shift_tombstone = 47;
inline constexpr unsigned home_shift_size = 48;
inline constexpr std::uint64_t home_mask = (std::uint64_t{1} << 47) - 1;
inline constexpr std::uint64_t short_size_max = 0xFFFF;
inline constexpr std::uint64_t wide_size_max = (std::uint64_t{1} << 47) - 1;

constexpr bool has_contents(entry_kind k) noexcept { return k <= entry_kind::allocation; }

// Record of a saved mapping: in a block of a `saved` chunk, instead of entries; `peer` leads to the next such block.
enum class saved_kind : std::uint8_t { piece = 0, slot = 1, chunk = 2 };
struct saved_record {
  std::uint64_t home_and_kind;  // home (47) or chunk offset; kind << 56
  std::uint64_t size;           // bytes; of a chunk: live bytes
  std::uint64_t log;            // of a slot: its word; of a chunk: newest version
};
static_assert(sizeof(saved_record) == 24 && std::has_unique_object_representations_v<saved_record>);

}  // namespace nvm::logheap::layout
