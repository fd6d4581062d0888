// Reference counts on media: the word of an object's header, and rings of activation records (Breeze, section IV-F).
//
//   rings    an object of type_of_reference_rings that the anchors name, from a line on:
//            header (64) | places, 64 bytes a ring | the words of each ring
//   record   head {check (32), entries (31), elsewhere (1)} | entries, 8 bytes each, or, if elsewhere, the payload of
//            an object of type_of_long_record that has them
//   entry    what happened (16) and the byte of the pool that it is about (48)
//
// There is a ring for each lane.  Places in a ring are counted in words and never begin anew: place p is word p mod the
// ring's.  Records from `head` to `end` belong to committed transactions and are not counted yet.  `end` is in the
// commit records of the lane where engine and medium have those (log/lane_layout.hpp), else in the ring's place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"
#include "object/type_map_layout.hpp"

namespace nvm::layout {

inline constexpr std::uint32_t type_of_reference_rings = own_types_of_stores | 0xF0;
inline constexpr std::uint32_t type_of_long_record = own_types_of_stores | 0xF1;
constexpr bool counts_references(std::uint32_t type) noexcept {
  return type == type_of_reference_rings || type == type_of_long_record;
}

// object_header::references
inline constexpr std::uint32_t strong_bits = 21;
inline constexpr std::uint32_t weak_bits = 10;
inline constexpr std::uint32_t strong_max = (1U << strong_bits) - 1;  // and it stays there: the count is unknown from
                                                                      // then on
inline constexpr std::uint32_t weak_max = (1U << weak_bits) - 1;
struct reference_count {
  std::uint32_t strong = 0;
  std::uint32_t weak = 0;
  bool dying = false;  // nothing refers to it any more, or the program has let it go: freed when no thread can know it
  friend constexpr bool operator==(const reference_count&, const reference_count&) = default;
};
constexpr std::uint32_t pack(const reference_count& c) noexcept {
  return c.strong | c.weak << strong_bits | std::uint32_t{c.dying} << 31;
}
constexpr reference_count unpack_references(std::uint32_t word) noexcept {
  return {word & strong_max, word >> strong_bits & weak_max, (word >> 31) != 0};
}
static_assert(strong_bits + weak_bits + 1 == 32);

inline constexpr std::uint64_t reference_rings_magic = 0x5346'4552'444C'4F48;  // "HOLDREFS" in file order

// reference_rings_header::unsettled
inline constexpr std::uint64_t objects_waiting = 1, counts_in_doubt = 2, counts_go_wrong = 4;
struct reference_rings_header {
  std::uint64_t magic;
  std::uint64_t checksum;  // XXH3 of `rings` and `ring_words`, seed magic
  std::uint32_t rings;
  std::uint32_t ring_words;  // of each, a power of two
  std::uint64_t unsettled;   // checked word: dying objects, counts in doubt, or wrong once stores give pages away
  std::uint64_t reserved[4];
};
static_assert(sizeof(reference_rings_header) == line_bytes &&
              std::has_unique_object_representations_v<reference_rings_header>);
struct reference_ring {
  std::uint64_t head;  // checked word: place of the first record that counts do not have
  std::uint64_t end;   // checked word: place after the last record; 0 where commit records say it
  std::uint64_t reserved[6];
};
static_assert(sizeof(reference_ring) == line_bytes && std::has_unique_object_representations_v<reference_ring>);

inline constexpr std::uint32_t ring_words_min = 128;
inline constexpr std::uint32_t ring_words_max = 8192;
inline constexpr std::uint32_t rings_max = 4096;
constexpr std::uint64_t reference_rings_bytes(std::uint64_t rings, std::uint64_t ring_words) noexcept {
  return line_bytes + rings * (sizeof(reference_ring) + ring_words * 8) + line_bytes;  // the last: to begin at a line
}

enum class reference_change : std::uint16_t { more = 1, less = 2, more_weak = 3, less_weak = 4, let_go = 5 };
inline constexpr unsigned entry_place_bits = 48;
constexpr std::uint64_t pack_entry(reference_change what, std::uint64_t place) noexcept {
  return place | std::uint64_t{static_cast<std::uint16_t>(what)} << entry_place_bits;
}
constexpr std::uint64_t entry_place(std::uint64_t entry) noexcept {
  return entry & ((std::uint64_t{1} << entry_place_bits) - 1);
}
constexpr reference_change entry_change(std::uint64_t entry) noexcept {
  return static_cast<reference_change>(entry >> entry_place_bits);
}

inline constexpr std::uint64_t record_elsewhere = std::uint64_t{1} << 63;
inline constexpr std::uint64_t record_entries_max = (std::uint64_t{1} << 31) - 1;
constexpr std::uint64_t pack_record(std::uint32_t check, std::uint64_t entries, bool elsewhere) noexcept {
  return check | entries << 32 | (elsewhere ? record_elsewhere : 0);
}
constexpr std::uint64_t record_entries(std::uint64_t head) noexcept { return head >> 32 & record_entries_max; }

}  // namespace nvm::layout
