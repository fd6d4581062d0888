// Replay: reading a log ring after a crash, and bringing its records home.
//
//   S device write, | sync.  Failure atomicity: a sector.  Commit points of the records themselves: the
//   log sync of image_media (image/E1).
//   1. read both headers; the valid one with the larger sequence names the checkpoint LSN
//   2. the longest run of valid records from there counts; all of it is checked, and no later record may prove that the
//      run was once longer: one whose checksum holds (docs/design/043)
//                                                          | replay/E0  what was found survives before
//                                                                       any thread acts on it
//      S the other header, same checkpoint, all proved,    | replay/E3  before 3 changes bytes whose sum says
//      if a straight entry counts by its sum alone                       that their record counts
//   3. S each touched home sector                          | replay/E1  home before the log lets go
//   4. S the other header, checkpoint at a new lap         | replay/E2  only now may the ring be reused
// Pure over the device, no threads.  A crash anywhere leaves the log valid and 3 is repeated: it writes
// the same bytes again.  After 4 the run is empty and a second replay writes nothing.
//
// A record with straight entries (docs/design/029) is valid if the sums of their bytes hold, or if it is proved: a
// record of the run was made when it was durable, or the header says so.
//
// Opening a pool does 1, 2 and E0, and applies the run to its image in memory; 3 and 4 come later,
// before anything else is written (image_media), and then need no E0.  E0: the last process may have been killed
// between writing records and syncing them; these records are in the run, but a power cut would lose them.
//
// After the run there may be records that were never synced, whole ones after a torn one. They must not come to life
// when the torn one is overwritten: so the new lap has other LSNs than they.
//
// Every field is hostile until checked: no read or write leaves the log area and the file, no loop is longer than the
// ring, and the whole run is checked before the first write.
#pragma once

#include <optional>
#include <vector>

#include "media/block_device.hpp"
#include "media/home_writer.hpp"
#include "media/log_record.hpp"

namespace nvm {

// State of a ring's log.
struct ring_state {
  lsn_t checkpoint = 0;        // everything before is home
  lsn_t proved = 0;            // straight entries up to here count without a check
  std::uint64_t sequence = 0;  // of the header that was read
  unsigned copy = 0;           // number of that header
  bool new_lap = false;        // no record with an LSN from `checkpoint` on was ever written
  bool closed = false;         // the log is empty: nothing was appended since its headers were written
  std::uint64_t records = 0;   // in the run that was found, padding not counted; for reports
  std::uint64_t bytes = 0;     // of that run
};

struct ring_identity {
  layout::ring_place place;
  std::uint8_t uuid[16] = {};
};

// Writes header `copy` (no sync).
[[nodiscard]] status write_ring_header(block_device& device, const ring_identity& ring, unsigned copy,
                                       std::uint64_t sequence, lsn_t checkpoint, lsn_t proved = 0,
                                       site s = site::here()) noexcept;

// First LSN of a new lap, to which no record in a ring of this state can belong: records of a lap lie less than a ring
// beyond its checkpoint.
[[nodiscard]] constexpr lsn_t next_lap(lsn_t end, const layout::ring_place& place) noexcept {
  return round_up(end, place.ring_bytes()) + place.ring_bytes();
}

// Makes an empty ring of a new pool: zeros all over, so that later syncs touch no unwritten extents,
// and both headers.  Not synced: creation syncs the file as a whole.  Returns the state.
[[nodiscard]] result<ring_state> format_ring(block_device& device, const ring_identity& ring) noexcept;

// Reads valid records one after the other.
class ring_scanner {
 public:
  ring_scanner(block_device& device, const ring_identity& ring, lsn_t start) noexcept
      : device_{device}, ring_{ring}, start_{start}, at_{start} {}

  // The next valid record; empty at the end of the run.  The bytes are valid until the next call. errc::io as the
  // device says, errc::no_memory.
  result<std::span<const std::byte>> next() noexcept;
  // Start of the next record, end of the run after the last.
  [[nodiscard]] lsn_t position() const noexcept { return at_; }

 private:
  status load(std::uint64_t bytes) noexcept;

  block_device& device_;
  const ring_identity& ring_;
  lsn_t start_;
  lsn_t at_;
  std::vector<std::byte> window_;  // copy of the log [window_start_, ...)
  lsn_t window_start_ = 0;
};

// State of the ring as its headers say; errc::corrupt if neither is valid, or both claim to be newest.
[[nodiscard]] result<ring_state> read_ring(block_device& device, const ring_identity& ring) noexcept;

// Contents of a ring at its opening.
struct log_run {
  ring_state state;              // of its headers; after bring_home(), of those that it wrote
  lsn_t end = 0;                 // the run is [state.checkpoint, end)
  std::vector<std::byte> bytes;  // its records, checked
  bool counts_by_sums = false;   // parts of it would not count if straight bytes were changed

  [[nodiscard]] bool empty() const noexcept { return bytes.empty(); }
};

// Steps 1 and 2.  Reads the ring, unless it was closed.  errc::corrupt if an entry reaches beyond the file or
// `home_bytes_max`.
[[nodiscard]] result<log_run> read_log(block_device& device, const ring_identity& ring,
                                       std::uint64_t home_bytes_max = ~std::uint64_t{0}) noexcept;
// The same with E0: from here on the run is final.
[[nodiscard]] result<log_run> open_log(block_device& device, const ring_identity& ring,
                                       std::uint64_t home_bytes_max) noexcept;
// Applies the run's entries, in order, to an image of the file at `base`, of at least home_bytes_max bytes.
void apply_run(const log_run& run, const ring_identity& ring, std::byte* base) noexcept;
// Steps 3 and 4; the run is empty afterwards.
[[nodiscard]] status bring_home(block_device& device, const ring_identity& ring, log_run& run,
                                home_writer& home) noexcept;

// Steps 1 to 4 at once.
[[nodiscard]] result<ring_state> replay(block_device& device, const ring_identity& ring) noexcept;

// Steps 1 and 2, then the bytes go to [base, base + bytes) instead: for a file that is opened for reading only.
[[nodiscard]] result<ring_state> replay_to_memory(block_device& device, const ring_identity& ring, std::byte* base,
                                                  std::uint64_t bytes) noexcept;

}  // namespace nvm
