// The part of a transaction of regions that chooses techniques and makes the change durable; included by
// transaction.hpp.
//
// In the paper's order of rules (section IV-E), decided when the transaction commits and all of its bytes are known:
//   1. up to 512 bytes:                        a record with a checksum (CERL); also where a region fits a slot, unless
//                                              it has a replica (REWBL) or two copies (partner_writes.hpp)
//   2. bytes that nothing has led to yet:      they go where they belong, then the header leads there (LOFU, append)
//   3. half of the region and more:            all of it goes to a new place, then the header leads there (COUL)
//   4. the rest:                               a record with a mark (REDO)
// A region whose levelling counter has come to its end moves by 3 (section V), and so does one that is leased, unless
// the change stores nothing but bytes after those of the lease.
#pragma once

#include "region/transaction.hpp"

namespace nvm::region {

// Technique for bytes that the region has already, if it may stay and may move.
template <media M>
technique transaction<M>::wish(const member& m, const shape& s) const noexcept {
  switch (m.how) {
    case mode::copy:
      return technique::copy;
    case mode::checked:
      return technique::record;
    case mode::marked:
      return technique::marked;
    case mode::adaptive:
      return set_.decides_by_costs() ? by_costs(s, domain_.costs()) : by_thresholds(s);
    default:  // in place was not possible
      return s.changed <= checked_max ? technique::record : technique::marked;
  }
}

template <media M>
void transaction<M>::plan(member& m, bool large_by_copy) noexcept {
  entry& e = *m.of;
  m.survived = m.written = std::min(m.kept, e.written.load(std::memory_order_relaxed));
  m.new_place = m.new_header = 0;
  m.moves = m.is_leased = m.leaves_place = false;
  std::uint64_t low = 0;
  each_change(m, [&](const change& c) {
    low += bytes_below(c, m.survived);
    if (c.bytes != 0) m.written = std::max(m.written, c.offset + c.bytes);
  });
  const std::uint64_t high = m.written - m.survived;
  m.dissolves = e.partner != 0 && (m.touched || low + high != 0);
  m.home = m.dissolves && set_.partners_of.at(e.partner).newest_here ? e.home() : 0;
  m.by = technique::header;
  if (m.dropped) return;
  if (low + high == 0 && !m.relocates) {
    m.leaves_place = m.renewed && !e.inside() && e.place.load(std::memory_order_relaxed) != 0;
    return;
  }
  shape about;
  about.changed = low + high;
  about.over = low;
  about.before = e.length.load(std::memory_order_relaxed);
  about.after = m.written;
  about.in_run = !e.inside();
  const technique wish = this->wish(m, about);
  const bool has_place = e.place.load(std::memory_order_relaxed) != 0;
  const bool small = low + high <= checked_max;
  // Bytes that were cut off are there until the commit, and must not be written over before.
  const bool over_cut = m.survived < e.written.load(std::memory_order_relaxed) && high > checked_max;
  const bool fits_badly = m.renewed && !m.stays && (!e.inside() || m.room > e.capacity);
  bool moves = !has_place || m.relocates || over_cut || fits_badly ||
               (m.written > e.capacity && (low != 0 || !grow_in_place(e, m.written)));
  if (!moves && low != 0) moves = wish == technique::copy || (large_by_copy && !small);
  const bool writes_over = low != 0 || (m.renewed && !m.stays && e.written.load(std::memory_order_relaxed) != 0);
  if (!moves && writes_over && set_.is_to_level(e.levelling)) {
    moves = true;
    thread_.levelled.add(1);
  }
  // A lease looks at written bytes, also at bytes that were cut off since.
  const bool before_end = low != 0 || m.survived < e.written.load(std::memory_order_relaxed) || e.shrunk != 0;
  if (!moves && before_end && !close_to_leases(e)) moves = m.is_leased = true;
  if (moves) {
    m.by = m.survived == 0 && !over_cut ? technique::direct : technique::copy;
  } else if (low == 0 && !small) {
    m.by = technique::direct;
  } else {
    m.by = wish == technique::copy ? by_thresholds({.changed = low + high, .before = ~std::uint64_t{0}}) : wish;
  }
  m.moves = moves;
}

// Whether its run has room for so many bytes, with the pages after it (hole A1); the region keeps these pages if the
// transaction fails.  Room to grow is not required.
template <media M>
bool transaction<M>::grow_in_place(entry& e, std::uint64_t bytes) noexcept {
  if (e.inside()) return false;
  const std::uint64_t page = domain_.pages().sizes().page_bytes();
  const std::uint64_t has = ceil_div(e.capacity, page);
  for (const std::uint64_t wish : {bytes + bytes / 4, bytes}) {
    const std::uint64_t more = ceil_div(wish, page) - has;
    if (!domain_.pages().extend(e.place.load(std::memory_order_relaxed), more)) continue;
    e.capacity = (has + more) * page;
    thread_.grown.add(1);
    return true;
  }
  return false;
}

// Whether the region can be changed in place: no lease looks there, and none begins before the transaction is over.
template <media M>
bool transaction<M>::close_to_leases(entry& e) noexcept {
  if (e.lock.close_unless_leased() || planted(plant::stored_under_lease)) return true;
  // A smaller copy costs less than finding out whether all leases were let go.
  constexpr std::uint64_t dear_from = 16 << 10;
  return e.written.load(std::memory_order_relaxed) >= dear_from && forget_leases(e);
}
// Whether all leases of its place were let go; then none begins.  Costs a barrier in all threads.
template <media M>
bool transaction<M>::forget_leases(entry& e) noexcept {
  e.lock.close_to_leases();
  if (domain_.leased().holds_after_barrier(e.place.load(std::memory_order_relaxed))) {
    e.lock.open_to_leases();
    return false;
  }
  e.lock.forget_leases();
  return true;
}

template <media M>
result<std::uint64_t> transaction<M>::slot(unsigned in_class) noexcept {
  // A saved table does not know the slots of a new extent, whatever becomes of this transaction.
  const auto take = [&] {
    return set_.where.take_slot(in_class, thread_.number, [&] { domain_.about_to_change(set_); });
  };
  auto at = take();
  if (at || at.error() != errc::no_space || thread_.gathers) return at;
  domain_.reclaim(thread_);
  return take();
}

template <media M>
status transaction<M>::run(member& m, std::uint64_t capacity) noexcept {
  const auto take = [&] { return set_.where.take_run(capacity, thread_.number); };
  auto at = take();
  const auto is_full = [&] { return !at && at.error() == errc::no_space && !thread_.gathers; };
  if (is_full()) {
    domain_.reclaim(thread_);
    at = take();
  }
  // Room to grow is a wish.
  if (is_full() && capacity > m.written) {
    capacity = m.written;
    at = take();
  }
  if (is_full() && gather(ceil_div(capacity, domain_.pages().sizes().page_bytes()))) {
    // Places that were left come back when their readers have moved on.
    for (unsigned i = 0; i < 16 && is_full(); ++i) {
      if (i != 0) std::this_thread::yield();
      domain_.reclaim(thread_);
      at = take();
    }
  }
  if (!at) return at.error();
  m.new_place = *at;
  m.new_capacity = round_up(capacity, domain_.pages().sizes().page_bytes());
  return {};
}

// A new place for the bytes of a region, and a new header if the old one's slot does not fit.
template <media M>
status transaction<M>::take_places(member& m) noexcept {
  const entry& e = *m.of;
  std::uint64_t capacity = std::max<std::uint64_t>(m.written, 1);
  if (m.renewed) {
    capacity = std::max({capacity, m.length, m.room});
  } else if (e.place.load(std::memory_order_relaxed) == 0) {
    capacity = std::max<std::uint64_t>({capacity, e.capacity, m.length});
  } else if (m.written > e.capacity) {
    capacity += capacity / 4;
  } else if (4 * m.written >= e.capacity) {
    capacity = e.capacity;
  }
  capacity = std::min(capacity, layout::length_max);
  m.new_class = static_cast<std::uint8_t>(e.in_class);
  if (capacity <= layout::inside_max) {
    const unsigned in_class = layout::class_of(capacity);
    const auto at = slot(in_class);
    if (!at) return at.error();
    m.new_header = *at;
    m.new_class = static_cast<std::uint8_t>(in_class);
    m.new_place = *at + sizeof(layout::header);
    m.new_capacity = layout::slot_bytes_of_class[in_class] - sizeof(layout::header);
    return {};
  }
  if (e.inside()) {
    const auto at = slot(0);
    if (!at) return at.error();
    m.new_header = *at;
    m.new_class = 0;
  }
  return run(m, capacity);
}

template <media M>
void transaction<M>::give_places(member& m) noexcept {
  const bool in_run = m.new_place != 0 && m.new_place != m.new_header + sizeof(layout::header);
  if (in_run) set_.where.put_runs(std::span{&m.new_place, 1});
  if (m.new_header != 0) set_.where.put_slot(m.new_class, m.new_header);
  m.new_place = m.new_header = 0;
}

// ---- bytes ---------------------------------------------------------------------------------------------------------

// Bytes [begin, end) of the region as the transaction leaves it.
template <media M>
void transaction<M>::assemble(const member& m, std::uint64_t begin, std::uint64_t end, std::byte* to) const noexcept {
  if (begin == end) return;  // perhaps to nowhere
  const std::uint64_t survived = std::min(m.kept, m.of->written.load(std::memory_order_relaxed));
  std::uint64_t at = begin;
  if (begin < survived) {
    at = std::min(end, survived);
    // Other threads read there at most.
    std::memcpy(to, domain_.base() + m.of->place.load(std::memory_order_relaxed) + begin, at - begin);
  }
  std::memset(to + (at - begin), 0, end - at);
  each_change(m, [&](const change& c) {
    const std::uint64_t first = std::max(begin, c.offset);
    const std::uint64_t last = std::min(end, c.offset + c.bytes);
    if (first < last) std::memcpy(to + (first - begin), bytes_of(c) + (first - c.offset), last - first);
  });
}

// Copies the same bytes to their new place, and begins the write-back.
template <media M>
void transaction<M>::write_to(const member& m, std::uint64_t begin, std::uint64_t end) {
  if (assembled_.size() < std::min(end - begin, assembled_max)) assembled_.resize(std::min(end - begin, assembled_max));
  std::byte* const place = domain_.base() + m.place();
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t n = std::min<std::uint64_t>(end - at, assembled_.size());
    assemble(m, at, at + n, assembled_.data());
    if (m.new_place != 0) {
      copy_out(domain_.medium(), place + at, assembled_.data(), n);
    } else {
      // A reader that began when the region was longer may look there still.
      isolation::copy_in(place + at, assembled_.data(), n);
      domain_.medium().flush(place + at, n);
    }
    at += n;
  }
}

// The same on an image medium, where only a record that is ordered after `free_since` will lead there: whole sectors of
// a run go straight to their place, if the medium takes them, and the rest through its log.
template <media M>
status transaction<M>::write_fresh(const member& m, std::uint64_t begin, std::uint64_t end, std::uint64_t free_since) {
  std::byte* const place = domain_.base() + m.place();
  if (m.new_place != 0) {
    assemble(m, begin, end, place + begin);
  } else {
    if (assembled_.size() < std::min(end - begin, assembled_max)) assembled_.resize(assembled_max);
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t n = std::min<std::uint64_t>(end - at, assembled_.size());
      assemble(m, at, at + n, assembled_.data());
      // A reader that began when the region was longer may look there still.
      isolation::copy_in(place + at, assembled_.data(), n);
      at += n;
    }
  }
  // Pages in which nothing is logged by this transaction.
  const std::uint64_t first = round_up(begin, domain_.pages().sizes().page_bytes());
  const std::uint64_t last = round_up(end, sector_bytes);
  straight_outcome done;
  if (m.in_run() && first < end) {
    std::vector<straight_range>& all = thread_.log.straight;
    all.reserve(all.size() + 1);
    const auto written = write_straight(domain_.medium(), place + first, last - first, free_since);
    if (!written) return written.error();
    done = *written;
    if (done.written) {
      all.push_back({m.place() + first, last - first, done.sum});
      thread_.straight.add(1);
      thread_.bytes_straight.add(last - first);
    }
  }
  const std::uint64_t logged = done.written ? first : end;
  if (begin < logged) domain_.medium().flush(place + begin, logged - begin);
  return {};
}

template <media M>
status transaction<M>::write_new(const member& m, std::uint64_t begin, std::uint64_t end) {
  if constexpr (M::atomic_batches) {
    // Bytes that were cut off stay until the last change of the region is durable.
    const std::uint64_t own = m.new_place != 0 ? 0 : m.of->newest.load(std::memory_order_relaxed);
    return write_fresh(m, begin, end, std::max(domain_.pages().freed_by(), own));
  } else {
    write_to(m, begin, end);
    return {};
  }
}

template <media M>
result<bool> transaction<M>::write_ahead(member& m) {
  if (m.new_place != 0) {
    if (status s = write_new(m, 0, m.written); !s) return s.error();
    return true;
  }
  const bool goes_home = m.home != 0 && !m.dropped;
  if (goes_home) domain_.stores().bring_home(set_.partners_of.at(m.of->partner), *m.of, m.survived);
  if (m.written - m.survived <= checked_max) return goes_home;
  entry& e = *m.of;
  if (e.shrunk != 0 && !planted(plant::append_beside_record)) {
    // A record may be replayed over the bytes that no record has.
    if (e.newest.load(std::memory_order_relaxed) > domain_.log().truncated()) domain_.log().truncate();
    e.shrunk = 0;
  }
  if (status s = write_new(m, m.survived, m.written); !s) return s.error();
  return true;
}

// Adds the record's ranges for the region.
template <media M>
void transaction<M>::gather(const member& m) noexcept {
  if (m.new_place == 0 && !m.dropped) {
    const std::uint64_t place = m.place();
    each_change(m, [&](const change& c) {
      const std::uint64_t n = bytes_below(c, m.survived);
      if (n != 0) ranges_.push_back({place + c.offset, bytes_of(c), n});
    });
    const std::uint64_t high = m.written - m.survived;
    if (high != 0 && high <= checked_max) {
      std::byte* const to = headers_.data() + headers_.size();
      headers_.resize(headers_.size() + high);  // reserved
      assemble(m, m.survived, m.written, to);
      ranges_.push_back({place + m.survived, to, high});
    }
  }
  gather_partner(m);
  const bool written_changes = m.written != m.of->written.load(std::memory_order_relaxed);
  const bool noted = counts_as_in_place(m) && set_.is_to_note(m.of->levelling + 1U);
  if (m.touched || written_changes || m.new_place != 0 || noted) gather_header(m);
}

template <media M>
void transaction<M>::gather_header(const member& m) noexcept {
  const auto put = [&](std::uint64_t offset, const layout::header& h) {
    std::byte* const to = headers_.data() + headers_.size();
    headers_.resize(headers_.size() + sizeof h);  // reserved
    std::memcpy(to, &h, sizeof h);
    ranges_.push_back({offset, to, sizeof h});
  };
  const entry& e = *m.of;
  if (m.dropped || (m.new_header != 0 && !planted(plant::moved_header_kept))) put(e.header, {});
  if (m.dropped) return;
  layout::facts f;
  f.rid = e.rid;
  f.length = m.length;
  f.written = m.written;
  const unsigned changes = e.levelling + (counts_as_in_place(m) ? 1U : 0U);
  f.levelling = static_cast<std::uint16_t>(m.gets_other_place() ? 0 : std::min(changes, layout::levelling_max));
  const std::uint64_t place = m.place();
  if (place == 0) {
    f.where = layout::state::nowhere;
  } else if (place == m.header() + sizeof(layout::header)) {
    f.where = layout::state::inside;
  } else {
    f.where = layout::state::run;
    f.page = static_cast<std::uint32_t>(domain_.pages().sizes().page_of(place));
  }
  put(m.header(), sealed(f, m.header(), domain_.key()));
}

// ---- the commit ----------------------------------------------------------------------------------------------------

template <media M>
status transaction<M>::prepare(bool large_by_copy) noexcept try {
  constexpr std::size_t places_of_member = 4;  // a slot, a run, a partner, an entry
  ranges_.clear();
  headers_.clear();
  ranges_.reserve(4 * members_.size() + changes_.size());
  headers_.reserve(members_.size() * (2 * sizeof(layout::header) + checked_max));
  if (promised_ == 0) {
    if (status s = domain_.left().expect(places_of_member * members_.size()); !s) return s;
    promised_ = places_of_member * members_.size();
  }
  bool ahead = false;
  short_of_room_ = false;
  for (member& m : members_) {
    plan(m, large_by_copy);
    if (!m.moves) continue;
    if (status s = take_places(m); !s) {
      give_places(m);
      entry& e = *m.of;
      if (m.is_leased && s.error() == errc::no_space) {
        if (!forget_leases(*m.of)) {
          return fail(errc::no_space, "the pool is full: no room to move region %lu, which is leased", e.rid);
        }
        plan(m, large_by_copy);
        continue;
      }
      if (m.renewed && !m.stays && s.error() == errc::no_space) {
        m.stays = true;
        plan(m, large_by_copy);
        if (m.is_leased && forget_leases(*m.of)) plan(m, large_by_copy);
        if (!m.moves) continue;
        return s;
      }
      const bool must = e.place.load(std::memory_order_relaxed) == 0 || m.written > e.capacity ||
                        m.survived < e.written.load(std::memory_order_relaxed);
      if (must || s.error() != errc::no_space) return s;
      if (!e.lock.close_unless_leased() && !forget_leases(*m.of)) {
        return fail(errc::no_space, "the pool is full: no room to move region %lu, which is leased", e.rid);
      }
      m.by = technique::marked;  // a full pool can be written to, as far as a record takes
      short_of_room_ = true;
    }
  }
  thread_.log.straight.clear();  // also those of a region that has made way
  for (member& m : members_) {
    const auto fenced = write_ahead(m);
    if (!fenced) return fenced.error();
    ahead = *fenced || ahead;
  }
  if (ahead) domain_.medium().fence(edge{"region/E2"});
  for (const member& m : members_) gather(m);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to commit a transaction of regions");
}

// Makes the entry follow the transaction; the bytes are home.
template <media M>
void transaction<M>::settle(member& m, std::uint64_t version) noexcept {
  entry& e = *m.of;
  const auto leave = [&](const left_place& p) {
    domain_.left().leave(p, version);
    --promised_;
  };
  const std::uint64_t place = e.place.load(std::memory_order_relaxed);
  const auto leave_run = [&] {
    if (!e.inside() && place != 0) leave({place, e.capacity, set_.where.owner(), left_place::run});
  };
  const auto leave_slot = [&] {
    leave(
        {e.header, layout::slot_bytes_of_class[e.in_class], set_.where.owner(), static_cast<std::uint8_t>(e.in_class)});
  };
  e.newest.store(version, std::memory_order_relaxed);
  if (settle_partner(m, version)) --promised_;
  if constexpr (M::atomic_batches) {
    if (m.dropped || m.created) {
      // release: pairs with has_seen().
      std::uint64_t before = set_.newest.load(std::memory_order_relaxed);
      while (before < version && !set_.newest.compare_exchange_weak(before, version, std::memory_order_release,
                                                                    std::memory_order_relaxed)) {
      }
    }
  }
  if (m.dropped) {
    leave_run();
    leave_slot();
    e.length.store(entry::dropped, std::memory_order_relaxed);
    set_.regions.erase(&e);
    domain_.left().leave(&e);
    --promised_;
    return;
  }
  if (counts_as_in_place(m) && e.levelling < layout::levelling_max) ++e.levelling;
  if (m.kept < e.written.load(std::memory_order_relaxed)) e.shrunk = 1;
  if (m.home != 0) e.place.store(m.home, std::memory_order_relaxed);
  if (!m.created && m.length < e.length.load(std::memory_order_relaxed) && !e.inside()) {
    e.cut = 1;
    domain_.note_cut();
  }
  const bool has_no_place = m.leaves_place || (m.renewed && place == 0 && m.new_place == 0);
  if (m.new_place != 0 || has_no_place) {
    leave_run();
    if (m.new_header != 0) leave_slot();
    e.header = m.header();
    e.in_class = has_no_place ? 0 : m.new_class;
    e.place.store(m.new_place, std::memory_order_relaxed);
    e.capacity = has_no_place ? std::max(m.length, m.room) : m.new_capacity;
    e.levelling = 0;
    e.shrunk = 0;
    e.cut = 0;
  }
  e.written.store(m.written, std::memory_order_relaxed);
  e.length.store(m.length, std::memory_order_relaxed);
}

template <media M>
result<std::uint64_t> transaction<M>::publish() noexcept {
  if (ranges_.empty()) return std::uint64_t{0};
  const bool marked =
      std::any_of(members_.begin(), members_.end(), [](const member& m) { return m.by == technique::marked; });
  return domain_.log().commit(
      thread_.log, ranges_, marked ? proof::mark : proof::checksum,
      [&]() noexcept {
        for (member& m : members_) m.of->lock.begin_change(set_.patience());
      },
      [&](std::uint64_t version) noexcept {
        for (member& m : members_) {
          if (version != 0) settle(m, version);
          m.of->lock.end_change(version != 0 && m.gets_other_place());
        }
      });
}

template <media M>
void transaction<M>::count(const member& m) noexcept {
  std::uint64_t sum = 0;
  each_change(m, [&](const change& c) { sum += c.bytes; });
  thread_.changes[static_cast<unsigned>(m.by)].add(1);
  thread_.bytes[static_cast<unsigned>(m.by)].add(sum);
}

template <media M>
status transaction<M>::commit() noexcept {
  result<std::uint64_t> version{std::uint64_t{0}};
  if (!members_.empty()) domain_.about_to_change(set_);
  const bool in_place = commit_in_place();
  for (const bool large_by_copy : {false, true}) {
    if (in_place) break;
    const status prepared = prepare(large_by_copy);
    version = prepared ? publish() : result<std::uint64_t>{prepared.error()};
    if (version) break;
    for (member& m : members_) give_places(m);
    const errc why = version.error();
    // The failure was about pages for a record that fits no ring.
    const bool no_pages = prepared && why == errc::no_space;
    if (no_pages) domain_.reclaim(thread_);
    if (!no_pages && why != errc::too_large && why != errc::log_full) break;
  }
  if (!version) {
    domain_.left().spare(promised_);
    promised_ = 0;
    errc why = version.error();
    if (short_of_room_ && why == errc::log_full) {
      why =
          fail(errc::no_space, "the pool is full: no room for a copy of a region, and too large a change for a record");
    }
    abort();
    return why;
  }
  domain_.left().spare(promised_);
  promised_ = 0;
  const bool relocates = !members_.empty() && members_.front().relocates;
  thread_.transactions.add(relocates ? 0 : 1);
  if constexpr (M::atomic_batches) thread_.position = std::max<lsn_t>(thread_.position, *version);
  for (member& m : members_) {
    count(m);
    if (m.created) domain_.left().spare(1);
    if (m.of->cut != 0 && domain_.short_of_pages() && domain_.withdraw_tail(set_, *m.of)) domain_.note_cut();
    m.of->lock.let_go();
  }
  end();
  return {};
}

}  // namespace nvm::region
