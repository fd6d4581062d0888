// A graph of durable objects and its twin in ordinary memory, for tests of the collector: the twin, which shares no
// code with the collector, says which objects may be freed.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "../object/sample_types.hpp"
#include "nvm/gc.h"
#include "nvm/nvm.h"

namespace nvm::tests {

struct gc_node {
  std::uint64_t number;
  void* volatile_note;
  gc_node* left;
  gc_node* right;
  gc_node* more[];
};
inline constexpr std::uint32_t gc_node_id = layout::type_id_of("gc_node");
inline constexpr std::uint32_t gc_bytes_id = layout::type_id_of("gc_bytes");

inline type_description gc_node_type() {
  using enum layout::field_kind;
  return {"gc_node",
          32,
          8,
          {field("number", 0, unsigned_integer, 8), field("volatile_note", 8, volatile_pointer, 8),
           field("left", 16, pointer, 8, 1, gc_node_id), field("right", 24, pointer, 8, 1, gc_node_id),
           field("more", 32, pointer, 8, 0, gc_node_id)}};
}
// Of this program, once.
inline void know_gc_types() {
  static const bool known = [] {
    type_map_writer w;
    w.add(gc_node_type());
    w.add({"gc_bytes", 1, 1, {field("bytes", 0, layout::field_kind::character, 1, 1)}});
    const auto words = w.finish();
    return nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}

// Objects by number.  The pool has announced stores.
class gc_graph {
 public:
  explicit gc_graph(NVM_POOL* pool) : pool_{pool} {}

  // `links` pointers after the two; returns the number.  In a transaction of its own unless one is open.
  gc_node* make(std::size_t links = 0) {
    const bool own = nvm_tx_depth(pool_) == 0;
    EXPECT_TRUE(!own || nvm_tx_begin(pool_) == 0) << nvm_errormsg();
    auto* n = static_cast<gc_node*>(nvm_calloc(pool_, gc_node_id, 1, sizeof(gc_node) + links * sizeof(gc_node*)));
    EXPECT_NE(n, nullptr) << nvm_errormsg();
    n->number = next_++;
    n->volatile_note = n;  // points to itself, and keeps nothing
    EXPECT_TRUE(!own || nvm_tx_commit(pool_) == 0) << nvm_errormsg();
    nodes_[n->number] = {n, links, {}};
    return n;
  }
  // Link 0 is left, 1 right, the rest more[].
  void link(gc_node* from, std::size_t which, gc_node* to, std::size_t into = 0) {
    gc_node** word = which == 0 ? &from->left : which == 1 ? &from->right : &from->more[which - 2];
    const bool own = nvm_tx_depth(pool_) == 0;
    EXPECT_TRUE(!own || nvm_tx_begin(pool_) == 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_log(word, sizeof *word), 0) << nvm_errormsg();
    *word = to == nullptr ? nullptr : reinterpret_cast<gc_node*>(reinterpret_cast<char*>(to) + into);
    EXPECT_TRUE(!own || nvm_tx_commit(pool_) == 0) << nvm_errormsg();
    auto& links = nodes_.at(from->number).links;
    if (to == nullptr) {
      links.erase(which);
    } else {
      links[which] = to->number;
    }
  }
  void set_root(gc_node* n) {
    EXPECT_EQ(nvm_pool_set_root(pool_, n), 0) << nvm_errormsg();
    root_ = n == nullptr ? 0 : n->number;
  }
  [[nodiscard]] gc_node* at(std::uint64_t number) const { return nodes_.at(number).place; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] std::size_t links_of(std::uint64_t number) const { return nodes_.at(number).more + 2; }
  [[nodiscard]] std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const auto& [number, n] : nodes_) all.push_back(number);
    return all;
  }

  // The numbers that the root and `held` lead to.
  [[nodiscard]] std::set<std::uint64_t> reachable(const std::set<std::uint64_t>& held = {}) const {
    std::set<std::uint64_t> seen;
    std::vector<std::uint64_t> pending{held.begin(), held.end()};
    if (root_ != 0) pending.push_back(root_);
    while (!pending.empty()) {
      const std::uint64_t n = pending.back();
      pending.pop_back();
      if (!seen.insert(n).second) continue;
      for (const auto& [which, to] : nodes_.at(n).links) pending.push_back(to);
    }
    return seen;
  }
  // The twin frees all others.
  void keep(const std::set<std::uint64_t>& numbers) {
    std::erase_if(nodes_, [&](const auto& n) { return numbers.count(n.first) == 0; });
  }

  // The pool at `pool` holds these objects, with these links, and no others.
  void expect_same(NVM_POOL* pool) const {
    std::set<std::uint64_t> found;
    const int walked = nvm_pool_each(
        pool,
        [](void* p, std::uint32_t type, std::size_t, void* to) {
          if (type == gc_node_id) static_cast<std::set<std::uint64_t>*>(to)->insert(static_cast<gc_node*>(p)->number);
          return 0;
        },
        &found);
    ASSERT_EQ(walked, 0) << nvm_errormsg();
    std::set<std::uint64_t> expected;
    for (const auto& [number, n] : nodes_) expected.insert(number);
    ASSERT_EQ(found, expected);
    for (const auto& [number, n] : nodes_) {
      ASSERT_EQ(n.place->number, number);
      for (std::size_t which = 0; which < n.more + 2; ++which) {
        gc_node* const to = which == 0 ? n.place->left : which == 1 ? n.place->right : n.place->more[which - 2];
        const auto link = n.links.find(which);
        if (link == n.links.end()) {
          ASSERT_EQ(to, nullptr);
        } else {
          ASSERT_EQ(nvm_object_around(pool, to), nodes_.at(link->second).place) << nvm_errormsg();
        }
      }
    }
  }

 private:
  struct twin {
    gc_node* place;
    std::size_t more;
    std::map<std::size_t, std::uint64_t> links;
  };
  NVM_POOL* pool_;
  std::map<std::uint64_t, twin> nodes_;
  std::uint64_t next_ = 1;
  std::uint64_t root_ = 0;
};

}  // namespace nvm::tests
