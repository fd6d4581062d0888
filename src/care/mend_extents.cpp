#include "care/mend_extents.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "care/structure_nodes.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "lockfree/node_sizes.hpp"
#include "lockfree/rebuilt.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

namespace lf = lockfree::layout;

class size_finder {
 public:
  size_finder(const std::byte* base, std::uint64_t begin, std::uint64_t end, const std::uint64_t* seed)
      : base_{base}, begin_{begin}, end_{end}, seed_{seed} {}

  // Class of the nodes; lockfree::classes: unknown.
  [[nodiscard]] unsigned find() {
    look_at_all();
    const auto most = std::max_element(votes_.begin(), votes_.end());
    return *most == 0 ? lockfree::classes : static_cast<unsigned>(most - votes_.begin());
  }
  // A node that was not removed begins here, and ends before that.
  [[nodiscard]] bool has_one_until(std::uint64_t end) {
    room_end_ = end;
    leaves_out_removed_ = true;
    look_at_all();
    return std::any_of(votes_.begin(), votes_.end(), [](unsigned n) { return n != 0; });
  }

 private:
  void look_at_all() {
    for (const lf::kind kind : {lf::kind::list, lf::kind::skip_list}) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, lf::entry_bytes}) {
        look_for(kind, bytes | lf::entry_sums);
        if (seed_ != nullptr) look_for(kind, bytes | lf::entry_sums | lf::entry_volatile_links);
      }
    }
  }
  void look_for(lf::kind kind, std::uint64_t flags) {
    described_structure d;
    d.kind = kind;
    d.flags = flags;
    node_format format{base_, d};
    if (seed_ != nullptr) format.seed = *seed_;
    for (std::uint64_t start = begin_; start < end_; start += lockfree::slot_bytes) {
      if (!format.has_skip_levels()) {
        look_at(format, start, start);
      } else if (!format.is_sealed) {
        const std::uint64_t head = format.head_in(start);
        if (head != 0) look_at(format, start, head);
      } else {
        for (std::uint64_t inside = 8; inside < node_format::line; inside += 8) look_at(format, start, start + inside);
        look_at(format, start, start + node_format::tall_head);
      }
    }
  }
  void look_at(const node_format& format, std::uint64_t start, std::uint64_t head) {
    if (head >= room_end_ || room_end_ - head < format.node_bytes()) return;
    if (!format.fits(head, room_end_ - head) || !format.sum_holds(head)) return;
    if (leaves_out_removed_ && was_removed(format, head)) return;
    const unsigned c = lockfree::class_of(head - start + format.bytes_of(head));
    if (c < lockfree::classes) ++votes_[c];
  }

  [[nodiscard]] static bool was_removed(const node_format& format, std::uint64_t head) noexcept {
    namespace seal = lockfree::seal;
    if (format.is_sealed) return seal::state_of(format.seal(head)) != seal::live;
    return (format.next(head) & lockfree::gone) != 0;
  }

  const std::byte* const base_;
  const std::uint64_t begin_, end_;
  std::uint64_t room_end_ = end_;
  bool leaves_out_removed_ = false;
  const std::uint64_t* const seed_;  // of seals; nullptr: there are none
  std::array<unsigned, lockfree::classes> votes_{};
};

template <class Visit>
void each_extent_or_run(const std::byte* base, const geometry& g, Visit&& visit) {
  each_good_entry(base, g, [&](std::uint64_t page, const layout::page_entry& e, std::uint32_t store) {
    if (layout::transactional(e) || e.store < lf::first_owner || e.store >= lf::first_owner + lf::structures_max)
      return;
    visit(g.page_offset(page), e, structure_number{store, e.store});
  });
}

bool is_blank(const std::byte* base, std::uint64_t begin, std::uint64_t end) {
  return std::all_of(base + begin, base + end, [](std::byte b) { return b == std::byte{0}; });
}
}  // namespace

std::uint64_t twin_of_page(const std::byte* base, const geometry& g, std::uint64_t at) {
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t other = g.page_offset(page);
    if (other != at && std::memcmp(base + other, base + at, g.page_bytes()) == 0) return other;
  }
  return 0;
}

seeds_of_seals seeds_in(const std::byte* base, const geometry& g) {
  seeds_of_seals seeds;
  each_extent_or_run(base, g, [&](std::uint64_t at, const layout::page_entry& e, structure_number of) {
    if (e.kind != layout::page_kind::run || lockfree::sealed_root_fault(base, at) != nullptr) return;
    seeds[of] = load_word(base, at + offsetof(lockfree::sealed_root, seed));
  });
  return seeds;
}

unsigned class_of_nodes_in(const std::byte* base, std::uint64_t begin, std::uint64_t end, const std::uint64_t* seed) {
  return size_finder{base, begin, end, seed}.find();
}

bool is_node_at(const std::byte* base, std::uint64_t start, std::uint64_t end, const std::uint64_t* seed) {
  return size_finder{base, start, start + lockfree::slot_bytes, seed}.has_one_until(end);
}

void lay_nodes(std::byte* base, std::uint64_t extent, const layout::extent_shape& shape, unsigned c) {
  std::memset(base + extent + shape.lengths_at, 0, shape.slots);
  write_equal_lengths(base, extent, shape, lockfree::class_slots[c]);
  for (unsigned w = 0; w < shape.words; ++w) {
    const std::uint64_t word_at = extent + layout::first_words_at + w * 8;
    const std::uint64_t word = seal_word(lockfree::places_of_nodes(shape)[c][w], word_seed(word_at));
    std::memcpy(base + word_at, &word, sizeof word);
  }
}

void mend_sizes_of_nodes(std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t extent, unsigned slots)>& tell) {
  const seeds_of_seals seeds = seeds_in(base, g);
  const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, g.page_shift);
  each_extent_or_run(base, g, [&](std::uint64_t at, const layout::page_entry& e, structure_number of) {
    if (e.kind != layout::page_kind::coarse || size_of_nodes(base, at, shape) != 0) return;
    const auto seed = seeds.find(of);
    const std::uint64_t* const of_seals = seed == seeds.end() ? nullptr : &seed->second;
    // Nodes in place of the header are those of another page: it stays, unless it is a copy and that page is there.
    const std::uint64_t first = at + shape.header_slots * shape.slot_bytes;
    if (class_of_nodes_in(base, at, first, of_seals) != lockfree::classes && twin_of_page(base, g, at) == 0) {
      return;
    }
    unsigned c = class_of_nodes_in(base, first, at + shape.bytes, of_seals);
    // For an empty extent any size will do.
    if (c == lockfree::classes && is_blank(base, at + g.page_bytes(), at + shape.bytes)) c = 0;
    if (c == lockfree::classes) return;
    lay_nodes(base, at, shape, c);  // its words lie beside the lengths
    tell(at, lockfree::class_slots[c]);
  });
}

}  // namespace nvm::care
