// Records of the log ring: how they are sealed, and how records that were read are checked.
#pragma once

#include <span>

#include "media/concept.hpp"
#include "media/ring_layout.hpp"

namespace nvm {

enum class record_kind : std::uint8_t { invalid, data, pad };

// Completes the header of a record of `bytes` bytes that will lie at `lsn`; its `count` entries are in
// place.  Without entries it is a pad, of which only the header is written.
void seal_record(std::byte* record, lsn_t lsn, lsn_t durable, std::uint64_t bytes, std::uint32_t count,
                 const std::uint8_t (&uuid)[16]) noexcept;

// Bytes that the record with this header at `lsn` claims, checked against the room of the ring there; 0 if the header
// cannot be one of `lsn`.
[[nodiscard]] std::uint64_t claimed_bytes(const layout::ring_record& header, lsn_t lsn,
                                          const layout::ring_place& place) noexcept;
// `record` holds all claimed bytes.
[[nodiscard]] record_kind check_record(std::span<const std::byte> record, lsn_t lsn,
                                       const std::uint8_t (&uuid)[16]) noexcept;

// Whether a unit of the record but the first reads as a header of an LSN from `from` on, of some place or other.
[[nodiscard]] bool may_read_as_header(std::span<const std::byte> record, lsn_t from) noexcept;
// Padding that a record at `lsn` needs before it so that none of its units but the first reads as a header of the very
// place where it then lies, of its own LSN or a later one; 0: none. A pad ends where the ring ends: what is beyond that
// goes before the record at the ring's start. It is less than twice the record. `record` need not be sealed.
[[nodiscard]] std::uint64_t pad_to_be_told_apart(std::span<const std::byte> record, lsn_t lsn,
                                                 const layout::ring_place& place) noexcept;

// For straight entries whose bytes are not read.
struct no_straight {
  status operator()(std::uint64_t, std::uint64_t, const layout::straight_rest&) const noexcept { return {}; }
};

// Calls visit(offset, data, bytes) -> status for each entry, in order, while they are well formed and
// visit returns ok, or straight(offset, bytes, rest) -> status for a straight one.  errc::corrupt, naming the LSN, if
// an entry leaves the record, is empty, reaches outside [0, home_bytes) or into the log, or is straight and not of
// whole sectors.  Neither is ever called with an entry that fails.
template <class Visit, class Straight = no_straight>
status each_entry(std::span<const std::byte> record, const layout::ring_place& place, std::uint64_t home_bytes,
                  Visit&& visit, Straight&& straight = {}) noexcept {
  layout::ring_record header;
  std::memcpy(&header, record.data(), sizeof header);
  const auto damaged = [&](const char* what, std::uint64_t found, std::uint64_t limit) noexcept {
    return fail(errc::corrupt, "log record at LSN %llu: %s %llu, limit %llu",
                static_cast<unsigned long long>(header.lsn), what, static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(limit));
  };
  std::size_t at = sizeof header;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    if (!range_inside(at, sizeof(layout::ring_entry), record.size()))
      return damaged("entry begins at byte", at, record.size());
    layout::ring_entry entry;
    std::memcpy(&entry, &record[at], sizeof entry);
    at += sizeof entry;
    if (entry.bytes == 0) return damaged("empty entry, number", i, header.count);
    const bool is_straight = (entry.offset & layout::straight_bit) != 0;
    entry.offset &= ~layout::straight_bit;
    const std::uint64_t here = is_straight ? sizeof(layout::straight_rest) : entry.bytes;
    if (!range_inside(at, here, record.size())) return damaged("entry claims bytes", here, record.size() - at);
    if (is_straight && (entry.offset | entry.bytes) % sector_bytes != 0)
      return damaged("straight entry is not of whole sectors, at offset", entry.offset, sector_bytes);
    if (!range_inside(entry.offset, entry.bytes, home_bytes))
      return damaged("entry ends outside the file, begins at offset", entry.offset, home_bytes);
    if (place.overlaps(entry.offset, entry.bytes))
      return damaged("entry targets the log, at offset", entry.offset, place.log_offset);
    if (is_straight) {
      layout::straight_rest rest;
      std::memcpy(&rest, &record[at], sizeof rest);
      if (const status s = straight(entry.offset, entry.bytes, rest); !s) return s;
    } else if (const status s = visit(entry.offset, &record[at], static_cast<std::size_t>(entry.bytes)); !s) {
      return s;
    }
    at += round_up(here, 8);
  }
  return {};
}

}  // namespace nvm
