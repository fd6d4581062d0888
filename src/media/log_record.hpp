// Records of the log ring: how one is sealed, and what is believed of one that was read.
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

// Bytes that the record claims whose header is read at `lsn`, checked against what the ring can hold
// there; 0 if the header cannot be one of `lsn`.
[[nodiscard]] std::uint64_t claimed_bytes(const layout::ring_record& header, lsn_t lsn,
                                          const layout::ring_place& place) noexcept;
// `record` holds all claimed bytes.
[[nodiscard]] record_kind check_record(std::span<const std::byte> record, lsn_t lsn,
                                       const std::uint8_t (&uuid)[16]) noexcept;

// Calls visit(offset, data, bytes) -> status for each entry, in order, while they are well formed and
// visit returns ok.  errc::corrupt, naming the LSN, if an entry leaves the record, is empty, reaches
// outside [0, home_bytes) or into the log.  visit is never called with an entry that fails.
template <class Visit>
status each_entry(std::span<const std::byte> record, const layout::ring_place& place, std::uint64_t home_bytes,
                  Visit&& visit) noexcept {
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
    if (!range_inside(at, entry.bytes, record.size()))
      return damaged("entry claims bytes", entry.bytes, record.size() - at);
    if (!range_inside(entry.offset, entry.bytes, home_bytes))
      return damaged("entry ends outside the file, begins at offset", entry.offset, home_bytes);
    if (place.overlaps(entry.offset, entry.bytes))
      return damaged("entry targets the log, at offset", entry.offset, place.log_offset);
    if (const status s = visit(entry.offset, &record[at], static_cast<std::size_t>(entry.bytes)); !s) return s;
    at += round_up(entry.bytes, 8);
  }
  return {};
}

}  // namespace nvm
