// A change of one region or of several, all or nothing: regions are held from the first call about them to the end,
// new bytes wait in volatile memory, and commit() makes one record of all (Lewat, sections IV and IV-G).
//
// Deadlock.  A thread that holds regions, in whichever of its transactions, waits for another region only if that comes
// after all of them in the order of sets and numbers; a region that comes before is taken if it is free, and otherwise
// the call fails with errc::busy: the caller aborts and begins again with the regions given in advance.  Threads of the
// pool's own, which hold regions for moments and wait for none meanwhile, are waited for in any order.
//
// Threads: one, which the caller keeps between domain::inside for each call.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "region/choice.hpp"
#include "region/domain.hpp"
#include "region/member.hpp"

namespace nvm::region {

namespace detail {
struct stretch;
}

template <media M>
class transaction {
 public:
  using bytes = std::span<const std::byte>;
  using thread = thread_state<M>;
  using set = set_state<M>;

  // May throw std::bad_alloc.
  transaction(domain<M>& d, set& s, thread& t)
      : domain_{d},
        set_{s},
        thread_{t},
        room_{t.room != nullptr ? std::move(t.room) : std::make_unique<transaction_room>()} {
    t.open.push_back(this);
  }
  ~transaction() {
    abort();
    std::erase(thread_.open, this);
    if (thread_.room == nullptr && room_->bytes() <= room_max) thread_.room = std::move(room_);
  }
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  // `lasting`: the caller's bytes stay as they are until commit(), so that they need not be copied.
  void lasting(bool yes) noexcept { lasting_ = yes; }
  [[nodiscard]] bool has(std::uint64_t rid) const noexcept { return index_of(rid) != members_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] const set& of() const noexcept { return set_; }

  // errc::not_found, busy, exists (it is in the transaction already), no_memory.
  [[nodiscard]] status join(std::uint64_t rid, mode how = mode::adaptive) noexcept;
  // A region of `size` bytes that read as zeros, with room for `room` at least; also one that was dropped in the
  // transaction.  errc::exists, busy, no_space, no_memory, too_large.
  [[nodiscard]] status create(std::uint64_t rid, std::uint64_t size, std::uint64_t room) noexcept;
  // The following calls are for regions that have joined; errc::not_found otherwise, or after drop().
  [[nodiscard]] status drop(std::uint64_t rid) noexcept;
  // errc::invalid: the bytes do not lie within the region.
  [[nodiscard]] status write(std::uint64_t rid, std::uint64_t offset, bytes from) noexcept;
  // Returns the offset of the bytes.  errc::too_large.
  [[nodiscard]] result<std::uint64_t> append(std::uint64_t rid, bytes from) noexcept;
  // A longer region reads as zeros there.  errc::too_large.
  [[nodiscard]] status truncate(std::uint64_t rid, std::uint64_t length) noexcept;
  // Reads bytes as the transaction will leave them.  Returns how many: fewer at the end of the region.  errc::invalid:
  // the offset is after the end.
  [[nodiscard]] result<std::uint64_t> read(std::uint64_t rid, std::uint64_t offset,
                                           std::span<std::byte> to) const noexcept;
  [[nodiscard]] result<std::uint64_t> length(std::uint64_t rid) const noexcept;

  // All of it is durable on return; on an image medium after a wait for the thread's position.  errc::no_space,
  // no_memory, too_large, log_full, io: nothing has changed, and the transaction is over.
  [[nodiscard]] status commit() noexcept;
  void abort() noexcept;

 private:
  static constexpr std::uint64_t assembled_max = 64 << 10;  // bytes that are put together in volatile memory
  static constexpr std::size_t room_max = 1 << 20;          // that a thread keeps

  [[nodiscard]] std::size_t index_of(std::uint64_t rid) const noexcept {
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), rid,
                                     [&](std::uint32_t i, std::uint64_t r) { return members_[i].of->rid < r; });
    return at != sorted_.end() && members_[*at].of->rid == rid ? *at : members_.size();
  }
  [[nodiscard]] result<member*> find(std::uint64_t rid) noexcept {
    const std::size_t i = index_of(rid);
    if (i == members_.size() || members_[i].dropped) {
      return fail(errc::not_found, "region %lu is not in the transaction", rid);
    }
    return &members_[i];
  }
  // Room for one more, so that admit() cannot fail.  May throw std::bad_alloc.
  void expect_member() {
    members_.reserve(grown(members_));
    sorted_.reserve(grown(sorted_));
  }
  template <class T>
  [[nodiscard]] static std::size_t grown(const std::vector<T>& v) noexcept {
    return v.size() < v.capacity() ? v.capacity() : std::max<std::size_t>(4, 2 * v.capacity());
  }
  void admit(const member& m) noexcept {
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), m.of->rid,
                                     [&](std::uint32_t i, std::uint64_t r) { return members_[i].of->rid < r; });
    const auto where = at - sorted_.begin();
    members_.push_back(m);
    sorted_.insert(sorted_.begin() + where, static_cast<std::uint32_t>(members_.size() - 1));
  }
  // Class of the slot of a region that is made with room for so many bytes.
  [[nodiscard]] static unsigned class_for(std::uint64_t wanted) noexcept {
    return wanted <= layout::inside_max ? layout::class_of(std::max<std::uint64_t>(wanted, 1)) : 0;
  }
  // Begins a region, which no thread knows, in the slot at `header`.
  static void begin_in(entry& e, std::uint64_t header, unsigned in_class, std::uint64_t wanted) noexcept {
    e.header = header;
    e.in_class = in_class;
    e.place.store(in_class != 0 ? e.home() : 0, std::memory_order_relaxed);
    // A larger one gets a run of this room.
    e.capacity = in_class != 0 ? layout::room_in(in_class) : wanted;
  }
  // Whether all regions that it holds come before this one.
  [[nodiscard]] bool is_before(const set& s, std::uint64_t rid) const noexcept {
    if (sorted_.empty() || set_.index < s.index) return true;
    return &set_ == &s && members_[sorted_.back()].of->rid < rid;
  }
  [[nodiscard]] result<entry*> hold(std::uint64_t rid) noexcept;
  [[nodiscard]] static errc refuse(std::uint64_t rid) noexcept {
    return fail(errc::busy, "region %lu is held by another transaction, and waiting for it might be for ever", rid);
  }
  [[nodiscard]] status insert(entry& made) noexcept;
  [[nodiscard]] status renew(member& m, std::uint64_t size, std::uint64_t room) noexcept;
  [[nodiscard]] status add(member& m, std::uint64_t offset, bytes from) noexcept;
  void cut_changes(member& m, std::uint64_t length) noexcept;
  [[nodiscard]] const std::byte* bytes_of(const change& c) const noexcept {
    return c.from != nullptr ? c.from : arena_.data() + c.at;
  }
  template <class Visit>
  void each_change(const member& m, Visit&& visit) const {
    for (std::uint32_t i = m.first; i != member::none; i = changes_[i].next) visit(changes_[i]);
  }

  // ---- commit (transaction_commit.hpp) ----
  [[nodiscard]] technique wish(const member& m, const shape& s) const noexcept;
  [[nodiscard]] status prepare(bool large_by_copy) noexcept;
  void plan(member& m, bool large_by_copy) noexcept;
  [[nodiscard]] bool grow_in_place(entry& e, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool close_to_leases(entry& e) noexcept;
  [[nodiscard]] bool forget_leases(entry& e) noexcept;
  [[nodiscard]] status take_places(member& m) noexcept;
  [[nodiscard]] result<std::uint64_t> slot(unsigned in_class) noexcept;
  [[nodiscard]] status run(member& m, std::uint64_t capacity) noexcept;
  void give_places(member& m) noexcept;
  // Whether something has to be fenced before the record; errc::io.  May throw std::bad_alloc, as the calls below.
  [[nodiscard]] result<bool> write_ahead(member& m);
  [[nodiscard]] status write_new(const member& m, std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] status write_fresh(const member& m, std::uint64_t begin, std::uint64_t end, std::uint64_t free_since);
  void assemble(const member& m, std::uint64_t begin, std::uint64_t end, std::byte* to) const noexcept;
  void write_to(const member& m, std::uint64_t begin, std::uint64_t end);
  void gather(const member& m) noexcept;
  void gather_header(const member& m) noexcept;
  void settle(member& m, std::uint64_t version) noexcept;
  [[nodiscard]] result<std::uint64_t> publish() noexcept;
  void count(const member& m) noexcept;
  void end() noexcept;

  // ---- a long run of scattered pages (gather.hpp) ----
  [[nodiscard]] std::vector<detail::stretch> find_stretches() const;
  [[nodiscard]] bool move_away(const detail::stretch& from) noexcept;
  [[nodiscard]] bool gather(std::uint64_t count) noexcept;

  // ---- in place (partner_writes.hpp) ----
  [[nodiscard]] bool is_within(const member& m) const noexcept;
  // Whether its place is written over once more, by a record.
  [[nodiscard]] static bool counts_as_in_place(const member& m) noexcept {
    return !m.dropped && m.new_place == 0 && (m.by == technique::record || m.by == technique::marked);
  }
  [[nodiscard]] bool commit_in_place() noexcept;
  [[nodiscard]] bool pays_in_place(const member& m) const noexcept;
  void leave_log(const entry& e) noexcept;
  [[nodiscard]] bool write_other_copy(member& m) noexcept;
  void show(entry& e, std::uint64_t place) noexcept;
  [[nodiscard]] bool take_replica(member& m) noexcept;
  void store_in_place(member& m) noexcept;
  void gather_partner(const member& m) noexcept;
  [[nodiscard]] bool settle_partner(const member& m, std::uint64_t version) noexcept;

  domain<M>& domain_;
  set& set_;
  thread& thread_;
  bool lasting_ = false;
  std::unique_ptr<transaction_room> room_;
  std::vector<member>& members_ = room_->members;
  std::vector<std::uint32_t>& sorted_ = room_->sorted;
  std::vector<change>& changes_ = room_->changes;
  std::vector<std::byte>& arena_ = room_->arena;
  std::vector<home_range>& ranges_ = room_->ranges;
  std::vector<std::byte>& headers_ = room_->headers;
  std::vector<std::byte>& assembled_ = room_->assembled;
  std::size_t promised_ = 0;
  bool short_of_room_ = false;  // a region could not move, and had to be recorded instead
};

// Holds the region.  The thread waits outside of its epoch, so that places which others leave come back meanwhile; its
// entry may be gone then, and is looked for again.
template <media M>
result<entry*> transaction<M>::hold(std::uint64_t rid) noexcept {
  entry* e = nullptr;
  auto kept = region_lock::kept_by::nobody;
  const auto look = [&](bool in_turn) {
    e = set_.regions.find(rid);
    kept = e == nullptr ? region_lock::kept_by::nobody : e->lock.try_hold(in_turn);
    return kept == region_lock::kept_by::nobody;
  };
  if (!look(false)) {
    const bool in_order = std::all_of(thread_.open.begin(), thread_.open.end(),
                                      [&](const transaction* t) { return t->is_before(set_, rid); });
    if (!in_order && kept != region_lock::kept_by::moment) return refuse(rid);
    turns& all = domain_.waiting();
    const unsigned me = thread_.number;
    thread_.waits.add(1);
    all.come(me, set_.index, rid);
    for (unsigned round = 0; !look(!all.has_predecessor(me)); ++round) {
      if (!in_order && kept != region_lock::kept_by::moment) break;
      if (round >= turns::patience) e->lock.want();
      const typename domain<M>::outside here{domain_, thread_};
      isolation::pause_in_round(round);
    }
    all.go(me);
    if (e != nullptr && e->lock.is_wanted() && !all.has_company(me)) e->lock.want_no_longer();
    if (kept != region_lock::kept_by::nobody) return refuse(rid);
  }
  if (e != nullptr && e->length.load(std::memory_order_relaxed) != entry::dropped) {
    domain_.has_seen(thread_, set_, e);
    return e;
  }
  if (e != nullptr) e->lock.let_go();
  domain_.has_seen(thread_, set_, nullptr);
  return set_.regions.absence(rid);
}

// A region that another transaction is about to make or drop exists, or not, when that is over.
template <media M>
status transaction<M>::insert(entry& made) noexcept {
  for (;;) {
    status s = set_.regions.insert(&made);
    if (s || s.error() != errc::exists) return s;
    entry* const e = set_.regions.find(made.rid);
    if (e == nullptr) continue;
    if (e->length.load(std::memory_order_acquire) != entry::dropped) {
      domain_.has_seen(thread_, set_, e);
      return s;
    }
    if (const auto held = hold(made.rid); held) {
      (*held)->lock.let_go();
      return fail(errc::exists, "there is a region %lu already", made.rid);
    } else if (held.error() != errc::not_found) {
      return held.error();
    }
  }
}

template <media M>
status transaction<M>::join(std::uint64_t rid, mode how) noexcept try {
  if (has(rid)) return fail(errc::exists, "region %lu is in the transaction already", rid);
  expect_member();
  const auto held = hold(rid);
  if (!held) return held.error();
  member m;
  m.of = *held;
  m.how = how;
  m.length = m.kept = m.of->length.load(std::memory_order_relaxed);
  admit(m);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a transaction of regions");
}

template <media M>
status transaction<M>::create(std::uint64_t rid, std::uint64_t size, std::uint64_t room) noexcept try {
  if (size > layout::length_max || room > layout::length_max) {
    return fail(errc::too_large, "a region of %lu bytes: at most %lu", std::max(size, room), layout::length_max);
  }
  if (const std::size_t i = index_of(rid); i != members_.size()) {
    if (members_[i].dropped) return renew(members_[i], size, room);
    return fail(errc::exists, "region %lu is in the transaction already", rid);
  }
  expect_member();
  if (status s = domain_.left().expect(1); !s) return s;
  const std::uint64_t wanted = std::max(size, room);
  const unsigned in_class = class_for(wanted);
  auto made = std::unique_ptr<entry>{new (std::nothrow) entry};
  const auto at = made == nullptr ? result<std::uint64_t>{fail(errc::no_memory, "no volatile memory for a region")}
                                  : slot(in_class);
  if (!at) {
    domain_.left().spare(1);
    return at.error();
  }
  made->rid = rid;
  made->length.store(entry::dropped, std::memory_order_relaxed);
  begin_in(*made, *at, in_class, wanted);
  (void)made->lock.try_hold();  // nobody knows it
  if (status s = insert(*made); !s) {
    set_.where.put_slot(in_class, *at);
    domain_.left().spare(1);
    return s;
  }
  member m;
  m.of = made.release();
  m.length = size;
  m.created = m.touched = true;
  admit(m);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a transaction of regions");
}

// The region stays the same one, of which nothing is kept; so no other thread finds its number free meanwhile.
template <media M>
status transaction<M>::renew(member& m, std::uint64_t size, std::uint64_t room) noexcept {
  const std::uint64_t wanted = std::max(size, room);
  if (m.created) {
    const unsigned in_class = class_for(wanted);
    std::uint64_t header = m.of->header;
    if (in_class != m.of->in_class) {
      const auto at = slot(in_class);
      if (!at) return at.error();
      set_.where.put_slot(static_cast<unsigned>(m.of->in_class), header);
      header = *at;
    }
    begin_in(*m.of, header, in_class, wanted);
  } else {
    m.renewed = true;
    m.room = wanted;
  }
  m.length = size;
  m.kept = 0;
  m.how = mode::adaptive;
  m.dropped = false;
  return {};
}

template <media M>
status transaction<M>::drop(std::uint64_t rid) noexcept {
  const auto m = find(rid);
  if (!m) return m.error();
  (*m)->dropped = (*m)->touched = true;
  (*m)->first = (*m)->last = member::none;
  return {};
}

template <media M>
status transaction<M>::add(member& m, std::uint64_t offset, bytes from) noexcept try {
  if (from.empty()) return {};
  changes_.reserve(grown(changes_));
  change c{offset, from.size(), lasting_ ? from.data() : nullptr, arena_.size(), member::none};
  if (!lasting_) arena_.insert(arena_.end(), from.begin(), from.end());
  const auto index = static_cast<std::uint32_t>(changes_.size());
  changes_.push_back(c);
  (m.first == member::none ? m.first : changes_[m.last].next) = index;
  m.last = index;
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for %zu bytes of a transaction of regions", from.size());
}

template <media M>
status transaction<M>::write(std::uint64_t rid, std::uint64_t offset, bytes from) noexcept {
  const auto m = find(rid);
  if (!m) return m.error();
  if (!range_inside(offset, from.size(), (*m)->length)) {
    return fail(errc::invalid, "region %lu: %zu bytes at %lu, it has %lu", rid, from.size(), offset, (*m)->length);
  }
  return add(**m, offset, from);
}

template <media M>
result<std::uint64_t> transaction<M>::append(std::uint64_t rid, bytes from) noexcept {
  const auto m = find(rid);
  if (!m) return m.error();
  const std::uint64_t at = (*m)->length;
  if (from.size() > layout::length_max - at) {
    return fail(errc::too_large, "region %lu: %zu bytes more than %lu: at most %lu", rid, from.size(), at,
                layout::length_max);
  }
  if (status s = add(**m, at, from); !s) return s.error();
  (*m)->length += from.size();
  (*m)->touched = (*m)->touched || !from.empty();
  return at;
}

template <media M>
status transaction<M>::truncate(std::uint64_t rid, std::uint64_t length) noexcept {
  const auto m = find(rid);
  if (!m) return m.error();
  if (length > layout::length_max) {
    return fail(errc::too_large, "a region of %lu bytes: at most %lu", length, layout::length_max);
  }
  if (length == (*m)->length) return {};
  if (length < (*m)->length) cut_changes(**m, length);
  (*m)->kept = std::min((*m)->kept, length);
  (*m)->length = length;
  (*m)->touched = true;
  return {};
}
// Bytes written after the new end are gone, even if the region grows again.
template <media M>
void transaction<M>::cut_changes(member& m, std::uint64_t length) noexcept {
  for (std::uint32_t i = m.first; i != member::none; i = changes_[i].next) {
    changes_[i].bytes = bytes_below(changes_[i], length);
  }
}

template <media M>
result<std::uint64_t> transaction<M>::length(std::uint64_t rid) const noexcept {
  const auto m = const_cast<transaction*>(this)->find(rid);
  if (!m) return m.error();
  return (*m)->length;
}

template <media M>
result<std::uint64_t> transaction<M>::read(std::uint64_t rid, std::uint64_t offset,
                                           std::span<std::byte> to) const noexcept {
  const auto found = const_cast<transaction*>(this)->find(rid);
  if (!found) return found.error();
  const member& m = **found;
  if (offset > m.length) return fail(errc::invalid, "region %lu: offset %lu, it has %lu bytes", rid, offset, m.length);
  const std::uint64_t n = std::min<std::uint64_t>(to.size(), m.length - offset);
  assemble(m, offset, offset + n, to.data());
  return n;
}

template <media M>
void transaction<M>::abort() noexcept {
  for (member& m : members_) {
    if (m.created) {
      set_.regions.erase(m.of);
      set_.where.put_slot(static_cast<unsigned>(m.of->in_class), m.of->header);
      m.of->lock.let_go();
      domain_.left().leave(m.of);
    } else {
      m.of->lock.let_go();
    }
  }
  end();
}

template <media M>
void transaction<M>::end() noexcept {
  room_->clear();
}

}  // namespace nvm::region

#include "region/gather.hpp"
#include "region/partner_writes.hpp"
#include "region/transaction_commit.hpp"
