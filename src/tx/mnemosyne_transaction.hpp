// The transactions of the mnemosyne engines: the baselines of LSNVMM (section 5.3) and HEAPO (section III-B), as these
// papers and Mnemosyne's own (Volos et al., ASPLOS 2011) describe them.
//
//   redo  every store is logged as it is made, also a second one to the same place; the commit waits until all of it is
//         home and the log is empty
//   undo  the same with old bytes: every store waits until they are durable
//
// Steps and fences are those of log/mnemosyne_log.hpp.  Where they are better here than there: the bytes of one call
// are one entry instead of an entry for each word. Objects allocated by the transaction need no entry while it fills
// them: redo logs small ones whole when it commits, undo flushes them. Allocation is this library's.
//
// Calls that other engines flatten are not inlined here: the code of a store is too large to be copied everywhere.
//
// Threads: one, the one that holds the lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
#include "tx/write_back_core.hpp"

namespace nvm::tx {

template <media M>
class mnemosyne_transaction : public write_back_core<M, log::mnemosyne_log<M>> {
 public:
  using core = write_back_core<M, log::mnemosyne_log<M>>;
  using typename core::byte_range;
  using typename core::lanes_type;
  using typename core::space_type;
  static constexpr bool takes_log_runs = false;
  // Stores are logged by log_store().
  static constexpr bool logs_each_store = true;
  // Fresh objects up to this size are in the log.
  static constexpr std::uint64_t logged_object_max = 1024;

  mnemosyne_transaction(M& m, std::byte* base, lanes_type& lanes, space_type& space, unsigned lane)
      : core{m, base, lanes, space, lane} {}

  // Logs a store to durable memory that a barrier transaction has just buffered.
  [[nodiscard, gnu::noinline]] status log_store(std::uint64_t offset, const std::byte* from,
                                                std::uint64_t bytes) noexcept {
    stores_logged_ = true;
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t piece = std::min(bytes - done, layout::undo_range_bytes_max);
      if (status s = lanes_.make_room(lane_, 1 + ceil_div(piece, 8)); !s) return s;
      lanes_.put_bytes(lane_, offset + done, from + done, piece);
      done += piece;
    }
    return {};
  }

  [[nodiscard, gnu::noinline]] result<lsn_t> commit() noexcept {
    if (status s = enter_commit({}); !s) {
      abort();
      return s.error();
    }
    return commit_lines({}, 0);
  }
  [[nodiscard, gnu::noinline]] status enter_commit(std::span<const isolation::written_line> lines) noexcept {
    NVM_ASSERT(levels_.size() == 1);
    if (failed_) return core::refuse();
    if (status s = objects_.gather(); !s) return s;
    if (lines.empty() && assigned_.empty() && objects_.nothing_remains()) return {};
    if (core::took_back_) lanes_.forget(lane_);
    log_lines_ = core::took_back_ || !stores_logged_;
    std::uint64_t words = objects_.words().size() + 2 * assigned_.size() + 1;
    if (log_lines_) {
      for (const auto& w : lines) {
        each_byte_run(core::line_in_pool(w), w.mask,
                      [&](std::uint64_t, std::uint64_t n) { words += 1 + ceil_div(n, std::uint64_t{8}); });
      }
    }
    fresh_logged_ = true;
    std::uint64_t fresh_words = 0;
    for (const auto& a : objects_.allocations()) {
      if (a.freed) continue;
      fresh_logged_ = fresh_logged_ && a.bytes <= logged_object_max;
      fresh_words += 1 + ceil_div(a.bytes, std::uint64_t{8});
    }
    fresh_logged_ = fresh_logged_ && lanes_.make_room(lane_, words + fresh_words);
    if (!fresh_logged_) {
      if (status s = lanes_.make_room(lane_, words); !s) return s;
    }
    entered_ = true;
    return {};
  }
  [[nodiscard, gnu::noinline]] result<lsn_t> commit_lines(std::span<const isolation::written_line> lines,
                                                          std::uint64_t) noexcept {
    if (entered_) {
      write_log(lines);
      bring_all_home(lines);
      lanes_.truncate(lane_);
      core::count(core::logged_bytes_, lanes_.take_written(lane_));
    } else {
      lanes_.forget(lane_);
    }
    objects_.conclude(0);
    core::count(core::commits_, 1);
    reset();
    return lsn_t{0};
  }
  [[gnu::noinline]] void abort() noexcept {
    while (levels_.size() > 1) core::abort_level();
    lanes_.forget(lane_);
    core::forget_all();
    reset();
  }

 private:
  using core::assigned_;
  using core::base_;
  using core::failed_;
  using core::lane_;
  using core::lanes_;
  using core::levels_;
  using core::media_;
  using core::objects_;

  void write_log(std::span<const isolation::written_line> lines) noexcept {
    if (log_lines_) {
      for (const auto& w : lines) {
        const std::uint64_t line = core::line_in_pool(w);
        each_byte_run(line, w.mask, [&](std::uint64_t o, std::uint64_t n) {
          lanes_.put_bytes(lane_, o, w.bytes + (o - line * line_bytes), n);
        });
      }
    }
    if (!fresh_logged_) {
      if (!planted(plant::fresh_after_record)) flush_fresh();
      media_.fence(edge{"mnemosyne/E7"});
    } else {
      for (const auto& a : objects_.allocations()) {
        if (!a.freed) lanes_.put_bytes(lane_, a.place.offset, base_ + a.place.offset, a.bytes);
      }
    }
    for (const assigned_word& w : assigned_) {
      lanes_.put_bytes(lane_, w.offset, reinterpret_cast<const std::byte*>(&w.value), 8);
    }
    lanes_.commit_point(lane_, objects_.words());
    if (planted(plant::fresh_after_record) && !fresh_logged_) flush_fresh();
  }
  void bring_all_home(std::span<const isolation::written_line> lines) noexcept {
    core::bring_home(lines);
    for (const auto& w : lines) media_.flush(base_ + core::line_in_pool(w) * line_bytes, line_bytes);
    for (const assigned_word& w : assigned_) media_.flush(base_ + w.offset, 8);
    if (fresh_logged_) flush_fresh();
    lanes_.settle_intents(objects_.words());
  }
  void flush_fresh() noexcept {
    for (const auto& a : objects_.allocations()) {
      if (!a.freed) media_.flush(base_ + a.place.offset, a.bytes);
    }
  }
  void reset() noexcept {
    core::reset_core();
    stores_logged_ = entered_ = false;
  }

  bool stores_logged_ = false;
  bool log_lines_ = false;
  bool fresh_logged_ = true;
  bool entered_ = false;
};

template <media M>
class mnemosyne_undo_transaction : public transaction_core<M, log::mnemosyne_log<M>> {
 public:
  using core = transaction_core<M, log::mnemosyne_log<M>>;
  using typename core::byte_range;
  using typename core::lanes_type;
  using typename core::space_type;
  static constexpr bool writes_back = false;
  static constexpr bool takes_log_runs = false;
  static constexpr bool logs_each_store = false;

  mnemosyne_undo_transaction(M& m, std::byte* base, lanes_type& lanes, space_type& space, unsigned lane)
      : core{m, base, lanes, space, lane} {}

  [[nodiscard]] status begin() noexcept try {
    undo_marks_.reserve(levels_.size() + 1);
    core::begin_level();
    undo_marks_.push_back(undo_.size());
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }

  [[nodiscard]] log_room room() const noexcept {
    const auto lines = lanes_.lines_of(lane_);
    return {lines.used * line_bytes, lines.all * line_bytes};
  }

  // One group for each call; bytes that are announced again are logged again.
  [[nodiscard, gnu::noinline]] status announce(const byte_range* ranges, std::size_t count) noexcept try {
    if (log_failed_) return core::refuse();
    bool any = false;
    status s;
    for (std::size_t i = 0; i < count && s; ++i) {
      objects_.each_part(ranges[i], [&](const byte_range& r, std::size_t around) {
        if (around != no_allocation && around >= levels_.back().mark.allocations) return true;
        s = log_part(r, around);
        any = any || around == no_allocation;
        return static_cast<bool>(s);
      });
    }
    if (!s) return refuse_stores(s);
    if (any) lanes_.end_group(lane_);
    return {};
  } catch (const std::bad_alloc&) {
    return refuse_stores(fail(errc::no_memory, "no volatile memory for old bytes"));
  }
  [[nodiscard]] bool covers(const byte_range& r) noexcept {
    return objects_.each_part(r, [&](const byte_range& part, std::size_t around) {
      if (around != no_allocation && around >= levels_.back().mark.allocations) return true;
      for (std::uint64_t at = part.offset; at < part.offset + part.bytes;) {
        const auto covering =
            std::find_if(undo_.begin() + static_cast<std::ptrdiff_t>(undo_marks_.back()), undo_.end(),
                         [&](const undo_entry& u) { return at >= u.offset && at - u.offset < u.bytes; });
        if (covering == undo_.end()) return false;
        at = covering->offset + covering->bytes;
      }
      return true;
    });
  }
  [[nodiscard]] result<std::uint64_t> allocate(std::uint64_t bytes, layout::object_layout l) noexcept {
    auto r = core::allocate_object(bytes, l);
    if (!r) return r.error();
    return r->offset;
  }
  [[nodiscard]] status assign(const assigned_word* words, std::size_t count) noexcept {
    NVM_ASSERT(count <= assigned_words_max);
    byte_range ranges[assigned_words_max];
    for (std::size_t i = 0; i < count; ++i) ranges[i] = {words[i].offset, 8};
    if (status s = announce(ranges, count); !s) return s;
    for (std::size_t i = 0; i < count; ++i) isolation::copy_in(base_ + words[i].offset, &words[i].value, 8);
    return {};
  }

  [[nodiscard]] status assign_all(std::span<const assigned_bytes> words) noexcept {
    status s;
    for (const assigned_bytes& w : words) {
      const byte_range range{w.offset, w.bytes};
      if (s) s = announce(&range, 1);
      if (s) isolation::copy_in(base_ + w.offset, &w.value, w.bytes);
    }
    return s;
  }
  // ---- references (tx/reference_log.hpp) ----
  template <class Visit>
  void each_old(Visit&& visit) const {
    each_older_version(undo_, visit);
  }
  template <class Visit>
  void each_new(Visit&&) const {}
  [[nodiscard]] status attach(const reference_attachment& what) noexcept {
    status s;
    for (const assigned_word& w : what.words) {
      if (s) s = assign(&w, 1);
    }
    const assigned_word end{what.end_at, seal_word(what.end, word_seed(what.end_at))};
    return s ? assign(&end, 1) : s;
  }

  [[nodiscard]] status commit_level() noexcept {
    status s = core::commit_level_by([] { return status{}; }, [this] { abort_level(); });
    if (s) undo_marks_.pop_back();
    return s;
  }
  void abort_level() noexcept {
    NVM_ASSERT(levels_.size() > 1);
    put_back(undo_marks_.back());
    undo_marks_.pop_back();
    core::forget_level();
    log_failed_ = log_failed_ && failed_;
  }

  [[nodiscard]] status enter_commit(std::span<const isolation::written_line>) noexcept { return {}; }
  // Lines that were buffered: all old bytes are one group.
  [[nodiscard, gnu::noinline]] result<lsn_t> commit_lines(std::span<const isolation::written_line> lines,
                                                          std::uint64_t) noexcept {
    if (status s = write_lines(lines); !s) {
      abort();
      return s.error();
    }
    return commit();
  }
  [[nodiscard, gnu::noinline]] result<lsn_t> commit() noexcept {
    NVM_ASSERT(levels_.size() == 1);
    status s = failed_ ? core::refuse() : objects_.gather();
    if (s && !objects_.words().empty()) s = lanes_.make_room(lane_, objects_.words().size() + 1);
    if (!s) {
      abort();
      return s.error();
    }
    make_changes_durable();
    if (!objects_.words().empty()) {
      lanes_.commit_point(lane_, objects_.words());
      lanes_.settle_intents(objects_.words());
    }
    if (lanes_.has_entries(lane_)) lanes_.truncate(lane_);
    core::count(core::logged_bytes_, lanes_.take_written(lane_));
    objects_.conclude(0);
    core::count(core::commits_, 1);
    reset();
    return lsn_t{0};
  }
  [[gnu::noinline]] void abort() noexcept {
    while (levels_.size() > 1) abort_level();
    put_back(0);
    lanes_.forget(lane_);
    if (lanes_.has_entries(lane_)) {
      objects_.drop(levels_.front().mark);
      make_changes_durable();
      lanes_.truncate(lane_);
    }
    core::forget_all();
    reset();
  }

 private:
  using core::base_;
  using core::failed_;
  using core::lane_;
  using core::lanes_;
  using core::levels_;
  using core::media_;
  using core::objects_;

  struct undo_entry {
    std::uint64_t offset;
    std::uint64_t bytes;
    const std::byte* old;
    std::size_t allocation;  // this transaction's allocation that holds the bytes; no_allocation: the object existed
                             // before
  };

  // Of one allocation of this transaction, or of none.  Throws std::bad_alloc.
  [[nodiscard]] status log_part(const byte_range& r, std::size_t around) {
    for (std::uint64_t done = 0; done < r.bytes;) {
      const std::uint64_t piece = std::min(r.bytes - done, layout::undo_range_bytes_max);
      const std::uint64_t offset = r.offset + done;
      if (around == no_allocation) {
        if (status s = lanes_.make_room(lane_, 2 + ceil_div(piece, std::uint64_t{8})); !s) return s;
        for (std::uint64_t line = offset / line_bytes; line <= (offset + piece - 1) / line_bytes; ++line) {
          changed_.add(line, line_set::mask_in(line, offset, piece));
        }
      }
      undo_.push_back({offset, piece, arena_.keep(base_ + offset, piece), around});
      if (around == no_allocation) lanes_.put_bytes(lane_, offset, base_ + offset, piece);
      done += piece;
    }
    return {};
  }
  status refuse_stores(status why) noexcept {
    log_failed_ = true;
    core::doom(why.error());
    // The announced words were not stored to. The enclosing level may go on and commit without them.
    lanes_.forget(lane_);
    return why;
  }
  void put_back(std::size_t from) noexcept {
    // Word by word: transactions that will find out that they were too late may be reading.
    for (std::size_t i = undo_.size(); i-- > from;) {
      isolation::copy_in(base_ + undo_[i].offset, undo_[i].old, undo_[i].bytes);
    }
    undo_.resize(from);
  }
  void make_changes_durable() noexcept {
    bool any = false;
    for (const auto& e : changed_.entries()) {
      media_.flush(base_ + e.line * line_bytes, line_bytes);
      any = true;
    }
    for (const auto& a : objects_.allocations()) {
      if (a.freed) continue;
      media_.flush(base_ + a.place.offset, a.bytes);
      any = true;
    }
    if (any) media_.fence(edge{"mnemosyne/E6"});
  }
  [[nodiscard]] status write_lines(std::span<const isolation::written_line> lines) noexcept try {
    std::vector<byte_range> ranges;
    ranges.reserve(lines.size());
    const auto line_in_pool = [&](const isolation::written_line& w) {
      return w.line - reinterpret_cast<std::uintptr_t>(base_) / line_bytes;
    };
    for (const auto& w : lines) {
      each_byte_run(line_in_pool(w), w.mask, [&](std::uint64_t o, std::uint64_t n) { ranges.push_back({o, n}); });
    }
    if (status s = announce(ranges.data(), ranges.size()); !s) return s;
    for (const auto& w : lines) isolation::store_home(w);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for %zu lines", lines.size());
  }
  void reset() noexcept {
    core::reset_core();
    undo_.clear();
    undo_marks_.clear();
    changed_.clear();
    arena_.reset();
    log_failed_ = false;
  }

  std::vector<undo_entry> undo_;
  std::vector<std::size_t> undo_marks_;  // of each level
  line_set changed_;
  byte_arena arena_;
  bool log_failed_ = false;
};

}  // namespace nvm::tx
