// A B+tree: inner nodes and leaves of up to 16 sorted keys, leaves lead to values.  A node that falls to a quarter is
// united with a neighbour under the same parent if both together stay at three quarters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "suite/structures/copies.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

template <class Value>
class basic_bp_tree {
 public:
  static constexpr const char* name = "bptree";

  template <class E>
  basic_bp_tree(E& engine, std::uint64_t /*records*/) : head_(static_cast<head*>(engine.fixed(sizeof(head)))) {}

  std::size_t part_of(std::uint64_t /*key*/) const noexcept { return 0; }

  template <class Tx>
  bool put(Tx& tx, std::uint64_t key, const Value& v) {
    path way;
    node* const leaf = descend(tx, key, &way);
    if (leaf == nullptr) {
      node* const first = make_node(tx, 1);
      first->keys[0] = key;
      first->slots[0] = make_value(tx, v);
      first->count = 1;
      tx.store(&head_->root, first);
      return true;
    }
    const std::uint64_t count = tx.load(&leaf->count);
    const std::uint64_t at = lower_bound(tx, leaf, count, key);
    if (at < count && tx.load(&leaf->keys[at]) == key) {
      tx.write(tx.load(&leaf->slots[at]), &v, sizeof v);
      return false;
    }
    insert(tx, way, leaf, count, at, key, make_value(tx, v));
    return true;
  }
  template <class Tx>
  bool erase(Tx& tx, std::uint64_t key) {
    path way;
    node* const leaf = descend(tx, key, &way);
    if (leaf == nullptr) return false;
    const std::uint64_t count = tx.load(&leaf->count);
    const std::uint64_t at = lower_bound(tx, leaf, count, key);
    if (at == count || tx.load(&leaf->keys[at]) != key) return false;
    tx.free(tx.load(&leaf->slots[at]));
    remove_entry(tx, leaf, count, at, at);
    if (count - 1 <= fanout / 4) unite(tx, way, count - 1);
    return true;
  }
  template <class Tx>
  bool get(Tx& tx, std::uint64_t key, Value* out) {
    node* const leaf = descend(tx, key, nullptr);
    if (leaf == nullptr) return false;
    const std::uint64_t count = tx.load(&leaf->count);
    const std::uint64_t at = lower_bound(tx, leaf, count, key);
    if (at == count || tx.load(&leaf->keys[at]) != key) return false;
    tx.read(out, tx.load(&leaf->slots[at]), sizeof *out);
    return true;
  }
  template <class E, class F>
  void each(E& engine, F&& visit) const {
    const node* const root = copy_of(engine, head_).root;
    if (root != nullptr) walk(engine, root, visit);
  }
  // Height; throws if the tree is none.
  template <class E>
  unsigned check(E& engine) const {
    const node* const root = copy_of(engine, head_).root;
    return root == nullptr ? 0 : height(engine, root, 0, UINT64_MAX);
  }

 private:
  static constexpr std::uint64_t fanout = 16;
  static constexpr unsigned height_max = 32;

  // A leaf has a value for each key; an inner node has a child more than keys, child i + 1 from key i on.
  struct node {
    std::uint64_t count;  // of keys
    std::uint64_t leaf;
    std::uint64_t keys[fanout];
    void* slots[fanout + 1];
  };
  struct head {
    node* root;
  };
  // The inner nodes above a leaf, and which child was taken.
  struct path {
    node* nodes[height_max];
    std::uint64_t taken[height_max];
    unsigned height = 0;
  };

  template <class Tx>
  static node* make_node(Tx& tx, std::uint64_t leaf) {
    auto* n = static_cast<node*>(tx.alloc(sizeof(node)));
    std::memset(n, 0, sizeof *n);  // what is durable is all of it
    n->leaf = leaf;
    return n;
  }
  template <class Tx>
  static void* make_value(Tx& tx, const Value& v) {
    void* p = tx.alloc(sizeof v);
    std::memcpy(p, &v, sizeof v);
    return p;
  }
  // A search would miss the lines of a node one after the other.
  static node* fetched(node* n) noexcept {
    constexpr std::uintptr_t line = 64;
    const auto at = reinterpret_cast<std::uintptr_t>(n);
    for (std::uintptr_t p = at - at % line; p < at + sizeof(node); p += line) {
      __builtin_prefetch(reinterpret_cast<const void*>(p));
    }
    return n;
  }
  // The first key that is not less.
  template <class Tx>
  static std::uint64_t lower_bound(Tx& tx, node* n, std::uint64_t count, std::uint64_t key) {
    std::uint64_t low = 0;
    while (low < count) {
      const std::uint64_t middle = (low + count) / 2;
      if (tx.load(&n->keys[middle]) < key) {
        low = middle + 1;
      } else {
        count = middle;
      }
    }
    return low;
  }
  // The first key that is greater.
  template <class Tx>
  static std::uint64_t upper_bound(Tx& tx, node* n, std::uint64_t count, std::uint64_t key) {
    std::uint64_t low = 0;
    while (low < count) {
      const std::uint64_t middle = (low + count) / 2;
      if (tx.load(&n->keys[middle]) <= key) {
        low = middle + 1;
      } else {
        count = middle;
      }
    }
    return low;
  }
  template <class Tx>
  node* descend(Tx& tx, std::uint64_t key, path* way) {
    node* at = tx.load(&head_->root);
    while (at != nullptr && tx.load(&at->leaf) == 0) {
      const std::uint64_t count = tx.load(&at->count);
      const std::uint64_t child = upper_bound(tx, at, count, key);
      if (way != nullptr) {
        way->nodes[way->height] = at;
        way->taken[way->height++] = child;
      }
      at = fetched(static_cast<node*>(tx.load(&at->slots[child])));
    }
    return at;
  }

  // Keys and slots of a node in private memory.
  struct entries {
    std::uint64_t keys[fanout + 1];
    void* slots[fanout + 2];
  };

  // Puts a key at place `at` and a slot there (in a leaf) or after it (in an inner node); splits a full node.
  template <class Tx>
  void insert(Tx& tx, path& way, node* n, std::uint64_t count, std::uint64_t at, std::uint64_t key, void* slot) {
    for (;;) {
      const std::uint64_t leaf = tx.load(&n->leaf);
      const std::uint64_t slot_at = leaf != 0 ? at : at + 1;
      const std::uint64_t slots = leaf != 0 ? count : count + 1;
      entries all;
      if (count < fanout) {
        all.keys[0] = key;
        all.slots[0] = slot;
        tx.read(&all.keys[1], &n->keys[at], (count - at) * sizeof key);
        tx.read(&all.slots[1], &n->slots[slot_at], (slots - slot_at) * sizeof slot);
        const span_of_bytes ranges[] = {{&n->keys[at], (count - at + 1) * sizeof key},
                                        {&n->slots[slot_at], (slots - slot_at + 1) * sizeof slot},
                                        {&n->count, sizeof n->count}};
        tx.announce(ranges, 3);
        tx.write_announced(ranges[0].p, &all.keys[0], ranges[0].n);
        tx.write_announced(ranges[1].p, &all.slots[0], ranges[1].n);
        tx.store_announced(&n->count, count + 1);
        return;
      }
      tx.read(all.keys, n->keys, count * sizeof key);
      tx.read(all.slots, n->slots, slots * sizeof slot);
      std::memmove(&all.keys[at + 1], &all.keys[at], (count - at) * sizeof key);
      std::memmove(&all.slots[slot_at + 1], &all.slots[slot_at], (slots - slot_at) * sizeof slot);
      all.keys[at] = key;
      all.slots[slot_at] = slot;
      // The upper half moves to a new node.  A leaf's first key there is also the separator; an inner node gives it up.
      constexpr std::uint64_t left = (fanout + 1) / 2;
      const std::uint64_t right_first = leaf != 0 ? left : left + 1;
      node* const right = make_node(tx, leaf);
      right->count = fanout + 1 - right_first;
      std::memcpy(right->keys, &all.keys[right_first], right->count * sizeof key);
      std::memcpy(right->slots, &all.slots[right_first], (right->count + (leaf != 0 ? 0 : 1)) * sizeof slot);
      const std::uint64_t separator = all.keys[left];
      const std::uint64_t left_slots = leaf != 0 ? left : left + 1;
      if (at < left) {
        const span_of_bytes ranges[] = {
            {&n->keys[at], (left - at) * sizeof key},
            {&n->slots[slot_at], (left_slots - std::min(left_slots, slot_at)) * sizeof slot},
            {&n->count, sizeof n->count}};
        tx.announce(ranges, 3);
        tx.write_announced(ranges[0].p, &all.keys[at], ranges[0].n);
        tx.write_announced(ranges[1].p, &all.slots[slot_at], ranges[1].n);
        tx.store_announced(&n->count, left);
      } else {
        tx.store(&n->count, left);
      }
      if (way.height == 0) {
        node* const root = make_node(tx, 0);
        root->count = 1;
        root->keys[0] = separator;
        root->slots[0] = n;
        root->slots[1] = right;
        tx.store(&head_->root, root);
        return;
      }
      --way.height;
      n = way.nodes[way.height];
      at = way.taken[way.height];
      count = tx.load(&n->count);
      key = separator;
      slot = right;
    }
  }

  template <class Tx>
  static void remove_entry(Tx& tx, node* n, std::uint64_t count, std::uint64_t key_at, std::uint64_t slot_at) {
    const std::uint64_t slots = tx.load(&n->leaf) != 0 ? count : count + 1;
    entries tail;
    const std::uint64_t keys_after = count - key_at - 1;
    const std::uint64_t slots_after = slots - slot_at - 1;
    tx.read(tail.keys, &n->keys[key_at + 1], keys_after * sizeof tail.keys[0]);
    tx.read(tail.slots, &n->slots[slot_at + 1], slots_after * sizeof tail.slots[0]);
    const span_of_bytes ranges[] = {{&n->count, sizeof n->count},
                                    {&n->keys[key_at], keys_after * sizeof tail.keys[0]},
                                    {&n->slots[slot_at], slots_after * sizeof tail.slots[0]}};
    tx.announce(ranges, 3);
    tx.write_announced(ranges[1].p, tail.keys, ranges[1].n);
    tx.write_announced(ranges[2].p, tail.slots, ranges[2].n);
    tx.store_announced(&n->count, count - 1);
  }

  // The node at the end of the way has few keys left.
  template <class Tx>
  void unite(Tx& tx, path& way, std::uint64_t count) {
    for (; way.height != 0 && count <= fanout / 4;) {
      --way.height;
      node* const parent = way.nodes[way.height];
      const std::uint64_t parent_count = tx.load(&parent->count);
      if (parent_count == 0) return;
      // With the neighbour to the right, or as the last one to the left.
      const std::uint64_t first = std::min(way.taken[way.height], parent_count - 1);
      auto* const left = static_cast<node*>(tx.load(&parent->slots[first]));
      auto* const right = static_cast<node*>(tx.load(&parent->slots[first + 1]));
      const std::uint64_t left_count = tx.load(&left->count);
      const std::uint64_t right_count = tx.load(&right->count);
      const std::uint64_t leaf = tx.load(&left->leaf);
      const std::uint64_t inner = leaf != 0 ? 0 : 1;  // the separator comes down
      if (left_count + right_count + inner > fanout * 3 / 4) return;
      entries moved;
      if (inner != 0) moved.keys[0] = tx.load(&parent->keys[first]);
      tx.read(&moved.keys[inner], right->keys, right_count * sizeof moved.keys[0]);
      tx.read(moved.slots, right->slots, (right_count + inner) * sizeof moved.slots[0]);
      const span_of_bytes ranges[] = {{&left->keys[left_count], (right_count + inner) * sizeof moved.keys[0]},
                                      {&left->slots[left_count + inner], (right_count + inner) * sizeof moved.slots[0]},
                                      {&left->count, sizeof left->count}};
      tx.announce(ranges, 3);
      tx.write_announced(ranges[0].p, moved.keys, ranges[0].n);
      tx.write_announced(ranges[1].p, moved.slots, ranges[1].n);
      tx.store_announced(&left->count, left_count + right_count + inner);
      tx.free(right);
      remove_entry(tx, parent, parent_count, first, first + 1);
      if (way.height == 0 && parent_count == 1) {
        tx.store(&head_->root, left);
        tx.free(parent);
        return;
      }
      count = parent_count - 1;
    }
  }

  template <class E, class F>
  static void walk(E& engine, const node* at, F& visit) {
    const node n = copy_of(engine, at);
    for (std::uint64_t i = 0; i < n.count + (n.leaf != 0 ? 0 : 1); ++i)
      if (n.leaf != 0) {
        visit(n.keys[i], copy_of(engine, static_cast<const Value*>(n.slots[i])));
      } else {
        walk(engine, static_cast<const node*>(n.slots[i]), visit);
      }
  }
  // Keys of the node lie in [low, high].
  template <class E>
  static unsigned height(E& engine, const node* at, std::uint64_t low, std::uint64_t high) {
    const node n = copy_of(engine, at);
    for (std::uint64_t i = 0; i < n.count; ++i)
      if (n.count > fanout || n.keys[i] < low || n.keys[i] > high || (i > 0 && n.keys[i] <= n.keys[i - 1]))
        throw std::logic_error("this B+tree's keys are out of order");
    if (n.leaf != 0) return 1;
    unsigned all = 0;
    for (std::uint64_t i = 0; i <= n.count; ++i) {
      const unsigned one = height(engine, static_cast<const node*>(n.slots[i]), i == 0 ? low : n.keys[i - 1],
                                  i == n.count ? high : n.keys[i] - 1);
      if (all != 0 && one != all) throw std::logic_error("this B+tree's leaves lie at several depths");
      all = one;
    }
    return all + 1;
  }

  head* head_;
};

using bp_tree = basic_bp_tree<value>;

}  // namespace nvm::bench
