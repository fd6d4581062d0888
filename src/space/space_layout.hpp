// Space on media, format 1: page map entries, slotted extents, object headers.  docs/format.md states every byte.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

// ---- page map: one checked word (base/checked_word.hpp) for each data page -----------------------------------------
// Content, from bit 0: length in pages (32), owner store (16), kind (4), object layout (2), protocol (2).
// The head of a run or extent names its length; the entries of its other pages, and of free pages, are zero: allocating
// or freeing a run of any size is one aligned 8-byte store.
enum class page_kind : std::uint8_t {
  free = 0,
  run = 1,      // one object of whole pages
  fine = 2,     // slotted extent of 1 page, 16-byte slots, objects to 256 B
  coarse = 3,   // slotted extent of 8 pages, 64-byte slots, objects to 4 KiB (and their header)
  log = 4,      // overflow of a transaction's log; free once its lane is idle
  cluster = 5,  // pages of an object store, with a map of their own (clusters_layout.hpp)
};
enum class object_layout : std::uint8_t { raw = 0, typed = 1, region = 2 };
enum class slot_protocol : std::uint8_t { transactional = 0, epoch = 1, region = 2, self_validating = 3 };

struct page_entry {
  std::uint32_t length_pages = 0;
  std::uint16_t store = 0;
  page_kind kind = page_kind::free;
  object_layout layout = object_layout::raw;
  slot_protocol protocol = slot_protocol::transactional;
};
// Whether transactions allocate and free the objects; pages of the other protocols belong to the structure `store`,
// which keeps its own account of them (space/structure_pages.hpp).
constexpr bool transactional(const page_entry& e) noexcept { return e.protocol == slot_protocol::transactional; }
constexpr std::uint64_t pack(const page_entry& e) noexcept {
  return std::uint64_t{e.length_pages} | std::uint64_t{e.store} << 32 | std::uint64_t(e.kind) << 48 |
         std::uint64_t(e.layout) << 52 | std::uint64_t(e.protocol) << 54;
}
constexpr page_entry unpack(std::uint64_t content) noexcept {
  return {static_cast<std::uint32_t>(content), static_cast<std::uint16_t>(content >> 32),
          static_cast<page_kind>(content >> 48 & 0xF), static_cast<object_layout>(content >> 52 & 3),
          static_cast<slot_protocol>(content >> 54 & 3)};
}

// ---- slotted extent ------------------------------------------------------------------------------------------------
// identity (8) | reserved, zero (8) | first words, 8 bytes each, 56 slots a word | length bytes, one a slot | slots
// An object exists when the bit of its first slot is set; its length byte (slots) was durable before.  The slots that
// the header itself takes are never allocated.
inline constexpr std::uint64_t extent_identity = 0x5458'4548;  // "HEXT": content of the identity word, with kind << 32
inline constexpr std::uint64_t fine_slot_bytes = 16;
inline constexpr std::uint64_t coarse_slot_bytes = 64;
inline constexpr std::uint64_t fine_object_max = 256;          // bytes with the object's header
inline constexpr std::uint64_t coarse_object_max = 4096 + 64;  // a 4 KiB payload and its header
inline constexpr std::uint64_t fine_extent_pages = 1;
inline constexpr std::uint64_t coarse_extent_pages = 8;

struct extent_shape {
  std::uint64_t bytes = 0;
  std::uint64_t slot_bytes = 0;
  unsigned slot_shift = 0;  // slot_bytes is 1 << slot_shift
  std::uint32_t slots = 0;  // of the whole extent, header included
  std::uint32_t words = 0;
  std::uint64_t lengths_at = 0;    // offset of the length bytes in the extent
  std::uint32_t header_slots = 0;  // first slot that can hold an object
};
constexpr std::uint64_t first_words_at = 16;
constexpr extent_shape shape_of(page_kind kind, unsigned page_shift) noexcept {
  extent_shape s;
  const bool fine = kind == page_kind::fine;
  s.bytes = (fine ? fine_extent_pages : coarse_extent_pages) << page_shift;
  s.slot_bytes = fine ? fine_slot_bytes : coarse_slot_bytes;
  s.slot_shift = static_cast<unsigned>(std::countr_zero(s.slot_bytes));
  s.slots = static_cast<std::uint32_t>(s.bytes / s.slot_bytes);
  s.words = static_cast<std::uint32_t>(ceil_div(s.slots, checked_bits));
  s.lengths_at = first_words_at + std::uint64_t{s.words} * 8;
  s.header_slots = static_cast<std::uint32_t>(ceil_div(s.lengths_at + s.slots, s.slot_bytes));
  return s;
}
// Length byte of an object: its slots in seven bits, and a bit that makes the number of one bits odd.  Neither 0 nor a
// length with one flipped bit is a length.
constexpr std::uint8_t length_byte(unsigned slots) noexcept {
  return static_cast<std::uint8_t>(slots | (std::popcount(slots) % 2 == 0 ? 0x80U : 0U));
}
// 0: `byte` is no length.
constexpr unsigned slots_of_length(std::uint8_t byte) noexcept {
  return std::popcount(byte) % 2 == 1 ? byte & 0x7FU : 0;
}
static_assert(coarse_object_max <= 127 * coarse_slot_bytes && fine_object_max <= 127 * fine_slot_bytes);

// From the word of a slot to the length bytes of that word's slots; fits an intent (log/intent.hpp) for every page
// size.
constexpr std::uint64_t lengths_distance(const extent_shape& s, unsigned word) noexcept {
  return s.lengths_at - first_words_at + std::uint64_t{word} * (checked_bits - 8);
}
static_assert(lengths_distance(shape_of(page_kind::coarse, 13), shape_of(page_kind::coarse, 13).words - 1) / 8 < 128);
static_assert(shape_of(page_kind::fine, 12).header_slots == 20 && shape_of(page_kind::fine, 12).slots == 256);
static_assert(shape_of(page_kind::coarse, 12).header_slots == 10 && shape_of(page_kind::coarse, 12).slots == 512);

// ---- typed object ---------------------------------------------------------------------------------------------------
// Before the payload; the reference count and the generation belong to relocation and collection.
struct object_header {
  std::uint64_t size_generation_check;  // size in bytes (40), generation (16), CRC-8 of size and type (8)
  std::uint32_t type;
  std::uint32_t references;
};
static_assert(sizeof(object_header) == 16 && std::has_unique_object_representations_v<object_header>);
inline constexpr std::uint64_t object_bytes_max = (std::uint64_t{1} << 40) - 1;

constexpr std::uint8_t object_check(std::uint64_t size, std::uint32_t type, std::uint64_t offset) noexcept {
  return static_cast<std::uint8_t>(crc8_56(size, crc8_56(type, word_seed(offset))) ^ 0x5A);
}
constexpr object_header make_object_header(std::uint64_t size, std::uint32_t type, std::uint64_t offset) noexcept {
  return {size | std::uint64_t{object_check(size, type, offset)} << 56, type, 0};
}
constexpr std::uint64_t object_size(const object_header& h) noexcept {
  return h.size_generation_check & object_bytes_max;
}
// `offset` is that of the header.
constexpr bool object_header_holds(const object_header& h, std::uint64_t offset) noexcept {
  return object_size(h) != 0 && h.size_generation_check >> 56 == object_check(object_size(h), h.type, offset);
}

// Room that an object of `bytes` bytes with its header takes: slots of an extent, or pages.
struct room {
  page_kind kind = page_kind::run;
  std::uint64_t units = 0;
  friend constexpr bool operator==(const room&, const room&) = default;
};
// Fine slots waste less on rounding, coarse extents less on their header: whichever takes fewer bytes of pages.
constexpr bool fine_is_denser(std::uint64_t bytes, unsigned page_shift) noexcept {
  const extent_shape fine = shape_of(page_kind::fine, page_shift);
  const extent_shape coarse = shape_of(page_kind::coarse, page_shift);
  const std::uint64_t in_fine = round_up(bytes, fine_slot_bytes) * fine.slots * (coarse.slots - coarse.header_slots);
  const std::uint64_t in_coarse = round_up(bytes, coarse_slot_bytes) * coarse.slots * (fine.slots - fine.header_slots);
  return in_fine < in_coarse;
}
constexpr room room_of(std::uint64_t bytes, unsigned page_shift) noexcept {
  if (bytes <= fine_object_max && fine_is_denser(bytes, page_shift))
    return {page_kind::fine, ceil_div(bytes, fine_slot_bytes)};
  if (bytes <= coarse_object_max) return {page_kind::coarse, ceil_div(bytes, coarse_slot_bytes)};
  return {page_kind::run, ceil_div(bytes, std::uint64_t{1} << page_shift)};
}
// Payloads that need the same room: one can become the other in place.
constexpr bool same_room(std::uint64_t payload_a, std::uint64_t payload_b, unsigned page_shift) noexcept {
  return payload_b <= object_bytes_max && room_of(payload_a + sizeof(object_header), page_shift) ==
                                              room_of(payload_b + sizeof(object_header), page_shift);
}

}  // namespace nvm::layout
