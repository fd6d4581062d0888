// Clusters of object stores as they are on media: reading ones that may be damaged.  Pure functions over bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "space/clusters_layout.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm {

// A cluster whose header was found to be one.
struct cluster {
  std::uint64_t page = 0;
  std::uint64_t pages = 0;
  std::uint64_t header_pages = 0;
  std::uint64_t room = 0;
  std::uint64_t next = 0;    // offset; 0: none
  std::uint32_t number = 0;  // of its store
  bool first = false;        // its header is a store page

  [[nodiscard]] std::uint64_t end() const noexcept { return page + pages; }
  [[nodiscard]] bool has(std::uint64_t p) const noexcept { return p - page < pages; }
  // Offset of the word of page `p`.
  [[nodiscard]] std::uint64_t entry_offset(const geometry& g, std::uint64_t p) const noexcept {
    return g.page_offset(page) + layout::cluster_map_at + (p - page) * 8;
  }
};

// The word of the header at `page` that lies `at` bytes inside.
[[nodiscard]] inline std::uint64_t cluster_word_at(const geometry& g, std::uint64_t page, std::size_t at) noexcept {
  return g.page_offset(page) + at;
}

// What is wrong with the header of the cluster at `page`, which has `pages` pages by the page map; no text: nothing.
// Its pages lie in the pool.
// `read` reads its words; a thread that looks beside transactions has a reader of its own.
using word_reader = std::uint64_t (*)(const std::byte* base, std::uint64_t offset) noexcept;
[[nodiscard]] damage cluster_fault(const std::byte* base, const geometry& g, std::uint64_t page, std::uint64_t pages,
                                   cluster& out, word_reader read = load_word) noexcept;
// What is wrong with the words of a store page; no text: nothing.
[[nodiscard]] damage store_page_fault(const std::byte* base, const geometry& g, const cluster& c) noexcept;

// What is wrong with the word of page `p` in the map of `c`; nullptr: nothing.  As entry_fault().
[[nodiscard]] inline const char* inner_entry_fault(std::uint64_t word, std::uint64_t p, const cluster& c,
                                                   const geometry& g, layout::page_entry& out) noexcept {
  if (!word_holds(word, word_seed(c.entry_offset(g, p)))) return "entry of a cluster's map fails its check";
  out = layout::unpack(word & checked_mask);
  if (word == 0) return nullptr;
  using layout::page_kind;
  const bool is_owned = !layout::transactional(out);
  if (is_owned != (out.store != 0) || out.protocol == layout::slot_protocol::region) {
    return "entry of a cluster's map has a wrong owner";
  }
  if (out.layout > layout::object_layout::region) return "entry of a cluster's map has an unknown object layout";
  std::uint64_t expected = out.length_pages;
  switch (out.kind) {
    case page_kind::run:
      break;
    case page_kind::fine:
      expected = layout::fine_extent_pages;
      if (is_owned) return "entry of a cluster's map has a wrong owner";
      break;
    case page_kind::coarse:
      expected = layout::coarse_extent_pages;
      if (p % layout::extent_align_pages != 0)
        return "entry of a coarse extent in a cluster stands at no multiple of 8";
      break;
    default:
      return "entry of a cluster's map has a kind that no cluster holds";
  }
  if (p - c.page < c.header_pages) return "entry of a cluster's map stands for its header";
  if (out.length_pages == 0 || out.length_pages != expected) return "entry of a cluster's map has a wrong length";
  if (!range_inside(p, out.length_pages, c.end())) return "entry of a cluster's map reaches behind the cluster";
  return nullptr;
}

// Calls visit(page, entry, word) for each run and extent of `c`, in order, until it says false, and broken(damage) for
// each fault: a faulty entry, or one that lies inside another.
template <class Visit, class Broken>
void each_inner_entry(const std::byte* base, const geometry& g, const cluster& c, Visit&& visit, Broken&& broken) {
  std::uint64_t taken_to = c.page + c.header_pages;
  for (std::uint64_t p = c.page; p < c.end(); ++p) {
    const std::uint64_t at = c.entry_offset(g, p);
    const std::uint64_t word = load_word(base, at);
    if (word == 0) continue;
    layout::page_entry e;
    if (const char* what = inner_entry_fault(word, p, c, g, e)) {
      broken(damage{at, what, word, seal_word(word & checked_mask, word_seed(at))});
      continue;
    }
    if (p < taken_to) {
      broken(damage{at, "entry of a cluster's map inside the pages of another", word, 0});
      continue;
    }
    taken_to = p + e.length_pages;
    if (!visit(p, e, word)) return;
  }
}

// The cluster that begins at `page`; errc::corrupt: the page map or the header says that there is none.
// about_to_read(offset, bytes) is called before anything of a cluster is read.
using cluster_reading = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;
[[nodiscard]] result<cluster> cluster_at(const std::byte* base, const geometry& g, std::uint64_t page,
                                         const cluster_reading* about_to_read = nullptr) noexcept;
// All clusters of the store whose page lies at `offset`: the first, then those of its list, newest first.
// errc::corrupt: a list that leaves the pool, leads back, or comes to another store's; errc::no_memory.
[[nodiscard]] result<std::vector<cluster>> clusters_of(const std::byte* base, const geometry& g, std::uint64_t offset,
                                                       const cluster_reading* about_to_read = nullptr) noexcept;

// First page of the cluster that has `page`, by the page map alone, where `page` is no head; no_cluster: it is in none.
// Cost: the entries from there back to the head of the run or extent.
inline constexpr std::uint64_t no_cluster = ~std::uint64_t{0};
[[nodiscard]] inline std::uint64_t cluster_head(const std::byte* base, const geometry& g, std::uint64_t page) noexcept {
  for (std::uint64_t head = page + 1; head-- != 0;) {
    const std::uint64_t word = load_word(base, g.entry_offset(head));
    if (word == 0) continue;
    layout::page_entry e;
    if (entry_fault(word, head, g, g.size_pages, e) != nullptr) return no_cluster;
    return e.kind == layout::page_kind::cluster && head + e.length_pages > page ? head : no_cluster;
  }
  return no_cluster;
}

// Stores the header of a new cluster, its map empty; not flushed.  Returns the bytes that mean something.
std::uint64_t write_cluster_header(std::byte* base, const geometry& g, const cluster& c) noexcept;

}  // namespace nvm
