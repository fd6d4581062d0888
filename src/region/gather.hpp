// The part of a transaction of regions that makes a long run where free pages are there, but scattered: regions in the
// way move elsewhere; included by transaction.hpp.
//
// The stretch is the one of which the fewest pages have to move: free pages and runs of regions that are neither held
// nor leased, side by side.  Its free pages are taken meanwhile, in volatile memory alone, so that nothing moves there.
// Each region moves as one that is written whole, and nothing else changes of it:
/// Moved.  1. S page map entry of the new run, bytes; F them;  | region/E2  whole before a header leads there
///         2. S, F record of the header                        | redo/E2    the commit point
///         3. the old run is given back (limbo.hpp)            | space/E5   when no reader and no record needs it
// A crash leaves each region in the one place or in the other.
//
// Cost: a walk over the pages and over the tables of all sets, the bytes that move, and a few barriers in all threads:
// for a request that would have failed.
//
// Threads.  The requesting thread does it; it holds regions for moments, and leaves those that another thread holds.
#pragma once

#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#include "region/transaction.hpp"

namespace nvm::region {

namespace detail {

// Pages side by side that are free, or a region's.
struct stretch {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t rid = 0;
  unsigned set = 0;
  bool free = true;
};
// Consecutive stretches: [begin, end), and pages from `first` on.
struct window {
  std::size_t begin = 0, end = 0;
  std::uint64_t first = 0;
};

// The window of `count` pages that moves the fewest, of stretches in the order of their pages; empty: there is none.
[[nodiscard]] inline window cheapest_window(std::span<const stretch> all, std::uint64_t count,
                                            std::uint64_t free_pages) noexcept {
  window best;
  std::uint64_t cheapest = ~std::uint64_t{0};
  std::size_t begin = 0;
  std::uint64_t sum = 0;
  std::uint64_t moves = 0;
  for (std::size_t end = 0; end < all.size(); ++end) {
    if (end != 0 && all[end - 1].first + all[end - 1].count != all[end].first) {
      begin = end;
      sum = moves = 0;
    }
    sum += all[end].count;
    moves += all[end].free ? 0 : all[end].count;
    while (sum - all[begin].count >= count) {
      sum -= all[begin].count;
      moves -= all[begin].free ? 0 : all[begin].count;
      ++begin;
    }
    // Regions that move need room elsewhere.
    if (sum < count || moves >= cheapest || free_pages < count) continue;
    cheapest = moves;
    const std::uint64_t spare = all[begin].free ? sum - count : 0;
    best = {begin, end + 1, all[begin].first + spare};
  }
  return best;
}

}  // namespace detail

// Pages of the pool that are free, or of regions that could move; in order.  May throw std::bad_alloc.
template <media M>
std::vector<detail::stretch> transaction<M>::find_stretches() const {
  const region_pages& pages = domain_.pages();
  const unsigned shift = pages.sizes().page_shift;
  std::vector<detail::stretch> movable;
  const auto see = [&](unsigned in_set, entry& e) {
    const std::uint64_t place = e.place.load(std::memory_order_relaxed);
    if (place == 0 || e.inside() || (e.lock.is_leased() && domain_.leased().holds(place))) return;
    movable.push_back(
        {pages.sizes().page_of(place), ceil_div(e.capacity, std::uint64_t{1} << shift), e.rid, in_set, false});
  };
  for (unsigned i = 0; i < layout::sets_max; ++i) {
    const set* const s = domain_.at(i);
    for (unsigned shard = 0; s != nullptr && shard < table::shards; ++shard) {
      s->regions.for_each_of(shard, [&](entry* e) {
        if (movable.size() == movable.capacity())
          movable.reserve(2 * movable.size() + 64);  // throws before the region is held
        if (!e->lock.try_hold_for_a_moment()) return;
        see(i, *e);
        e->lock.let_go();
      });
    }
  }
  std::sort(movable.begin(), movable.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<detail::stretch> all;
  all.reserve(movable.size());
  auto next = movable.begin();
  for (std::uint64_t page = 0; page < pages.size_pages();) {
    while (next != movable.end() && next->first < page) ++next;
    if (next != movable.end() && next->first == page) {
      all.push_back(*next);
      page += next->count;
      continue;
    }
    if (pages.is_free(page)) {
      if (all.empty() || !all.back().free || all.back().first + all.back().count != page) all.push_back({page, 0});
      ++all.back().count;
    }
    ++page;
  }
  return all;
}

// Moves the region to another place as it is.  False: it stays.
template <media M>
bool transaction<M>::move_away(const detail::stretch& from) noexcept try {
  set& s = *domain_.at(from.set);
  transaction moves{domain_, s, thread_};
  moves.expect_member();
  entry* const e = s.regions.find(from.rid);
  if (e == nullptr || !e->lock.try_hold_for_a_moment()) return false;
  const std::uint64_t place = domain_.pages().sizes().page_offset(from.first);
  const bool there = e->length.load(std::memory_order_relaxed) != entry::dropped &&
                     e->place.load(std::memory_order_relaxed) == place && !e->inside();
  if (!there || (e->lock.is_leased() && !forget_leases(*e))) {
    e->lock.let_go();
    return false;
  }
  member m;
  m.of = e;
  m.length = m.kept = e->length.load(std::memory_order_relaxed);
  m.relocates = true;
  moves.admit(m);
  // Without a place for it the commit changes nothing.
  if (!moves.commit() || moves.short_of_room_) return false;
  thread_.moved.add(1);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Whether regions have moved, so that a run of so many pages may be there now.
template <media M>
bool transaction<M>::gather(std::uint64_t count) noexcept try {
  region_pages& pages = domain_.pages();
  const std::lock_guard no_set_goes{domain_.giving()};
  if (thread_.gathers || count < 2 || pages.free_pages() < count) return false;
  const std::vector<detail::stretch> all = find_stretches();
  const detail::window w = detail::cheapest_window(all, count, pages.free_pages());
  if (w.begin == w.end) return false;
  const std::uint64_t end = w.first + count;
  std::vector<detail::stretch> kept;
  kept.reserve(w.end - w.begin);
  bool room = true;
  thread_.gathers = true;  // a region that is to move finds room, or stays
  const auto offset_of = [&](std::uint64_t page) { return pages.sizes().page_offset(page); };
  for (std::size_t i = w.begin; i < w.end; ++i) {
    const std::uint64_t first = std::max(all[i].first, w.first);
    const std::uint64_t last = std::min(all[i].first + all[i].count, end);
    if (!all[i].free || first >= last) continue;
    if (pages.take_free(offset_of(first), last - first)) {
      kept.push_back({first, last - first});
    } else {
      room = false;
    }
  }
  for (std::size_t i = w.begin; i < w.end && room; ++i) room = all[i].free || move_away(all[i]);
  for (const detail::stretch& s : kept) pages.release(offset_of(s.first), s.count);
  thread_.gathers = false;
  return room;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace nvm::region
