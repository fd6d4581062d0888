// Order.  The root; the places that the page map and the extents give the structure; following its links
// (structure_links.cpp); the node in each place; which of these are entries (structure_entries.cpp).
#include "care/structure_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "lockfree/node_sizes.hpp"
#include "lockfree/rebuilt.hpp"
#include "lockfree/shapes.hpp"
#include "lockfree/volatile_memory.hpp"

namespace nvm::care {

using lockfree::gone;
using lockfree::offset_of;
namespace seal = lockfree::seal;

void structure_reader::read() {
  const geometry& g = pages_.sizes();
  end_ = g.data_offset + (pages_.size_pages() << g.page_shift);
  look_at_root();
  list_places();
  if (format_.is_seed_needed()) find_seed();
  if (format_.is_sealed) {
    list_strays();
    for (item& i : items_) i.holds = i.holds && format_.seal_holds(i.head, format_.seed);
    look_for_twins();
    return;
  }
  follow_all();
  judge();
  std::size_t single = 0;
  for (const item& i : items_) {
    if (i.linked && is_candidate(i) && !i.holds) broken("an entry fails its checksum", i.head);
    if (is_marked_in_vain(i)) broken("a node is deleted and linked, where nothing was being deleted", i.head);
    if (is_cut_off(i)) broken("nodes that were linked, and nothing leads there", i.head);
    single += !i.linked && is_candidate(i) && i.holds && format_.with_sums ? 1 : 0;
  }
  if (single > unlinked_a_thread * active_.threads) {
    broken("more nodes that nothing leads to than threads can have been about to link", about_.root);
  }
}

// ---- the root ----

void structure_reader::look_at_root() {
  const std::uint64_t root = about_.root;
  if (about_.place == 0) broken("it is in no directory", root);
  if (root == 0 || format_.kind == lockfree::layout::kind::none)
    return broken("nothing says where its root is", about_.place);
  if (!about_.is_root_owned) broken("its root is no run of it", root);
  if (format_.is_sealed) return look_at_sealed_root();
  if (format_.kind == lockfree::layout::kind::hash) return look_at_hash_root();
  has_root_ = about_.is_root_owned;
  const auto expect = [&](std::uint64_t magic, const char* what) {
    if (format_.word(root) == magic) return;
    has_root_ = false;
    broken(what, root);
  };
  if (format_.kind == lockfree::layout::kind::list) expect(lockfree::list_magic, "it is no root of a list");
  if (format_.is_tree()) {
    expect(lockfree::tree_magic, "it is no root of a tree");
    if ((format_.word(root + offsetof(lockfree::tree_root, top)) & lockfree::frozen) == 0) return;
    has_root_ = false;
    broken("the edge of its root is frozen", root);
  }
  if (!format_.has_skip_levels()) return;
  expect(lockfree::skip_magic, "it is no root of a skip list");
  for (unsigned i = 0; i < lockfree::skip_levels; ++i) {
    if ((format_.word(root + offsetof(lockfree::skip_root, first) - i * 8) & gone) == 0) continue;
    has_root_ = false;
    broken("a link of its root is marked, as those of deleted nodes are", root);
  }
}

void structure_reader::look_at_sealed_root() {
  lockfree::sealed_root r;
  std::memcpy(&r, base_ + about_.root, sizeof r);
  stored_seed_ = format_.seed = r.seed;
  const char* what = lockfree::sealed_root_fault(base_, about_.root);
  format_.is_seed_known = what == nullptr;
  if (what != nullptr) broken(what, about_.root);
}

void structure_reader::look_at_hash_root() {
  lockfree::hash_root r;
  std::memcpy(&r, base_ + about_.root, sizeof r);
  stored_seed_ = format_.seed = r.seed;
  stored_sum_ = r.seed_sum;
  format_.is_seed_known = r.seed_sum == 0 || r.seed_sum == lockfree::seed_sum_of(r.seed, about_.root);
  // The check that opening does, of which one fault is enough.
  if (const char* what = fault_of_hash_root(); what != nullptr) broken(what, about_.root);
  has_root_ = fault_ == nullptr;
  look_at_arrays(r);
}
const char* structure_reader::fault_of_hash_root() const {
  using shape = lockfree::word_hash_table<lockfree::volatile_memory>;
  return shape::root_fault(pages_, base_, about_.root, about_.owner);
}
// Looks for arrays that can be relied on.
void structure_reader::look_at_arrays(const lockfree::hash_root& r) {
  const std::uint64_t bits_at = about_.root + offsetof(lockfree::hash_root, bits);
  const std::uint64_t bits = r.bits & checked_mask;
  if (!word_holds(r.bits, word_seed(bits_at)) || bits == 0 || bits > 40) return;
  bits_ = all_bits_ = static_cast<unsigned>(bits);
  for (unsigned g = 0; g <= lockfree::hash_growths_max; ++g) {
    const std::uint64_t at = about_.root + offsetof(lockfree::hash_root, arrays) + g * 8;
    const std::uint64_t offset = r.arrays[g] & checked_mask;
    arrays_.push_back(0);
    if (offset == 0 || !word_holds(r.arrays[g], word_seed(at)) || offset % 8 != 0 || bits_ + g > 56) continue;
    const std::uint64_t bytes = std::uint64_t{8} << (g == 0 ? bits_ : bits_ + g - 1);
    const auto run = pages_.owned_at(offset);
    const bool is_its = run && run->offset == offset && run->owner == about_.owner &&
                        run->kind == layout::page_kind::run && run->bytes >= bytes;
    // Perhaps in pages that the page map has lost.
    const bool may_be = !run && in_pool(offset, bytes) && is_free(offset) && is_free(offset + bytes - 8);
    if (is_its || may_be) arrays_.back() = offset;
    if (has_root_) all_bits_ = bits_ + g;
  }
}

// ---- the seed, without which no seal holds and no hash gives its key ----

bool structure_reader::proves(std::uint64_t seed) const noexcept {
  if (!format_.is_sealed && stored_sum_ != 0 && stored_sum_ == lockfree::seed_sum_of(seed, about_.root)) return true;
  constexpr unsigned looked_at = 256;
  unsigned tried = 0;
  unsigned held = 0;
  for (const item& i : items_) {
    if (tried == looked_at) break;
    if (i.head == 0 || !format_.fits(i.head, room_after(i))) continue;
    if (format_.is_sealed) {
      if (!i.holds) continue;
      held += format_.seal_holds(i.head, seed) ? 1 : 0;
    } else {
      if (!format_.of_bytes || !format_.with_sums || !format_.sum_holds(i.head)) continue;
      const std::string key = format_.key(i.head);
      const auto* bytes = reinterpret_cast<const std::byte*>(key.data());
      held += checksum(bytes, key.size(), seed) == format_.order(i.head) ? 1 : 0;
    }
    ++tried;
  }
  // Sixty bits that agree are no chance.
  return held != 0;
}
// One byte of it may have changed.
void structure_reader::find_seed() {
  if (format_.is_seed_known || about_.root == 0) return;
  const auto is_it = [&](std::uint64_t seed) {
    if (!proves(seed)) return false;
    format_.seed = seed;
    return format_.is_seed_known = true;
  };
  if (is_it(stored_seed_)) return;
  for (unsigned byte = 0; byte < 8; ++byte) {
    for (std::uint64_t change = 1; change < 256; ++change) {
      if (is_it(stored_seed_ ^ change << 8 * byte)) return;
    }
  }
}

// ---- places ----

void structure_reader::list_places() {
  for (const owned_pages& p : pages_of(pages_, about_.owner)) {
    if (p.kind == layout::page_kind::coarse) {
      list_extent(p.offset, false);
    } else if (p.offset != about_.root && std::find(arrays_.begin(), arrays_.end(), p.offset) == arrays_.end()) {
      add_place(p.offset, p.bytes, true);
    }
  }
}

void structure_reader::list_extent(std::uint64_t extent, bool is_stray) {
  const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, pages_.sizes().page_shift);
  if (load_word(base_, extent) != extent_identity_word(extent, layout::page_kind::coarse)) return;
  const unsigned slots = size_of_nodes(base_, extent, shape);
  const unsigned c = slots == 0 ? lockfree::classes : lockfree::class_of_slots(slots);
  if (c == lockfree::classes) {
    if (!is_stray) broken("an extent of it does not say what is in it", extent);
    return;
  }
  for (unsigned w = 0; w < shape.words; ++w) {
    const std::uint64_t at = extent + layout::first_words_at + w * 8;
    const std::uint64_t word = load_word(base_, at);
    const std::uint64_t nodes = word_holds(word, word_seed(at)) ? word & checked_mask : 0;
    for (std::uint64_t left = lockfree::places_of_nodes(shape)[c][w]; left != 0; left &= left - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(left));
      const std::uint64_t start = extent + (w * checked_bits + bit) * lockfree::slot_bytes;
      add_place(start, lockfree::class_bytes(c), (nodes >> bit & 1) != 0, active_.guessed.contains(at));
    }
  }
}

// Lists strays among nodes that prove themselves.  An extent with an owner belongs to that.
void structure_reader::list_strays() {
  if (!format_.is_seed_known) return;
  const std::uint64_t end = round_down(pages_.size_pages(), layout::coarse_extent_pages);
  for (std::uint64_t page = 0; page < end; page += layout::coarse_extent_pages) {
    const std::uint64_t extent = pages_.sizes().page_offset(page);
    if (pages_.is_foreign(extent) || pages_.owned_at(extent)) continue;
    const std::size_t before = items_.size();
    list_extent(extent, true);
    std::size_t kept = before;
    for (std::size_t i = before; i < items_.size(); ++i) {
      if (items_[i].holds && format_.seal_holds(items_[i].head, format_.seed)) items_[kept++] = items_[i];
    }
    items_.resize(kept);
    if (kept != before) broken("nodes live in pages that the page map calls free", extent);
  }
}

void structure_reader::add_place(std::uint64_t start, std::uint64_t room, bool allocated, bool is_guessed) {
  if (format_.is_sealed) return add_live(start, room);
  item i{.start = start, .room = room, .head = format_.head_in(start), .allocated = allocated};
  if (i.head != 0 && room_after(i) < format_.node_bytes()) i.head = 0;
  i.fresh = active_.may_be_new(about_.owner, start);
  i.is_guessed = is_guessed;
  i.leaving = active_.may_be_leaving(about_.owner, start);
  by_start_.emplace(start, items_.size());
  items_.push_back(i);
}
// Adds the node in so many bytes whose seal says `live`.
void structure_reader::add_live(std::uint64_t start, std::uint64_t room) {
  const auto add = [&](std::uint64_t inside) {
    if (room <= inside || room - inside < format_.node_bytes()) return;
    const item i{.start = start, .room = room, .head = start + inside, .allocated = true, .holds = true};
    if (seal::state_of(format_.seal(i.head)) != seal::live || !format_.fits_in(i.head, room_after(i))) return;
    items_.push_back(i);
  };
  if (!format_.has_skip_levels()) return add(0);
  for (unsigned h = 1; h <= node_format::low_heights; ++h) add(h * std::uint64_t{8});
  add(node_format::tall_head);
}

}  // namespace nvm::care
