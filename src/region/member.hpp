// A transaction's plan for one region, and its technique (Lewat, section IV).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "region/entry.hpp"
#include "region/face.hpp"
#include "region/record_log.hpp"

namespace nvm::region {

struct member {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  entry* of = nullptr;
  std::uint64_t length = 0;  // as it will be
  std::uint64_t kept = 0;    // old bytes that can still be read: those after them were cut off in the transaction
  std::uint32_t first = none, last = none;  // of its changes
  mode how = mode::adaptive;
  bool created = false;
  bool dropped = false;
  bool touched = false;    // its header changes
  bool relocates = false;  // it moves, and nothing else
  bool renewed = false;    // dropped in the transaction, and made again
  std::uint64_t room = 0;  // that this asks for; 0 otherwise

  // ---- planned at commit ----
  technique by = technique::record;
  bool moves = false;           // to another place
  bool stays = false;           // there is no room for a place that fits it better
  bool leaves_place = false;    // and gets none before it is written
  bool is_leased = false;       // because a lease looks there
  bool dissolves = false;       // it has no partner any longer
  std::uint64_t home = 0;       // where the partner's newer bytes go then; 0: it has none
  std::uint64_t survived = 0;   // old bytes that stay
  std::uint64_t written = 0;    // as it will be
  std::uint64_t new_place = 0;  // 0: it stays where it is
  std::uint64_t new_capacity = 0;
  std::uint64_t new_header = 0;  // 0: the same
  std::uint8_t new_class = 0;

  [[nodiscard]] bool gets_other_place() const noexcept { return new_place != 0 || leaves_place; }
  [[nodiscard]] std::uint64_t header() const noexcept { return new_header != 0 ? new_header : of->header; }
  // Whether its bytes are in pages of their own.
  [[nodiscard]] bool in_run() const noexcept { return place() != 0 && place() != header() + sizeof(layout::header); }
  [[nodiscard]] std::uint64_t place() const noexcept {
    if (new_place != 0) return new_place;
    if (leaves_place) return 0;
    return home != 0 ? home : of->place.load(std::memory_order_relaxed);
  }
};

// New bytes of a region.  `from` leads to the caller's, or they are in the transaction's arena.
struct change {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  const std::byte* from = nullptr;
  std::uint64_t at = 0;
  std::uint32_t next = member::none;
};

// Bytes of one range that lie below and from `edge` on.
[[nodiscard]] constexpr std::uint64_t bytes_below(const change& c, std::uint64_t edge) noexcept {
  return c.offset >= edge ? 0 : std::min(c.bytes, edge - c.offset);
}

// Volatile memory of a transaction; its thread keeps it for the next.
struct transaction_room {
  std::vector<member> members;
  std::vector<std::uint32_t> sorted;  // members by number of region
  std::vector<change> changes;
  std::vector<std::byte> arena;
  // Memory of commit().
  std::vector<home_range> ranges;
  std::vector<std::byte> headers;
  std::vector<std::byte> assembled;

  void clear() noexcept {
    members.clear();
    sorted.clear();
    changes.clear();
    arena.clear();
    ranges.clear();
    headers.clear();
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return members.capacity() * sizeof(member) + changes.capacity() * sizeof(change) + arena.capacity() +
           ranges.capacity() * sizeof(home_range) + headers.capacity();
  }
};

}  // namespace nvm::region
