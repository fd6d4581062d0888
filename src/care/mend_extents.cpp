#include "care/mend_extents.hpp"

#include <algorithm>
#include <array>
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

  // Class of the nodes; lockfree::classes: nothing says so.
  [[nodiscard]] unsigned find() {
    for (const lf::kind kind : {lf::kind::list, lf::kind::skip_list}) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, lf::entry_bytes}) {
        look_for(kind, bytes | lf::entry_sums);
        if (seed_ != nullptr) look_for(kind, bytes | lf::entry_sums | lf::entry_volatile_links);
      }
    }
    const auto most = std::max_element(votes_.begin(), votes_.end());
    return *most == 0 ? lockfree::classes : static_cast<unsigned>(most - votes_.begin());
  }

 private:
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
    if (head >= end_ || !format.fits(head, end_ - head) || !format.sum_holds(head)) return;
    const unsigned c = lockfree::class_of(head - start + format.bytes_of(head));
    if (c < lockfree::classes) ++votes_[c];
  }

  const std::byte* const base_;
  const std::uint64_t begin_, end_;
  const std::uint64_t* const seed_;  // of seals; nullptr: there are none
  std::array<unsigned, lockfree::classes> votes_{};
};

template <class Visit>
void each_owned(const std::byte* base, const geometry& g, Visit&& visit) {
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t word = load_word(base, g.entry_offset(page));
    layout::page_entry e;
    if (word == 0 || entry_fault(word, page, g, g.size_pages, e) != nullptr || layout::transactional(e)) continue;
    if (e.store >= lf::first_owner && e.store < lf::first_owner + lf::structures_max) visit(g.page_offset(page), e);
  }
}

}  // namespace

void mend_sizes_of_nodes(std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t extent, unsigned slots)>& tell) {
  std::map<std::uint16_t, std::uint64_t> seeds;
  each_owned(base, g, [&](std::uint64_t at, const layout::page_entry& e) {
    if (e.kind != layout::page_kind::run || lockfree::sealed_root_fault(base, at) != nullptr) return;
    seeds[e.store] = load_word(base, at + offsetof(lockfree::sealed_root, seed));
  });
  const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, g.page_shift);
  each_owned(base, g, [&](std::uint64_t at, const layout::page_entry& e) {
    if (e.kind != layout::page_kind::coarse || size_of_nodes(base, at, shape) != 0) return;
    const auto seed = seeds.find(e.store);
    const std::uint64_t* const of_seals = seed == seeds.end() ? nullptr : &seed->second;
    // What lies where the header should be may be what links lead to, if it is another page.
    const std::uint64_t first = at + shape.header_slots * shape.slot_bytes;
    if (size_finder{base, at, first, of_seals}.find() != lockfree::classes) return;
    const unsigned c = size_finder{base, first, at + shape.bytes, of_seals}.find();
    if (c == lockfree::classes) return;
    std::memset(base + at + shape.lengths_at, 0, shape.slots);
    write_equal_lengths(base, at, shape, lockfree::class_slots[c]);
    // Its words lie beside them.
    for (unsigned w = 0; w < shape.words; ++w) {
      const std::uint64_t word_at = at + layout::first_words_at + w * 8;
      const std::uint64_t word = seal_word(lockfree::places_of_nodes(shape)[c][w], word_seed(word_at));
      std::memcpy(base + word_at, &word, sizeof word);
    }
    tell(at, lockfree::class_slots[c]);
  });
}

}  // namespace nvm::care
