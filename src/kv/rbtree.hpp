// A red-black tree over keys of eight bytes, in the order of their bytes: the structure that everybody measures with.
// Nodes are records with links; the rotations are those of every textbook.
#pragma once

#include "kv/store.hpp"

namespace nvm::keyed::rbtree {

using layout::rb_links;

inline constexpr std::uint32_t key_bytes = 8;
inline constexpr unsigned depth_max = 128;

// A node as a search reads it.
struct node_image {
  rb_links links;
  std::uint64_t sizes;
  std::uint64_t key;
};
static_assert(sizeof(node_image) == 40);

struct node {
  std::uint64_t place = 0;
  node_image image{};
  [[nodiscard]] std::uint64_t head() const noexcept { return __builtin_bswap64(image.key); }
  [[nodiscard]] std::uint64_t parent() const noexcept { return image.links.parent & ~std::uint64_t{1}; }
};

[[nodiscard]] inline status read_node(const operation& op, std::uint64_t place, node& out) {
  auto* at = op.at<node_image>(place);
  if (at == nullptr) return errc::corrupt;
  op.read(&out.image, at, sizeof out.image);
  out.place = place;
  return {};
}
[[nodiscard]] inline status record_of(const operation& op, const node& n, record& out) {
  out.place = n.place + sizeof(rb_links);
  out.sizes = layout::unpack_sizes(n.image.sizes);
  if (out.sizes.key != key_bytes) return access::damaged("tree node", n.place);
  return check_sizes(op, out.place, out.sizes);
}

// The links of nodes, followed and changed by an update.  A link that leads nowhere, or to a node that does not lead
// back, or so many steps that they go round, ends everything that follows in nothing but reads: `bad` is looked at when
// the update is done.
class linker {
 public:
  explicit linker(operation& op) noexcept : op_{op} {}
  [[nodiscard]] bool bad() const noexcept { return bad_; }

  std::uint64_t root() const { return op_.load(&op_.header->root); }
  std::uint64_t child(std::uint64_t n, bool right) {
    rb_links* l = links(n);
    const std::uint64_t c = l == nullptr ? 0 : op_.load(right ? &l->right : &l->left);
    if (c == 0 || parent(c) == n) return c;
    // A link that is damaged may lead to a node of another tree, which the update would take apart.
    if (!bad_) (void)access::damaged("tree node", c);
    bad_ = true;
    return 0;
  }
  std::uint64_t parent(std::uint64_t n) { return word(n) & ~std::uint64_t{1}; }
  bool red(std::uint64_t n) { return n != 0 && (word(n) & 1) != 0; }
  void set_child(std::uint64_t n, bool right, std::uint64_t to) {
    if (rb_links* l = links(n)) op_.store(right ? &l->right : &l->left, to);
  }
  void set_parent(std::uint64_t n, std::uint64_t to) {
    if (n == 0) return;
    if (rb_links* l = links(n)) op_.store(&l->parent, to | (op_.load(&l->parent) & 1));
  }
  void set_red(std::uint64_t n, bool is_red) {
    if (n == 0) return;
    rb_links* l = links(n);
    if (l == nullptr) return;
    const std::uint64_t w = op_.load(&l->parent);
    if ((w & 1) != (is_red ? 1U : 0U)) op_.store(&l->parent, w ^ 1);
  }
  // `to` takes the place of n under n's parent.
  void replace(std::uint64_t n, std::uint64_t to) {
    const std::uint64_t up = parent(n);
    if (up == 0) {
      op_.store(&op_.header->root, to);
    } else {
      set_child(up, child(up, true) == n, to);
    }
    set_parent(to, up);
  }
  // The child on the other side comes up, n goes down to the side `right`.
  void rotate(std::uint64_t n, bool right) {
    const std::uint64_t up = child(n, !right);
    const std::uint64_t middle = child(up, right);
    set_child(n, !right, middle);
    set_parent(middle, n);
    replace(n, up);
    set_child(up, right, n);
    set_parent(n, up);
  }

 private:
  rb_links* links(std::uint64_t n) {
    auto* at = n == 0 || bad_ ? nullptr : op_.at<node_image>(n);
    if (at != nullptr && steps_left_-- == 0) {
      (void)access::damaged("red-black tree", op_.of.header_place);
      at = nullptr;
    }
    if (at == nullptr) bad_ = true;
    return at == nullptr ? nullptr : &at->links;
  }
  std::uint64_t word(std::uint64_t n) {
    rb_links* l = links(n);
    return l == nullptr ? 0 : op_.load(&l->parent);
  }
  // An update looks at a few links of each node on its way.
  static constexpr unsigned steps_max = 64 * depth_max;
  operation& op_;
  unsigned steps_left_ = steps_max;
  bool bad_ = false;
};

// The node of `k`, or of its parent to be: `equal` says which; place 0: the tree is empty.  `above`: the node whose
// link led there; 0: the root's.
[[nodiscard]] inline status search(const operation& op, const key& k, node& out, bool& equal, bool& right,
                                   std::uint64_t& above) {
  const std::uint64_t head = k.head(0);
  equal = false;
  above = 0;
  std::uint64_t place = op.load(&op.header->root);
  for (unsigned depth = 0; place != 0; ++depth) {
    if (depth == depth_max) return access::damaged("red-black tree", op.of.header_place);
    if (depth != 0) above = out.place;
    if (status s = read_node(op, place, out); !s) return s;
    if (out.head() == head) {
      equal = true;
      return {};
    }
    right = out.head() < head;
    place = right ? out.image.links.right : out.image.links.left;
  }
  return {};
}

// The same for a change: the node has to lead back to the one above it.  A link that is damaged may lead to a node of
// another tree, which the change would take apart.
[[nodiscard]] inline status search_to_change(const operation& op, const key& k, node& out, bool& equal, bool& right) {
  std::uint64_t above = 0;
  if (status s = search(op, k, out, equal, right, above); !s) return s;
  return out.place == 0 || out.parent() == above ? status{} : status{access::damaged("tree node", out.place)};
}

[[nodiscard]] inline status find(operation& op, const key& k, record& out) {
  node n;
  bool equal = false;
  bool right = false;
  std::uint64_t above = 0;
  out.place = 0;
  if (status s = search(op, k, n, equal, right, above); !s || !equal) return s;
  return record_of(op, n, out);
}

inline void balance_insertion(linker& t, std::uint64_t n) {
  for (std::uint64_t up = t.parent(n); t.red(up) && !t.bad(); up = t.parent(n)) {
    const std::uint64_t top = t.parent(up);
    const bool right = t.child(top, true) == up;
    const std::uint64_t uncle = t.child(top, !right);
    if (t.red(uncle)) {
      t.set_red(up, false);
      t.set_red(uncle, false);
      t.set_red(top, true);
      n = top;
      continue;
    }
    if (t.child(up, !right) == n) {
      t.rotate(up, right);
      std::swap(n, up);
    }
    t.set_red(up, false);
    t.set_red(top, true);
    t.rotate(top, !right);
  }
  t.set_red(t.root(), false);
}

[[nodiscard]] inline status put(operation& op, const key& k, bytes_view value) {
  node n;
  bool equal = false;
  bool right = false;
  if (status s = search_to_change(op, k, n, equal, right); !s) return s;
  linker t{op};
  if (equal) {
    record r;
    if (status s = record_of(op, n, r); !s) return s;
    if (fits(op, op.sums, sizeof(rb_links), r, value.count)) {
      overwrite(op, op.count, op.sums, r, k, value);
      return {};
    }
    const std::uint64_t made = make_record(op, op.count, op.sums, sizeof(rb_links), k, value);
    if (made == 0) return access::out_of_room();
    std::memcpy(op.known<std::byte>(made), &n.image.links, sizeof(rb_links));
    t.replace(n.place, made);
    t.set_parent(n.image.links.left, made);
    t.set_parent(n.image.links.right, made);
    if (t.bad()) return errc::corrupt;
    return drop_record(op, op.count, sizeof(rb_links), r);
  }
  const std::uint64_t made = make_record(op, op.count, op.sums, sizeof(rb_links), k, value);
  if (made == 0) return access::out_of_room();
  const rb_links links{0, 0, n.place | 1};
  std::memcpy(op.known<std::byte>(made), &links, sizeof links);
  if (n.place == 0) {
    op.store(&op.header->root, made);
  } else {
    t.set_child(n.place, right, made);
  }
  balance_insertion(t, made);
  return t.bad() ? status{errc::corrupt} : status{};
}

// Below `up`, on side `right`, a path has one black node too few.
inline void balance_removal(linker& t, std::uint64_t n, std::uint64_t up, bool right) {
  while (up != 0 && !t.red(n) && !t.bad()) {
    std::uint64_t other = t.child(up, !right);
    if (t.red(other)) {
      t.set_red(other, false);
      t.set_red(up, true);
      t.rotate(up, right);
      other = t.child(up, !right);
    }
    if (!t.red(t.child(other, false)) && !t.red(t.child(other, true))) {
      t.set_red(other, true);
      n = up;
      up = t.parent(n);
      if (up != 0) right = t.child(up, true) == n;
      continue;
    }
    if (!t.red(t.child(other, !right))) {
      t.set_red(t.child(other, right), false);
      t.set_red(other, true);
      t.rotate(other, !right);
      other = t.child(up, !right);
    }
    t.set_red(other, t.red(up));
    t.set_red(up, false);
    t.set_red(t.child(other, !right), false);
    t.rotate(up, right);
    return;
  }
  t.set_red(n, false);
}

[[nodiscard]] inline status remove(operation& op, const key& k, bool& removed) {
  node n;
  bool right = false;
  removed = false;
  if (status s = search_to_change(op, k, n, removed, right); !s || !removed) return s;
  record r;
  if (status s = record_of(op, n, r); !s) return s;
  linker t{op};
  std::uint64_t goes = n.place;  // where the tree gets a node less
  if (n.image.links.left != 0 && n.image.links.right != 0) {
    goes = t.child(n.place, true);
    for (std::uint64_t next = t.child(goes, false); next != 0 && !t.bad(); next = t.child(goes, false)) goes = next;
  }
  const std::uint64_t left_child = t.child(goes, false);
  const std::uint64_t stays = left_child != 0 ? left_child : t.child(goes, true);
  std::uint64_t up = t.parent(goes);
  const bool side = up != 0 && t.child(up, true) == goes;
  const bool was_red = t.red(goes);
  t.replace(goes, stays);
  if (goes != n.place) {
    // The successor takes the place of n, its colour too.
    if (up == n.place) up = goes;
    for (const bool which : {false, true}) {
      const std::uint64_t c = t.child(n.place, which);
      t.set_child(goes, which, c);
      t.set_parent(c, goes);
    }
    t.set_red(goes, t.red(n.place));
    t.replace(n.place, goes);
  }
  if (!was_red) balance_removal(t, stays, up, side);
  if (t.bad()) return errc::corrupt;
  return drop_record(op, op.count, sizeof(rb_links), r);
}

// In the order of keys, from a key on, after it, or before it.
[[nodiscard]] inline status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  ended = false;
  const bool forward = !from.backward;
  const std::uint64_t head = from.has_key ? from.at.head(0) : 0;
  std::uint64_t open[depth_max];  // nodes that come after what lies below them
  unsigned depth = 0;
  std::uint64_t place = op.load(&op.header->root);
  node n;
  while (place != 0) {
    if (depth == depth_max) return access::damaged("red-black tree", op.of.header_place);
    if (status s = read_node(op, place, n); !s) return s;
    // Shorter keys, as a caller may give to begin at, are less than keys of eight bytes that they begin.
    const bool same = from.has_key && n.head() == head && from.at.count >= key_bytes;
    const bool long_key = from.has_key && from.at.count > key_bytes;
    bool wanted = !from.has_key;
    if (same && !long_key) {
      wanted = from.inclusive;
    } else if (same) {
      wanted = from.backward;
    } else if (from.has_key) {
      wanted = forward ? n.head() >= head : n.head() < head;
    }
    if (wanted) open[depth++] = place;
    // Towards the place to begin at.
    place = wanted == forward ? n.image.links.left : n.image.links.right;
  }
  bool more = true;
  std::uint64_t steps = op.of.pool.objects_max(op.of.pool.pool);
  while (depth != 0 && more) {
    if (status s = read_node(op, open[--depth], n); !s) return s;
    record r;
    const status read = record_of(op, n, r);
    if (status s = hand_over(to, op, read, r, more); !s) return s;
    if (steps-- == 0) return access::damaged("red-black tree", op.of.header_place);
    for (place = forward ? n.image.links.right : n.image.links.left; place != 0;) {
      if (depth == depth_max) return access::damaged("red-black tree", op.of.header_place);
      open[depth++] = place;
      if (status s = read_node(op, place, n); !s) return s;
      place = forward ? n.image.links.left : n.image.links.right;
    }
  }
  ended = depth == 0 && more;
  return {};
}

}  // namespace nvm::keyed::rbtree
