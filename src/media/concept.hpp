// Promises of a medium. All higher layers are written against the concept `media` and never ask which medium they are
// on.
//
// Order and durability are two things.  flush() + fence() order the stores of one thread: if a crash loses bytes that
// the thread flushed before a fence, it loses all of the thread's stores after the fence.  durable(lsn) waits until a
// prefix of that order is on the device.  On direct media a fence also makes durable, and durable() returns at once.
// On an image medium (ssd) flush() captures the bytes into one log with one sequence of LSNs, a fence costs nothing
// because recovery is a prefix of that sequence, and durable() waits for the group's sync.
//
// Unit of failure atomicity: an aligned 8-byte store on direct media, a log record on an image medium.  A medium with
// atomic_batches can make any number of captured ranges durable all or nothing; an engine on it needs no durable undo.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/result.hpp"

namespace nvm {

// Sequence number of the order in which captures become durable; 0 on direct media: already durable.
using lsn_t = std::uint64_t;

// Reason of a fence or a sync: looked up, counted and removed by tests.  "protocol/E<n>", unique in the sources.
struct edge {
  const char* name;
};

// Place of a flush in the sources, for reports and for trace mutation.  Always passed by default argument.
struct site {
  const char* file = "";
  std::uint32_t line = 0;
  static constexpr site here(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

template <class M>
concept media = requires(M& m, typename M::batch& b, const void* p, std::size_t bytes, edge e, lsn_t lsn) {
  // True: publish() makes a whole batch durable all or nothing.
  { M::atomic_batches } -> std::convertible_to<bool>;

  // Direct: begins write-back of each line in [p, p + bytes); orders nothing by itself.  Image: captures the bytes as
  // they are now and takes their LSN in one step, so that an older capture never overwrites a newer one.
  { m.flush(p, bytes) } noexcept;
  // Orders everything that this thread has flushed before everything that it stores or flushes later.
  { m.fence(e) } noexcept;
  // LSN of the calling thread's latest capture or batch.
  { m.last_lsn() } noexcept -> std::same_as<lsn_t>;
  // Waits until everything up to `lsn` is on the device; errc::io for ever after a failed write or sync.
  { m.durable(lsn) } noexcept -> std::same_as<status>;

  // A batch (atomic_batches only; an empty type elsewhere): add() captures a range, which no other thread may be
  // writing. publish(batch, f, e) calls f() inside the order's critical section, where f makes its stores to words that
  // other threads share and adds those, then seals the batch as one record.  Returns its LSN, not yet durable.
  // errc::log_full if it can never fit; then nothing is appended and f is not called. Room is found before f runs:
  // additions of f beyond a small allowance are announced before by expect(ranges, bytes).
  { b.add(p, bytes) } noexcept;
  { b.clear() } noexcept;
};

// The batch of a medium that has none.
struct no_batch {
  void add(const void*, std::size_t, site = site::here()) noexcept {}
  void expect(std::size_t, std::size_t) noexcept {}
  void clear() noexcept {}
};

// Copies to durable memory and begins the write-back of the copy, like flush(), but cheaper if the medium can write
// past the caches.  For logs: the bytes are not read again soon.
template <media M>
inline void copy_out(M& m, void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
  if constexpr (requires { m.copy(to, from, bytes, s); }) {
    m.copy(to, from, bytes, s);
  } else {
    std::memcpy(to, from, bytes);
    m.flush(to, bytes, s);
  }
}

// fence() of a thread whose next access to durable memory is a locked read-modify-write: if that drains, this does
// nothing.
template <media M>
inline void fence_by_rmw(M& m, edge e) noexcept {
  if constexpr (requires { m.fence_by_rmw(e); }) {
    m.fence_by_rmw(e);
  } else {
    m.fence(e);
  }
}
// True: all stores survive every crash that the medium promises to survive, in their order, without flush or fence: the
// crash is a killed process, or the platform flushes the caches.
template <media M>
[[nodiscard]] inline bool stores_survive(const M& m) noexcept {
  if constexpr (requires { m.stores_survive(); }) {
    return m.stores_survive();
  } else {
    return false;
  }
}

// Whether everything up to `lsn` is on the device, without waiting. A true answer stays true when the medium fails.
template <media M>
[[nodiscard]] inline bool is_durable(M& m, lsn_t lsn) noexcept {
  if constexpr (requires { m.is_durable(lsn); }) {
    return m.is_durable(lsn);
  } else {
    return lsn == 0;
  }
}

// Outcome of a request to write bytes straight to their place.
struct straight_outcome {
  bool written = false;   // false: not here or not now; they go by flush()
  std::uint64_t sum = 0;  // for the batch: add_straight()
};
// Waits until a log has room for the batch; another thread may take it then.  The errors of publish(), which does not
// have to wait afterwards unless somebody did.
template <media M>
  requires(M::atomic_batches)
[[nodiscard]] inline status await_room(M& m, typename M::batch& b) noexcept {
  if constexpr (requires { m.await_room(b); }) {
    return m.await_room(b);
  } else {
    return {};
  }
}

// What a straight write waits for: syncs, and until the log is empty.
enum class straight_patience : std::uint8_t {
  if_large,  // as long as it costs less than to write the bytes twice
  always
};
// Writes [p, p + bytes) at once to its place on the device instead of the log: whole sectors to which, as the caller
// knows, nothing leads. They are durable with the batch that has them. State ordered at `free_since` or later does not
// lead there; older state may. No other thread stores there until that batch is published. errc::io.
template <media M>
[[nodiscard]] inline result<straight_outcome> write_straight(
    M& m, const void* p, std::size_t bytes, lsn_t free_since,
    straight_patience patience = straight_patience::if_large) noexcept {
  if constexpr (requires { m.write_straight(p, bytes, free_since, patience); }) {
    return m.write_straight(p, bytes, free_since, patience);
  } else {
    return straight_outcome{};
  }
}
// Ranges of at least so many bytes may go straight to their place; shorter ones never do.
template <media M>
[[nodiscard]] inline std::uint64_t straight_from(const M& m) noexcept {
  if constexpr (requires { m.straight_from(); }) {
    return m.straight_from();
  } else {
    return UINT64_MAX;
  }
}

// Everything that was ordered so far is durable and in its place on the device: no crash, and no writer of the medium,
// stores any of it there again.  Waits for syncs where there is a log.  errc::io.
template <media M>
[[nodiscard]] inline status bring_home(M& m) noexcept {
  if constexpr (requires { m.quiesce(); }) {
    return m.quiesce();
  } else {
    return m.durable(m.last_lsn());
  }
}

// persist = flush + fence.
template <media M>
inline void persist(M& m, const void* p, std::size_t bytes, edge e, site s = site::here()) noexcept {
  m.flush(p, bytes, s);
  m.fence(e);
}

}  // namespace nvm
