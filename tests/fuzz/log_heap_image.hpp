// Contents of a log-structured heap, read byte by byte, without the heap's own code except the checks of words and
// blocks: for edits that know what they change, and for a second opinion on recovery.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "logheap/block.hpp"
#include "pool/pool.hpp"

namespace nvm::fuzz {

namespace log_layout = nvm::logheap::layout;

struct log_block {
  logheap::block_place place;
  log_layout::block_header header{};
  std::size_t chunk = 0;  // its number in the list
};
struct log_chunk {
  std::uint64_t offset = 0;
  std::uint64_t use = 0;  // content of the word
  bool has_end = false;   // of this use, and not by a cleaner
  std::uint64_t end = 0;
  bool stops_early = false;  // what does not hold comes before the end
};
struct log_heap_image {
  bool whole = false;  // root, and the list of chunks
  std::uint64_t root_at = 0;
  log_layout::root root{};
  std::vector<log_chunk> chunks;
  std::vector<log_block> blocks;  // those that hold, of each chunk up to the first that does not
  std::vector<log_block> behind;  // and those after it
};

[[nodiscard]] inline std::uint64_t word_of(const std::byte* base, std::uint64_t at) noexcept {
  std::uint64_t w = 0;
  std::memcpy(&w, base + at, sizeof w);
  return w;
}
[[nodiscard]] inline bool checked(const std::byte* base, std::uint64_t at) noexcept {
  return word_holds(word_of(base, at), word_seed(at));
}

[[nodiscard]] inline log_heap_image read_log_heap(const std::byte* base, const geometry& g) {
  log_heap_image out;
  for (unsigned copy = 2; copy-- != 0;) {
    const std::uint64_t at = anchor_word_at(g, copy, anchor_word::log_heap);
    if (checked(base, at) && (word_of(base, at) & checked_mask) != 0) out.root_at = word_of(base, at) & checked_mask;
  }
  if (!g.in_data(out.root_at, sizeof out.root)) return out;
  std::memcpy(&out.root, base + out.root_at, sizeof out.root);
  const std::uint64_t chunk_bytes = out.root.chunk_bytes;
  if (chunk_bytes < log_layout::chunk_bytes_min || chunk_bytes > log_layout::chunk_bytes_max) return out;
  std::set<std::uint64_t> met;
  for (std::uint64_t at = out.root.first_chunk & checked_mask; at != 0;) {
    if (!g.in_data(at, chunk_bytes) || at % line_bytes != 0 || !met.insert(at).second) return out;
    log_chunk c;
    c.offset = at;
    c.use = word_of(base, at + offsetof(log_layout::chunk_header, use)) & checked_mask;
    const std::uint64_t generation = log_layout::generation_of(c.use);
    const std::uint64_t end_at = at + offsetof(log_layout::chunk_header, end);
    const std::uint64_t end = word_of(base, end_at) & checked_mask;
    c.has_end = checked(base, end_at) && log_layout::bound_to(end, generation) && !log_layout::by_cleaner(c.use) &&
                static_cast<std::uint32_t>(end) <= chunk_bytes;
    c.end = c.has_end ? static_cast<std::uint32_t>(end) : chunk_bytes;
    const auto use = log_layout::use_of(c.use);
    bool stopped = false;
    std::uint64_t inside = sizeof(log_layout::chunk_header);
    while (use != log_layout::chunk_use::free && use != log_layout::chunk_use::saved && inside < c.end) {
      log_block b;
      b.place = {at, inside, generation, out.root.key};
      b.chunk = out.chunks.size();
      const bool holds = logheap::inspect_block(base, b.place, chunk_bytes, b.header) == logheap::block_fault::none;
      if (!holds || inside + b.header.bytes > c.end) {
        stopped = true;
        inside += log_layout::block_align;
        continue;
      }
      inside += round_up(b.header.bytes, log_layout::block_align);
      (stopped ? out.behind : out.blocks).push_back(b);
    }
    c.stops_early = stopped && c.has_end;
    out.chunks.push_back(c);
    at = word_of(base, at + offsetof(log_layout::chunk_header, next)) & checked_mask;
  }
  out.whole = true;
  return out;
}

// The objects, and what is known of their bytes, if all of these blocks count.
struct log_contents {
  struct cell {
    std::uint64_t version = 0;
    std::byte value{};
  };
  struct object {
    std::uint64_t size = 0;
    std::uint64_t version = 0;
    bool exists = false;
  };
  std::map<std::uint64_t, object> objects;  // by home address
  std::map<std::uint64_t, cell> cells;
  bool fit = true;  // all entries fit their blocks and the home space
  // A heap may have written all of it: one version is one transaction, objects lie in slots of superblocks of one size
  // or in runs that do not overlap, what is freed was there, and nothing has been counted for a thousand years.
  bool plausible = true;
};

// The addresses that an object keeps from objects of another size: a superblock of slots, or a run of units.
struct home_extent {
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::uint64_t slot_bytes = 0;
  bool aligned = false;  // the object begins where a slot does
  friend bool operator==(const home_extent&, const home_extent&) = default;
  [[nodiscard]] bool overlaps(const home_extent& o) const { return from < o.from + o.bytes && o.from < from + bytes; }
};
// As home_space.hpp makes them.
[[nodiscard]] inline home_extent extent_of(const log_layout::root& r, std::uint64_t home, std::uint64_t size) noexcept {
  const std::uint64_t inside = home - r.home_first;
  const std::uint64_t unit = r.superblock_bytes / 8;
  for (std::uint64_t slot = 16; slot <= unit; slot += std::max<std::uint64_t>(16, round_down(slot / 8, 16))) {
    if (size > slot) continue;
    const std::uint64_t at = inside % r.superblock_bytes;
    return {home - at, r.superblock_bytes, slot, at % slot == 0 && at / slot < r.superblock_bytes / slot};
  }
  return {home, round_up(size, unit), round_up(size, unit), inside % unit == 0};
}

[[nodiscard]] inline log_contents contents_of(const std::byte* base, const log_layout::root& r,
                                              const std::vector<log_block>& blocks) {
  using logheap::entry;
  log_contents out;
  constexpr std::uint64_t bytes_max = 65536;                          // of one object that is looked at
  constexpr std::uint64_t counted_max = log_layout::version_max / 2;  // beyond, there is not always a next one
  struct named {
    std::uint64_t home, version;
    home_extent extent;
  };
  std::vector<named> allocations, tombstones;
  std::map<std::uint64_t, std::vector<const log_block*>> transactions;
  const auto look_at = [&](const log_block& b, const entry& e) {
    const std::uint64_t version = b.header.version;
    if (e.home < r.home_first || !range_inside(e.home - r.home_first, e.size, r.home_bytes)) {
      out.fit = false;
      return;
    }
    if (e.kind != log_layout::entry_kind::update) {
      const bool exists = e.kind != log_layout::entry_kind::tombstone;
      (exists ? allocations : tombstones).push_back({e.home, version, extent_of(r, e.home, e.size)});
      auto& o = out.objects[e.home];
      if (version == o.version && (o.size != e.size || o.exists != exists)) out.plausible = false;
      if (version > o.version) o = {e.size, version, exists};
    }
    if (!log_layout::has_contents(e.kind)) return;
    for (std::uint64_t i = 0; i < std::min(e.size, bytes_max); ++i) {
      auto& c = out.cells[e.home + i];
      const std::byte value = base[e.log + i];
      if (version == c.version && c.value != value) out.plausible = false;
      if (version > c.version) c = {version, value};
    }
  };
  out.plausible = (r.through & checked_mask) <= counted_max && (r.session & checked_mask) <= counted_max;
  for (const log_block& b : blocks) {
    if (b.header.version > counted_max) out.plausible = false;
    if ((b.header.flags & log_layout::block_moved) == 0) transactions[b.header.version].push_back(&b);
    const bool fits = for_each_entry(base, b.place, b.header, [&](const entry& e) { look_at(b, e); });
    out.fit = out.fit && fits;
  }
  // Blocks of one version lead to each other, as far as they are there: one cycle, or pieces of one.
  for (const auto& [version, own] : transactions) {
    const auto at = [&own = own](std::uint64_t offset) -> const log_block* {
      const auto b =
          std::find_if(own.begin(), own.end(), [&](const log_block* x) { return x->place.offset() == offset; });
      return b == own.end() ? nullptr : *b;
    };
    std::set<std::uint64_t> peers;
    for (const log_block* first : own) {
      if (!peers.insert(logheap::peer_of(first->header)).second) out.plausible = false;
      std::size_t met = 1;
      const log_block* b = at(logheap::peer_of(first->header));
      for (; b != nullptr && b != first && met <= own.size(); b = at(logheap::peer_of(b->header))) ++met;
      if (b == first && met != own.size()) out.plausible = false;
    }
  }
  // Entries of a slot or run that is used otherwise now are in the log no more, but tombstones may be.
  for (const named& a : allocations) {
    if (!a.extent.aligned) out.plausible = false;
    const auto fits = [&a](const named& o) {
      home_extent mine = a.extent, other = o.extent;
      return !mine.overlaps(other) || (mine == other && (mine.bytes != mine.slot_bytes || a.home == o.home));
    };
    for (const named& o : allocations) out.plausible = out.plausible && fits(o);
    for (const named& t : tombstones) out.plausible = out.plausible && (t.version < a.version || fits(t));
  }
  return out;
}

}  // namespace nvm::fuzz
