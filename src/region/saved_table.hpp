// The table of a set as a close has saved it: from the number of a region to its header (Lewat, section III-A).
//
// A clean close writes it to a run of its own and names the run beside the tally of the set (tally.hpp); the first
// change of the set makes all of that zero, durably, before anything else.  So a table that is named is up to date, and
// a killed process leaves none.  No fence orders its bytes before the name: the name has the checksum of the head, and
// the head those of all blocks; a torn or damaged table does not count, and headers are read instead.
//
// The next open reads the table through and no header.  An entry is made when its region is asked for, from the header
// that the table leads to, which must have this number, in a slot of this set; so a wrong table leads to no wrong
// region.  A header that fails is damage of that region alone, and is told each time the region is asked for.
//
// Threads: the caller holds the lock of the part.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "platform/platform.hpp"
#include "region/entry.hpp"
#include "region/places.hpp"
#include "region/region_layout.hpp"
#include "region/tally.hpp"
#include "space/space.hpp"

namespace nvm::region {

[[nodiscard]] constexpr std::uint64_t hash_of(std::uint64_t rid) noexcept {
  std::uint64_t h = rid * 0x9E3779B97F4A7C15ULL;
  h = (h ^ h >> 32) * 0xD6E8FEB86659FD93ULL;
  return h ^ h >> 29;
}

// Where the parts of a table are.
struct saved_view {
  std::uint64_t offset = 0;  // of the head; 0: there is none
  const layout::saved_head* head = nullptr;
  const layout::saved_cell* cells = nullptr;
  std::span<const std::uint64_t> extents;
  std::span<const std::uint64_t> slots;

  [[nodiscard]] static constexpr std::uint64_t buckets_of(std::uint64_t part) noexcept { return part >> 32; }
  [[nodiscard]] static constexpr std::uint64_t regions_of(std::uint64_t part) noexcept { return part & 0xFFFF'FFFF; }
  // Of the buckets, extents and slots.
  [[nodiscard]] static constexpr std::uint64_t data_bytes(const layout::saved_head& h) noexcept {
    std::uint64_t lines = 0;
    for (const std::uint64_t p : h.parts) lines += buckets_of(p);
    return lines * line_bytes + (h.extents + h.slots) * sizeof(std::uint64_t);
  }
  [[nodiscard]] static constexpr std::uint64_t blocks(const layout::saved_head& h) noexcept {
    return ceil_div(data_bytes(h), layout::saved_block_bytes);
  }
  [[nodiscard]] static constexpr std::uint64_t all_bytes(const layout::saved_head& h) noexcept {
    return sizeof h + data_bytes(h) + blocks(h) * sizeof(std::uint64_t);
  }
};

[[nodiscard]] inline std::uint64_t saved_crc(const layout::saved_head& h, std::uint64_t offset,
                                             std::uint64_t key) noexcept {
  return checksum(&h, offsetof(layout::saved_head, crc), mix_seed(key, offset));
}
// Of the block `i` of all that comes after the head.
[[nodiscard]] inline std::uint64_t saved_sum(const layout::saved_head& h, const std::byte* data, std::uint64_t i,
                                             std::uint64_t key) noexcept {
  const std::uint64_t first = i * layout::saved_block_bytes;
  const std::uint64_t n = std::min(layout::saved_block_bytes, saved_view::data_bytes(h) - first);
  return checksum(data + first, n, mix_seed(key, i));
}

// Cells that are in use in each part of a table, counted block by block, in any order, by any threads.
class cells_in_use {
 public:
  explicit cells_in_use(const layout::saved_head& h) noexcept : head_{h} {
    std::uint64_t sum = 0;
    for (unsigned p = 0; p < layout::saved_parts; ++p) {
      ends_[p] = sum += saved_view::buckets_of(h.parts[p]) * layout::saved_cells;
    }
  }
  void count_block(const std::byte* data, std::uint64_t i) noexcept {
    constexpr std::uint64_t in_block = layout::saved_block_bytes / sizeof(layout::saved_cell);
    const auto* const cells = reinterpret_cast<const layout::saved_cell*>(data);
    std::uint64_t at = i * in_block;
    const std::uint64_t end = std::min(at + in_block, ends_.back());
    auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
    for (; at < end; ++part) {
      std::uint64_t n = 0;
      for (const std::uint64_t stop = std::min(end, ends_[part]); at < stop; ++at) n += cells[at].place != 0 ? 1 : 0;
      used_[part].fetch_add(n, std::memory_order_relaxed);
    }
  }
  // As many as the head says.
  [[nodiscard]] bool match() const noexcept {
    for (unsigned p = 0; p < layout::saved_parts; ++p) {
      if (used_[p].load(std::memory_order_relaxed) != saved_view::regions_of(head_.parts[p])) return false;
    }
    return true;
  }

 private:
  const layout::saved_head& head_;
  std::array<std::uint64_t, layout::saved_parts> ends_{};
  std::array<std::atomic<std::uint64_t>, layout::saved_parts> used_{};
};
static_assert(layout::saved_block_bytes % sizeof(layout::saved_cell) == 0);

// What is wrong with the table that the entry at `at` names; nullptr: nothing, and `out` says where it is.  An entry
// that names none, or has no tally, is `no_table`.
inline constexpr char no_table[] = "no table was saved";  // one address in all programs
[[nodiscard]] inline const char* saved_fault(const std::byte* base, const region_pages& pages, std::uint16_t owner,
                                             std::uint64_t at, std::uint64_t key, unsigned parts,
                                             saved_view& out) noexcept {
  const auto& e = *reinterpret_cast<const layout::set_entry*>(base + at);
  const auto regions = counted_in(base, regions_word_at(at));
  const std::uint64_t word = e.saved;
  if (!regions || !counted_in(base, partners_word_at(at)) || word == 0) return no_table;
  if (!word_holds(word, word_seed(saved_word_at(at)))) return "the word that names the table fails its check";
  const std::uint64_t place = word & checked_mask;
  const auto run = pages.owned_at(place);
  if (!run || run->offset != place || run->owner != owner || run->protocol != nvm::layout::slot_protocol::region ||
      run->layout != nvm::layout::object_layout::raw || run->bytes < sizeof(layout::saved_head)) {
    return "the table is in no run of the set";
  }
  const auto& h = *reinterpret_cast<const layout::saved_head*>(base + place);
  if (h.magic != layout::saved_magic || h.crc != saved_crc(h, place, key) || h.crc != e.saved_crc) {
    return "the head of the table fails its check";
  }
  constexpr std::uint64_t words_max = std::uint64_t{1} << 40;
  std::uint64_t sum = 0;
  for (const std::uint64_t p : h.parts) {
    sum += saved_view::regions_of(p);
    if (saved_view::regions_of(p) > saved_view::buckets_of(p) * layout::saved_cells) return "the table has no room";
  }
  if (h.extents > words_max || h.slots > words_max || saved_view::all_bytes(h) > run->bytes || sum != h.regions ||
      h.regions != *regions) {
    return "the head of the table says what cannot be";
  }
  const std::byte* const data = base + place + sizeof h;
  const auto* const sums = reinterpret_cast<const std::uint64_t*>(data + saved_view::data_bytes(h));
  const std::uint64_t blocks = saved_view::blocks(h);
  if (h.sums_crc != checksum(sums, blocks * sizeof *sums, key)) return "the sums of the table fail their check";
  std::atomic<bool> holds{true};
  cells_in_use used{h};
  platform::run_parts(parts, [&](unsigned part) noexcept {
    for (std::uint64_t i = blocks * part / parts; i < blocks * (part + 1) / parts; ++i) {
      if (saved_sum(h, data, i, key) != sums[i]) holds.store(false, std::memory_order_relaxed);
      used.count_block(data, i);
    }
  });
  if (!holds.load(std::memory_order_relaxed)) return "the table fails its check";
  if (!used.match()) return "the table has another number of regions than its head says";
  out.offset = place;
  out.head = &h;
  out.cells = reinterpret_cast<const layout::saved_cell*>(data);
  const auto* const words =
      reinterpret_cast<const std::uint64_t*>(data + saved_view::data_bytes(h)) - h.slots - h.extents;
  out.extents = {words, h.extents};
  out.slots = {words + h.extents, h.slots};
  return nullptr;
}

// A table that holds, and which of its regions have no entry yet.
class saved_table {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  // May throw std::bad_alloc.  `taken`: of each part, cells that have entries already; empty: none has.
  using bits = std::array<std::vector<std::uint64_t>, layout::saved_parts>;
  saved_table(const std::byte* base, const region_pages& pages, std::uint16_t owner, std::uint64_t key,
              const saved_view& v, bits taken = {})
      : base_{base}, pages_{pages}, owner_{owner}, key_{key}, view_{v}, taken_{std::move(taken)} {
    for (unsigned p = 0; p < layout::saved_parts; ++p) {
      const std::uint64_t part = v.head->parts[p];
      first_[p] = p == 0 ? 0 : first_[p - 1] + buckets_[p - 1];
      buckets_[p] = saved_view::buckets_of(part);
      taken_[p].resize(ceil_div(buckets_[p] * layout::saved_cells, std::uint64_t{64}));
      std::uint64_t left = saved_view::regions_of(part);
      for (const std::uint64_t word : taken_[p]) left -= static_cast<std::uint64_t>(std::popcount(word));
      left_[p].store(left, std::memory_order_relaxed);
    }
  }

  // Regions that have no entry.  acquire: pairs with take(): those that have are in the table.
  [[nodiscard]] std::uint64_t left(unsigned part) const noexcept { return left_[part].load(std::memory_order_acquire); }

  // The cell of a region that has no entry; none: it has one, or is not there.
  [[nodiscard]] std::uint64_t find(unsigned part, std::uint64_t rid) const noexcept {
    if (left_[part].load(std::memory_order_relaxed) == 0) return none;
    const std::uint64_t i = cell_of(view_.cells + first_[part] * layout::saved_cells, buckets_[part], rid);
    return i == none || is_taken(part, i) ? none : i;
  }
  // The cell of a number, with or without entry; none.
  [[nodiscard]] static std::uint64_t cell_of(const layout::saved_cell* cells, std::uint64_t buckets,
                                             std::uint64_t rid) noexcept {
    if (buckets == 0) return none;
    std::uint64_t b = bucket_of(rid, buckets);
    for (std::uint64_t n = 0; n < buckets; ++n) {
      for (unsigned c = 0; c < layout::saved_cells; ++c) {
        const layout::saved_cell& cell = cells[b * layout::saved_cells + c];
        if (cell.place == 0) return none;
        if (cell.rid == rid) return b * layout::saved_cells + c;
      }
      b = b + 1 == buckets ? 0 : b + 1;
    }
    return none;
  }
  // Puts a number that is not there yet; there is room.
  static std::uint64_t put(layout::saved_cell* cells, std::uint64_t buckets, const layout::saved_cell& what) noexcept {
    for (std::uint64_t b = bucket_of(what.rid, buckets);; b = b + 1 == buckets ? 0 : b + 1) {
      for (unsigned c = 0; c < layout::saved_cells; ++c) {
        layout::saved_cell& cell = cells[b * layout::saved_cells + c];
        if (cell.place != 0) continue;
        cell = what;
        return b * layout::saved_cells + c;
      }
    }
  }
  [[nodiscard]] static constexpr std::uint64_t buckets_for(std::uint64_t regions) noexcept {
    return ceil_div(regions, std::uint64_t{layout::saved_cells - 1});
  }

  // Makes an entry from the header that the cell leads to.  errc::corrupt, no_memory.
  [[nodiscard]] result<std::unique_ptr<entry>> make(unsigned part, std::uint64_t i) const noexcept try {
    const layout::saved_cell cell = at(part, i);
    const unsigned in_class = layout::class_in(cell.place);
    const std::uint64_t header = layout::offset_of(cell.place);
    const char* what = "a region has no header where the table that was saved leads to";
    layout::facts f;
    const bool is_slot = !layout::is_of_partners(in_class) && is_slot_of(base_, pages_, owner_, cell.place);
    if (is_slot) {
      const char* const fault = header_fault(base_, header, in_class, key_, f);
      if (fault != nullptr || (f.where != layout::state::free && f.rid == cell.rid)) what = fault;
    }
    auto made = std::make_unique<entry>();
    if (what == nullptr) what = fill_entry(*made, f, header, in_class, pages_, owner_);
    if (what != nullptr) return fail(errc::corrupt, "region %lu: %s, at offset %lu", cell.rid, what, header);
    return made;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a region");
  }
  // Notes that the region has an entry, which is in the table.
  void take(unsigned part, std::uint64_t i) noexcept {
    taken_[part][i / 64] |= std::uint64_t{1} << i % 64;
    // release: pairs with left().
    left_[part].store(left_[part].load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  // Calls visit(cell, content) for cells without entry, until it returns false.
  template <class Visit>
  bool each_left(unsigned part, Visit&& visit) const {
    if (left_[part].load(std::memory_order_relaxed) == 0) return true;
    for (std::uint64_t i = 0; i < buckets_[part] * layout::saved_cells; ++i) {
      if (at(part, i).place != 0 && !is_taken(part, i) && !visit(i, at(part, i))) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] static std::uint64_t bucket_of(std::uint64_t rid, std::uint64_t buckets) noexcept {
    // The upper half: parts are told apart by the lowest bits.
    return (hash_of(rid) >> 32) * buckets >> 32;
  }
  [[nodiscard]] const layout::saved_cell& at(unsigned part, std::uint64_t i) const noexcept {
    return view_.cells[first_[part] * layout::saved_cells + i];
  }
  [[nodiscard]] bool is_taken(unsigned part, std::uint64_t i) const noexcept {
    return (taken_[part][i / 64] >> i % 64 & 1) != 0;
  }

  const std::byte* base_;
  const region_pages& pages_;
  const std::uint16_t owner_;
  const std::uint64_t key_;
  const saved_view view_;
  std::array<std::uint64_t, layout::saved_parts> first_{};
  std::array<std::uint64_t, layout::saved_parts> buckets_{};
  bits taken_;
  std::array<std::atomic<std::uint64_t>, layout::saved_parts> left_{};
};

}  // namespace nvm::region
