// The part of heap.hpp that makes entries of a transaction's changes (step 0), and makes the changes known once they
// are durable (step 2); included by heap.hpp.
#pragma once

#include <algorithm>
#include <new>

#include "logheap/heap.hpp"

namespace nvm::logheap {

// ---- step 0 ----

template <media M, mapping Map>
inline status heap<M, Map>::prepare(thread& t, const changes& c) noexcept {
  try {
    t.log_.start();
    t.whole_.clear();
    const purpose why = purpose_of(c);
    if (status s = lay_out_allocations(t, c, why); !s) return s;
    if (status s = lay_out_stores(t, c, why); !s) return s;
    for (std::uint32_t i = 0; i < c.released.size(); ++i) {
      const object& o = c.released[i];
      const part p{{layout::entry_kind::tombstone, o.at.home, o.size, 0, 0}, nullptr, i};
      if (status s = t.log_.add(p, why); !s) return s;
    }
    t.log_.prepare();
    t.pieces_.clear();
    t.pieces_.reserve(t.log_.parts().size());
    t.ranges_.clear();
    for (const part& p : t.log_.parts()) {
      if (layout::has_contents(p.what.kind)) t.ranges_.push_back({p.what.home, p.what.size});
    }
    t.erased_.clear();
    for (const object& o : c.released) t.erased_.push_back({o.at.home, o.at.bytes});
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }
  return map_->reserve_whole(t.client_, t.ranges_, t.erased_);
}

template <media M, mapping Map>
inline status heap<M, Map>::lay_out_allocations(thread& t, const changes& c, purpose why) {
  for (std::uint32_t i = 0; i < c.allocated.size(); ++i) {
    const object& o = c.allocated[i];
    std::uint64_t stored = 0;
    each_store(c.stores, o.at.home, o.size, [&](home_t, const std::byte*, std::uint64_t n) { stored += n; });
    const bool whole = stored * 2 > o.size;
    const part p{
        {whole ? layout::entry_kind::allocation : layout::entry_kind::bare, o.at.home, o.size, 0, 0}, nullptr, i};
    if (whole) t.whole_.push_back({o.at.home, o.size});
    if (status s = t.log_.add(p, why); !s) return s;
  }
  std::sort(t.whole_.begin(), t.whole_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
  return {};
}

template <media M, mapping Map>
inline status heap<M, Map>::lay_out_stores(thread& t, const changes& c, purpose why) {
  auto skip = t.whole_.begin();
  home_range run;
  const auto end_run = [&]() -> status {
    if (run.size == 0) return {};
    const part p{{layout::entry_kind::update, run.home, run.size, 0, 0}, nullptr};
    const inside in{*this, t};
    const bool inside_objects = homes_->each_slot(run.home, run.size, [&](const home_space::slot& s) {
      const slot_word w{s.word().load(std::memory_order_acquire)};
      if (!w.exists() && !homes_->is_taken(s)) run.size = 0;
    });
    if (!inside_objects || run.size == 0) {
      return fail(errc::bad_pointer, "a store of %lu bytes at home %lx, where no object is", p.what.size, p.what.home);
    }
    run.size = 0;
    return t.log_.add(p, why);
  };
  for (const store_range& s : c.stores) {
    home_t at = s.home;
    const home_t end = s.home + s.size;
    while (at < end) {
      while (skip != t.whole_.end() && skip->home + skip->size <= at) ++skip;
      if (skip != t.whole_.end() && skip->home <= at) {
        at = std::min(end, skip->home + skip->size);
        continue;
      }
      const home_t until = skip == t.whole_.end() ? end : std::min(end, skip->home);
      if (run.size != 0 && (run.home + run.size != at || !settings_.group_update)) {
        if (status done = end_run(); !done) return done;
      }
      if (run.size == 0) run = {at, 0};
      run.size += until - at;
      at = until;
    }
  }
  return end_run();
}

// ---- step 2 ----

template <media M, mapping Map>
inline void heap<M, Map>::publish(thread& t, const changes& c) noexcept {
  const inside in{*this, t};
  dying_bytes gone{chunks_};
  const auto replaced = [&gone](const piece& p) { gone.add(p.log, p.size); };
  for (const part& p : t.log_.parts()) {
    if (p.what.kind == layout::entry_kind::tombstone) continue;
    if (layout::has_contents(p.what.kind)) t.pieces_.push_back({p.what.home, p.what.size, p.what.log});
    if (p.what.kind == layout::entry_kind::update) {
      homes_->count(p.what.home, p.what.size);
      continue;
    }
    const slot_word old = home_space::set(c.allocated[p.object].at, slot_word::state::allocated, p.what.self, 1);
    if (old.what() == slot_word::state::freed) gone.add(old.entry(), entry_live_bytes);
  }
  std::sort(t.pieces_.begin(), t.pieces_.end(), [](const piece& a, const piece& b) { return a.home < b.home; });
  if (!t.pieces_.empty()) map_->assign(t.client_, std::span<const piece>{t.pieces_}, replaced);
  for (const part& p : t.log_.parts()) {
    if (p.what.kind != layout::entry_kind::tombstone) continue;
    const home_space::slot& at = c.released[p.object].at;
    const slot_word old = home_space::set(at, slot_word::state::freed, p.what.self);
    gone.add(old.entry(), entry_live_bytes);
    map_->erase(t.client_, {at.home, at.bytes}, replaced);
    homes_->give(at);
  }
  map_->release(t.client_);
}

}  // namespace nvm::logheap
