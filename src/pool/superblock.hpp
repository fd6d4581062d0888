// The superblock as pure functions over (base, bytes): pick the copy that counts, check every field, write a change.
//
// Copy A (page 0) holds even sequences, copy B (page 1) odd ones, so a copy that a device wrote to the other's place
// fails.  Of two copies that hold, the one with the larger sequence counts; between two changes both hold and are
// equal, so damage to one loses nothing.
//
// Change of the superblock.  S store, F flush, | fence.  Unit of failure atomicity: a copy proves itself by its crc.
//   1. S the copy that does not count, sequence n + 1; F it;   | E1  commit point: the newer copy counts from here on
//   2. S the copy that counted, sequence n + 2; F it;          | E2  both whole before the next change tears one
// Recovery: nothing to do; picking is choosing.  A crash before E1 leaves the old copy untouched; one between E1 and E2
// leaves the new copy untouched, and the next change begins with the other one again.
//
// Threads: none of its own; the caller lets one thread at a time change a superblock.
#pragma once

#include <cstring>

#include "base/base.hpp"
#include "media/concept.hpp"
#include "pool/engines.hpp"
#include "pool/geometry.hpp"
#include "pool/pool_layout.hpp"

namespace nvm {

// Feature bits that this library knows.
inline constexpr std::uint32_t features_compat_known = layout::feature_untyped_bytes | layout::feature_holes;
inline constexpr std::uint32_t features_ro_compat_known = 0;
inline constexpr std::uint32_t features_incompat_known =
    layout::feature_engine | layout::feature_aligned | layout::feature_regions | layout::feature_bases |
    layout::feature_references | layout::feature_numbers | layout::feature_straight | layout::feature_statics |
    layout::feature_stores | layout::feature_tier | layout::feature_store_kv | layout::feature_untyped_statics |
    layout::feature_reset | layout::feature_store_structures;
// Feature bits that a pool may get while it is open.
inline constexpr std::uint32_t features_incompat_added =
    layout::feature_aligned | layout::feature_regions | layout::feature_references | layout::feature_straight |
    layout::feature_statics | layout::feature_stores | layout::feature_tier | layout::feature_store_kv |
    layout::feature_untyped_statics | layout::feature_reset | layout::feature_store_structures;
// Feature bits that come and go.
inline constexpr std::uint32_t features_incompat_passing = layout::feature_bases | layout::feature_numbers;
inline constexpr std::uint32_t features_compat_added = layout::feature_untyped_bytes | layout::feature_holes;

inline constexpr std::uint32_t lane_count_max = 1024;
inline constexpr std::uint64_t superblock_seed = layout::pool_magic;

// Bytes from the start of a file that hold both copies with every page size.
inline constexpr std::size_t superblock_probe_bytes = (std::size_t{1} << layout::page_shift_max) + sector_bytes;

inline std::uint64_t superblock_crc(const layout::superblock& sb) noexcept {
  return checksum(&sb, offsetof(layout::superblock, crc), superblock_seed);
}
constexpr unsigned superblock_copy_of(std::uint64_t sequence) noexcept { return static_cast<unsigned>(sequence & 1); }

inline constexpr std::uint32_t last_medium = NVM_MEDIUM_SSD;

// Whether a process works in a private image of the file, whose changes a ring of records brings to the file: all pools
// made for ssd but those whose log is the only copy of their data.
[[nodiscard]] constexpr bool has_image(const layout::superblock& sb) noexcept {
  return sb.medium == NVM_MEDIUM_SSD && !engine_of(sb.engine).is_its_log();
}

// Contents of the log area. In an image transactions keep old bytes in volatile memory, and there are no lanes.
[[nodiscard]] constexpr log_kind log_of(const layout::superblock& sb) noexcept {
  return has_image(sb) ? log_kind::lanes : engine_of(sb.engine).log;
}

// Name of a medium for messages: "shm", "dax", "auto", "ssd", or "?".
[[nodiscard]] const char* medium_name(std::uint32_t medium) noexcept;

// Superblock of a new pool, sequence 2 (so that copy A counts), state open, not at any address yet.  errc::invalid or
// errc::too_large when the request is out of its domain.
struct superblock_request {
  geometry_request shape;
  std::uint32_t medium = 0;
  std::uint32_t engine = 0;      // enum nvm_engine
  std::uint32_t validation = 0;  // enum nvm_validation
  std::uint8_t uuid[16] = {};
  std::uint64_t base_address = 0;
  std::uint64_t created_unix_s = 0;
};
[[nodiscard]] result<layout::superblock> make_superblock(const superblock_request& request) noexcept;

// Both copies of `sb` as a new pool has them: sequence 2 in A, 1 in B.
void seal_superblocks(const layout::superblock& sb, layout::superblock copies[2]) noexcept;

// Formats an image of geometry_of(sb).size_bytes() zero bytes in memory, no fences: the way tests and fuzzers make
// pools.  Everything but the two superblocks is zero in an empty pool.
void format_image(std::byte* base, const layout::superblock& sb) noexcept;

// The superblock that counts, every field checked against the others and against `pool_bytes`, the length of the file
// or image.  `available` bytes at `base` may be read; fewer than superblock_probe_bytes only if the file is shorter.
//   errc::not_a_pool  empty, truncated, foreign, or left over from an interrupted creation
//   errc::version     newer format, unknown incompatible feature
//   errc::corrupt     no copy holds, or one that holds contradicts itself or the other
[[nodiscard]] result<layout::superblock> pick_superblock(const std::byte* base, std::size_t available,
                                                         std::uint64_t pool_bytes) noexcept;
[[nodiscard]] inline result<layout::superblock> pick_superblock(const std::byte* base, std::size_t bytes) noexcept {
  return pick_superblock(base, bytes, bytes);
}

// Whether `newer` has the constant fields of `older`, and at least its features, but for those that come and go.
[[nodiscard]] bool is_of_same_pool(const layout::superblock& older, const layout::superblock& newer) noexcept;

// The checks of pick_superblock() on one superblock whose crc holds.
[[nodiscard]] status check_superblock(const layout::superblock& sb, std::uint64_t pool_bytes) noexcept;

// A feature forbids this library to change the pool.
[[nodiscard]] inline bool must_be_read_only(const layout::superblock& sb) noexcept {
  return (sb.features_ro_compat & ~features_ro_compat_known) != 0;
}

// Gives the pool the caller's changes of `sb` (the picked superblock), by the steps at the head of this file.
template <media M>
void write_superblock(M& m, std::byte* base, layout::superblock& sb) noexcept {
  const geometry g = geometry_of(sb);
  const auto write = [&]() noexcept {
    ++sb.sequence;
    sb.crc = superblock_crc(sb);
    std::byte* place = base + g.superblock_at(superblock_copy_of(sb.sequence));
    std::memcpy(place, &sb, sizeof sb);
    if (!planted(plant::pages_before_size)) m.flush(place, sizeof sb);
  };
  write();
  m.fence(edge{"pool/E1"});
  write();
  m.fence(edge{"pool/E2"});
}

// ---- anchors: what transactions change in the header pages ----------------------------------------------------------

// The words of an anchor: the root object, the type map, the directory of key-value stores, that of lock-free
// structures, the root of the log-structured heap, the directory of sets of regions, the rings of activation records,
// and the catalogue of object stores.
enum class anchor_word : unsigned {
  root = 0,
  types = 1,
  stores = 2,
  lockfree = 3,
  log_heap = 4,
  regions = 5,
  references = 6,
  catalogue = 7
};
inline constexpr unsigned anchor_words = 8;
[[nodiscard]] const char* name_of(anchor_word which) noexcept;

// Offset of a word in anchor `copy` (0 or 1): a checked word whose seed is word_seed(this offset).
[[nodiscard]] inline std::uint64_t anchor_word_at(const geometry& g, unsigned copy, anchor_word which) noexcept {
  return g.anchor_at(copy) + static_cast<unsigned>(which) * sizeof(std::uint64_t);
}
static_assert(offsetof(layout::anchor, root) == 0 && offsetof(layout::anchor, types) == sizeof(std::uint64_t) &&
              offsetof(layout::anchor, stores) == 2 * sizeof(std::uint64_t) &&
              offsetof(layout::anchor, lockfree) == 3 * sizeof(std::uint64_t) &&
              offsetof(layout::anchor, log_heap) == 4 * sizeof(std::uint64_t) &&
              offsetof(layout::anchor, regions) == 5 * sizeof(std::uint64_t) &&
              offsetof(layout::anchor, references) == 6 * sizeof(std::uint64_t) &&
              offsetof(layout::anchor, catalogue) == 7 * sizeof(std::uint64_t));
// The same for the words that name objects. If objects have virtual addresses, the first object has these words, as two
// anchors one after the other. It has room for the first five; the rings of activation records take the place of
// lock-free structures, of which such pools have none.
inline constexpr unsigned object_words = 5;
[[nodiscard]] inline std::uint64_t object_word_at(const geometry& g, unsigned copy, anchor_word which) noexcept {
  if (g.home_bytes == 0) return anchor_word_at(g, copy, which);
  const anchor_word place = which == anchor_word::references ? anchor_word::lockfree : which;
  return g.home_offset() + (copy * object_words + static_cast<unsigned>(place)) * sizeof(std::uint64_t);
}
inline constexpr std::uint64_t object_words_bytes = 2 * std::uint64_t{object_words} * sizeof(std::uint64_t);
[[nodiscard]] inline std::uint64_t root_word_at(const geometry& g, unsigned copy) noexcept {
  return anchor_word_at(g, copy, anchor_word::root);
}

// The place that a word names, 0 when unset, of a recovered pool.  A copy that fails its check is replaced by the other
// in the answer; errc::corrupt when none holds, when they differ, or when the place lies outside the data.
[[nodiscard]] result<std::uint64_t> read_anchor_word(const std::byte* base, const geometry& g,
                                                     anchor_word which) noexcept;
[[nodiscard]] inline result<std::uint64_t> read_root(const std::byte* base, const geometry& g) noexcept {
  return read_anchor_word(base, g, anchor_word::root);
}

// errc::corrupt when an anchor holds anything but words that check; for the full check.
[[nodiscard]] status check_anchor(const std::byte* base, const geometry& g, unsigned copy) noexcept;

}  // namespace nvm
