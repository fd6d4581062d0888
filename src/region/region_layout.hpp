// Regions on media (Lewat, sections III-A and III-B; docs/design/023).  docs/format.md states every byte.
//
// The anchors name the directory of sets of regions; the directory names the rings of their log and each set.  Pages of
// a set are runs with the protocol `region` and the set's number as owner.  Runs with the layout `region` are extents:
// a head and equal slots, each of which begins with the header of a region.  Runs with the layout `raw` hold the bytes
// of one large region each, whose header names it.  A raw run that no header names is free.
//
// Where bytes of users can stand no header can, and the other way round: no content of a region passes for a header.
// Extents of partners have a head of their own, and slots that begin with a line (partners.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"
#include "region/face.hpp"
#include "space/space_layout.hpp"

namespace nvm::region::layout {

// ---- numbers of owners: those of lock-free structures are smaller --------------------------------------------------
inline constexpr std::uint16_t directory_owner = 256;  // of the directory and the rings
inline constexpr std::uint16_t first_owner = 257;
inline constexpr unsigned sets_max = 64;

// ---- directory ------------------------------------------------------------------------------------------------------
inline constexpr std::uint64_t directory_magic = 0x534E'4F49'4745'5224;  // "$REGIONS" in file order
inline constexpr unsigned name_max = 63;
inline constexpr std::uint64_t version = 1;  // of the directory
// States of a set that exists.  A library that knows only the first would leave a tally from before its changes, one
// that knows two a table from before them.
inline constexpr std::uint64_t set_plain = 1;
inline constexpr std::uint64_t set_counted = 2;  // with a tally
inline constexpr std::uint64_t set_saved = 3;    // and with a table
constexpr bool is_set(std::uint64_t state) noexcept { return state >= set_plain && state <= set_saved; }
// State of a set that is being dropped, until its pages are free: a state of zero could also be a damaged word.
inline constexpr std::uint64_t leaving = 1 << 8;

// One set.  It exists when `state` says so; everything else was durable before.
struct set_entry {
  std::uint64_t state;        // checked word: set_plain, set_counted, set_saved, leaving; 0: none
  char name[name_max + 1];    // ends with a zero byte, as does all after it
  std::uint64_t crc;          // XXH3 of the name, seeded with the entry's offset
  std::uint64_t regions;      // checked word: one more than their number when the pool was closed; 0: not counted
  std::uint64_t partners;     // the same for partners that are named
  std::uint64_t saved;        // checked word: offset of the table that the close has saved (below); 0: none
  std::uint64_t saved_crc;    // of that table's head
  std::uint64_t reserved[2];  // zero
};
static_assert(sizeof(set_entry) == 128);

// The directory, in a run of its own.  The part before the entries never changes.
struct directory {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t key;         // of the seals of headers and records; random
  std::uint64_t rings;       // offset of the run with the rings; 0 on an image medium
  std::uint64_t ring_bytes;  // of each, a multiple of the page
  std::uint64_t ring_count;
  std::uint64_t reserved;
  std::uint64_t crc;  // XXH3 of all before, seeded with the directory's offset
  set_entry entries[sets_max];
};
static_assert(sizeof(directory) == 64 + sets_max * sizeof(set_entry));
// The part that never changes stands once more in the last line of the run: it proves itself by `crc`, and serves only
// repair.  Directories of earlier libraries have zeros there until they are opened for change.
inline constexpr std::uint64_t directory_line_bytes = offsetof(directory, entries);
constexpr std::uint64_t directory_copy_at(std::uint64_t run_bytes) noexcept { return run_bytes - directory_line_bytes; }
static_assert(std::has_unique_object_representations_v<directory>);

// ---- extent: a head, then slots -------------------------------------------------------------------------------------
inline constexpr std::uint64_t extent_magic = 0x5458'4552;  // "REXT"
inline constexpr std::uint64_t extent_pages = 8;
struct extent_head {
  std::uint64_t magic_and_slot;  // checked word: extent_magic (32), bytes of a slot (24)
  std::uint64_t reserved[7];     // zero
};
static_assert(sizeof(extent_head) == line_bytes);

// ---- header of a region ---------------------------------------------------------------------------------------------
// A slot whose header is zero is free.  Changed by records of the log alone, always as a whole.
struct header {
  std::uint64_t rid;
  std::uint64_t length_state;   // length (40), state (4), written (20 bits from bit 20)
  std::uint64_t place_written;  // page of its run (32), written (20 bits from bit 0), levelling counter (12)
  std::uint64_t seal;           // XXH3 of all before, seeded with the key of the directory and the header's place
};
static_assert(sizeof(header) == 32 && std::has_unique_object_representations_v<header>);
inline constexpr std::uint64_t length_bits = 40;
inline constexpr std::uint64_t length_max = (std::uint64_t{1} << length_bits) - 1;
using region::levelling_max;

// Where a region's bytes are: `inside` after its header, or in a run of their own, or nowhere: it reads as zeros.
enum class state : std::uint8_t { free = 0, nowhere = 1, inside = 2, run = 3 };

// A header, read.
struct facts {
  std::uint64_t rid = 0;
  std::uint64_t length = 0;
  std::uint64_t written = 0;  // bytes from here on read as zeros; at most `length`
  std::uint32_t page = 0;     // of the run, if it has one
  std::uint16_t levelling = 0;
  state where = state::free;
};
constexpr header pack(const facts& f) noexcept {
  header h{};
  h.rid = f.rid;
  h.length_state = f.length | std::uint64_t(f.where) << length_bits | f.written >> 20 << (length_bits + 4);
  h.place_written = std::uint64_t{f.page} | (f.written & 0xF'FFFF) << 32 | std::uint64_t{f.levelling} << 52;
  return h;
}
constexpr facts unpack(const header& h) noexcept {
  facts f;
  f.rid = h.rid;
  f.length = h.length_state & length_max;
  f.where = static_cast<state>(h.length_state >> length_bits & 15);
  f.written = h.length_state >> (length_bits + 4) << 20 | (h.place_written >> 32 & 0xF'FFFF);
  f.page = static_cast<std::uint32_t>(h.place_written);
  f.levelling = static_cast<std::uint16_t>(h.place_written >> 52);
  return f;
}
static_assert(unpack(pack({7, length_max, length_max - 1, ~0U, levelling_max, state::run})).written == length_max - 1);

// ---- the table of a set, saved by a close ---------------------------------------------------------------------------
// In a raw run that the set's entry names: a head, buckets, the extents of partners, the free slots of regions (both
// ascending), then the checksums of the blocks of all that.
inline constexpr std::uint64_t saved_magic = 0x454C'4241'5447'5224;  // "$RGTABLE" in file order
inline constexpr unsigned saved_parts = 64;                          // of the numbers of regions, by their hash
inline constexpr std::uint64_t saved_block_bytes = 64 << 10;
struct saved_head {
  std::uint64_t magic;
  std::uint64_t regions;
  std::uint64_t extents;   // of partners: an offset each
  std::uint64_t slots;     // free slots: a place each
  std::uint64_t sums_crc;  // XXH3 of the checksums of the blocks
  std::uint64_t reserved[2];
  std::uint64_t parts[saved_parts];  // of each: buckets (32), regions (32)
  std::uint64_t crc;                 // XXH3 of all before, seeded with the directory's key and the run's offset
};
static_assert(sizeof(saved_head) % line_bytes == 0 && std::has_unique_object_representations_v<saved_head>);
// A bucket is a line of them, filled from the first on; a number is in the first bucket from its own on that has room.
struct saved_cell {
  std::uint64_t rid;
  std::uint64_t place;  // of its header: offset (52), class of its slot; 0: there is none
};
inline constexpr unsigned saved_cells = line_bytes / sizeof(saved_cell);
inline constexpr unsigned place_bits = 52;
constexpr std::uint64_t saved_place(std::uint64_t offset, std::uint64_t in_class) noexcept {
  return offset | in_class << place_bits;
}
constexpr std::uint64_t offset_of(std::uint64_t place) noexcept {
  return place & ((std::uint64_t{1} << place_bits) - 1);
}
constexpr unsigned class_in(std::uint64_t place) noexcept { return static_cast<unsigned>(place >> place_bits); }

// ---- sizes of slots -------------------------------------------------------------------------------------------------
// Header and bytes.  Slots of class 0 hold headers of regions whose bytes are elsewhere.
inline constexpr std::uint64_t inside_max = 2048;  // a larger region has a run (Lewat, section III-C: half a page)
inline constexpr std::array<std::uint16_t, 46> slot_bytes_of_class = [] {
  std::array<std::uint16_t, 46> all{};
  std::uint16_t bytes = sizeof(header);
  for (std::uint16_t& slot : all) {
    slot = bytes;
    unsigned step = 8;  // an eighth of the size and less
    for (unsigned power = 128; bytes >= power; power *= 2) step = power / 8;
    bytes = static_cast<std::uint16_t>(bytes + step);
  }
  all.back() = sizeof(header) + inside_max;
  return all;
}();
inline constexpr unsigned classes = slot_bytes_of_class.size();
static_assert(slot_bytes_of_class[classes - 2] == 2048 && slot_bytes_of_class[classes - 1] == 2080);
// The smallest with room for so many bytes of a region; at most inside_max.
constexpr unsigned class_of(std::uint64_t bytes) noexcept {
  unsigned c = 0;
  while (slot_bytes_of_class[c] < sizeof(header) + bytes) ++c;
  return c;
}

// ---- partner of a region: a line, then bytes -----------------------------------------------------------------------
// A slot whose owner is zero is free.  Only records make the owner zero, and a thread that gives a partner away.
enum class partner_kind : std::uint8_t { none = 0, replica = 1, copies = 2 };
struct partner {
  std::uint64_t rid;
  std::uint64_t owner;        // checked word: offset of the region's header (52), kind (4)
  std::uint64_t sum[2];       // of the bytes that the region's place is to have, and of those here: XXH3 of its written
                              // bytes
  std::uint64_t sequence[2];  // of copies: the greater one is the region's; 0: none
  std::uint64_t reserved[2];  // zero
};
static_assert(sizeof(partner) == line_bytes && std::has_unique_object_representations_v<partner>);
inline constexpr unsigned owner_bits = 52;

inline constexpr std::uint64_t partner_magic = 0x5254'5250;  // "PRTR", of the head of an extent of partners
// Lines of the bytes of a region.
inline constexpr std::array<std::uint8_t, 10> partner_lines_of_class{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
static_assert(partner_lines_of_class.back() * line_bytes == inside_max);

// Classes of slots of both kinds: those of partners come after those of regions.
inline constexpr unsigned all_classes = classes + partner_lines_of_class.size();
constexpr bool is_of_partners(unsigned c) noexcept { return c >= classes; }
constexpr std::uint64_t slot_bytes(unsigned c) noexcept {
  return is_of_partners(c) ? sizeof(partner) + partner_lines_of_class[c - classes] * line_bytes
                           : std::uint64_t{slot_bytes_of_class[c]};
}
// Bytes of a region that fit.
constexpr std::uint64_t room_in(unsigned c) noexcept {
  return slot_bytes(c) - (is_of_partners(c) ? sizeof(partner) : sizeof(header));
}
// Smallest class of partners with room for so many bytes of a region; at most inside_max.
constexpr unsigned partner_class_of(std::uint64_t bytes) noexcept {
  unsigned c = classes;
  while (room_in(c) < bytes) ++c;
  return c;
}
// Magic and bytes of a slot in the head of an extent of class c.
constexpr std::uint64_t head_of_class(unsigned c) noexcept {
  return (is_of_partners(c) ? partner_magic : extent_magic) | slot_bytes(c) << 32;
}
constexpr unsigned class_of_head(std::uint64_t content) noexcept {
  unsigned c = 0;
  while (c < all_classes && head_of_class(c) != content) ++c;
  return c;
}
constexpr std::uint64_t slots_in(std::uint64_t extent_bytes, unsigned c) noexcept {
  return (extent_bytes - sizeof(extent_head)) / slot_bytes(c);
}
constexpr std::uint64_t slot_at(unsigned c, std::uint64_t index) noexcept {
  return sizeof(extent_head) + index * slot_bytes(c);
}

}  // namespace nvm::region::layout
