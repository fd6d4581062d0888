// Mapping from home addresses to log addresses: the heap's requirements (LSNVMM, sections 3.2 and 4.3).
//
// The heap is written against the concept `mapping` and knows no implementation.  A mapping is volatile: recovery
// builds it from the log, or a clean close saves it.
//
// Addresses.  A home address is a number below 2^47, counted from the begin of the heap's home space; a log address
// is the offset of a byte of contents from the pool's start, below 2^48.  Both by the byte, with no alignment.  Home
// bytes without a piece read as zero.
//
// Threads.  One `client` a thread, with the number that epochs::join() gave it.  Changes of overlapping home ranges by
// assign() and erase() are kept apart by the callers (the transactions' isolation); compare_and_move() and look-ups
// meet them at any time.  Look-ups take no lock, and their caller is inside an epoch (epochs::enter()): a log address
// that they find stays readable until it leaves.  Nodes that a change unlinks are freed when every thread that was
// inside has moved on; so a client's changes are made inside, too.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "base/base.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

using home_t = std::uint64_t;
using log_t = std::uint64_t;
inline constexpr unsigned home_bits = 47;
inline constexpr unsigned log_bits = 48;
inline constexpr home_t home_end = home_t{1} << home_bits;

struct home_range {
  home_t home = 0;
  std::uint64_t size = 0;  // bytes
};
// Bytes of home space and where they are in the log.
struct piece {
  home_t home = 0;
  std::uint64_t size = 0;  // bytes
  log_t log = 0;
};

struct mapping_settings {
  home_t home_first = 0;                 // addresses of the home space: [home_first, home_first + home_bytes)
  std::uint64_t home_bytes = 0;          // multiple of partition_bytes
  std::uint64_t partition_bytes = 4096;  // a power of two
};

namespace detail {
struct seen_piece {  // an argument with which a concept can call
  void operator()(const piece&) const noexcept {}
};
}  // namespace detail

template <class M>
concept mapping = requires(M& m, typename M::client& c, const home_range& r, std::span<const home_range> ranges,
                           std::span<const piece> pieces, const detail::seen_piece& see, home_t home,
                           std::uint64_t size, log_t from, log_t to) {
  // M(epochs&, const mapping_settings&), and then exists(): errc::no_memory if it could not be made.
  requires std::constructible_from<M, epochs&, const mapping_settings&>;
  { m.exists() } noexcept -> std::same_as<status>;
  // The client of a thread, with the thread's number in the epochs.
  requires std::constructible_from<typename M::client, M&, unsigned>;

  // Takes all that the client's next changes may need, so that none of them can fail: one change (assign(), erase() or
  // compare_and_move()) of each of these ranges, or of disjoint parts of one, in any order.  errc::no_memory, and
  // nothing has changed.  Adds to what is reserved already.
  { m.reserve(c, ranges) } noexcept -> std::same_as<status>;
  // The same for a commit: one assign() of each range of the first kind and one erase() of each of the second, whole.
  // They are disjoint, and until then their bytes are changed by no other thread, except by compare_and_move().
  { m.reserve_whole(c, ranges, ranges) } noexcept -> std::same_as<status>;
  // Gives back the rest of the reservation.
  { m.release(c) } noexcept;

  // Maps the bytes of each piece to its log address.  The pieces are those of one transaction, in order of home
  // addresses and disjoint: neighbours both at home and in the log may become one.  replaced(piece) is called for each
  // run of log bytes that was mapped until now.
  { m.assign(c, pieces, see) } noexcept;
  // Leaves home bytes without a piece; replaced(piece) as above.
  { m.erase(c, r, see) } noexcept;

  // Calls visit(piece) for the pieces that overlap [home, home + size), cut to it, in order of home addresses.  Bytes
  // that are not being changed are told as they are; in a change under way each byte is told as before or as after it.
  { m.for_each_piece(c, home, size, see) } noexcept;

  // For the cleaner.  Moves each byte of [home, home + size), at distance d from home, that is mapped to from + d: it
  // is mapped to to + d now.  The others were changed meanwhile and stay as they are.  Returns how many moved.
  { m.compare_and_move(c, home, size, from, to) } noexcept -> std::same_as<std::uint64_t>;

  // As compare_and_move(), but moves only pieces whose bounds stay as they are, so that nothing is reserved for it.
  { m.move_whole_pieces(c, home, size, from, to) } noexcept -> std::same_as<std::uint64_t>;
  // The home address is going to be looked up soon: fetches the memory that this reads.
  { m.fetch(home) } noexcept;

  // For building the mapping: the bytes of each piece are at its log address.  The pieces are in order of home
  // addresses and disjoint, nothing is mapped there, and no other thread changes their partitions.
  // errc::no_memory: some of them may be mapped.
  { m.fill(c, pieces) } noexcept -> std::same_as<status>;

  // All pieces, in order of home addresses, at rest.
  { m.for_each(see) } noexcept;
  { m.bytes_used() } noexcept -> std::same_as<std::uint64_t>;  // of volatile memory, about
};

// fill() by changes, one at a time.
template <class M>
[[nodiscard]] status fill_by_changes(M& m, typename M::client& c, std::span<const piece> pieces) noexcept {
  status s;
  for (std::size_t i = 0; s && i < pieces.size(); ++i) {
    const home_range range{pieces[i].home, pieces[i].size};
    s = m.reserve(c, std::span{&range, 1});
    if (s) m.assign(c, pieces.subspan(i, 1), detail::seen_piece{});
  }
  m.release(c);
  return s;
}

}  // namespace nvm::logheap
