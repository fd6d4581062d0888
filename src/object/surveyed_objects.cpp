#include "object/surveyed_objects.hpp"

#include <algorithm>

namespace nvm::object {

using layout::page_kind;

// The thread sanitizer takes such loads for races, atomic ones too.
#define NVM_UNWATCHED
#if defined(__clang__)
#if __has_feature(thread_sanitizer)
#undef NVM_UNWATCHED
#define NVM_UNWATCHED __attribute__((disable_sanitizer_instrumentation, noinline))
#endif
#endif

namespace {
// What other threads may be changing, in a page that may get another use meanwhile: whatever it says is looked at with
// suspicion.  acquire: pairs with the release of the thread that entered or changed it: what it leads to is there.
NVM_UNWATCHED std::uint64_t load_shared(const std::byte* base, std::uint64_t offset) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(base + offset), __ATOMIC_ACQUIRE);
}
NVM_UNWATCHED std::uint8_t load_length(const std::byte* base, std::uint64_t offset) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint8_t*>(base + offset), __ATOMIC_RELAXED);
}
}  // namespace

void surveyed_objects::begin_parts(std::uint64_t pages) {
  reading_ = 0;
  objects_ = 0;
  inside_.reset();
  store_roots_.clear();
  kinds_.assign(pages);
  heads_.assign(pages);
  runs_.assign(pages);
  firsts_.assign(pages * fine_.words);
  marks_.assign(pages * fine_.words);
}
void surveyed_objects::begin(std::vector<cluster> clusters, const geometry& now) {
  g_.size_pages = now.size_pages;
  std::ranges::sort(clusters, {}, &cluster::page);
  of_pool_ = false;
  parts_.clear();
  std::uint64_t pages = 0;
  for (const cluster& c : clusters) {
    parts_.push_back({c, pages, 0});
    pages += c.pages;
  }
  begin_parts(pages);
}
void surveyed_objects::begin_pool(const geometry& now) {
  g_.size_pages = now.size_pages;
  of_pool_ = true;
  parts_.assign(1, part{{.page = 0, .pages = g_.size_pages}, 0, 0});
  begin_parts(g_.size_pages);
}

// ---- the survey -----------------------------------------------------------------------------------------------------

surveyed_objects::entry_place surveyed_objects::place_of(const part& p, std::uint64_t page) noexcept {
  if (!of_pool_) return {p.what.entry_offset(g_, page), &p.what};
  if (inside_ && page >= inside_->end()) inside_.reset();
  if (!inside_) return {g_.entry_offset(page), nullptr};
  return {inside_->entry_offset(g_, page), &*inside_};
}
const char* surveyed_objects::fault_of(const entry_place& place, std::uint64_t word, std::uint64_t page,
                                       layout::page_entry& out) const noexcept {
  if (place.in != nullptr) return inner_entry_fault(word, page, *place.in, g_, out);
  // The pool may have grown since.
  return entry_fault(word, page, g_, g_.capacity_pages, out);
}
bool surveyed_objects::cluster_has_changed() const noexcept {
  return load_shared(base_, g_.entry_offset(inside_->page)) != inside_word_;
}
// It has grown or shrunk in its place, and the page is to be looked at again; or pages to go on by: it is gone, and
// what they have came later.
std::optional<std::uint64_t> surveyed_objects::look_at_cluster_again(std::uint64_t page) {
  const cluster old = *inside_;
  const std::uint64_t word = load_shared(base_, g_.entry_offset(old.page));
  layout::page_entry e{};
  const bool is_there = word != 0 && entry_fault(word, old.page, g_, g_.size_pages, e) == nullptr &&
                        e.kind == page_kind::cluster && enter_cluster(old.page, e.length_pages, word);
  if (is_there && page < inside_->end()) return std::nullopt;
  inside_.reset();
  return old.end() - page;
}

status surveyed_objects::enter_cluster(std::uint64_t page, std::uint64_t pages, std::uint64_t word) {
  cluster c;
  if (const damage d = cluster_fault(base_, g_, page, pages, c, load_shared); d.what != nullptr) {
    return fail(errc::corrupt, "page %lu: %s, at offset %lu: found %lx", page, d.what, d.offset, d.found);
  }
  if (c.first) store_roots_.push_back(cluster_word_at(g_, page, offsetof(layout::cluster_header, root)));
  inside_ = c;
  inside_word_ = word;
  return {};
}

result<std::uint64_t> surveyed_objects::survey_page(const part& p, std::uint64_t page) {
  for (unsigned looks = 1;; ++looks) {
    const entry_place place = place_of(p, page);
    const std::uint64_t word = load_shared(base_, place.at);
    if (word == 0) return std::uint64_t{1};
    layout::page_entry e{};
    status s;
    std::uint64_t on = 1;
    if (const char* what = fault_of(place, word, page, e)) {
      s = fail(errc::corrupt, "page %lu%s: %s, at offset %lu: found %016lx", page,
               place.in != nullptr ? " of a store" : "", what, place.at, word);
    } else if (place.in == nullptr && !range_inside(page, e.length_pages, g_.size_pages)) {
      return g_.size_pages - page;
    } else if (place.in == nullptr && e.kind == page_kind::cluster) {
      s = enter_cluster(page, e.length_pages, word);
      if (s) on = inside_->header_pages;
    } else {
      on = e.length_pages;
      if (page + on > p.what.page + p.what.pages)
        return fail(errc::corrupt, "page %lu: its entry reaches behind its cluster", page);
      s = survey_entry(p, page, e, of_pool_ && place.in != nullptr);
    }
    if (place.in != nullptr && of_pool_ && cluster_has_changed()) {
      const auto rest = look_at_cluster_again(page);
      if (rest) return *rest;
      s = fail(errc::corrupt, "page %lu: the cluster that it is in changes all the time", page);
    }
    if (s && load_shared(base_, place.at) == word) return on;
    // It was being changed.  An extent that has gone meanwhile had no objects any more.
    if (e.kind != page_kind::cluster && on != 0) forget(p.pages_before + (page - p.what.page), on);
    if (looks < looks_max) continue;
    if (!s) return s.error();
    return on;
  }
}

status surveyed_objects::survey_entry(const part& p, std::uint64_t page, const layout::page_entry& e,
                                      bool in_store) noexcept {
  // Objects of other layouts and protocols are nobody's garbage.
  if (!layout::transactional(e) || e.layout != layout::object_layout::typed) return {};
  if (e.kind != page_kind::run && e.kind != page_kind::fine && e.kind != page_kind::coarse) return {};
  const std::uint64_t index = p.pages_before + (page - p.what.page);
  for (std::uint64_t i = index; i < index + e.length_pages; ++i) heads_[i] = static_cast<std::uint32_t>(index + 1);
  const std::uint8_t flag = in_store ? of_store : std::uint8_t{0};
  const auto is = [&](kind k) { kinds_[index] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(k) | flag); };
  if (e.kind == page_kind::run) {
    is(kind::run);
    runs_[index] = e.length_pages;
    firsts_[index * fine_.words] = 1;
    ++objects_;
    return {};
  }
  is(e.kind == page_kind::coarse ? kind::coarse : kind::fine);
  return survey_extent(index, page, shape(index), e.kind);
}
void surveyed_objects::forget(std::uint64_t index, std::uint64_t pages) noexcept {
  for (std::uint64_t i = index; i < index + pages; ++i) heads_[i] = 0;
  kinds_[index] = 0;
  runs_[index] = 0;
  for (std::uint64_t w = index * fine_.words; w < (index + pages) * fine_.words; ++w) {
    if (firsts_[w] == 0) continue;
    objects_ -= static_cast<unsigned>(std::popcount(firsts_[w]));
    firsts_[w] = 0;
  }
}

status surveyed_objects::survey_extent(std::uint64_t index, std::uint64_t page, const layout::extent_shape& s,
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

const surveyed_objects::part* surveyed_objects::part_of(std::uint64_t page) const noexcept {
  const auto behind = std::ranges::upper_bound(parts_, page, {}, [](const part& p) { return p.what.page; });
  if (behind == parts_.begin() || !std::prev(behind)->what.has(page)) return nullptr;
  return &*std::prev(behind);
}
std::optional<std::uint64_t> surveyed_objects::index_of(std::uint64_t page) const noexcept {
  const part* const p = part_of(page);
  return p == nullptr ? std::nullopt : std::optional{p->pages_before + (page - p->what.page)};
}
std::uint64_t surveyed_objects::page_at(std::uint64_t index) const noexcept {
  const auto behind = std::ranges::upper_bound(parts_, index, {}, &part::pages_before);
  const part& p = *std::prev(behind);
  return p.what.page + (index - p.pages_before);
}

bool surveyed_objects::find(std::uint64_t offset, found_object& out) const noexcept {
  if (!g_.in_data(offset, 1)) return false;
  const std::uint64_t page = g_.page_of(offset);
  const auto here = index_of(page);
  if (!here || heads_[*here] == 0) return false;
  const std::uint64_t head = head_of(*here);
  const std::uint64_t at = g_.page_offset(page - (*here - head));
  if (kind_of(head) == kind::run) {
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

std::uint64_t surveyed_objects::room_of(const found_object& o) const noexcept {
  const std::uint64_t head = head_of(o.mark.word() / fine_.words);
  if (kind_of(head) == kind::run) return std::uint64_t{runs_[head]} << g_.page_shift;
  const layout::extent_shape& s = shape(head);
  const unsigned slot = static_cast<unsigned>(o.mark.word() - head * fine_.words) * checked_bits + o.mark.bit();
  const std::uint64_t at = o.header - (std::uint64_t{slot} << s.slot_shift);
  const unsigned slots = layout::slots_of_length(load_length(base_, at + s.lengths_at + slot));
  return slots > s.slots - slot ? 0 : std::uint64_t{slots} << s.slot_shift;
}

found_object surveyed_objects::object_of(mark_place p) const noexcept {
  const std::uint64_t head = head_of(p.word() / fine_.words);
  const std::uint64_t at = g_.page_offset(page_at(head));
  if (kind_of(head) == kind::run) return {at, p};
  const std::uint64_t slot = (p.word() - head * fine_.words) * checked_bits + p.bit();
  return {at + (slot << shape(head).slot_shift), p};
}

void surveyed_objects::unmarked(std::uint64_t& word, std::size_t most, std::vector<found_object>& out) const {
  const std::size_t before = out.size();
  for (; word < firsts_.size(); ++word) {
    const std::uint64_t garbage = firsts_[word] & ~marks_[word];
    if (garbage == 0) continue;
    if ((kinds_[head_of(word / fine_.words)] & of_store) != 0) continue;
    // A word is taken whole, or later.
    if (out.size() != before && out.size() - before + static_cast<unsigned>(std::popcount(garbage)) > most) return;
    for (std::uint64_t left = garbage; left != 0; left &= left - 1) {
      out.push_back(object_of({word, static_cast<unsigned>(std::countr_zero(left))}));
    }
  }
}

}  // namespace nvm::object
