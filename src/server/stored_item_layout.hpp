// What the value of an item's entry begins with, in the hash table of a pool.
#pragma once

#include <cstdint>
#include <type_traits>

namespace nvm::layout {

struct stored_item {
  std::uint32_t flags;     // the client's
  std::uint32_t reserved;  // zero
  std::uint64_t cas;       // greater in items stored later, and never used twice
};  // the item's bytes follow
static_assert(sizeof(stored_item) == 16);
static_assert(std::is_trivially_copyable_v<stored_item> && std::is_standard_layout_v<stored_item>);
static_assert(std::has_unique_object_representations_v<stored_item>);  // no hidden padding

}  // namespace nvm::layout
