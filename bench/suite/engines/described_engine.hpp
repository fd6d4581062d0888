// Announced stores whose objects have types that the pool knows, so that references can be counted.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "object/type_map_writer.hpp"
#include "suite/engines/holdfast_engines.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

// The nodes of the hash table and of the B+tree, known by their sizes, and arrays of links.  Other structures are
// refused.
struct nodes_of_suite {
  static constexpr std::size_t in_chain = 16 + sizeof(value);   // suite/structures/hash_table.hpp
  static constexpr std::size_t in_tree = 16 + 16 * 8 + 17 * 8;  // suite/structures/bp_tree.hpp
  static constexpr std::size_t slots_in_tree = in_tree - 17 * 8;

  static std::uint32_t alloc_type(std::size_t n) {
    static const std::uint32_t chain = layout::type_id_of("suite_chain_node");
    static const std::uint32_t tree = layout::type_id_of("suite_tree_node");
    static const std::uint32_t contents = layout::type_id_of("suite_value");
    if (n == sizeof(value)) return contents;
    if (n == in_chain) return chain;
    if (n == in_tree) return tree;
    throw std::runtime_error("no type describes objects of " + std::to_string(n) + " bytes of this structure");
  }
  static std::uint32_t fixed_type(std::size_t) noexcept { return layout::type_id_of("suite_links"); }

  static void announce() {
    using enum layout::field_kind;
    object::type_map_writer types;
    types.add({"suite_chain_node",
               in_chain,
               8,
               {{{0, 8, 1, pointer, 0, 0, 0}, "next"}, {{8, 1, in_chain - 8, character, 0, 0, 0}, "rest"}}});
    types.add(
        {"suite_tree_node",
         in_tree,
         8,
         {{{0, 1, slots_in_tree, character, 0, 0, 0}, "keys"}, {{slots_in_tree, 8, 17, pointer, 0, 0, 0}, "slots"}}});
    types.add({"suite_value", sizeof(value), 8, {{{0, 1, sizeof(value), character, 0, 0, 0}, "bytes"}}});
    types.add({"suite_links", 8, 8, {{{0, 8, 1, pointer, 0, 0, 0}, "first"}}});
    const auto map = types.finish();
    holdfast_heap::check(nvm_register_types(map.data(), map.size() * 8), "nvm_register_types");
  }
};
static_assert(nodes_of_suite::in_chain == 144 && nodes_of_suite::in_tree == 280);

using described_engine = basic_announced_engine<nodes_of_suite>;

}  // namespace nvm::bench
