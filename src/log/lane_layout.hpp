// Lane on media, format 1: the log of one transaction at a time.  docs/format.md states every byte.
//
//   line 0       retired generation
//   lines 1 - 8  commit records, generation g in line 1 + g mod 8
//   body         records of the current generation, one after the other from the body's start, each at a line of its
//                own (no line is written back twice, and whole lines can go past the caches); a link record leads to an
//                overflow segment (a page run of kind `log`)
//
// A lane's generation g counts its transactions.  The valid commit record with the largest generation c says that
// transactions up to c have ended; records in the body with generation c + 1 belong to one that has not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

struct lane_header {
  std::uint64_t retired;      // checked word: intents of generations up to this are durable and not replayed
  std::uint64_t reserved[7];  // zero
};
static_assert(sizeof(lane_header) == line_bytes);

// The last generation: tags have 52 bits for one (tag.hpp). No lane lives that long; a lane with a larger one was
// forged.
inline constexpr std::uint64_t generation_max = (std::uint64_t{1} << 52) - 1;
// No generation begins closer to it than this: its end, the close of the pool and recovery need generations, too.
inline constexpr std::uint64_t generations_kept = std::uint64_t{1} << 16;

// rest: written by recovery and close; no transaction has begun a log since.
enum class outcome : std::uint16_t { commit = 1, abort = 2, rest = 3 };
inline constexpr unsigned inline_intent_words = 5;

struct commit_record {
  std::uint64_t checksum;  // of the rest, seeded with pool, place and generation
  std::uint64_t generation;
  std::uint16_t kind;          // enum outcome
  std::uint16_t intent_words;  // <= inline_intent_words: in `intents`; 0xFFFF: intents[0] is the offset of an intents
                               // record in this lane's log
  std::uint32_t attached;      // end of the lane's ring of activation records (object/reference_layout.hpp); 0: no ring
  std::uint64_t intents[inline_intent_words];
};
static_assert(sizeof(commit_record) == line_bytes);
static_assert(std::has_unique_object_representations_v<commit_record>);
inline constexpr std::uint16_t intents_elsewhere = 0xFFFF;

enum class record_kind : std::uint16_t { undo = 1, intents = 2, link = 3, large_undo = 4 };

struct record_header {
  std::uint64_t checksum;  // of the rest of the record, seeded with pool, place and generation
  std::uint64_t generation;
  std::uint64_t previous;  // offset of the record before this one, 0: the first
  std::uint32_t bytes;     // of the record with this header; multiple of 8
  std::uint16_t kind;      // enum record_kind
  std::uint16_t count;     // undo: number of ranges
};
static_assert(sizeof(record_header) == 32 && std::has_unique_object_representations_v<record_header>);
// undo:    count times a word {offset (44 bits), bytes (20 bits)} and the old bytes of that range, padded to 8
// large_undo: one such word, then from the next multiple of 64 the old bytes; its checksum covers header and word, then
//          the old bytes, so that it can be made from their source while they are copied past the caches
// intents: 64-bit words as log/intent.hpp packs them
// link:    offset of the next segment, its bytes
inline constexpr std::uint64_t undo_range_bytes_max = (std::uint64_t{1} << 20) - 8;
inline constexpr std::uint64_t large_undo_bytes_min = 256;
// Where the old bytes of a large_undo record begin, for a record at `offset`.
constexpr std::uint64_t large_undo_data_at(std::uint64_t offset) noexcept {
  return round_up(offset + sizeof(record_header) + 8, line_bytes);
}
inline constexpr std::uint64_t link_record_bytes = sizeof(record_header) + 16;
// Log bytes that a record of `bytes` takes.
constexpr std::uint64_t record_room(std::uint64_t bytes) noexcept { return round_up(bytes, line_bytes); }
inline constexpr std::uint64_t record_bytes_max = std::uint64_t{1} << 30;

constexpr std::uint64_t pack_range(std::uint64_t offset, std::uint64_t bytes) noexcept { return offset | bytes << 44; }
constexpr std::uint64_t range_offset(std::uint64_t word) noexcept { return word & ((std::uint64_t{1} << 44) - 1); }
constexpr std::uint64_t range_bytes(std::uint64_t word) noexcept { return word >> 44; }

inline constexpr unsigned commit_slots = 8;
inline constexpr std::uint64_t lane_commit_at = line_bytes;
inline constexpr std::uint64_t lane_body_at = (1 + commit_slots) * line_bytes;
inline constexpr std::uint64_t lane_bytes_min = 1024;
// Place in its lane of the commit record of a generation.
constexpr std::uint64_t commit_slot_at(std::uint64_t generation) noexcept {
  return lane_commit_at + generation % commit_slots * line_bytes;
}

}  // namespace nvm::layout
