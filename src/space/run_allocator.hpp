// Which pages are in use, in DRAM: rebuilt at open from the page map, never persisted.
//
// Requests that fit a chunk lock their pages' bits of the lock map, look, set the bitmap, let go.  Each arena works in
// chunks of its own, found by claiming an unclaimed one, so that such requests of two cores do not meet; a claim is a
// preference, and when nothing unclaimed fits, any chunk will do.  Longer requests find room by the upper layers and
// lock the pages of both ends and the whole chunks between them, up to 64 by one store.  Two that meet see it, step
// back, and look elsewhere.
//
// Where.  Extents come from the lowest group with room, runs from the highest; chunks inside a group and pages inside a
// chunk are taken round robin from a mark (Lewat, section V), so that wear spreads.
//
// Locks (the first step of the list in space.hpp): bits of the lock map, held for nanoseconds, a microsecond for each
// GiB of a long request; no thread waits while it holds some.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "space/layered_bits.hpp"
#include "space/page_heads.hpp"
#include "space/space_layout.hpp"

namespace nvm {

// What pages are wanted for: each has its own current chunk in an arena.
enum class page_use : std::uint8_t { fine = 0, coarse = 1, run = 2 };
inline constexpr unsigned page_uses = 3;

class run_allocator {
 public:
  run_allocator(std::uint64_t capacity_pages, unsigned arenas) noexcept;
  [[nodiscard]] bool exists() const noexcept;

  // Adds pages [size, to), which are free.  One caller at a time.
  void extend(std::uint64_t to) noexcept;
  [[nodiscard]] std::uint64_t size_pages() const noexcept { return size_.load(std::memory_order_acquire); }

  // The pool ends at `to`; the caller has taken the pages after it, whole chunks.  Not beside extend().
  void shrink(std::uint64_t to) noexcept;

  // For boot: pages that the page map says are in use.  False if any was already.  Does not count them: the caller adds
  // them up and calls account() once.
  [[nodiscard]] bool mark_busy(std::uint64_t page, std::uint64_t count) noexcept;
  [[nodiscard]] bool mark_busy_in_chunk(std::uint64_t chunk, std::uint64_t mask) noexcept;
  void mark_heads_in_chunk(std::uint64_t chunk, std::uint64_t mask) noexcept { heads_.begin_in_chunk(chunk, mask); }
  void account(std::uint64_t busy_pages) noexcept { free_.fetch_sub(busy_pages, std::memory_order_relaxed); }

  // `count` consecutive free pages, now in use; coarse extents lie at multiples of their size.
  [[nodiscard]] std::optional<std::uint64_t> take(unsigned arena, page_use use, std::uint64_t count) noexcept;
  // Takes these pages; false: one of them is in use, or lies after the pool's end.
  [[nodiscard]] bool take_at(std::uint64_t page, std::uint64_t count) noexcept;
  void give(std::uint64_t page, std::uint64_t count) noexcept;

  [[nodiscard]] std::uint64_t free_pages() const noexcept { return free_.load(std::memory_order_relaxed); }
  // Free pages at the very end of the pool: growth adds to these.
  [[nodiscard]] std::uint64_t trailing_free() const noexcept;
  [[nodiscard]] bool is_free(std::uint64_t page) const noexcept {
    return (busy_.word(page / 64) >> page % 64 & 1) == 0;
  }

  // The last page at or before `page` where pages in use begin that were taken together, or that one entry of the page
  // map has.
  [[nodiscard]] std::optional<std::uint64_t> head_before(std::uint64_t page) const noexcept {
    return heads_.last(page);
  }

  // Read-only views for tests and tools.
  [[nodiscard]] const layered_bitmap& bitmap() const noexcept { return busy_; }
  [[nodiscard]] const layered_lock_map& lock_map() const noexcept { return locks_; }

 private:
  struct alignas(line_bytes) arena_marks {
    std::array<std::atomic<std::uint64_t>, page_uses> chunk{};  // current chunk + 1; 0: none
  };
  // Requests of 1, 2, 3-4, .. 33-64 pages.
  static constexpr unsigned size_classes = 7;
  struct alignas(line_bytes) group_hint {
    std::atomic<std::uint64_t> skipped{0};  // groups, in the order of search, that hold no room
  };

  [[nodiscard]] std::optional<std::uint64_t> take_in_chunk(std::uint64_t chunk, page_use use, unsigned count) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> search(unsigned arena, page_use use, unsigned count) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> search_group(std::uint64_t group, unsigned arena, page_use use,
                                                          unsigned count, bool claimed_too, bool& any_fits) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> exhaustive(page_use use, unsigned count) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> take_long(std::uint64_t count) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> find_long(std::uint64_t end, std::uint64_t count,
                                                       bool apart) const noexcept;
  [[nodiscard]] static std::optional<std::uint64_t> find_in_word(std::uint64_t word, std::uint64_t first,
                                                                 std::uint64_t count,
                                                                 std::uint64_t& stretch_end) noexcept;
  enum class taking : std::uint8_t { done, in_use, met_others };
  [[nodiscard]] taking try_take(std::uint64_t page, std::uint64_t count) noexcept;
  void became_free(std::uint64_t group) noexcept;
  [[nodiscard]] std::uint64_t groups() const noexcept { return ceil_div(size_pages(), 64 * 64); }

  layered_bitmap busy_;
  layered_lock_map locks_;
  page_heads heads_;
  sparse_array<std::uint8_t> page_marks_;   // of each chunk: where the next request begins
  sparse_array<std::uint8_t> chunk_marks_;  // two of each group, low side and high side
  sparse_array<std::uint16_t> claims_;      // of each chunk: the arena that works in it, 0: none
  std::unique_ptr<arena_marks[]> arenas_;
  std::array<std::array<group_hint, size_classes>, page_uses> hints_{};
  std::atomic<std::uint64_t> size_{0};
  std::uint64_t had_ = 0;  // as many pages as there ever were; of extend() and shrink()
  std::atomic<std::uint64_t> free_{0};
};

}  // namespace nvm
