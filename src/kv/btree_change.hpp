// A B+tree, changed: an entry comes in or goes, leaves and inner nodes are split, become one, or share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "kv/btree_inner.hpp"

namespace nvm::keyed::btree {

inline constexpr unsigned leaf_few = 4;    // fewer entries: look for a neighbour to become one with
inline constexpr unsigned leaf_most = 10;  // entries of a leaf that was made of two
inline constexpr unsigned inner_few = 9;

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

// The order word of the left half of a leaf that is split.  `numbers`: slots of its entries and of a new one
// (leaf_slots), of which the first m stay on the left; they keep their slots, and the new one takes the slot of an
// entry that went.
[[nodiscard]] inline std::uint64_t order_on_the_left(const unsigned (&numbers)[leaf_slots + 1], unsigned m,
                                                     unsigned (&slots)[leaf_slots]) noexcept {
  unsigned used = 0;
  for (unsigned i = 0; i < m; ++i) {
    slots[i] = numbers[i] == leaf_slots ? numbers[leaf_slots] : numbers[i];
    used |= 1U << slots[i];
  }
  for (unsigned slot = 0, to = m; slot < leaf_slots; ++slot) {
    if ((used >> slot & 1) == 0) slots[to++] = slot;
  }
  return pack_order(slots, m);
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

  unsigned slots[leaf_slots];
  const std::uint64_t ends[2] = {order_on_the_left(numbers, m, slots), op.place_of(right)};
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
    if (position < m) op.write(&p.at->slots[numbers[n - 1]], &fresh, sizeof fresh);
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
    if (fits(op, op.sums, 0, r, value.count)) {
      overwrite(op, op.count, op.sums, r, k, value);
      return {};
    }
    op.expect({{&slot->record, sizeof slot->record}, op.count.place()});
    const std::uint64_t made = make_record(op, op.count, op.sums, 0, k, value);
    if (made == 0) return access::out_of_room();
    op.store(&slot->record, layout::pack_place(made, k.count));
    return drop_record(op, op.count, 0, r);
  }
  const unsigned n = p.at == nullptr ? leaf_slots : count_of(p.image.order);
  leaf_slot* free = n == leaf_slots ? nullptr : &p.at->slots[slot_at(p.image.order, n)];
  if (free != nullptr) {
    op.expect({{free, sizeof *free}, {&p.at->order, sizeof p.at->order}, op.count.place()});
  }
  const std::uint64_t made = make_record(op, op.count, op.sums, 0, k, value);
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
  if (free == nullptr) return split_leaf(op, p, k, at.position, fresh);
  op.write(free, &fresh, sizeof fresh);
  op.store(&p.at->order, moved_slot(p.image.order, n, at.position, 1));
  return {};
}

// ---- remove ----

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

// The node that step d leads to has become small: it merges with a neighbour, or shares with it.
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
  op.expect({{&p.at->order, sizeof p.at->order}, op.count.place()});
  op.store(&p.at->order, moved_slot(p.image.order, at.position, left, -1));
  if (status s = drop_record(op, op.count, 0, r); !s) return s;
  if (p.depth != 0) return left < leaf_few ? merge_leaf(op, p, k) : status{};
  if (left != 0) return {};
  op.store(&op.header->root, 0);
  return op.release(op.place_of(p.at));
}

}  // namespace nvm::keyed::btree
