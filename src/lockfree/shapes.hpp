// The table of shapes: a row for each kind of structure that a pool can have.  Code that makes or opens one by its kind
// asks the table, and nothing else knows them all.
#pragma once

#include <tuple>
#include <type_traits>

#include "lockfree/hash_table.hpp"
#include "lockfree/list.hpp"
#include "lockfree/sealed_nodes.hpp"
#include "lockfree/skip_list.hpp"
#include "lockfree/tree.hpp"

namespace nvm::lockfree {

// A row: the kind's name in messages, and the shape over a memory with nodes of one kind.
struct list_row {
  static constexpr layout::kind kind = layout::kind::list;
  static constexpr const char* name = "list";
  template <class Memory, class Nodes>
  using shape = list<Memory, Nodes>;
};
struct hash_row {
  static constexpr layout::kind kind = layout::kind::hash;
  static constexpr const char* name = "hash table";
  template <class Memory, class Nodes>
  using shape = hash_table<Memory, Nodes, std::conditional_t<Nodes::of_bytes, byte_hash, word_hash>>;
};
struct skip_list_row {
  static constexpr layout::kind kind = layout::kind::skip_list;
  static constexpr const char* name = "skip list";
  template <class Memory, class Nodes>
  using shape = skip_list<Memory, Nodes>;
};
struct tree_row {
  static constexpr layout::kind kind = layout::kind::tree;
  static constexpr const char* name = "tree";
  template <class Memory, class Nodes>
  using shape = tree<Memory, Nodes>;
};

using shape_rows = std::tuple<list_row, hash_row, skip_list_row, tree_row>;
static_assert(std::tuple_size_v<shape_rows> == static_cast<std::size_t>(layout::last_kind));

// use(row) of this kind; otherwise() where none is.
template <std::size_t First = 0, class Use, class Otherwise>
[[nodiscard]] std::invoke_result_t<Otherwise&> with_row(layout::kind kind, Use&& use, Otherwise&& otherwise) {
  if constexpr (First == std::tuple_size_v<shape_rows>) {
    return otherwise();
  } else {
    using row = std::tuple_element_t<First, shape_rows>;
    return kind == row::kind ? use(row{}) : with_row<First + 1>(kind, use, otherwise);
  }
}

// The shape of a row, as durable.hpp and rebuilt.hpp take one.
template <class Row, class Nodes>
struct row_with {
  template <class Memory>
  using shape = typename Row::template shape<Memory, Nodes>;
};

// By name, for code that knows which one it wants.
template <class Memory>
using word_list = list<Memory, word_nodes>;
template <class Memory>
using word_hash_table = hash_table<Memory, word_nodes, word_hash>;
template <class Memory>
using word_skip_list = skip_list<Memory, word_nodes>;
template <class Memory>
using word_tree = tree<Memory, word_nodes>;
// With volatile links.
template <class Memory>
using sealed_list = list<Memory, sealed_words>;
template <class Memory>
using sealed_hash_table = hash_table<Memory, sealed_words, word_hash>;
template <class Memory>
using sealed_skip_list = skip_list<Memory, sealed_words>;

}  // namespace nvm::lockfree
