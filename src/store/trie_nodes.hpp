// Nodes of the burst trie as they are read and made.  Nothing that is read is believed: a node is used only after its
// checksum holds and its figures agree with each other and with its stated size.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string_view>

#include "base/base.hpp"
#include "store/names_layout.hpp"
#include "store/trie_memory.hpp"

namespace nvm::stores {

using layout::trie_container;
using layout::trie_inner;
using layout::trie_kind;

[[gnu::cold]] inline errc damaged_names(const char* what, std::uint64_t place) noexcept {
  return fail(errc::corrupt, "names of stores: %s at offset %lu fails its check", what, place);
}

// ---- words that lead to nodes ----

struct trie_link {
  trie_kind kind = trie_kind::none;
  std::uint64_t place = 0;
};

// The stored form of a link that lies at `at`.
[[nodiscard]] constexpr std::uint64_t stored_link(trie_link to, std::uint64_t at) noexcept {
  if (to.kind == trie_kind::none) return 0;
  return seal_word(layout::trie_child(to.kind, to.place), word_seed(at));
}

template <trie_reads M>
[[nodiscard]] result<trie_link> read_link(M& m, std::uint64_t at) noexcept {
  alignas(8) std::byte room[8];
  const std::byte* const p = m.view(at, sizeof room, room);
  if (p == nullptr) return damaged_names("the place of a link", at);
  std::uint64_t word = 0;
  std::memcpy(&word, p, sizeof word);
  if (word == 0) return trie_link{};
  const std::uint64_t content = word & checked_mask;
  const auto kind = static_cast<trie_kind>(content >> layout::trie_place_bits);
  const std::uint64_t place = (content & ((std::uint64_t{1} << layout::trie_place_bits) - 1)) << 4;
  const bool known = content >> layout::trie_place_bits <= std::uint64_t(trie_kind::container);
  if (!word_holds(word, word_seed(at)) || !known || kind == trie_kind::none) return damaged_names("a link", at);
  return trie_link{kind, place};
}

// ---- inner nodes ----

class inner_node {
 public:
  // Most bytes of a node that a checksum covers.
  static constexpr std::uint64_t room_bytes = layout::trie_words_at(255);

  trie_inner head{};
  std::uint64_t place = 0;
  std::string_view prefix;

  [[nodiscard]] bool has(std::uint8_t byte) const noexcept { return (head.bits[byte / 64] >> byte % 64 & 1) != 0; }
  // How many words are before that of this byte.
  [[nodiscard]] unsigned rank(std::uint8_t byte) const noexcept {
    unsigned before = 0;
    for (unsigned i = 0; i < byte / 64U; ++i) before += static_cast<unsigned>(std::popcount(head.bits[i]));
    return before + static_cast<unsigned>(std::popcount(head.bits[byte / 64] & ((std::uint64_t{1} << byte % 64) - 1)));
  }
  [[nodiscard]] std::uint64_t words_at() const noexcept { return place + layout::trie_words_at(prefix.size()); }
  [[nodiscard]] std::uint64_t word_at(unsigned rank) const noexcept { return words_at() + 8 * std::uint64_t{rank}; }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return layout::trie_words_at(prefix.size()) + 8 * std::uint64_t{head.room};
  }
  // Calls visit(byte, rank) -> bool in order until it answers false; returns false then.
  template <class Visit>
  bool each(Visit&& visit) const {
    unsigned rank = 0;
    for (unsigned i = 0; i < 4; ++i) {
      for (std::uint64_t left = head.bits[i]; left != 0; left &= left - 1, ++rank) {
        if (!visit(static_cast<std::uint8_t>(64 * i + static_cast<unsigned>(std::countr_zero(left))), rank))
          return false;
      }
    }
    return true;
  }
};

[[nodiscard]] inline std::uint64_t inner_check(const std::byte* node, std::uint64_t prefix_bytes,
                                               std::uint64_t place) noexcept {
  constexpr std::uint64_t from = offsetof(trie_inner, value);
  return checksum(node + from, layout::trie_words_at(prefix_bytes) - from, place);
}

// `room`: inner_node::room_bytes, and what `prefix` may lie in.
template <trie_reads M>
[[nodiscard]] result<inner_node> read_inner(M& m, std::uint64_t place, std::byte* room) noexcept {
  constexpr const char* what = "an inner node";
  inner_node n;
  n.place = place;
  const std::byte* p = m.view(place, sizeof n.head, room);
  if (p == nullptr || place % 16 != 0) return damaged_names(what, place);
  std::memcpy(&n.head, p, sizeof n.head);
  const std::uint64_t covered = layout::trie_words_at(n.head.prefix_bytes);
  if (n.head.prefix_bytes != 0) p = m.view(place, covered, room);
  if (p == nullptr || n.head.check != inner_check(p, n.head.prefix_bytes, place)) return damaged_names(what, place);
  n.prefix = {reinterpret_cast<const char*>(p) + sizeof n.head, n.head.prefix_bytes};
  unsigned bits = 0;
  for (const std::uint64_t b : n.head.bits) bits += static_cast<unsigned>(std::popcount(b));
  const bool agrees = bits == n.head.children && n.head.children <= n.head.room && n.head.reserved == 0 &&
                      n.head.has_value <= 1 && (n.head.has_value == 1 || n.head.value == 0) &&
                      n.head.children + n.head.has_value != 0 && (n.head.bits[0] & 1) == 0;
  if (!agrees) return damaged_names(what, place);
  return n;
}

// ---- containers ----

// A name, or the rest of one.
struct trie_text {
  const char* text = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  [[nodiscard]] std::string_view view(std::uint64_t from = 0) const noexcept { return {text + from, bytes - from}; }
};

class container_node {
 public:
  static constexpr std::uint64_t room_bytes = layout::trie_container_bytes_max;

  trie_container head{};
  std::uint64_t place = 0;
  const std::byte* at = nullptr;

  [[nodiscard]] unsigned names() const noexcept { return head.names; }
  [[nodiscard]] std::uint64_t end_of(unsigned i) const noexcept {
    std::uint16_t end = 0;
    std::memcpy(&end, at + sizeof head + 2 * std::uint64_t{i}, sizeof end);
    return end;
  }
  [[nodiscard]] std::uint8_t tag_of(unsigned i) const noexcept {
    return static_cast<std::uint8_t>(at[sizeof head + 2 * std::uint64_t{head.names} + i]);
  }
  [[nodiscard]] std::uint64_t value_offset(unsigned i) const noexcept {
    return layout::trie_values_at(head.names) + 8 * std::uint64_t{i};
  }
  [[nodiscard]] trie_text text(unsigned i) const noexcept {
    const std::uint64_t from = i == 0 ? 0 : end_of(i - 1);
    trie_text t{reinterpret_cast<const char*>(at) + layout::trie_texts_at(head.names) + from, end_of(i) - from, 0};
    std::memcpy(&t.value, at + value_offset(i), sizeof t.value);
    return t;
  }
  // names(): it is not here.
  [[nodiscard]] unsigned find(std::string_view text_wanted) const noexcept {
    const std::uint8_t tag = layout::trie_tag(text_wanted.data(), text_wanted.size());
    const std::byte* const tags = at + sizeof head + 2 * std::uint64_t{head.names};
    for (unsigned i = 0; i < head.names; ++i) {
      if (static_cast<std::uint8_t>(tags[i]) == tag && text(i).view() == text_wanted) return i;
    }
    return head.names;
  }
};

[[nodiscard]] inline std::uint64_t container_check(const std::byte* node, std::uint64_t bytes,
                                                   std::uint64_t place) noexcept {
  constexpr std::uint64_t from = offsetof(trie_container, names);
  return checksum(node + from, bytes - from, place);
}

// `room`: container_node::room_bytes.
template <trie_reads M>
[[nodiscard]] result<container_node> read_container(M& m, std::uint64_t place, std::byte* room) noexcept {
  constexpr const char* what = "a container";
  container_node n;
  n.place = place;
  const std::byte* p = m.view(place, sizeof n.head, room);
  if (p == nullptr || place % 16 != 0) return damaged_names(what, place);
  std::memcpy(&n.head, p, sizeof n.head);
  const trie_container& h = n.head;
  const std::uint64_t texts_at = layout::trie_texts_at(h.names);
  const bool agrees = h.names != 0 && h.names <= layout::burst_names_max && h.bytes % 8 == 0 && h.bytes >= texts_at &&
                      h.bytes <= h.room && h.room <= container_node::room_bytes && h.reserved == 0;
  if (!agrees) return damaged_names(what, place);
  n.at = p = m.view(place, h.bytes, room);
  if (p == nullptr || h.check != container_check(p, h.bytes, place)) return damaged_names(what, place);
  std::uint64_t last = 0;
  for (unsigned i = 0; i < h.names; ++i) {
    const std::uint64_t end = n.end_of(i);
    if (end < last || end - last > layout::store_name_bytes_max) return damaged_names(what, place);
    last = end;
  }
  if (round_up(texts_at + last, 8) != h.bytes) return damaged_names(what, place);
  return n;
}

// ---- making them ----

// Bytes of an object for a payload of so many, rounded up as space does: the whole slot is used.
[[nodiscard]] constexpr std::uint64_t whole_slots(std::uint64_t payload) noexcept {
  constexpr std::uint64_t header = 16;
  constexpr std::uint64_t fine_max = 256;
  const std::uint64_t bytes = header + payload;
  return round_up(bytes, bytes <= fine_max ? 16 : 64) - header;
}

// Bytes of a container with these texts from their byte `from` on.
[[nodiscard]] constexpr std::uint64_t container_bytes(std::span<const trie_text> all, std::uint64_t from) noexcept {
  std::uint64_t texts = 0;
  for (const trie_text& t : all) texts += t.bytes - from;
  return round_up(layout::trie_texts_at(all.size()) + texts, 8);
}

// The contents of a container that lies at a place, into `image`; its bytes.
inline std::uint64_t build_container(std::span<const trie_text> all, std::uint64_t from, std::uint64_t room,
                                     std::uint64_t place, std::byte* image) noexcept {
  trie_container h{};
  h.names = static_cast<std::uint16_t>(all.size());
  h.bytes = static_cast<std::uint16_t>(container_bytes(all, from));
  h.room = static_cast<std::uint16_t>(room);
  std::memset(image, 0, h.bytes);
  std::byte* const tags = image + sizeof h + 2 * all.size();
  std::byte* const values = image + layout::trie_values_at(all.size());
  std::byte* const texts = image + layout::trie_texts_at(all.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view text = all[i].view(from);
    if (!text.empty()) std::memcpy(texts + end, text.data(), text.size());
    end += text.size();
    const auto stored = static_cast<std::uint16_t>(end);
    std::memcpy(image + sizeof h + 2 * i, &stored, sizeof stored);
    tags[i] = std::byte{layout::trie_tag(text.data(), text.size())};
    std::memcpy(values + 8 * i, &all[i].value, 8);
  }
  std::memcpy(image, &h, sizeof h);
  h.check = container_check(image, h.bytes, place);
  std::memcpy(image, &h.check, sizeof h.check);
  return h.bytes;
}

template <trie_writes M>
[[nodiscard, gnu::noinline]] result<trie_link> make_container(M& m, std::span<const trie_text> all,
                                                              std::uint64_t from) noexcept {
  alignas(8) std::byte image[container_node::room_bytes];
  const std::uint64_t room = std::min(whole_slots(container_bytes(all, from)), container_node::room_bytes);
  const auto place = m.allocate(layout::names_type_container, room);
  if (!place) return place.error();
  const std::uint64_t bytes = build_container(all, from, room, *place, image);
  m.fill(*place, image, bytes);
  return trie_link{trie_kind::container, *place};
}

// What an inner node leads to, by ascending byte.
struct inner_links {
  unsigned count = 0;
  std::array<std::uint8_t, 256> bytes;
  std::array<trie_link, 256> links;
  void add(std::uint8_t byte, trie_link to) noexcept {
    bytes[count] = byte;
    links[count++] = to;
  }
  void insert(std::uint8_t byte, trie_link to) noexcept {
    unsigned i = count++;
    for (; i > 0 && bytes[i - 1] > byte; --i) {
      bytes[i] = bytes[i - 1];
      links[i] = links[i - 1];
    }
    bytes[i] = byte;
    links[i] = to;
  }
  void erase(std::uint8_t byte) noexcept {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (bytes[i] == byte) continue;
      bytes[kept] = bytes[i];
      links[kept++] = links[i];
    }
    count = kept;
  }
};

struct inner_text {
  std::string_view prefix;
  bool has_value = false;
  std::uint64_t value = 0;
};

// The contents of an inner node that lies at a place, all of its room, into `image`; how many bytes.
inline constexpr std::uint64_t inner_image_bytes = layout::trie_words_at(255) + 8 * std::uint64_t{256};
inline std::uint64_t build_inner(const inner_text& text, const inner_links& to, unsigned room, std::uint64_t place,
                                 std::byte* image) noexcept {
  trie_inner h{};
  h.value = text.has_value ? text.value : 0;
  h.has_value = text.has_value ? 1 : 0;
  h.prefix_bytes = static_cast<std::uint8_t>(text.prefix.size());
  h.children = static_cast<std::uint16_t>(to.count);
  h.room = static_cast<std::uint16_t>(room);
  for (unsigned i = 0; i < to.count; ++i) h.bits[to.bytes[i] / 64] |= std::uint64_t{1} << to.bytes[i] % 64;
  const std::uint64_t words = layout::trie_words_at(text.prefix.size());
  std::memset(image, 0, words + 8 * std::uint64_t{room});
  std::memcpy(image, &h, sizeof h);
  if (!text.prefix.empty()) std::memcpy(image + sizeof h, text.prefix.data(), text.prefix.size());
  h.check = inner_check(image, h.prefix_bytes, place);
  std::memcpy(image, &h.check, sizeof h.check);
  for (unsigned i = 0; i < to.count; ++i) {
    const std::uint64_t word = stored_link(to.links[i], place + words + 8 * std::uint64_t{i});
    std::memcpy(image + words + 8 * std::uint64_t{i}, &word, sizeof word);
  }
  return words + 8 * std::uint64_t{room};
}

// `more`: additional room for words, so that not each new byte moves a large node.
template <trie_writes M>
[[nodiscard, gnu::noinline]] result<trie_link> make_inner(M& m, const inner_text& text, const inner_links& to,
                                                          unsigned more = 0) noexcept {
  alignas(8) std::byte image[inner_image_bytes];
  const std::uint64_t words_at = layout::trie_words_at(text.prefix.size());
  const std::uint64_t wanted = whole_slots(words_at + 8 * std::uint64_t{to.count + more}) - words_at;
  const auto room = static_cast<unsigned>(std::min<std::uint64_t>(wanted / 8, 256));
  const auto place = m.allocate(layout::names_type_inner, words_at + 8 * std::uint64_t{room});
  if (!place) return place.error();
  const std::uint64_t bytes = build_inner(text, to, room, *place, image);
  m.fill(*place, image, bytes);
  return trie_link{trie_kind::inner, *place};
}

template <trie_reads M>
[[nodiscard]] status read_links(M& m, const inner_node& n, inner_links& out) noexcept {
  out.count = 0;
  status s;
  (void)n.each([&](std::uint8_t byte, unsigned rank) {
    const auto to = read_link(m, n.word_at(rank));
    if (to && to->kind == trie_kind::none) {
      s = damaged_names("a link", n.word_at(rank));
    } else if (!to) {
      s = to.error();
    } else {
      out.add(byte, *to);
    }
    return s.has_value();
  });
  return s;
}

template <trie_writes M>
[[nodiscard]] status put_link(M& m, std::uint64_t at, trie_link to) noexcept {
  const std::uint64_t word = stored_link(to, at);
  return m.put(at, &word, sizeof word);
}

}  // namespace nvm::stores
