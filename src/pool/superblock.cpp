#include "pool/superblock.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "nvm/nvm.h"
#include "pool/base_history.hpp"

namespace nvm {
namespace {

using layout::superblock;

constexpr std::size_t constant_bytes = offsetof(superblock, sequence);

// Finding at one place of a superblock.
enum class finding { absent, zero, foreign, torn, misplaced, holds };

struct copy_found {
  finding what = finding::absent;
  std::uint64_t offset = 0;
  std::uint64_t crc_expected = 0;
  superblock sb{};
};

bool all_zero(const void* p, std::size_t bytes) noexcept {
  const auto* byte = static_cast<const unsigned char*>(p);
  return std::all_of(byte, byte + bytes, [](unsigned char b) { return b == 0; });
}

copy_found look_at(const std::byte* base, std::size_t available, std::uint64_t offset, unsigned copy) noexcept {
  copy_found found;
  found.offset = offset;
  if (!range_inside(offset, sizeof(superblock), available)) return found;
  std::memcpy(&found.sb, base + offset, sizeof found.sb);
  found.crc_expected = superblock_crc(found.sb);
  if (all_zero(&found.sb, sizeof found.sb)) {
    found.what = finding::zero;
  } else if (found.sb.magic != layout::pool_magic) {
    found.what = finding::foreign;
  } else if (found.sb.crc != found.crc_expected) {
    found.what = finding::torn;
  } else if (superblock_copy_of(found.sb.sequence) != copy) {
    found.what = finding::misplaced;
  } else {
    found.what = finding::holds;
  }
  return found;
}

// Copy B lies at the page size, which only a superblock tells: copy A if it holds, otherwise copy B itself, which must
// name the place where it was found.
copy_found look_for_b(const std::byte* base, std::size_t available, const copy_found& a) noexcept {
  if (a.what == finding::holds && a.sb.page_shift >= layout::page_shift_min &&
      a.sb.page_shift <= layout::page_shift_max) {
    return look_at(base, available, std::uint64_t{1} << a.sb.page_shift, 1);
  }
  copy_found likely;
  for (unsigned shift = layout::page_shift_min; shift <= layout::page_shift_max; ++shift) {
    copy_found b = look_at(base, available, std::uint64_t{1} << shift, 1);
    if (b.what == finding::holds && b.sb.page_shift == shift) return b;
    // A damaged copy is worth a message; the default page size says which place that message names.
    if (b.what == finding::torn || b.what == finding::misplaced || shift == layout::page_shift_default) {
      if (likely.what != finding::torn) likely = b;
    }
  }
  if (likely.what == finding::holds) likely.what = finding::misplaced;  // page size names another place
  return likely;
}

// Eight bytes as in the file, for messages.
struct shown {
  explicit shown(std::uint64_t bytes) noexcept {
    std::size_t at = 1;
    for (unsigned i = 0; i < sizeof bytes; ++i) {
      const auto c = static_cast<unsigned char>(bytes >> 8 * i);
      const bool plain = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
      at += static_cast<std::size_t>(std::snprintf(text + at, sizeof text - at, plain ? "%c" : "\\x%02x", c));
    }
    text[at] = '"';
    text[at + 1] = 0;
  }
  char text[4 * sizeof(std::uint64_t) + 3] = "\"";
};

// Neither copy holds.
errc refuse(const copy_found& a, const copy_found& b, std::uint64_t pool_bytes) noexcept {
  const auto damaged = [](const copy_found& c) { return c.what == finding::torn || c.what == finding::misplaced; };
  if (!damaged(a) && !damaged(b)) {
    if (a.what == finding::absent) {
      return fail(errc::not_a_pool, "truncated: the file has %" PRIu64 " bytes, a superblock needs %zu", pool_bytes,
                  sizeof(superblock));
    }
    if (a.what == finding::zero) {
      return fail(errc::not_a_pool,
                  "zeros where its superblock should be: the creation of a pool was interrupted here before anything "
                  "was stored in it, or the file was never a pool; remove it, and create the pool again");
    }
    return fail(errc::not_a_pool, "not a Holdfast pool: found %s at offset 0, expected \"HOLDFAST\"",
                shown(a.sb.magic).text);
  }
  const copy_found& c = damaged(a) ? a : b;
  if (c.sb.version > layout::pool_version) {
    return fail(errc::version,
                "format version at offset %" PRIu64 ": found %u, expected at most %u (or the superblock is damaged)",
                c.offset + offsetof(superblock, version), c.sb.version, layout::pool_version);
  }
  if (c.what == finding::misplaced) {
    return fail(errc::corrupt,
                "superblock at offset %" PRIu64 " belongs elsewhere (sequence %" PRIu64
                ", page shift %u), and the other copy does not hold",
                c.offset, c.sb.sequence, c.sb.page_shift);
  }
  return fail(errc::corrupt,
              "superblock crc at offset %" PRIu64 ": found %016" PRIx64 ", expected %016" PRIx64
              ", and the other copy does not hold",
              c.offset + offsetof(superblock, crc), c.sb.crc, c.crc_expected);
}

#define NVM_FIELD(name) static_cast<unsigned>(offsetof(superblock, name)), #name

errc bad_field(unsigned offset, const char* field, std::uint64_t found, const char* expected) noexcept {
  return fail(errc::corrupt, "superblock field %s (offset %u in its sector): found %" PRIu64 ", expected %s", field,
              offset, found, expected);
}

// The fields that geometry follows from, each inside limits that keep lay_out() from overflowing.
status check_request(const superblock& sb) noexcept {
  if (sb.page_shift < layout::page_shift_min || sb.page_shift > layout::page_shift_max)
    return fail(errc::corrupt, "superblock field page_shift (offset %zu in its sector): found %u, expected %u .. %u",
                offsetof(superblock, page_shift), sb.page_shift, layout::page_shift_min, layout::page_shift_max);
  const std::uint64_t page = std::uint64_t{1} << sb.page_shift;
  const std::uint64_t pages_max = layout::pool_bytes_max >> sb.page_shift;
  if (sb.capacity_pages == 0 || sb.capacity_pages > pages_max)
    return bad_field(NVM_FIELD(capacity_pages), sb.capacity_pages, "1 .. the pages of 16 TiB");
  if (sb.size_pages == 0 || sb.size_pages > sb.capacity_pages)
    return bad_field(NVM_FIELD(size_pages), sb.size_pages, "1 .. capacity_pages");
  if (sb.medium < NVM_MEDIUM_SHM || sb.medium > last_medium) return bad_field(NVM_FIELD(medium), sb.medium, "1 .. 4");
  if (engine_of(sb.engine).is_its_log()) {
    if (sb.lane_count != 0) return bad_field(NVM_FIELD(lane_count), sb.lane_count, "0 with engine log");
    if (sb.lane_bytes != 0) return bad_field(NVM_FIELD(lane_bytes), sb.lane_bytes, "0 with engine log");
    if (sb.log_bytes != 0) return bad_field(NVM_FIELD(log_bytes), sb.log_bytes, "0 with engine log");
  } else if (sb.medium == NVM_MEDIUM_SSD) {
    if (sb.lane_count != 0) return bad_field(NVM_FIELD(lane_count), sb.lane_count, "0 on ssd");
    if (sb.lane_bytes != 0) return bad_field(NVM_FIELD(lane_bytes), sb.lane_bytes, "0 on ssd");
    if (sb.log_bytes < 4 * page || sb.log_bytes % page != 0 || sb.log_bytes > layout::pool_bytes_max)
      return bad_field(NVM_FIELD(log_bytes), sb.log_bytes, "at least 4 whole pages on ssd");
  } else {
    if (sb.lane_count == 0 || sb.lane_count > lane_count_max)
      return bad_field(NVM_FIELD(lane_count), sb.lane_count, "1 .. 1024");
    if (sb.lane_bytes == 0 || sb.lane_bytes % page != 0 || sb.lane_bytes > layout::pool_bytes_max / lane_count_max)
      return bad_field(NVM_FIELD(lane_bytes), sb.lane_bytes, "1 .. 2^34, in whole pages");
  }
  return {};
}

geometry_request request_of(const superblock& sb) noexcept {
  geometry_request r;
  r.page_shift = sb.page_shift;
  r.size_pages = sb.size_pages;
  r.capacity_pages = sb.capacity_pages;
  r.lane_count = sb.lane_count;
  r.lane_bytes = sb.lane_bytes;
  r.ring_bytes = has_image(sb) ? sb.log_bytes : 0;
  r.home_bytes = sb.home_bytes;
  return r;
}

status check_places(const superblock& sb) noexcept {
  const geometry g = lay_out(request_of(sb));
  const auto expect = [](unsigned offset, const char* field, std::uint64_t found, std::uint64_t expected) -> status {
    if (found == expected) return {};
    return fail(errc::corrupt,
                "superblock field %s (offset %u in its sector): found %" PRIu64 ", expected %" PRIu64
                " from the other fields",
                field, offset, found, expected);
  };
  if (auto s = expect(NVM_FIELD(page_map_offset), sb.page_map_offset, g.page_map_offset); !s) return s;
  if (auto s = expect(NVM_FIELD(log_offset), sb.log_offset, g.log_offset); !s) return s;
  if (auto s = expect(NVM_FIELD(log_bytes), sb.log_bytes, g.log_bytes); !s) return s;
  if (auto s = expect(NVM_FIELD(data_offset), sb.data_offset, g.data_offset); !s) return s;
  if (g.capacity_bytes() > layout::pool_bytes_max)
    return bad_field(NVM_FIELD(capacity_pages), sb.capacity_pages, "a pool of at most 16 TiB");
  if (sb.home_bytes > layout::home_bytes_max || sb.home_bytes % layout::home_bytes_unit != 0 ||
      (sb.home_bytes != 0) != engine_of(sb.engine).is_its_log())
    return bad_field(NVM_FIELD(home_bytes), sb.home_bytes, "0, or with engine log a multiple of 64 KiB up to 64 TiB");
  if (!checked_add(sb.base_address, g.address_bytes()))
    return bad_field(NVM_FIELD(base_address), sb.base_address, "an address range that does not wrap");
  // Segments of later versions; this one only demands that they could exist.
  if (!range_inside(sb.type_map_offset, sb.type_map_bytes, g.capacity_bytes()))
    return bad_field(NVM_FIELD(type_map_offset), sb.type_map_offset, "a range inside the pool");
  if (!range_inside(sb.gc_offset, sb.gc_bytes, g.capacity_bytes()))
    return bad_field(NVM_FIELD(gc_offset), sb.gc_offset, "a range inside the pool");
  return {};
}

// Both copies hold, so they come from one history: their constant fields must be the same.
status check_same_pool(const superblock& a, const superblock& b) noexcept {
  if (a.sequence < b.sequence ? is_of_same_pool(a, b) : is_of_same_pool(b, a)) return {};
  const auto* x = reinterpret_cast<const unsigned char*>(&a);
  const auto* y = reinterpret_cast<const unsigned char*>(&b);
  const auto at = static_cast<std::size_t>(std::mismatch(x, x + constant_bytes, y).first - x);
  return fail(errc::corrupt, "superblock copies A and B contradict each other at offset %zu: found %02x and %02x", at,
              x[at], y[at]);
}

}  // namespace

const char* medium_name(std::uint32_t medium) noexcept {
  switch (medium) {
    case NVM_MEDIUM_SHM:
      return "shm";
    case NVM_MEDIUM_DAX:
      return "dax";
    case NVM_MEDIUM_AUTO:
      return "auto";
    case NVM_MEDIUM_SSD:
      return "ssd";
    default:
      return "?";
  }
}

bool is_of_same_pool(const superblock& older, const superblock& newer) noexcept {
  superblock before = older;
  constexpr std::uint32_t passing = features_incompat_passing;
  before.features_incompat =
      (before.features_incompat & ~passing) | (newer.features_incompat & (features_incompat_added | passing));
  before.features_compat |= newer.features_compat & features_compat_added;
  return std::memcmp(&before, &newer, constant_bytes) == 0;
}

status check_superblock(const superblock& sb, std::uint64_t pool_bytes) noexcept {
  if (sb.version > layout::pool_version || sb.version == 0) {
    return fail(errc::version, "format version: found %u, expected 1 .. %u; a newer library made this pool", sb.version,
                layout::pool_version);
  }
  if ((sb.features_incompat & ~features_incompat_known) != 0) {
    return fail(errc::version, "incompatible features: found bits %08x, this library knows %08x", sb.features_incompat,
                features_incompat_known);
  }
  if (sb.superblock_bytes != sizeof(superblock))
    return bad_field(NVM_FIELD(superblock_bytes), sb.superblock_bytes, "512");
  if (all_zero(sb.uuid, sizeof sb.uuid)) return bad_field(NVM_FIELD(uuid), 0, "16 random bytes");
  if (auto s = check_request(sb); !s) return s;
  if (auto s = check_places(sb); !s) return s;
  if (sb.state != static_cast<std::uint32_t>(layout::pool_state::clean) &&
      sb.state != static_cast<std::uint32_t>(layout::pool_state::open))
    return bad_field(NVM_FIELD(state), sb.state, "1 (clean) or 2 (open)");
  if (auto s = check_bases(sb); !s) return s;
  const bool has_engine = (sb.features_incompat & layout::feature_engine) != 0;
  if (has_engine ? !is_engine(sb.engine) || sb.engine == default_engine : sb.engine != 0)
    return bad_field(NVM_FIELD(engine), sb.engine, has_engine ? engines_in_words : "0 (undo)");
  if (!engine_of(sb.engine).on_ssd && sb.medium == NVM_MEDIUM_SSD)
    return bad_field(NVM_FIELD(engine), sb.engine, engines_on_ssd_in_words);
  if (has_engine ? sb.validation > NVM_VALIDATION_COMMIT_MARK : sb.validation != 0)
    return bad_field(NVM_FIELD(validation), sb.validation, has_engine ? "0 .. 1" : "0 (checksum)");
  // A compatible feature that we do not know may use fields that are reserved for us.
  if ((sb.features_compat & ~features_compat_known) == 0 && !all_zero(sb.reserved, sizeof sb.reserved))
    return bad_field(NVM_FIELD(reserved), 1, "zero");
  const std::uint64_t needed = geometry_of(sb).size_bytes();
  if (needed > pool_bytes) {
    return fail(errc::not_a_pool, "truncated: the file has %" PRIu64 " bytes, its superblock says %" PRIu64, pool_bytes,
                needed);
  }
  return {};
}

result<superblock> pick_superblock(const std::byte* base, std::size_t available, std::uint64_t pool_bytes) noexcept {
  if (pool_bytes == 0)
    return fail(errc::not_a_pool,
                "the file is empty: the creation of a pool was interrupted here, or it was never one; remove it, and "
                "create the pool again");
  const copy_found a = look_at(base, available, 0, 0);
  const copy_found b = look_for_b(base, available, a);
  const bool a_holds = a.what == finding::holds;
  const bool b_holds = b.what == finding::holds;
  if (!a_holds && !b_holds) return refuse(a, b, pool_bytes);
  const superblock& best = a_holds && (!b_holds || a.sb.sequence > b.sb.sequence) ? a.sb : b.sb;
  if (auto s = check_superblock(best, pool_bytes); !s) return s.error();
  if (a_holds && b_holds) {
    if (auto s = check_same_pool(a.sb, b.sb); !s) return s.error();
  }
  // Found alone at offset 0, copy A could come with any page size; found at the page size, copy B has said it itself.
  return best;
}

result<superblock> make_superblock(const superblock_request& request) noexcept {
  const geometry_request& shape = request.shape;
  superblock sb{};
  sb.magic = layout::pool_magic;
  sb.version = layout::pool_version;
  sb.superblock_bytes = sizeof(superblock);
  sb.page_shift = shape.page_shift;
  std::memcpy(sb.uuid, request.uuid, sizeof sb.uuid);
  sb.medium = request.medium;
  sb.engine = request.engine == default_engine ? 0 : request.engine;
  sb.validation = request.validation;
  if (sb.engine != 0 || sb.validation != 0) sb.features_incompat |= layout::feature_engine;
  if (has_image(sb)) sb.features_incompat |= layout::feature_straight;
  sb.lane_count = shape.lane_count;
  sb.lane_bytes = shape.lane_bytes;
  sb.log_bytes = shape.ring_bytes;
  sb.capacity_pages = shape.capacity_pages;
  sb.size_pages = shape.size_pages;
  sb.home_bytes = shape.home_bytes;
  sb.created_unix_s = request.created_unix_s;
  sb.sequence = 2;
  sb.state = static_cast<std::uint32_t>(layout::pool_state::open);
  sb.base_address = request.base_address;
  if (auto s = check_request(sb); !s) return fail(errc::invalid, "cannot lay out a pool: %s", last_message());
  const geometry g = lay_out(shape);
  if (g.capacity_bytes() > layout::pool_bytes_max) {
    return fail(errc::too_large, "a pool of %" PRIu64 " bytes: expected at most %" PRIu64, g.capacity_bytes(),
                layout::pool_bytes_max);
  }
  sb.page_map_offset = g.page_map_offset;
  sb.log_offset = g.log_offset;
  sb.log_bytes = g.log_bytes;
  sb.data_offset = g.data_offset;
  sb.crc = superblock_crc(sb);
  if (auto s = check_superblock(sb, g.size_bytes()); !s) {
    return fail(errc::invalid, "cannot lay out a pool: %s", last_message());
  }
  return sb;
}

void seal_superblocks(const superblock& sb, superblock copies[2]) noexcept {
  for (unsigned copy = 0; copy < 2; ++copy) {
    copies[copy] = sb;
    copies[copy].sequence = copy == 0 ? 2 : 1;
    copies[copy].crc = superblock_crc(copies[copy]);
  }
}

void format_image(std::byte* base, const superblock& sb) noexcept {
  superblock copies[2];
  seal_superblocks(sb, copies);
  const geometry g = geometry_of(sb);
  for (unsigned copy = 0; copy < 2; ++copy) std::memcpy(base + g.superblock_at(copy), &copies[copy], sizeof sb);
}

const char* name_of(anchor_word which) noexcept {
  constexpr const char* names[anchor_words] = {"root",
                                               "type map",
                                               "directory of stores",
                                               "directory of lock-free structures",
                                               "root of the log-structured heap",
                                               "directory of sets of regions",
                                               "rings of activation records",
                                               "catalogue of object stores"};
  return names[static_cast<unsigned>(which)];
}

result<std::uint64_t> read_anchor_word(const std::byte* base, const geometry& g, anchor_word which) noexcept {
  std::uint64_t word[2];
  std::uint64_t at[2];
  bool holds[2];
  for (unsigned copy = 0; copy < 2; ++copy) {
    at[copy] = anchor_word_at(g, copy, which);
    std::memcpy(&word[copy], base + at[copy], sizeof word[copy]);
    holds[copy] = word_holds(word[copy], word_seed(at[copy]));
  }
  const char* name = name_of(which);
  if (!holds[0] && !holds[1]) {
    return fail(errc::corrupt,
                "%s words at offsets %" PRIu64 " and %" PRIu64 ": neither %016" PRIx64 " nor %016" PRIx64
                " passes its check",
                name, at[0], at[1], word[0], word[1]);
  }
  const std::uint64_t place = (holds[0] ? word[0] : word[1]) & checked_mask;
  if (holds[0] && holds[1] && place != (word[1] & checked_mask)) {
    return fail(errc::corrupt, "%s words at offsets %" PRIu64 " and %" PRIu64 " differ: %" PRIu64 " and %" PRIu64, name,
                at[0], at[1], place, word[1] & checked_mask);
  }
  if (place != 0 && !g.in_data(place, 1)) {
    return fail(errc::corrupt, "%s at offset %" PRIu64 ": found %" PRIu64 ", expected 0 or %" PRIu64 " .. %" PRIu64,
                name, at[0], place, g.data_offset, g.size_bytes());
  }
  return place;
}

status check_anchor(const std::byte* base, const geometry& g, unsigned copy) noexcept {
  layout::anchor anchor;
  const std::uint64_t at = g.anchor_at(copy);
  std::memcpy(&anchor, base + at, sizeof anchor);
  for (unsigned i = 0; i < anchor_words; ++i) {
    const auto which = static_cast<anchor_word>(i);
    const std::uint64_t words[anchor_words] = {anchor.root,     anchor.types,   anchor.stores,     anchor.lockfree,
                                               anchor.log_heap, anchor.regions, anchor.references, anchor.catalogue};
    const std::uint64_t word = words[i];
    const std::uint64_t seed_at = anchor_word_at(g, copy, which);
    if (!word_holds(word, word_seed(seed_at))) {
      return fail(errc::corrupt, "%s word at offset %" PRIu64 ": found %016" PRIx64 ", which fails its check",
                  name_of(which), seed_at, word);
    }
    const std::uint64_t place = word & checked_mask;
    if (place != 0 && !g.in_data(place, 1)) {
      return fail(errc::corrupt,
                  "%s word at offset %" PRIu64 ": found %" PRIu64 ", expected 0 or %" PRIu64 " .. %" PRIu64,
                  name_of(which), seed_at, place, g.data_offset, g.size_bytes());
    }
  }
  if (!all_zero(anchor.reserved, sizeof anchor.reserved)) {
    return fail(errc::corrupt, "anchor at offset %" PRIu64 ": reserved bytes are not zero", at);
  }
  return {};
}

}  // namespace nvm
