// The part of a transaction of one region that stores beside the log (partners.hpp); included by transaction.hpp.
//
// Cost of n changed bytes of a region that fits a slot, in lines and fences until the call returns:
//   record with a checksum (512 bytes at most)   (32 + n) / 64       1    later n / 64 lines home
//   record with a mark                           (32 + n) / 64 + 1   2    the same
//   all of it to a new place                     s / 64 + 3          2    of s bytes in all
//   in place, with a replica that has caught up  n / 64 + 1          1    later n / 64 + 1 lines and a fence
//   in place, with one that has not              2 (n / 64 + 1)      2    the same
//   the other one of two copies                  s / 64 + 1          1
// So up to 512 bytes a replica never pays, and copies where about half of the region and more changes; beyond that both
// do.  A region gets either by mode alone: that takes a truncation of the log, and the copying.
#pragma once

#include "region/transaction.hpp"

namespace nvm::region {

// Whether only written bytes of a region that fits a slot change.
template <media M>
bool transaction<M>::is_within(const member& m) const noexcept {
  const entry& e = *m.of;
  if (m.created || m.touched || !e.inside() || set_.is_to_level(e.levelling)) {
    return false;
  }
  const std::uint64_t written = e.written.load(std::memory_order_relaxed);
  std::uint64_t sum = 0;
  bool within = true;
  each_change(m, [&](const change& c) {
    sum += c.bytes;
    within = within && (c.bytes == 0 || c.offset + c.bytes <= written);
  });
  return within && sum != 0;
}

// Whether the partner that the region has is the cheapest way.
template <media M>
bool transaction<M>::pays_in_place(const member& m) const noexcept {
  const auto lines = [](std::uint64_t n) { return (n + line_bytes - 1) / line_bytes; };
  std::uint64_t bytes = 0;
  each_change(m, [&](const change& c) { bytes += c.bytes; });
  if (bytes > checked_max) return true;
  const entry& e = *m.of;
  return set_.partners_of.at(e.partner).kind == layout::partner_kind::copies &&
         lines(e.written.load(std::memory_order_relaxed)) + 1 <= lines(sizeof(layout::header) + bytes) + lines(bytes);
}

// False: nothing has changed, and another technique is to be taken.
template <media M>
bool transaction<M>::commit_in_place() noexcept {
  if constexpr (M::atomic_batches) return false;
  if (members_.size() != 1) return false;  // one record is the commit of several
  member& m = members_.front();
  entry& e = *m.of;
  auto kind = e.partner != 0 ? set_.partners_of.at(e.partner).kind : layout::partner_kind::none;
  if (m.how == mode::replica || m.how == mode::alternate) {
    const auto asked = m.how == mode::replica ? layout::partner_kind::replica : layout::partner_kind::copies;
    if (e.partner != 0 && kind != asked) return false;
    kind = asked;
  } else if (m.how != mode::adaptive || e.partner == 0) {
    return false;
  }
  if (!is_within(m) || (m.how == mode::adaptive && !pays_in_place(m))) return false;
  try {
    if (assembled_.size() < layout::inside_max) assembled_.resize(layout::inside_max);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!close_to_leases(e)) return false;  // a lease looks at the bytes: the region moves
  if (kind == layout::partner_kind::copies) return write_other_copy(m);
  if (e.partner == 0 && !take_replica(m)) return false;
  store_in_place(m);
  return true;
}

// Makes sure that no record that counts leads to the region: then it may have a partner.
template <media M>
void transaction<M>::leave_log(const entry& e) noexcept {
  if (e.newest.load(std::memory_order_relaxed) > domain_.log().truncated() && !planted(plant::replica_beside_record)) {
    domain_.log().truncate();
  }
}
template <media M>
bool transaction<M>::write_other_copy(member& m) noexcept {
  entry& e = *m.of;
  const std::uint64_t written = e.written.load(std::memory_order_relaxed);
  assemble(m, 0, written, assembled_.data());
  if (e.partner == 0) {
    const unsigned in_class = layout::partner_class_of(written);
    const auto at = slot(in_class);
    if (!at) return false;
    const std::uint32_t i = set_.partners_of.add(e, *at, in_class, layout::partner_kind::copies);
    if (i == 0) {
      set_.where.put_slot(in_class, *at);
      return false;
    }
    leave_log(e);
    e.partner = i;
    domain_.stores().begin_copies(set_.partners_of.at(i), e, assembled_.data());
  } else {
    domain_.stores().write_copy(set_.partners_of.at(e.partner), e, assembled_.data());
  }
  const partner_state& p = set_.partners_of.at(e.partner);
  // Readers had the older one until now.
  show(e, p.newest_here ? p.bytes_at() : e.home());
  m.by = technique::alternate;
  if (!p.newest_here && e.levelling < layout::levelling_max) ++e.levelling;
  return true;
}
template <media M>
void transaction<M>::show(entry& e, std::uint64_t place) noexcept {
  e.lock.begin_change(set_.patience());
  e.place.store(place, std::memory_order_relaxed);
  e.lock.end_change(false);
}

template <media M>
bool transaction<M>::take_replica(member& m) noexcept {
  entry& e = *m.of;
  partners& all = set_.partners_of;
  unsigned in_class = layout::partner_class_of(e.written.load(std::memory_order_relaxed));
  std::uint64_t at = 0;
  // The replica of a region that needs it less.
  const auto take_away = [&] {
    const std::uint32_t i = all.hold_least_recent();
    if (i == 0) return;
    partner_state& p = all.at(i);
    entry& loser = *p.of.load(std::memory_order_relaxed);
    domain_.stores().give_away(p);
    const std::uint64_t offset = p.offset;
    const unsigned its_class = p.in_class;
    all.remove(i);  // from here on the number may be another partner's
    loser.partner = 0;
    loser.lock.let_go();
    thread_.replicas_given.add(1);
    if (its_class >= in_class) {
      in_class = its_class;
      at = offset;
    } else {
      set_.where.put_slot(its_class, offset);
    }
  };
  if (all.full()) {
    take_away();
    if (all.full()) {
      if (at != 0) set_.where.put_slot(in_class, at);
      return false;
    }
  }
  if (at == 0) {
    auto taken = set_.where.take_slot(in_class, thread_.number, [&] { domain_.about_to_change(set_); });
    if (!taken && taken.error() == errc::no_space) take_away();
    if (taken) at = *taken;
    if (at == 0) return false;
  }
  leave_log(e);
  const std::uint32_t i = all.add(e, at, in_class, layout::partner_kind::replica);
  if (i == 0) {
    set_.where.put_slot(in_class, at);
    return false;
  }
  e.partner = i;
  domain_.stores().give(all.at(i), e);
  thread_.replicas_made.add(1);
  return true;
}

template <media M>
void transaction<M>::store_in_place(member& m) noexcept {
  entry& e = *m.of;
  partner_state& p = set_.partners_of.at(e.partner);
  auto stores = domain_.stores();
  if (p.behind.load(std::memory_order_relaxed) && !planted(plant::replica_left_behind)) {
    stores.catch_up(p, e);
    stores.have_caught_up();
    p.behind.store(false, std::memory_order_relaxed);
    p.low = p.high = 0;
  }
  assemble(m, 0, e.written.load(std::memory_order_relaxed), assembled_.data());
  // Readers go on with the old bytes while the new ones are not durable.
  show(e, p.bytes_at());
  stores.promise(p, e, assembled_.data());
  std::uint64_t low = p.behind.load(std::memory_order_relaxed) ? p.low : ~std::uint64_t{0};
  std::uint64_t high = p.high;
  each_change(m, [&](const change& c) {
    if (c.bytes == 0) return;
    std::byte* const to = domain_.base() + e.home() + c.offset;
    isolation::copy_in(to, assembled_.data() + c.offset, c.bytes);
    domain_.medium().flush(to, c.bytes);
    low = std::min(low, c.offset);
    high = std::max(high, c.offset + c.bytes);
  });
  domain_.medium().fence(edge{"region/E12"});
  show(e, e.home());
  p.low = low;
  p.high = high;
  p.behind.store(true, std::memory_order_relaxed);
  p.used.store(true, std::memory_order_relaxed);
  m.by = technique::replica;
  if (e.levelling < layout::levelling_max) ++e.levelling;
  domain_.tell_of_behind(thread_);
}

// Ends a partner by the record that changes the region.
template <media M>
void transaction<M>::gather_partner(const member& m) noexcept {
  static constexpr std::uint64_t nobody = 0;
  if (!m.dissolves || planted(plant::partner_kept)) return;
  ranges_.push_back({owner_at(set_.partners_of.at(m.of->partner).offset), reinterpret_cast<const std::byte*>(&nobody),
                     sizeof nobody});
}
// The same, after the record has its version; true: a place is left.
template <media M>
bool transaction<M>::settle_partner(const member& m, std::uint64_t version) noexcept {
  if (!m.dissolves) return false;
  entry& e = *m.of;
  const partner_state& p = set_.partners_of.at(e.partner);
  domain_.left().leave({p.offset, layout::slot_bytes(p.in_class), set_.where.owner(), p.in_class}, version);
  set_.partners_of.remove(e.partner);
  e.partner = 0;
  return true;
}

}  // namespace nvm::region
