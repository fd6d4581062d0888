// A node of a skip list of pieces: 16 bytes if it is in the lowest list only, as three of four are.
//
//   where   8 bytes  bits 63..16 log address, bit 15 dead, bits 14..0 size - 1
//   home    4 bytes  home address, counted from the stretch of 4 GiB that the node's slab serves (node_store.hpp)
//   next    4 bytes a level, from the lowest up; numbers of nodes
//
// `where` changes by one atomic store, so that a piece moves in the log, grows and shrinks at its end without any node
// being made.  `home` is constant while the node is linked.  A dead node has the number of the next dead one instead of
// a log address.
#pragma once

#include <atomic>
#include <cstdint>

#include "logheap/mapping.hpp"

namespace nvm::logheap {

using node_number = std::uint32_t;
inline constexpr unsigned node_unit = 8;  // bytes that a number counts
inline constexpr unsigned skip_height_max = 15;
inline constexpr std::uint64_t node_piece_max = std::uint64_t{1} << 15;  // bytes of home space of one node
inline constexpr std::uint64_t dead_bit = node_piece_max;

struct skip_node {
  std::atomic<std::uint64_t> where;
  std::atomic<std::uint32_t> home;
  std::atomic<node_number> lowest;  // and the others after it

  [[nodiscard]] std::atomic<node_number>* links() noexcept { return &lowest; }
};
static_assert(sizeof(skip_node) == 16);

// Units of a node of a height.
constexpr unsigned units_of(unsigned height) noexcept { return (12 + 4 * height + node_unit - 1) / node_unit; }

constexpr std::uint64_t live_node(log_t log, std::uint64_t size) noexcept { return log << 16 | (size - 1); }
constexpr std::uint64_t dead_node(node_number next) noexcept { return std::uint64_t{next} << 16 | dead_bit; }
constexpr bool is_dead(std::uint64_t where) noexcept { return (where & dead_bit) != 0; }
constexpr node_number next_dead(std::uint64_t where) noexcept { return static_cast<node_number>(where >> 16); }
constexpr log_t log_of(std::uint64_t where) noexcept { return where >> 16; }
constexpr std::uint64_t size_of(std::uint64_t where) noexcept { return (where & (node_piece_max - 1)) + 1; }

}  // namespace nvm::logheap
