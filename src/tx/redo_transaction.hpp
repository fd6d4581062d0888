// A transaction whose changes reach home when it commits: the redo engine on direct media.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store; a record, by its checksum.
///   1. S fresh objects in place, in any order; nothing leads to them yet
///   2. F fresh objects that are not in the record       | redo/E1  durable before the record that publishes them
///   3. S, F one record {version, intents, new bytes}    | redo/E2  commit point (log/redo_log.hpp; redo/E3 by mark)
///   4. S new bytes home, S intents; not flushed: the log's truncation does that for many transactions at once
/// A transaction without changes skips all steps. Abort: nothing durable was changed.
/// Recovery: log/redo_recovery.hpp.
//
// Fresh objects.  A small one is part of the record: no fence for it alone.  A large one is flushed where it is. That
// is allowed only if no valid record could be replayed into its memory: `freed_by` of its reservation must be
// truncated. If one object of a transaction is flushed, the others are flushed, too, since the fence is paid for.
//
// Versions come from the process's clock (isolation/version_clock.hpp).  Barrier transactions draw theirs while they
// hold what they write; commit() draws one itself.
//
// Threads: one, the one that holds the lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"
#include "tx/line_set.hpp"
#include "tx/write_back_core.hpp"

namespace nvm::tx {

template <media M>
class redo_transaction : public write_back_core<M, log::redo_log<M>> {
 public:
  using core = write_back_core<M, log::redo_log<M>>;
  using typename core::lanes_type;
  using typename core::space_type;
  static constexpr bool takes_log_runs = true;
  // Fresh objects up to this size are in the record.
  static constexpr std::uint64_t recorded_object_max = 1024;

  redo_transaction(M& m, std::byte* base, lanes_type& lanes, space_type& space, unsigned lane)
      : core{m, base, lanes, space, lane} {}

  [[nodiscard]] result<lsn_t> commit() noexcept {
    if (status s = enter_commit({}); !s) {
      abort();
      return s.error();
    }
    const std::uint64_t version = entered_ ? isolation::participant::draw_outside() : 0;
    return commit_lines({}, version);
  }

  // Finds room for the record; from here on truncations wait for this commit.
  [[nodiscard]] status enter_commit(std::span<const isolation::written_line> lines) noexcept {
    NVM_ASSERT(levels_.size() == 1);
    if (failed_) return refuse();
    if (status s = objects_.gather(); !s) return s;
    if (lines.empty() && assigned_.empty() && objects_.nothing_remains()) return {};
    place_fresh();
    put_contents(lines);
    if (status s = find_room(); !s) return s;
    // Upper bound of the lines that go home: those of the lines, words and fresh objects, and those that intents
    // change.
    if (status s = lanes_.expect(lane_, lines.size() + assigned_.size() + 2 * objects_.words().size() + recorded_lines_,
                                 run_.bytes != 0);
        !s) {
      give_run();
      return s;
    }
    lanes_.enter(lane_);
    entered_ = true;
    return {};
  }

  [[nodiscard]] result<lsn_t> commit_lines(std::span<const isolation::written_line> lines,
                                           std::uint64_t clock) noexcept {
    if (entered_) {
      if (status s = write_record(lines, lanes_.version_of(clock)); !s) {
        abort();
        return s.error();
      }
    } else {
      objects_.conclude(0);
    }
    count(commits_, 1);
    reset();
    return lsn_t{0};
  }

  [[gnu::noinline]] void abort() noexcept {
    while (levels_.size() > 1) core::abort_level();
    if (entered_) {
      lanes_.leave_commit(lane_);
      give_run();
    }
    forget_all();
    reset();
  }

 private:
  using core::assigned_;
  using core::base_;
  using core::commits_;
  using core::count;
  using core::failed_;
  using core::forget_all;
  using core::lane_;
  using core::lanes_;
  using core::levels_;
  using core::line_in_pool;
  using core::logged_bytes_;
  using core::media_;
  using core::objects_;
  using core::refuse;
  using core::space_;

  void put_contents(std::span<const isolation::written_line> lines) noexcept {
    log::record_stage& stage = lanes_.stage(lane_);
    stage.begin();
    for (const std::uint64_t w : objects_.words()) stage.word(w);
    if (fresh_recorded_) {
      for (const auto& a : objects_.allocations()) {
        if (a.freed) continue;
        for (std::uint64_t done = 0; done < a.bytes;) {
          const std::uint64_t piece = std::min(a.bytes - done, layout::redo_range_bytes_max);
          stage.range(a.place.offset + done, base_ + a.place.offset + done, piece);
          done += piece;
        }
      }
    }
    for (const assigned_word& w : assigned_) stage.range(w.offset, reinterpret_cast<const std::byte*>(&w.value), 8);
    for (const auto& w : lines) {
      const std::uint64_t line = line_in_pool(w);
      each_byte_run(line, w.mask,
                    [&](std::uint64_t o, std::uint64_t n) { stage.range(o, w.bytes + (o - line * line_bytes), n); });
    }
  }

  // Decides whether fresh objects are in the record.
  void place_fresh() noexcept {
    recorded_lines_ = 0;
    fresh_recorded_ = true;
    if (objects_.none()) return;
    std::uint64_t freed_by = 0;
    std::uint64_t largest = 0;
    std::uint64_t all = 0;
    for (const auto& a : objects_.allocations()) {
      if (a.freed) continue;
      largest = std::max(largest, a.bytes);
      all += a.bytes;
      freed_by = std::max(freed_by, a.place.freed_by);
      recorded_lines_ += a.bytes / line_bytes + 2;
    }
    if (largest <= recorded_object_max && all <= lanes_.record_bytes_max() / 4) return;
    // If a record could be replayed into the memory of one, the log is truncated instead of copying all of them.
    if (freed_by > lanes_.truncated() && !planted(plant::replay_into_fresh)) {
      lanes_.settle_all(log::tag::make(lane_, freed_by));
    }
    fresh_recorded_ = false;
    recorded_lines_ = 0;
  }

  // Finds room for the staged record: in the ring, or in a log run of its own.
  [[nodiscard]] status find_room() noexcept {
    run_ = {};
    const log::record_stage& stage = lanes_.stage(lane_);
    const std::uint64_t bytes = stage.contents_bytes();
    if (!stage.whole()) return fail(errc::no_memory, "no volatile memory for a log record beyond %lu bytes", bytes);
    if (objects_.words().size() > layout::redo_intents_max) {
      return fail(errc::too_large, "a transaction with %zu words of allocation changes: at most %lu",
                  objects_.words().size(), layout::redo_intents_max);
    }
    if (bytes <= lanes_.record_bytes_max()) [[likely]] {
      return lanes_.make_room(lane_, bytes);
    }
    auto run = space_.reserve_log_run(bytes);
    if (!run) return run.error();
    media_.fence(edge{"redo/E4"});
    run_ = {run->offset, run->bytes};
    status s = lanes_.make_room(lane_, sizeof(layout::redo_place));
    if (!s) give_run();
    return s;
  }
  void give_run() noexcept {
    if (run_.bytes != 0) space_.release_log_run(run_.offset);
    run_ = {};
  }

  [[nodiscard]] status write_record(std::span<const isolation::written_line> lines, std::uint64_t version) noexcept {
    if (!fresh_recorded_ && !planted(plant::fresh_after_record)) {
      flush_fresh();
      media_.fence(edge{"redo/E1"});
    }
    log::record_stage& stage = lanes_.stage(lane_);
    const bool elsewhere = run_.bytes != 0;
    std::uint64_t logged = stage.record_bytes();
    if (elsewhere) {
      const std::uint64_t bytes = stage.contents_bytes();
      const std::uint64_t sum = log::place_checksum(stage.contents(), bytes, version);
      copy_out(media_, base_ + run_.offset, stage.contents(), bytes);
      stage.begin();
      stage.word(run_.offset);
      stage.word(bytes);
      stage.word(sum);
      logged += stage.record_bytes();
    }
    const auto kind = elsewhere ? layout::redo_kind::elsewhere : layout::redo_kind::changes;
    count(logged_bytes_, logged);
    const auto each_line = [&](auto&& note) __attribute__((always_inline)) { each_home_line(lines, note); };
    lanes_.note(lane_, each_line);
    if (status s = lanes_.append(lane_, version, kind, objects_.words().size()); !s) return s;
    entered_ = false;  // from here on nothing can fail
    if (planted(plant::fresh_after_record) && !fresh_recorded_) flush_fresh();
    core::bring_home(lines);
    if (!objects_.none()) objects_.conclude(version);
    lanes_.applied(lane_, version, elsewhere ? run_.offset : 0, each_line);
    return {};
  }

  void flush_fresh() noexcept {
    for (const auto& a : objects_.allocations()) {
      if (!a.freed) media_.flush(base_ + a.place.offset, a.bytes);
    }
  }

  template <class Note>
  void each_home_line(std::span<const isolation::written_line> lines, Note&& note) noexcept {
    for (const auto& w : lines) note(line_in_pool(w));
    for (const assigned_word& w : assigned_) note(w.offset / line_bytes);
    if (fresh_recorded_) {
      for (const auto& a : objects_.allocations()) {
        if (a.freed) continue;
        const std::uint64_t last = (a.place.offset + a.bytes - 1) / line_bytes;
        for (std::uint64_t line = a.place.offset / line_bytes; line <= last; ++line) note(line);
      }
    }
    if (objects_.none()) return;
    const auto& words = objects_.words();
    (void)log::each_intent(words.data(), words.size(), [&](const log::intent& i) {
      log::each_store(i, [&](std::uint64_t offset, std::uint64_t) { note(offset / line_bytes); });
      return true;
    });
  }

  void reset() noexcept {
    core::reset_core();
    entered_ = false;
  }

  bool entered_ = false;
  bool fresh_recorded_ = true;
  std::uint64_t recorded_lines_ = 0;
  log::segment run_;  // holds contents that do not fit the ring
};

}  // namespace nvm::tx
