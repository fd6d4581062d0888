// A B+tree, read: what is in a node, the way from the root to a leaf, and the entry there.  btree.hpp says how it is
// built.
#pragma once

#include <algorithm>
#include <cstring>

#include "kv/store.hpp"

namespace nvm::keyed::btree {

using layout::inner;
using layout::inner_separators;
using layout::leaf;
using layout::leaf_slot;
using layout::leaf_slots;
using layout::node_kind;
using layout::node_meta;

struct text {
  const std::byte* bytes = nullptr;
  std::uint32_t count = 0;
};
inline unsigned common_bytes(const text& a, const text& b) noexcept {
  const unsigned most = std::min(a.count, b.count);
  unsigned n = 0;
  while (n < most && a.bytes[n] == b.bytes[n]) ++n;
  return n;
}
inline errc no_scratch() noexcept { return fail(errc::no_memory, "no volatile memory for a key"); }

// ---- order word of a leaf ----
constexpr unsigned count_of(std::uint64_t order) noexcept { return order & 15; }
constexpr unsigned slot_at(std::uint64_t order, unsigned position) noexcept { return order >> (4 + 4 * position) & 15; }
constexpr std::uint64_t pack_order(const unsigned (&slots)[leaf_slots], unsigned count) noexcept {
  std::uint64_t w = count;
  for (unsigned i = 0; i < leaf_slots; ++i) w |= std::uint64_t{slots[i]} << (4 + 4 * i);
  return w;
}
// Every slot is named once.
constexpr bool order_holds(std::uint64_t order) noexcept {
  unsigned seen = 0;
  for (unsigned i = 0; i < leaf_slots; ++i) seen |= 1U << slot_at(order, i);
  return count_of(order) <= leaf_slots && seen == (1U << leaf_slots) - 1 && order >> (4 + 4 * leaf_slots) == 0;
}
constexpr std::uint64_t first_order() noexcept {
  unsigned slots[leaf_slots] = {};
  for (unsigned i = 0; i < leaf_slots; ++i) slots[i] = i;
  return pack_order(slots, 0);
}
// The slot at `from` goes to `to`; those between move up.
constexpr std::uint64_t moved_slot(std::uint64_t order, unsigned from, unsigned to, int more) noexcept {
  unsigned slots[leaf_slots] = {};
  for (unsigned i = 0; i < leaf_slots; ++i) slots[i] = slot_at(order, i);
  const unsigned slot = slots[from];
  for (unsigned i = from; i > to; --i) slots[i] = slots[i - 1];
  for (unsigned i = from; i < to; ++i) slots[i] = slots[i + 1];
  slots[to] = slot;
  return pack_order(slots, static_cast<unsigned>(static_cast<int>(count_of(order)) + more));
}

// ---- one node, as read ----
struct node_image {  // what a search needs: a whole leaf, or the first part of an inner node
  std::uint64_t meta;
  std::uint64_t order_or_reserved;
  std::uint64_t words[28];
};
static_assert(sizeof(node_image) == sizeof(leaf) && sizeof(node_image) == offsetof(inner, separators));

struct step {
  inner* at = nullptr;
  node_meta m{};
  unsigned index = 0;  // of the child
  std::uint64_t heads[inner_separators];
};
struct path {
  step steps[layout::tree_levels_max];
  unsigned depth = 0;  // inner nodes
  leaf* at = nullptr;  // nullptr: the tree is empty
  leaf image;
  node_meta m{};
};

// Compares a key's tail with another's whose first eight bytes are the same: 0 when the rest has to be looked at.
enum class tie { less, equal, greater, open };
constexpr tie compare_tails(std::uint64_t mine, std::uint64_t other) noexcept {
  if (mine > 8 && other > 8) return tie::open;
  return mine == other ? tie::equal : mine < other ? tie::less : tie::greater;
}
constexpr tie of_sign(int sign, std::uint64_t mine, std::uint64_t other) noexcept {
  if (sign != 0) return sign < 0 ? tie::less : tie::greater;
  return mine == other ? tie::equal : mine < other ? tie::less : tie::greater;
}

// ---- separators ----

constexpr std::uint64_t length_of(std::uint64_t word) noexcept { return layout::more_of(word) & 0xFFFF; }

// The key object of a separator of `count` bytes.
[[nodiscard]] inline const std::byte* separator_bytes(const operation& op, std::uint64_t place, std::uint64_t count) {
  auto* s = op.at<layout::separator>(place, sizeof(layout::separator) + count);
  return s == nullptr ? nullptr : reinterpret_cast<const std::byte*>(s + 1);
}

// Key `k` against separator i of a node, heads being equal.
[[nodiscard]] inline status compare_separator(const operation& op, const step& s, unsigned i, const key& k, tie& out) {
  const std::uint64_t word = op.load(&s.at->separators[i]);
  const std::uint64_t count = length_of(word);
  if (count < s.m.prefix) return access::damaged("separator", op.place_of(s.at));
  const std::uint64_t mine = k.count - s.m.prefix;
  const std::uint64_t other = count - s.m.prefix;
  out = compare_tails(mine, other);
  if (out != tie::open) return {};
  const std::byte* p = separator_bytes(op, layout::place_of(word), count);
  if (p == nullptr) return errc::corrupt;
  const std::size_t from = s.m.prefix + 8;
  const std::size_t n = std::min<std::size_t>(k.count, count) - from;
  out = of_sign(-op.compare(p + from, k.bytes + from, n), mine, other);
  return {};
}

// Index of the child that has `k`.
[[nodiscard]] inline status choose_child(const operation& op, step& s, const key& k) {
  if (k.count < s.m.prefix) return access::damaged("inner node", op.place_of(s.at));
  const std::uint64_t head = k.head(s.m.prefix);
  unsigned less = 0;
  unsigned not_more = 0;
  for (unsigned i = 0; i < s.m.count; ++i) {
    less += s.heads[i] < head;
    not_more += s.heads[i] <= head;
  }
  while (less < not_more) {
    const unsigned middle = (less + not_more) / 2;
    tie t = tie::open;
    if (status c = compare_separator(op, s, middle, k, t); !c) return c;
    if (t == tie::less) {
      not_more = middle;
    } else {
      less = middle + 1;
    }
  }
  s.index = less;
  return {};
}

// ---- descent ----

enum class side { first, by_key, last };

// Descends to a leaf from `place`, a node of `level`; tree_levels_max: a node of any level.
[[nodiscard]] inline status descend_from(const operation& op, path& p, std::uint64_t place, unsigned level, side to,
                                         const key& k) {
  for (;;) {
    auto* raw = op.at<node_image>(place);
    if (raw == nullptr) return errc::corrupt;
    node_image image;
    op.read(&image, raw, sizeof image);
    const node_meta m = layout::unpack_meta(image.meta);
    const bool is_leaf = m.kind == node_kind::leaf;
    const bool known = level == layout::tree_levels_max ? m.level < layout::tree_levels_max : m.level == level;
    if (!known || (is_leaf ? m.level != 0 : m.kind != node_kind::inner || m.level == 0 || m.count > inner_separators)) {
      return access::damaged("tree node", place);
    }
    if (is_leaf) {
      p.at = reinterpret_cast<leaf*>(raw);
      p.m = m;
      std::memcpy(&p.image, &image, sizeof image);
      return order_holds(p.image.order) ? status{} : status{access::damaged("leaf", place)};
    }
    if (op.at<inner>(place) == nullptr) return errc::corrupt;
    step& s = p.steps[p.depth++];
    s.at = reinterpret_cast<inner*>(raw);
    s.m = m;
    std::memcpy(s.heads, image.words, sizeof s.heads);
    if (to == side::by_key) {
      if (status c = choose_child(op, s, k); !c) return c;
    } else {
      s.index = to == side::first ? 0 : m.count;
    }
    place = op.load(&s.at->children[s.index]);
    level = m.level - 1;
  }
}
[[nodiscard]] inline status descend(const operation& op, path& p, side to, const key& k) {
  p.depth = 0;
  p.at = nullptr;
  const std::uint64_t root = op.load(&op.header->root);
  return root == 0 ? status{} : descend_from(op, p, root, layout::tree_levels_max, to, k);
}
// To the leaf before; `at` nullptr: there is none.
[[nodiscard]] inline status step_back(const operation& op, path& p) {
  while (p.depth != 0 && p.steps[p.depth - 1].index == 0) --p.depth;
  if (p.depth == 0) {
    p.at = nullptr;
    return {};
  }
  step& s = p.steps[p.depth - 1];
  --s.index;
  return descend_from(op, p, op.load(&s.at->children[s.index]), s.m.level - 1, side::last, {});
}

struct spot {
  unsigned position = 0;  // of the first entry that is not less
  bool equal = false;
};
[[nodiscard]] inline status search_leaf(const operation& op, const path& p, const key& k, spot& out) {
  if (k.count < p.m.prefix) return access::damaged("leaf", op.place_of(p.at));
  const std::uint64_t head = k.head(p.m.prefix);
  const std::uint64_t mine = k.count - p.m.prefix;
  unsigned less = 0;
  unsigned not_more = 0;
  const unsigned n = count_of(p.image.order);
  for (unsigned i = 0; i < n; ++i) {
    const std::uint64_t other = p.image.slots[slot_at(p.image.order, i)].head;
    less += other < head;
    not_more += other <= head;
  }
  out.equal = false;
  while (less < not_more) {
    const unsigned middle = (less + not_more) / 2;
    const std::uint64_t word = p.image.slots[slot_at(p.image.order, middle)].record;
    const std::uint64_t count = length_of(word);
    if (count < p.m.prefix) return access::damaged("leaf", op.place_of(p.at));
    tie t = compare_tails(mine, count - p.m.prefix);
    if (t == tie::open) {
      const std::uint64_t place = layout::place_of(word);
      if (op.at<std::byte>(place, 8 + count) == nullptr) return errc::corrupt;
      const std::size_t from = p.m.prefix + 8;
      const std::size_t bytes = std::min<std::size_t>(k.count, count) - from;
      t = of_sign(-op.compare(op.known<std::byte>(place + 8 + from), k.bytes + from, bytes), mine, count - p.m.prefix);
    }
    if (t == tie::equal) {
      out = {middle, true};
      return {};
    }
    if (t == tie::less) {
      not_more = middle;
    } else {
      less = middle + 1;
    }
  }
  out.position = less;
  return {};
}

[[nodiscard]] inline status read_leaf(const operation& op, std::uint64_t place, leaf*& at, leaf& image, node_meta& m) {
  at = op.at<leaf>(place);
  if (at == nullptr) return errc::corrupt;
  op.read(&image, at, sizeof image);
  m = layout::unpack_meta(image.meta);
  if (m.kind != node_kind::leaf || m.level != 0 || !order_holds(image.order)) return access::damaged("leaf", place);
  return {};
}

// The record of a leaf's slot, whose key is as long as the slot says.
[[nodiscard]] inline status record_of(const operation& op, std::uint64_t word, record& out) {
  if (status s = read_record(op, layout::place_of(word), out); !s) return s;
  return out.sizes.key == length_of(word) ? status{} : status{access::damaged("record", out.place)};
}

[[nodiscard]] inline status find(operation& op, const key& k, record& out) {
  path p;
  out.place = 0;
  if (status s = descend(op, p, side::by_key, k); !s || p.at == nullptr) return s;
  spot at;
  if (status s = search_leaf(op, p, k, at); !s || !at.equal) return s;
  return record_of(op, p.image.slots[slot_at(p.image.order, at.position)].record, out);
}

}  // namespace nvm::keyed::btree
