// Changes of a burst trie: parts of a transaction (trie_memory.hpp), so that a change is there as a whole or not at
// all.
//
// A new node is built in fresh memory and takes effect by the one word that leads to it; the same transaction frees the
// node that it replaces. A removal allocates nothing, so that names can be deleted in a full pool: it stores a
// container without the name, or an inner node without the byte, over the old one, and gives empty nodes back, up to
// the root. trie_tidy() does the work that takes room: it makes one container of an inner node with few names below it,
// one node of two that follow each other, and a small container of a large one.
//
// After a failure the transaction can only be rolled back.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "store/burst_trie.hpp"

namespace nvm::stores {

// ---- a subtrie of sorted names ----

// Makes nodes for texts that all differ, in order, from their byte `from` on. They burst if they are more than `limit`
// or more than a container has room for.
template <trie_writes M>
[[nodiscard]] result<trie_link> build_trie(M& m, std::span<const trie_text> all, std::uint64_t from,
                                           unsigned limit) noexcept {
  const bool fits = all.size() == 1 || container_bytes(all, from) <= container_node::room_bytes;
  if (all.size() <= limit && fits) return make_container(m, all, from);
  const std::string_view first = all.front().view(from);
  const std::string_view last = all.back().view(from);
  const auto common = static_cast<std::uint64_t>(
      std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin());
  inner_text text{first.substr(0, common), false, 0};
  if (first.size() == common) {
    text.has_value = true;
    text.value = all.front().value;
    all = all.subspan(1);
  }
  inner_links to;
  while (!all.empty()) {
    const char byte = all.front().text[from + common];
    std::size_t n = 1;
    while (n < all.size() && all[n].text[from + common] == byte) ++n;
    const auto made = build_trie(m, all.first(n), from + common + 1, limit);
    if (!made) return made.error();
    to.add(static_cast<std::uint8_t>(byte), *made);
    all = all.subspan(n);
  }
  return make_inner(m, text, to);
}

// ---- insertion ----

namespace detail {

using texts = std::array<trie_text, layout::burst_names_max + 1>;

// New nodes depend on the order of the texts, which look-ups do not check.
[[nodiscard]] inline result<std::size_t> texts_of(const container_node& c, texts& out) noexcept {
  for (unsigned i = 0; i < c.names(); ++i) {
    out[i] = c.text(i);
    if (i != 0 && out[i - 1].view() >= out[i].view()) return damaged_names("the order of names", c.place);
  }
  return std::size_t{c.names()};
}

template <trie_writes M>
[[nodiscard]] status insert_into_container(M& m, std::uint64_t at, std::uint64_t place, const trie_text& added,
                                           unsigned limit) noexcept {
  alignas(8) std::byte room[container_node::room_bytes];
  const auto c = read_container(m, place, room);
  if (!c) return c.error();
  texts all;
  const auto there = texts_of(*c, all);
  if (!there) return there.error();
  std::size_t count = *there;
  const auto behind = std::lower_bound(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), added,
                                       [](const trie_text& a, const trie_text& b) { return a.view() < b.view(); });
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
  if (behind != end && behind->view() == added.view()) return fail(errc::exists, "the name is there already");
  std::move_backward(behind, end, end + 1);
  *behind = added;
  ++count;
  const auto made = build_trie(m, std::span{all}.first(count), 0, limit);
  if (!made) return made.error();
  if (status s = put_link(m, at, *made); !s) return s;
  return m.give_back(place, c->head.room);
}

// Splits a node where the name differs from its prefix, at byte `common`.
template <trie_writes M>
[[nodiscard]] status split_inner(M& m, std::uint64_t at, const inner_node& n, std::size_t common,
                                 const trie_text& added) noexcept {
  inner_links below;
  if (status s = read_links(m, n, below); !s) return s;
  const auto lower = make_inner(m, {n.prefix.substr(common + 1), n.head.has_value != 0, n.head.value}, below);
  if (!lower) return lower.error();
  inner_text text{n.prefix.substr(0, common), false, 0};
  inner_links to;
  to.add(static_cast<std::uint8_t>(n.prefix[common]), *lower);
  if (added.bytes == common) {
    text.has_value = true;
    text.value = added.value;
  } else {
    const auto other = make_container(m, {&added, 1}, common + 1);
    if (!other) return other.error();
    to.insert(static_cast<std::uint8_t>(added.text[common]), *other);
  }
  const auto upper = make_inner(m, text, to);
  if (!upper) return upper.error();
  if (status s = put_link(m, at, *upper); !s) return s;
  return m.give_back(n.place, n.bytes());
}

// Stores a node with other contents over the old one, whose room and prefix it has.
template <trie_writes M>
[[nodiscard]] status put_inner(M& m, const inner_node& n, const inner_text& text, const inner_links& to) noexcept {
  alignas(8) std::byte image[inner_image_bytes];
  (void)build_inner(text, to, n.head.room, n.place, image);
  // Words that are no longer used become zero.
  const std::uint64_t words = std::max<std::uint64_t>(to.count, n.head.children);
  return m.put(n.place, image, layout::trie_words_at(n.prefix.size()) + 8 * words);
}

template <trie_writes M>
[[nodiscard]] status add_byte(M& m, std::uint64_t at, const inner_node& n, const trie_text& added) noexcept {
  const auto made = make_container(m, {&added, 1}, 1);
  if (!made) return made.error();
  inner_links to;
  if (status s = read_links(m, n, to); !s) return s;
  to.insert(static_cast<std::uint8_t>(added.text[0]), *made);
  const inner_text text{n.prefix, n.head.has_value != 0, n.head.value};
  if (to.count <= n.head.room) return put_inner(m, n, text, to);
  const auto larger = make_inner(m, text, to, to.count / 4);
  if (!larger) return larger.error();
  if (status s = put_link(m, at, *larger); !s) return s;
  return m.give_back(n.place, n.bytes());
}

template <trie_writes M>
[[nodiscard]] status put_head(M& m, const inner_node& n, bool has_value, std::uint64_t value) noexcept {
  inner_links none;
  if (status s = read_links(m, n, none); !s) return s;
  return put_inner(m, n, {n.prefix, has_value, value}, none);
}

}  // namespace detail

// errc::exists: the name has a value.
template <trie_writes M>
[[nodiscard]] status trie_insert(M& m, std::uint64_t root_at, std::string_view name, std::uint64_t value,
                                 unsigned limit) noexcept {
  NVM_ASSERT(is_store_name(name));
  std::uint64_t at = root_at;
  for (;;) {
    const trie_text rest{name.data(), name.size(), value};
    const auto to = read_link(m, at);
    if (!to) return to.error();
    if (to->kind == trie_kind::container) return detail::insert_into_container(m, at, to->place, rest, limit);
    if (to->kind == trie_kind::none) {
      const auto made = make_container(m, {&rest, 1}, 0);
      if (!made) return made.error();
      return put_link(m, at, *made);
    }
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto n = read_inner(m, to->place, room);
    if (!n) return n.error();
    const auto parts = std::mismatch(n->prefix.begin(), n->prefix.end(), name.begin(), name.end());
    if (parts.first != n->prefix.end())
      return detail::split_inner(m, at, *n, static_cast<std::size_t>(parts.first - n->prefix.begin()), rest);
    name.remove_prefix(n->prefix.size());
    if (name.empty()) {
      if (n->head.has_value != 0) return fail(errc::exists, "the name is there already");
      return detail::put_head(m, *n, true, value);
    }
    const auto next = static_cast<std::uint8_t>(name.front());
    if (!n->has(next)) return detail::add_byte(m, at, *n, {name.data(), name.size(), value});
    at = n->word_at(n->rank(next));
    name.remove_prefix(1);
  }
}

// ---- removal ----

namespace detail {

// The links on the path along a name, those to inner nodes first.
struct trie_way {
  std::array<std::uint64_t, layout::store_name_bytes_max + 2> at;
  std::array<std::uint8_t, layout::store_name_bytes_max + 2> byte;  // by which the node there is left
  unsigned inner = 0;                                               // nodes
  trie_link last{};           // end of the path: none, a container, or the last of these inner nodes
  std::uint64_t last_at = 0;  // the link to it
  std::string_view rest;      // of the name, from there on
};

// Follows the name as far as the trie goes. The path ends at an inner node if the name ends in it or leaves it.
template <trie_reads M>
[[nodiscard]] status follow(M& m, std::uint64_t root_at, std::string_view name, trie_way& way) noexcept {
  way.last_at = root_at;
  way.rest = name;
  for (;;) {
    const auto to = read_link(m, way.last_at);
    if (!to) return to.error();
    way.last = *to;
    if (to->kind != trie_kind::inner) return {};
    way.at[way.inner] = way.last_at;
    way.byte[way.inner++] = 0;
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto n = read_inner(m, to->place, room);
    if (!n) return n.error();
    if (!way.rest.starts_with(n->prefix) || way.rest.size() == n->prefix.size()) return {};
    const auto next = static_cast<std::uint8_t>(way.rest[n->prefix.size()]);
    if (!n->has(next)) return {};
    way.rest.remove_prefix(n->prefix.size() + 1);
    way.byte[way.inner - 1] = next;
    way.last_at = n->word_at(n->rank(next));
  }
}

// A name that is there: an inner node's, or text `index` of a container.
struct found_name {
  trie_way way;
  std::optional<inner_node> inner;
  container_node container{};
  unsigned index = 0;
  alignas(8) std::byte room[std::max<std::uint64_t>(inner_node::room_bytes, container_node::room_bytes)];  // of both
};

// errc::not_found.
template <trie_reads M>
[[nodiscard]] status find_name(M& m, std::uint64_t root_at, std::string_view name, found_name& found) noexcept {
  trie_way& way = found.way;
  if (status s = follow(m, root_at, name, way); !s) return s.error();
  if (way.last.kind == trie_kind::inner) {
    const auto n = read_inner(m, way.last.place, found.room);
    if (!n) return n.error();
    if (way.rest != n->prefix || n->head.has_value == 0) return fail(errc::not_found, "there is no such name");
    found.inner = *n;
    return {};
  }
  if (way.last.kind == trie_kind::none) return fail(errc::not_found, "there is no such name");
  const auto c = read_container(m, way.last.place, found.room);
  if (!c) return c.error();
  found.index = c->find(way.rest);
  if (found.index == c->names()) return fail(errc::not_found, "there is no such name");
  found.container = *c;
  return {};
}

// Takes out the links that lead to what is empty now.
template <trie_writes M>
[[nodiscard]] status unlink_empty(M& m, trie_way& way, std::uint64_t at) noexcept {
  while (way.inner != 0) {
    const std::uint64_t node_at = way.at[--way.inner];
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto to = read_link(m, node_at);
    if (!to) return to.error();
    const auto n = read_inner(m, to->place, room);
    if (!n) return n.error();
    if (n->head.children + n->head.has_value > 1) {
      inner_links left;
      if (status s = read_links(m, *n, left); !s) return s;
      left.erase(way.byte[way.inner]);
      return put_inner(m, *n, {n->prefix, n->head.has_value != 0, n->head.value}, left);
    }
    if (status s = m.give_back(n->place, n->bytes()); !s) return s;
    at = node_at;
  }
  return put_link(m, at, {});
}

}  // namespace detail

// The value that the name had; errc::not_found.  Allocates nothing.
template <trie_writes M>
[[nodiscard]] result<std::uint64_t> trie_remove(M& m, std::uint64_t root_at, std::string_view name) noexcept {
  detail::found_name found;
  if (status s = detail::find_name(m, root_at, name, found); !s) return s.error();
  detail::trie_way& way = found.way;
  if (const auto& n = found.inner) {
    --way.inner;
    if (n->head.children != 0) {
      if (status s = detail::put_head(m, *n, false, 0); !s) return s.error();
    } else {
      if (status s = m.give_back(n->place, n->bytes()); !s) return s.error();
      if (status s = detail::unlink_empty(m, way, way.last_at); !s) return s.error();
    }
    return n->head.value;
  }
  const container_node* const c = &found.container;
  const unsigned i = found.index;
  const std::uint64_t value = c->text(i).value;
  if (c->names() == 1) {
    if (status s = m.give_back(c->place, c->head.room); !s) return s.error();
    if (status s = detail::unlink_empty(m, way, way.last_at); !s) return s.error();
    return value;
  }
  detail::texts all;
  const auto there = detail::texts_of(*c, all);
  if (!there) return there.error();
  const std::size_t count = *there;
  std::move(all.begin() + i + 1, all.begin() + static_cast<std::ptrdiff_t>(count), all.begin() + i);
  alignas(8) std::byte image[container_node::room_bytes];
  const std::uint64_t bytes = build_container(std::span{all}.first(count - 1), 0, c->head.room, c->place, image);
  if (status s = m.put(c->place, image, bytes); !s) return s.error();
  return value;
}

// Gives an existing name another value; returns the one that it had. Allocates nothing.
template <trie_writes M>
[[nodiscard]] result<std::uint64_t> trie_replace(M& m, std::uint64_t root_at, std::string_view name,
                                                 std::uint64_t value) noexcept {
  detail::found_name found;
  if (status s = detail::find_name(m, root_at, name, found); !s) return s.error();
  if (const auto& n = found.inner) {
    if (status s = detail::put_head(m, *n, true, value); !s) return s.error();
    return n->head.value;
  }
  const container_node* const c = &found.container;
  const unsigned i = found.index;
  alignas(8) std::byte image[container_node::room_bytes];
  const std::uint64_t had = c->text(i).value;
  std::memcpy(image, c->at, c->head.bytes);
  std::memcpy(image + c->value_offset(i), &value, sizeof value);
  const std::uint64_t check = container_check(image, c->head.bytes, c->place);
  if (status s = m.put(c->place + c->value_offset(i), &value, sizeof value); !s) return s.error();
  if (status s = m.put(c->place, &check, sizeof check); !s) return s.error();
  return had;
}

// ---- tidying ----

namespace detail {

// A container that has more than twice the room it needs.
template <trie_writes M>
[[nodiscard]] status make_small(M& m, std::uint64_t at, std::uint64_t place) noexcept {
  alignas(8) std::byte room[container_node::room_bytes];
  const auto c = read_container(m, place, room);
  if (!c) return c.error();
  if (2 * whole_slots(c->head.bytes) > c->head.room) return {};
  texts all;
  const auto count = texts_of(*c, all);
  if (!count) return count.error();
  const auto made = make_container(m, std::span{all}.first(*count), 0);
  if (!made) return made.error();
  if (status s = put_link(m, at, *made); !s) return s;
  return m.give_back(c->place, c->head.room);
}

// All names below an inner node with containers only, as the texts of one container.
struct gathered {
  texts all;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::array<char, container_node::room_bytes> memory;
  // False: there is no room.
  [[nodiscard]] bool add(std::string_view prefix, std::string_view byte, std::string_view text, std::uint64_t value,
                         std::size_t most) noexcept {
    const std::uint64_t n = prefix.size() + byte.size() + text.size();
    if (count == most || bytes + n > memory.size() || n > layout::store_name_bytes_max) return false;
    char* const to = memory.data() + bytes;
    for (std::uint64_t done = 0; const std::string_view part : {prefix, byte, text}) {
      part.copy(to + done, part.size());
      done += part.size();
    }
    all[count++] = {to, n, value};
    bytes += n;
    return true;
  }
};

// False: there are too many names, or inner nodes below; nothing was changed.
template <trie_writes M>
[[nodiscard]] result<bool> collapse(M& m, std::uint64_t at, const inner_node& n, const inner_links& to,
                                    std::size_t most) noexcept {
  gathered g;
  if (n.head.has_value != 0 && !g.add(n.prefix, {}, {}, n.head.value, most)) return false;
  std::array<std::uint64_t, layout::burst_names_max> rooms;
  if (to.count > most) return false;
  for (unsigned i = 0; i < to.count; ++i) {
    if (to.links[i].kind != trie_kind::container) return false;
    alignas(8) std::byte room[container_node::room_bytes];
    const auto c = read_container(m, to.links[i].place, room);
    if (!c) return c.error();
    rooms[i] = c->head.room;
    const char byte = static_cast<char>(to.bytes[i]);
    texts of;
    const auto there = texts_of(*c, of);
    if (!there) return there.error();
    for (std::size_t k = 0; k < *there; ++k) {
      if (!g.add(n.prefix, {&byte, 1}, of[k].view(), of[k].value, most)) return false;
    }
  }
  const auto all = std::span{g.all}.first(g.count);
  if (container_bytes(all, 0) > container_node::room_bytes) return false;
  const auto made = make_container(m, all, 0);
  if (!made) return made.error();
  if (status s = put_link(m, at, *made); !s) return s.error();
  for (unsigned i = 0; i < to.count; ++i) {
    if (status s = m.give_back(to.links[i].place, rooms[i]); !s) return s.error();
  }
  if (status s = m.give_back(n.place, n.bytes()); !s) return s.error();
  return true;
}

// An inner node whose one link leads to an inner node becomes part of that node's prefix.
template <trie_writes M>
[[nodiscard]] result<bool> join(M& m, std::uint64_t at, const inner_node& n, const inner_links& to) noexcept {
  if (n.head.has_value != 0 || to.count != 1 || to.links[0].kind != trie_kind::inner) return false;
  alignas(8) std::byte room[inner_node::room_bytes];
  const auto lower = read_inner(m, to.links[0].place, room);
  if (!lower) return lower.error();
  std::array<char, layout::store_name_bytes_max> prefix;
  const std::size_t bytes = n.prefix.size() + 1 + lower->prefix.size();
  if (bytes > prefix.size()) return damaged_names("the length of a name", n.place);
  n.prefix.copy(prefix.data(), n.prefix.size());
  prefix[n.prefix.size()] = static_cast<char>(to.bytes[0]);
  lower->prefix.copy(prefix.data() + n.prefix.size() + 1, lower->prefix.size());
  inner_links below;
  if (status s = read_links(m, *lower, below); !s) return s.error();
  const auto made = make_inner(m, {{prefix.data(), bytes}, lower->head.has_value != 0, lower->head.value}, below);
  if (!made) return made.error();
  if (status s = put_link(m, at, *made); !s) return s.error();
  if (status s = m.give_back(lower->place, lower->bytes()); !s) return s.error();
  if (status s = m.give_back(n.place, n.bytes()); !s) return s.error();
  return true;
}

}  // namespace detail

// Tidies the path of this name, which need not exist, after removals. Where few names part they become one container:
// few are half of what bursts, or all names below a node with one link.
template <trie_writes M>
[[nodiscard]] status trie_tidy(M& m, std::uint64_t root_at, std::string_view name, unsigned limit) noexcept {
  detail::trie_way way;
  if (status s = detail::follow(m, root_at, name, way); !s) return s;
  bool changed = false;
  while (way.inner != 0) {
    const std::uint64_t at = way.at[--way.inner];
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto to = read_link(m, at);
    if (!to) return to.error();
    const auto n = read_inner(m, to->place, room);
    if (!n) return n.error();
    inner_links links;
    if (status s = read_links(m, *n, links); !s) return s;
    const bool alone = links.count <= 1 && n->head.has_value == 0;
    auto done = detail::join(m, at, *n, links);
    if (done && !*done) done = detail::collapse(m, at, *n, links, alone ? limit : std::max(limit / 2, 1U));
    if (!done) return done.error();
    if (!*done) break;
    changed = true;
  }
  if (changed || way.last.kind != trie_kind::container) return {};
  return detail::make_small(m, way.last_at, way.last.place);
}

}  // namespace nvm::stores
