#include "space/check.hpp"

#include <algorithm>
#include <cstring>

#include "space/aligned_layout.hpp"
#include "space/store_lists.hpp"

namespace nvm {
namespace {

using layout::page_kind;

class walk {
 public:
  walk(const std::byte* base, const geometry& g, const space_check& tell, space_summary& summary) noexcept
      : base_{base}, g_{g}, tell_{tell}, summary_{summary} {}

  void pages() {
    summary_.pages = g_.size_pages;
    std::uint64_t told = 0;
    for (std::uint64_t page = 0; page < g_.size_pages;) {
      page += head(page);
      if (page - told < pages_between || !tell_.progress) continue;
      told = page;
      tell_.progress(std::min(page, g_.size_pages));
    }
    beyond();
    lists_.check(base_, g_, [this](const damage& d) { damaged(d); });
  }

 private:
  static constexpr std::uint64_t pages_between = 256;  // calls of progress

  void damaged(const damage& d) {
    ++summary_.damages;
    if (tell_.report) tell_.report(d);
  }

  // Entries that growth will find where it begins: those that share a page with the last ones in use.
  void beyond() {
    for (std::uint64_t page = g_.size_pages; page < pages_with_entries(g_); ++page) {
      const std::uint64_t at = g_.entry_offset(page);
      if (const std::uint64_t word = load_word(base_, at); word != 0) {
        damaged({at, "page map entry behind the pool's end", word, 0});
      }
    }
  }

  // Returns by how many pages the walk goes on.
  std::uint64_t head(std::uint64_t page) {
    const std::uint64_t at = g_.entry_offset(page);
    const std::uint64_t word = load_word(base_, at);
    layout::page_entry e;
    if (const char* what = entry_fault(word, page, g_, g_.size_pages, e)) {
      damaged({at, what, word, seal_word(word & checked_mask, word_seed(at))});
      ++summary_.damaged_pages;
      return 1;
    }
    if (word == 0) {
      ++summary_.free_pages;
      return 1;
    }
    for (std::uint64_t inner = page + 1; inner < page + e.length_pages; ++inner) {
      const std::uint64_t other = load_word(base_, g_.entry_offset(inner));
      if (other != 0) {
        damaged({g_.entry_offset(inner), "page map entry inside the pages of another", other, 0});
      }
    }
    if (!layout::transactional(e)) {
      summary_.structure_pages += e.length_pages;
      structure(page, e);
      return e.length_pages;
    }
    if (e.kind == page_kind::run) {
      run(page, e);
    } else if (e.kind == page_kind::log) {
      ++summary_.log_runs;
      summary_.log_pages += e.length_pages;
    } else if (e.kind == page_kind::cluster) {
      cluster_of_store(page, e);
    } else {
      ++(e.kind == page_kind::fine ? summary_.fine_extents : summary_.coarse_extents);
      extent(page, e);
    }
    return e.length_pages;
  }

  void cluster_of_store(std::uint64_t page, const layout::page_entry& e) {
    ++summary_.clusters;
    summary_.cluster_pages += e.length_pages;
    cluster c;
    if (const damage d = cluster_fault(base_, g_, page, e.length_pages, c); d.what != nullptr) return damaged(d);
    summary_.stores += c.first ? 1 : 0;
    if (c.first) {
      if (const damage d = store_page_fault(base_, g_, c); d.what != nullptr) damaged(d);
    }
    std::uint64_t used = 0;
    std::uint64_t of_structures = 0;
    each_inner_entry(
        base_, g_, c,
        [&](std::uint64_t inner, const layout::page_entry& of, std::uint64_t) {
          used += of.length_pages;
          if (!layout::transactional(of)) {
            of_structures += of.length_pages;
            structure(inner, of);
          } else if (of.kind == page_kind::run) {
            ++summary_.store_runs;
            summary_.store_run_pages += of.length_pages;
            object(g_.page_offset(inner), of.length_pages, g_.page_bytes(), of.layout);
          } else {
            summary_.store_extent_pages += of.length_pages;
            extent(inner, of);
          }
          return true;
        },
        [&](const damage& d) { damaged(d); });
    for (std::uint64_t i = c.pages; i < c.room; ++i) {
      const std::uint64_t at = c.entry_offset(g_, c.page + i);
      if (const std::uint64_t word = load_word(base_, at); word != 0) {
        damaged({at, "entry of a cluster's map behind the cluster", word, 0});
      }
    }
    summary_.store_free_pages += c.pages - std::min(c.pages, c.header_pages + used);
    lists_.add(c, used == 0);
    summary_.store_structure_pages += of_structures;
    if (tell_.of_store) tell_.of_store(c, of_structures);
  }

  void structure(std::uint64_t page, const layout::page_entry& e) {
    const std::uint64_t at = g_.page_offset(page);
    const auto tell = [&](std::uint64_t offset, std::uint64_t bytes) {
      if (tell_.of_structure) tell_.of_structure(e.store, offset, bytes);
    };
    if (e.kind == page_kind::run) {
      ++summary_.structure_runs;
      tell(at, std::uint64_t{e.length_pages} << g_.page_shift);
      return;
    }
    if (e.kind == page_kind::log) {
      damaged({g_.entry_offset(page), "page map entry of a log names a structure", e.store, 0});
      return;
    }
    ++summary_.structure_extents;
    const layout::extent_shape s = layout::shape_of(e.kind, g_.page_shift);
    read_extent(
        base_, at, e.kind, s,
        [&](unsigned slot, unsigned slots) {
          ++summary_.structure_nodes;
          tell(at + slot * s.slot_bytes, slots * s.slot_bytes);
        },
        [&](const damage& d) { damaged(d); });
    places_for_nodes(at, s);
  }
  // Making a node writes no length byte: the bytes of free places have that length already.
  void places_for_nodes(std::uint64_t extent, const layout::extent_shape& s) {
    const unsigned each = size_of_nodes(base_, extent, s);
    const auto byte_at = [&](unsigned slot) { return static_cast<std::uint8_t>(base_[extent + s.lengths_at + slot]); };
    if (each == 0) {
      return damaged(
          {extent + s.lengths_at + s.header_slots, "length bytes of nodes do not agree", byte_at(s.header_slots), 0});
    }
    for (unsigned slot = s.header_slots; slot + each <= s.slots; slot += each) {
      const std::uint8_t byte = byte_at(slot);
      if (byte == layout::length_byte(each)) continue;
      const first_bit bit = first_bit_of(extent, slot);
      const bool told = (load_word(base_, bit.word_offset) >> bit.bit & 1) != 0 && layout::slots_of_length(byte) == 0;
      if (!told) {
        damaged({extent + s.lengths_at + slot, "length byte of a place for a node is not that of the others", byte,
                 layout::length_byte(each)});
      }
    }
  }

  void run(std::uint64_t page, const layout::page_entry& e) {
    ++summary_.runs;
    summary_.run_pages += e.length_pages;
    object(g_.page_offset(page), e.length_pages, g_.page_bytes(), e.layout);
  }

  void extent(std::uint64_t page, const layout::page_entry& e) {
    const layout::extent_shape s = layout::shape_of(e.kind, g_.page_shift);
    const std::uint64_t at = g_.page_offset(page);
    read_extent(
        base_, at, e.kind, s,
        [&](unsigned slot, unsigned slots) { object(at + slot * s.slot_bytes, slots, s.slot_bytes, e.layout); },
        [&](const damage& d) { damaged(d); });
  }

  void object(std::uint64_t offset, std::uint64_t units, std::uint64_t unit, layout::object_layout l) {
    ++summary_.objects;
    if (tell_.object) tell_.object(offset, units * unit);
    summary_.object_bytes += units * unit;
    if (l != layout::object_layout::typed) {
      if (tell_.untyped) tell_.untyped(offset, units * unit);
      return;
    }
    layout::object_header h;
    std::memcpy(&h, base_ + offset, sizeof h);
    if (!layout::object_header_holds(h, offset)) {
      const std::uint64_t size = layout::object_size(h);
      damaged({offset, "object header fails its check", h.size_generation_check >> 56,
               layout::object_check(size, h.type, offset)});
      return;
    }
    const std::uint64_t needs = ceil_div(layout::object_size(h) + sizeof h, unit);
    if (needs != units) {
      damaged({offset, "size of an object does not fit its room", needs, units});
      return;
    }
    const auto a = layout::alignment_of(h, offset);
    if (!a) {
      damaged({offset, "object header names an alignment that the object does not have",
               (h.size_generation_check & layout::alignment_mask) >> layout::alignment_shift, 0});
      return;
    }
    bool numbered = a->natural() && layout::number_in(h.size_generation_check) != 0U;
    if (!a->natural()) {
      ++summary_.aligned;
      const std::uint64_t post = offset + a->signpost();
      layout::signpost found;
      std::memcpy(&found, base_ + post, sizeof found);
      numbered = found.number != 0;
      if (!layout::signpost_holds(found, post, *a)) {
        damaged({post, "signpost before an aligned object does not lead to its header", found.word,
                 layout::signpost_at(post, *a).word});
        return;
      }
    }
    summary_.numbered += numbered ? 1 : 0;
    summary_.payload_bytes += layout::object_size(h) - a->padding();
  }

  const std::byte* base_;
  const geometry& g_;
  const space_check& tell_;
  space_summary& summary_;
  store_lists lists_;
};

}  // namespace

bool check_space(const std::byte* base, const geometry& g, const space_check& tell, space_summary& summary) {
  summary = {};
  walk{base, g, tell, summary}.pages();
  return summary.damages == 0;
}

}  // namespace nvm
