// Reader: what a pool's bytes say about its lock-free structures, found without their code: by walking from the
// anchors over directory, roots, arrays, links and nodes as docs/format.md describes them.
//
// What is wrong with them is a sentence: metadata that is not whole, links that lead nowhere, keys out of order, pages
// and nodes that are allocated and that nothing leads to, or the other way round.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockfree_process.hpp"

namespace nvm::tests {

struct lockfree_item {
  std::uint64_t key;
  std::uint64_t value;  // value_code()
  friend bool operator==(const lockfree_item&, const lockfree_item&) = default;
};
struct lockfree_contents {
  struct one {
    std::string name;
    shape_of_structure shape;
    std::vector<lockfree_item> items;
    std::size_t deleted = 0;  // nodes that are linked and deleted
  };
  std::vector<one> structures;
  std::size_t active_areas = 0;
  std::string fault;  // empty: none

  [[nodiscard]] std::uint64_t digest() const;
};
[[nodiscard]] std::uint64_t value_code(const std::byte* from, std::size_t bytes) noexcept;
[[nodiscard]] std::uint64_t structure_code(std::string_view name, shape_of_structure shape) noexcept;
[[nodiscard]] std::uint64_t item_code(std::string_view name, const lockfree_item& i) noexcept;

// `leaks`: nodes and pages without a link are a fault, as they are after recovery.
[[nodiscard]] lockfree_contents lockfree_in(const std::byte* base, std::size_t available, bool leaks);

}  // namespace nvm::tests
