#include "object/store_objects.hpp"

#include <algorithm>

namespace nvm::object {

using layout::page_kind;

namespace {
// What other threads may be changing, in a page that may get another use meanwhile: whatever it says is looked at with
// suspicion.  acquire: pairs with the release of the thread that entered or changed it: what it leads to is there.
__attribute__((no_sanitize("thread"))) std::uint64_t load_shared(const std::byte* base, std::uint64_t offset) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(base + offset), __ATOMIC_ACQUIRE);
}
__attribute__((no_sanitize("thread"))) std::uint8_t load_length(const std::byte* base, std::uint64_t offset) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint8_t*>(base + offset), __ATOMIC_RELAXED);
}
}  // namespace

void store_objects::begin(std::vector<cluster> clusters) {
  std::ranges::sort(clusters, {}, &cluster::page);
  parts_.clear();
  std::uint64_t pages = 0;
  for (const cluster& c : clusters) {
    parts_.push_back({c, pages, 0});
    pages += c.pages;
  }
  reading_ = 0;
  objects_ = 0;
  kinds_.assign(pages, kind::none);
  heads_.assign(pages, nowhere);
  runs_.assign(pages, 0);
  firsts_.assign(pages * fine_.words, 0);
  marks_.assign(pages * fine_.words, 0);
}

status store_objects::survey_page(const part& p, std::uint64_t page) noexcept {
  const std::uint64_t index = p.pages_before + (page - p.what.page);
  const std::uint64_t at = p.what.entry_offset(g_, page);
  const std::uint64_t word = load_shared(base_, at);
  layout::page_entry e;
  if (word == 0) return {};
  if (const char* what = inner_entry_fault(word, page, p.what, g_, e)) {
    return fail(errc::corrupt, "page %lu of a store: %s, at offset %lu: found %016lx", page, what, at, word);
  }
  if (heads_[index] != nowhere) {
    return fail(errc::corrupt, "page %lu of a store has an entry, and belongs to what begins before it", page);
  }
  // Objects of other layouts are nobody's garbage.
  if (e.layout != layout::object_layout::typed) return {};
  for (std::uint64_t i = index; i < index + e.length_pages; ++i) heads_[i] = static_cast<std::uint32_t>(index);
  if (e.kind == page_kind::run) {
    kinds_[index] = kind::run;
    runs_[index] = e.length_pages;
    firsts_[index * fine_.words] = 1;
    ++objects_;
    return {};
  }
  kinds_[index] = e.kind == page_kind::coarse ? kind::coarse : kind::fine;
  const status s = survey_extent(index, page, shape(index), e.kind);
  // An extent that has gone meanwhile had no objects any more.
  if (load_shared(base_, at) == word) return s;
  forget(index, e.length_pages);
  return {};
}
void store_objects::forget(std::uint64_t index, std::uint64_t pages) noexcept {
  for (std::uint64_t i = index; i < index + pages; ++i) heads_[i] = nowhere;
  kinds_[index] = kind::none;
  for (std::uint64_t w = index * fine_.words; w < (index + pages) * fine_.words; ++w) {
    objects_ -= static_cast<unsigned>(std::popcount(firsts_[w]));
    firsts_[w] = 0;
  }
}

status store_objects::survey_extent(std::uint64_t index, std::uint64_t page, const layout::extent_shape& s,
                                    page_kind k) noexcept {
  const std::uint64_t at = g_.page_offset(page);
  const auto damaged = [page](std::uint64_t offset, const char* what, std::uint64_t found) {
    return fail(errc::corrupt, "extent at page %lu: %s, at offset %lu: found %lx", page, what, offset, found);
  };
  if (const std::uint64_t identity = load_shared(base_, at); identity != extent_identity_word(at, k))
    return damaged(at, "it is not identified as such", identity);
  for (unsigned w = 0; w < s.words; ++w) {
    const std::uint64_t place = at + layout::first_words_at + w * 8;
    const std::uint64_t word = load_shared(base_, place);
    const unsigned first = w * checked_bits;
    const unsigned own = std::min(s.header_slots - std::min(s.header_slots, first), checked_bits);
    const unsigned end = std::min(s.slots - first, checked_bits);
    const std::uint64_t beyond = ~((std::uint64_t{1} << end) - 1) | ((std::uint64_t{1} << own) - 1);
    if (!word_holds(word, word_seed(place))) return damaged(place, "an allocation word fails its check", word);
    if ((word & checked_mask & beyond) != 0)
      return damaged(place, "an object begins outside of the slots of its extent", word);
    firsts_[index * fine_.words + w] = word & checked_mask;
    objects_ += static_cast<unsigned>(std::popcount(word & checked_mask));
  }
  return {};
}

const store_objects::part* store_objects::part_of(std::uint64_t page) const noexcept {
  const auto behind = std::ranges::upper_bound(parts_, page, {}, [](const part& p) { return p.what.page; });
  if (behind == parts_.begin() || !std::prev(behind)->what.has(page)) return nullptr;
  return &*std::prev(behind);
}
std::optional<std::uint64_t> store_objects::index_of(std::uint64_t page) const noexcept {
  const part* const p = part_of(page);
  return p == nullptr ? std::nullopt : std::optional{p->pages_before + (page - p->what.page)};
}
std::uint64_t store_objects::page_at(std::uint64_t index) const noexcept {
  const auto behind = std::ranges::upper_bound(parts_, index, {}, &part::pages_before);
  const part& p = *std::prev(behind);
  return p.what.page + (index - p.pages_before);
}

bool store_objects::find(std::uint64_t offset, found_object& out) const noexcept {
  if (!g_.in_data(offset, 1)) return false;
  const std::uint64_t page = g_.page_of(offset);
  const auto here = index_of(page);
  if (!here || heads_[*here] == nowhere) return false;
  const std::uint64_t head = heads_[*here];
  const std::uint64_t at = g_.page_offset(page - (*here - head));
  if (kinds_[head] == kind::run) {
    if ((firsts_[head * fine_.words] & 1) == 0) return false;
    out = {at, {head * fine_.words, 0}};
    return true;
  }
  const layout::extent_shape& s = shape(head);
  const auto slot = static_cast<unsigned>((offset - at) >> s.slot_shift);
  unsigned w = slot / checked_bits;
  std::uint64_t bits = firsts_[head * fine_.words + w] & ((std::uint64_t{2} << slot % checked_bits) - 1);
  while (bits == 0) {
    if (w-- == 0) return false;
    bits = firsts_[head * fine_.words + w];
  }
  const unsigned bit = 63U - static_cast<unsigned>(std::countl_zero(bits));
  out = {at + (std::uint64_t{w * checked_bits + bit} << s.slot_shift), {head * fine_.words + w, bit}};
  if (offset - out.header < 2 * sizeof(layout::object_header)) return true;
  const std::uint64_t room = room_of(out);
  return room == 0 || offset - out.header < room;
}

std::uint64_t store_objects::room_of(const found_object& o) const noexcept {
  const std::uint64_t head = heads_[o.mark.word() / fine_.words];
  if (kinds_[head] == kind::run) return std::uint64_t{runs_[head]} << g_.page_shift;
  const layout::extent_shape& s = shape(head);
  const unsigned slot = static_cast<unsigned>(o.mark.word() - head * fine_.words) * checked_bits + o.mark.bit();
  const std::uint64_t at = o.header - (std::uint64_t{slot} << s.slot_shift);
  const unsigned slots = layout::slots_of_length(load_length(base_, at + s.lengths_at + slot));
  return slots > s.slots - slot ? 0 : std::uint64_t{slots} << s.slot_shift;
}

found_object store_objects::object_of(mark_place p) const noexcept {
  const std::uint64_t head = heads_[p.word() / fine_.words];
  const std::uint64_t at = g_.page_offset(page_at(head));
  if (kinds_[head] == kind::run) return {at, p};
  const std::uint64_t slot = (p.word() - head * fine_.words) * checked_bits + p.bit();
  return {at + (slot << shape(head).slot_shift), p};
}

void store_objects::unmarked(std::uint64_t& word, std::size_t most, std::vector<found_object>& out) const {
  const std::size_t before = out.size();
  for (; word < firsts_.size(); ++word) {
    const std::uint64_t garbage = firsts_[word] & ~marks_[word];
    if (garbage == 0) continue;
    // A word is taken whole, or later.
    if (out.size() != before && out.size() - before + static_cast<unsigned>(std::popcount(garbage)) > most) return;
    for (std::uint64_t left = garbage; left != 0; left &= left - 1) {
      out.push_back(object_of({word, static_cast<unsigned>(std::countr_zero(left))}));
    }
  }
}

}  // namespace nvm::object
