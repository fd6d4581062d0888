// The pool file, format 1: what is where.  docs/format.md states every byte.
//
//   page 0   superblock copy A (first sector), anchor A (second), owner record (third)
//   page 1   superblock copy B (first sector), anchor B (second)
//   page map 8 bytes for each data page up to the capacity; sparse in the file beyond the current size
//   log area direct media: lanes; ssd: the log ring
//   data     pages, 64 = a chunk, 64 chunks = a group; starts at a multiple of 8 pages
//
// All integers are little-endian, all places are offsets in bytes from the pool's start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t pool_magic = 0x5453'4146'444C'4F48;  // "HOLDFAST" in file order
inline constexpr std::uint32_t pool_version = 1;                    // raise it with any change below

inline constexpr unsigned page_shift_min = 10;
inline constexpr unsigned page_shift_default = 12;
inline constexpr unsigned page_shift_max = 12;  // an intent addresses the length bytes of extents this large
inline constexpr std::uint64_t pages_per_chunk = 64;
inline constexpr std::uint64_t chunks_per_group = 64;
inline constexpr std::uint64_t extent_align_pages = 8;  // data starts at, and coarse extents lie at, multiples
inline constexpr std::uint64_t pool_bytes_max = std::uint64_t{1} << 44;
inline constexpr unsigned base_history_max = 8;
inline constexpr std::uint64_t home_bytes_unit = std::uint64_t{1} << 16;
inline constexpr std::uint64_t home_bytes_max = std::uint64_t{1} << 46;  // so that home addresses have 47 bits

// Bits of features_incompat.  Where nothing else is said, a bit is set before the first such data is stored, and never
// taken back.
//   engine           `engine` or `validation` is not 0
//   aligned          there may be objects at multiples of more than 16 bytes (space/aligned_layout.hpp)
//   regions          there may be sets of regions (region/region_layout.hpp)
//   bases            stored pointers assume several bases, those of base_history; taken back when all assume one
//                    (pool/base_history.hpp)
//   references       references are, or were, counted (object/reference_layout.hpp)
//   numbers          objects bear numbers that say which of these bases their pointers assume; taken back with the bit
//                    bases (object/numbered_relocation.hpp)
//   straight         records of the ring may have straight entries (media/ring_layout.hpp); set when the pool is made,
//                    or with its first set of regions
//   statics          there may be a table of static pointers after the type map (object/static_layout.hpp)
//   stores           pages may be clusters of object stores (space/clusters_layout.hpp)
//   tier             data pages that are holes of the file are in a second one (tier_record); set before the first is
//                    given back
//   store_kv         object stores may have key-value stores of their own (`key_values` of cluster_header)
//   untyped_statics  objects of unknown type may hold addresses of the programs of the table of static pointers; set by
//                    the first program that says so
//   reset            the type map may have fields of kind reset (object/type_map_layout.hpp); set before the first
//                    such map is written
//
// Bits of features_compat.  untyped_bytes: no object whose type nobody describes has pointers in it (enum nvm_untyped).
// holes: free pages of the data may be holes of the file; set before the first is made, and never taken back.
// A library that does not know it gives all pages blocks when it opens the pool.
inline constexpr std::uint32_t feature_untyped_bytes = 1;
inline constexpr std::uint32_t feature_holes = 2;
inline constexpr std::uint32_t feature_engine = 1;
inline constexpr std::uint32_t feature_aligned = 2;
inline constexpr std::uint32_t feature_regions = 4;
inline constexpr std::uint32_t feature_bases = 8;
inline constexpr std::uint32_t feature_references = 16;
inline constexpr std::uint32_t feature_numbers = 32;
inline constexpr std::uint32_t feature_straight = 64;
inline constexpr std::uint32_t feature_statics = 128;
inline constexpr std::uint32_t feature_stores = 256;
inline constexpr std::uint32_t feature_tier = 512;
inline constexpr std::uint32_t feature_store_kv = 2048;
inline constexpr std::uint32_t feature_untyped_statics = 4096;
inline constexpr std::uint32_t feature_reset = 8192;
inline constexpr std::uint32_t feature_store_structures = 16384;

enum class pool_state : std::uint32_t { clean = 1, open = 2 };

struct base_record {
  std::uint64_t base;        // address the pool was mapped at
  std::uint64_t generation;  // of the relocation that moved it there
};

// One sector.  Two copies; the valid one with the larger sequence counts.  A change writes the other copy.
struct superblock {
  std::uint64_t magic;
  std::uint32_t version;             // greater than ours: refuse
  std::uint32_t superblock_bytes;    // sizeof(superblock)
  std::uint32_t features_compat;     // unknown bits: ignore
  std::uint32_t features_ro_compat;  // unknown bits: read-only at most
  std::uint32_t features_incompat;   // unknown bits: refuse
  std::uint32_t page_shift;          // page_bytes = 1 << page_shift
  std::uint8_t uuid[16];
  std::uint32_t medium;          // enum nvm_medium: shm 1, dax 2, auto 3, ssd 4
  std::uint32_t lane_count;      // 0 on ssd
  std::uint64_t lane_bytes;      // of each; multiple of the page; 0 on ssd
  std::uint64_t capacity_pages;  // data pages the page map has room for
  std::uint64_t page_map_offset;
  std::uint64_t log_offset;
  std::uint64_t log_bytes;  // direct: lane_count * lane_bytes; ssd: the ring with its two headers
  std::uint64_t data_offset;
  std::uint64_t created_unix_s;
  std::uint64_t sequence;    // changes from here on
  std::uint64_t size_pages;  // data pages that exist
  std::uint32_t state;       // enum pool_state
  std::uint32_t base_history_count;
  std::uint64_t base_address;  // where stored pointers assume the pool to be; preferred where they assume several
  std::uint64_t generation;    // relocations begun (Breeze, section IV-E)
  base_record base_history[base_history_max];  // all bases, by generation, where there are several
  std::uint64_t type_map_offset;  // not used: the anchor names the type map, so that a transaction can change it
  std::uint64_t type_map_bytes;
  std::uint64_t gc_offset;  // segments of later use: 0 until they exist
  std::uint64_t gc_bytes;
  std::uint32_t engine;        // enum nvm_engine; 0: undo
  std::uint32_t validation;    // enum nvm_validation
  std::uint64_t home_bytes;    // of virtual addresses for objects, after the capacity; 0: objects are in the data
  std::uint64_t reserved[22];  // zero; open() checks
  std::uint64_t crc;           // XXH3 of all before, seeded with pool_magic
};
static_assert(sizeof(superblock) == 512 && sizeof(superblock) == sector_bytes);
static_assert(offsetof(superblock, sequence) == 112 && offsetof(superblock, crc) == 504);
static_assert(std::is_trivially_copyable_v<superblock> && std::is_standard_layout_v<superblock>);
static_assert(std::has_unique_object_representations_v<superblock>);

// The process that has the pool open, and in which file (pool/owner.hpp).  Written by plain file writes, never synced.
struct owner_record {
  std::uint64_t pid;  // 0: no owner
  std::uint64_t opened_unix_s;
  std::uint64_t inode;     // of the file; 0: not told
  std::uint64_t birth_ns;  // of the file, since 1970; 0: not told
  std::uint64_t check;     // XXH3 of all before, seeded with pool_magic; counts where inode is not 0
  std::uint8_t reserved[472];
};
static_assert(sizeof(owner_record) == sector_bytes && offsetof(owner_record, check) == 32);

// The second file of a pool with feature_tier (tier/page_file_layout.hpp).  Written when the two are joined and by each
// open that changes a wish, with other words than `sequence` held still.
struct tier_record {
  std::uint64_t magic;  // "HFTIERED" in file order
  std::uint8_t uuid[16];
  std::uint64_t fast_bytes_max;  // of data pages in the pool's own file
  std::uint32_t policy;          // enum nvm_tier_policy
  std::uint32_t compression;     // enum nvm_tier_compression
  std::uint32_t path_bytes;      // without the zero after it
  std::uint32_t reserved;        // zero
  char path[2488];
  std::uint64_t check;     // XXH3 of all before, seeded with the magic
  std::uint64_t sequence;  // batches of pages that the second file must have: by single stores, after each
  // Data pages that the pool's file has, plus one, of a pool that was closed; 0: not told.  A program that copies the
  // file and does not keep its holes changes that.
  std::uint64_t fast_pages;
};
static_assert(sizeof(tier_record) == 5 * sector_bytes && offsetof(tier_record, check) == 2536);
inline constexpr std::uint64_t tier_magic = 0x4445'5245'4954'4648;

// What transactions change in the header pages; both copies are always changed together.
struct anchor {
  std::uint64_t root;          // checked word: offset of the root object, 0: none
  std::uint64_t types;         // checked word: offset of the type map, 0: none
  std::uint64_t stores;        // checked word: offset of the header of the directory of key-value stores, 0: none
  std::uint64_t lockfree;      // checked word: offset of the directory of lock-free structures, 0: none
  std::uint64_t log_heap;      // checked word: offset of the root of the log-structured heap, 0: none
  std::uint64_t regions;       // checked word: offset of the directory of sets of regions, 0: none
  std::uint64_t references;    // checked word: offset of the rings of activation records, 0: references are not counted
  std::uint64_t catalogue;     // checked word: offset of the catalogue of object stores, 0: none
  std::uint64_t reserved[56];  // zero
};
static_assert(sizeof(anchor) == sector_bytes);

// Sectors inside page 0 (copy A) and page 1 (copy B); the smallest page, 1 KiB, has two.
inline constexpr std::uint64_t superblock_sector = 0;
inline constexpr std::uint64_t anchor_sector = 1 * sector_bytes;
// The owner record follows the anchor of page 0; pools of 1 KiB pages (images of tests) have none.
inline constexpr std::uint64_t owner_sector = 2 * sector_bytes;
// To the end of page 0 of a file, whose pages have 4 KiB.
inline constexpr std::uint64_t tier_sector = 3 * sector_bytes;

}  // namespace nvm::layout
