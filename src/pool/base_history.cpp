#include "pool/base_history.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace nvm {
namespace {

using layout::superblock;

std::uint64_t range_bytes(const superblock& sb) noexcept { return geometry_of(sb).address_bytes(); }

unsigned field_at(unsigned entry) noexcept {
  return static_cast<unsigned>(offsetof(superblock, base_history) + entry * sizeof(layout::base_record));
}

}  // namespace

base_ranges ranges_of(const superblock& sb) noexcept {
  base_ranges r;
  r.bytes = range_bytes(sb);
  r.bases[r.count++] = sb.base_address;
  for (unsigned i = sb.base_history_count; i-- != 0;) {
    if (sb.base_history[i].base != sb.base_address) r.bases[r.count++] = sb.base_history[i].base;
  }
  return r;
}

result<bool> join_base(superblock& sb, std::uint64_t base) noexcept {
  const base_ranges known = ranges_of(sb);
  if (known.has(base)) return false;
  if (known.collides(base)) {
    return fail(errc::address, "address 0x%" PRIx64 ": the pool's pointers may assume an overlapping range", base);
  }
  if (known.count == layout::base_history_max) {
    char list[layout::base_history_max * 24] = "";
    std::size_t at = 0;
    for (unsigned i = 0; i < known.count; ++i) {
      at += static_cast<std::size_t>(
          std::snprintf(list + at, sizeof list - at, "%s0x%" PRIx64, i == 0 ? "" : ", ", known.bases[i]));
    }
    return fail(errc::address,
                "its pointers assume %u addresses already, and all of them are taken: %s; close what is open there, "
                "or finish the relocation in another process (holdfast relocate)",
                known.count, list);
  }
  superblock next = sb;
  if (next.base_history_count == 0) next.base_history[next.base_history_count++] = {next.base_address, next.generation};
  next.base_history[next.base_history_count++] = {base, ++next.generation};
  next.features_incompat |= layout::feature_bases;
  // Words from a file may be anything: the library must not write what the next open would refuse.
  if (auto s = check_bases(next); !s) return s.error();
  sb = next;
  return true;
}

numbered_bases numbers_of(const superblock& sb) noexcept {
  numbered_bases r;
  r.bytes = range_bytes(sb);
  r.bases[0] = sb.base_address;
  r.count = sb.base_history_count;
  for (unsigned n = 1; n <= r.count; ++n) r.bases[n] = sb.base_history[n - 1].base;
  return r;
}

result<bool> join_numbered_base(superblock& sb, std::uint64_t base) noexcept {
  auto joined = join_base(sb, base);
  if (!joined) return joined;
  const bool new_bit = (sb.features_incompat & layout::feature_numbers) == 0;
  sb.features_incompat |= layout::feature_numbers;
  return *joined || new_bit;
}

void forget_other_bases(superblock& sb, std::uint64_t base) noexcept {
  sb.base_address = base;
  sb.base_history_count = 0;
  std::fill_n(sb.base_history, layout::base_history_max, layout::base_record{});
  sb.features_incompat &= ~(layout::feature_bases | layout::feature_numbers);
}

status check_bases(const superblock& sb) noexcept {
  const auto bad = [](unsigned entry, const char* what, std::uint64_t found, const char* expected) -> status {
    return fail(errc::corrupt,
                "superblock field base_history[%u]%s (offset %u in its sector): found 0x%" PRIx64 ", expected %s",
                entry, what, field_at(entry), found, expected);
  };
  const unsigned count = sb.base_history_count;
  const std::uint64_t bytes = range_bytes(sb);
  const bool has_bit = (sb.features_incompat & layout::feature_bases) != 0;
  if (count > layout::base_history_max || count == 1 || (count != 0) != has_bit) {
    return fail(errc::corrupt, "superblock field base_history_count (offset %u in its sector): found %u, expected %s",
                static_cast<unsigned>(offsetof(superblock, base_history_count)), count,
                has_bit ? "2 .. 8 with the feature of several bases" : "0 without the feature of several bases");
  }
  if ((sb.features_incompat & layout::feature_numbers) != 0 && !has_bit) {
    return fail(
        errc::corrupt,
        "superblock field features_incompat (offset %u in its sector): found 0x%x, numbered objects without several "
        "bases",
        static_cast<unsigned>(offsetof(superblock, features_incompat)), sb.features_incompat);
  }
  for (unsigned i = count; i < layout::base_history_max; ++i) {
    if (sb.base_history[i].base != 0 || sb.base_history[i].generation != 0)
      return bad(i, "", sb.base_history[i].base, "zero beyond base_history_count");
  }
  bool has_preferred = count == 0;
  for (unsigned i = 0; i < count; ++i) {
    const layout::base_record& r = sb.base_history[i];
    if (r.base == 0 || r.base % base_unit != 0 || !checked_add(r.base, bytes))
      return bad(i, ".base", r.base, "a multiple of 32 MiB whose range does not wrap");
    if (i != 0 && r.generation <= sb.base_history[i - 1].generation)
      return bad(i, ".generation", r.generation, "more than that of the base before");
    if (r.generation > sb.generation) return bad(i, ".generation", r.generation, "at most the pool's generation");
    has_preferred |= r.base == sb.base_address;
    for (unsigned k = 0; k < i; ++k) {
      const std::uint64_t other = sb.base_history[k].base;
      if (r.base >= other + bytes || other >= r.base + bytes) continue;
      return fail(errc::corrupt,
                  "superblock fields base_history[%u] and [%u] (offsets %u and %u in its sector): found ranges of "
                  "0x%" PRIx64 " bytes at 0x%" PRIx64 " and 0x%" PRIx64 ", which overlap",
                  k, i, field_at(k), field_at(i), bytes, other, r.base);
    }
  }
  if (has_preferred) return {};
  return fail(errc::corrupt,
              "superblock field base_address (offset %u in its sector): found 0x%" PRIx64
              ", expected one of the %u bases of base_history",
              static_cast<unsigned>(offsetof(superblock, base_address)), sb.base_address, count);
}

}  // namespace nvm
