// Repair of the metadata of regions: the directory of their sets, its entries, the heads of extents, exchanged pages of
// regions, headers of regions, page map entries of their bytes.  mend_regions() takes out the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "care/repair.hpp"
#include "pool/pool.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::care {

struct set_mending {
  std::byte* base;
  const geometry& g;
  bool closed;  // nothing in the pool's logs counts; that of regions is its own (bring_log_home)
  // Something in the pool was damaged.  Facts that are uncertain after any kill are told only then.
  bool damaged;
  std::function<void(mending how, std::uint64_t offset, const std::string& what)> note;
  // Pages that are free become those of `e`; false: they are not free.
  std::function<bool(std::uint64_t page, const layout::page_entry& e)> enter;
  std::vector<std::string> names;  // of sets that key-value stores lead to
};

// Before the anchors are mended: afterwards a directory of sets that an anchor names holds, if it is one.
void mend_directory_of_sets(const set_mending& m);
// On a pool whose anchors and space are sound.  Brings the log of regions home first.
void mend_sets(const set_mending& m);

// ---- for the sources of this ---------------------------------------------------------------------------------------

struct pages_of_set {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint16_t owner;
  layout::object_layout layout;
  [[nodiscard]] unsigned set() const noexcept { return owner - region::layout::first_owner; }
};
// All runs of regions, in the order of their pages.
[[nodiscard]] std::vector<pages_of_set> pages_of_sets(const std::byte* base, const geometry& g);
// Extents that the page map calls free.  `d` lies at `place`, and its entries are mended.
void enter_lost_extents(const set_mending& m, const region::layout::directory& d, std::uint64_t place);
// Partners whose owner is zero.  Headers are mended.
void name_lost_partners(const set_mending& m, const region::layout::directory& d, std::uint64_t place);
// Extents, and the headers in them.
void mend_headers_of_regions(const set_mending& m, std::uint64_t key);
// Whether the header of a region at `from` is that of the place `at`.
[[nodiscard]] bool is_header_of(const std::byte* from, std::uint64_t at, std::uint64_t key) noexcept;
// Whether any header of a region proves the key.
[[nodiscard]] bool proves_key(const std::byte* base, const geometry& g, std::uint64_t key);

}  // namespace nvm::care
