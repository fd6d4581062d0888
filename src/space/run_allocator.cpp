#include "space/run_allocator.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <thread>

namespace nvm {
namespace {

constexpr std::uint64_t all_bits = ~std::uint64_t{0};

constexpr std::uint64_t mask_of(unsigned first, unsigned count) noexcept {
  return (count == 64 ? all_bits : (std::uint64_t{1} << count) - 1) << first;
}

// Bit i is set if bits [i, i + count) of `free` are; coarse extents start at multiples of their size only.
std::uint64_t starts_in(std::uint64_t free, page_use use, unsigned count) noexcept {
  for (unsigned have = 1; have < count;) {
    const unsigned step = std::min(have, count - have);
    free &= free >> step;
    have += step;
  }
  constexpr std::uint64_t aligned = 0x0101'0101'0101'0101;
  static_assert(layout::coarse_extent_pages == 8);
  return use == page_use::coarse ? free & aligned : free;
}

unsigned size_class(unsigned count) noexcept { return static_cast<unsigned>(std::bit_width(count - 1)); }

// Calls f(chunk, mask) for the part of [page, page + count) in each chunk, lowest first, until it returns false.
template <class F>
bool each_chunk(std::uint64_t page, std::uint64_t count, F&& f) noexcept {
  while (count != 0) {
    const auto first = static_cast<unsigned>(page % 64);
    const auto here = static_cast<unsigned>(std::min<std::uint64_t>(count, 64 - first));
    if (!f(page / 64, mask_of(first, here))) return false;
    page += here;
    count -= here;
  }
  return true;
}

}  // namespace

run_allocator::run_allocator(std::uint64_t capacity_pages, unsigned arenas) noexcept
    : busy_{capacity_pages},
      locks_{capacity_pages},
      page_marks_{ceil_div(capacity_pages, 64)},
      chunk_marks_{ceil_div(capacity_pages, 64 * 64) * 2},
      claims_{ceil_div(capacity_pages, 64)},
      arenas_{new(std::nothrow) arena_marks[arenas]} {}

bool run_allocator::exists() const noexcept {
  return busy_.exists() && locks_.exists() && page_marks_.exists() && chunk_marks_.exists() && claims_.exists() &&
         arenas_ != nullptr;
}

void run_allocator::extend(std::uint64_t to) noexcept {
  const std::uint64_t from = size_pages();
  NVM_ASSERT(to >= from);
  // Bits after the end are set: nothing finds them free.
  if (to % 64 != 0 && (from % 64 == 0 || to / 64 != from / 64)) {
    busy_.set(to / 64, all_bits << to % 64);
  }
  if (from % 64 != 0) {
    const auto first = static_cast<unsigned>(from % 64);
    busy_.clear(from / 64, mask_of(first, static_cast<unsigned>(std::min<std::uint64_t>(64 - first, to - from))));
  }
  free_.fetch_add(to - from, std::memory_order_relaxed);
  // release: pairs with size_pages(): the bits of the new pages are as they should be.
  size_.store(to, std::memory_order_release);
  for (auto& use : hints_) {
    for (group_hint& h : use) h.skipped.store(0, std::memory_order_relaxed);
  }
}

bool run_allocator::mark_busy_in_chunk(std::uint64_t chunk, std::uint64_t mask) noexcept {
  return (busy_.set(chunk, mask) & mask) == 0;
}

bool run_allocator::mark_busy(std::uint64_t page, std::uint64_t count) noexcept {
  return each_chunk(page, count,
                    [&](std::uint64_t chunk, std::uint64_t mask) { return mark_busy_in_chunk(chunk, mask); });
}

std::optional<std::uint64_t> run_allocator::take(unsigned arena, page_use use, std::uint64_t count) noexcept {
  NVM_ASSERT(count != 0);
  // At most one of many requests is served wrongly by this early answer: a page that is being given back right now.
  if (count > free_pages()) return std::nullopt;
  if (count > 64) return take_crossing(count);
  const auto few = static_cast<unsigned>(count);
  auto page = search(arena, use, few);
  if (!page) page = exhaustive(use, few);
  if (!page && use == page_use::run) page = take_crossing(count);
  return page;
}

void run_allocator::give(std::uint64_t page, std::uint64_t count) noexcept {
  each_chunk(page, count, [&](std::uint64_t chunk, std::uint64_t mask) {
    const std::uint64_t old = busy_.clear(chunk, mask);
    NVM_ASSERT((old & mask) == mask);
    return true;
  });
  free_.fetch_add(count, std::memory_order_relaxed);
  for (std::uint64_t g = page / (64 * 64); g <= (page + count - 1) / (64 * 64); ++g) became_free(g);
}

// ---- inside a chunk ------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> run_allocator::take_in_chunk(std::uint64_t chunk, page_use use, unsigned count) noexcept {
  for (;;) {
    const std::uint64_t starts = starts_in(~(busy_.word(chunk) | locks_.word(chunk)), use, count);
    if (starts == 0) return std::nullopt;
    const unsigned mark = page_marks_[chunk].load(std::memory_order_relaxed);
    const std::uint64_t ahead = starts & all_bits << mark;
    const auto first = static_cast<unsigned>(std::countr_zero(ahead != 0 ? ahead : starts));
    const std::uint64_t mask = mask_of(first, count);
    if (!locks_.try_set(chunk, mask)) continue;
    // Somebody may have taken the pages and let go of their locks since we looked.
    const bool still_free = (busy_.word(chunk) & mask) == 0;
    if (still_free) busy_.set(chunk, mask);
    locks_.clear(chunk, mask);
    if (!still_free) continue;
    // relaxed: a mark that two threads move at once spreads wear a little less, no more.
    page_marks_[chunk].store(static_cast<std::uint8_t>((first + count) % 64), std::memory_order_relaxed);
    free_.fetch_sub(count, std::memory_order_relaxed);
    return chunk * 64 + first;
  }
}

std::optional<std::uint64_t> run_allocator::search(unsigned arena, page_use use, unsigned count) noexcept {
  auto& current = arenas_[arena].chunk[static_cast<unsigned>(use)];
  if (const std::uint64_t chunk = current.load(std::memory_order_relaxed); chunk != 0) {
    if (auto page = take_in_chunk(chunk - 1, use, count)) return page;
    claims_[chunk - 1].store(0, std::memory_order_relaxed);
    current.store(0, std::memory_order_relaxed);
  }
  auto& hint = hints_[static_cast<unsigned>(use)][size_class(count)].skipped;
  for (const bool claimed_too : {false, true}) {
    const std::uint64_t all = groups();
    std::uint64_t known = hint.load(std::memory_order_relaxed);
    std::uint64_t useless = std::min(known, all);
    std::optional<std::uint64_t> page;
    bool unbroken = true;
    for (std::uint64_t i = useless; i < all && !page; ++i) {
      const std::uint64_t group = use == page_use::run ? all - 1 - i : i;
      bool any_fits = false;
      if (!busy_.group_bit(group)) page = search_group(group, arena, use, count, claimed_too, any_fits);
      unbroken = unbroken && !any_fits;
      if (unbroken) useless = i + 1;
    }
    // Fails if a page became free meanwhile; if that went unseen, exhaustive() finds it.
    if (useless > known) hint.compare_exchange_strong(known, useless, std::memory_order_relaxed);
    if (page) return page;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> run_allocator::search_group(std::uint64_t group, unsigned arena, page_use use,
                                                         unsigned count, bool claimed_too, bool& any_fits) noexcept {
  const bool from_high = use == page_use::run;
  const auto mark = chunk_marks_[group * 2 + (from_high ? 1 : 0)];
  const unsigned begin = mark.load(std::memory_order_relaxed);
  const std::uint64_t chunks = ceil_div(size_pages(), 64);
  const std::uint64_t full = busy_.group_word(group);
  const auto me = static_cast<std::uint16_t>(arena * page_uses + static_cast<unsigned>(use) + 1);
  for (unsigned k = 0; k < 64; ++k) {
    const unsigned step = (begin + k) % 64;
    const unsigned place = from_high ? 63 - step : step;
    const std::uint64_t chunk = group * 64 + place;
    if (chunk >= chunks || (full >> place & 1) != 0) continue;
    std::uint16_t claim = claims_[chunk].load(std::memory_order_relaxed);
    if (claim != 0 && claim != me && !claimed_too) {
      any_fits = any_fits || starts_in(~busy_.word(chunk), use, count) != 0;
      continue;
    }
    const auto page = take_in_chunk(chunk, use, count);
    if (!page) {
      // Pages that are only locked may yet be free.
      any_fits = any_fits || starts_in(~busy_.word(chunk), use, count) != 0;
      continue;
    }
    any_fits = true;
    if (claim == 0 && claims_[chunk].compare_exchange_strong(claim, me, std::memory_order_relaxed)) {
      arenas_[arena].chunk[static_cast<unsigned>(use)].store(chunk + 1, std::memory_order_relaxed);
      mark.store(static_cast<std::uint8_t>((step + 1) % 64), std::memory_order_relaxed);
    }
    return page;
  }
  return std::nullopt;
}

// Searches every chunk, regardless of marks, claims and hints; no other thread holds locks across chunks meanwhile.
std::optional<std::uint64_t> run_allocator::exhaustive(page_use use, unsigned count) noexcept {
  const std::lock_guard guard{crossing_};
  for (std::uint64_t group = 0; group < groups(); ++group) {
    if (busy_.group_bit(group)) continue;
    const std::uint64_t end = std::min(ceil_div(size_pages(), 64), (group + 1) * 64);
    for (std::uint64_t chunk = group * 64; chunk < end; ++chunk) {
      if (auto page = take_in_chunk(chunk, use, count)) {
        became_free(group);
        return page;
      }
    }
  }
  return std::nullopt;
}

// Hints that skip this group are taken back to it.
void run_allocator::became_free(std::uint64_t group) noexcept {
  const std::uint64_t all = groups();
  for (unsigned use = 0; use < page_uses; ++use) {
    const std::uint64_t at = use == static_cast<unsigned>(page_use::run) ? all - 1 - std::min(group, all - 1) : group;
    for (group_hint& h : hints_[use]) {
      std::uint64_t skipped = h.skipped.load(std::memory_order_relaxed);
      while (skipped > at && !h.skipped.compare_exchange_weak(skipped, at, std::memory_order_relaxed)) {
      }
    }
  }
}

// ---- across chunks -------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> run_allocator::take_crossing(std::uint64_t count) noexcept {
  const std::lock_guard guard{crossing_};
  for (;;) {
    const auto page = find_crossing(size_pages(), count);
    if (!page || take_exactly(*page, count)) return page;
  }
}

// Highest run of `count` free pages that ends at or below `end`.
std::optional<std::uint64_t> run_allocator::find_crossing(std::uint64_t end, std::uint64_t count) const noexcept {
  std::uint64_t stretch_end = end;  // the free pages that reach down to the word looked at end here
  for (std::uint64_t chunk = ceil_div(end, 64); chunk-- > 0;) {
    if (stretch_end < count) return std::nullopt;
    if (chunk % 64 == 63 && busy_.group_bit(chunk / 64)) {
      chunk -= 63;
      stretch_end = chunk * 64;
      continue;
    }
    const std::uint64_t word = busy_.word(chunk);
    unsigned top = 64;
    while (top != 0) {
      const std::uint64_t below = word << (64 - top);
      const unsigned free = std::min(static_cast<unsigned>(std::countl_zero(below)), top);
      top -= free;
      if (stretch_end >= chunk * 64 + top + count) return stretch_end - count;
      if (top == 0) break;
      top -= std::min(static_cast<unsigned>(std::countl_one(word << (64 - top))), top);
      stretch_end = chunk * 64 + top;
    }
  }
  return std::nullopt;
}

bool run_allocator::take_at(std::uint64_t page, std::uint64_t count) noexcept {
  if (!range_inside(page, count, size_pages()) || !is_free(page)) return false;
  const std::lock_guard guard{crossing_};
  return take_exactly(page, count);
}

bool run_allocator::take_exactly(std::uint64_t page, std::uint64_t count) noexcept {
  bool free = true;
  each_chunk(page, count, [&](std::uint64_t chunk, std::uint64_t mask) {
    // A thread that holds one of these bits is inside take_in_chunk() and waits for nothing.
    for (unsigned spins = 0; !locks_.try_set(chunk, mask); ++spins) {
      if (spins >= 64) std::this_thread::yield();
    }
    free = free && (busy_.word(chunk) & mask) == 0;
    return true;
  });
  each_chunk(page, count, [&](std::uint64_t chunk, std::uint64_t mask) {
    if (free) busy_.set(chunk, mask);
    locks_.clear(chunk, mask);
    return true;
  });
  if (free) free_.fetch_sub(count, std::memory_order_relaxed);
  return free;
}

std::uint64_t run_allocator::trailing_free() const noexcept {
  const std::uint64_t end = size_pages();
  for (std::uint64_t chunk = ceil_div(end, 64); chunk-- > 0;) {
    // Bits after the end are set but not in the way.
    std::uint64_t word = busy_.word(chunk);
    if (chunk == end / 64) word &= ~(all_bits << end % 64);
    if (word != 0) return end - (chunk * 64 + 64 - static_cast<unsigned>(std::countl_zero(word)));
  }
  return end;
}

}  // namespace nvm
