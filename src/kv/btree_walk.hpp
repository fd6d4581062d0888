// A B+tree, walked: in the order of keys, and to look at every node of it.
#pragma once

#include <algorithm>

#include "kv/btree_inner.hpp"

namespace nvm::keyed::btree {

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
