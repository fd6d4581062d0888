// Facts about regions, for callers of an interface that names no template.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nvm::region {

// How a transaction is to log its changes of a region (Lewat, section IV): adaptively, or always in one way.  If that
// is impossible, the next better way is taken.
enum class mode : std::uint8_t {
  adaptive = 0,
  replica = 1,   // REWBL: in place, with a replica to go back to; regions of a slot
  copy = 2,      // COUL: the region moves, with its new bytes
  checked = 3,   // CERL: a record with a checksum
  marked = 4,    // REDO: a record, then its mark
  alternate = 5  // two copies, of which the older one is written whole; regions of a slot
};
inline constexpr std::uint8_t mode_max = 5;

// Techniques of changes, for statistics.
enum class technique : std::uint8_t {
  record,    // a record that a checksum proves (CERL): one fence
  marked,    // a record that a mark proves (REDO): two
  direct,    // bytes to which nothing led yet (LOFU, append), then a record of the header
  copy,      // a new place for all bytes (COUL), then a record of the header
  header,    // the header alone: created, dropped, truncated
  replica,   // in place (REWBL), no record: one fence
  alternate  // the other one of two copies: one fence
};
inline constexpr unsigned techniques = 7;

// Changes in place after which a region may move (Lewat, section V), at most.
inline constexpr unsigned levelling_max = (1U << 12) - 1;

// A lease as its holder has it.
struct lease {
  const std::byte* bytes = nullptr;  // never null
  std::uint64_t length = 0;
  std::uint64_t slot = 0;    // thread (32), number of its slot
  std::uint64_t ticket = 0;  // of the slot's use
};

struct statistics {
  std::uint64_t regions = 0;
  std::array<std::uint64_t, techniques> changes{};  // of one region each
  std::array<std::uint64_t, techniques> bytes{};    // that callers wrote
  std::uint64_t transactions = 0;
  std::uint64_t grown = 0;          // runs that got the pages after them
  std::uint64_t moved = 0;          // regions, to make a long run of scattered pages
  std::uint64_t levelled = 0;       // copies because of the levelling counter
  std::uint64_t waiting_bytes = 0;  // of places that were left and are not free yet
  std::uint64_t leases = 0;         // that are held
  std::uint64_t waits = 0;          // of writers, for a region that another held
  std::uint64_t waiting = 0;        // writers, at this moment
  std::uint64_t replicas_made = 0;
  std::uint64_t replicas_given = 0;  // away, to another region
  std::uint64_t straight = 0;        // ranges that went to their pages at once, on ssd
  std::uint64_t bytes_straight = 0;
  // Of domain::know_costs(): picoseconds of a fence, a line, a copied one, a byte; zero: not measured.
  std::array<std::uint32_t, 4> costs{};
};

struct recovery_report {
  std::uint64_t records = 0;     // that counted
  std::uint64_t regions = 0;     // of all sets
  std::uint64_t runs_freed = 0;  // runs that no header named
  std::uint64_t put_back = 0;    // regions whose last change was not whole
  std::uint64_t tables = 0;      // of sets, saved by a close: no header was read
};

}  // namespace nvm::region
