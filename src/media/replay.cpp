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
                    h.checkpoint_lsn % sector_bytes == 0 && h.proved_lsn < layout::lsn_max &&
                    (h.proved_lsn == 0 || h.proved_lsn >= h.checkpoint_lsn);
  return sane ? header_kind::valid : header_kind::damaged;
}

// The run ends at `end`. Later records show whether the log is damaged there or the rest was never synced: each says
// what was durable when it was made. They may lie anywhere, also on a lap that only a lost header knew.
//
// Only a record whose checksum holds proves anything: any bytes of a payload may read as a header (docs/design/043).
// Claims that overlap would make this quadratic. So small ones are looked at first, and of each order of magnitude as
// much as four full rings hold, which records of ours cannot exceed; what is beyond that is passed over.
class lost_records {
 public:
  lost_records(block_device& device, const ring_identity& ring, lsn_t end) noexcept
      : device_{device}, ring_{ring}, end_{end} {}

  status refuse() noexcept {
    try {
      for (std::uint64_t above = 0, most = 4 * layout::ring_unit;; above = most, most *= 4) {
        bool larger = false;
        if (const status s = look_at_all(above, most, larger); !s) return s;
        if (!larger) return {};
      }
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no memory to look through the log");
    }
  }

 private:
  // Those of more than `above` bytes, up to `most`.
  status look_at_all(std::uint64_t above, std::uint64_t most, bool& larger) {
    const layout::ring_place& place = ring_.place;
    constexpr std::uint64_t window_bytes = 256 * 1024;
    std::uint64_t left = 4 * std::max<std::uint64_t>(place.ring_bytes(), 4 << 20);
    for (std::uint64_t begin = 0; begin < place.ring_bytes(); begin += window_bytes) {
      window_.resize(std::min(window_bytes, place.ring_bytes() - begin));
      if (const status s = device_.read(place.ring_offset() + begin, window_.data(), window_.size()); !s) return s;
      for (std::uint64_t at = 0; at < window_.size(); at += layout::ring_unit) {
        layout::ring_record header;
        std::memcpy(&header, &window_[at], sizeof header);
        if (header.durable_lsn <= end_ || header.lsn >= layout::lsn_max) continue;
        if (header.lsn % place.ring_bytes() != begin + at) continue;
        const std::uint64_t bytes = claimed_bytes(header, header.lsn, place);
        larger = larger || bytes > most;
        if (bytes <= above || bytes > most || bytes > left) continue;
        left -= std::min(left, bytes);
        if (const status s = look_at(header, begin, at, bytes); !s) return s;
      }
    }
    return {};
  }

  status look_at(const layout::ring_record& header, std::uint64_t begin, std::uint64_t at, std::uint64_t bytes) {
    std::span<const std::byte> record;
    if (bytes <= window_.size() - at) {
      record = {&window_[at], static_cast<std::size_t>(bytes)};
    } else {
      record_.resize(bytes);
      if (const status s = device_.read(ring_.place.ring_offset() + begin + at, record_.data(), bytes); !s) return s;
      record = record_;
    }
    if (check_record(record, header.lsn, ring_.uuid) == record_kind::invalid) return {};
    return fail(errc::corrupt,
                "log is damaged at offset %llu, LSN %llu: found a record made when it was durable to LSN %llu",
                static_cast<unsigned long long>(ring_.place.offset_of(end_)), static_cast<unsigned long long>(end_),
                static_cast<unsigned long long>(header.durable_lsn));
  }

  block_device& device_;
  const ring_identity& ring_;
  const lsn_t end_;
  std::vector<std::byte> window_, record_;
};

// Calls visit(offset, data, bytes) for each entry of the run.
template <class Visit>
status each_entry_of(const log_run& run, const ring_identity& ring, std::uint64_t home_bytes, Visit&& visit) noexcept {
  for (std::size_t at = 0; at < run.bytes.size();) {
    layout::ring_record header;
    std::memcpy(&header, &run.bytes[at], sizeof header);
    const std::size_t bytes = header.units * layout::ring_unit;
    if (const status s = each_entry({&run.bytes[at], bytes}, ring.place, home_bytes, visit); !s) return s;
    at += bytes;
  }
  return {};
}

// Records of a run that have straight entries.
class straight_records {
 public:
  straight_records(block_device& device, const ring_identity& ring, std::uint64_t home_bytes) noexcept
      : device_{device}, ring_{ring}, home_bytes_{home_bytes} {}

  // May throw std::bad_alloc.
  void note(lsn_t end, std::size_t at, std::uint64_t records_before) { all_.push_back({end, at, records_before}); }

  // Cuts the run before the first record that does not count; those up to `proved` count.
  status judge(log_run& run, lsn_t proved) noexcept {
    for (const one& r : all_) {
      if (r.end <= proved || planted(plant::straight_not_read)) continue;
      layout::ring_record header;
      std::memcpy(&header, &run.bytes[r.at], sizeof header);
      bool holds = true;
      const auto nothing = [](std::uint64_t, const std::byte*, std::size_t) noexcept -> status { return {}; };
      const auto look = [&](std::uint64_t offset, std::uint64_t bytes, const auto& rest) noexcept -> status {
        const result<std::uint64_t> found = holds ? sum_at(offset, bytes) : result<std::uint64_t>{rest.sum};
        if (!found) return found.error();
        holds = holds && *found == rest.sum;
        return {};
      };
      const std::size_t bytes = header.units * layout::ring_unit;
      if (const status s = each_entry({&run.bytes[r.at], bytes}, ring_.place, home_bytes_, nothing, look); !s) return s;
      if (!holds) {
        run.bytes.resize(r.at);
        run.end = header.lsn;
        run.state.records = r.records_before;
        return {};
      }
      run.counts_by_sums = true;
    }
    return {};
  }

 private:
  struct one {
    lsn_t end;
    std::size_t at;  // in the run's bytes
    std::uint64_t records_before;
  };

  // Bytes that are not proved lie apart (docs/design/029): a log that claims more of them than the file has is forged,
  // and is not read any further.
  result<std::uint64_t> sum_at(std::uint64_t offset, std::uint64_t bytes) noexcept {
    read_ += bytes;
    if (read_ > home_bytes_)
      return fail(errc::corrupt, "straight entries that are not proved claim %llu bytes, the file has %llu",
                  static_cast<unsigned long long>(read_), static_cast<unsigned long long>(home_bytes_));
    try {
      piece_.resize(std::max<std::size_t>(piece_.size(), std::min(bytes, layout::straight_piece_bytes)));
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no memory to look at straight bytes");
    }
    std::uint64_t sum = layout::straight_seed(ring_.uuid, offset);
    while (bytes != 0) {
      const auto count = static_cast<std::size_t>(std::min(bytes, layout::straight_piece_bytes));
      if (const status s = device_.read(offset, piece_.data(), count); !s) return s.error();
      sum = checksum(piece_.data(), count, sum);
      offset += count;
      bytes -= count;
    }
    return sum;
  }

  block_device& device_;
  const ring_identity& ring_;
  const std::uint64_t home_bytes_;
  std::uint64_t read_ = 0;
  std::vector<one> all_;
  std::vector<std::byte> piece_;
};

}  // namespace

status write_ring_header(block_device& device, const ring_identity& ring, unsigned copy, std::uint64_t sequence,
                         lsn_t checkpoint, lsn_t proved, site s) noexcept {
  layout::ring_header h{};
  h.magic = layout::ring_magic;
  h.sequence = sequence;
  h.checkpoint_lsn = checkpoint;
  h.ring_bytes = ring.place.ring_bytes();
  h.proved_lsn = proved;
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
  // The window never begins after at_.
  if (at_ + bytes <= window_start_ + window_.size()) return {};
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
                    .proved = copies[c].proved_lsn,
                    .sequence = copies[c].sequence,
                    .copy = c,
                    .closed = valid[0] && valid[1] && copies[0].checkpoint_lsn == copies[1].checkpoint_lsn &&
                              (copies[0].proved_lsn | copies[1].proved_lsn) == 0};
}

result<log_run> read_log(block_device& device, const ring_identity& ring, std::uint64_t home_bytes_max) noexcept {
  const result<ring_state> state = read_ring(device, ring);
  if (!state) return state.error();
  log_run run{.state = *state, .end = state->checkpoint, .bytes = {}};
  if (state->closed) return run;
  const result<std::uint64_t> size = device.size();
  if (!size) return size.error();
  const std::uint64_t home_bytes = std::min(home_bytes_max, *size);
  const auto nothing = [](std::uint64_t, const std::byte*, std::size_t) noexcept -> status { return {}; };
  bool is_straight = false;
  const auto note = [&](std::uint64_t offset, std::uint64_t, const layout::straight_rest& rest) noexcept -> status {
    is_straight = true;
    if (rest.home_lsn <= state->checkpoint) return {};
    return fail(
        errc::corrupt,
        "log headers say that all is home to LSN %llu: found straight bytes at offset %llu, written when it was "
        "home to LSN %llu",
        static_cast<unsigned long long>(state->checkpoint), static_cast<unsigned long long>(offset),
        static_cast<unsigned long long>(rest.home_lsn));
  };
  straight_records straight{device, ring, home_bytes};
  lsn_t proved = state->proved;
  ring_scanner scanner{device, ring, state->checkpoint};
  for (;;) {
    const result<std::span<const std::byte>> record = scanner.next();
    if (!record) return record.error();
    if (record->empty()) break;
    is_straight = false;
    if (const status s = each_entry(*record, ring.place, home_bytes, nothing, note); !s) return s.error();
    layout::ring_record header;
    std::memcpy(&header, record->data(), sizeof header);
    proved = std::max(proved, header.durable_lsn);
    try {
      if (is_straight) straight.note(scanner.position(), run.bytes.size(), run.state.records);
      run.bytes.insert(run.bytes.end(), record->begin(), record->end());
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no memory for %zu bytes of log", run.bytes.size() + record->size());
    }
    if (header.count != 0) ++run.state.records;
  }
  run.end = scanner.position();
  if (const status s = straight.judge(run, proved); !s) return s.error();
  run.state.bytes = run.bytes.size();
  if (const status s = lost_records{device, ring, run.end}.refuse(); !s) return s.error();
  return run;
}

result<log_run> open_log(block_device& device, const ring_identity& ring, std::uint64_t home_bytes_max) noexcept {
  result<log_run> run = read_log(device, ring, home_bytes_max);
  if (!run || run->empty()) return run;
  if (const status s = device.sync(edge{"replay/E0"}); !s) return s.error();
  return run;
}

void apply_run(const log_run& run, const ring_identity& ring, std::byte* base) noexcept {
  const auto to_memory = [&](std::uint64_t offset, const std::byte* data, std::size_t count) noexcept -> status {
    std::memcpy(base + offset, data, count);
    return {};
  };
  // read_log() has checked every entry.
  const status applied = each_entry_of(run, ring, ~std::uint64_t{0}, to_memory);
  NVM_ASSERT(applied);
}

status bring_home(block_device& device, const ring_identity& ring, log_run& run, home_writer& home) noexcept {
  if (run.empty()) return {};
  const auto to_home = [&](std::uint64_t offset, const std::byte* data, std::size_t bytes) noexcept {
    return home.put(offset, data, bytes);
  };
  ring_state& state = run.state;
  if (run.counts_by_sums) {
    const status s = write_ring_header(device, ring, state.copy ^ 1, state.sequence + 1, state.checkpoint, run.end);
    if (!s) return s;
    if (const status synced = device.sync(edge{"replay/E3"}); !synced) return synced;
    state.copy ^= 1;
    state.sequence += 1;
    run.counts_by_sums = false;
  }
  if (const status s = home.begin(); !s) return s;
  if (const status s = each_entry_of(run, ring, ~std::uint64_t{0}, to_home); !s) return s;
  if (const status s = home.finish(); !s) return s;
  if (home.bytes_written() != 0) {
    if (const status s = device.sync(edge{"replay/E1"}); !s) return s;
  }
  const lsn_t checkpoint = next_lap(run.end, ring.place);
  if (const status s = write_ring_header(device, ring, state.copy ^ 1, state.sequence + 1, checkpoint); !s) return s;
  if (const status s = device.sync(edge{"replay/E2"}); !s) return s;
  state.checkpoint = run.end = checkpoint;
  state.proved = 0;
  state.copy ^= 1;
  state.sequence += 1;
  state.new_lap = true;
  state.closed = false;
  run.bytes = {};
  return {};
}

result<ring_state> replay(block_device& device, const ring_identity& ring) noexcept {
  result<log_run> run = read_log(device, ring);
  if (!run) return run.error();
  if (run->empty()) return run->state;
  const result<std::unique_ptr<home_writer>> home = home_writer::make(device);
  if (!home) return home.error();
  if (const status s = bring_home(device, ring, *run, **home); !s) return s.error();
  return run->state;
}

result<ring_state> replay_to_memory(block_device& device, const ring_identity& ring, std::byte* base,
                                    std::uint64_t bytes) noexcept {
  // A private mapping may be longer than its file: addresses beyond the end of the file must not be touched.
  const result<log_run> run = read_log(device, ring, bytes);
  if (!run) return run.error();
  apply_run(*run, ring, base);
  return run->state;
}

}  // namespace nvm
