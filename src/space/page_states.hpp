// What is known in DRAM about single pages: which descriptor an extent has, what becomes of a run, who changed a page
// map entry last.  Tables of 8 bytes a page up to the pool's capacity, backed by memory where they are touched.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "space/extent.hpp"
#include "space/sparse_array.hpp"

namespace nvm {

// One word: what the page is the head of.  0: nothing, or not looked at since the pool was opened.
class page_state {
 public:
  enum class type : std::uint8_t { none = 0, run = 1, quarantined = 2, fine = 3, coarse = 4, cluster = 5 };

  constexpr page_state() noexcept = default;
  constexpr explicit page_state(std::uint64_t code) noexcept : code_{code} {}
  static page_state of(extent& e) noexcept {
    const type t = e.kind == layout::page_kind::coarse ? type::coarse : type::fine;
    return page_state{reinterpret_cast<std::uintptr_t>(&e) | std::uint64_t(t)};
  }
  // `store`: place of the attached store that has the run (open_store.hpp), 0: the pool has it.
  static constexpr page_state run(std::uint64_t pages, layout::object_layout l, bool reserved,
                                  unsigned store = 0) noexcept {
    return page_state{std::uint64_t{store} << store_shift | pages << 8 | std::uint64_t(l) << 5 |
                      (reserved ? reserved_bit : 0) | std::uint64_t(type::run)};
  }
  // The first page of a cluster of an attached store.
  static constexpr page_state cluster_of(unsigned store) noexcept {
    return page_state{std::uint64_t{store} << store_shift | std::uint64_t(type::cluster)};
  }
  // Pages whose metadata is damaged: never allocated from, never found in.
  static constexpr page_state quarantine(std::uint64_t pages) noexcept {
    return page_state{pages << 8 | std::uint64_t(type::quarantined)};
  }

  [[nodiscard]] constexpr std::uint64_t code() const noexcept { return code_; }
  [[nodiscard]] constexpr type what() const noexcept { return static_cast<type>(code_ & 7); }
  [[nodiscard]] constexpr bool is_extent() const noexcept { return what() == type::fine || what() == type::coarse; }
  [[nodiscard]] extent& descriptor() const noexcept {
    return *reinterpret_cast<extent*>(static_cast<std::uintptr_t>(code_ & ~std::uint64_t{line_bytes - 1}));
  }
  [[nodiscard]] constexpr std::uint64_t pages() const noexcept { return code_ >> 8 & 0xFFFF'FFFF; }
  // Of a run, or of the first page of a cluster.
  [[nodiscard]] constexpr unsigned store() const noexcept { return static_cast<unsigned>(code_ >> store_shift); }
  [[nodiscard]] constexpr layout::object_layout layout() const noexcept {
    return static_cast<layout::object_layout>(code_ >> 5 & 3);
  }
  // State of a run: an open transaction is allocating it; an open transaction is freeing it.
  [[nodiscard]] constexpr bool reserved() const noexcept { return (code_ & reserved_bit) != 0; }
  [[nodiscard]] constexpr bool freeing() const noexcept { return (code_ & freeing_bit) != 0; }

  static constexpr std::uint64_t reserved_bit = 8;
  static constexpr std::uint64_t freeing_bit = 16;
  static constexpr unsigned store_shift = 40;

 private:
  std::uint64_t code_ = 0;
};

class page_states {
 public:
  explicit page_states(std::uint64_t capacity_pages) noexcept : states_{capacity_pages}, tags_{capacity_pages} {}
  [[nodiscard]] bool exists() const noexcept { return states_.exists() && tags_.exists(); }

  // acquire: pairs with set(): the descriptor is complete.
  [[nodiscard]] page_state get(std::uint64_t page) const noexcept {
    return page_state{states_[page].load(std::memory_order_acquire)};
  }
  // A page's state leaves 0 only under lock_of(page).  So a thread that holds the lock, finds 0 and then an entry in
  // the page map, may set the state that follows from the entry.
  void set(std::uint64_t page, page_state s) noexcept { states_[page].store(s.code(), std::memory_order_release); }
  [[nodiscard]] bool change(std::uint64_t page, page_state& from, std::uint64_t to_code) noexcept {
    std::uint64_t code = from.code();
    if (states_[page].compare_exchange_strong(code, to_code, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
    from = page_state{code};
    return false;
  }
  void clear(std::uint64_t page, std::uint64_t bits) noexcept {
    states_[page].fetch_and(~bits, std::memory_order_acq_rel);
  }
  [[nodiscard]] spin_lock& lock_of(std::uint64_t page) noexcept { return locks_[page / 8 % locks_.size()]; }

  // The transaction that changed the page map entry last.  relaxed: a tag is read by the thread that was given the
  // page, after the bitmap's order.
  [[nodiscard]] log::tag tag(std::uint64_t page) const noexcept {
    return {tags_[page].load(std::memory_order_relaxed)};
  }
  void set_tag(std::uint64_t page, log::tag t) noexcept { tags_[page].store(t.code, std::memory_order_relaxed); }

 private:
  sparse_array<std::uint64_t> states_;
  sparse_array<std::uint64_t> tags_;
  std::array<spin_lock, 64> locks_;
};

}  // namespace nvm
