#include "media/log_record.hpp"

namespace nvm {
namespace {

constexpr std::size_t checksum_bytes = sizeof layout::ring_record::checksum;

std::uint64_t sum_of(const std::byte* record, std::size_t bytes, lsn_t lsn, const std::uint8_t (&uuid)[16]) noexcept {
  return checksum(record + checksum_bytes, bytes - checksum_bytes, layout::ring_seed(uuid, lsn));
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
