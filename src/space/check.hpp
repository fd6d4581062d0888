// Full check of a pool's space as it is on media: a pure walk over bytes that may be anything, in time linear in the
// pool.
//
// Looked at: every page map entry and its neighbours; identity, allocation words and length bytes of every extent; the
// header of every typed object; the map of every cluster, and that each is in the list of its store.  Objects may
// neither overlap nor leave their extent or run.
#pragma once

#include <cstdint>
#include <functional>

#include "space/cluster_image.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm {

struct space_summary {
  std::uint64_t pages = 0;
  std::uint64_t free_pages = 0;
  std::uint64_t runs = 0;
  std::uint64_t run_pages = 0;
  std::uint64_t log_runs = 0;
  std::uint64_t log_pages = 0;
  std::uint64_t fine_extents = 0;
  std::uint64_t coarse_extents = 0;
  std::uint64_t structure_extents = 0;  // of structures that keep their own account (structure_pages.hpp)
  std::uint64_t structure_runs = 0;
  std::uint64_t structure_pages = 0;
  std::uint64_t structure_nodes = 0;  // allocated in their extents
  std::uint64_t stores = 0;           // object stores: store pages
  std::uint64_t clusters = 0;         // of all stores, each a run of the page map
  std::uint64_t cluster_pages = 0;    // all pages of clusters: of runs, of extents, and free ones
  std::uint64_t store_runs = 0;
  std::uint64_t store_run_pages = 0;
  std::uint64_t store_extent_pages = 0;
  std::uint64_t store_structure_pages = 0;  // of structures inside of object stores
  std::uint64_t store_free_pages = 0;
  std::uint64_t damaged_pages = 0;  // entry of the page map fails; with all other pages these are all pages
  std::uint64_t objects = 0;
  std::uint64_t aligned = 0;        // objects with more than natural alignment
  std::uint64_t numbered = 0;       // objects with a number of a relocation by transactions
  std::uint64_t object_bytes = 0;   // whole slots and pages
  std::uint64_t payload_bytes = 0;  // of typed objects: what was asked for
  std::uint64_t damages = 0;
};

// What a check may tell while it walks; any of them may be empty.
struct space_check {
  std::function<void(const damage&)> report{};
  // Each object, damaged ones too, in address order: offset and bytes with its header.
  std::function<void(std::uint64_t offset, std::uint64_t bytes)> object{};
  // Each of these objects that has no header, too.
  std::function<void(std::uint64_t offset, std::uint64_t bytes)> untyped{};
  // Each run of a structure, and each node allocated in one of its extents; of the pool or of an object store.
  std::function<void(std::uint16_t owner, std::uint64_t offset, std::uint64_t bytes)> of_structure{};
  // Each cluster of an object store, and how many of its pages are structures'.
  std::function<void(const cluster&, std::uint64_t structure_pages)> of_store{};
  // Every now and then: pages walked.
  std::function<void(std::uint64_t pages)> progress{};
};

// Calls report for each damage, in the order of the pages.  True: there is none.
bool check_space(const std::byte* base, const geometry& g, const space_check& tell, space_summary& summary);
inline bool check_space(const std::byte* base, const geometry& g, const std::function<void(const damage&)>& report,
                        space_summary& summary) {
  return check_space(base, g, space_check{.report = report}, summary);
}

// Calls visit(offset, bytes, layout) for each object of transactions on media, in address order, until it returns
// false, those of object stores too; damaged extents and entries are passed over, and errc::corrupt names the first.
// The second one visits what begins in pages [first, end), and clusters that begin there, for threads that divide the
// pool.
template <class Visit>
[[nodiscard]] status for_each_object(const std::byte* base, const geometry& g, std::uint64_t first, std::uint64_t end,
                                     Visit&& visit);
template <class Visit>
[[nodiscard]] status for_each_object(const std::byte* base, const geometry& g, Visit&& visit) {
  return for_each_object(base, g, 0, g.size_pages, visit);
}
template <class Visit>
[[nodiscard]] status for_each_object(const std::byte* base, const geometry& g, std::uint64_t first, std::uint64_t end,
                                     Visit&& visit) {
  status outcome;
  const auto broken = [&](std::uint64_t page, const damage& d) {
    if (!outcome) return;
    outcome = fail(errc::corrupt, "page %lu: %s, at offset %lu: found %lx, expected %lx", page, d.what, d.offset,
                   d.found, d.expected);
  };
  bool go_on = true;
  const auto objects_at = [&](std::uint64_t page, const layout::page_entry& e) {
    const std::uint64_t at = g.page_offset(page);
    if (e.kind == layout::page_kind::run) {
      go_on = visit(at, std::uint64_t{e.length_pages} << g.page_shift, e.layout);
    } else if (e.kind == layout::page_kind::fine || e.kind == layout::page_kind::coarse) {
      const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
      read_extent(
          base, at, e.kind, s,
          [&](unsigned slot, unsigned slots) {
            go_on = go_on && visit(at + slot * s.slot_bytes, slots * s.slot_bytes, e.layout);
          },
          [&](const damage& d) { broken(page, d); });
    }
    return go_on;
  };
  for (std::uint64_t page = first; page < end && go_on;) {
    const std::uint64_t word = load_word(base, g.entry_offset(page));
    layout::page_entry e;
    if (const char* what = entry_fault(word, page, g, g.size_pages, e)) {
      broken(page, {g.entry_offset(page), what, word, 0});
      ++page;
      continue;
    }
    if (!layout::transactional(e)) {
      page += e.length_pages;
      continue;
    }
    if (e.kind == layout::page_kind::cluster) {
      cluster c;
      if (const damage d = cluster_fault(base, g, page, e.length_pages, c); d.what != nullptr) {
        broken(page, d);
      } else {
        each_inner_entry(
            base, g, c,
            [&](std::uint64_t inner, const layout::page_entry& of, std::uint64_t) {
              return layout::transactional(of) ? objects_at(inner, of) : go_on;
            },
            [&](const damage& d) { broken(page, d); });
      }
    } else {
      objects_at(page, e);
    }
    page += word == 0 ? 1 : e.length_pages;
  }
  return outcome;
}

}  // namespace nvm
