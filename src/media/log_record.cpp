#include "media/log_record.hpp"

#include <bitset>

namespace nvm {
namespace {

constexpr std::size_t checksum_bytes = sizeof layout::ring_record::checksum;

std::uint64_t sum_of(const std::byte* record, std::size_t bytes, lsn_t lsn, const std::uint8_t (&uuid)[16]) noexcept {
  return checksum(record + checksum_bytes, bytes - checksum_bytes, layout::ring_seed(uuid, lsn));
}

// Calls found(i, lsn) for each unit of the record but the first that reads as a header of LSN `lsn`, `from` or later.
template <class Found>
void each_likeness(std::span<const std::byte> record, lsn_t from, Found&& found) noexcept {
  for (std::size_t i = layout::ring_unit; i + layout::ring_unit <= record.size(); i += layout::ring_unit) {
    layout::ring_record header;
    std::memcpy(&header, &record[i], sizeof header);
    if (header.lsn % layout::ring_unit != 0 || header.lsn < from || header.lsn >= layout::lsn_max) continue;
    if (header.durable_lsn <= header.lsn) found(i, header.lsn);
  }
}

}  // namespace

void seal_record(std::byte* record, lsn_t lsn, lsn_t durable, std::uint64_t bytes, std::uint32_t count,
                 const std::uint8_t (&uuid)[16]) noexcept {
  layout::ring_record header{.checksum = 0,
                             .lsn = lsn,
                             .durable_lsn = durable,
                             .units = static_cast<std::uint32_t>(bytes / layout::ring_unit),
                             .count = count};
  std::memcpy(record, &header, sizeof header);
  header.checksum = sum_of(record, count == 0 ? sizeof header : bytes, lsn, uuid);
  std::memcpy(record, &header, sizeof header);
}

std::uint64_t claimed_bytes(const layout::ring_record& header, lsn_t lsn, const layout::ring_place& place) noexcept {
  if (header.lsn != lsn || header.durable_lsn > lsn) return 0;
  const std::uint64_t bytes = header.units * layout::ring_unit;
  const std::uint64_t to_ring_end = place.ring_bytes() - lsn % place.ring_bytes();
  return bytes <= to_ring_end ? bytes : 0;
}

bool may_read_as_header(std::span<const std::byte> record, lsn_t from) noexcept {
  bool found = false;
  each_likeness(record, from, [&](std::size_t, lsn_t) { found = true; });
  return found;
}

// Each unit rules out one place at most, and there are more places to try than units.
std::uint64_t pad_to_be_told_apart(std::span<const std::byte> record, lsn_t lsn,
                                   const layout::ring_place& place) noexcept {
  const std::uint64_t ring_bytes = place.ring_bytes();
  const std::uint64_t here = lsn % ring_bytes;
  bool alike = false;
  each_likeness(record, lsn, [&](std::size_t i, lsn_t claimed) { alike |= claimed % ring_bytes == here + i; });
  if (!alike) return 0;
  // Steps of a unit to the last place where the record fits before the ring's end; the next ones begin at its start.
  const std::uint64_t on_this_lap = (ring_bytes - here - record.size()) / layout::ring_unit;
  constexpr std::size_t steps_at_once = 4096;
  for (std::uint64_t first = 0;; first += steps_at_once) {
    std::bitset<steps_at_once> ruled_out;
    each_likeness(record, lsn, [&](std::size_t i, lsn_t claimed) {
      const std::uint64_t start = (claimed % ring_bytes + ring_bytes - i) % ring_bytes;
      if (start + record.size() > ring_bytes) return;
      const std::uint64_t step =
          start >= here ? (start - here) / layout::ring_unit : on_this_lap + 1 + start / layout::ring_unit;
      if (step >= first && step - first < steps_at_once) ruled_out.set(step - first);
    });
    for (std::size_t i = 0; i < steps_at_once; ++i) {
      if (ruled_out.test(i)) continue;
      const std::uint64_t step = first + i;
      if (step <= on_this_lap) return step * layout::ring_unit;
      return ring_bytes - here + (step - on_this_lap - 1) * layout::ring_unit;
    }
  }
}

record_kind check_record(std::span<const std::byte> record, lsn_t lsn, const std::uint8_t (&uuid)[16]) noexcept {
  layout::ring_record header;
  if (record.size() < sizeof header) return record_kind::invalid;
  std::memcpy(&header, record.data(), sizeof header);
  if (header.lsn != lsn || header.units * layout::ring_unit != record.size()) return record_kind::invalid;
  const bool pad = header.count == 0;
  const std::size_t covered = pad ? sizeof header : record.size();
  if (header.checksum != sum_of(record.data(), covered, lsn, uuid)) return record_kind::invalid;
  return pad ? record_kind::pad : record_kind::data;
}

}  // namespace nvm
