#include "space/mend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "space/mend_alignment.hpp"
#include "space/mend_clusters.hpp"

namespace nvm {
namespace {

using layout::page_entry;
using layout::page_kind;

// Bits in which a word may differ from a choice that only its nearness speaks for: one byte was lost.
constexpr int bits_of_a_byte = 8;

class mender {
 public:
  mender(std::byte* base, const geometry& g, const std::function<void(const mended_place&)>& tell) noexcept
      : base_{base}, g_{g}, tell_{tell} {}

  mend_summary all() {
    for (std::uint64_t page = 0; page < g_.size_pages;) page += entry_of(page);
    const auto put = [this](std::uint64_t at, std::uint64_t word, const char* what, bool certain) {
      certain ? put_word(at, word, what) : keep_word(at, word, what);
    };
    const auto no_way = [this](std::uint64_t at, const char* what) { cannot(at, what, word_at(at)); };
    cluster_mender stores{base_, g_, put, no_way};
    stores.mend_headers();
    for (std::uint64_t page = 0; page < g_.size_pages;) page += contents_of(page);
    for (const cluster& c : stores.all()) {
      in_ = &c;
      for (std::uint64_t page = c.page; page < c.end();) page += entry_of(page);
      for (std::uint64_t page = c.page; page < c.end();) page += contents_of(page);
      for (std::uint64_t page = c.end(); page < c.page + c.room; ++page) {
        const std::uint64_t at = place_of(page);
        if (word_at(at) != 0) put_word(at, 0, "entry of a cluster's map behind the cluster");
      }
    }
    in_ = nullptr;
    stores.mend_lists();
    beyond();
    return summary_;
  }

 private:
  // ---- telling and changing ----

  void tell(const mended_place& p) {
    constexpr std::array counts{&mend_summary::mended, &mend_summary::kept, &mend_summary::lost, &mend_summary::cannot};
    ++(summary_.*counts[static_cast<unsigned>(p.how)]);
    if (tell_) tell_(p);
  }
  void cannot(std::uint64_t at, const char* what, std::uint64_t found) {
    tell({.how = mending::cannot, .offset = at, .what = what, .found = found});
  }
  void put_word(std::uint64_t at, std::uint64_t word, const char* what) {
    const std::uint64_t found = word_at(at);
    std::memcpy(base_ + at, &word, sizeof word);
    tell({.how = mending::mended, .offset = at, .what = what, .found = found, .made = word});
  }
  // Keeps a word that may have been another.
  void keep_word(std::uint64_t at, std::uint64_t word, const char* what) {
    const std::uint64_t found = word_at(at);
    std::memcpy(base_ + at, &word, sizeof word);
    tell({.how = mending::kept, .offset = at, .what = what, .found = found, .made = word});
  }
  [[nodiscard]] std::uint64_t word_at(std::uint64_t at) const noexcept { return load_word(base_, at); }
  [[nodiscard]] layout::object_header header_at(std::uint64_t at) const noexcept {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    return h;
  }
  [[nodiscard]] std::uint64_t sealed(std::uint64_t page, const page_entry& e) const noexcept {
    return seal_word(layout::pack(e), word_seed(place_of(page)));
  }
  // Offset of a page's entry, in the page map or in the map of the cluster that is being mended.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t page) const noexcept {
    return in_ == nullptr ? g_.entry_offset(page) : in_->entry_offset(g_, page);
  }
  [[nodiscard]] const char* fault_of(std::uint64_t word, std::uint64_t page, page_entry& e) const noexcept {
    return in_ == nullptr ? entry_fault(word, page, g_, g_.size_pages, e) : inner_entry_fault(word, page, *in_, g_, e);
  }
  // True: `e` is the entry of the page, which holds and can be one.
  [[nodiscard]] bool entry_at(std::uint64_t page, page_entry& e) const noexcept {
    return fault_of(word_at(place_of(page)), page, e) == nullptr;
  }

  // ---- page map ----

  // Whether the pages hold what the entry says; the entry is one of which content_tells().
  [[nodiscard]] bool content_agrees(std::uint64_t page, const page_entry& e) const noexcept {
    const std::uint64_t at = g_.page_offset(page);
    if (e.kind == page_kind::cluster) return identified_cluster(base_, g_, page).length_pages != 0;
    if (e.kind != page_kind::run) return word_at(at) == extent_identity_word(at, e.kind);
    return fits(header_at(at), at, e.length_pages, g_.page_bytes());
  }
  [[nodiscard]] static bool content_tells(const page_entry& e) noexcept {
    return e.kind == page_kind::fine || e.kind == page_kind::coarse || e.kind == page_kind::cluster ||
           (e.kind == page_kind::run && e.layout == layout::object_layout::typed && layout::transactional(e));
  }
  // Whether no page after the first has an entry that holds and is not zero.
  [[nodiscard]] bool pages_are_free(std::uint64_t page, const page_entry& e) const noexcept {
    for (std::uint64_t inner = page + 1; inner < page + e.length_pages; ++inner) {
      page_entry other;
      if (entry_at(inner, other) && other.length_pages != 0) return false;
    }
    return true;
  }

  // Whether an extent lies there whose objects have headers.  An extent of objects without headers must not be taken
  // for one: repair writes headers where it misses them, over what the objects hold.  An empty extent counts as one,
  // unless its lengths are those of nodes.
  [[nodiscard]] bool is_typed_extent(std::uint64_t page, page_kind kind, std::uint64_t pages) const noexcept {
    const std::uint64_t at = g_.page_offset(page);
    if (!range_inside(page, pages, g_.size_pages) || word_at(at) != extent_identity_word(at, kind)) return false;
    const layout::extent_shape s = layout::shape_of(kind, g_.page_shift);
    unsigned objects = 0;
    unsigned headers = 0;
    for (unsigned slot = s.header_slots; slot < s.slots; ++slot) {
      const first_bit b = first_bit_of(at, slot);
      if ((word_at(b.word_offset) >> b.bit & 1) == 0) continue;
      const std::uint64_t object = at + slot * s.slot_bytes;
      ++objects;
      headers += layout::object_header_holds(header_at(object), object);
    }
    return objects != 0 ? headers * 2 > objects : size_of_nodes(base_, at, s) == 0;
  }

  // The entry that the contents tell of, where these have headers; length 0: they tell of none.
  [[nodiscard]] page_entry entry_by_content(std::uint64_t page) const noexcept {
    constexpr auto typed = layout::object_layout::typed;
    if (is_typed_extent(page, page_kind::fine, layout::fine_extent_pages)) {
      return {layout::fine_extent_pages, 0, page_kind::fine, typed, {}};
    }
    if (is_typed_extent(page, page_kind::coarse, layout::coarse_extent_pages)) {
      return {layout::coarse_extent_pages, 0, page_kind::coarse, typed, {}};
    }
    if (const page_entry e = identified_cluster(base_, g_, page); in_ == nullptr && e.length_pages != 0) return e;
    const std::uint64_t at = g_.page_offset(page);
    const layout::object_header h = header_at(at);
    const std::uint64_t pages = ceil_div(layout::object_size(h) + sizeof h, g_.page_bytes());
    if (!layout::object_header_holds(h, at) || pages > g_.size_pages) return {};
    return {static_cast<std::uint32_t>(pages), 0, page_kind::run, typed, {}};
  }

  // What a damaged entry may have been.
  struct choice {
    std::uint64_t word = 0;
    int distance = std::numeric_limits<int>::max();
    bool by_content = false;
    bool ambiguous = false;
  };
  void offer(choice& best, std::uint64_t page, std::uint64_t found, std::uint64_t word, bool by_content) const {
    if (best.word == word && best.distance != std::numeric_limits<int>::max()) return;
    page_entry e;
    if (fault_of(word, page, e) != nullptr) return;
    if (word != 0 && (!pages_are_free(page, e) || (content_tells(e) && !content_agrees(page, e)))) return;
    const int distance = std::popcount(found ^ word);
    if (distance == best.distance) best.ambiguous = true;
    if (distance >= best.distance) return;
    best = {word, distance, by_content, false};
  }
  // Whether all set bits are in one byte; at least one is set.
  [[nodiscard]] static bool in_one_byte(std::uint64_t word) noexcept {
    return std::countr_zero(word) / 8 == (63 - std::countl_zero(word)) / 8;
  }
  [[nodiscard]] bool is_blank(std::uint64_t page) const noexcept {
    const std::byte* const first = base_ + g_.page_offset(page);
    return std::all_of(first, first + g_.page_bytes(), [](std::byte b) { return b == std::byte{0}; });
  }
  // In this order: the nearest entry that the contents confirm; one with a single bit changed, unless a free page may
  // have lost a byte here; a free page; the entry that the contents tell of.
  [[nodiscard]] bool choose_entry(std::uint64_t page, std::uint64_t found, std::uint64_t& word) const {
    choice near, content, bit_only;
    offer(near, page, found, 0, false);
    for (unsigned bit = 0; bit < 64; ++bit) {
      const std::uint64_t other = found ^ std::uint64_t{1} << bit;
      const bool tells = content_tells(layout::unpack(other & checked_mask));
      if (other != 0) offer(tells ? near : bit_only, page, found, other, tells);
    }
    if (const page_entry e = entry_by_content(page); e.length_pages != 0) {
      offer(near, page, found, sealed(page, e), true);
      offer(content, page, found, sealed(page, e), true);
    }
    const bool is_near = near.distance <= bits_of_a_byte && !near.ambiguous;
    const bool is_bit = bit_only.distance == 1;  // no word has two neighbours that hold
    if (is_bit && !(is_near && near.by_content)) {
      const bool may_be_free = is_near && in_one_byte(found);
      if (may_be_free && !is_blank(page)) return false;
      word = may_be_free ? 0 : bit_only.word;
    } else if (is_near) {
      word = near.word;
    } else if (content.by_content) {
      word = content.word;
    } else {
      return false;
    }
    return true;
  }

  // Returns by how many pages the walk goes on.
  std::uint64_t entry_of(std::uint64_t page) {
    const std::uint64_t at = place_of(page);
    page_entry e;
    if (!entry_at(page, e)) {
      const std::uint64_t found = word_at(at);
      std::uint64_t word = 0;
      if (!choose_entry(page, found, word)) {
        cannot(at, "page map entry: nothing says what it was", found);
        return 1;
      }
      put_word(at, word, "page map entry");
      e = layout::unpack(word & checked_mask);
    }
    if (e.length_pages == 0) return 1;
    return inner_entries(page, e);
  }

  // Two entries that name the same pages: one of them is wrong.
  std::uint64_t inner_entries(std::uint64_t page, page_entry e) {
    for (std::uint64_t inner = page + 1; inner < page + e.length_pages; ++inner) {
      const std::uint64_t at = place_of(inner);
      if (word_at(at) == 0) continue;
      page_entry other;
      const bool holds = entry_at(inner, other);
      const bool inner_is = holds && (!content_tells(other) || content_agrees(inner, other));
      if (!inner_is && (!content_tells(e) || content_agrees(page, e))) {
        put_word(at, 0, "page map entry inside the pages of another");
        continue;
      }
      // The outer one reaches too far, if its object ends before.
      const layout::object_header h = header_at(g_.page_offset(page));
      const std::uint64_t pages = ceil_div(layout::object_size(h) + sizeof h, g_.page_bytes());
      if (inner_is && e.kind == page_kind::run && content_tells(e) && pages <= inner - page &&
          layout::object_header_holds(h, g_.page_offset(page))) {
        page_entry shorter = e;
        shorter.length_pages = static_cast<std::uint32_t>(pages);
        put_word(place_of(page), sealed(page, shorter), "page map entry reaches into the pages of another");
        return pages;
      }
      cannot(at, "two page map entries name the same pages", word_at(at));
      return inner - page;
    }
    return e.length_pages;
  }

  // Entries of pages that do not exist yet: one that holds says that the pool was larger.
  void beyond() {
    for (std::uint64_t page = g_.size_pages; page < pages_with_entries(g_); ++page) {
      const std::uint64_t at = g_.entry_offset(page);
      const std::uint64_t word = word_at(at);
      if (word == 0) continue;
      if (word_holds(word, word_seed(at))) {
        cannot(at, "page map entry behind the pool's end", word);
      } else {
        put_word(at, 0, "page map entry behind the pool's end");
      }
    }
  }

  // ---- extents and objects ----

  std::uint64_t contents_of(std::uint64_t page) {
    page_entry e;
    if (!entry_at(page, e) || e.length_pages == 0) return 1;
    const std::uint64_t at = g_.page_offset(page);
    if (e.kind == page_kind::fine || e.kind == page_kind::coarse) {
      extent(at, e);
    } else if (e.kind == page_kind::run && layout::transactional(e) && e.layout == layout::object_layout::typed) {
      const std::uint64_t room = std::uint64_t{e.length_pages} << g_.page_shift;
      if (!fits(header_at(at), at, e.length_pages, g_.page_bytes())) header(at, room, g_.page_bytes());
      alignment(at);
    }
    return e.length_pages;
  }

  [[nodiscard]] static bool fits(const layout::object_header& h, std::uint64_t at, std::uint64_t units,
                                 std::uint64_t unit) noexcept {
    return layout::object_header_holds(h, at) && ceil_div(layout::object_size(h) + sizeof h, unit) == units;
  }

  void alignment(std::uint64_t at) {
    const mended_alignment m = mend_alignment(base_, at);
    if (m.what == nullptr) return;
    const layout::object_header h = header_at(at);
    tell({.how = m.certain ? mending::mended : mending::kept,
          .offset = m.offset,
          .what = m.what,
          .found = m.found,
          .made = m.made,
          .object = at,
          .bytes = layout::object_size(h),
          .type = h.type});
  }

  // Mends the header of an object whose room is certain: by one bit changed back, or with the size of the room.
  void header(std::uint64_t at, std::uint64_t room, std::uint64_t unit) {
    const layout::object_header found = header_at(at);
    layout::object_header made = found;
    unsigned ways = 0;
    for (unsigned bit = 0; bit < 96; ++bit) {
      layout::object_header h = found;
      if (bit < 64) {
        h.size_generation_check ^= std::uint64_t{1} << bit;
      } else {
        h.type ^= 1U << (bit - 64);
      }
      if (!fits(h, at, room / unit, unit)) continue;
      ++ways;
      made = h;
    }
    mended_place p{.how = mending::mended,
                   .offset = at,
                   .what = "object header",
                   .found = found.size_generation_check,
                   .made = 0,
                   .object = at,
                   .bytes = 0,
                   .type = found.type};
    if (ways != 1) {
      std::uint64_t size = layout::object_size(found);
      if (ceil_div(size + sizeof found, unit) != room / unit) size = room - sizeof found;
      made = layout::make_object_header(size, found.type, at);
      made.references = found.references;
      layout::object_header aligned = made;
      aligned.size_generation_check |= found.size_generation_check & layout::alignment_mask;
      const auto a = layout::alignment_of(aligned, at);
      if (a && signpost_agrees(base_, at, *a)) made = aligned;
      p.how = mending::kept;
      p.what = "object header: its size and type are not certain";
    }
    std::memcpy(base_ + at, &made, sizeof made);
    p.made = made.size_generation_check;
    p.bytes = layout::object_size(made);
    p.type = made.type;
    tell(p);
  }

  void extent(std::uint64_t at, const page_entry& e) {
    const layout::extent_shape s = layout::shape_of(e.kind, g_.page_shift);
    if (const std::uint64_t identity = extent_identity_word(at, e.kind); word_at(at) != identity) {
      put_word(at, identity, "identity of an extent");
    }
    if (word_at(at + 8) != 0) put_word(at + 8, 0, "reserved word of an extent");
    typed_ = layout::transactional(e) && e.layout == layout::object_layout::typed;
    if (layout::transactional(e)) {
      unsigned end = s.header_slots;
      for (unsigned w = 0; w < s.words; ++w) end = objects_of_word(at, s, w, end);
    } else {
      const unsigned each = size_of_nodes(base_, at, s);
      for (unsigned w = 0; w < s.words; ++w) nodes_of_word(at, s, w, each);
      free_places(at, s, each);
    }
  }

  // What an object that begins at a slot says about its own size.
  struct evidence {
    unsigned by_header = 0;  // slots, 0: its header does not hold
    unsigned by_length = 0;  // the same of the length byte
  };
  [[nodiscard]] evidence evidence_at(std::uint64_t extent, const layout::extent_shape& s, unsigned slot) const {
    evidence found;
    const std::uint64_t at = extent + slot * s.slot_bytes;
    const layout::object_header h = header_at(at);
    const unsigned left = s.slots - slot;
    if (typed_ && layout::object_header_holds(h, at)) {
      const std::uint64_t slots = ceil_div(layout::object_size(h) + sizeof h, s.slot_bytes);
      if (slots <= left && slots <= 0x7F) found.by_header = static_cast<unsigned>(slots);
    }
    const unsigned slots = layout::slots_of_length(static_cast<std::uint8_t>(base_[extent + s.lengths_at + slot]));
    if (slots <= left) found.by_length = slots;
    return found;
  }

  // Slot of the lowest set bit of allocation word w.
  [[nodiscard]] static unsigned slot_of(unsigned w, std::uint64_t bits) noexcept {
    return w * checked_bits + static_cast<unsigned>(std::countr_zero(bits));
  }
  void may_be_freed(std::uint64_t at, const char* what) {
    const layout::object_header h = header_at(at);
    const bool known = typed_ && layout::object_header_holds(h, at);
    tell({.how = mending::kept,
          .offset = at,
          .what = what,
          .object = at,
          .bytes = known ? layout::object_size(h) : 0,
          .type = known ? h.type : 0});
  }

  // The objects that begin in the slots of one allocation word; `end`: the end of the object before.  Returns the end
  // of the last.
  unsigned objects_of_word(std::uint64_t extent, const layout::extent_shape& s, unsigned w, unsigned end) {
    const std::uint64_t at = extent + layout::first_words_at + w * 8;
    const std::uint64_t found = word_at(at);
    const std::uint8_t seed = word_seed(at);
    const bool held = word_holds(found, seed);
    std::uint64_t bits = found & checked_mask;
    if (!held) {
      const std::uint64_t corrected = corrected_word(found, seed);
      const bool agreed = corrected != 0 && agrees(extent, s, w, corrected & checked_mask, end);
      const bool may_be_empty = std::popcount(found) == 1;
      if (agreed || may_be_empty) {
        put_word(at, agreed ? corrected : 0, "allocation word");
        bits = word_at(at) & checked_mask;
        for (std::uint64_t left = may_be_empty ? bits : 0; left != 0; left &= left - 1) {
          may_be_freed(extent + slot_of(w, left) * s.slot_bytes, "object, which may have been freed");
        }
      } else if (!typed_) {
        cannot(at, "allocation word: nothing says what it was", found);
        return end;
      } else {
        bits = objects_that_may_be(extent, s, w, bits, end);
        put_word(at, seal_word(bits, seed), "allocation word, from what lies in its slots");
      }
    }
    const std::uint64_t before = bits;
    for (std::uint64_t left = bits; left != 0; left &= left - 1) {
      if (!object(extent, s, slot_of(w, left), end)) bits &= ~(left & -left);
    }
    if (bits != before) put_word(at, seal_word(bits, seed), "allocation word without the objects that are lost");
    return end;
  }

  // Whether each bit is an object by its own header or length byte, and none overlap.
  [[nodiscard]] bool agrees(std::uint64_t extent, const layout::extent_shape& s, unsigned w, std::uint64_t bits,
                            unsigned end) const {
    for (; bits != 0; bits &= bits - 1) {
      const unsigned slot = slot_of(w, bits);
      if (slot < end || slot >= s.slots) return false;
      const evidence e = evidence_at(extent, s, slot);
      if (e.by_header == 0 && e.by_length == 0) return false;
      end = slot + std::max(1U, e.by_header != 0 ? e.by_header : e.by_length);
    }
    return true;
  }

  // The bits of a word that is lost: first the objects that it still names, then whatever else looks like an object and
  // overlaps none.  Slots keep the header of an object that was freed.
  std::uint64_t objects_that_may_be(std::uint64_t extent, const layout::extent_shape& s, unsigned w,
                                    std::uint64_t likely, unsigned end) {
    const unsigned first = w * checked_bits;
    std::uint64_t bits = 0;
    std::array<bool, 512> taken{};  // by slot, of the whole extent
    const auto take = [&](unsigned slot) {
      const evidence e = evidence_at(extent, s, slot);
      if (slot < std::max(end, s.header_slots) || e.by_header == 0 || e.by_header != e.by_length) return;
      for (unsigned i = slot; i < slot + e.by_header; ++i) {
        if (taken[i]) return;
      }
      for (unsigned i = slot; i < slot + e.by_header; ++i) taken[i] = true;
      bits |= std::uint64_t{1} << (slot - first);
      may_be_freed(extent + slot * s.slot_bytes, "object, which may have been freed");
    };
    // What begins in a later word is in the way as well.
    for (unsigned other = w + 1; other < s.words; ++other) {
      const std::uint64_t at = extent + layout::first_words_at + other * 8;
      const std::uint64_t word = word_at(at);
      if (word_holds(word, word_seed(at))) {
        for (std::uint64_t left = word & checked_mask; left != 0; left &= left - 1) {
          const unsigned slot = slot_of(other, left);
          if (slot < s.slots) taken[slot] = true;
        }
      }
    }
    for (std::uint64_t left = likely; left != 0; left &= left - 1) {
      const unsigned slot = slot_of(w, left);
      if (slot < s.slots) take(slot);
    }
    for (unsigned slot = first; slot < std::min(first + checked_bits, s.slots); ++slot) take(slot);
    return bits;
  }

  // The object that begins at `slot` as its bit says: header and length byte are made to agree.  False: it is none.
  bool object(std::uint64_t extent, const layout::extent_shape& s, unsigned slot, unsigned& end) {
    const std::uint64_t at = extent + slot * s.slot_bytes;
    const auto lose = [&](const char* what) {
      const layout::object_header h = slot < s.slots ? header_at(at) : layout::object_header{};
      tell({.how = mending::lost, .offset = at, .what = what, .object = at, .bytes = 0, .type = h.type});
      return false;
    };
    if (slot < s.header_slots || slot >= s.slots) return lose("object outside the slots of its extent");
    const evidence e = evidence_at(extent, s, slot);
    if (slot < end) return lose("object inside the one before");
    if (e.by_header == 0 && e.by_length == 0) return lose("object of which neither header nor length holds");
    const unsigned slots = e.by_header != 0 ? e.by_header : e.by_length;
    if (slots != e.by_length) {
      const std::uint64_t length_at = extent + s.lengths_at + slot;
      const auto found = static_cast<std::uint8_t>(base_[length_at]);
      base_[length_at] = std::byte{layout::length_byte(slots)};
      tell({.how = mending::mended,
            .offset = length_at,
            .what = "length byte of an object",
            .found = found,
            .made = layout::length_byte(slots)});
    }
    if (typed_ && e.by_header == 0) header(at, slots * s.slot_bytes, s.slot_bytes);
    if (typed_) alignment(at);
    end = slot + slots;
    return true;
  }

  // Nodes of a structure have no headers: all that helps is the check, and that all are of one size, `each`.
  void nodes_of_word(std::uint64_t extent, const layout::extent_shape& s, unsigned w, unsigned each) {
    const std::uint64_t at = extent + layout::first_words_at + w * 8;
    const std::uint64_t found = word_at(at);
    if (!word_holds(found, word_seed(at))) {
      const std::uint64_t corrected = corrected_word(found, word_seed(at));
      const std::uint64_t nodes = are_nodes(s, w, corrected & checked_mask, each) ? corrected : 0;
      const bool may_be_empty = std::popcount(found) == 1;
      if (nodes == 0 && !may_be_empty && each != 0) {
        // All of its places: those that are no nodes of the structure are freed when the structure is looked at.
        put_word(at, seal_word(all_places(s, w, each), word_seed(at)), all_places_of_nodes);
        return;
      }
      if (nodes == 0 && !may_be_empty) {
        cannot(at, "allocation word of a structure's nodes: nothing says what it was", found);
        return;
      }
      put_word(at, nodes, "allocation word of a structure's nodes");
      for (std::uint64_t left = may_be_empty ? nodes & checked_mask : 0; left != 0; left &= left - 1) {
        may_be_freed(extent + slot_of(w, left) * s.slot_bytes, "node, which may have been freed");
      }
    }
    for (std::uint64_t left = word_at(at) & checked_mask; left != 0; left &= left - 1) {
      const unsigned slot = slot_of(w, left);
      if (slot < s.header_slots || slot >= s.slots) {
        cannot(at, "node outside the slots of its extent", slot);
        continue;
      }
      const std::uint64_t length_at = extent + s.lengths_at + slot;
      const auto byte = static_cast<std::uint8_t>(base_[length_at]);
      if (each == 0) {
        cannot(length_at, "length byte of a node: nothing says what it was", byte);
        continue;
      }
      if (!is_node(s, slot, each)) {
        cannot(at, "node where none can begin", slot);
        continue;
      }
      length_of_node(length_at, each, "length byte of a node");
    }
  }
  // Gives empty places a node's length byte: making a node does not write it.
  void free_places(std::uint64_t extent, const layout::extent_shape& s, unsigned each) {
    for (unsigned slot = s.header_slots; each != 0 && slot + each <= s.slots; slot += each) {
      length_of_node(extent + s.lengths_at + slot, each, "length byte of a place for a node");
    }
  }
  void length_of_node(std::uint64_t at, unsigned each, const char* what) {
    const auto found = static_cast<std::uint8_t>(base_[at]);
    const std::uint8_t made = layout::length_byte(each);
    if (found == made) return;
    base_[at] = std::byte{made};
    tell({.how = mending::mended, .offset = at, .what = what, .found = found, .made = made});
  }
  // Whether a node can begin at the slot.
  [[nodiscard]] static bool is_node(const layout::extent_shape& s, unsigned slot, unsigned each) noexcept {
    return each != 0 && slot >= s.header_slots && slot + each <= s.slots && (slot - s.header_slots) % each == 0;
  }
  [[nodiscard]] static std::uint64_t all_places(const layout::extent_shape& s, unsigned w, unsigned each) noexcept {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < checked_bits; ++i) {
      if (is_node(s, w * checked_bits + i, each)) bits |= std::uint64_t{1} << i;
    }
    return bits;
  }
  [[nodiscard]] static bool are_nodes(const layout::extent_shape& s, unsigned w, std::uint64_t bits,
                                      unsigned each) noexcept {
    for (; bits != 0; bits &= bits - 1) {
      if (!is_node(s, slot_of(w, bits), each)) return false;
    }
    return true;
  }
  std::byte* base_;
  const geometry& g_;
  const std::function<void(const mended_place&)>& tell_;
  bool typed_ = true;            // objects of the extent at hand have headers
  const cluster* in_ = nullptr;  // whose map is being mended; nullptr: the page map is
  mend_summary summary_;
};

}  // namespace

mend_summary mend_space(std::byte* base, const geometry& g, const std::function<void(const mended_place&)>& tell) {
  return mender{base, g, tell}.all();
}

}  // namespace nvm
