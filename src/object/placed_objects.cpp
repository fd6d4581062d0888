#include "object/placed_objects.hpp"

#include <algorithm>

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
  if (failed == errc::ok) return {};
  // Once more here, since the sentence of a failure is its thread's.
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
    heads_.begin(page);
    if (!layout::transactional(e) || e.layout != layout::object_layout::typed) continue;
    kind k = kind::run;
    if (e.kind == page_kind::fine || e.kind == page_kind::coarse) {
      if (status s = survey_extent(page, e.kind); !s) return s;
      k = e.kind == page_kind::fine ? kind::fine : kind::coarse;
    } else if (e.kind == page_kind::run) {
      objects_.fetch_add(1, std::memory_order_relaxed);
    } else {
      continue;
    }
    kinds_[page].store(static_cast<std::uint8_t>(k), std::memory_order_relaxed);
  }
  return {};
}

status placed_objects::survey_extent(std::uint64_t page, page_kind k) noexcept {
  damage first;
  std::uint64_t damages = 0;
  std::uint64_t objects = 0;
  read_extent(
      base_, g_.page_offset(page), k, k == page_kind::fine ? fine_ : coarse_, [&](unsigned, unsigned) { ++objects; },
      [&](const damage& d) {
        if (damages++ == 0) first = d;
      });
  objects_.fetch_add(objects, std::memory_order_relaxed);
  if (damages == 0) return {};
  return fail(errc::corrupt, "extent at page %lu: %s, at offset %lu: found %lx, expected %lx", page, first.what,
              first.offset, first.found, first.expected);
}

found_object placed_objects::object_of(mark_place p) const noexcept {
  std::uint64_t page = p.word / fine_.words;
  if (kind_of(page) == kind::none) page = round_down(page, layout::coarse_extent_pages);
  found_object o;
  const kind k = kind_of(page);
  if (k == kind::run) {
    (void)found_run(page, o);
  } else {
    (void)found_slot(page, g_.page_offset(page), k == kind::fine ? fine_ : coarse_,
                     static_cast<unsigned>(p.word - page * fine_.words), p.bit, o);
  }
  return o;
}

}  // namespace nvm::object
