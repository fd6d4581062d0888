// Places of the parts of a pool of given sizes: plain numbers, no pointers, so that recovery, boot and check stay pure
// functions over (base, size).  Pages, extents and logs are parameters: an image of 64 KiB is as valid as 16 TiB.
#pragma once

#include <cstdint>

#include "pool/pool_layout.hpp"

namespace nvm {

struct geometry {
  unsigned page_shift = layout::page_shift_default;
  std::uint64_t page_map_offset = 0;
  std::uint64_t log_offset = 0;
  std::uint64_t log_bytes = 0;
  std::uint32_t lane_count = 0;
  std::uint64_t lane_bytes = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t size_pages = 0;      // data pages that exist
  std::uint64_t capacity_pages = 0;  // data pages there may be
  std::uint64_t home_bytes = 0;      // of virtual addresses, which the engine maps to places; 0: none

  // Home space begins after the capacity, at a multiple of this.
  static constexpr std::uint64_t home_align = std::uint64_t{1} << 21;

  [[nodiscard]] std::uint64_t page_bytes() const noexcept { return std::uint64_t{1} << page_shift; }
  // End of the existing data: the pool's extent in bytes.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return data_offset + (size_pages << page_shift); }
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return data_offset + (capacity_pages << page_shift); }
  [[nodiscard]] std::uint64_t page_offset(std::uint64_t page) const noexcept {
    return data_offset + (page << page_shift);
  }
  [[nodiscard]] std::uint64_t home_offset() const noexcept { return round_up(capacity_bytes(), home_align); }
  // Bytes of addresses that belong to the pool.
  [[nodiscard]] std::uint64_t address_bytes() const noexcept {
    return home_bytes == 0 ? capacity_bytes() : home_offset() + home_bytes;
  }
  // Where objects can be: in home space, if there is one.
  [[nodiscard]] std::uint64_t objects_offset() const noexcept { return home_bytes == 0 ? data_offset : home_offset(); }
  [[nodiscard]] std::uint64_t objects_end() const noexcept { return home_bytes == 0 ? size_bytes() : address_bytes(); }
  [[nodiscard]] bool in_objects(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset >= objects_offset() && range_inside(offset, bytes, objects_end());
  }
  // Data page that holds `offset`, which must lie in the data area.
  [[nodiscard]] std::uint64_t page_of(std::uint64_t offset) const noexcept {
    return (offset - data_offset) >> page_shift;
  }
  [[nodiscard]] bool in_data(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset >= data_offset && range_inside(offset, bytes, size_bytes());
  }
  // Offset of the page map entry of `page`.
  [[nodiscard]] std::uint64_t entry_offset(std::uint64_t page) const noexcept { return page_map_offset + page * 8; }
  // End of the page map of the first `pages` pages: whole pages.
  [[nodiscard]] std::uint64_t page_map_end(std::uint64_t pages) const noexcept {
    return round_up(entry_offset(pages), page_bytes());
  }
  [[nodiscard]] std::uint64_t superblock_at(unsigned copy) const noexcept {
    return copy * page_bytes() + layout::superblock_sector;
  }
  [[nodiscard]] std::uint64_t anchor_at(unsigned copy) const noexcept {
    return copy * page_bytes() + layout::anchor_sector;
  }
};

struct geometry_request {
  unsigned page_shift = layout::page_shift_default;
  std::uint64_t size_pages = 0;
  std::uint64_t capacity_pages = 0;
  std::uint32_t lane_count = 0;  // 0 with a log ring
  std::uint64_t lane_bytes = 0;  // multiple of the page
  std::uint64_t ring_bytes = 0;  // 0 with lanes; multiple of the page
  std::uint64_t home_bytes = 0;
};

// Lays a pool out; the caller has checked the domain of the request.
constexpr geometry lay_out(const geometry_request& r) noexcept {
  geometry g;
  const std::uint64_t page = std::uint64_t{1} << r.page_shift;
  g.page_shift = r.page_shift;
  g.size_pages = r.size_pages;
  g.capacity_pages = r.capacity_pages;
  g.lane_count = r.lane_count;
  g.lane_bytes = r.lane_bytes;
  g.home_bytes = r.home_bytes;
  g.page_map_offset = 2 * page;
  g.log_offset = round_up(g.page_map_offset + 8 * r.capacity_pages, page);
  g.log_bytes = r.lane_count != 0 ? r.lane_count * r.lane_bytes : r.ring_bytes;
  g.data_offset = round_up(g.log_offset + g.log_bytes, page * layout::extent_align_pages);
  return g;
}

constexpr geometry geometry_of(const layout::superblock& sb) noexcept {
  geometry g;
  g.page_shift = sb.page_shift;
  g.page_map_offset = sb.page_map_offset;
  g.log_offset = sb.log_offset;
  g.log_bytes = sb.log_bytes;
  g.lane_count = sb.lane_count;
  g.lane_bytes = sb.lane_bytes;
  g.data_offset = sb.data_offset;
  g.size_pages = sb.size_pages;
  g.capacity_pages = sb.capacity_pages;
  g.home_bytes = sb.home_bytes;
  return g;
}

}  // namespace nvm
