#include "stm/transaction.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/plant.hpp"
#include "nvm/nvm.h"

#if defined(__SANITIZE_THREAD__)
#define NVM_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NVM_THREAD_SANITIZER
#endif
#endif

namespace nvm::stm {

using isolation::participant;
using isolation::seen;

namespace {

std::uintptr_t address(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// Bytes from p to the end of its line, at most n.
std::size_t to_line_end(const void* p, std::size_t n) noexcept {
  return std::min<std::size_t>(n, line_bytes - address(p) % line_bytes);
}

constexpr std::size_t piece_bytes = 512;

}  // namespace

// ---- life

verdict transaction::ask_engine(durable_side* side) {
  auto asked = side->begin();
  if (!asked) return fails(asked.error());
  const policy found = (*asked)->writes_back() ? policy::write_back : policy::write_through;
  std::vector<hook> none;
  (*asked)->abort(none);
  // relaxed: every thread finds out the same.
  side->engine_policy.store(found, std::memory_order_relaxed);
  return verdict::done;
}

verdict transaction::learn_policy(durable_side* side) {
  write_back_ = false;
  translates_ = side != nullptr && side->translates();
  if (side == nullptr) return verdict::done;
  if (side->engine_policy.load(std::memory_order_relaxed) == policy::unknown) {
    if (verdict a = ask_engine(side); a != verdict::done) return a;
  }
  write_back_ = side->wants_write_back() && !(runs_alone() && side->takes_announced_stores());
  return verdict::done;
}

verdict transaction::begin_carefully(durable_side* side) {
  if (verdict a = learn_policy(side); a != verdict::done) return a;
  if (runs_alone()) {
    who_.enter_alone(side);
    participant::counters::add(who_.count.serial);
  } else {
    who_.enter(side);
  }
  has_entered(side);
  return verdict::done;
}

verdict transaction::begin_level(durable_side* side) {
  if (side_ == nullptr && side != nullptr) {
    // Volatile memory that was already stored in place stays so: both ways work together.
    if (verdict a = learn_policy(side); a != verdict::done) return a;
    side_ = side;
    who_.concerns(side);
  }
  levels_.push_back({journal_.here(), fresh_journal_.here(), writes_.here(), fresh_volatile_.size(),
                     freed_volatile_.size(), hooks_.size()});
  writes_.begin_level();
  find_out_whether_it_buffers();
  return verdict::done;
}

verdict transaction::commit_in_engine(std::uint64_t& version, lsn_t& lsn) {
  result<lsn_t> ended = lsn_t{0};
  if (write_back_) {
    auto lines = writes_.durable_lines();
    if (planted(plant::store_not_announced) && !lines.empty()) lines = lines.first(lines.size() - 1);
    if (status s = engine_->enter_commit(lines); !s) return fails(s.error());
    version = who_.draw();
    if (!view_.may_commit(version)) return verdict::conflict;
    ended = engine_->commit_lines(lines, version, no_hooks_);
  } else {
    version = who_.draw();
    if (!view_.may_commit(version)) return verdict::conflict;
    if (planted(plant::unlocked_too_early)) view_.unlock(version);
    ended = engine_->commit(no_hooks_);
  }
  engine_ = nullptr;
  if (!ended) {
    stored_in_place_ = true;  // home may have been written, and put back
    return fails(ended.error());
  }
  lsn = *ended;
  return verdict::done;
}

verdict transaction::commit() {
  if (doomed_) {
    const tx::first_failure why = doomed_;
    roll_back(reason::left);
    return fails(why.again());
  }
  std::uint64_t version = 0;
  lsn_t lsn = 0;
  if (engine_ != nullptr) {
    const verdict a = commit_in_engine(version, lsn);
    if (a == verdict::failed) {
      const errc why = failure_;
      roll_back(reason::left);
      return fails(why);
    }
    if (a == verdict::conflict) return a;
    side_->has_ordered(lsn);
  } else if (view_.has_locks() || !freed_volatile_.empty()) {
    version = who_.draw();
    if (!view_.may_commit(version)) return verdict::conflict;
  }
  if (version != 0) {
    writes_.store_volatile_home();
    view_.unlock(version);
    participant::counters::add(who_.count.commits);
  } else {
    participant::counters::add(who_.count.read_only);
  }
  // A transaction that wrote waits for its own commit, which comes after everything it has seen; one that only read
  // waits for what it may have seen.
  ended_ = {side_, lsn != 0 || side_ == nullptr ? lsn : side_->ordered(), lsn != 0, privatises_ ? version : 0};
  hooks_are_due(0);
  fresh_volatile_.clear();
  if (freed_volatile_.empty()) {
    leave();
  } else {
    std::vector<void*> freed;
    freed.swap(freed_volatile_);
    leave();
    for (void* p : freed) limbo_.add(p, version);
  }
  return verdict::done;
}

status transaction::finish_wait(const ended& e) noexcept {
  if (e.version != 0) who_.wait_for_older(e.version);
  if (e.lsn == 0) return {};
  return e.changed ? e.side->wait(e.lsn) : e.side->wait_for_seen(e.lsn);
}

verdict transaction::commit_level() {
  const level l = levels_.back();
  if (doomed_) {
    const tx::first_failure why = doomed_;
    roll_back_level();
    doomed_ = why;
    doomed_.concerns(depth());
    return fails(doomed_.again());
  }
  const bool outermost_now = levels_.size() == 2;
  if (outermost_now) {
    journal_.join_outermost(l.journal);
    fresh_journal_.forget(l.fresh_journal);
  }
  if (engine_ != nullptr && engine_->depth() == depth()) {
    if (status s = engine_->commit_level(); !s) {
      // The engine has rolled its part back.  Old bytes that have joined the enclosing level stay there, to be put back
      // with it.
      take_level_back(false);
      return doom(s.error());
    }
  }
  writes_.end_level(outermost_now);
  for (fresh_object& o : fresh_) o.level = std::min<unsigned>(o.level, depth() - 1);
  levels_.pop_back();
  find_out_whether_it_buffers();
  return verdict::done;
}

void transaction::roll_back_level() noexcept { take_level_back(true); }

void transaction::take_level_back(bool engine_too) noexcept {
  const level l = levels_.back();
  writes_.put_back(l.writes);
  journal_.put_back(l.journal);
  fresh_journal_.put_back(l.fresh_journal);
  if (engine_too && engine_ != nullptr && engine_->depth() == depth()) {
    std::vector<hook> none;
    engine_->abort_level(none);
  }
  std::erase_if(fresh_, [this](const fresh_object& o) { return o.level == depth(); });
  while (fresh_volatile_.size() > l.fresh_volatile) {
    std::free(fresh_volatile_.back());
    fresh_volatile_.pop_back();
  }
  freed_volatile_.resize(l.freed_volatile);
  hooks_are_due(l.hooks);
  levels_.pop_back();
  doomed_.levels_left(depth());
  find_out_whether_it_buffers();
}

void transaction::roll_back(reason why) noexcept {
  journal_.put_all_back();
  if (engine_ != nullptr) {
    std::vector<hook> none;
    engine_->abort(none);
    engine_ = nullptr;
  }
  buffers_ = false;
  if (stored_in_place_) {
    view_.unlock(who_.draw());
  } else {
    view_.unlock_unchanged();
  }
  for (void* p : fresh_volatile_) std::free(p);
  fresh_volatile_.clear();
  freed_volatile_.clear();
  hooks_are_due(0);
  participant::counters& c = who_.count;
  participant::counters::add(why == reason::conflict ? c.conflicts : why == reason::retry ? c.retries : c.rollbacks);
  ended_ = {};
  leave();
}

void transaction::leave() noexcept {
  view_.end();
  journal_.clear();
  fresh_journal_.clear();
  writes_.clear();
  levels_.clear();
  if (!fresh_.empty()) fresh_.clear();
  side_ = nullptr;
  engine_ = nullptr;
  reader_ = nullptr;
  translates_ = false;
  buffers_ = stored_in_place_ = privatises_ = false;
  const bool was_alone = who_.alone();
  who_.leave();
  if (was_alone) who_.end_serial();
}

void transaction::wait_before_next_attempt() noexcept {
  if (series_.wants_serial) return;
  back_off_.pause(series_.attempts);
}

void transaction::wait_for_change() noexcept {
  series_.attempts = 0;
  back_off_.pause(1);
  if (view_.has_read()) isolation::wait_until([this] { return view_.something_changed(); });
}

verdict transaction::become_irrevocable() {
  if (who_.alone()) return verdict::done;
  series_.wants_serial = true;
  // It rolls back first: otherwise it would wait for threads that wait for its own locks or lane.
  return verdict::conflict;
}

// ---- memory

unsigned transaction::level_of_fresh(const void* p, std::size_t n) noexcept {
  const std::uintptr_t from = address(p);
  const auto inside = [&](const fresh_object& o) { return from >= o.begin && n <= o.end - from && from < o.end; };
  if (last_fresh_ < fresh_.size() && inside(fresh_[last_fresh_])) return fresh_[last_fresh_].level;
  const auto behind = std::upper_bound(fresh_.begin(), fresh_.end(), from,
                                       [](std::uintptr_t a, const fresh_object& o) { return a < o.begin; });
  if (behind == fresh_.begin() || !inside(*std::prev(behind))) return 0;
  last_fresh_ = static_cast<std::size_t>(std::prev(behind) - fresh_.begin());
  return fresh_[last_fresh_].level;
}

void transaction::add_fresh(void* p, std::size_t bytes) {
  const std::uintptr_t begin = address(p);
  const fresh_object o{begin, begin + bytes, depth()};
  // Mostly at the end: allocators go upwards.
  const auto at = std::upper_bound(fresh_.begin(), fresh_.end(), begin,
                                   [](std::uintptr_t a, const fresh_object& x) { return a < x.begin; });
  fresh_.insert(at, o);
  buffers_ = false;
}

verdict transaction::lock_lines(const void* p, std::size_t n) {
  const std::uint64_t last = (address(p) + n - 1) / line_bytes;
  for (std::uint64_t line = isolation::line_of(p); line <= last; ++line) {
    if (!view_.lock(isolation::orec_of_line(line))) return verdict::conflict;
  }
  return verdict::done;
}

verdict transaction::in_pool(const void* p, std::size_t n) {
  const std::uint64_t offset = side_->offset_of(p);
  if (!side_->in_data(offset, n)) {
    return fails(fail(errc::bad_pointer, "[%p, +%zu) is not inside the data of the transaction's pool", p, n));
  }
  // First: a store that is detached after this question waits for open transactions of the engine.
  tx::open_transaction* e = nullptr;
  if (verdict a = engine(e); a != verdict::done) return a;
  const status may = side_->admits_change(offset, n);
  return may ? verdict::done : fails(may.error());
}

verdict transaction::begin_engine() {
  if (side_ == nullptr) {
    return fails(fail(errc::no_transaction, "the transaction has no pool: it is for volatile memory only"));
  }
  if (engine_ == nullptr) {
    auto begun = side_->begin();
    if (!begun) return fails(begun.error());
    engine_ = *begun;
    logs_each_store_ = engine_->logs_each_store();
  }
  while (engine_->depth() < depth()) {
    if (status s = engine_->begin(); !s) return fails(s.error());
  }
  find_out_whether_it_buffers();
  return verdict::done;
}

verdict transaction::engine(tx::open_transaction*& out) {
  if (engine_ == nullptr || engine_->depth() < depth()) {
    if (verdict a = begin_engine(); a != verdict::done) return a;
  }
  out = engine_;
  return verdict::done;
}

verdict transaction::find_place(void* p, std::size_t n, bool& durable, unsigned& born) {
  durable = side_ != nullptr && side_->holds(p);
  born = fresh_.empty() ? 0 : level_of_fresh(p, n);
  if (born != 0) return verdict::done;
  if (durable) return in_pool(p, n);
  if (!nvm_is_durable(p)) return verdict::done;
  return fails(fail(errc::bad_pointer, "%p lies in no pool, or in another one than the transaction's", p));
}

verdict transaction::prepare(void* p, std::size_t n, place& where) {
  bool durable = false;
  unsigned born = 0;
  if (verdict a = find_place(p, n, durable, born); a != verdict::done) return a;
  if (born == 0) return lock_and_announce(p, n, durable, where);
  if (born < depth()) fresh_journal_.keep(p, n, false);
  where = place::home;
  return verdict::done;
}

verdict transaction::expect_one(const void* p, std::size_t n) {
  bool durable = false;
  unsigned born = 0;
  if (verdict a = find_place(const_cast<void*>(p), n, durable, born); a != verdict::done) return a;
  // Volatile memory costs no fence.
  if (!durable || born != 0) return verdict::done;
  tx::open_transaction* e = nullptr;
  if (verdict a = engine(e); a != verdict::done) return a;
  if (verdict a = lock_lines(p, n); a != verdict::done) return a;
  expected_.push_back({side_->offset_of(p), n});
  return verdict::done;
}

verdict transaction::expect(const nvm_range* ranges, std::size_t count) {
  if (write_back_) return verdict::done;
  expected_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (ranges[i].n == 0) continue;
    if (verdict a = expect_one(ranges[i].p, ranges[i].n); a != verdict::done) return a;
  }
  if (expected_.empty() || planted(plant::store_not_announced)) return verdict::done;
  status s = engine_->announce(expected_.data(), expected_.size());
  return s ? verdict::done : fails(s.error());
}

verdict transaction::lock_and_announce(void* p, std::size_t n, bool durable, place& where) {
  where = place::home;
  // The lane before the locks: so no other transaction waits for the locks while this one waits for a lane.
  tx::open_transaction* e = nullptr;
  if (durable) {
    if (verdict a = engine(e); a != verdict::done) return a;
  }
  if (verdict a = lock_lines(p, n); a != verdict::done) return a;
  if (write_back_) {
    where = durable ? place::buffer_durable : place::buffer_volatile;
    return verdict::done;
  }
  if (durable) {
    if (planted(plant::store_not_announced)) return verdict::done;
    const log::byte_range range{side_->offset_of(p), n};
    if (status s = e->announce(&range, 1); !s) return fails(s.error());
  } else {
    journal_.keep(p, n, outermost());
  }
  stored_in_place_ = true;
  return verdict::done;
}

verdict transaction::put(void* p, const void* from, std::size_t n, place where) {
  if (where == place::home) {
    isolation::copy_in(p, from, n);
    return verdict::done;
  }
  if (logs_each_store_ && where == place::buffer_durable) {
    status s = engine_->log_store(side_->offset_of(p), static_cast<const std::byte*>(from), n);
    if (!s) return fails(s.error());
  }
  auto* to = static_cast<std::byte*>(p);
  const auto* bytes = static_cast<const std::byte*>(from);
  while (n != 0) {
    const std::size_t here = to_line_end(to, n);
    writes_.put(to, bytes, here, where == place::buffer_durable, outermost());
    to += here;
    bytes += here;
    n -= here;
  }
  return verdict::done;
}

verdict transaction::write(void* to, const void* from, std::size_t n) {
  if (n == 0) return verdict::done;
  place where{};
  if (verdict a = prepare(to, n, where); a != verdict::done) return a;
  return put(to, from, n, where);
}

verdict transaction::write_with_word(void* to, const void* from, std::size_t n, std::uint64_t last) {
  place where{};
  if (verdict a = prepare(to, n + sizeof last, where); a != verdict::done) return a;
  if (verdict a = put(to, from, n, where); a != verdict::done) return a;
  return put(static_cast<std::byte*>(to) + n, &last, sizeof last, where);
}

verdict transaction::announce(const void* p, std::size_t n) {
  if (write_back_) {
    return fails(fail(errc::invalid, "stores without barriers need a transaction that is in place (irrevocable)"));
  }
  place where{};
  return n == 0 ? verdict::done : prepare(const_cast<void*>(p), n, where);
}

verdict transaction::fill(void* to, int byte, std::size_t n) {
  if (n == 0) return verdict::done;
  place where{};
  if (verdict a = prepare(to, n, where); a != verdict::done) return a;
  std::byte piece[piece_bytes];
  std::memset(piece, byte, std::min(n, piece_bytes));
  for (std::size_t done = 0; done < n; done += piece_bytes) {
    const verdict a = put(static_cast<std::byte*>(to) + done, piece, std::min(n - done, piece_bytes), where);
    if (a != verdict::done) return a;
  }
  return verdict::done;
}

void transaction::read_own(const void* p, std::size_t n, void* out) noexcept {
  if (is_virtual(p, n)) {
    reader_->read(side_->offset_of(p), out, n);
  } else {
    isolation::copy_out(out, p, n);
  }
  if (!write_back_) return;
  const isolation::written_line* w = writes_.find(p, side_ != nullptr && side_->holds(p));
  if (w == nullptr) return;
  const auto at = static_cast<unsigned>(address(p) % line_bytes);
  isolation::each_run(w->mask & isolation::bytes_mask(at, n), [&](unsigned from, std::size_t bytes) {
    std::memcpy(static_cast<std::byte*>(out) + (from - at), w->bytes + from, bytes);
  });
}

verdict transaction::load_own(seen s, const void* p, std::size_t n, void* out) {
  if (s == seen::ok) return verdict::done;
  if (s == seen::conflict) return verdict::conflict;
  read_own(p, n, out);
  return verdict::done;
}

// Reads bytes of virtual addresses where the reader says that they are, under the orecs of the addresses.
verdict transaction::read_virtual(void* to, const void* from, std::size_t n) {
  if (reader_ == nullptr) {
    auto asked = side_->reader();
    if (!asked) return fails(asked.error());
    reader_ = *asked;
  }
  const std::uint64_t offset = side_->offset_of(from);
  const std::uint64_t last = (address(from) + n - 1) / line_bytes;
  if (view_.read_lines_quickly(isolation::line_of(from), last, [&] { reader_->read(offset, to, n); })) {
    return verdict::done;
  }
  const auto* at = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  for (std::size_t done = 0; done < n;) {
    const std::size_t here = to_line_end(at + done, n - done);
    const seen s = view_.read_under(isolation::orec_of_line(isolation::line_of(at + done)),
                                    [&] { reader_->read(offset + done, out + done, here); });
    if (verdict a = load_own(s, at + done, here, out + done); a != verdict::done) return a;
    done += here;
  }
  return verdict::done;
}

verdict transaction::read(void* to, const void* from, std::size_t n) {
  if (n == 0) return verdict::done;
  if (is_virtual(from, n)) return read_virtual(to, from, n);
  const auto* at = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  while (n != 0) {
    const std::size_t here = to_line_end(at, n);
    if (verdict a = load_own(view_.read(at, here, out), at, here, out); a != verdict::done) return a;
    at += here;
    out += here;
    n -= here;
  }
  return verdict::done;
}

verdict transaction::copy(void* to, const void* from, std::size_t n) {
  if (n == 0 || to == from) return verdict::done;
  place where{};
  if (verdict a = prepare(to, n, where); a != verdict::done) return a;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  std::byte piece[piece_bytes];
  const bool backwards = address(to) - address(from) < n;  // the target begins inside the source
  for (std::size_t done = 0; done < n;) {
    const std::size_t here = std::min(n - done, piece_bytes);
    const std::size_t at = backwards ? n - done - here : done;
    if (verdict a = read(piece, source + at, here); a != verdict::done) return a;
    if (verdict a = put(target + at, piece, here, where); a != verdict::done) return a;
    done += here;
  }
  return verdict::done;
}

verdict transaction::compare(const void* shared, const void* mine, std::size_t n, int& out) {
  std::byte piece[piece_bytes];
  out = 0;
  for (std::size_t done = 0; done < n && out == 0; done += piece_bytes) {
    const std::size_t here = std::min(n - done, piece_bytes);
    if (verdict a = read(piece, static_cast<const std::byte*>(shared) + done, here); a != verdict::done) return a;
    out = std::memcmp(piece, static_cast<const std::byte*>(mine) + done, here);
  }
  return verdict::done;
}

// ---- objects

verdict transaction::allocate(std::uint32_t type, std::size_t bytes, std::size_t alignment, void*& out) {
  out = nullptr;
  fresh_.reserve(fresh_.size() + 1);
  tx::open_transaction* e = nullptr;
  if (verdict a = engine(e); a != verdict::done) return doom(failure_);
  if (alignment > layout::natural_alignment && translates_) {
    return doom(fail(errc::engine, "the pool is open with translated reads: its objects are aligned to %lu bytes",
                     layout::natural_alignment));
  }
  auto payload =
      tx::allocate_aligned(*e, side_->base(), type, bytes, alignment, [&] { return side_->admit_alignment(); });
  return made(payload, type, bytes, out);
}

verdict transaction::allocate_in(const store_attachment& store, std::uint32_t type, std::size_t bytes, void*& out) {
  out = nullptr;
  fresh_.reserve(fresh_.size() + 1);
  tx::open_transaction* e = nullptr;
  if (verdict a = engine(e); a != verdict::done) return doom(failure_);
  return made(e->allocate_in(store, type, bytes), type, bytes, out);
}

verdict transaction::made(const result<std::uint64_t>& payload, std::uint32_t type, std::size_t bytes, void*& out) {
  if (!payload) return doom(payload.error());
  out = side_->base() + *payload;
  add_fresh(out, bytes);
  if (!forget_readers(out, bytes)) return verdict::conflict;
  side_->clear_new(type, out, bytes);
  return verdict::done;
}

// Memory that was freed and is now allocated anew may be read even now by transactions that will find out from its
// orecs that they were too late. Where loads are not reordered, that is certain; a tool that goes by the rules of the
// language wants to see that these readers are gone before the first plain store.
bool transaction::forget_readers([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(NVM_THREAD_SANITIZER)
  std::uint64_t freed = 0;
  const std::uint64_t last = (address(p) + bytes - 1) / line_bytes;
  for (std::uint64_t line = isolation::line_of(p); line <= last; ++line) {
    const std::uint64_t w = isolation::orec_of_line(line).load(std::memory_order_acquire);
    freed = std::max(freed, isolation::orec_word::locked(w) ? isolation::version_clock::of_process().now() : w >> 1);
  }
  return who_.outwait_older(freed);
#else
  return true;
#endif
}

verdict transaction::allocate_volatile(std::size_t bytes, void*& out) {
  fresh_.reserve(fresh_.size() + 1);
  fresh_volatile_.reserve(fresh_volatile_.size() + 1);
  out = std::malloc(bytes == 0 ? 1 : bytes);
  if (out == nullptr) return doom(fail(errc::no_memory, "no volatile memory for %zu bytes", bytes));
  fresh_volatile_.push_back(out);
  add_fresh(out, bytes);
  return verdict::done;
}

verdict transaction::free(void* p) {
  if (p == nullptr) return verdict::done;
  if (!nvm_is_durable(p)) {
    freed_volatile_.push_back(p);
    return verdict::done;
  }
  // A transaction whose reads have become invalid may have any pointer: that is a conflict, no fault of the program.
  const auto refuse = [&](errc code) { return view_.holds() ? doom(code) : verdict::conflict; };
  if (side_ == nullptr || !side_->holds(p)) {
    return refuse(fail(errc::bad_pointer, "%p lies in no pool, or in another one than the transaction's", p));
  }
  std::uint64_t payload = side_->offset_of(p);
  tx::open_transaction* e = nullptr;
  if (verdict a = engine(e); a != verdict::done) return doom(failure_);
  auto room = e->room_of(payload);
  if (!room && room.error() == errc::bad_pointer && side_->in_data(payload, 1)) {
    const std::uint64_t plain = tx::engines_payload(side_->base(), side_->data_begin(), payload,
                                                    [&](std::uint64_t place) { return side_->may_be_aligned(place); });
    if (plain != 0) {
      payload = plain;
      room = e->room_of(payload);
    }
  }
  if (!room) return refuse(room.error());
  if (status s = side_->admits_change(payload, 1); !s) return refuse(s.error());
  if (level_of_fresh(p, 1) == 0) {
    constexpr std::size_t header = sizeof(layout::object_header);
    if (verdict a = lock_lines(side_->base() + payload - header, *room + header); a != verdict::done) return a;
    if (!view_.holds()) return verdict::conflict;
  }
  if (status s = side_->let_go(*e, payload); !s) return refuse(s.error());
  return verdict::done;
}

verdict transaction::set_anchor(anchor_word which, void* object) {
  if (side_ == nullptr) {
    return doom(fail(errc::no_transaction, "the transaction has no pool: it is for volatile memory only"));
  }
  if (object != nullptr && (!side_->holds(object) || !side_->in_data(side_->offset_of(object), 1))) {
    return doom(fail(errc::bad_pointer, "%p is not inside the data of the transaction's pool", object));
  }
  const std::uint64_t payload = object == nullptr ? 0 : side_->offset_of(object);
  for (const std::uint64_t at : side_->words_of(which).at) {
    const std::uint64_t word = seal_word(payload, word_seed(at));
    place where{};
    if (verdict a = lock_and_announce(side_->base() + at, sizeof word, true, where); a != verdict::done) {
      return a == verdict::failed ? doom(failure_) : a;
    }
    if (verdict a = put(side_->base() + at, &word, sizeof word, where); a != verdict::done) return a;
  }
  return verdict::done;
}

verdict transaction::anchor(anchor_word which, void*& out) {
  out = nullptr;
  if (side_ == nullptr) {
    return fails(fail(errc::no_transaction, "the transaction has no pool: it is for volatile memory only"));
  }
  for (const std::uint64_t at : side_->words_of(which).at) {
    std::uint64_t word = 0;
    if (verdict a = read(&word, side_->base() + at, sizeof word); a != verdict::done) return a;
    const std::uint64_t payload = word & checked_mask;
    if (!word_holds(word, word_seed(at)) || (payload != 0 && !side_->in_data(payload, 1))) continue;
    if (payload != 0) out = side_->base() + payload;
    return verdict::done;
  }
  return fails(fail(errc::corrupt, "neither anchor names %s by a word that passes its check", name_of(which)));
}

// ---- hooks

verdict transaction::on(int event, void (*call)(), void* argument) {
  due_.reserve(hooks_.size() + 1);  // so that the end needs no memory
  hooks_.push_back({call, event, argument, false});
  return verdict::done;
}

void transaction::some_hooks_are_due(std::size_t from) noexcept {
  if (from == 0) {
    due_.clear();
    due_.swap(hooks_);
    return;
  }
  due_.assign(hooks_.begin() + static_cast<std::ptrdiff_t>(from), hooks_.end());
  hooks_.resize(from);
}

}  // namespace nvm::stm
