// The typed objects of a pool whose objects lie where the page map says, as a collector sees them: which object a place
// belongs to, its mark, and all objects without a mark.
//
// survey() reads the page map and the allocation words of every extent once and believes none of it unchecked; find()
// and the passes afterwards rely on what it saw, so nothing may be allocated or freed meanwhile.  What it keeps is a
// byte a page and the heads of runs.  Length bytes are checked one by one, where they are needed: room_of().
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "object/mark_bits.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::object {

class placed_objects {
 public:
  // `base` is mapped as far as `g` says the pool has grown.
  placed_objects(const std::byte* base, const geometry& g) noexcept
      : base_{base},
        g_{g},
        fine_{layout::shape_of(layout::page_kind::fine, g.page_shift)},
        coarse_{layout::shape_of(layout::page_kind::coarse, g.page_shift)},
        kinds_{g.size_pages},
        heads_{g.size_pages},
        marks_{round_up(g.size_pages, layout::coarse_extent_pages) * fine_.words} {}

  // errc::corrupt: metadata that fails its check, named; errc::no_memory.
  [[nodiscard]] status survey(unsigned threads) noexcept;

  // The typed object whose room holds the byte at `offset`, which may be any number.  Where the length of the object
  // before it fails its check, that object.
  [[nodiscard]] bool find(std::uint64_t offset, found_object& out) const noexcept {
    if (!g_.in_data(offset, 1)) return false;
    const std::uint64_t page = g_.page_of(offset);
    switch (kind_of(page)) {
      case kind::fine:
        return find_slot(page, fine_, offset, out);
      case kind::coarse:
        return find_slot(page, coarse_, offset, out);
      case kind::run:
        out = run_at(page);
        return true;
      case kind::none:
        break;
    }
    const std::uint64_t head = round_down(page, layout::coarse_extent_pages);
    if (kind_of(head) == kind::coarse) return find_slot(head, coarse_, offset, out);
    const auto run = heads_.last(page);
    if (!run || kind_of(*run) != kind::run) return false;
    out = run_at(*run);
    return offset - out.header < room_of(out);
  }
  // Bytes from an object's header on that are its own; 0: its length byte fails its check.
  [[nodiscard]] std::uint64_t room_of(const found_object& o) const noexcept {
    std::uint64_t page = g_.page_of(o.header);
    kind k = kind_of(page);
    if (k == kind::run) {
      const std::uint64_t entry = load_word(base_, g_.entry_offset(page));
      return ((entry != 0 ? entry : entry_in_cluster(page)) & 0xFFFF'FFFF) << g_.page_shift;
    }
    if (k == kind::none) {
      page = round_down(page, layout::coarse_extent_pages);
      k = kind::coarse;
    }
    const layout::extent_shape& s = k == kind::fine ? fine_ : coarse_;
    const std::uint64_t at = g_.page_offset(page);
    return room_in(at, s, static_cast<unsigned>((o.header - at) >> s.slot_shift));
  }
  // What room_of() and payload_of() will read.
  void prefetch(const found_object& o) const noexcept { __builtin_prefetch(base_ + o.header); }

  [[nodiscard]] mark_bits& marks() noexcept { return marks_; }
  // The object of a mark that was set.
  [[nodiscard]] found_object object_of(mark_place p) const noexcept;

  // Calls visit(found_object) for each object of pages [first, end) without a mark, in the order of addresses: an
  // allocation word and its mark word at a time.
  template <class Visit>
  void each_unmarked(std::uint64_t first, std::uint64_t end, Visit&& visit) const {
    each_of(first, end, [this](std::uint64_t index) { return ~marks_.word(index); }, visit);
  }
  // The same of all objects.
  template <class Visit>
  void each(std::uint64_t first, std::uint64_t end, Visit&& visit) const {
    each_of(first, end, [](std::uint64_t) { return ~std::uint64_t{0}; }, visit);
  }
  [[nodiscard]] std::uint64_t units() const noexcept { return g_.size_pages; }  // which `first` and `end` count

  // ---- object stores ----

  // Calls visit(offset of a payload) for the root of each store that has one.
  template <class Visit>
  void each_root_of_stores(Visit&& visit) const {
    for (const cluster& c : clusters_) {
      const std::uint64_t root =
          load_word(base_, cluster_word_at(g_, c.page, offsetof(layout::cluster_header, root))) & checked_mask;
      if (c.first && root != 0) visit(root);
    }
  }
  // Calls visit(found_object) for each object of a store without a mark.
  template <class Visit>
  void each_unmarked_of_stores(Visit&& visit) const {
    for (const cluster& c : clusters_) each_unmarked(c.page, c.end(), visit);
  }
  // Marks all objects in stores.
  void keep_objects_of_stores() noexcept {
    for (const cluster& c : clusters_)
      each_unmarked(c.page, c.end(), [this](const found_object& o) { marks_.set(o.mark); });
  }

  [[nodiscard]] std::uint64_t objects() const noexcept { return objects_.load(std::memory_order_relaxed); }

 private:
  enum class kind : std::uint8_t { none = 0, run = 1, fine = 2, coarse = 3 };

  [[nodiscard]] kind kind_of(std::uint64_t page) const noexcept {
    return static_cast<kind>(kinds_[page].load(std::memory_order_relaxed));
  }
  [[nodiscard]] found_object run_at(std::uint64_t page) const noexcept {
    return {g_.page_offset(page), {page * fine_.words, 0}};
  }
  // The last object that begins at or before the slot.  Allocation words before the slot's own are looked at only for
  // objects that are longer than 56 slots, or that begin in another word.
  [[nodiscard]] bool find_slot(std::uint64_t page, const layout::extent_shape& s, std::uint64_t offset,
                               found_object& out) const noexcept {
    const std::uint64_t at = g_.page_offset(page);
    const auto slot = static_cast<unsigned>((offset - at) >> s.slot_shift);
    unsigned w = slot / checked_bits;
    std::uint64_t bits = first_word(at, w) & ((std::uint64_t{2} << slot % checked_bits) - 1);
    while (bits == 0) {
      if (w-- == 0) return false;
      bits = first_word(at, w);
    }
    const unsigned bit = 63U - static_cast<unsigned>(std::countl_zero(bits));
    const unsigned first = w * checked_bits + bit;
    out = {at + (std::uint64_t{first} << s.slot_shift), {page * fine_.words + w, bit}};
    // The first 32 bytes of a typed object are its own, header and one byte at least: its length need not be looked at.
    if (offset - out.header < 2 * sizeof(layout::object_header)) return true;
    const std::uint64_t room = room_in(at, s, first);
    return room == 0 || offset - out.header < room;
  }
  [[nodiscard]] std::uint64_t room_in(std::uint64_t at, const layout::extent_shape& s, unsigned first) const noexcept {
    const unsigned slots = layout::slots_of_length(static_cast<std::uint8_t>(base_[at + s.lengths_at + first]));
    return slots > s.slots - first ? 0 : std::uint64_t{slots} << s.slot_shift;
  }
  [[nodiscard]] std::uint64_t first_word(std::uint64_t extent, unsigned w) const noexcept {
    return load_word(base_, extent + layout::first_words_at + w * 8) & checked_mask;
  }

  template <class Wanted, class Visit>
  void each_of(std::uint64_t first, std::uint64_t end, Wanted&& wanted, Visit& visit) const {
    for (std::uint64_t page = first; page < end; ++page) {
      const kind k = kind_of(page);
      if (k == kind::none) continue;
      const std::uint64_t marks = page * fine_.words;
      if (k == kind::run) {
        if ((wanted(marks) & 1) != 0) visit(run_at(page));
        continue;
      }
      const layout::extent_shape& s = k == kind::fine ? fine_ : coarse_;
      const std::uint64_t at = g_.page_offset(page);
      for (unsigned w = 0; w < s.words; ++w) {
        for (std::uint64_t left = first_word(at, w) & wanted(marks + w); left != 0; left &= left - 1) {
          const auto bit = static_cast<unsigned>(std::countr_zero(left));
          visit(found_object{at + (std::uint64_t{w * checked_bits + bit} << s.slot_shift), {marks + w, bit}});
        }
      }
    }
  }

  // A part of survey().
  [[nodiscard]] status survey_pages(std::uint64_t first, std::uint64_t end) noexcept;
  [[nodiscard]] status survey_extent(std::uint64_t page, layout::page_kind k) noexcept;
  [[nodiscard]] status survey_entry(std::uint64_t page, const layout::page_entry& e) noexcept;
  [[nodiscard]] status survey_cluster(std::uint64_t page, std::uint64_t pages) noexcept;
  // The entry of a run in the map of a cluster; 0: there is none.
  [[nodiscard]] std::uint64_t entry_in_cluster(std::uint64_t page) const noexcept;

  const std::byte* base_;
  geometry g_;
  layout::extent_shape fine_, coarse_;
  sparse_array<std::uint8_t> kinds_;  // of pages that are heads of typed objects or of their extents
  page_heads heads_;
  mark_bits marks_;
  std::atomic<std::uint64_t> objects_{0};
  std::mutex clusters_lock_;       // while parts are surveyed
  std::vector<cluster> clusters_;  // of object stores, in the order of their pages once all parts are
};

}  // namespace nvm::object
