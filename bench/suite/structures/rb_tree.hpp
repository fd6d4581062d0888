// A red-black tree with parent pointers (Cormen et al., "Introduction to Algorithms", chapter 13), values in the nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "suite/structures/copies.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

template <class Value>
class basic_rb_tree {
 public:
  static constexpr const char* name = "rbtree";

  template <class E>
  basic_rb_tree(E& engine, std::uint64_t /*records*/) : head_(static_cast<head*>(engine.fixed(sizeof(head)))) {}

  std::size_t part_of(std::uint64_t /*key*/) const noexcept { return 0; }

  template <class Tx>
  bool put(Tx& tx, std::uint64_t key, const Value& v) {
    node* parent = nullptr;
    node** link = &head_->root;
    for (node* at = tx.load(link); at != nullptr; at = tx.load(link)) {
      const std::uint64_t here = tx.load(&at->key);
      if (here == key) {
        tx.write(&at->contents, &v, sizeof v);
        return false;
      }
      parent = at;
      link = &at->child[key > here];
    }
    auto* fresh = static_cast<node*>(tx.alloc(sizeof(node)));
    fresh->child[0] = fresh->child[1] = nullptr;
    fresh->parent = parent;
    fresh->red = 1;
    fresh->key = key;
    fresh->contents = v;
    tx.store(link, fresh);
    balance_after_put(tx, fresh);
    return true;
  }
  template <class Tx>
  bool erase(Tx& tx, std::uint64_t key) {
    node* const gone = find(tx, key);
    if (gone == nullptr) return false;
    // `heir` moves up to where a node was taken out, under `heir_parent`; it may be null.
    node* heir = nullptr;
    node* heir_parent = nullptr;
    std::uint64_t taken_red = tx.load(&gone->red);
    node* const left = tx.load(&gone->child[0]);
    node* const right = tx.load(&gone->child[1]);
    if (left == nullptr || right == nullptr) {
      heir = left == nullptr ? right : left;
      heir_parent = tx.load(&gone->parent);
      replace(tx, gone, heir);
    } else {
      node* next = right;  // the next key's node takes the place of the one that goes
      for (node* at = next; at != nullptr; at = tx.load(&next->child[0])) next = at;
      taken_red = tx.load(&next->red);
      heir = tx.load(&next->child[1]);
      if (next == right) {
        heir_parent = next;
      } else {
        heir_parent = tx.load(&next->parent);
        replace(tx, next, heir);
        tx.store(&next->child[1], right);
        tx.store(&right->parent, next);
      }
      replace(tx, gone, next);
      tx.store(&next->child[0], left);
      tx.store(&left->parent, next);
      set(tx, &next->red, tx.load(&gone->red));
    }
    if (taken_red == 0) balance_after_erase(tx, heir, heir_parent);
    tx.free(gone);
    return true;
  }
  template <class Tx>
  bool get(Tx& tx, std::uint64_t key, Value* out) {
    node* const at = find(tx, key);
    if (at == nullptr) return false;
    tx.read(out, &at->contents, sizeof *out);
    return true;
  }
  template <class E, class F>
  void each(E& engine, F&& visit) const {
    walk(engine, copy_of(engine, head_).root, visit);
  }
  // Black nodes on every way down; throws if the tree is none.
  template <class E>
  unsigned check(E& engine) const {
    return black_height(engine, copy_of(engine, head_).root, nullptr, false, 0, UINT64_MAX);
  }

 private:
  struct node {
    node* child[2];
    node* parent;
    std::uint64_t red;
    std::uint64_t key;
    Value contents;
  };
  struct head {
    node* root;
  };

  template <class Tx>
  node* find(Tx& tx, std::uint64_t key) {
    node* at = tx.load(&head_->root);
    while (at != nullptr) {
      const std::uint64_t here = tx.load(&at->key);
      if (here == key) break;
      at = tx.load(&at->child[key > here]);
    }
    return at;
  }
  template <class Tx>
  static bool is_red(Tx& tx, node* n) {
    return n != nullptr && tx.load(&n->red) != 0;
  }
  // Stores only what differs: a colour is mostly right already.
  template <class Tx>
  static void set(Tx& tx, std::uint64_t* red, std::uint64_t to) {
    if (tx.load(red) != to) tx.store(red, to);
  }
  template <class Tx>
  static unsigned side_of(Tx& tx, node* n, node* parent) {
    return tx.load(&parent->child[1]) == n ? 1 : 0;
  }
  // Puts `by` (may be null) where `n` is in its parent.
  template <class Tx>
  void replace(Tx& tx, node* n, node* by) {
    node* const parent = tx.load(&n->parent);
    if (parent == nullptr) {
      tx.store(&head_->root, by);
    } else {
      tx.store(&parent->child[side_of(tx, n, parent)], by);
    }
    if (by != nullptr) tx.store(&by->parent, parent);
  }
  // `n` goes down to the given side, its other child up.
  template <class Tx>
  void rotate(Tx& tx, node* n, unsigned side) {
    node* const up = tx.load(&n->child[1 - side]);
    node* const inner = tx.load(&up->child[side]);
    tx.store(&n->child[1 - side], inner);
    if (inner != nullptr) tx.store(&inner->parent, n);
    replace(tx, n, up);
    tx.store(&up->child[side], n);
    tx.store(&n->parent, up);
  }
  template <class Tx>
  void balance_after_put(Tx& tx, node* n) {
    for (;;) {
      node* parent = tx.load(&n->parent);
      if (parent == nullptr) {
        set(tx, &n->red, 0);
        return;
      }
      if (!is_red(tx, parent)) return;
      node* const grandparent = tx.load(&parent->parent);  // there is one: the root is black
      const unsigned side = side_of(tx, parent, grandparent);
      node* const uncle = tx.load(&grandparent->child[1 - side]);
      if (is_red(tx, uncle)) {
        tx.store(&parent->red, std::uint64_t{0});
        tx.store(&uncle->red, std::uint64_t{0});
        tx.store(&grandparent->red, std::uint64_t{1});
        n = grandparent;
        continue;
      }
      if (side_of(tx, n, parent) != side) {
        rotate(tx, parent, side);
        parent = n;
      }
      tx.store(&parent->red, std::uint64_t{0});
      tx.store(&grandparent->red, std::uint64_t{1});
      rotate(tx, grandparent, 1 - side);
      return;
    }
  }
  // The ways through `n`, a child of `parent` and perhaps null, lack a black node.
  template <class Tx>
  void balance_after_erase(Tx& tx, node* n, node* parent) {
    while (parent != nullptr && !is_red(tx, n)) {
      const unsigned side = side_of_null(tx, n, parent);
      node* sibling = tx.load(&parent->child[1 - side]);
      if (is_red(tx, sibling)) {
        tx.store(&sibling->red, std::uint64_t{0});
        tx.store(&parent->red, std::uint64_t{1});
        rotate(tx, parent, side);
        sibling = tx.load(&parent->child[1 - side]);
      }
      node* near = tx.load(&sibling->child[side]);
      node* far = tx.load(&sibling->child[1 - side]);
      if (!is_red(tx, near) && !is_red(tx, far)) {
        tx.store(&sibling->red, std::uint64_t{1});
        n = parent;
        parent = tx.load(&n->parent);
        continue;
      }
      if (!is_red(tx, far)) {
        tx.store(&near->red, std::uint64_t{0});
        tx.store(&sibling->red, std::uint64_t{1});
        rotate(tx, sibling, 1 - side);
        far = sibling;
        sibling = near;
      }
      set(tx, &sibling->red, tx.load(&parent->red));
      set(tx, &parent->red, 0);
      set(tx, &far->red, 0);
      rotate(tx, parent, side);
      return;
    }
    if (n != nullptr) set(tx, &n->red, 0);
  }
  // A null child is on the side where the parent has none; its other child exists, for the sake of the black nodes.
  template <class Tx>
  static unsigned side_of_null(Tx& tx, node* n, node* parent) {
    return tx.load(&parent->child[0]) == n ? 0 : 1;
  }

  template <class E, class F>
  static void walk(E& engine, const node* at, F& visit) {
    if (at == nullptr) return;
    const node n = copy_of(engine, at);
    walk(engine, n.child[0], visit);
    visit(n.key, n.contents);
    walk(engine, n.child[1], visit);
  }
  template <class E>
  static unsigned black_height(E& engine, const node* at, const node* parent, bool parent_is_red, std::uint64_t low,
                               std::uint64_t high) {
    if (at == nullptr) return 1;
    const node n = copy_of(engine, at);
    if (n.parent != parent || n.key < low || n.key > high || (n.red != 0 && (parent == nullptr || parent_is_red)))
      throw std::logic_error("this is no red-black tree");
    const unsigned left = black_height(engine, n.child[0], at, n.red != 0, low, n.key - 1);
    const unsigned right = black_height(engine, n.child[1], at, n.red != 0, n.key + 1, high);
    if (left != right) throw std::logic_error("this red-black tree is out of balance");
    return left + (n.red == 0 ? 1 : 0);
  }

  head* head_;
};

using rb_tree = basic_rb_tree<value>;

}  // namespace nvm::bench
