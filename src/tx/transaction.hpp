// A transaction of announced stores, and the undo engine under it.
//
/// Undo on direct media.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. S undo record {ranges, old bytes, generation g, checksum}; F record
///                                                    | undo/E1  old bytes durable before their first overwrite
///   2. S new data in place; S fresh objects and their headers, in any order
///   3. F every announced line, every fresh object, its length byte, an intents record if the commit record is too
///   small
///                                                    | undo/E2  new data durable before the log lets go of the old
///   4. S commit record {g, intents}; F               | undo/E3  commit point; the old bytes are void from here
///   5. S allocation words (log/lanes.hpp); F         (durable at this lane's next fence; made again by recovery until
///   then)
/// A transaction that wrote nothing in place and allocated nothing skips 3; one that changed nothing skips all.
/// Abort: S old bytes, newest first; F              | undo/E4  the old data are durable
///        S commit record {g, abort}; F             | undo/E5  no recovery will touch the ranges again
/// Recovery: log/recovery.hpp.
///
/// On a medium with atomic batches (ssd) the old bytes are volatile, and steps 3 to 5 are one batch, which the medium
/// makes durable all or nothing: exactly the announced bytes, the fresh objects whole, and the allocation words,
/// changed inside the order's critical section so that two transactions may share a word.
//
// Levels.  begin() inside a transaction is a savepoint.  A byte is logged durably once, by the level that announces it
// first; inner levels keep the bytes they find in volatile memory.  An inner abort restores those and keeps the log:
// the records still hold the oldest bytes, and the restored lines stay in the outer level's set, since they must be
// durable at commit.  What the outer level has not announced itself it then keeps the old bytes of, too: it may write
// there without another record, and abort.  The log is never rewound inside a transaction.
//
// Threads: one thread, the one that holds the lane.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/byte_arena.hpp"
#include "tx/hook.hpp"
#include "tx/line_set.hpp"

namespace nvm::tx {

template <media M>
class transaction {
 public:
  using lanes_type = log::lanes<M>;
  using space_type = space<M, lanes_type>;
  using byte_range = log::byte_range;

  transaction(M& m, std::byte* base, lanes_type& lanes, space_type& space, unsigned lane)
      : media_{m}, base_{base}, lanes_{lanes}, space_{space}, lane_{lane} {}

  [[nodiscard]] unsigned depth() const noexcept { return static_cast<unsigned>(marks_.size()); }
  [[nodiscard]] unsigned lane() const noexcept { return lane_; }
  [[nodiscard]] bool must_abort() const noexcept { return must_abort_; }

  [[nodiscard]] status begin() noexcept try {
    const std::size_t level = marks_.size();
    if (sets_.size() <= level) sets_.push_back(std::make_unique<line_set>());
    marks_.push_back({undo_.size(), allocations_.size(), frees_.size(), hooks_.size()});
    sets_[level]->clear();
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }

  // Announces ranges of the pool, all of them inside it.
  // Also where nothing but abort is left because there was no room for an object: a program may write before it gives
  // up, and what it writes has to be taken back.
  [[nodiscard]] status announce(const byte_range* ranges, std::size_t count) noexcept {
    if (log_failed_) return refuse();
    durable_.clear();
    volatile_.clear();
    const std::size_t runs_before = sets_[marks_.size() - 1]->runs().size();
    status s = collect(ranges, count);
    if (s) s = keep_volatile();
    if (s && !durable_.empty()) s = keep_durable();
    if (!s) {
      forget(durable_);
      forget(volatile_);
      sets_[marks_.size() - 1]->drop_runs(runs_before);
      must_abort_ = log_failed_ = true;
    }
    return s;
  }

  // Whether the innermost level can take back a store to these bytes: it announced them, or the object is its own.
  [[nodiscard]] bool covers(const byte_range& r) noexcept {
    const std::size_t around = allocation_around(r);
    const std::size_t level = marks_.size() - 1;
    if (around != npos && around >= marks_[level].allocations) return true;
    for (std::uint64_t line = r.offset / line_bytes; line * line_bytes < r.offset + r.bytes; ++line) {
      const std::uint64_t wanted = line_set::mask_in(line, r.offset, r.bytes);
      if ((sets_[level]->mask_of(line) & wanted) != wanted) return false;
    }
    return true;
  }

  // Allocates `bytes` with their layout's header; the offset of the object.  Failure leaves only abort.
  [[nodiscard]] result<std::uint64_t> allocate(std::uint64_t bytes, layout::object_layout l) noexcept try {
    if (must_abort_) return refuse().error();
    allocations_.emplace_back();
    auto r = space_.reserve(lane_, bytes, l);
    if (!r) {
      allocations_.pop_back();
      must_abort_ = true;
      return r.error();
    }
    allocations_.back() = {*r, bytes, false};
    index_last_allocation();
    if (planted(plant::word_put_back)) {
      const byte_range word{r->set.word_offset(), 8};
      (void)announce(&word, 1);
      log::apply(base_, r->set);
    }
    return r->offset;
  } catch (const std::bad_alloc&) {
    must_abort_ = true;
    return fail(errc::no_memory, "no volatile memory for an allocation of %lu bytes", bytes);
  }

  // An allocation that cannot be tried: leaves only abort like any that fails.
  [[nodiscard]] errc refuse_allocation(errc reason) noexcept {
    must_abort_ = true;
    return reason;
  }

  // Frees the object that starts at `offset` when the transaction commits.  A wrong pointer changes nothing.
  [[nodiscard]] status release(std::uint64_t offset, layout::object_layout l) noexcept try {
    if (must_abort_) return refuse();
    frees_.emplace_back();
    status s = begin_free(offset, l, frees_.back());
    if (!s) frees_.pop_back();
    return s;
  } catch (const std::bad_alloc&) {
    must_abort_ = true;
    return fail(errc::no_memory, "no volatile memory for a free");
  }

  [[nodiscard]] status on(int event, void (*call)(), void* argument) noexcept try {
    hooks_.push_back({call, event, argument, false});
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a hook");
  }

  // Ends an inner level.
  [[nodiscard]] status commit_level() noexcept {
    NVM_ASSERT(marks_.size() > 1);
    if (must_abort_) {
      abort_level();
      must_abort_ = true;  // an unread failure of the inner level must not become half an outer one
      return refuse();
    }
    if (status s = merge_set(); !s) {
      abort_level();
      must_abort_ = true;
      return s;
    }
    marks_.pop_back();
    return {};
  }
  void abort_level() noexcept {
    NVM_ASSERT(marks_.size() > 1);
    const mark m = marks_.back();
    put_back(m.undo);
    hand_outward(m);
    drop(m);
    for (std::size_t i = m.hooks; i < hooks_.size(); ++i) hooks_[i].aborted = true;
    marks_.pop_back();
    must_abort_ = log_failed_ = false;
  }
  // The same, and its hooks, for the caller to run now: what a program keeps in volatile memory beside what this level
  // changed has to be put right before the level around goes on.
  void abort_level(std::vector<hook>& hooks) noexcept {
    const auto first = static_cast<std::ptrdiff_t>(marks_.back().hooks);
    abort_level();
    try {
      hooks.assign(hooks_.begin() + first, hooks_.end());
      hooks_.erase(hooks_.begin() + first, hooks_.end());
    } catch (const std::bad_alloc&) {
      hooks.clear();
      must_abort_ = true;  // they run at the end, and nothing but that may come before
    }
  }

  // Ends the outermost level; the LSN to wait for (0: durable).  On failure everything was rolled back.  The hooks stay
  // in take_hooks() for the caller to run once the lane is free.
  [[nodiscard]] result<lsn_t> commit() noexcept {
    NVM_ASSERT(marks_.size() == 1);
    if (must_abort_) {
      abort();
      return refuse().error();
    }
    if (status s = gather_intents(); !s) {
      abort();
      return s.error();
    }
    result<lsn_t> ended = lsn_t{0};
    if (sets_[0]->empty() && live_allocations_ == 0 && words_.empty()) {
      settle_free_of_fresh();
    } else if constexpr (M::atomic_batches) {
      ended = commit_batch();
      if (!ended) {
        abort();
        return ended.error();
      }
    } else {
      if (status s = commit_in_place(); !s) {
        abort();
        return s.error();
      }
    }
    count(commits_, 1);
    reset();
    return *ended;
  }

  // The same, having written these lines: all old bytes are made durable together.
  [[nodiscard]] result<lsn_t> commit_lines(std::span<const isolation::written_line> lines) noexcept {
    NVM_ASSERT(marks_.size() == 1);
    if (status s = write_lines(lines); !s) {
      abort();
      return s.error();
    }
    return commit();
  }

  void abort() noexcept {
    while (marks_.size() > 1) abort_level();
    const mark m = marks_.back();
    put_back(m.undo);
    if constexpr (!M::atomic_batches) {
      if (lanes_.has_records(lane_)) {
        flush_lines();
        media_.fence(edge{"undo/E4"});
        lanes_.finish(lane_, layout::outcome::abort, nullptr, 0, edge{"undo/E5"}, [](std::uint64_t) {});
        give_segments();
      }
    }
    drop(m);
    for (hook& h : hooks_) h.aborted = true;
    count(aborts_, 1);
    reset();
  }

  // Hooks of the transaction that has ended.
  std::vector<hook> take_hooks() noexcept { return std::move(hooks_); }

  // Counters since the transaction object was made; readable from any thread.
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t logged_bytes() const noexcept { return logged_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t npos = ~std::size_t{0};
  static constexpr std::uint64_t piece_max = layout::undo_range_bytes_max;

  struct mark {
    std::size_t undo, allocations, frees, hooks;
  };
  struct undo_entry {
    std::uint64_t offset;
    std::uint64_t bytes;
    const std::byte* old;
    std::size_t allocation;  // of this transaction, whose memory this is; npos: the object existed before
  };
  struct fresh_range : byte_range {
    std::size_t allocation;
  };
  struct allocation {
    typename space_type::reservation place;
    std::uint64_t bytes;
    bool freed;  // by this transaction, at its commit
  };
  struct pending_free {
    typename space_type::object object;
    std::size_t allocation;  // npos: the object existed before
  };

  static status refuse() noexcept {
    return fail(errc::must_abort, "an earlier failure in this transaction allows only abort");
  }

  [[nodiscard]] status write_lines(std::span<const isolation::written_line> lines) noexcept try {
    std::vector<byte_range> ranges;
    ranges.reserve(lines.size());
    for (const auto& w : lines) {
      each_byte_run(line_in_pool(w), w.mask, [&](std::uint64_t o, std::uint64_t n) { append(ranges, o, n); });
    }
    if (status s = announce(ranges.data(), ranges.size()); !s) return s;
    for (const auto& w : lines) {
      const std::uint64_t line = line_in_pool(w);
      each_byte_run(line, w.mask, [&](std::uint64_t o, std::uint64_t n) {
        isolation::copy_in(base_ + o, w.bytes + (o - line * line_bytes), n);
      });
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for %zu lines", lines.size());
  }
  [[nodiscard]] std::uint64_t line_in_pool(const isolation::written_line& w) const noexcept {
    return w.line - reinterpret_cast<std::uintptr_t>(base_) / line_bytes;
  }

  [[nodiscard]] status begin_free(std::uint64_t offset, layout::object_layout l, pending_free& f) noexcept {
    auto o = space_.find(offset, l, space_type::name_of(lane_));
    if (!o) return o.error();
    f.object = *o;
    f.allocation = npos;
    if (o->reserved) {
      f.allocation = allocation_at(offset);
      if (f.allocation == npos) {
        return fail(errc::bad_pointer, "object at offset %lu belongs to another open transaction", offset);
      }
    }
    status s = space_.begin_free(*o, lane_);
    if (s && planted(plant::reuse_before_commit)) space_.finish_free(*o, lane_, 0);
    return s;
  }

  // Few allocations are looked through, latest first: that is where frees and writes go.  Where there are more,
  // by_offset_ has them all.
  static constexpr std::size_t scanned_allocations_max = 32;

  void index_last_allocation() {
    if (allocations_.size() <= scanned_allocations_max) return;
    for (std::size_t i = by_offset_.empty() ? 0 : allocations_.size() - 1; i < allocations_.size(); ++i) {
      by_offset_[allocations_[i].place.offset] = i;
    }
  }
  void forget_last_allocation() noexcept {
    if (!by_offset_.empty()) by_offset_.erase(allocations_.back().place.offset);
    allocations_.pop_back();
  }
  // Index of the allocation of this transaction that contains the whole range.
  [[nodiscard]] std::size_t allocation_around(const byte_range& r) noexcept {
    if (last_hit_ < allocations_.size() && contains(allocations_[last_hit_], r)) return last_hit_;
    if (!by_offset_.empty()) {
      const auto behind = by_offset_.upper_bound(r.offset);
      if (behind == by_offset_.begin()) return npos;
      const std::size_t i = std::prev(behind)->second;
      return contains(allocations_[i], r) ? last_hit_ = i : npos;
    }
    for (std::size_t i = allocations_.size(); i-- > 0;) {
      if (contains(allocations_[i], r)) return last_hit_ = i;
    }
    return npos;
  }
  // Index of the live allocation of this transaction at `offset`.
  [[nodiscard]] std::size_t allocation_at(std::uint64_t offset) noexcept {
    const std::size_t i = allocation_around({offset, 1});
    return i != npos && allocations_[i].place.offset == offset ? i : npos;
  }
  static bool contains(const allocation& a, const byte_range& r) noexcept {
    return r.offset >= a.place.offset && range_inside(r.offset - a.place.offset, r.bytes, a.place.bytes);
  }

  // Splits the ranges into bytes that need a durable record and bytes that a volatile copy serves; both lists hold only
  // bytes that are new to this level, which are now marked.
  [[nodiscard]] status collect(const byte_range* ranges, std::size_t count) noexcept try {
    const std::size_t level = marks_.size() - 1;
    line_set& set = *sets_[level];
    for (std::size_t i = 0; i < count; ++i) {
      const byte_range& r = ranges[i];
      if (r.bytes == 0) continue;
      std::size_t around = npos;
      if (!allocations_.empty()) {
        around = allocation_around(r);
        if (around != npos && around >= marks_[level].allocations) continue;  // born in this level: nothing to restore
      }
      const std::uint64_t last = (r.offset + r.bytes - 1) / line_bytes;
      for (std::uint64_t line = r.offset / line_bytes; line <= last; ++line) {
        // Whole lines that come together, in the outermost level: nothing of them can be kept already.
        if (level == 0 && last - line >= line_set::run_lines_min && line * line_bytes >= r.offset) {
          const std::uint64_t whole = (r.offset + r.bytes) / line_bytes - line;
          if (set.add_run(line, whole)) {
            if constexpr (M::atomic_batches) {
              append(volatile_, line * line_bytes, whole * line_bytes, npos);
            } else {
              append(durable_, line * line_bytes, whole * line_bytes);
            }
            line += whole - 1;
            continue;
          }
        }
        const std::uint64_t added = set.add(line, line_set::mask_in(line, r.offset, r.bytes));
        if (added == 0) continue;
        std::uint64_t kept = 0;  // bytes whose durable record, if they need one, exists
        if (M::atomic_batches || around != npos) {
          kept = added;
        } else {
          for (std::size_t k = 0; k < level; ++k) kept |= added & sets_[k]->mask_of(line);
        }
        each_byte_run(line, added & ~kept, [&](std::uint64_t o, std::uint64_t n) { append(durable_, o, n); });
        each_byte_run(line, kept, [&](std::uint64_t o, std::uint64_t n) { append(volatile_, o, n, around); });
      }
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the set of announced lines");
  }
  // Joins with the range before when they touch, up to the largest piece a record takes.
  static void append(std::vector<byte_range>& list, std::uint64_t offset, std::uint64_t bytes) {
    if (!list.empty() && list.back().offset + list.back().bytes == offset && list.back().bytes + bytes <= piece_max) {
      list.back().bytes += bytes;
    } else {
      list.push_back({offset, bytes});
    }
  }
  static void append(std::vector<fresh_range>& list, std::uint64_t offset, std::uint64_t bytes,
                     std::size_t allocation) {
    if (!list.empty() && list.back().offset + list.back().bytes == offset && list.back().allocation == allocation) {
      list.back().bytes += bytes;
    } else {
      list.push_back({{offset, bytes}, allocation});
    }
  }
  template <class Range>
  void forget(const std::vector<Range>& list) noexcept {
    line_set& set = *sets_[marks_.size() - 1];
    for (const byte_range& r : list) {
      for (std::uint64_t line = r.offset / line_bytes; line <= (r.offset + r.bytes - 1) / line_bytes; ++line) {
        set.remove(line, line_set::mask_in(line, r.offset, r.bytes));
      }
    }
  }

  [[nodiscard]] status keep_volatile() noexcept try {
    for (const fresh_range& r : volatile_) {
      undo_.push_back({r.offset, r.bytes, arena_.keep(base_ + r.offset, r.bytes), r.allocation});
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for old bytes");
  }

  [[nodiscard]] status keep_durable() noexcept try {
    // Before the log has any of it: what an abort puts back must be there, and all of it.
    std::size_t pieces = 0;
    for (const byte_range& r : durable_) pieces += ceil_div(r.bytes, piece_max);
    if (undo_.capacity() - undo_.size() < pieces) undo_.reserve(std::max(undo_.size() + pieces, 2 * undo_.capacity()));
    status s = lanes_.append_undo(
        lane_, durable_.data(), durable_.size(),
        [&](std::uint64_t offset, std::uint64_t bytes, const std::byte* old) {
          undo_.push_back({offset, bytes, old, npos});
        },
        [&](std::uint64_t bytes) { return more_log(bytes); });
    if (s) media_.fence(edge{"undo/E1"});
    return s;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the list of old bytes");
  }

  result<log::segment> more_log(std::uint64_t bytes) noexcept {
    auto run = space_.reserve_log_run(bytes);
    if (!run) return run.error();
    return log::segment{run->offset, run->bytes};
  }
  void give_segments() noexcept {
    lanes_.take_segments(lane_, [&](std::uint64_t offset) { space_.release_log_run(offset); });
  }

  // Old bytes back, newest first, down to undo entry `from`.  Barrier transactions may be looking at them, in vain.
  void put_back(std::size_t from) noexcept {
    for (std::size_t i = undo_.size(); i-- > from;) {
      isolation::copy_in(base_ + undo_[i].offset, undo_[i].old, undo_[i].bytes);
    }
  }
  // The innermost level has been put back: its lines join those of the level around it, and with each byte that is new
  // there stays the oldest undo entry that has it.  Of memory that goes with the level nothing stays.  Keeps whole
  // entries: with bytes that the outer level has its own older entries of, which are put back later.
  void hand_outward(const mark& m) noexcept {
    std::size_t kept = m.undo;
    bool all_lines = true;
    for (std::size_t i = m.undo; i < undo_.size(); ++i) {
      const undo_entry& u = undo_[i];
      if (u.allocation != npos && u.allocation >= m.allocations) continue;
      const line_gain gain =
          planted(plant::restored_not_flushed) ? line_gain::none : join(*sets_[marks_.size() - 2], u);
      all_lines = all_lines && gain != line_gain::unknown;
      if (gain != line_gain::none) undo_[kept++] = u;
    }
    undo_.erase(undo_.begin() + static_cast<std::ptrdiff_t>(kept), undo_.end());
    // What does not fit the outer set is flushed here, and ordered by the commit's fence.  Where lines are captured
    // nobody need do that: what was put back never left the image.
    if constexpr (!M::atomic_batches) {
      if (!all_lines) flush_level();
    }
  }
  enum class line_gain : std::uint8_t { none, some, unknown };
  static line_gain join(line_set& set, const undo_entry& u) noexcept try {
    bool gained = false;
    for (std::uint64_t line = u.offset / line_bytes; line <= (u.offset + u.bytes - 1) / line_bytes; ++line) {
      if (set.add(line, line_set::mask_in(line, u.offset, u.bytes)) != 0) gained = true;
    }
    return gained ? line_gain::some : line_gain::none;
  } catch (const std::bad_alloc&) {
    return line_gain::unknown;
  }
  // Gives up allocations and frees back to the mark.
  void drop(const mark& m) noexcept {
    while (frees_.size() > m.frees) {
      space_.cancel_free(frees_.back().object, lane_);
      frees_.pop_back();
    }
    while (allocations_.size() > m.allocations) {
      space_.cancel(allocations_.back().place, lane_);
      forget_last_allocation();
    }
  }
  [[nodiscard]] status merge_set() noexcept try {
    const std::size_t level = marks_.size() - 1;
    for (const auto& e : sets_[level]->entries()) {
      if (e.mask != 0) sets_[level - 1]->add(e.line, e.mask);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the set of announced lines");
  }
  void flush_level() noexcept { flush_set(*sets_[marks_.size() - 1]); }
  void flush_lines() noexcept { flush_set(*sets_[0]); }
  void flush_set(const line_set& set) noexcept {
    for (const auto& e : set.entries()) media_.flush(base_ + e.line * line_bytes, line_bytes);
    for (const auto& r : set.runs()) media_.flush(base_ + r.first * line_bytes, r.lines * line_bytes);
  }

  // Fills words_ with the intents of what remains: not of objects both allocated and freed here.
  [[nodiscard]] status gather_intents() noexcept try {
    words_.clear();
    for (const pending_free& f : frees_) {
      if (f.allocation != npos) allocations_[f.allocation].freed = true;
    }
    live_allocations_ = 0;
    for (const allocation& a : allocations_) {
      if (a.freed) continue;
      ++live_allocations_;
      words_.push_back(a.place.set.code);
      if (a.place.set.words() == 2) words_.push_back(a.place.set.value);
    }
    for (const pending_free& f : frees_) {
      if (f.allocation == npos) words_.push_back(f.object.clear.code);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the changes of allocation");
  }

  [[nodiscard]] status commit_in_place() noexcept try {
    if (status s = lanes_.prepare_finish(lane_, words_.size()); !s) return s;
    bool data = false;
    if (words_.size() > layout::inline_intent_words) {
      status s =
          lanes_.append_intents(lane_, words_.data(), words_.size(), [&](std::uint64_t n) { return more_log(n); });
      if (!s) return s;
      data = true;
    }
    if (!sets_[0]->empty()) {
      flush_lines();
      data = true;
    }
    for (const allocation& a : allocations_) {
      if (a.freed || planted(plant::fresh_after_record)) continue;
      media_.flush(base_ + a.place.offset, a.bytes);
      data = true;
    }
    if (data) media_.fence(edge{"undo/E2"});
    count(logged_bytes_, lanes_.logged_bytes(lane_) + sizeof(layout::commit_record));
    lanes_.finish(lane_, layout::outcome::commit, words_.data(), words_.size(), edge{"undo/E3"},
                  [this](std::uint64_t g) { conclude(g); });
    if (planted(plant::fresh_after_record)) flush_fresh();
    give_segments();
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to commit");
  }

  [[nodiscard]] result<lsn_t> commit_batch() noexcept {
    batch_.clear();
    // Exactly the announced bytes: others in the same line may be another transaction's, half written.
    byte_range run{0, 0};
    for (const auto& e : sets_[0]->entries()) {
      each_byte_run(e.line, e.mask, [&](std::uint64_t o, std::uint64_t n) {
        if (run.bytes != 0 && run.offset + run.bytes == o) {
          run.bytes += n;
          return;
        }
        if (run.bytes != 0) batch_.add(base_ + run.offset, run.bytes);
        run = {o, n};
      });
    }
    if (run.bytes != 0) batch_.add(base_ + run.offset, run.bytes);
    for (const auto& r : sets_[0]->runs()) batch_.add(base_ + r.first * line_bytes, r.lines * line_bytes);
    for (const allocation& a : allocations_) {
      if (a.freed || planted(plant::fresh_after_record)) continue;
      batch_.add(base_ + a.place.offset, a.bytes);
      if (a.place.length_byte != nullptr) batch_.add(a.place.length_byte, 1);
    }
    batch_.expect(words_.size(), words_.size() * 8);
    const auto change_words = [&] {
      log::each_intent(words_.data(), words_.size(), [&](const log::intent& i) {
        log::apply(base_, i);
        batch_.add(base_ + i.word_offset(), 8);
        return true;
      });
    };
    if (planted(plant::captured_early)) change_words();
    let_another_thread_run();
    auto lsn = media_.publish(
        batch_,
        [&] {
          if (!planted(plant::captured_early)) change_words();
        },
        edge{"undo/E6"});
    if (!lsn) return lsn.error();
    if (planted(plant::fresh_after_record)) {
      flush_fresh();
      lsn = media_.last_lsn();
    }
    conclude(0);
    return *lsn;
  }

  // plant::fresh_after_record
  void flush_fresh() noexcept {
    for (const allocation& a : allocations_) {
      if (a.freed) continue;
      media_.flush(base_ + a.place.offset, a.bytes);
      if (a.place.length_byte != nullptr) media_.flush(a.place.length_byte, 1);
    }
  }

  // Tells space what has happened, which applies the intents; g is 0 if they were applied already.
  void conclude(std::uint64_t g) noexcept {
    for (const pending_free& f : frees_) {
      if (f.allocation == npos) {
        if (!planted(plant::reuse_before_commit)) {
          space_.finish_free(f.object, lane_, g);
        } else if (g != 0) {
          log::apply(base_, f.object.clear);
        }
      } else {
        space_.cancel_free(f.object, lane_);
      }
    }
    for (const allocation& a : allocations_) {
      if (a.freed) {
        space_.cancel(a.place, lane_);
      } else {
        space_.committed(a.place, lane_, g);
      }
    }
  }
  void settle_free_of_fresh() noexcept {
    if (!frees_.empty() || !allocations_.empty()) conclude(0);
  }

  // One writer, the lane's owner; relaxed: a reader wants a recent number, no order.
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  void reset() noexcept {
    marks_.clear();
    undo_.clear();
    allocations_.clear();
    by_offset_.clear();
    frees_.clear();
    words_.clear();
    arena_.reset();
    must_abort_ = log_failed_ = false;
    last_hit_ = 0;
  }

  M& media_;
  std::byte* base_;
  lanes_type& lanes_;
  space_type& space_;
  unsigned lane_;
  bool must_abort_ = false;
  bool log_failed_ = false;  // and old bytes of what was announced last are not kept
  std::vector<mark> marks_;
  std::vector<std::unique_ptr<line_set>> sets_;
  std::vector<undo_entry> undo_;
  std::vector<allocation> allocations_;
  std::map<std::uint64_t, std::size_t> by_offset_;  // empty while few allocations are looked through
  std::vector<pending_free> frees_;
  std::vector<hook> hooks_;
  std::vector<byte_range> durable_;
  std::vector<fresh_range> volatile_;
  std::vector<std::uint64_t> words_;
  byte_arena arena_;
  typename M::batch batch_;
  std::size_t live_allocations_ = 0;
  std::size_t last_hit_ = 0;
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> aborts_{0};
  std::atomic<std::uint64_t> logged_bytes_{0};
};

}  // namespace nvm::tx
