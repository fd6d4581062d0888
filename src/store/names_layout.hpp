// Names of stores on media, version 1: the catalogue of a pool, and the nodes of its burst trie.  docs/format.md states
// every byte.
//
// All of these are payloads of objects of the pool; *places* are their offsets from the pool's start, multiples of 16.
// A node proves itself by a checksum that is seeded with its place. Words that lead to nodes, and words of the
// catalogue that change, are checked words, seeded with their own place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t catalogue_magic = 0x5441'4344'4C4F'48'31;  // "1HOLDCAT" in file order
inline constexpr std::uint32_t catalogue_version = 1;                     // raise it with any change below

inline constexpr std::uint64_t store_name_bytes_max = 255;
inline constexpr std::uint32_t burst_names_default = 35;
inline constexpr std::uint32_t burst_names_min = 2;
inline constexpr std::uint32_t burst_names_max = 255;

// Types of the objects, among those of the library's own.
enum names_type : std::uint32_t {
  names_type_catalogue = 0xF04B'5611,
  names_type_inner = 0xF04B'5612,
  names_type_container = 0xF04B'5613,
};

// ---- catalogue ----------------------------------------------------------------------------------------------------
inline constexpr unsigned dying_stores_max = 32;

struct catalogue {
  std::uint64_t magic;
  std::uint32_t version;                  // greater than ours: refuse
  std::uint32_t burst_names;              // a container with more names bursts
  std::uint64_t check;                    // XXH3 of the words before, seeded with the catalogue's place
  std::uint64_t root;                     // leads to the trie's first node; 0: there are no names
  std::uint64_t next_number;              // checked word: of the next store
  std::uint64_t names;                    // checked word: how many there are
  std::uint64_t dying[dying_stores_max];  // checked words: pages of stores whose names are gone; 0: free
  std::uint64_t reserved[2];              // zero
};
static_assert(sizeof(catalogue) == 320 && offsetof(catalogue, root) == 24 && offsetof(catalogue, dying) == 48);
static_assert(std::is_trivially_copyable_v<catalogue> && std::has_unique_object_representations_v<catalogue>);

// ---- trie ---------------------------------------------------------------------------------------------------------
// A word that leads to a node: place / 16 in the low 40 bits, then its kind in two.
enum class trie_kind : std::uint8_t { none = 0, inner = 1, container = 2 };
inline constexpr unsigned trie_place_bits = 40;
constexpr std::uint64_t trie_child(trie_kind kind, std::uint64_t place) noexcept {
  return place >> 4 | std::uint64_t(kind) << trie_place_bits;
}

// Inner node: this head | prefix, padded to 8 bytes | room for words that lead to nodes, by ascending byte.  Each name
// below continues with the prefix, then ends or continues with a byte that has a word.
struct trie_inner {
  std::uint64_t check;  // XXH3 of what follows up to the words, seeded with the node's place
  std::uint64_t value;  // of the name that ends after the prefix; 0: none ends there
  std::uint8_t has_value;
  std::uint8_t prefix_bytes;
  std::uint16_t children;
  std::uint16_t room;  // in words
  std::uint16_t reserved;
  std::uint64_t bits[4];  // of the bytes that there are words for
};
static_assert(sizeof(trie_inner) == 56 && offsetof(trie_inner, bits) == 24);
static_assert(std::is_trivially_copyable_v<trie_inner> && std::has_unique_object_representations_v<trie_inner>);

// Container: this head | where each text ends (2 bytes) | a tag of each text (1) | padding to 8 | values (8) | texts,
// padded to 8.  A text is the rest of a name after the path to here; texts ascend.
struct trie_container {
  std::uint64_t check;  // XXH3 of what follows up to `bytes`, seeded with the node's place
  std::uint16_t names;
  std::uint16_t bytes;  // of all, this head too
  std::uint16_t room;   // bytes that the object has
  std::uint16_t reserved;
};
static_assert(sizeof(trie_container) == 16);
static_assert(std::is_trivially_copyable_v<trie_container> && std::has_unique_object_representations_v<trie_container>);

inline constexpr std::uint64_t trie_container_bytes_max = 4000;
constexpr std::uint64_t trie_values_at(std::uint64_t names) noexcept {
  return sizeof(trie_container) + round_up(3 * names, 8);
}
constexpr std::uint64_t trie_texts_at(std::uint64_t names) noexcept { return trie_values_at(names) + 8 * names; }
constexpr std::uint64_t trie_words_at(std::uint64_t prefix_bytes) noexcept {
  return sizeof(trie_inner) + round_up(prefix_bytes, 8);
}
inline std::uint8_t trie_tag(const char* text, std::uint64_t bytes) noexcept {
  return static_cast<std::uint8_t>(checksum(text, bytes, 0));
}

}  // namespace nvm::layout
