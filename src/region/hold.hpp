// Holding the bytes of a region: a pointer to committed bytes, which stay as they are until it is let go.
#pragma once

#include <algorithm>

#include "region/calls.hpp"
#include "region/domain.hpp"

namespace nvm::region {

namespace detail {
// Place of the bytes of a region without bytes.
inline constexpr std::byte no_bytes{};

// Copies a region that no single place holds whole.
[[nodiscard]] inline status copy_for(leases::slot& to, lease& out, const std::byte* from,
                                     std::uint64_t written) noexcept {
  to.forget_copy();  // its bytes were of no single moment
  std::byte* const copy = to.make_copy(out.length);
  if (copy == nullptr) {
    return fail(errc::no_memory, "no volatile memory for %lu bytes of a region that was written in part", out.length);
  }
  if (written != 0) isolation::copy_out(copy, from, written);
  out.bytes = copy;
  return {};
}
}  // namespace detail

// Leases the committed bytes of this moment, also to a thread that has changed the region in a transaction.  errc::
// not_found, no_memory.  Cost: a look-up and two stores to a line of the thread's own; the first lease of a place also
// one locked instruction on the region's line.  Where a part of the region was never written, it is a copy in volatile
// memory, of which pages of zeros take none.
template <media M>
[[nodiscard]] result<lease> hold(domain<M>& d, set_state<M>& s, thread_state<M>& t, std::uint64_t rid) noexcept {
  const typename domain<M>::inside here{d, t};
  entry* const e = s.regions.find(rid);
  if (e == nullptr) {
    d.has_seen(t, s, nullptr);
    return s.regions.absence(rid);
  }
  lease out;
  const auto taken = d.leased().take(t.number, out);
  if (!taken) return taken.error();
  leases::slot& slot = **taken;
  for (;;) {
    std::uint64_t newest = 0;
    bool whole = false;
    const status done = detail::read_entry(
        *e, s.counts_readers(), newest,
        [&](std::uint64_t length, std::uint64_t written, std::uint64_t place) -> status {
          out.bytes = &detail::no_bytes;
          out.length = length;
          whole = length != 0 && written == length;
          return whole || length == 0 ? status{} : detail::copy_for(slot, out, d.base() + place, written);
        });
    if (!done) {
      if (done.error() == errc::not_found) d.has_seen(t, s, nullptr);
      d.leased().give(slot);
      return done.error();
    }
    if (whole) {
      slot.forget_copy();
      const std::uint64_t marked = e->lock.begin_lease();
      out.length = e->length.load(std::memory_order_acquire);
      whole = e->written.load(std::memory_order_acquire) == out.length;
      newest = e->newest.load(std::memory_order_acquire);
      const std::uint64_t place = e->place.load(std::memory_order_acquire);
      slot.hold(place);
      out.bytes = d.base() + place;
      if (!e->lock.end_lease(marked) || !whole || out.length == 0 || out.length == entry::dropped) {
        slot.hold_nothing();
        continue;
      }
    }
    if constexpr (M::atomic_batches) t.position = std::max<lsn_t>(t.position, newest);
    return out;
  }
}

// errc::invalid: there is no such lease, or it was let go.
template <media M>
[[nodiscard]] status let_go(domain<M>& d, const lease& l) noexcept {
  if (d.leased().give(l)) return {};
  return fail(errc::invalid, "the lease of a region is none that is held: it was let go, or never was");
}

}  // namespace nvm::region
