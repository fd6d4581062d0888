// Calls about one region, each a transaction of its own; reads, which take no lock (Lewat, sections III-A and IV-F).
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "base/plant.hpp"
#include "region/domain.hpp"
#include "region/transaction.hpp"

namespace nvm::region {

namespace detail {
// Times that a reader begins again before it registers.
inline constexpr unsigned tries_max = 16;

// Calls body(length, written, place) with values of one moment, until nothing has changed meanwhile.  `counted`: as the
// paper's readers (region_lock.hpp).
template <class Body>
[[nodiscard]] status read_entry(const entry& e, bool counted, std::uint64_t& newest, Body&& body) noexcept {
  auto& lock = const_cast<region_lock&>(e.lock);
  const auto look = [&](auto&& holds) -> status {
    const std::uint64_t length = e.length.load(std::memory_order_acquire);
    // Between the words, so that they are of two moments.
    if (planted(plant::reads_not_validated)) std::this_thread::yield();
    const std::uint64_t written = e.written.load(std::memory_order_acquire);
    const std::uint64_t place = e.place.load(std::memory_order_acquire);
    newest = e.newest.load(std::memory_order_acquire);
    if (!planted(plant::reads_not_validated) && !holds()) return {};
    if (length == entry::dropped) return fail(errc::not_found, "there is no region %lu", e.rid);
    return body(length, written, place);
  };
  for (unsigned i = 0; i < tries_max && !counted; ++i) {
    const std::uint64_t begun = lock.begin_read();
    const auto holds = [&] { return lock.end_read(begun); };
    status s = look(holds);
    if (holds() || planted(plant::reads_not_validated)) return s;
  }
  counted ? lock.count_reader() : lock.register_reader();
  status s = look([] { return true; });
  lock.leave_reading();
  return s;
}
}  // namespace detail

// Bytes that were read: fewer at the end of the region.  errc::not_found; invalid: the offset is after the end.  Cost:
// a look-up and the bytes; no store to a line that threads share, no locked instruction.
template <media M>
[[nodiscard]] result<std::uint64_t> read(domain<M>& d, set_state<M>& s, thread_state<M>& t, std::uint64_t rid,
                                         std::uint64_t offset, std::span<std::byte> to) noexcept {
  const typename domain<M>::inside here{d, t};
  const entry* const e = s.regions.find(rid);
  if (e == nullptr) {
    d.has_seen(t, s, nullptr);
    return s.regions.absence(rid);
  }
  std::uint64_t n = 0;
  std::uint64_t newest = 0;
  const status done = detail::read_entry(
      *e, s.counts_readers(), newest, [&](std::uint64_t length, std::uint64_t written, std::uint64_t place) -> status {
        if (offset > length)
          return fail(errc::invalid, "region %lu: offset %lu, it has %lu bytes", rid, offset, length);
        n = std::min<std::uint64_t>(to.size(), length - offset);
        const std::uint64_t there = offset < written ? std::min(n, written - offset) : 0;
        if (there != 0) isolation::copy_out(to.data(), d.base() + place + offset, there);
        if (n != there) std::memset(to.data() + there, 0, n - there);
        return {};
      });
  if constexpr (M::atomic_batches) t.position = std::max<lsn_t>(t.position, newest);
  if (!done) {
    if (done.error() == errc::not_found) d.has_seen(t, s, nullptr);
    return done.error();
  }
  return n;
}

// errc::not_found.
template <media M>
[[nodiscard]] result<std::uint64_t> length(domain<M>& d, set_state<M>& s, thread_state<M>& t,
                                           std::uint64_t rid) noexcept {
  const typename domain<M>::inside here{d, t};
  const entry* const e = s.regions.find(rid);
  if (e == nullptr) {
    d.has_seen(t, s, nullptr);
    return s.regions.absence(rid);
  }
  std::uint64_t bytes = 0;
  std::uint64_t newest = 0;
  const status done = detail::read_entry(*e, s.counts_readers(), newest,
                                         [&](std::uint64_t length, std::uint64_t, std::uint64_t) -> status {
                                           bytes = length;
                                           return {};
                                         });
  if constexpr (M::atomic_batches) t.position = std::max<lsn_t>(t.position, newest);
  if (!done) {
    d.has_seen(t, s, nullptr);
    return done.error();
  }
  return bytes;
}

// Whether the thread has a transaction open that holds the region.
template <media M>
[[nodiscard]] status not_in_own_transaction(const set_state<M>& s, const thread_state<M>& t,
                                            std::uint64_t rid) noexcept {
  for (const transaction<M>* open : t.open) {
    if (&open->of() == &s && open->has(rid)) {
      return fail(errc::tx_open, "region %lu is in a transaction that this thread has open", rid);
    }
  }
  return {};
}

// One change of one region: body(transaction), then commit.
template <media M, class Body>
[[nodiscard]] status change_alone(domain<M>& d, set_state<M>& s, thread_state<M>& t, std::uint64_t rid, mode how,
                                  bool joins, Body&& body) noexcept try {
  if (status free = not_in_own_transaction(s, t, rid); !free) return free;
  status done;
  {
    const typename domain<M>::inside here{d, t};
    transaction<M> tx{d, s, t};
    tx.lasting(true);
    if (joins) done = tx.join(rid, how);
    if (done) done = body(tx);
    if (done) done = tx.commit();
  }
  d.collect_if_much_waits();
  return done;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a change of a region");
}

}  // namespace nvm::region
