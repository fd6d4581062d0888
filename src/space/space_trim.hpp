// The part of `space` that gives pages back to the file system; included by space.hpp.
//
/// Pages that are free and have blocks.  F file operation.  All of them are taken first: nobody else uses them.
///   1. settle_all() their tags, settle_everything(): no log of a lane can be replayed there
///   2. wait until no barrier transaction is left that may have seen what they held: such a reader knows only later
///      that it was too late, and a page that is gone would be a fault
///   3. medium: durable and home.  What freed them survives every crash; no record of its log leads there any more, to
///      fill a hole again, or to be replayed beyond the end of the file
///   4. F hole: their blocks go.  Or S superblock, shorter (pool/E1, E2), home; F the file's end
///   5. what became a hole is remembered, and free again
/// Recovery: nothing to do.  A crash before 4 leaves pages with blocks, one in it a file that is longer than its pool.
//
// Threads.  Any number may allocate meanwhile: pages are taken in parts, at most half of those that are free, so that
// nobody makes the pool grow for want of these.
#pragma once

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "space/space.hpp"

namespace nvm {

template <media M, log::settler S>
void space<M, S>::doubt_free_pages() noexcept {
  const std::uint64_t size = index_.pages.size_pages();
  for (std::uint64_t chunk = 0; chunk < ceil_div(size, 64); ++chunk) {
    // relaxed: before anything is allocated.
    holes_[chunk].store(~index_.pages.bitmap().word(chunk), std::memory_order_relaxed);
  }
  any_holes_.store(true, std::memory_order_relaxed);
  doubtful_ = true;
}

template <media M, log::settler S>
template <class F>
void space<M, S>::each_hole_word(std::uint64_t page, std::uint64_t count, F&& f) noexcept {
  for (const std::uint64_t end = page + count; page < end;) {
    const std::uint64_t first = page % 64;
    const std::uint64_t here = std::min(64 - first, end - page);
    f(holes_[page / 64], (~std::uint64_t{0} >> (64 - here)) << first);
    page += here;
  }
}

template <media M, log::settler S>
status space<M, S>::fill_holes(std::uint64_t page, std::uint64_t count) noexcept {
  bool any = false;
  // relaxed: the thread that made the hole has freed the page since, and this one has taken it.
  each_hole_word(page, count, [&](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
    any = any || (word.load(std::memory_order_relaxed) & mask) != 0;
  });
  if (!any) return {};
  if (status s = blocks_->fill(page, count); !s) return s;
  each_hole_word(page, count, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
    word.fetch_and(~mask, std::memory_order_relaxed);
  });
  return {};
}

// Steps 1 to 3 for pages that were taken.
template <media M, log::settler S>
status space<M, S>::make_certain(std::span<const page_range> taken, const trim_wishes& wishes) noexcept {
  if (!planted(plant::cut_under_record)) {
    for (const page_range& r : taken) settle_pages(r.page, r.count);
    settle_everything();
  }
  if (wishes.readers_left != nullptr && !wishes.readers_left(wishes.context)) {
    return fail(errc::no_memory, "transactions that may read freed memory cannot be waited for");
  }
  if (planted(plant::hole_before_free)) return {};
  return blocks_->bring_home();
}

// ---- holes ---------------------------------------------------------------------------------------------------------

// Free pages of a chunk that have blocks, taken.
template <media M, log::settler S>
void space<M, S>::take_for_holes(std::uint64_t chunk, std::uint64_t most, std::vector<page_range>& taken) noexcept {
  std::uint64_t left = ~index_.pages.bitmap().word(chunk);
  if (!doubtful_) left &= ~holes_[chunk].load(std::memory_order_relaxed);
  while (left != 0 && most != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto all = static_cast<unsigned>(std::countr_one(left >> first));
    const auto count = static_cast<unsigned>(std::min<std::uint64_t>(all, most));
    const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << first;
    left &= ~mask;
    // Pages that somebody else has taken meanwhile are in use.
    if (!index_.pages.take_at(chunk * 64 + first, count)) continue;
    most -= count;
    taken.push_back({chunk * 64 + first, count});
  }
}

template <media M, log::settler S>
status space<M, S>::punch(std::span<const page_range> taken, trim_outcome& out) noexcept {
  for (std::size_t i = 0; i < taken.size();) {
    const std::uint64_t page = taken[i].page;
    std::uint64_t end = page;
    while (i < taken.size() && taken[i].page == end) end += taken[i++].count;
    // Before they are holes: where punching fails in the middle some are.
    any_holes_.store(true, std::memory_order_relaxed);
    // relaxed: the pages become free afterwards.
    each_hole_word(page, end - page, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
      word.fetch_or(mask, std::memory_order_relaxed);
    });
    if (status s = blocks_->punch(page, end - page); !s) {
      doubtful_ = true;
      return s;
    }
    out.pages_punched += end - page;
  }
  return {};
}

template <media M, log::settler S>
status space<M, S>::make_holes(const trim_wishes& wishes, trim_outcome& out) {
  constexpr std::uint64_t pages_at_once = 4096;
  constexpr std::uint64_t pages_least = 64;
  std::vector<page_range> taken;
  taken.reserve(pages_at_once);
  bool allowed = false;
  const std::uint64_t chunks = ceil_div(index_.pages.size_pages(), 64);
  for (std::uint64_t chunk = 0; chunk < chunks;) {
    taken.clear();
    std::uint64_t has = 0;
    const std::uint64_t most = std::clamp(index_.pages.free_pages() / 2, pages_least, pages_at_once);
    for (; chunk < chunks && has + 64 <= most; ++chunk) {
      const std::size_t before = taken.size();
      take_for_holes(chunk, 64, taken);
      for (std::size_t i = before; i < taken.size(); ++i) has += taken[i].count;
    }
    status s;
    if (!taken.empty() && !allowed) s = blocks_->allow_holes();
    allowed = allowed || !taken.empty();
    if (s && !taken.empty()) s = make_certain(taken, wishes);
    if (s) {
      if (status made = punch(taken, out); !made) {
        // What could be done was done.
        std::snprintf(out.why, sizeof out.why, "%s", last_message());
        chunk = chunks;
      }
    }
    for (const page_range& r : taken) index_.pages.give(r.page, r.count);
    if (!s) return s;
    if (!go_on(wishes, out, std::min(chunk * 64, index_.pages.size_pages()))) return {};
  }
  if (out.why[0] == '\0') doubtful_ = false;
  return {};
}

// ---- the end -------------------------------------------------------------------------------------------------------

// Whole chunks that are free at the end, taken; 0 pages: there are none.  Not more than half of all that is free, but
// for the last few: other threads allocate meanwhile.
template <media M, log::settler S>
auto space<M, S>::take_end(std::uint64_t size) noexcept -> page_range {
  constexpr unsigned tries = 8;
  for (unsigned i = 0; i < tries; ++i) {
    const std::uint64_t all = index_.pages.free_pages();
    const std::uint64_t most = all <= 4 * layout::pages_per_chunk ? all : all / 2;
    const std::uint64_t free = std::min({index_.pages.trailing_free(), most, size});
    const std::uint64_t first = std::max(round_up(size - free, layout::pages_per_chunk), layout::pages_per_chunk);
    if (first >= size) break;
    if (index_.pages.take_at(first, size - first)) return {first, size - first};
  }
  return {size, 0};
}

template <media M, log::settler S>
status space<M, S>::cut_end(const trim_wishes& wishes, trim_outcome& out) noexcept {
  constexpr unsigned tries = 4;
  status uncut;
  for (unsigned i = 0; i < tries; ++i) {
    const std::uint64_t size = index_.pages.size_pages();
    const page_range end = take_end(size);
    if (end.count != 0) {
      if (status s = make_certain({&end, 1}, wishes); !s) {
        index_.pages.give(end.page, end.count);
        return s;
      }
    }
    const std::lock_guard guard{growing_};
    if (index_.pages.size_pages() != size) {  // these are not the last ones any more
      if (end.count != 0) index_.pages.give(end.page, end.count);
      continue;
    }
    // Without any, the file may be longer than the pool all the same, by a crash.
    if (status s = blocks_->shrink(end.page, uncut); !s) {
      if (end.count != 0) index_.pages.give(end.page, end.count);
      return s;
    }
    if (end.count != 0) {
      each_hole_word(end.page, end.count, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
        word.fetch_and(~mask, std::memory_order_relaxed);
      });
      index_.pages.shrink(end.page);
    }
    out.pages_cut += end.count;
    if (!uncut) std::snprintf(out.why, sizeof out.why, "%s", last_message());
    return {};
  }
  return {};
}

// ---- all of it -----------------------------------------------------------------------------------------------------

template <media M, log::settler S>
bool space<M, S>::go_on(const trim_wishes& wishes, trim_outcome& out, std::uint64_t done) const noexcept {
  if (wishes.progress == nullptr || wishes.progress(wishes.context, done, index_.pages.size_pages())) return true;
  out.stopped = true;
  return false;
}

template <media M, log::settler S>
status space<M, S>::give_back(const trim_wishes& wishes, trim_outcome& out) noexcept try {
  const std::lock_guard one{trimming_};
  const std::uint64_t used = used_pages();
  if (wishes.indexes) (void)index_.index_everything();
  (void)trim();
  (void)trim_stores();
  // Others allocate and free meanwhile: a guess then.
  const std::uint64_t now = used_pages();
  out.pages_freed = used > now ? used - now : 0;
  if (wishes.inside_only || blocks_ == nullptr || !go_on(wishes, out, 0)) return {};
  for (std::uint64_t before = ~std::uint64_t{0}; before != out.pages_cut;) {
    before = out.pages_cut;
    if (status s = cut_end(wishes, out); !s) return s;
    if (!go_on(wishes, out, 0)) return {};
  }
  return make_holes(wishes, out);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to trim the pool");
}

}  // namespace nvm
