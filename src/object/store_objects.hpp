// The objects that a store had when somebody looked: which places begin one, which of them are marked, and which object
// a place belongs to.  For collections of one store while its pool is in use (store_collection.hpp).
//
// A survey copies allocation words.  Objects that come later are not in it.  Nothing of the store changes here: lengths
// and headers are read where the objects are, and may be those of another object by then.  So find() errs on the side
// of saying yes.
//
// Garbage is an allocation word without its mark word, 56 slots at once, in the order of addresses (HEAPO's Fast Scan).
//
// Threads: one.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "object/mark_bits.hpp"
#include "pool/pool.hpp"
#include "space/face.hpp"

namespace nvm::object {

class store_objects {
 public:
  store_objects(const std::byte* base, const geometry& g) noexcept
      : base_{base},
        g_{g},
        fine_{layout::shape_of(layout::page_kind::fine, g.page_shift)},
        coarse_{layout::shape_of(layout::page_kind::coarse, g.page_shift)} {}

  // The clusters that the store has, whose maps have not been read.  May throw std::bad_alloc.
  void begin(std::vector<cluster> clusters);
  // Reads the maps and allocation words of some more pages; true: there are no more.  has_still(page): the store has
  // not given it back.  errc::corrupt names what is damaged, or was being changed.
  template <class HasStill>
  [[nodiscard]] result<bool> survey(unsigned pages_max, HasStill&& has_still) noexcept {
    for (; reading_ < parts_.size(); ++reading_) {
      part& p = parts_[reading_];
      for (p.read = std::max(p.read, p.what.header_pages); p.read < p.what.pages; ++p.read) {
        if (pages_max == 0) return false;
        --pages_max;
        if (!has_still(p.what.page + p.read)) continue;
        if (status s = survey_page(p, p.what.page + p.read); !s) return s.error();
      }
    }
    return true;
  }

  // The object whose place holds `offset`, which may be any number.
  [[nodiscard]] bool find(std::uint64_t offset, found_object& out) const noexcept;
  // Bytes from its header on that are its own; 0: what its length says makes no sense now.
  [[nodiscard]] std::uint64_t room_of(const found_object& o) const noexcept;
  // False: it had one.
  bool mark(const found_object& o) noexcept {
    std::uint64_t& word = marks_[o.mark.word()];
    const std::uint64_t bit = std::uint64_t{1} << o.mark.bit();
    const bool is_new = (word & bit) == 0;
    word |= bit;
    return is_new;
  }
  [[nodiscard]] bool marked(const found_object& o) const noexcept {
    return (marks_[o.mark.word()] >> o.mark.bit() & 1) != 0;
  }
  // It is none any more, or about to be freed by somebody else.
  void remove(const found_object& o) noexcept { firsts_[o.mark.word()] &= ~(std::uint64_t{1} << o.mark.bit()); }

  [[nodiscard]] std::uint64_t objects() const noexcept { return objects_; }
  [[nodiscard]] std::uint64_t words() const noexcept { return firsts_.size(); }
  // The objects of these words that have no mark, at most `most`; `word` becomes where to go on.  Appends to `out`.
  // May throw std::bad_alloc.
  void unmarked(std::uint64_t& word, std::size_t most, std::vector<found_object>& out) const;
  // The object of a bit that is set.
  [[nodiscard]] found_object object_of(mark_place p) const noexcept;
  // Calls visit(first page, end) for each cluster.
  template <class Visit>
  void each_range(Visit&& visit) const {
    for (const part& p : parts_) visit(p.what.page, p.what.end());
  }

 private:
  enum class kind : std::uint8_t { none = 0, run = 1, fine = 2, coarse = 3 };
  struct part {
    cluster what;
    std::uint64_t pages_before = 0;  // of all parts before
    std::uint64_t read = 0;          // pages whose entries have been
  };
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

  [[nodiscard]] const part* part_of(std::uint64_t page) const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> index_of(std::uint64_t page) const noexcept;
  [[nodiscard]] std::uint64_t page_at(std::uint64_t index) const noexcept;
  [[nodiscard]] status survey_page(const part& p, std::uint64_t page) noexcept;
  void forget(std::uint64_t index, std::uint64_t pages) noexcept;
  [[nodiscard]] status survey_extent(std::uint64_t index, std::uint64_t page, const layout::extent_shape& s,
                                     layout::page_kind k) noexcept;
  [[nodiscard]] const layout::extent_shape& shape(std::uint64_t index) const noexcept {
    return kinds_[index] == kind::coarse ? coarse_ : fine_;
  }

  const std::byte* base_;
  geometry g_;
  layout::extent_shape fine_, coarse_;
  std::vector<part> parts_;  // in the order of their pages
  std::size_t reading_ = 0;  // the part that the survey is at
  // By index: pages of all parts, one after the other.
  std::vector<kind> kinds_;           // of pages that are heads
  std::vector<std::uint32_t> heads_;  // index of the head of what has the page
  std::vector<std::uint32_t> runs_;   // pages of the run that begins here
  // fine_.words of each page.
  std::vector<std::uint64_t> firsts_;
  std::vector<std::uint64_t> marks_;
  std::uint64_t objects_ = 0;
};

}  // namespace nvm::object
