// Clusters of object stores on media, format 1 (docs/format.md).
//
// A cluster is one run of the pool's page map, of kind `cluster`.  Its first pages are its header: what it is, and one
// checked word for each page that it has or may grow to, of the same form as the words of the pool's page map.  Pages
// keep the numbers that the pool gives them.  The header of a store's first cluster is the store page.  Entries of runs
// and coarse extents may name a structure of the store as their owner, as those of the page map do.
//
//   words of the list   `head` leads to the newest cluster, each cluster's `next` to the one made before it; the first
//                       cluster, whose page the store is named by, is in no list
//   words beyond        the map's words for pages that the cluster does not have are zero, up to `room`
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "space/space_layout.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t cluster_identity = 0x554C'4348;  // "HCLU", with header pages << 32 and the flag below
inline constexpr unsigned cluster_header_pages_shift = 32;      // 20 bits
inline constexpr std::uint64_t cluster_header_pages_max = (std::uint64_t{1} << 20) - 1;
inline constexpr std::uint64_t cluster_is_first = std::uint64_t{1} << 52;

// All words are checked words (base/checked_word.hpp), of their own places.
struct cluster_header {
  // line 0: written before the page map names the cluster; then `next` alone changes
  std::uint64_t identity;
  std::uint64_t number;  // of the store (32), not 0
  std::uint64_t room;    // words of the map
  std::uint64_t next;    // offset of a cluster, 0: none
  std::uint64_t reserved0[4];
  // line 1, of a store page; changed while the store is attached
  std::uint64_t head;     // offset of a cluster, 0: none
  std::uint64_t in_work;  // offset of the cluster that is being linked or taken out, or was the last that was; 0: none
  std::uint64_t structures;  // offset of the directory of its own lock-free structures, 0: none; only in pools with
                             // feature_store_structures
  std::uint64_t reserved1[5];
  // lines 2 and 3, of a store page; changed by transactions
  std::uint64_t root;         // offset of a payload, 0: none
  std::uint64_t owner_mode;   // owner (32), mode (16)
  std::uint64_t group;        // (32)
  std::uint64_t quota_pages;  // 0: none
  std::uint64_t created;      // seconds since 1970 (40)
  std::uint64_t reserved2[10];
  std::uint64_t
      key_values;  // payload of the directory of the store's own key-value stores, 0: none; only in pools with
                   // feature_store_kv
};
static_assert(sizeof(cluster_header) == 256 && offsetof(cluster_header, head) == 64 &&
              offsetof(cluster_header, root) == 128 && offsetof(cluster_header, key_values) == 248);
static_assert(std::is_trivially_copyable_v<cluster_header> && std::has_unique_object_representations_v<cluster_header>);

inline constexpr std::uint64_t cluster_map_at = sizeof(cluster_header);
// The map of a store page and of small clusters; a cluster that is to grow further in place has more.
inline constexpr std::uint64_t cluster_room_min = 64;

constexpr std::uint64_t cluster_room_max(std::uint64_t header_pages, unsigned page_shift) noexcept {
  return ((header_pages << page_shift) - cluster_map_at) / 8;
}
// Bytes of a header that mean something.
constexpr std::uint64_t cluster_header_bytes(std::uint64_t room) noexcept { return cluster_map_at + room * 8; }
// Header pages of a cluster that is to have `pages` pages.
constexpr std::uint64_t cluster_header_pages(std::uint64_t pages, unsigned page_shift) noexcept {
  return ceil_div(cluster_header_bytes(pages), std::uint64_t{1} << page_shift);
}
// Pages of a cluster that has room for `data` pages beside its header.
constexpr std::uint64_t cluster_pages_for(std::uint64_t data, unsigned page_shift) noexcept {
  const std::uint64_t header = cluster_header_pages(data + cluster_header_pages(data, page_shift), page_shift);
  return data + cluster_header_pages(data + header, page_shift);
}
// Words of its map: it may double in place, as far as its header pages go.
constexpr std::uint64_t cluster_room_for(std::uint64_t pages, std::uint64_t header_pages,
                                         unsigned page_shift) noexcept {
  const std::uint64_t most = cluster_room_max(header_pages, page_shift);
  const std::uint64_t wanted = pages * 2 > cluster_room_min ? pages * 2 : cluster_room_min;
  return wanted < most ? wanted : most;
}
constexpr page_entry cluster_entry(std::uint64_t pages) noexcept {
  return {static_cast<std::uint32_t>(pages), 0, page_kind::cluster, object_layout::raw, slot_protocol::transactional};
}

}  // namespace nvm::layout
