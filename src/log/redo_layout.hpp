// The log of the redo engine on media, format 1: a ring for each lane.  docs/format.md states every byte.
//
//   line 0   of each lane: where its oldest record begins; of lane 0 also which versions count, for all lanes
//   the rest records of committed transactions, one after the other, each at a line of its own; one that does not fit
//            before the end is preceded by a wrap record and begins after line 0
//
// Versions order the transactions of all lanes.  Those up to `truncated` are home, and their records do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

struct ring_head {
  std::uint64_t tail;       // checked word: the lane's oldest record that may count begins here, bytes from the lane's
                            // start; raw zero: never written, line 1
  std::uint64_t truncated;  // lane 0: checked word; raw zero: 0
  std::uint64_t bound;      // lane 0: checked word: no record has a larger version; raw zero: 0
  std::uint64_t reserved[5];  // zero
};
static_assert(sizeof(ring_head) == line_bytes);

enum class redo_kind : std::uint32_t {
  changes = 1,         // intents, then ranges
  wrap = 2,            // nothing; the next record is in line 1
  elsewhere = 3,       // one redo_place: the intents and ranges are there
  marked_changes = 4,  // as changes; proves itself by a mark in a log where each record says how it does
};

struct redo_record {
  std::uint64_t proof;  // checksum of the rest, seeded with pool, lane, place and version; or the commit mark
  std::uint64_t version;
  std::uint32_t bytes;             // with this header; multiple of 8
  std::uint32_t kind_and_intents;  // enum redo_kind in bits 0 - 3, number of intent words above
};
static_assert(sizeof(redo_record) == 24 && std::has_unique_object_representations_v<redo_record>);
// intents: 64-bit words as log/intent.hpp packs them
// ranges:  each a word {offset (44 bits), bytes (20 bits)} and the new bytes, padded to 8

struct redo_place {
  std::uint64_t offset;    // of a page run of kind `log`
  std::uint64_t bytes;     // of the run that are used
  std::uint64_t checksum;  // of these, seeded with the record's version
};
static_assert(sizeof(redo_place) == 24);

inline constexpr std::uint64_t redo_ring_at = line_bytes;
inline constexpr std::uint64_t redo_range_bytes_max = (std::uint64_t{1} << 20) - 8;
inline constexpr std::uint64_t redo_intents_max = (std::uint64_t{1} << 28) - 1;
// Versions are kept with a lane's number in 64 bits (log/tag.hpp), and in checked words.
inline constexpr std::uint64_t version_max = (std::uint64_t{1} << 52) - 1;
// The durable bound moves by so much at once, and each open of the pool by another process may skip as many.
inline constexpr std::uint64_t version_step = std::uint64_t{1} << 24;

constexpr redo_kind kind_of(const redo_record& r) noexcept { return static_cast<redo_kind>(r.kind_and_intents & 15); }
constexpr std::uint64_t intents_of(const redo_record& r) noexcept { return r.kind_and_intents >> 4; }

}  // namespace nvm::layout
