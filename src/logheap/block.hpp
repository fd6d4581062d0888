// Transaction blocks as bytes: making them, and reading them where the bytes may be anything.
//
// Pure functions over (base, chunk).  No header can make them read beyond the chunk.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "logheap/logheap_layout.hpp"
#include "logheap/mapping.hpp"

namespace nvm::logheap {

// Where a block stands, and what its checks are bound to.
struct block_place {
  std::uint64_t chunk = 0;       // offset of the chunk in the pool
  std::uint64_t at = 0;          // of the block in the chunk
  std::uint64_t generation = 0;  // of the chunk
  std::uint64_t key = 0;         // of the heap

  [[nodiscard]] std::uint64_t offset() const noexcept { return chunk + at; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return mix_seed(mix_seed(key, offset()), generation); }
};

inline std::uint32_t header_check_of(const layout::block_header& h, const block_place& p) noexcept {
  return static_cast<std::uint32_t>(checksum(&h, offsetof(layout::block_header, header_check), p.seed()));
}
inline std::uint32_t content_check_of(const std::byte* block, std::uint64_t bytes, const block_place& p) noexcept {
  constexpr std::uint64_t from = sizeof(layout::block_header);
  return static_cast<std::uint32_t>(checksum(block + from, bytes - from, ~p.seed()));
}

// Findings about a position in a chunk.
enum class block_fault : std::uint8_t {
  none,
  no_header,  // no block: nothing was written, or a header that is torn or damaged
  content,    // the header holds, the rest does not
};
// `h` becomes the header, if there is one.
inline block_fault inspect_block(const std::byte* base, const block_place& p, std::uint64_t chunk_bytes,
                                 layout::block_header& h) noexcept {
  if (p.at < sizeof(layout::chunk_header) || p.at > chunk_bytes - sizeof h || p.at % layout::block_align != 0) {
    return block_fault::no_header;
  }
  const std::byte* block = base + p.offset();
  std::memcpy(&h, block, sizeof h);
  if (h.version == 0 || h.version > layout::version_max || h.bytes < sizeof h || h.bytes > chunk_bytes - p.at ||
      h.header_check != header_check_of(h, p)) {
    return block_fault::no_header;
  }
  if (h.content_check != content_check_of(block, h.bytes, p)) return block_fault::content;
  return block_fault::none;
}
// Bytes from there to the next place to look at: after this block, if its header holds; otherwise the next possible
// place.
inline std::uint64_t step_over(block_fault fault, const layout::block_header& h) noexcept {
  return fault == block_fault::no_header ? layout::block_align : round_up(h.bytes, layout::block_align);
}
inline std::uint64_t peer_of(const layout::block_header& h) noexcept {
  return h.peer_and_count & ((std::uint64_t{1} << layout::peer_bits) - 1);
}
inline unsigned count_of(const layout::block_header& h) noexcept {
  return static_cast<unsigned>(h.peer_and_count >> layout::peer_bits);
}

struct entry {
  layout::entry_kind kind = layout::entry_kind::update;
  home_t home = 0;
  std::uint64_t size = 0;  // bytes
  log_t log = 0;           // of its contents, if it has any
  log_t self = 0;          // of the entry
};
// Bytes from its home on that tell which slots it is about: an object has one slot, however large a damaged entry says
// it is.
inline std::uint64_t bytes_in_slots(const entry& e) noexcept {
  return e.kind == layout::entry_kind::update ? e.size : 1;
}
inline std::uint64_t words_of(const entry& e, bool allocations) noexcept {
  const bool is_short = e.size <= layout::short_size_max &&
                        (e.kind == layout::entry_kind::tombstone ||
                         e.kind == (allocations ? layout::entry_kind::allocation : layout::entry_kind::update));
  return is_short ? 1 : 2;
}
// Stores the entry, returns its words.
inline std::uint64_t put_entry(std::uint64_t* to, const entry& e, bool allocations) noexcept {
  const bool is_tombstone = e.kind == layout::entry_kind::tombstone;
  to[0] = e.home | std::uint64_t{is_tombstone} << layout::home_shift_tombstone;
  if (words_of(e, allocations) == 1) {
    to[0] |= e.size << layout::home_shift_size;
    return 1;
  }
  to[1] = e.size | std::uint64_t(e.kind) << 48;
  return 2;
}

// Reads the entry at `at` of a block; `at` moves after it.  False: none can be there.
[[nodiscard]] inline bool next_entry(const std::byte* base, const block_place& p, const layout::block_header& h,
                                     std::uint64_t& at, entry& e) noexcept {
  const auto load = [&](std::uint64_t from) {
    std::uint64_t word = 0;
    std::memcpy(&word, base + p.offset() + from, 8);
    return word;
  };
  const bool allocations = (h.flags & layout::block_allocations) != 0;
  if (at > h.bytes - 8 || h.bytes < 8) return false;
  const std::uint64_t word = load(at);
  e.self = p.offset() + at;
  at += 8;
  e.home = word & layout::home_mask;
  e.size = word >> layout::home_shift_size;
  const bool is_tombstone = (word >> layout::home_shift_tombstone & 1) != 0;
  e.kind = is_tombstone ? layout::entry_kind::tombstone
                        : (allocations ? layout::entry_kind::allocation : layout::entry_kind::update);
  if (e.size == 0) {
    if (at > h.bytes - 8) return false;
    const std::uint64_t wide = load(at);
    at += 8;
    e.size = wide & ((std::uint64_t{1} << 48) - 1);
    const std::uint64_t kind = wide >> 48;
    if (kind > std::uint64_t(layout::entry_kind::tombstone) || (kind == 3) != is_tombstone) return false;
    e.kind = static_cast<layout::entry_kind>(kind);
  }
  return e.size != 0 && range_inside(e.home, e.size, home_end);
}
// Where the contents begin, after the last entry; 0: the entries do not fit the block or the home space.
[[nodiscard]] inline std::uint64_t contents_at(const std::byte* base, const block_place& p,
                                               const layout::block_header& h) noexcept {
  std::uint64_t at = sizeof h;
  std::uint64_t contents = 0;
  entry e;
  for (unsigned i = 0; i < count_of(h); ++i) {
    if (!next_entry(base, p, h, at, e)) return 0;
    if (!layout::has_contents(e.kind)) continue;
    if (e.size > h.bytes) return 0;
    contents += e.size;
  }
  return contents == h.bytes - at ? at : 0;
}

// Calls visit(const entry&) for each entry, in order, of a block in which inspect_block() found no fault.  False: the
// entries do not fit the block or the home space, as in a forged block; none was visited.
template <class Visit>
[[nodiscard]] bool for_each_entry(const std::byte* base, const block_place& p, const layout::block_header& h,
                                  Visit&& visit) noexcept(std::is_nothrow_invocable_v<Visit, const entry&>) {
  std::uint64_t log = contents_at(base, p, h);
  if (log == 0) return false;
  std::uint64_t at = sizeof h;
  entry e;
  for (unsigned i = 0; i < count_of(h); ++i) {
    (void)next_entry(base, p, h, at, e);
    e.log = 0;
    if (layout::has_contents(e.kind)) {
      e.log = p.offset() + log;
      log += e.size;
    }
    visit(static_cast<const entry&>(e));
  }
  return true;
}

// The bits of `flags` that prove the entries, and the header's words about them, where contents do not hold.
inline std::uint32_t entry_check_of(const std::byte* block, std::uint64_t contents_at, const layout::block_header& h,
                                    const block_place& p) noexcept {
  const std::uint64_t seed = mix_seed(p.seed(), h.version ^ std::uint64_t{h.bytes} << 32 ^ count_of(h));
  const std::uint64_t sum = checksum(block + sizeof h, contents_at - sizeof h, seed);
  return static_cast<std::uint32_t>(sum) << layout::entry_check_shift | layout::block_entries_checked;
}
[[nodiscard]] inline bool entries_hold(const std::byte* base, const block_place& p,
                                       const layout::block_header& h) noexcept {
  constexpr std::uint32_t ours = ~std::uint32_t{0} << layout::entry_check_shift | layout::block_entries_checked;
  if ((h.flags & layout::block_entries_checked) == 0) return false;
  const std::uint64_t contents = contents_at(base, p, h);
  return contents != 0 && (h.flags & ours) == entry_check_of(base + p.offset(), contents, h, p);
}

}  // namespace nvm::logheap
