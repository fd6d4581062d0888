#include "media/log_record.hpp"

namespace nvm {
namespace {

constexpr std::size_t checksum_bytes = sizeof layout::ring_record::checksum;

std::uint64_t sum_of(const std::byte* record, std::size_t bytes, lsn_t lsn,
                     const std::uint8_t (&uuid)[16]) noexcept {
  return checksum(record + checksum_bytes, bytes - checksum_bytes, layout::ring_seed(uuid, lsn));
}

}  // namespace

void seal_record(std::byte* record, lsn_t lsn, std::uint64_t bytes, std::uint32_t count,
                 const std::uint8_t (&uuid)[16]) noexcept {
  layout::ring_record header{.checksum = 0, .lsn = lsn, .bytes = bytes, .count = count, .flags = 0};
  std::memcpy(record, &header, sizeof header);
  header.checksum = sum_of(record, bytes, lsn, uuid);
  std::memcpy(record, &header, sizeof header);
}

void seal_pad(std::byte* record, lsn_t lsn, std::uint64_t bytes, const std::uint8_t (&uuid)[16]) noexcept {
  layout::ring_record header{
      .checksum = 0, .lsn = lsn, .bytes = bytes, .count = 0, .flags = layout::ring_pad};
  std::memcpy(record, &header, sizeof header);
  header.checksum = sum_of(record, sizeof header, lsn, uuid);
  std::memcpy(record, &header, sizeof header);
}

std::uint64_t claimed_bytes(const layout::ring_record& header, lsn_t lsn,
                            const layout::ring_place& place) noexcept {
  if (header.lsn != lsn || header.bytes < sizeof header || header.bytes % layout::ring_unit != 0) return 0;
  const std::uint64_t to_ring_end = place.ring_bytes() - lsn % place.ring_bytes();
  return header.bytes <= to_ring_end ? header.bytes : 0;
}

record_kind check_record(std::span<const std::byte> record, lsn_t lsn,
                         const std::uint8_t (&uuid)[16]) noexcept {
  layout::ring_record header;
  if (record.size() < sizeof header) return record_kind::invalid;
  std::memcpy(&header, record.data(), sizeof header);
  const bool pad = header.flags == layout::ring_pad;
  if (header.lsn != lsn || header.bytes != record.size() || (!pad && header.flags != 0)) return record_kind::invalid;
  // A data record has entries: nothing of ours writes one without.
  if (pad ? header.count != 0 : header.count == 0) return record_kind::invalid;
  const std::size_t covered = pad ? sizeof header : record.size();
  if (header.checksum != sum_of(record.data(), covered, lsn, uuid)) return record_kind::invalid;
  return pad ? record_kind::pad : record_kind::data;
}

}  // namespace nvm
