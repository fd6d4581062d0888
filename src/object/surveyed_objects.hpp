// The objects that a store, or a pool, had when somebody looked: which places begin one, which of them are marked, and
// which object a place belongs to.  For collections while the pool is in use (beside_collection.hpp).
//
// A survey copies allocation words.  Objects that come later are not in it.  Nothing of the pool changes here: lengths
// and headers are read where the objects are, and may be those of another object by then.  So find() errs on the side
// of saying yes.  A page that gets another use while a survey looks at it is looked at again, or left out: what it
// has then came later.
//
// Garbage is an allocation word without its mark word, 56 slots at once, in the order of addresses (HEAPO's Fast Scan).
//
// Threads: one.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "object/mark_bits.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "space/face.hpp"

namespace nvm::object {

// Numbers that are 0 at first, in memory that appears where one is changed.
template <class T>
class zeroed_numbers {
 public:
  // May throw std::bad_alloc.
  void assign(std::uint64_t count) {
    memory_.emplace(count * sizeof(T));
    at_ = static_cast<T*>(memory_->data());
    count_ = at_ == nullptr ? 0 : count;
    if (at_ == nullptr) throw std::bad_alloc{};
  }
  [[nodiscard]] T& operator[](std::uint64_t i) noexcept { return at_[i]; }
  [[nodiscard]] const T& operator[](std::uint64_t i) const noexcept { return at_[i]; }
  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }

 private:
  std::optional<platform::zeroed_memory> memory_;
  T* at_ = nullptr;
  std::uint64_t count_ = 0;
};

class surveyed_objects {
 public:
  surveyed_objects(const std::byte* base, const geometry& g) noexcept
      : base_{base},
        g_{g},
        fine_{layout::shape_of(layout::page_kind::fine, g.page_shift)},
        coarse_{layout::shape_of(layout::page_kind::coarse, g.page_shift)} {}

  // The clusters that the store has, whose maps have not been read; `now`: the pool.  May throw std::bad_alloc.
  void begin(std::vector<cluster> clusters, const geometry& now);
  // All pages that the pool has.  Objects of object stores are found, and are never unmarked(): they are theirs to
  // collect.  May throw std::bad_alloc.
  void begin_pool(const geometry& now);
  // Reads the maps and allocation words of some more pages; true: there are no more.  has_still(page, first): the page
  // is still of the cluster that begins there.  errc::corrupt names what is damaged, or was being changed.  May throw
  // std::bad_alloc.
  template <class HasStill>
  [[nodiscard]] result<bool> survey(unsigned pages_max, HasStill&& has_still) {
    for (; reading_ < parts_.size(); ++reading_) {
      part& p = parts_[reading_];
      for (p.read = std::max(p.read, p.what.header_pages); p.read < p.what.pages;) {
        if (pages_max == 0) return false;
        --pages_max;
        if (!has_still(p.what.page + p.read, p.what.page)) {
          ++p.read;
          continue;
        }
        const auto seen = survey_page(p, p.what.page + p.read);
        if (!seen) return seen.error();
        p.read += *seen;
      }
    }
    return true;
  }
  // Of a pool, after the survey: where the words stand that name the roots of its stores.
  [[nodiscard]] const std::vector<std::uint64_t>& store_roots() const noexcept { return store_roots_; }

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
  // No longer an object, or about to be freed by another thread.
  void remove(const found_object& o) noexcept { firsts_[o.mark.word()] &= ~(std::uint64_t{1} << o.mark.bit()); }
  [[nodiscard]] bool removed(const found_object& o) const noexcept {
    return (firsts_[o.mark.word()] >> o.mark.bit() & 1) == 0;
  }

  [[nodiscard]] std::uint64_t objects() const noexcept { return objects_; }
  [[nodiscard]] std::uint64_t words() const noexcept { return firsts_.size(); }
  // The objects of these words that have no mark, at most `most`; `word` becomes where to go on.  Appends to `out`.
  // May throw std::bad_alloc.
  void unmarked(std::uint64_t& word, std::size_t most, std::vector<found_object>& out) const;
  // The object of a bit that is set.
  [[nodiscard]] found_object object_of(mark_place p) const noexcept;

 private:
  enum class kind : std::uint8_t { none = 0, run = 1, fine = 2, coarse = 3 };
  static constexpr std::uint8_t of_store = 0x80;  // beside a kind: in a survey of a pool, in a cluster
  struct part {
    cluster what;
    std::uint64_t pages_before = 0;  // of all parts before
    std::uint64_t read = 0;          // pages whose entries have been
  };
  static constexpr unsigned looks_max = 8;  // at a page that another thread may be changing

  // Whose map has the entry of a page: that of a cluster, or the pool's.
  struct entry_place {
    std::uint64_t at = 0;
    const cluster* in = nullptr;
  };

  void begin_parts(std::uint64_t pages);
  [[nodiscard]] const part* part_of(std::uint64_t page) const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> index_of(std::uint64_t page) const noexcept;
  [[nodiscard]] std::uint64_t page_at(std::uint64_t index) const noexcept;
  // Pages to go on by.
  [[nodiscard]] result<std::uint64_t> survey_page(const part& p, std::uint64_t page);
  [[nodiscard]] entry_place place_of(const part& p, std::uint64_t page) noexcept;
  [[nodiscard]] const char* fault_of(const entry_place& place, std::uint64_t word, std::uint64_t page,
                                     layout::page_entry& out) const noexcept;
  [[nodiscard]] status survey_entry(const part& p, std::uint64_t page, const layout::page_entry& e,
                                    bool in_store) noexcept;
  [[nodiscard]] status enter_cluster(std::uint64_t page, std::uint64_t pages, std::uint64_t word);
  [[nodiscard]] bool cluster_has_changed() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> look_at_cluster_again(std::uint64_t page);
  void forget(std::uint64_t index, std::uint64_t pages) noexcept;
  [[nodiscard]] status survey_extent(std::uint64_t index, std::uint64_t page, const layout::extent_shape& s,
                                     layout::page_kind k) noexcept;
  [[nodiscard]] kind kind_of(std::uint64_t index) const noexcept {
    return static_cast<kind>(kinds_[index] & ~unsigned{of_store});
  }
  [[nodiscard]] const layout::extent_shape& shape(std::uint64_t index) const noexcept {
    return kind_of(index) == kind::coarse ? coarse_ : fine_;
  }
  // Index of the head of what has the page of this index, which something has.
  [[nodiscard]] std::uint64_t head_of(std::uint64_t index) const noexcept { return heads_[index] - 1; }

  const std::byte* base_;
  geometry g_;
  layout::extent_shape fine_, coarse_;
  bool of_pool_ = false;
  std::vector<part> parts_;  // in the order of their pages; of a pool: one
  std::size_t reading_ = 0;  // the part that the survey is at
  // Of a pool: the cluster that the survey is in, and the word of the page map that it was entered by.
  std::optional<cluster> inside_;
  std::uint64_t inside_word_ = 0;
  std::vector<std::uint64_t> store_roots_;
  // By index: pages of all parts, one after the other.
  zeroed_numbers<std::uint8_t> kinds_;   // of pages that are heads, with of_store
  zeroed_numbers<std::uint32_t> heads_;  // index of the head of what has the page, and 1; 0: nothing has
  zeroed_numbers<std::uint32_t> runs_;   // pages of the run that begins here
  // fine_.words of each page.
  zeroed_numbers<std::uint64_t> firsts_;
  zeroed_numbers<std::uint64_t> marks_;
  std::uint64_t objects_ = 0;
};

}  // namespace nvm::object
