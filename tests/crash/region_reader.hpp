// Reader: what a recovered pool's bytes say about its regions, found without their volatile tables: from the anchors
// over the directory to the headers of the extents of each set, as docs/format.md describes them.
//
// What is wrong with them is a sentence: metadata that is not whole, pages that are nobody's or two regions', a region
// that is there twice.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "region_process.hpp"

namespace nvm::tests {

struct region_contents {
  struct item {
    std::uint64_t rid;
    region_bytes bytes;
  };
  struct one {
    std::string name;
    std::vector<item> items;
  };
  std::vector<one> sets;
  std::string fault;  // empty: none

  [[nodiscard]] std::uint64_t digest() const;
};
[[nodiscard]] std::uint64_t set_code(std::string_view name) noexcept;
[[nodiscard]] std::uint64_t region_code(std::string_view name, std::uint64_t rid, const region_bytes& bytes) noexcept;

// Every page that regions own leads somewhere, and nowhere twice.
// `alone`: the pool has nothing else.
[[nodiscard]] region_contents regions_in(const std::byte* base, std::size_t available, bool alone = true);
// Records that a process that opened the pool now would replay; ~0: its log cannot be read.
[[nodiscard]] std::uint64_t records_waiting_in(const std::byte* base, std::size_t available);

}  // namespace nvm::tests
