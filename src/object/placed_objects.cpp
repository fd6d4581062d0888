#include "object/placed_objects.hpp"

#include <algorithm>
#include <new>

namespace nvm::object {

using layout::page_kind;

status placed_objects::survey(unsigned threads) noexcept {
  static_assert(layout::shape_of(page_kind::coarse, 12).words <=
                layout::coarse_extent_pages * layout::shape_of(page_kind::fine, 12).words);
  if (!kinds_.exists() || !heads_.exists() || !marks_.exists())
    return fail(errc::no_memory, "no volatile memory for the marks of %lu pages", g_.size_pages);
  const std::uint64_t share = round_up(ceil_div(g_.size_pages, threads), 64);
  std::atomic<errc> failed{errc::ok};
  platform::run_parts(threads, [&](unsigned part) noexcept {
    const std::uint64_t first = std::min(part * share, g_.size_pages);
    const status s = survey_pages(first, std::min(first + share, g_.size_pages));
    if (!s) failed = s.error();
  });
  if (failed == errc::ok) {
    std::ranges::sort(clusters_, {}, &cluster::page);
    return {};
  }
  // Once more in this thread, since the message of a failure is per thread.
  return survey_pages(0, g_.size_pages);
}

status placed_objects::survey_pages(std::uint64_t first, std::uint64_t end) noexcept {
  for (std::uint64_t page = first; page < end; ++page) {
    const std::uint64_t word = load_word(base_, g_.entry_offset(page));
    if (word == 0) continue;
    layout::page_entry e;
    if (const char* what = entry_fault(word, page, g_, g_.size_pages, e)) {
      return fail(errc::corrupt, "page %lu: %s, at offset %lu: found %016lx", page, what, g_.entry_offset(page), word);
    }
    const status done = e.kind == page_kind::cluster ? survey_cluster(page, e.length_pages) : survey_entry(page, e);
    if (!done) return done;
  }
  return {};
}

status placed_objects::survey_entry(std::uint64_t page, const layout::page_entry& e) noexcept {
  heads_.begin(page);
  if (!layout::transactional(e) || e.layout != layout::object_layout::typed) return {};
  kind k = kind::run;
  if (e.kind == page_kind::fine || e.kind == page_kind::coarse) {
    if (status s = survey_extent(page, e.kind); !s) return s;
    k = e.kind == page_kind::fine ? kind::fine : kind::coarse;
  } else if (e.kind == page_kind::run) {
    objects_.fetch_add(1, std::memory_order_relaxed);
  } else {
    return {};
  }
  kinds_[page].store(static_cast<std::uint8_t>(k), std::memory_order_relaxed);
  return {};
}

status placed_objects::survey_cluster(std::uint64_t page, std::uint64_t pages) noexcept try {
  cluster c;
  const auto damaged = [&](const damage& d) {
    return fail(errc::corrupt, "cluster at page %lu: %s, at offset %lu: found %lx", page, d.what, d.offset, d.found);
  };
  if (const damage d = cluster_fault(base_, g_, page, pages, c); d.what != nullptr) return damaged(d);
  heads_.begin(page);
  status outcome;
  each_inner_entry(
      base_, g_, c,
      [&](std::uint64_t inner, const layout::page_entry& e, std::uint64_t) {
        outcome = survey_entry(inner, e);
        return outcome.has_value();
      },
      [&](const damage& d) { outcome = damaged(d); });
  if (!outcome) return outcome;
  const std::lock_guard guard{clusters_lock_};
  clusters_.push_back(c);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the clusters of object stores");
}

std::uint64_t placed_objects::entry_in_cluster(std::uint64_t page) const noexcept {
  const auto behind = std::ranges::upper_bound(clusters_, page, {}, &cluster::page);
  if (behind == clusters_.begin() || !std::prev(behind)->has(page)) return 0;
  return load_word(base_, std::prev(behind)->entry_offset(g_, page));
}

status placed_objects::survey_extent(std::uint64_t page, page_kind k) noexcept {
  const layout::extent_shape& s = k == page_kind::fine ? fine_ : coarse_;
  const std::uint64_t at = g_.page_offset(page);
  const auto damaged = [page](std::uint64_t offset, const char* what, std::uint64_t found) {
    return fail(errc::corrupt, "extent at page %lu: %s, at offset %lu: found %lx", page, what, offset, found);
  };
  if (const std::uint64_t identity = load_word(base_, at); identity != extent_identity_word(at, k))
    return damaged(at, "it is not identified as such", identity);
  std::uint64_t objects = 0;
  for (unsigned w = 0; w < s.words; ++w) {
    const std::uint64_t place = at + layout::first_words_at + w * 8;
    const std::uint64_t word = load_word(base_, place);
    // The slots of the extent's own header, and slots after the extent's end.
    const unsigned first = w * checked_bits;
    const unsigned own = std::min(s.header_slots - std::min(s.header_slots, first), checked_bits);
    const unsigned end = std::min(s.slots - first, checked_bits);
    const std::uint64_t beyond = ~((std::uint64_t{1} << end) - 1) | ((std::uint64_t{1} << own) - 1);
    if (!word_holds(word, word_seed(place))) return damaged(place, "an allocation word fails its check", word);
    if ((word & checked_mask & beyond) != 0)
      return damaged(place, "an object begins outside of the slots of its extent", word);
    objects += static_cast<unsigned>(std::popcount(word & checked_mask));
  }
  objects_.fetch_add(objects, std::memory_order_relaxed);
  return {};
}

found_object placed_objects::object_of(mark_place p) const noexcept {
  std::uint64_t page = p.word() / fine_.words;
  if (kind_of(page) == kind::none) page = round_down(page, layout::coarse_extent_pages);
  const kind k = kind_of(page);
  if (k == kind::run) return run_at(page);
  const layout::extent_shape& s = k == kind::fine ? fine_ : coarse_;
  const std::uint64_t slot = (p.word() - page * fine_.words) * checked_bits + p.bit();
  return {g_.page_offset(page) + (slot << s.slot_shift), p};
}

}  // namespace nvm::object
