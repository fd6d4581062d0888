#include "care/mend_headers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "care/mend_extents.hpp"
#include "lockfree/node_sizes.hpp"
#include "space/extent_image.hpp"
#include "space/page_map.hpp"

namespace nvm::care {
namespace {

using layout::page_kind;

// Seven bits of a place, from which the seed of a checked word comes: seeds of two words of a header differ by their
// distance alone, at any place of the header.
constexpr std::uint64_t part_of(std::uint64_t offset) noexcept {
  const std::uint64_t w = offset >> 3;
  return (w ^ (w >> 7) ^ (w >> 14) ^ (w >> 21) ^ (w >> 28) ^ (w >> 35)) & 0x7F;
}
constexpr std::uint8_t seed_of_part(std::uint64_t part) noexcept { return word_seed(part << 3); }
static_assert(seed_of_part(part_of(0x12'3456'7000)) == word_seed(0x12'3456'7000));
static_assert(seed_of_part(part_of(0x12'3456'7000) ^ 5) == word_seed(0x12'3456'7028));

struct stray {
  std::uint64_t at = 0;
  layout::page_entry entry{};
  std::uint32_t store = 0;  // number of the object store that has it; 0: the pool
  std::uint64_t part = 0;   // of the extent whose header lies here
  page_kind kind = page_kind::coarse;
};

class header_mender {
 public:
  header_mender(std::byte* base, const geometry& g, const std::function<void(const mended_header&)>& tell,
                const std::function<void(std::uint64_t)>& object)
      : base_{base}, g_{g}, tell_{tell}, object_{object} {}

  void run() {
    list_strays();
    if (strays_.empty()) return;
    seeds_ = seeds_in(base_, g_);
    for (std::size_t i = 0; i < strays_.size(); ++i) {
      if (strays_[i].at != 0) mend(i);
    }
  }

 private:
  void list_strays() {
    each_good_entry(base_, g_, [&](std::uint64_t page, const layout::page_entry& e, std::uint32_t store) {
      if (e.kind == page_kind::fine || e.kind == page_kind::coarse) look_at(g_.page_offset(page), e, store);
    });
  }
  void look_at(std::uint64_t at, const layout::page_entry& e, std::uint32_t store) {
    const std::uint64_t identity = load_word(base_, at);
    if (identity == extent_identity_word(at, e.kind)) return;
    for (const page_kind kind : {page_kind::fine, page_kind::coarse}) {
      if ((identity & checked_mask) != (layout::extent_identity | std::uint64_t(kind) << 32)) continue;
      for (std::uint64_t part = 0; part < 128; ++part) {
        if (word_holds(identity, seed_of_part(part)) && words_hold(at, part, kind)) {
          strays_.push_back({at, e, store, part, kind});
        }
      }
    }
  }
  [[nodiscard]] bool words_hold(std::uint64_t at, std::uint64_t part, page_kind kind) const noexcept {
    const layout::extent_shape s = layout::shape_of(kind, g_.page_shift);
    for (unsigned w = 0; w < s.words; ++w) {
      const std::uint64_t inside = layout::first_words_at + w * 8;
      if (!word_holds(load_word(base_, at + inside), seed_of_part(part ^ inside >> 3))) return false;
    }
    return true;
  }

  void mend(std::size_t i) {
    stray& one = strays_[i];
    const auto is_other = [&](const stray& s) {
      return s.at != 0 && s.part == part_of(one.at) && s.kind == one.entry.kind && part_of(s.at) == one.part &&
             s.entry.kind == one.kind;
    };
    const auto other = std::find_if(strays_.begin() + static_cast<std::ptrdiff_t>(i) + 1, strays_.end(), is_other);
    if (other == strays_.end()) return make_anew(one);
    exchange(one, *other);
    tell_({.extent = one.at, .other = other->at});
    one.at = other->at = 0;
  }

  // ---- two that were exchanged ----

  void swap(std::uint64_t a, std::uint64_t b, std::uint64_t bytes) noexcept {
    std::swap_ranges(base_ + a, base_ + a + bytes, base_ + b);
  }
  // Exchanges as much of their first pages as makes most of their words true.
  void exchange(const stray& a, const stray& b) {
    const auto bytes_of = [&](const stray& s) {
      const layout::extent_shape shape = layout::shape_of(s.entry.kind, g_.page_shift);
      return std::array{std::uint64_t{shape.header_slots} * shape.slot_bytes, shape.lengths_at};
    };
    const auto of_a = bytes_of(a);
    const auto of_b = bytes_of(b);
    const std::array tried{std::max(of_a[0], of_b[0]), std::min(of_a[0], of_b[0]), std::min(of_a[1], of_b[1]),
                           g_.page_bytes()};
    std::uint64_t best = tried[0];
    std::uint64_t most = 0;
    for (const std::uint64_t bytes : tried) {
      swap(a.at, b.at, bytes);
      const std::uint64_t agreed = agreement(a) + agreement(b);
      if (agreed > most) best = bytes;
      most = std::max(most, agreed);
      swap(a.at, b.at, bytes);
    }
    swap(a.at, b.at, best);
  }
  // Number of objects and nodes that the words name and that exist.
  [[nodiscard]] std::uint64_t agreement(const stray& of) const {
    const layout::extent_shape s = layout::shape_of(of.entry.kind, g_.page_shift);
    const bool is_typed = layout::transactional(of.entry) && of.entry.layout == layout::object_layout::typed;
    const bool are_nodes = !layout::transactional(of.entry);
    std::uint64_t agreed = 0;
    read_extent(
        base_, of.at, of.entry.kind, s,
        [&](unsigned slot, unsigned slots) {
          const std::uint64_t at = of.at + slot * s.slot_bytes;
          const bool is_there = is_typed    ? slots_at(at, s) == slots
                                : are_nodes ? is_node_at(base_, at, at + slots * s.slot_bytes, seed_of(of))
                                            : true;
          agreed += is_there ? 2 : 1;  // a node without a sum fits its place, at least
        },
        [](const damage&) {});
    return agreed;
  }
  [[nodiscard]] const std::uint64_t* seed_of(const stray& s) const {
    const auto seed = seeds_.find({s.store, s.entry.store});
    return seed == seeds_.end() ? nullptr : &seed->second;
  }
  // Slots of the object that begins there; 0: none does.
  [[nodiscard]] unsigned slots_at(std::uint64_t at, const layout::extent_shape& s) const noexcept {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    const std::uint64_t slots = ceil_div(layout::object_size(h) + sizeof h, s.slot_bytes);
    constexpr std::uint64_t most = 0x7F;
    return layout::object_header_holds(h, at) && slots <= most ? static_cast<unsigned>(slots) : 0;
  }

  // ---- extents without their own header ----

  void make_anew(const stray& one) {
    const layout::extent_shape s = layout::shape_of(one.entry.kind, g_.page_shift);
    const std::uint64_t room = g_.page_bytes() - s.header_slots * s.slot_bytes;
    mended_header told{.extent = one.at, .twin = twin_of_page(base_, g_, one.at), .places = room / s.slot_bytes};
    if (!layout::transactional(one.entry)) {
      const std::uint64_t first = one.at + s.header_slots * s.slot_bytes;
      unsigned c = class_of_nodes_in(base_, first, one.at + s.bytes, seed_of(one));
      // Without sums the other extent's are as likely as any, if it may be of the same structure.
      if (c == lockfree::classes && one.kind == page_kind::coarse) c = class_of_lengths(one.at, s);
      if (c == lockfree::classes) c = 0;
      (void)write_empty_extent(base_, one.at, one.entry.kind, s);
      lay_nodes(base_, one.at, s, c);
      told.has_all_places = true;
      told.places = room / lockfree::class_bytes(c);
    } else if (one.entry.layout == layout::object_layout::typed) {
      (void)write_empty_extent(base_, one.at, one.entry.kind, s);
      told.objects = list_objects(one.at, s);
    } else {
      return;
    }
    tell_(told);
  }
  [[nodiscard]] unsigned class_of_lengths(std::uint64_t extent, const layout::extent_shape& s) const noexcept {
    const unsigned slots = size_of_nodes(base_, extent, s);
    return slots == 0 ? lockfree::classes : lockfree::class_of_slots(slots);
  }
  // From the beginning; bytes inside of an object are its contents.
  std::uint64_t list_objects(std::uint64_t extent, const layout::extent_shape& s) {
    std::array<std::uint64_t, 16> words{};
    std::uint64_t found = 0;
    for (unsigned slot = s.header_slots; slot < s.slots;) {
      const std::uint64_t at = extent + slot * s.slot_bytes;
      const unsigned slots = slots_at(at, s);
      if (slots == 0 || slots > s.slots - slot) {
        ++slot;
        continue;
      }
      base_[extent + s.lengths_at + slot] = std::byte{layout::length_byte(slots)};
      words[slot / checked_bits] |= std::uint64_t{1} << slot % checked_bits;
      object_(at);
      ++found;
      slot += slots;
    }
    for (unsigned w = 0; w < s.words; ++w) {
      const std::uint64_t word_at = extent + layout::first_words_at + w * 8;
      const std::uint64_t word = seal_word(words[w], word_seed(word_at));
      std::memcpy(base_ + word_at, &word, sizeof word);
    }
    return found;
  }

  std::byte* const base_;
  const geometry& g_;
  const std::function<void(const mended_header&)>& tell_;
  const std::function<void(std::uint64_t)>& object_;
  std::vector<stray> strays_;
  seeds_of_seals seeds_;
};

}  // namespace

void mend_headers(std::byte* base, const geometry& g, const std::function<void(const mended_header&)>& tell,
                  const std::function<void(std::uint64_t)>& object) {
  header_mender{base, g, tell, object}.run();
}

}  // namespace nvm::care
