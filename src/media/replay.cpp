#include "media/replay.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace nvm {
namespace {

enum class header_kind : std::uint8_t { valid, damaged, foreign };

std::uint64_t checksum_of(const layout::ring_header& h) noexcept {
  return checksum(&h, offsetof(layout::ring_header, checksum), layout::ring_magic);
}

header_kind classify(const layout::ring_header& h, const ring_identity& ring) noexcept {
  if (h.magic != layout::ring_magic || h.checksum != checksum_of(h)) return header_kind::damaged;
  if (std::memcmp(h.uuid, ring.uuid, sizeof h.uuid) != 0) return header_kind::foreign;
  const bool reserved_zero = std::all_of(std::begin(h.reserved), std::end(h.reserved), [](auto r) { return r == 0; });
  const bool sane = reserved_zero && h.ring_bytes == ring.place.ring_bytes() && h.checkpoint_lsn < layout::lsn_max &&
                    h.checkpoint_lsn % sector_bytes == 0;
  return sane ? header_kind::valid : header_kind::damaged;
}

// The run ends at `end`.  If it ends there because the log is damaged, and not because the rest was never
// synced, then later records say so: each knows what was durable when it was made.  They may lie
// anywhere, also on a lap that only a lost header knew.
status refuse_lost_records(block_device& device, const ring_identity& ring, lsn_t end) noexcept {
  const layout::ring_place& place = ring.place;
  constexpr std::uint64_t window_bytes = 256 * 1024;
  std::vector<std::byte> window, record;
  // Our own records do not overlap; a forger's may, and must not make this quadratic.
  std::uint64_t checksummed = 0;
  try {
    for (std::uint64_t begin = 0; begin < place.ring_bytes(); begin += window_bytes) {
      window.resize(std::min(window_bytes, place.ring_bytes() - begin));
      if (const status s = device.read(place.ring_offset() + begin, window.data(), window.size()); !s) return s;
      for (std::uint64_t at = 0; at < window.size(); at += layout::ring_unit) {
        layout::ring_record header;
        std::memcpy(&header, &window[at], sizeof header);
        if (header.durable_lsn <= end || header.lsn >= layout::lsn_max) continue;
        if (header.lsn % place.ring_bytes() != begin + at) continue;
        record.resize(claimed_bytes(header, header.lsn, place));
        if (record.empty()) continue;
        if (const status s = device.read(place.ring_offset() + begin + at, record.data(), record.size()); !s) return s;
        checksummed += record.size();
        if (checksummed <= 4 * place.ring_bytes() &&
            check_record(record, header.lsn, ring.uuid) == record_kind::invalid)
          continue;
        return fail(errc::corrupt,
                    "log is damaged at offset %llu, LSN %llu: found a record made when it was durable to LSN %llu",
                    static_cast<unsigned long long>(place.offset_of(end)), static_cast<unsigned long long>(end),
                    static_cast<unsigned long long>(header.durable_lsn));
      }
    }
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no memory to look through the log");
  }
  return {};
}

// Runs over the log from state.checkpoint, up to `end` if that is not 0, and gives each entry to
// visit(offset, data, bytes).  Returns the end of the run.
template <class Visit>
result<lsn_t> walk(block_device& device, const ring_identity& ring, ring_state& state, lsn_t end,
                   std::uint64_t home_bytes, Visit&& visit) noexcept {
  ring_scanner scanner{device, ring, state.checkpoint};
  while (end == 0 || scanner.position() < end) {
    result<std::span<const std::byte>> record = scanner.next();
    if (!record) return record.error();
    if (record->empty()) break;
    layout::ring_record header;
    std::memcpy(&header, record->data(), sizeof header);
    if (header.count != 0) ++state.records;
    if (const status s = each_entry(*record, ring.place, home_bytes, visit); !s) return s.error();
  }
  return scanner.position();
}

// Checks all of the run, then gives all of it to `visit`.
template <class Visit>
result<lsn_t> check_then_walk(block_device& device, const ring_identity& ring, ring_state& state,
                              std::uint64_t home_bytes, Visit&& visit) noexcept {
  const auto nothing = [](std::uint64_t, const std::byte*, std::size_t) noexcept -> status { return {}; };
  if (state.closed) return state.checkpoint;
  ring_state checked = state;
  result<lsn_t> end = walk(device, ring, checked, 0, home_bytes, nothing);
  if (!end) return end;
  if (const status s = refuse_lost_records(device, ring, *end); !s) return s.error();
  if (*end == state.checkpoint) return end;
  result<lsn_t> again = walk(device, ring, state, *end, home_bytes, visit);
  if (again && *again != *end)
    return fail(errc::io, "log changed while it was read: valid to LSN %llu, then to %llu",
                static_cast<unsigned long long>(*end), static_cast<unsigned long long>(*again));
  return again;
}

}  // namespace

status write_ring_header(block_device& device, const ring_identity& ring, unsigned copy, std::uint64_t sequence,
                         lsn_t checkpoint, site s) noexcept {
  layout::ring_header h{};
  h.magic = layout::ring_magic;
  h.sequence = sequence;
  h.checkpoint_lsn = checkpoint;
  h.ring_bytes = ring.place.ring_bytes();
  std::memcpy(h.uuid, ring.uuid, sizeof h.uuid);
  h.checksum = checksum_of(h);
  return device.write(ring.place.header_offset(copy), &h, sizeof h, s);
}

result<ring_state> format_ring(block_device& device, const ring_identity& ring) noexcept {
  static constexpr std::byte zeros[64 * 1024] = {};
  std::uint64_t offset = ring.place.log_offset;
  const std::uint64_t end = offset + ring.place.log_bytes;
  while (offset < end) {
    const std::size_t count = std::min<std::uint64_t>(sizeof zeros, end - offset);
    if (const status s = device.write(offset, zeros, count); !s) return s.error();
    offset += count;
  }
  for (unsigned copy = 0; copy < 2; ++copy)
    if (const status s = write_ring_header(device, ring, copy, copy + 1, 0); !s) return s.error();
  return ring_state{.checkpoint = 0, .sequence = 2, .copy = 1, .closed = true};
}

// Makes window_ hold `bytes` bytes of the log from at_ on, and more if the ring does not end there.
status ring_scanner::load(std::uint64_t bytes) noexcept {
  if (at_ >= window_start_ && at_ + bytes <= window_start_ + window_.size()) return {};
  constexpr std::uint64_t window_bytes = 128 * 1024;
  const std::uint64_t to_ring_end = ring_.place.ring_bytes() - at_ % ring_.place.ring_bytes();
  const std::uint64_t count = std::min(to_ring_end, std::max(bytes, window_bytes));
  try {
    window_.resize(count);
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no memory for %llu bytes of log", static_cast<unsigned long long>(count));
  }
  window_start_ = at_;
  return device_.read(ring_.place.offset_of(at_), window_.data(), count);
}

result<std::span<const std::byte>> ring_scanner::next() noexcept {
  constexpr std::span<const std::byte> none;
  // Less than one record's header is never left in the ring; the run is no longer than the ring.
  if (at_ + sizeof(layout::ring_record) > start_ + ring_.place.ring_bytes()) return none;
  if (const status s = load(sizeof(layout::ring_record)); !s) return s.error();
  layout::ring_record header;
  std::memcpy(&header, &window_[at_ - window_start_], sizeof header);
  const std::uint64_t bytes = claimed_bytes(header, at_, ring_.place);
  if (bytes == 0 || at_ + bytes > start_ + ring_.place.ring_bytes()) return none;
  if (const status s = load(bytes); !s) return s.error();
  const std::span<const std::byte> record{&window_[at_ - window_start_], static_cast<std::size_t>(bytes)};
  if (check_record(record, at_, ring_.uuid) == record_kind::invalid) return none;
  at_ += bytes;
  return record;
}

result<ring_state> read_ring(block_device& device, const ring_identity& ring) noexcept {
  result<std::uint64_t> size = device.size();
  if (!size) return size.error();
  if (!ring.place.well_formed(*size))
    return fail(errc::corrupt, "log area at offset %llu, %llu bytes, does not fit a file of %llu bytes",
                static_cast<unsigned long long>(ring.place.log_offset),
                static_cast<unsigned long long>(ring.place.log_bytes), static_cast<unsigned long long>(*size));
  layout::ring_header copies[2];
  header_kind kinds[2];
  for (unsigned c = 0; c < 2; ++c) {
    if (const status s = device.read(ring.place.header_offset(c), &copies[c], sizeof copies[c]); !s) return s.error();
    kinds[c] = classify(copies[c], ring);
    if (kinds[c] == header_kind::foreign)
      return fail(errc::corrupt, "log header at offset %llu belongs to another pool",
                  static_cast<unsigned long long>(ring.place.header_offset(c)));
  }
  const bool valid[2] = {kinds[0] == header_kind::valid, kinds[1] == header_kind::valid};
  if (!valid[0] && !valid[1])
    return fail(errc::corrupt, "log headers at offsets %llu and %llu: checksums %016llx and %016llx do not hold",
                static_cast<unsigned long long>(ring.place.header_offset(0)),
                static_cast<unsigned long long>(ring.place.header_offset(1)),
                static_cast<unsigned long long>(copies[0].checksum),
                static_cast<unsigned long long>(copies[1].checksum));
  if (valid[0] && valid[1] && copies[0].sequence == copies[1].sequence)
    return fail(errc::corrupt, "log headers at offsets %llu and %llu: both have sequence %llu",
                static_cast<unsigned long long>(ring.place.header_offset(0)),
                static_cast<unsigned long long>(ring.place.header_offset(1)),
                static_cast<unsigned long long>(copies[0].sequence));
  const unsigned c = !valid[0] || (valid[1] && copies[1].sequence > copies[0].sequence) ? 1 : 0;
  return ring_state{.checkpoint = copies[c].checkpoint_lsn,
                    .sequence = copies[c].sequence,
                    .copy = c,
                    .closed = valid[0] && valid[1] && copies[0].checkpoint_lsn == copies[1].checkpoint_lsn};
}

result<ring_state> replay(block_device& device, const ring_identity& ring) noexcept {
  result<ring_state> state = read_ring(device, ring);
  if (!state) return state;
  result<std::uint64_t> size = device.size();
  if (!size) return size.error();
  // Made at the first entry: a ring that was left empty costs nothing.
  std::unique_ptr<home_writer> home;
  const auto to_home = [&](std::uint64_t offset, const std::byte* data, std::size_t bytes) noexcept -> status {
    if (home == nullptr) {
      result<std::unique_ptr<home_writer>> made = home_writer::make(device);
      if (!made) return made.error();
      home = std::move(*made);
      if (const status s = home->begin(); !s) return s;
    }
    return home->put(offset, data, bytes);
  };
  const result<lsn_t> end = check_then_walk(device, ring, *state, *size, to_home);
  if (!end) return end.error();
  state->bytes = *end - state->checkpoint;
  if (state->bytes == 0) return state;
  if (home != nullptr) {
    if (const status s = home->finish(); !s) return s.error();
    if (const status s = device.sync(edge{"replay/E1"}); !s) return s.error();
  }
  state->checkpoint = next_lap(*end, ring.place);
  state->new_lap = true;
  state->closed = false;
  state->copy ^= 1;
  state->sequence += 1;
  if (const status s = write_ring_header(device, ring, state->copy, state->sequence, state->checkpoint); !s)
    return s.error();
  if (const status s = device.sync(edge{"replay/E2"}); !s) return s.error();
  return state;
}

result<ring_state> replay_to_memory(block_device& device, const ring_identity& ring, std::byte* base,
                                    std::uint64_t bytes) noexcept {
  result<ring_state> state = read_ring(device, ring);
  if (!state) return state;
  const auto to_memory = [&](std::uint64_t offset, const std::byte* data, std::size_t count) noexcept -> status {
    std::memcpy(base + offset, data, count);
    return {};
  };
  result<std::uint64_t> size = device.size();
  if (!size) return size.error();
  // A private mapping may be longer than its file: beyond the end of the file nothing can be touched.
  const result<lsn_t> end = check_then_walk(device, ring, *state, std::min(bytes, *size), to_memory);
  if (!end) return end.error();
  state->bytes = *end - state->checkpoint;
  return state;
}

}  // namespace nvm
