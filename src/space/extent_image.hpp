// A slotted extent as it is on media: reading one that may be damaged, making an empty one.  Pure functions over bytes.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "space/space_layout.hpp"

namespace nvm {

// A place where metadata is not what it should be.
struct damage {
  std::uint64_t offset = 0;  // bytes from the pool's start
  const char* what = "";     // static storage
  std::uint64_t found = 0;
  std::uint64_t expected = 0;
};

[[nodiscard]] inline std::uint64_t extent_identity_word(std::uint64_t extent_offset, layout::page_kind kind) noexcept {
  return seal_word(layout::extent_identity | std::uint64_t(kind) << 32, word_seed(extent_offset));
}

// Offset, from the pool's start, of the word and number of the bit that say whether an object begins at `slot`.
struct first_bit {
  std::uint64_t word_offset;
  unsigned word;
  unsigned bit;
};
[[nodiscard]] constexpr first_bit first_bit_of(std::uint64_t extent_offset, unsigned slot) noexcept {
  const unsigned word = slot / checked_bits;
  return {extent_offset + layout::first_words_at + word * 8, word, slot % checked_bits};
}

// relaxed: extents that are read whole are not being changed; a single word is read under its arena's lock.
[[nodiscard]] inline std::uint64_t load_word(const std::byte* base, std::uint64_t offset) noexcept {
  auto* p = const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(base + offset));
  return std::atomic_ref<std::uint64_t>{*p}.load(std::memory_order_relaxed);
}

// Stores the header of an empty extent.  Returns the number of bytes that the caller has to flush.
inline std::uint64_t write_empty_extent(std::byte* base, std::uint64_t extent_offset, layout::page_kind kind,
                                        const layout::extent_shape& s) noexcept {
  const std::uint64_t bytes = s.lengths_at + s.slots;
  std::byte* const at = base + extent_offset;
  // relaxed: a barrier transaction that was open when these pages were freed may still read what they held; it finds
  // out later that it was too late, and reads no more of it.
  std::uint64_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    const std::uint64_t word = done == 0 ? extent_identity_word(extent_offset, kind) : 0;
    std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(at + done)}.store(word, std::memory_order_relaxed);
  }
  for (; done < bytes; ++done) std::atomic_ref<std::byte>{at[done]}.store(std::byte{}, std::memory_order_relaxed);
  return bytes;
}

// Length bytes of an empty extent whose objects will all take `slots` slots: with them an object needs its bit only.
inline void write_equal_lengths(std::byte* base, std::uint64_t extent_offset, const layout::extent_shape& s,
                                unsigned slots) noexcept {
  for (unsigned slot = s.header_slots; slot + slots <= s.slots; slot += slots) {
    // relaxed: as in write_empty_extent().
    std::atomic_ref<std::byte>{base[extent_offset + s.lengths_at + slot]}.store(std::byte{layout::length_byte(slots)},
                                                                                std::memory_order_relaxed);
  }
}

// Slots of each node of an extent, as most length bytes of places for nodes name them; 0: they do not agree.
inline unsigned size_of_nodes(const std::byte* base, std::uint64_t extent_offset,
                              const layout::extent_shape& s) noexcept {
  for (unsigned each = 1; each <= 0x7F && s.header_slots + each <= s.slots; ++each) {
    unsigned places = 0;
    unsigned say_so = 0;
    for (unsigned slot = s.header_slots; slot + each <= s.slots; slot += each) {
      ++places;
      say_so +=
          static_cast<std::uint8_t>(base[extent_offset + s.lengths_at + slot]) == layout::length_byte(each) ? 1 : 0;
    }
    if (say_so * 2 > places) return each;
  }
  return 0;
}

// Calls object(slot, slots) for each object, in order, and broken(damage) for each fault; touches the header only.
template <class Object, class Broken>
void read_extent(const std::byte* base, std::uint64_t extent_offset, layout::page_kind kind,
                 const layout::extent_shape& s, Object&& object, Broken&& broken) {
  const std::uint64_t identity = load_word(base, extent_offset);
  const std::uint64_t expected = extent_identity_word(extent_offset, kind);
  if (identity != expected) {
    broken(damage{extent_offset, "extent is not identified as such", identity, expected});
    return;
  }
  if (const std::uint64_t zero = load_word(base, extent_offset + 8); zero != 0) {
    broken(damage{extent_offset + 8, "reserved word of an extent is not zero", zero, 0});
  }
  unsigned end = s.header_slots;  // of the object before
  for (unsigned w = 0; w < s.words; ++w) {
    const std::uint64_t at = extent_offset + layout::first_words_at + w * 8;
    const std::uint64_t word = load_word(base, at);
    if (!word_holds(word, word_seed(at))) {
      broken(damage{at, "allocation word fails its check", word, seal_word(word & checked_mask, word_seed(at))});
      continue;
    }
    for (std::uint64_t left = word & checked_mask; left != 0; left &= left - 1) {
      const unsigned slot = w * checked_bits + static_cast<unsigned>(std::countr_zero(left));
      if (slot < s.header_slots || slot >= s.slots) {
        broken(damage{at, "object begins outside the slots of its extent", slot, s.header_slots});
        continue;
      }
      const std::uint64_t length_at = extent_offset + s.lengths_at + slot;
      const auto byte = static_cast<std::uint8_t>(base[length_at]);
      const unsigned slots = layout::slots_of_length(byte);
      if (slots == 0) {
        broken(damage{length_at, "length byte of an object fails its check", byte, layout::length_byte(byte & 0x7F)});
      } else if (slots > s.slots - slot) {
        broken(damage{length_at, "object reaches behind the end of its extent", slots, s.slots - slot});
      } else if (slot < end) {
        broken(damage{at, "object begins inside the one before", slot, end});
      } else {
        object(slot, slots);
        end = slot + slots;
      }
    }
  }
}

}  // namespace nvm
