// A B+tree over keys of any length, in the order of their bytes.
//
// A leaf is four lines: thirteen slots of {head, record} filled in any order and one word that says the order, so that
// an insertion changes two lines and a removal one.  A search reads four lines of each inner node: heads, 28 of them,
// are enough unless a key and a separator agree in all that follows the prefix which the node's keys have in common.
// That prefix follows from the separators around a node (its fences) and is never compared: whatever key is led here
// has it.
//
/// Invariants, which check() looks at.  A node with fences [low, high):
///   prefix <= number of first bytes that low and high have in common; 0 where there is no such fence
///   so two neighbours with prefixes p and q can be one node of prefix min(p, q)
///   leaves are at level 0 and linked in order; every child is one level below its parent
#pragma once

#include <algorithm>
#include <bit>
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

inline constexpr unsigned leaf_few = 4;    // fewer entries: look for a neighbour to become one with
inline constexpr unsigned leaf_most = 10;  // entries of a leaf that was made of two
inline constexpr unsigned inner_few = 9;

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

// From `place`, a node of `level`, or of any where that is tree_levels_max, down to a leaf.
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

// ---- whole keys ----

// A key that begins like `like` and goes on, from `prefix` on, with a head.
[[nodiscard]] inline const std::byte* joined(const std::byte* like, unsigned prefix, std::uint64_t head,
                                             std::uint64_t count) noexcept {
  std::byte* out = scratch::of_thread().take(count + 8);
  if (out == nullptr) return nullptr;
  if (prefix != 0) std::memcpy(out, like, prefix);
  head = __builtin_bswap64(head);
  std::memcpy(out + prefix, &head, 8);
  return out;
}
// Of separator i of a node, `like` being any key that has the node's prefix.
[[nodiscard]] inline status separator_text(const operation& op, inner* at, const node_meta& m, std::uint64_t head,
                                           unsigned i, const std::byte* like, text& out, std::uint64_t& object) {
  const std::uint64_t word = op.load(&at->separators[i]);
  const std::uint64_t count = length_of(word);
  object = layout::place_of(word);
  out.count = static_cast<std::uint32_t>(count);
  if (count < m.prefix || (object == 0 && count - m.prefix > 8)) {
    return access::damaged("separator", op.place_of(at));
  }
  if (object == 0) {
    out.bytes = joined(like, m.prefix, head, count);
    return out.bytes != nullptr ? status{} : status{no_scratch()};
  }
  const std::byte* from = separator_bytes(op, object, count);
  std::byte* copy = scratch::of_thread().take(count);
  if (from == nullptr) return errc::corrupt;
  if (copy == nullptr) return no_scratch();
  op.read(copy, from, count);
  out.bytes = copy;
  return {};
}
// Of a slot of a leaf.
[[nodiscard]] inline status slot_text(const operation& op, const leaf_slot& s, unsigned prefix, const std::byte* like,
                                      text& out) {
  const std::uint64_t count = length_of(s.record);
  out.count = static_cast<std::uint32_t>(count);
  if (count < prefix) return access::damaged("leaf's entry", layout::place_of(s.record));
  if (count - prefix <= 8) {
    out.bytes = joined(like, prefix, s.head, count);
    return out.bytes != nullptr ? status{} : status{no_scratch()};
  }
  record r;
  if (status c = record_of(op, s.record, r); !c) return c;
  out.bytes = scratch_key(op, r);
  return out.bytes != nullptr ? status{} : status{no_scratch()};
}

struct fence {
  text key{};
  bool exists = false;
};
// Separator below or above child `index` of the node at step d, or of the nodes around it.
[[nodiscard]] inline status low_fence(const operation& op, const path& p, int d, unsigned index, const key& k,
                                      fence& out) {
  for (; d >= 0; --d) {
    const step& s = p.steps[d];
    if (index > 0) {
      std::uint64_t object = 0;
      out.exists = true;
      return separator_text(op, s.at, s.m, s.heads[index - 1], index - 1, k.bytes, out.key, object);
    }
    if (d > 0) index = p.steps[d - 1].index;
  }
  return {};
}
[[nodiscard]] inline status high_fence(const operation& op, const path& p, int d, unsigned index, const key& k,
                                       fence& out) {
  for (; d >= 0; --d) {
    const step& s = p.steps[d];
    if (index < s.m.count) {
      std::uint64_t object = 0;
      out.exists = true;
      return separator_text(op, s.at, s.m, s.heads[index], index, k.bytes, out.key, object);
    }
    if (d > 0) index = p.steps[d - 1].index;
  }
  return {};
}
inline unsigned common_bytes(const fence& low, const fence& high) noexcept {
  return low.exists && high.exists ? common_bytes(low.key, high.key) : 0;
}

// ---- inner nodes, changed ----

struct whole_separator {
  text key{};
  std::uint64_t object = 0;  // that holds the key already
};

// The separator in a node of this prefix; its object is made or freed as needed.
[[nodiscard]] inline status place_separator(const operation& op, const whole_separator& w, unsigned prefix,
                                            std::uint64_t& head, std::uint64_t& word) {
  std::uint64_t object = w.object;
  if (w.key.count < prefix) return access::damaged("separator", object);
  const bool needed = w.key.count - prefix > 8;
  if (needed && object == 0) {
    auto* made = op.allocate<layout::separator>(layout::kv_type_separator, sizeof(layout::separator) + w.key.count);
    if (made == nullptr) return access::out_of_room();
    made->bytes = w.key.count;
    std::memcpy(made + 1, w.key.bytes, w.key.count);
    object = op.place_of(made);
  } else if (!needed && object != 0) {
    if (status s = op.release(object); !s) return s;
    object = 0;
  }
  head = key::head_of(w.key.bytes + prefix, w.key.count - prefix);
  word = layout::pack_place(object, w.key.count);
  return {};
}

// A node with all its separators spelled out, and one to come in; big enough for two nodes that become one.
struct spelled {
  whole_separator separators[2 * inner_separators + 1];
  std::uint64_t children[2 * inner_separators + 2];
  unsigned count = 0;
};
[[nodiscard]] inline status spell(const operation& op, inner* at, const std::byte* like, spelled& out) {
  inner image;
  op.read(&image, at, sizeof image);
  const node_meta m = layout::unpack_meta(image.meta);
  if (m.kind != node_kind::inner || m.count > inner_separators) {
    return access::damaged("inner node", op.place_of(at));
  }
  for (unsigned i = 0; i <= m.count; ++i) {
    out.children[out.count + i] = image.children[i];
    if (i == m.count) break;
    whole_separator& w = out.separators[out.count + i];
    if (status s = separator_text(op, at, m, image.heads[i], i, like, w.key, w.object); !s) return s;
  }
  out.count += m.count;
  return {};
}
// Writes separators [first, first + count) of `from` and the children around them into a node.
[[nodiscard]] inline status write_inner(const operation& op, inner* at, bool fresh, unsigned level, unsigned prefix,
                                        const spelled& from, unsigned first, unsigned count) {
  inner image;
  std::memset(&image, 0, sizeof image);
  image.meta = layout::pack({node_kind::inner, level, count, prefix});
  for (unsigned i = 0; i < count; ++i) {
    if (status s = place_separator(op, from.separators[first + i], prefix, image.heads[i], image.separators[i]); !s) {
      return s;
    }
  }
  for (unsigned i = 0; i <= count; ++i) image.children[i] = from.children[first + i];
  if (fresh) {
    std::memcpy(at, &image, sizeof image);
  } else {
    op.write(at, &image, sizeof image);
  }
  return {};
}

[[nodiscard]] inline status new_root(const operation& op, unsigned level, const whole_separator& w, std::uint64_t left,
                                     std::uint64_t right) {
  auto* made = op.allocate<inner>(layout::kv_type_inner);
  if (made == nullptr) return access::out_of_room();
  spelled two;
  two.separators[0] = w;
  two.children[0] = left;
  two.children[1] = right;
  two.count = 1;
  if (status s = write_inner(op, made, true, level, 0, two, 0, 1); !s) return s;
  op.store(&op.header->root, op.place_of(made));
  return {};
}

// Puts a separator and the child above it behind the child that step d leads to.
[[nodiscard]] inline status insert_separator(const operation& op, path& p, int d, const key& k, whole_separator w,
                                             std::uint64_t left, std::uint64_t right) {
  for (;; --d) {
    if (d < 0) {
      if (p.depth + 1 >= layout::tree_levels_max) return fail(errc::too_large, "key-value store: the tree is too deep");
      return new_root(op, p.depth + 1, w, left, right);
    }
    step& s = p.steps[d];
    const unsigned n = s.m.count;
    const unsigned i = s.index;
    if (n < inner_separators) {
      std::uint64_t words[inner_separators + 1];
      std::uint64_t head = 0;
      if (status c = place_separator(op, w, s.m.prefix, head, words[0]); !c) return c;
      op.read(words + 1, &s.at->separators[i], (n - i) * 8);
      op.write(&s.at->separators[i], words, (n - i + 1) * 8);
      op.read(words + 1, &s.at->children[i + 1], (n - i) * 8);
      words[0] = right;
      op.write(&s.at->children[i + 1], words, (n - i + 1) * 8);
      std::memmove(&s.heads[i + 1], &s.heads[i], (n - i) * 8);
      s.heads[i] = head;
      op.write(&s.at->heads[i], &s.heads[i], (n - i + 1) * 8);
      ++s.m.count;
      op.store(&s.at->meta, pack(s.m));
      return {};
    }
    spelled all;
    if (status c = spell(op, s.at, k.bytes, all); !c) return c;
    std::copy_backward(all.separators + i, all.separators + n, all.separators + n + 1);
    std::copy_backward(all.children + i + 1, all.children + n + 1, all.children + n + 2);
    all.separators[i] = w;
    all.children[i + 1] = right;
    all.count = n + 1;
    const unsigned above = d == 0 ? 0 : p.steps[d - 1].index;
    fence low;
    fence high;
    if (status c = low_fence(op, p, d - 1, above, k, low); !c) return c;
    if (status c = high_fence(op, p, d - 1, above, k, high); !c) return c;
    // What only grows at its end is left full.
    const unsigned m = i == n && !high.exists ? n - 1 : all.count / 2;
    const fence middle{all.separators[m].key, true};
    auto* made = op.allocate<inner>(layout::kv_type_inner);
    if (made == nullptr) return access::out_of_room();
    status c = write_inner(op, s.at, false, s.m.level, common_bytes(low, middle), all, 0, m);
    if (c) c = write_inner(op, made, true, s.m.level, common_bytes(middle, high), all, m + 1, all.count - m - 1);
    if (!c) return c;
    w = all.separators[m];
    left = op.place_of(s.at);
    right = op.place_of(made);
  }
}

// ---- put ----

// The head that a slot has in a node of a longer prefix.
[[nodiscard]] inline status longer_head(const operation& op, const leaf_slot& s, unsigned prefix, unsigned next,
                                        const key& k, const leaf_slot& fresh, std::uint64_t& out) {
  text t;
  if (s.record == fresh.record) {
    t = {k.bytes, k.count};
  } else if (status c = slot_text(op, s, prefix, k.bytes, t); !c) {
    return c;
  }
  if (t.count < next) return access::damaged("leaf's entry", layout::place_of(s.record));
  out = key::head_of(t.bytes + next, t.count - next);
  return {};
}

// A longer prefix is worth its work where keys do not fit their heads.
inline unsigned worthwhile(unsigned prefix, unsigned possible, const leaf_slot* slots, unsigned n) noexcept {
  if (possible <= prefix) return prefix;
  for (unsigned i = 0; i < n; ++i) {
    if (length_of(slots[i].record) > prefix + 8) return possible;
  }
  return prefix;
}

[[nodiscard]] inline status split_leaf(operation& op, path& p, const key& k, unsigned position,
                                       const leaf_slot& fresh) {
  constexpr unsigned n = leaf_slots + 1;
  leaf_slot all[n];
  unsigned numbers[n];  // slots in the old leaf
  for (unsigned i = 0, from = 0; i < n; ++i) {
    numbers[i] = i == position ? leaf_slots : slot_at(p.image.order, from++);
    all[i] = i == position ? fresh : p.image.slots[numbers[i]];
  }
  const unsigned m = position == leaf_slots && p.image.next == 0 ? n - 1 : n / 2;
  text below;
  text above{k.bytes, k.count};
  if (m - 1 == position) {
    below = above;
  } else if (status s = slot_text(op, all[m - 1], p.m.prefix, k.bytes, below); !s) {
    return s;
  }
  if (m != position) {
    if (status s = slot_text(op, all[m], p.m.prefix, k.bytes, above); !s) return s;
  }
  // The shortest that is larger than everything on the left and not larger than anything on the right.
  const unsigned shared = common_bytes(below, above);
  if (shared >= above.count) return access::damaged("leaf", op.place_of(p.at));
  const fence middle{{above.bytes, shared + 1}, true};
  const int d = static_cast<int>(p.depth) - 1;
  const unsigned index = d < 0 ? 0 : p.steps[d].index;
  fence low;
  fence high;
  if (status s = low_fence(op, p, d, index, k, low); !s) return s;
  if (status s = high_fence(op, p, d, index, k, high); !s) return s;

  auto* right = op.allocate<leaf>(layout::kv_type_leaf);
  if (right == nullptr) return access::out_of_room();
  leaf image{};
  const unsigned right_prefix = worthwhile(p.m.prefix, common_bytes(middle, high), all + m, n - m);
  image.meta = layout::pack({node_kind::leaf, 0, 0, right_prefix});
  image.order = first_order() | (n - m);
  image.next = p.image.next;
  for (unsigned i = m; i < n; ++i) {
    leaf_slot& to = image.slots[i - m];
    to = all[i];
    if (right_prefix == p.m.prefix) continue;
    if (status s = longer_head(op, all[i], p.m.prefix, right_prefix, k, fresh, to.head); !s) return s;
  }
  std::memcpy(right, &image, sizeof image);

  // On the left the entries stay in their slots; a new one takes that of an entry that went.
  unsigned slots[leaf_slots];
  unsigned used = 0;
  unsigned count = 0;
  const unsigned freed = numbers[n - 1];
  for (; count < m; ++count) {
    slots[count] = numbers[count] == leaf_slots ? freed : numbers[count];
    used |= 1U << slots[count];
  }
  for (unsigned slot = 0, to = m; slot < leaf_slots; ++slot) {
    if ((used >> slot & 1) == 0) slots[to++] = slot;
  }
  const std::uint64_t ends[2] = {pack_order(slots, m), op.place_of(right)};
  const unsigned left_prefix = worthwhile(p.m.prefix, common_bytes(low, middle), all, m);
  if (left_prefix != p.m.prefix) {
    leaf left = p.image;
    left.meta = layout::pack({node_kind::leaf, 0, 0, left_prefix});
    left.order = ends[0];
    left.next = ends[1];
    for (unsigned i = 0; i < m; ++i) {
      leaf_slot& to = left.slots[slots[i]];
      to = all[i];
      if (status s = longer_head(op, all[i], p.m.prefix, left_prefix, k, fresh, to.head); !s) return s;
    }
    op.write(p.at, &left, sizeof left);
  } else {
    op.write(&p.at->order, ends, sizeof ends);
    if (position < m) op.write(&p.at->slots[freed], &fresh, sizeof fresh);
  }
  return insert_separator(op, p, d, k, {middle.key, 0}, op.place_of(p.at), op.place_of(right));
}

[[nodiscard]] inline status put(operation& op, const key& k, bytes_view value) {
  path p;
  spot at;
  if (status s = descend(op, p, side::by_key, k); !s) return s;
  if (p.at != nullptr) {
    if (status s = search_leaf(op, p, k, at); !s) return s;
  }
  if (at.equal) {
    leaf_slot* slot = &p.at->slots[slot_at(p.image.order, at.position)];
    record r;
    if (status s = record_of(op, p.image.slots[slot_at(p.image.order, at.position)].record, r); !s) return s;
    if (fits(r, value.count)) {
      overwrite(op, op.count, r, value);
      return {};
    }
    const std::uint64_t made = make_record(op, op.count, 0, k, value);
    if (made == 0) return access::out_of_room();
    op.store(&slot->record, layout::pack_place(made, k.count));
    return drop_record(op, op.count, 0, r);
  }
  const std::uint64_t made = make_record(op, op.count, 0, k, value);
  if (made == 0) return access::out_of_room();
  leaf_slot fresh{0, layout::pack_place(made, k.count)};
  if (p.at == nullptr) {
    auto* first = op.allocate<leaf>(layout::kv_type_leaf);
    if (first == nullptr) return access::out_of_room();
    leaf image{};
    image.meta = layout::pack({node_kind::leaf, 0, 0, 0});
    image.order = first_order() | 1;
    fresh.head = k.head(0);
    image.slots[0] = fresh;
    std::memcpy(first, &image, sizeof image);
    op.store(&op.header->root, op.place_of(first));
    return {};
  }
  fresh.head = k.head(p.m.prefix);
  const unsigned n = count_of(p.image.order);
  if (n == leaf_slots) return split_leaf(op, p, k, at.position, fresh);
  op.write(&p.at->slots[slot_at(p.image.order, n)], &fresh, sizeof fresh);
  op.store(&p.at->order, moved_slot(p.image.order, n, at.position, 1));
  return {};
}

// ---- remove ----

[[nodiscard]] inline status read_leaf(const operation& op, std::uint64_t place, leaf*& at, leaf& image, node_meta& m) {
  at = op.at<leaf>(place);
  if (at == nullptr) return errc::corrupt;
  op.read(&image, at, sizeof image);
  m = layout::unpack_meta(image.meta);
  if (m.kind != node_kind::leaf || m.level != 0 || !order_holds(image.order)) return access::damaged("leaf", place);
  return {};
}

// The head that a slot has in a node of a shorter prefix; `like` has the longer one.
inline std::uint64_t shorter_head(std::uint64_t head, unsigned prefix, unsigned next, const std::byte* like) noexcept {
  std::byte bytes[16] = {};
  const unsigned gap = std::min(prefix - next, 8U);
  std::memcpy(bytes, like + next, gap);
  head = __builtin_bswap64(head);
  std::memcpy(bytes + gap, &head, 8);
  return key::head_of(bytes, 8);
}

[[nodiscard]] inline status remove_separator(operation& op, path& p, int d, unsigned i, bool with_object, const key& k);

// The node that step d leads to, has become small: one with a neighbour, or shares with it.
[[nodiscard]] inline status merge_inner(operation& op, path& p, int d, const key& k) {
  step& above = p.steps[d - 1];
  const unsigned left = above.index < above.m.count ? above.index : above.index - 1;
  std::uint64_t places[2];
  op.read(places, &above.at->children[left], sizeof places);
  inner* nodes[2];
  for (int i = 0; i < 2; ++i) {
    nodes[i] = op.at<inner>(places[i]);
    if (nodes[i] == nullptr) return errc::corrupt;
  }
  whole_separator between;
  if (status s = separator_text(op, above.at, above.m, above.heads[left], left, k.bytes, between.key, between.object);
      !s) {
    return s;
  }
  const unsigned level = above.m.level - 1;
  const unsigned counts[2] = {layout::unpack_meta(op.load(&nodes[0]->meta)).count,
                              layout::unpack_meta(op.load(&nodes[1]->meta)).count};
  const unsigned total = counts[0] + counts[1] + 1;
  if (total > inner_separators && std::min(counts[0], counts[1]) > 2) return {};
  spelled all;
  if (status s = spell(op, nodes[0], between.key.bytes, all); !s) return s;
  all.separators[all.count++] = between;
  if (status s = spell(op, nodes[1], between.key.bytes, all); !s) return s;
  if (all.count != total) return access::damaged("inner node", places[0]);
  fence low;
  fence high;
  if (status s = low_fence(op, p, d - 1, left, k, low); !s) return s;
  if (status s = high_fence(op, p, d - 1, left + 1, k, high); !s) return s;
  if (total <= inner_separators) {
    status s = write_inner(op, nodes[0], false, level, common_bytes(low, high), all, 0, total);
    if (s) s = op.release(places[1]);
    return s ? remove_separator(op, p, d - 1, left, false, k) : s;
  }
  const unsigned m = total / 2;
  const fence middle{all.separators[m].key, true};
  status s = write_inner(op, nodes[0], false, level, common_bytes(low, middle), all, 0, m);
  if (s) s = write_inner(op, nodes[1], false, level, common_bytes(middle, high), all, m + 1, total - m - 1);
  std::uint64_t word = 0;
  if (s) s = place_separator(op, all.separators[m], above.m.prefix, above.heads[left], word);
  if (!s) return s;
  op.store(&above.at->heads[left], above.heads[left]);
  op.store(&above.at->separators[left], word);
  return {};
}

// Takes separator i and the child above it out of the node at step d.
[[nodiscard]] inline status remove_separator(operation& op, path& p, int d, unsigned i, bool with_object,
                                             const key& k) {
  step& s = p.steps[d];
  const unsigned n = s.m.count;
  if (with_object) {
    const std::uint64_t object = layout::place_of(op.load(&s.at->separators[i]));
    if (object != 0) {
      if (status c = op.release(object); !c) return c;
    }
  }
  if (n == 1 && d == 0) {
    // One child is left: the tree has a level less.
    op.store(&op.header->root, op.load(&s.at->children[0]));
    return op.release(op.place_of(s.at));
  }
  std::uint64_t words[inner_separators + 1];
  if (const unsigned behind = n - i - 1; behind != 0) {
    op.read(words, &s.at->separators[i + 1], behind * 8);
    op.write(&s.at->separators[i], words, behind * 8);
    op.read(words, &s.at->children[i + 2], behind * 8);
    op.write(&s.at->children[i + 1], words, behind * 8);
    op.write(&s.at->heads[i], &s.heads[i + 1], behind * 8);
  }
  --s.m.count;
  op.store(&s.at->meta, pack(s.m));
  if (d == 0 || s.m.count >= inner_few) return {};
  return merge_inner(op, p, d, k);
}

[[nodiscard]] inline status merge_leaf(operation& op, path& p, const key& k) {
  const int d = static_cast<int>(p.depth) - 1;
  const step& above = p.steps[d];
  if (above.m.count == 0) return access::damaged("inner node", op.place_of(above.at));
  const unsigned left = above.index < above.m.count ? above.index : above.index - 1;
  std::uint64_t places[2];
  op.read(places, &above.at->children[left], sizeof places);
  leaf* at[2];
  leaf images[2];
  node_meta m[2];
  for (int i = 0; i < 2; ++i) {
    if (status s = read_leaf(op, places[i], at[i], images[i], m[i]); !s) return s;
  }
  const unsigned counts[2] = {count_of(images[0].order), count_of(images[1].order)};
  const bool one_empty = counts[0] == 0 || counts[1] == 0;
  if (counts[0] + counts[1] > (one_empty ? leaf_slots : leaf_most)) return {};
  const unsigned prefix = std::min(m[0].prefix, m[1].prefix);
  text between;
  std::uint64_t object = 0;
  if (status s = separator_text(op, above.at, above.m, above.heads[left], left, k.bytes, between, object); !s) return s;
  if (between.count < std::max(m[0].prefix, m[1].prefix)) return access::damaged("separator", places[0]);
  leaf& to = images[0];
  if (m[0].prefix != prefix) {
    for (unsigned i = 0; i < counts[0]; ++i) {
      leaf_slot& s = to.slots[slot_at(to.order, i)];
      s.head = shorter_head(s.head, m[0].prefix, prefix, between.bytes);
    }
  }
  for (unsigned i = 0; i < counts[1]; ++i) {
    leaf_slot& s = to.slots[slot_at(to.order, counts[0] + i)];
    s = images[1].slots[slot_at(images[1].order, i)];
    if (m[1].prefix != prefix) s.head = shorter_head(s.head, m[1].prefix, prefix, between.bytes);
  }
  to.order += counts[1];
  to.next = images[1].next;
  to.meta = layout::pack({node_kind::leaf, 0, 0, prefix});
  op.write(at[0], &to, sizeof to);
  if (status s = op.release(places[1]); !s) return s;
  return remove_separator(op, p, d, left, true, k);
}

[[nodiscard]] inline status remove(operation& op, const key& k, bool& removed) {
  path p;
  spot at;
  removed = false;
  if (status s = descend(op, p, side::by_key, k); !s || p.at == nullptr) return s;
  if (status s = search_leaf(op, p, k, at); !s || !at.equal) return s;
  record r;
  if (status s = record_of(op, p.image.slots[slot_at(p.image.order, at.position)].record, r); !s) return s;
  removed = true;
  const unsigned left = count_of(p.image.order) - 1;
  op.store(&p.at->order, moved_slot(p.image.order, at.position, left, -1));
  if (status s = drop_record(op, op.count, 0, r); !s) return s;
  if (p.depth != 0) return left < leaf_few ? merge_leaf(op, p, k) : status{};
  if (left != 0) return {};
  op.store(&op.header->root, 0);
  return op.release(op.place_of(p.at));
}

// ---- in order ----

[[nodiscard]] inline status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  path p;
  ended = false;
  const side begin = from.has_key ? side::by_key : from.backward ? side::last : side::first;
  if (status s = descend(op, p, begin, from.at); !s) return s;
  unsigned position = 0;
  if (p.at != nullptr) {
    position = from.backward ? count_of(p.image.order) : 0;
    if (from.has_key) {
      spot at;
      if (status s = search_leaf(op, p, from.at, at); !s) return s;
      // Forward the position is of the next entry, backward it is behind it.
      position = at.position + (at.equal && from.inclusive == from.backward ? 1 : 0);
    }
  }
  std::uint64_t leaves_left = op.of.pool.limit.load(std::memory_order_relaxed) / 256 + 1024;
  for (bool more = true; p.at != nullptr;) {
    const unsigned n = count_of(p.image.order);
    while (more && (from.backward ? position > 0 : position < n)) {
      const unsigned i = from.backward ? --position : position++;
      record r;
      if (status s = record_of(op, p.image.slots[slot_at(p.image.order, i)].record, r); !s) return s;
      if (status s = to.add(op, r, more); !s) return s;
    }
    if (!more) return {};
    if (leaves_left-- == 0) return access::damaged("chain of leaves", op.place_of(p.at));
    if (from.backward) {
      if (status s = step_back(op, p); !s) return s;
      if (p.at != nullptr) position = count_of(p.image.order);
    } else {
      const std::uint64_t next = p.image.next;
      if (next == 0) break;
      if (status s = read_leaf(op, next, p.at, p.image, p.m); !s) return s;
      position = 0;
    }
  }
  ended = true;
  return {};
}

// ---- check ----

struct shape {
  unsigned depth = 0;  // nodes from the root to a record
  std::uint64_t leaves = 0;
  std::uint64_t inner_nodes = 0;
  std::uint64_t next_leaf = 0;  // that must come, while walking
  bool first = true;
};

inline int compare_texts(const text& a, const text& b) noexcept {
  const int sign = std::memcmp(a.bytes, b.bytes, std::min(a.count, b.count));
  return sign != 0 ? sign : a.count < b.count ? -1 : a.count > b.count ? 1 : 0;
}

[[nodiscard]] inline status check_leaf(operation& op, std::uint64_t place, const fence& low, const fence& high,
                                       totals& sum, shape& out) {
  leaf* at = nullptr;
  leaf image;
  node_meta m;
  if (status s = read_leaf(op, place, at, image, m); !s) return s;
  if (!out.first && out.next_leaf != place) return access::damaged("chain of leaves", place);
  out.first = false;
  out.next_leaf = image.next;
  ++out.leaves;
  if (m.prefix > common_bytes(low, high)) return access::damaged("leaf's prefix", place);
  text before;
  for (unsigned i = 0; i < count_of(image.order); ++i) {
    const leaf_slot& slot = image.slots[slot_at(image.order, i)];
    record r;
    if (status s = record_of(op, slot.record, r); !s) return s;
    const text t{scratch_key(op, r), static_cast<std::uint32_t>(r.sizes.key)};
    if (t.bytes == nullptr) return no_scratch();
    const bool in_order = (i == 0 || compare_texts(before, t) < 0) && (!low.exists || compare_texts(low.key, t) <= 0) &&
                          (!high.exists || compare_texts(t, high.key) < 0);
    if (!in_order || t.count < m.prefix || slot.head != key::head_of(t.bytes + m.prefix, t.count - m.prefix)) {
      return access::damaged("leaf's entry", r.place);
    }
    before = t;
    ++sum.entries;
    sum.key_bytes += r.sizes.key;
    sum.value_bytes += r.sizes.value;
  }
  return {};
}

[[nodiscard]] inline status check_node(operation& op, std::uint64_t place, unsigned level, const fence& low,
                                       const fence& high, totals& sum, shape& out) {
  if (level == 0) return check_leaf(op, place, low, high, sum, out);
  auto* at = op.at<inner>(place);
  if (at == nullptr) return errc::corrupt;
  inner image;
  op.read(&image, at, sizeof image);
  const node_meta m = layout::unpack_meta(image.meta);
  const bool root = out.depth == level + 1;
  if (m.kind != node_kind::inner || m.level != level || m.count > inner_separators || (root && m.count == 0) ||
      m.prefix > common_bytes(low, high)) {
    return access::damaged("inner node", place);
  }
  ++out.inner_nodes;
  fence from = low;
  for (unsigned i = 0; i <= m.count; ++i) {
    fence to = high;
    if (i < m.count) {
      std::uint64_t object = 0;
      to.exists = true;
      // Whatever has a prefix: one of the fences.
      if (status s = separator_text(op, at, m, image.heads[i], i, low.key.bytes, to.key, object); !s) return s;
      if (object != 0 && image.heads[i] != key::head_of(to.key.bytes + m.prefix, to.key.count - m.prefix)) {
        return access::damaged("separator", object);
      }
      if ((from.exists && compare_texts(from.key, to.key) >= 0) ||
          (high.exists && compare_texts(to.key, high.key) >= 0)) {
        return access::damaged("separator", place);
      }
    }
    const auto below = scratch::of_thread().here();
    if (status s = check_node(op, image.children[i], level - 1, from, to, sum, out); !s) return s;
    scratch::of_thread().rewind(below);
    from = to;
  }
  return {};
}

[[nodiscard]] inline status check(operation& op, totals& sum, shape& out) {
  const std::uint64_t root = op.load(&op.header->root);
  if (root == 0) return {};
  auto* at = op.at<std::uint64_t>(root);
  if (at == nullptr) return errc::corrupt;
  const unsigned level = layout::unpack_meta(op.load(at)).level;
  if (level >= layout::tree_levels_max) return access::damaged("tree node", root);
  out.depth = level + 1;
  if (status s = check_node(op, root, level, {}, {}, sum, out); !s) return s;
  return out.next_leaf == 0 ? status{} : status{access::damaged("chain of leaves", root)};
}

}  // namespace nvm::keyed::btree
