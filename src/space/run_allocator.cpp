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

// The parts of [page, page + count): calls pages(chunk, mask) for each end that is a part of a chunk, and
// chunks(group, mask) for whole chunks, a group at a time, lowest first, until one of them returns false.
template <class Pages, class Chunks>
bool each_part(std::uint64_t page, std::uint64_t count, Pages&& pages, Chunks&& chunks) noexcept {
  while (count != 0) {
    const std::uint64_t chunk = page / 64;
    const auto first = static_cast<unsigned>(page % 64);
    std::uint64_t here = std::min<std::uint64_t>(count, 64 - first);
    if (here < 64) {
      if (!pages(chunk, mask_of(first, static_cast<unsigned>(here)))) return false;
    } else {
      const auto of_group = static_cast<unsigned>(std::min<std::uint64_t>(count / 64, 64 - chunk % 64));
      if (!chunks(chunk / 64, mask_of(static_cast<unsigned>(chunk % 64), of_group))) return false;
      here = of_group * std::uint64_t{64};
    }
    page += here;
    count -= here;
  }
  return true;
}

void wait(unsigned spins) noexcept {
  if (spins < 64) {
    isa::spin_hint();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

run_allocator::run_allocator(std::uint64_t capacity_pages, unsigned arenas) noexcept
    : busy_{capacity_pages},
      locks_{capacity_pages},
      heads_{capacity_pages},
      page_marks_{ceil_div(capacity_pages, 64)},
      chunk_marks_{ceil_div(capacity_pages, 64 * 64) * 2},
      claims_{ceil_div(capacity_pages, 64)},
      arenas_{new(std::nothrow) arena_marks[arenas]} {}

bool run_allocator::exists() const noexcept {
  return busy_.exists() && locks_.exists() && heads_.exists() && page_marks_.exists() && chunk_marks_.exists() &&
         claims_.exists() && arenas_ != nullptr;
}

void run_allocator::extend(std::uint64_t to) noexcept {
  const std::uint64_t from = size_pages();
  NVM_ASSERT(to >= from);
  // Bits after the end are set: nothing finds them free.
  if (to % 64 != 0 && (from % 64 == 0 || to / 64 != from / 64)) {
    busy_.set(to / 64, all_bits << to % 64);
  }
  // Those of pages that were there once, and are again.
  for (std::uint64_t chunk = ceil_div(from, 64); chunk * 64 < std::min(had_, to); ++chunk) {
    busy_.clear(chunk, to - chunk * 64 < 64 ? ~(all_bits << to % 64) : all_bits);
  }
  had_ = std::max(had_, to);
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

// Their bits stay set: a thread that read the size before finds nothing free there.
void run_allocator::shrink(std::uint64_t to) noexcept {
  NVM_ASSERT(to % 64 == 0 && to <= size_pages());
  size_.store(to, std::memory_order_release);
  // Runs are searched from the end, which is another.
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
  std::optional<std::uint64_t> page;
  if (count > 64) {
    page = take_long(count);
  } else {
    const auto few = static_cast<unsigned>(count);
    page = search(arena, use, few);
    if (!page) page = exhaustive(use, few);
    if (!page && use == page_use::run) page = take_long(count);
  }
  if (page) heads_.begin(*page);
  return page;
}

void run_allocator::give(std::uint64_t page, std::uint64_t count) noexcept {
  heads_.end(page);  // while the pages belong to no other thread
  each_part(
      page, count,
      [&](std::uint64_t chunk, std::uint64_t mask) {
        const std::uint64_t old = busy_.clear(chunk, mask);
        NVM_ASSERT((old & mask) == mask);
        return true;
      },
      [&](std::uint64_t group, std::uint64_t chunks) {
        // Others claim them for as long as they need to see that they are in use.
        for (unsigned spins = 0; !locks_.try_claim(group, chunks); ++spins) wait(spins);
        busy_.clear_whole(group, chunks);
        locks_.release(group, chunks);
        return true;
      });
  free_.fetch_add(count, std::memory_order_relaxed);
  for (std::uint64_t g = page / (64 * 64); g <= (page + count - 1) / (64 * 64); ++g) became_free(g);
}

// ---- inside a chunk ------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> run_allocator::take_in_chunk(std::uint64_t chunk, page_use use, unsigned count) noexcept {
  for (;;) {
    if (locks_.is_claimed(chunk)) return std::nullopt;
    const std::uint64_t starts = starts_in(~(busy_.word(chunk) | locks_.word(chunk)), use, count);
    if (starts == 0) return std::nullopt;
    const unsigned mark = page_marks_[chunk].load(std::memory_order_relaxed);
    const std::uint64_t ahead = starts & all_bits << mark;
    const auto first = static_cast<unsigned>(std::countr_zero(ahead != 0 ? ahead : starts));
    const std::uint64_t mask = mask_of(first, count);
    if (!locks_.try_lock(chunk, mask)) continue;
    // Somebody may have taken the pages and let go of their locks since we looked.
    const bool still_free = (busy_.word(chunk) & mask) == 0;
    if (still_free) busy_.set(chunk, mask);
    locks_.unlock(chunk, mask);
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

// Searches every chunk, regardless of marks, claims of arenas and hints; again while pages that other threads work on
// might have served.
std::optional<std::uint64_t> run_allocator::exhaustive(page_use use, unsigned count) noexcept {
  for (unsigned round = 0;; ++round) {
    bool at_work = false;
    for (std::uint64_t group = 0; group < groups(); ++group) {
      if (busy_.group_bit(group)) continue;
      const std::uint64_t end = std::min(ceil_div(size_pages(), 64), (group + 1) * 64);
      for (std::uint64_t chunk = group * 64; chunk < end; ++chunk) {
        if (auto page = take_in_chunk(chunk, use, count)) {
          became_free(group);
          return page;
        }
        at_work = at_work || starts_in(~busy_.word(chunk), use, count) != 0;
      }
    }
    if (!at_work) return std::nullopt;
    wait(round);
  }
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

// At first pages that others work on are passed, so that requests of several threads part ways; then no room is missed.
std::optional<std::uint64_t> run_allocator::take_long(std::uint64_t count) noexcept {
  constexpr unsigned apart_max = 16;
  for (unsigned round = 0;; ++round) {
    const bool apart = round < apart_max;
    const auto page = find_long(size_pages(), count, apart);
    if (!page && !apart) return std::nullopt;
    if (!page) {
      round = apart_max - 1;
      continue;
    }
    if (try_take(*page, count) == taking::done) return page;
    wait(round);
  }
}

// Highest run of `count` free pages that ends at or below `end`.  Whole chunks go by the upper layers, a word for 64.
// `apart`: pages that other threads work on count as used.
std::optional<std::uint64_t> run_allocator::find_long(std::uint64_t end, std::uint64_t count,
                                                      bool apart) const noexcept {
  std::uint64_t stretch_end = end;  // the free pages that reach down to the chunk looked at end here
  for (std::uint64_t group = ceil_div(end, 64 * 64); group-- > 0;) {
    if (stretch_end < count) return std::nullopt;
    if (busy_.group_bit(group)) {
      stretch_end = group * 64 * 64;
      continue;
    }
    const std::uint64_t claimed = apart ? locks_.claims(group) : 0;
    const std::uint64_t used = busy_.used_chunks(group) | claimed;
    const std::uint64_t full = busy_.group_word(group) | claimed;
    auto top = static_cast<unsigned>(std::min<std::uint64_t>(64, ceil_div(end, 64) - group * 64));
    while (top != 0) {
      const unsigned free = std::min(static_cast<unsigned>(std::countl_zero(used << (64 - top))), top);
      top -= free;
      if (stretch_end >= (group * 64 + top) * 64 + count) return stretch_end - count;
      if (free != 0) continue;
      const unsigned taken = std::min(static_cast<unsigned>(std::countl_one(full << (64 - top))), top);
      top -= taken;
      if (taken != 0) {
        stretch_end = (group * 64 + top) * 64;
        continue;
      }
      --top;
      const std::uint64_t chunk = group * 64 + top;
      const std::uint64_t word = busy_.word(chunk) | (apart ? locks_.word(chunk) : 0);
      if (const auto page = find_in_word(word, chunk * 64, count, stretch_end)) return page;
    }
  }
  return std::nullopt;
}

// The same in the 64 pages from `first` on, of which those of `word` are taken.
std::optional<std::uint64_t> run_allocator::find_in_word(std::uint64_t word, std::uint64_t first, std::uint64_t count,
                                                         std::uint64_t& stretch_end) noexcept {
  for (unsigned top = 64;;) {
    top -= std::min(static_cast<unsigned>(std::countl_zero(word << (64 - top))), top);
    if (stretch_end >= first + top + count) return stretch_end - count;
    if (top == 0) return std::nullopt;
    top -= std::min(static_cast<unsigned>(std::countl_one(word << (64 - top))), top);
    stretch_end = first + top;
    if (top == 0) return std::nullopt;
  }
}

bool run_allocator::take_at(std::uint64_t page, std::uint64_t count) noexcept {
  if (!range_inside(page, count, size_pages()) || !is_free(page)) return false;
  for (unsigned spins = 0;; ++spins) {
    const taking t = try_take(page, count);
    if (t != taking::met_others) return t == taking::done;
    wait(spins);
  }
}

// Locks all of the pages, looks, sets their bits, lets go.  It waits for no other thread, which goes first.
run_allocator::taking run_allocator::try_take(std::uint64_t page, std::uint64_t count) noexcept {
  std::uint64_t locked = 0;
  bool free = true;
  const bool alone = each_part(
      page, count,
      [&](std::uint64_t chunk, std::uint64_t mask) {
        if (!locks_.try_lock(chunk, mask)) return false;
        free = free && (busy_.word(chunk) & mask) == 0;
        locked += static_cast<unsigned>(std::popcount(mask));
        return free;
      },
      [&](std::uint64_t group, std::uint64_t chunks) {
        if (!locks_.try_claim(group, chunks)) return false;
        for (std::uint64_t left = chunks; left != 0 && free; left &= left - 1) {
          free = busy_.word(group * 64 + static_cast<unsigned>(std::countr_zero(left))) == 0;
        }
        locked += 64 * static_cast<unsigned>(std::popcount(chunks));
        return free;
      });
  const bool takes = alone && free;
  each_part(
      page, locked,
      [&](std::uint64_t chunk, std::uint64_t mask) {
        if (takes) busy_.set(chunk, mask);
        locks_.unlock(chunk, mask);
        return true;
      },
      [&](std::uint64_t group, std::uint64_t chunks) {
        if (takes) busy_.set_whole(group, chunks);
        locks_.release(group, chunks);
        return true;
      });
  if (!takes) return free ? taking::met_others : taking::in_use;
  free_.fetch_sub(count, std::memory_order_relaxed);
  return taking::done;
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
