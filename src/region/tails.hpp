// The part of a domain that takes pages back from regions that were cut off, when less than a tenth of the pool is free
// (Lewat, section III-C; hole A5 of docs/design/023); included by domain.hpp.
//
/// The thread that holds the region:
///   1. the log is emptied, if a record could be replayed there
///   2. S shorter page map entry; F it;             | space/E8  before the pages get another use
///   3. they wait for earlier readers (limbo.hpp)
// A crash after 2 leaves pages that are free.  Tails of leased regions stay: a lease reads bytes that were cut off
// since.
#pragma once

#include <algorithm>
#include <vector>

#include "region/domain.hpp"

namespace nvm::region {

template <media M>
bool domain<M>::withdraw_tail(set& s, entry& e) noexcept {
  const std::uint64_t place = e.place.load(std::memory_order_relaxed);
  const unsigned shift = pages_.sizes().page_shift;
  const std::uint64_t length = e.length.load(std::memory_order_relaxed);
  if (length == entry::dropped || e.inside() || place == 0 || e.cut == 0) return false;
  const std::uint64_t page = pages_.sizes().page_bytes();
  const std::uint64_t keeps = ceil_div(std::max<std::uint64_t>(length, 1), page);
  const std::uint64_t has = ceil_div(e.capacity, page);
  if (keeps >= has) {
    e.cut = 0;
    return false;
  }
  if (e.lock.is_leased()) {
    // The mark outlives the leases.
    e.lock.close_to_leases();
    if (leased().holds_after_barrier(place)) {
      e.lock.open_to_leases();
      return true;
    }
    e.lock.forget_leases();
  }
  if (!limbo_.expect(1)) return true;
  if (e.newest.load(std::memory_order_relaxed) > log_->truncated() && !planted(plant::tail_beside_record)) {
    log_->truncate();
  }
  pages_.shorten(place, keeps);
  e.capacity = keeps << shift;
  e.cut = 0;
  limbo_.leave({place + (keeps << shift), (has - keeps) << shift, s.where.owner(), left_place::tail}, 0);
  return false;
}

template <media M>
void domain<M>::withdraw_tails() noexcept {
  if (!cut_.exchange(false, std::memory_order_relaxed)) return;
  const std::lock_guard guard{giving_};  // no set goes
  for (const auto& s : sets_) {
    for (unsigned i = 0; s != nullptr && i < table::shards; ++i) {
      std::vector<entry*> some;
      try {
        some.reserve(64);
        s->regions.for_each_of(i, [&](entry* e) {
          if (some.size() == some.capacity()) some.reserve(2 * some.size());
          some.push_back(e);
        });
      } catch (const std::bad_alloc&) {
        cut_.store(true, std::memory_order_relaxed);
      }
      for (entry* const e : some) {
        // A region that another thread changes, or this one, follows the next time, as does one that is leased.
        bool stays = true;
        if (e->lock.try_hold_for_a_moment()) {
          stays = withdraw_tail(*s, *e);
          e->lock.let_go();
        }
        if (stays) cut_.store(true, std::memory_order_relaxed);
      }
    }
  }
}

}  // namespace nvm::region
