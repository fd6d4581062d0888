// A transaction of announced stores, and the undo engine under it.
//
/// Undo on direct media.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. S undo record {ranges, old bytes, generation g, checksum}; F record
///                                                    | undo/E1  old bytes durable before their first overwrite
///   2. S new data in place; S fresh objects and their headers, in any order
///   3. F every announced line, every fresh object, its length byte, an intents record if the commit record is too
///      small; S, F the activation record (tx/reference_log.hpp), which is not read before 4 says where the ring ends
///                                                    | undo/E2  new data durable before the log gives up the old
///   4. S commit record {g, intents}; F               | undo/E3  commit point; the old bytes are void from here
///   5. S allocation words (log/lanes.hpp); F         (durable at this lane's next fence; recovery makes them again
///                                                    until then)
/// A transaction without writes in place and allocations skips 3; one without changes skips all.
/// Abort: S old bytes, newest first; F              | undo/E4  the old data are durable
///        S commit record {g, abort}; F             | undo/E5  no recovery will touch the ranges again
/// Recovery: log/recovery.hpp.
///
/// On a medium with atomic batches (ssd) the old bytes are volatile, and steps 3 to 5 are one batch, which the medium
/// makes durable all or nothing: exactly the announced bytes, the whole fresh objects (large ones straight to their
/// pages, docs/design/029), and the allocation words. These are changed inside the order's critical section, so that
/// two transactions may share a word.
//
// Levels.  begin() inside a transaction is a savepoint.  A byte is logged durably once, by the level that announces it
// first; inner levels keep the bytes they find in volatile memory.  An inner abort restores those and keeps the log:
// the records still hold the oldest bytes, and the restored lines stay in the outer level's set, since they must be
// durable at commit.  The outer level then also keeps the old bytes of places that it has not announced itself: it may
// write there without another record, and abort.  The log is never rewound inside a transaction.
//
// Threads: one thread, the one that holds the lane.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/byte_arena.hpp"
#include "tx/line_set.hpp"
#include "tx/log_room.hpp"
#include "tx/reference_log.hpp"
#include "tx/transaction_core.hpp"

namespace nvm::tx {

template <media M>
class transaction : public transaction_core<M, log::lanes<M>> {
 public:
  using core = transaction_core<M, log::lanes<M>>;
  using typename core::byte_range;
  using typename core::lanes_type;
  using typename core::space_type;
  // A batch becomes durable as a whole, so old bytes need not be durable before each store.
  static constexpr bool writes_back = M::atomic_batches;
  // Whether its log overflows into pages.
  static constexpr bool takes_log_runs = !M::atomic_batches;

  transaction(M& m, std::byte* base, lanes_type& lanes, space_type& space, unsigned lane)
      : core{m, base, lanes, space, lane} {}

  [[nodiscard]] status begin() noexcept try {
    const std::size_t level = levels_.size();
    if constexpr (M::atomic_batches) {
      if (level == 0) objects_.set_straight_from(straight_from(media_));
    }
    if (sets_.size() <= level) sets_.push_back(std::make_unique<line_set>());
    undo_marks_.reserve(level + 1);
    begin_level();
    undo_marks_.push_back(undo_.size());
    sets_[level]->clear();
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }

  // Announces ranges, all inside the pool. errc::log_full: no commit has room for them, but their old bytes are kept.
  // Also if only abort is left because there was no room for an object: a program may still write before it gives up,
  // and these writes have to be undone.
  [[nodiscard]] status announce(const byte_range* ranges, std::size_t count) noexcept {
    if (log_failed_) return refuse();
    durable_.clear();
    volatile_.clear();
    const std::size_t runs_before = sets_[levels_.size() - 1]->runs().size();
    status s = collect(ranges, count);
    if (s) s = keep_volatile();
    if (s && !durable_.empty()) s = keep_durable();
    if (!s) {
      forget(durable_);
      forget(volatile_);
      sets_[levels_.size() - 1]->drop_runs(runs_before);
      log_failed_ = true;
      core::doom(s.error());
    }
    if constexpr (M::atomic_batches) {
      // Stores that the program makes all the same can be undone.
      if (s) s = fits(0);
      if (!s) [[unlikely]]
        core::doom(s.error());
    }
    return s;
  }

  // The most that a commit now would take of the log. Direct media find more log where the pool has room.
  [[nodiscard]] log_room room() const noexcept {
    if constexpr (M::atomic_batches) {
      const auto& o = objects_.remaining();
      return {sizeof(layout::ring_record) + M::batch::allowance_bytes + announced_.bytes +
                  announced_.runs * entry_bytes + o.logged_bytes + o.fresh * fresh_bytes + o.frees * word_bytes,
              lanes_.record_bytes_max()};
    } else {
      return {lanes_.logged_bytes(lane_), 0};
    }
  }

  // Whether the innermost level can undo a store to these bytes: it announced them, or the object is its own.
  [[nodiscard]] bool covers(const byte_range& r) noexcept {
    const line_set& set = *sets_[levels_.size() - 1];
    return objects_.each_part(r, [&](const byte_range& part, std::size_t around) {
      if (around != no_allocation && around >= levels_.back().mark.allocations) return true;
      for (std::uint64_t line = part.offset / line_bytes; line * line_bytes < part.offset + part.bytes; ++line) {
        const std::uint64_t wanted = line_set::mask_in(line, part.offset, part.bytes);
        if ((set.mask_of(line) & wanted) != wanted) return false;
      }
      return true;
    });
  }

  // Allocates `bytes` with their layout's header; the offset of the object.  Failure leaves only abort.
  [[nodiscard]] result<std::uint64_t> allocate(std::uint64_t bytes, layout::object_layout l) noexcept {
    if (status s = fits_fresh(bytes); !s) [[unlikely]]
      return core::doom(s.error());
    auto r = allocate_object(bytes, l);
    if (!r) return r.error();
    if (planted(plant::word_put_back)) {
      const byte_range word{r->set.word_offset(), 8};
      (void)announce(&word, 1);
      log::apply(base_, r->set);
    }
    return r->offset;
  }
  [[nodiscard]] result<std::uint64_t> allocate_in(const store_attachment& store, std::uint64_t bytes,
                                                  layout::object_layout l) noexcept {
    if (status s = fits_fresh(bytes); !s) [[unlikely]]
      return core::doom(s.error());
    return core::allocate_in(store, bytes, l);
  }
  // Stores words of the pool, all announced together.
  [[nodiscard]] status assign(const assigned_word* words, std::size_t count) noexcept {
    byte_range ranges[assigned_words_max];
    NVM_ASSERT(count <= assigned_words_max);
    for (std::size_t i = 0; i < count; ++i) ranges[i] = {words[i].offset, 8};
    if (status s = announce(ranges, count); !s) return s;
    for (std::size_t i = 0; i < count; ++i) std::memcpy(base_ + words[i].offset, &words[i].value, 8);
    return {};
  }

  // The same of several words and halves, all announced together.
  [[nodiscard]] status assign_all(std::span<const assigned_bytes> words) noexcept try {
    std::vector<byte_range> ranges;
    ranges.reserve(words.size());
    for (const assigned_bytes& w : words) ranges.push_back({w.offset, w.bytes});
    if (status s = announce(ranges.data(), ranges.size()); !s) return s;
    for (const assigned_bytes& w : words) isolation::copy_in(base_ + w.offset, &w.value, w.bytes);
    return {};
  } catch (const std::bad_alloc&) {
    return core::doom(fail(errc::no_memory, "no volatile memory for %zu words", words.size()));
  }

  // ---- references (tx/reference_log.hpp) ----

  // Calls visit(offset, bytes, old bytes) for kept old bytes of objects that existed before; the oldest version last.
  template <class Visit>
  void each_old(Visit&& visit) const {
    each_older_version(undo_, visit);
  }
  template <class Visit>
  void each_new(Visit&&) const {}
  // The attachment goes with the outermost commit, which comes next.
  [[nodiscard]] status attach(const reference_attachment& what) noexcept {
    attached_ = what;
    return {};
  }

  // Ends an inner level.
  [[nodiscard]] status commit_level() noexcept {
    status s = core::commit_level_by([this] { return merge_set(); }, [this] { abort_level(); });
    if (s) undo_marks_.pop_back();
    return s;
  }
  void abort_level() noexcept {
    NVM_ASSERT(levels_.size() > 1);
    put_back(undo_marks_.back());
    hand_outward();
    undo_marks_.pop_back();
    forget_level();
    log_failed_ = log_failed_ && failed_;
  }

  // Ends the outermost level; the LSN to wait for (0: durable).  On failure everything was rolled back.  The hooks stay
  // in take_hooks() for the caller to run once the lane is free.
  [[nodiscard]] result<lsn_t> commit() noexcept {
    NVM_ASSERT(levels_.size() == 1);
    if (failed_) {
      const errc why = refuse().error();
      abort();
      return why;
    }
    if (status s = objects_.gather(); !s) {
      abort();
      return s.error();
    }
    result<lsn_t> ended = lsn_t{0};
    // Old bytes of an inner level may be in the log although no line was left: they have to go out of force.
    const bool logs = !M::atomic_batches && lanes_.has_records(lane_);
    if (sets_[0]->empty() && objects_.nothing_remains() && attached_.words.empty() && !logs) {
      objects_.conclude(0);
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

  // Checks nothing: commit_lines() does all the work, and undoes it on failure.
  [[nodiscard]] status enter_commit(std::span<const isolation::written_line>) noexcept { return {}; }
  // Writes these lines, then commit(): all old bytes are made durable together.
  [[nodiscard]] result<lsn_t> commit_lines(std::span<const isolation::written_line> lines,
                                           std::uint64_t /*version*/ = 0) noexcept {
    NVM_ASSERT(levels_.size() == 1);
    if (status s = write_lines(lines); !s) {
      abort();
      return s.error();
    }
    return commit();
  }

  [[gnu::noinline]] void abort() noexcept {
    while (levels_.size() > 1) abort_level();
    put_back(0);
    if constexpr (!M::atomic_batches) {
      if (lanes_.has_records(lane_)) {
        flush_lines();
        media_.fence(edge{"undo/E4"});
        lanes_.finish(lane_, layout::outcome::abort, nullptr, 0, edge{"undo/E5"}, [](std::uint64_t) {});
        give_segments();
      }
    }
    forget_all();
    reset();
  }

 private:
  using core::allocate_object;
  using core::base_;
  using core::begin_level;
  using core::commits_;
  using core::count;
  using core::failed_;
  using core::forget_all;
  using core::forget_level;
  using core::lane_;
  using core::lanes_;
  using core::levels_;
  using core::logged_bytes_;
  using core::media_;
  using core::objects_;
  using core::refuse;
  using core::reset_core;
  using core::space_;

  static constexpr std::uint64_t piece_max = layout::undo_range_bytes_max;

  struct undo_entry {
    std::uint64_t offset;
    std::uint64_t bytes;
    const std::byte* old;
    std::size_t allocation;  // this transaction's allocation that holds the bytes; no_allocation: the object existed
                             // before
  };
  struct fresh_range : byte_range {
    std::size_t allocation;
  };
  [[nodiscard]] status write_lines(std::span<const isolation::written_line> lines) noexcept try {
    std::vector<byte_range> ranges;
    ranges.reserve(lines.size());
    for (const auto& w : lines) {
      each_byte_run(line_in_pool(w), w.mask, [&](std::uint64_t o, std::uint64_t n) { append(ranges, o, n); });
    }
    if (status s = announce(ranges.data(), ranges.size()); !s) return s;
    for (const auto& w : lines) isolation::store_home(w);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for %zu lines", lines.size());
  }
  [[nodiscard]] std::uint64_t line_in_pool(const isolation::written_line& w) const noexcept {
    return w.line - reinterpret_cast<std::uintptr_t>(base_) / line_bytes;
  }

  // Splits the ranges into bytes that need a durable record and bytes for which a volatile copy is enough; both lists
  // hold only bytes that are new to this level, which are now marked.
  [[nodiscard]] status collect(const byte_range* ranges, std::size_t count) noexcept try {
    for (std::size_t i = 0; i < count; ++i) {
      objects_.each_part(ranges[i], [&](const byte_range& r, std::size_t around) {
        // Born in this level: nothing to restore.
        if (around == no_allocation || around < levels_.back().mark.allocations) collect_part(r, around);
        return true;
      });
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the set of announced lines");
  }
  // Of one allocation of this transaction, or of none.
  void collect_part(const byte_range& r, std::size_t around) {
    const std::size_t level = levels_.size() - 1;
    line_set& set = *sets_[level];
    const std::uint64_t last = (r.offset + r.bytes - 1) / line_bytes;
    for (std::uint64_t line = r.offset / line_bytes; line <= last; ++line) {
      // Whole lines announced at once in the outermost level: none of their bytes can be kept already.
      if (level == 0 && last - line >= line_set::run_lines_min && line * line_bytes >= r.offset) {
        const std::uint64_t whole = (r.offset + r.bytes) / line_bytes - line;
        if (set.add_run(line, whole)) {
          if constexpr (M::atomic_batches) {
            append(volatile_, line * line_bytes, whole * line_bytes, no_allocation);
            announced_.bytes += whole * line_bytes;
            ++announced_.runs;
          } else {
            append(durable_, line * line_bytes, whole * line_bytes);
          }
          line += whole - 1;
          continue;
        }
      }
      const std::uint64_t added = set.add(line, line_set::mask_in(line, r.offset, r.bytes));
      if (added == 0) continue;
      if constexpr (M::atomic_batches) {
        if (around == no_allocation) count_announced(line, added);
      }
      std::uint64_t kept = 0;  // bytes whose durable record, if they need one, exists
      if (M::atomic_batches || around != no_allocation) {
        kept = added;
      } else {
        for (std::size_t k = 0; k < level; ++k) kept |= added & sets_[k]->mask_of(line);
      }
      each_byte_run(line, added & ~kept, [&](std::uint64_t o, std::uint64_t n) { append(durable_, o, n); });
      each_byte_run(line, kept, [&](std::uint64_t o, std::uint64_t n) { append(volatile_, o, n, around); });
    }
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
    line_set& set = *sets_[levels_.size() - 1];
    for (const byte_range& r : list) {
      for (std::uint64_t line = r.offset / line_bytes; line <= (r.offset + r.bytes - 1) / line_bytes; ++line) {
        set.remove(line, line_set::mask_in(line, r.offset, r.bytes));
      }
    }
  }

  // Whether one record has room for a commit now, and for `more` bytes.
  [[nodiscard]] status fits(std::uint64_t more) const noexcept {
    const log_room now = room();
    if (now.used + more <= now.most) [[likely]]
      return {};
    return fail(errc::log_full, "transaction needs %lu bytes of log, a record has at most %lu (half the log)",
                now.used + more, now.most);
  }
  // Whether one record has room for an object of so many bytes, too; larger ones go straight to their place.
  [[nodiscard]] status fits_fresh(std::uint64_t bytes) const noexcept {
    if constexpr (M::atomic_batches) {
      if (!failed_) return fits(fresh_bytes + (bytes < objects_.straight_from() ? bytes : 0));
    }
    return {};
  }
  // Counts bytes that are new to this level, of an object that existed before, and that no outer level has announced.
  void count_announced(std::uint64_t line, std::uint64_t mask) noexcept {
    for (std::size_t k = 0; k + 1 < levels_.size(); ++k) mask &= ~sets_[k]->mask_of(line);
    if (mask == 0) return;
    announced_.bytes += static_cast<std::uint64_t>(std::popcount(mask));
    announced_.runs += static_cast<std::uint64_t>(std::popcount(mask & ~(mask << 1)));
    // The run continues from the line before.
    if (announced_.end == line && (mask & 1) != 0) --announced_.runs;
    announced_.end = mask >> 63 != 0 ? line + 1 : 0;
  }

  [[nodiscard]] status keep_volatile() noexcept try {
    for (const fresh_range& r : volatile_) {
      undo_.push_back({r.offset, r.bytes, arena_.keep(base_ + r.offset, r.bytes), r.allocation});
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for old bytes");
  }

  [[nodiscard]] status keep_durable() noexcept {
    const status s = append_durable();
    // Also where only some fit: they are old bytes of the enclosing level if this one is given up.
    media_.fence(edge{"undo/E1"});
    return s;
  }
  [[nodiscard]] status append_durable() noexcept try {
    // Before the log has any of them: an abort needs all old bytes.
    std::size_t pieces = 0;
    for (const byte_range& r : durable_) pieces += ceil_div(r.bytes, piece_max);
    if (undo_.capacity() - undo_.size() < pieces) undo_.reserve(std::max(undo_.size() + pieces, 2 * undo_.capacity()));
    return lanes_.append_undo(
        lane_, durable_.data(), durable_.size(),
        [&](std::uint64_t offset, std::uint64_t bytes, const std::byte* old) {
          undo_.push_back({offset, bytes, old, no_allocation});
        },
        [&](std::uint64_t bytes, bool last) { return more_log(bytes, last); });
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the list of old bytes");
  }

  [[gnu::noinline]] result<log::segment> more_log(std::uint64_t bytes, bool last) noexcept {
    auto run = space_.reserve_log_run(bytes, last);
    if (!run) return run.error();
    return log::segment{run->offset, run->bytes};
  }
  void give_segments() noexcept {
    lanes_.take_segments(lane_, [&](std::uint64_t offset) { space_.release_log_run(offset); });
  }

  // Puts old bytes back, newest first, down to undo entry `from`. Doomed barrier transactions may be reading there.
  void put_back(std::size_t from) noexcept {
    for (std::size_t i = undo_.size(); i-- > from;) {
      isolation::copy_in(base_ + undo_[i].offset, undo_[i].old, undo_[i].bytes);
    }
  }
  // After the innermost level was put back: its lines join those of the enclosing level. For each byte that is new
  // there, the oldest undo entry stays; entries of memory that the level had allocated go.  An entry is kept whole:
  // some of its bytes may have older entries in the outer level, which are put back after it.
  void hand_outward() noexcept {
    const std::size_t born_here = levels_.back().mark.allocations;
    std::size_t kept = undo_marks_.back();
    bool all_lines = true;
    for (std::size_t i = undo_marks_.back(); i < undo_.size(); ++i) {
      const undo_entry& u = undo_[i];
      if (u.allocation != no_allocation && u.allocation >= born_here) continue;
      const line_gain gain =
          planted(plant::restored_not_flushed) ? line_gain::none : join(*sets_[levels_.size() - 2], u);
      all_lines = all_lines && gain != line_gain::unknown;
      if (gain != line_gain::none) undo_[kept++] = u;
    }
    undo_.erase(undo_.begin() + static_cast<std::ptrdiff_t>(kept), undo_.end());
    // Lines that do not fit the outer set are flushed here, and ordered by the commit's fence.  A medium that captures
    // lines needs no flush: the bytes that were put back never left the image.
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
  [[nodiscard]] status merge_set() noexcept try {
    const std::size_t level = levels_.size() - 1;
    for (const auto& e : sets_[level]->entries()) {
      if (e.mask != 0) sets_[level - 1]->add(e.line, e.mask);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the set of announced lines");
  }
  void flush_level() noexcept { flush_set(*sets_[levels_.size() - 1]); }
  void flush_lines() noexcept { flush_set(*sets_[0]); }
  void flush_set(const line_set& set) noexcept {
    for (const auto& e : set.entries()) media_.flush(base_ + e.line * line_bytes, line_bytes);
    for (const auto& r : set.runs()) media_.flush(base_ + r.first * line_bytes, r.lines * line_bytes);
  }

  [[nodiscard]] status commit_in_place() noexcept try {
    if (status s = lanes_.prepare_finish(lane_, objects_.words().size()); !s) return s;
    bool data = false;
    if (objects_.words().size() > layout::inline_intent_words) {
      status s = lanes_.append_intents(lane_, objects_.words().data(), objects_.words().size(),
                                       [&](std::uint64_t n, bool last) { return more_log(n, last); });
      if (!s) return s;
      data = true;
    }
    if (!sets_[0]->empty()) {
      flush_lines();
      data = true;
    }
    for (const auto& a : objects_.allocations()) {
      if (a.freed || planted(plant::fresh_after_record)) continue;
      media_.flush(base_ + a.place.offset, a.bytes);
      data = true;
    }
    if (!attached_.words.empty()) {
      if (!planted(plant::record_after_commit)) store_attached();
      lanes_.set_attached(lane_, attached_.end);
      data = true;
    }
    if (data) media_.fence(edge{"undo/E2"});
    count(logged_bytes_, lanes_.logged_bytes(lane_) + sizeof(layout::commit_record));
    lanes_.finish(lane_, layout::outcome::commit, objects_.words().data(), objects_.words().size(), edge{"undo/E3"},
                  [this](std::uint64_t g) { objects_.conclude(g); });
    if (planted(plant::fresh_after_record)) flush_fresh();
    if (!attached_.words.empty() && planted(plant::record_after_commit)) store_attached();
    give_segments();
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to commit");
  }

  [[nodiscard]] result<lsn_t> commit_batch() noexcept {
    batch_.clear();
    const log_room taken = room();
    const std::uint64_t used = taken.used + attached_.words.size() * word_bytes;
    std::uint64_t left = taken.most - std::min(used, taken.most);
    // Exactly the announced bytes: others in the same line may belong to another transaction, half written.
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
    for (const auto& a : objects_.allocations()) {
      if (a.freed || planted(plant::fresh_after_record)) continue;
      if (a.place.length_byte == nullptr) {
        if (status s = add_fresh_run(a.place.offset, a.bytes, left); !s) return s.error();
        continue;
      }
      batch_.add(base_ + a.place.offset, a.bytes);
      batch_.add(a.place.length_byte, 1);
    }
    const bool attaches = !attached_.words.empty();
    if (attaches) {
      each_attached_run([&](std::uint64_t o, std::uint64_t n) { batch_.add(base_ + o, n); });
    }
    batch_.expect(objects_.words().size() + attaches, (objects_.words().size() + attaches) * 8);
    const auto change_words = [&] {
      if (attaches) {
        const std::uint64_t end = seal_word(attached_.end, word_seed(attached_.end_at));
        std::memcpy(base_ + attached_.end_at, &end, sizeof end);
        batch_.add(base_ + attached_.end_at, sizeof end);
      }
      log::each_intent(objects_.words().data(), objects_.words().size(), [&](const log::intent& i) {
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
    objects_.conclude(0);
    return *lsn;
  }

  // Adds pages that no other thread knows. If the medium takes them straight, their bytes are not in the record; where
  // they would not fit into what is `left` of it, they wait until the medium does.
  [[nodiscard]] status add_fresh_run(std::uint64_t offset, std::uint64_t bytes, std::uint64_t& left) noexcept {
    // The bytes after the object are inaccessible while memory is watched.
    const std::uint64_t sectors =
        platform::memory_watch::active() ? round_down(bytes, sector_bytes) : round_up(bytes, sector_bytes);
    const bool counted = bytes < objects_.straight_from();  // by room()
    const auto done =
        write_straight(media_, base_ + offset, sectors, objects_.freed_by(),
                       counted || sectors < left ? straight_patience::if_large : straight_patience::always);
    if (!done) return done.error();
    if (done->written) batch_.add_straight(base_ + offset, sectors, done->sum);
    if (!done->written && !counted) left -= std::min(left, sectors);
    const std::uint64_t logged_from = done->written ? std::min(sectors, bytes) : 0;
    batch_.add(base_ + offset + logged_from, bytes - logged_from);
    return {};
  }

  // Stores the words of the ring, which do not count before the commit; made(offset, bytes) is called for each run.
  template <class Made>
  void each_attached_run(Made&& made) noexcept {
    byte_range run{0, 0};
    for (const assigned_word& w : attached_.words) {
      std::memcpy(base_ + w.offset, &w.value, sizeof w.value);
      if (run.bytes != 0 && run.offset + run.bytes == w.offset) {
        run.bytes += sizeof w.value;
        continue;
      }
      if (run.bytes != 0) made(run.offset, run.bytes);
      run = {w.offset, sizeof w.value};
    }
    if (run.bytes != 0) made(run.offset, run.bytes);
  }
  void store_attached() noexcept {
    each_attached_run([&](std::uint64_t o, std::uint64_t n) { media_.flush(base_ + o, n); });
  }

  // plant::fresh_after_record
  void flush_fresh() noexcept {
    for (const auto& a : objects_.allocations()) {
      if (a.freed) continue;
      media_.flush(base_ + a.place.offset, a.bytes);
      if (a.place.length_byte != nullptr) media_.flush(a.place.length_byte, 1);
    }
  }

  void reset() noexcept {
    reset_core();
    undo_marks_.clear();
    undo_.clear();
    arena_.reset();
    log_failed_ = false;
    announced_ = {};
    attached_ = {};
  }

  // Of a record of an atomic batch: what a range takes beside its bytes, a word with it, and a fresh object beside its
  // bytes, which has a length and two words of its allocation.
  static constexpr std::uint64_t entry_bytes = sizeof(layout::ring_entry) + 8;
  static constexpr std::uint64_t word_bytes = entry_bytes + 8;
  static constexpr std::uint64_t fresh_bytes = 2 * entry_bytes + 2 * word_bytes;

  bool log_failed_ = false;              // and the last announcement's old bytes are not kept
  std::vector<std::size_t> undo_marks_;  // of each level: where its entries begin
  std::vector<std::unique_ptr<line_set>> sets_;
  std::vector<undo_entry> undo_;
  std::vector<byte_range> durable_;
  std::vector<fresh_range> volatile_;
  byte_arena arena_;
  // Atomic batches: figures of all levels' announcements in objects that existed before; `end`: the line after the last
  // byte, if that byte is a line's last.
  struct {
    std::uint64_t bytes = 0, runs = 0, end = 0;
  } announced_;
  reference_attachment attached_;
  typename M::batch batch_;
};

}  // namespace nvm::tx
