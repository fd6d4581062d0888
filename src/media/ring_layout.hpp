// The log ring of an image medium, format 1: what lies in [log_offset, log_offset + log_bytes).
//
//   header copy 0   one sector
//   header copy 1   one sector, in another page where the log is large enough
//   ring            records; byte `lsn % ring_bytes` of the ring holds byte `lsn` of an endless log
//
// Record   {checksum, lsn, durable_lsn, units, count}, then `count` entries, then zeros to a multiple
//          of 32.
// Entry    {offset, bytes}, then the bytes, then zeros to a multiple of 8.
// Straight entry   {place with straight_bit, bytes, sum, home_lsn}: bytes that are in their place already.
// Pad      a record without entries whose checksum covers its header only: fills the ring to its end,
//          where a record would not fit in one piece, or a sector, before it is written, or moves a record of which
//          another part would read as a header of its place.
//
// A record is valid only at exactly its LSN: the checksum is seeded with LSN and pool.  LSNs never repeat: a process
// that opens the ring begins a lap whose numbers no earlier record can have. A record says what was durable when it was
// made, which tells a damaged log from a torn one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t ring_magic = 0x474E4952'4D564E48;  // "HNVMRING" in file order

// Two copies; the valid one with the larger sequence counts.  A change writes the other copy.  Only a
// closed log, which is empty, has copies that name the same LSN and no proved one.
struct ring_header {
  std::uint64_t magic;
  std::uint64_t sequence;        // never equal in both copies
  std::uint64_t checkpoint_lsn;  // everything before it is in the file's home places; multiple of a sector
  std::uint64_t ring_bytes;
  std::uint8_t uuid[16];       // of the pool
  std::uint64_t proved_lsn;    // straight entries of records up to here count without a look at their bytes; 0: none
  std::uint64_t reserved[56];  // zero; replay checks
  std::uint64_t checksum;      // of all before, seeded with ring_magic
};
static_assert(sizeof(ring_header) == sector_bytes && offsetof(ring_header, checksum) == 504);
static_assert(std::is_trivially_copyable_v<ring_header> && std::is_standard_layout_v<ring_header>);
static_assert(std::has_unique_object_representations_v<ring_header>);

struct ring_record {
  std::uint64_t checksum;     // of all that follows, a pad's: of the rest of this header; ring_seed()
  std::uint64_t lsn;          // of the record's first byte
  std::uint64_t durable_lsn;  // everything before it was durable when the record was made
  std::uint32_t units;        // size of header, entries and zeros, in ring_unit
  std::uint32_t count;        // entries; 0: a pad
};
static_assert(sizeof(ring_record) == 32 && std::has_unique_object_representations_v<ring_record>);

struct ring_entry {
  std::uint64_t offset;  // from the pool's start
  std::uint64_t bytes;   // not zero
};
static_assert(sizeof(ring_entry) == 16 && std::has_unique_object_representations_v<ring_entry>);

// Of an entry's place: straight.  Place and bytes are multiples of a sector then, and this follows.
inline constexpr std::uint64_t straight_bit = std::uint64_t{1} << 63;
struct straight_rest {
  std::uint64_t sum;
  std::uint64_t home_lsn;  // records up to here, which may have bytes there, are home; a smaller checkpoint is not the
                           // newest
};
static_assert(sizeof(straight_rest) == 16 && std::has_unique_object_representations_v<straight_rest>);
inline constexpr std::uint64_t straight_entry_bytes = sizeof(ring_entry) + sizeof(straight_rest);
// The sum is taken piece by piece, in order, each with the sum before as its seed; the first has straight_seed().
inline constexpr std::uint64_t straight_piece_bytes = 64 * 1024;

// Records begin at multiples of this, so that a pad's header always fits into the rest of a sector.
inline constexpr std::uint64_t ring_unit = sizeof(ring_record);
// LSNs beyond are refused: no pool writes that much, and sums of LSNs and sizes cannot wrap below it.
inline constexpr std::uint64_t lsn_max = std::uint64_t{1} << 62;

// Seed of the checksum of the record at `lsn`.
inline std::uint64_t ring_seed(const std::uint8_t (&uuid)[16], std::uint64_t lsn) noexcept {
  std::uint64_t half[2];
  std::memcpy(half, uuid, sizeof half);
  return mix_seed(mix_seed(half[0], half[1]), lsn);
}

// Seed of the sum of the straight bytes at `offset`.
inline std::uint64_t straight_seed(const std::uint8_t (&uuid)[16], std::uint64_t offset) noexcept {
  return ring_seed(uuid, offset | straight_bit);
}

// Bytes that an entry of `bytes` bytes takes in a record.
constexpr std::uint64_t ring_entry_bytes(std::uint64_t bytes) noexcept {
  return sizeof(ring_entry) + round_up(bytes, 8);
}

// Where the parts of a log area are.
struct ring_place {
  std::uint64_t log_offset = 0;
  std::uint64_t log_bytes = 0;

  // The copies share no page of the file system, hence no block of a device, unless the log is tiny.
  [[nodiscard]] constexpr std::uint64_t header_stride() const noexcept {
    return log_bytes >= 64 * 1024 ? 4096 : sector_bytes;
  }
  [[nodiscard]] constexpr std::uint64_t header_offset(unsigned copy) const noexcept {
    return log_offset + copy * header_stride();
  }
  [[nodiscard]] constexpr std::uint64_t ring_offset() const noexcept { return log_offset + 2 * header_stride(); }
  // Even number of sectors, so that half of it is whole sectors too.
  [[nodiscard]] constexpr std::uint64_t ring_bytes() const noexcept {
    return round_down(log_bytes - 2 * header_stride(), 2 * sector_bytes);
  }
  // Place in the file of byte `lsn` of the log.
  [[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t lsn) const noexcept {
    return ring_offset() + lsn % ring_bytes();
  }
  // Largest record: with the pad before it, which is smaller than it, it fits an empty ring.
  [[nodiscard]] constexpr std::uint64_t record_bytes_max() const noexcept {
    constexpr std::uint64_t units_max = ~std::uint32_t{0};
    return ring_bytes() / 2 < units_max * ring_unit ? ring_bytes() / 2 : units_max * ring_unit;
  }
  [[nodiscard]] constexpr bool overlaps(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset < log_offset + log_bytes && log_offset < offset + bytes;
  }
  // `file_bytes` of the file that holds it; a place that fails this is never used.
  [[nodiscard]] constexpr bool well_formed(std::uint64_t file_bytes) const noexcept {
    return log_offset % sector_bytes == 0 && log_bytes % sector_bytes == 0 && log_bytes >= 4096 &&
           range_inside(log_offset, log_bytes, file_bytes);
  }
};

}  // namespace nvm::layout
