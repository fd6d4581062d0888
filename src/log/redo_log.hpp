// The redo log: a ring for each lane, records made durable by one fence each, and truncation of all rings at once.
//
/// One transaction.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. S, F fresh memory that is not in the record            | redo/E1  durable before the record that publishes it
///   2. S, F record {version, intents, ranges}                 | redo/E2  the commit point; by commit mark:
///      S, F the record without its mark                       | redo/E2  ... whole before its mark
///      S, F the mark                                          | redo/E3  the commit point
///   3. S ranges and intents home; not flushed
/// A record that does not fit a ring lies in a log run, which is flushed with it; the run's page map entry:
///      S, F entry (space)                                     | redo/E4  it is a run before a record leads there
/// Truncation, of all lanes:
///   4. F every home line that a record of version <= T wrote  | redo/E5  home before its record stops counting
///   5. S truncated = T; F                                     | redo/E6  it counts no more, of whatever lane
///   6. S tail of each lane; F                                 | redo/E7  its room may be written again
/// Versions: S bound; F                                        | redo/E8  before the first record above the old one
///
/// Why 5 comes before 6, with one T for all lanes: home holds the bytes of the newest record of any lane. If a lane's
/// tail moved beyond version 7 while `truncated` is still 5, recovery would skip 7 in this lane and replay 6 of another
/// lane over its bytes.
///
/// Recovery (redo_recovery.hpp) replays records newer than `truncated` in the order of versions. Afterwards `truncated`
/// is the old bound, so that no record of the dead process ever counts again, not even a torn one that later bytes
/// complete: its version would be too old.
//
// Freed memory.  A record may be replayed into memory that was freed since and holds a new object.  Replay in the order
// of versions makes that harmless if a later record holds the whole new object.  If none does (1), T has to reach the
// version of the free first: space gives that version with each reservation.
//
// Threads.  A lane is used by the one that acquired it.  truncate() may run in any thread at any time: it waits until
// every commit that has drawn its version is home. No commit draws one while it waits for room (enter() comes after).
// `dirty` and `head_*` of a lane are guarded by its `settling`; the truncation itself by truncating_.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/inlining.hpp"
#include "base/plant.hpp"
#include "log/intent.hpp"
#include "log/record_stage.hpp"
#include "log/redo_record.hpp"
#include "log/tag.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace nvm::log {

// Counts since the pool was opened.
struct truncation_statistics {
  std::uint64_t truncations = 0;
  std::uint64_t home_lines = 0;  // written back by them
};

template <media M>
class redo_log : public number_owners {
 public:
  // Replays follow one order over all lanes: intents need no settling before another lane changes the same word.
  static constexpr bool ordered = true;

  redo_log(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned count, validation how)
      : number_owners{count},
        media_{m},
        base_{base},
        geometry_{g},
        key_{key},
        how_{how},
        lanes_{new lane[count]},
        taken_(count) {}

  // Reads the clock from which versions are drawn: a value that is not larger than any drawn afterwards.
  using clock_function = std::uint64_t (*)() noexcept;

  // ---- beginning ----

  // Called after recovery, or for a pool at rest: every version that was ever used is at most `used`, everything is
  // home. Later values of the clock become versions.
  void start(std::uint64_t used, clock_function clock) noexcept {
    clock_ = clock;
    offset_ = used - clock();
    bound_.store(used, std::memory_order_relaxed);
    truncated_.store(used, std::memory_order_relaxed);
  }
  // Sets the call that gives back a log run after the last record that leads to it has stopped counting.
  void on_release(std::function<void(std::uint64_t offset)> give) { give_ = std::move(give); }
  // Sets the call of a committer whose ring is half full: it is time to truncate().
  void on_pressure(std::function<void()> wake) { wake_ = std::move(wake); }

  // Called before the lane's first transaction, by the thread that holds it. False: no volatile memory.
  [[nodiscard]] bool furnish(unsigned index) noexcept try {
    lane& l = lanes_[index];
    if (l.seen != nullptr) return true;
    auto seen = std::make_unique<seen_line[]>(seen_lines);
    for (std::size_t i = 0; i < seen_lines; ++i) seen[i] = {~std::uint64_t{0}, 0};
    l.dirty.reserve(256);
    l.head = l.applied_head = l.at = tail_of(index) - layout::redo_ring_at;
    l.tail.store(l.head, std::memory_order_relaxed);
    l.seen = std::move(seen);
    // release: pairs with the acquire in truncate().
    l.used.store(true, std::memory_order_release);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  // The version that a value of the process's clock stands for in this pool.
  [[nodiscard]] std::uint64_t version_of(std::uint64_t clock) const noexcept { return clock + offset_; }
  // Records up to this version are never replayed.
  [[nodiscard]] std::uint64_t truncated() const noexcept { return truncated_.load(std::memory_order_acquire); }

  // ---- one commit: the lane's owner ----

  // The largest record that goes into the ring.
  [[nodiscard]] std::uint64_t record_bytes_max() const noexcept { return ring_bytes() / 2 - line_bytes; }

  // Makes room in the ring for a record of `bytes`; waits for a truncation if need be.
  [[nodiscard]] status make_room(unsigned index, std::uint64_t bytes) noexcept {
    lane& l = lanes_[index];
    const std::uint64_t room = room_taken(l, bytes);
    if (free_room(l) >= room) return {};
    truncate();
    if (free_room(l) >= room) return {};
    return fail(errc::log_full, "a record of %lu bytes: the lane's ring has %lu", bytes, ring_bytes());
  }

  // Makes volatile room to remember `lines` more lines, and one more log run, so that nothing can fail after the commit
  // point.
  [[nodiscard]] status expect(unsigned index, std::uint64_t lines, bool log_run) noexcept {
    lane& l = lanes_[index];
    if (l.room < lines || l.noted.capacity() < lines || log_run) {
      if (status s = make_volatile_room(l, index, lines); !s) return s;
    }
    l.room -= lines;  // whether it is used or not
    return {};
  }

  // From here to applied() or leave_commit() a truncation waits for this lane.  Then the version may be drawn.
  void enter(unsigned index) noexcept {
    // relaxed: a thread that sees the version drawn next, as truncate() does in the clock, sees this as well.
    lanes_[index].entered.store(version_of(clock_()), std::memory_order_relaxed);
  }
  void leave_commit(unsigned index) noexcept {
    lane& l = lanes_[index];
    if (!l.noted.empty()) {
      // `seen` says that they are dirty.
      const biased_lock::guard guard{l.settling, index + 1};
      publish(l);
    }
    l.entered.store(nobody, std::memory_order_release);
  }

  // Memory in which the lane's owner builds the record for append().
  [[nodiscard]] record_stage& stage(unsigned index) noexcept { return lanes_[index].stage; }
  // Writes the staged record, for which there is room, and makes it durable.
  [[nodiscard]] status append(unsigned index, std::uint64_t version, layout::redo_kind kind,
                              std::uint64_t intents) noexcept {
    // acquire: pairs with raise_bound(): the bound is durable.
    if (version > bound_.load(std::memory_order_acquire)) {
      if (status s = raise_bound(version); !s) return s;
    }
    lane& l = lanes_[index];
    layout::redo_record* const r = l.stage.record();
    const std::uint64_t room = round_up(l.stage.record_bytes(), line_bytes);
    if (l.at + room > ring_bytes()) {
      put_wrap(index, version, l.at);
      l.head += ring_bytes() - l.at;
      l.at = 0;
    }
    const std::uint64_t offset = lane_offset(index) + layout::redo_ring_at + l.at;
    r->version = version;
    r->bytes = static_cast<std::uint32_t>(l.stage.record_bytes());
    r->kind_and_intents = static_cast<std::uint32_t>(intents << 4 | static_cast<std::uint32_t>(kind));
    const std::uint64_t proof = redo_proof(r, offset, key_, index, how_);
    const bool by_mark = proof_of(how_, kind) == validation::commit_mark;
    r->proof = by_mark ? 0 : proof;
    copy_out(media_, base_ + offset, r, room);
    // Before the fence: stores after it would wait for it.
    l.head += room;
    l.at = l.at + room == ring_bytes() ? 0 : l.at + room;
    media_.fence(edge{"redo/E2"});
    if (by_mark) {
      auto* mark = reinterpret_cast<std::uint64_t*>(base_ + offset);
      *mark = proof;
      media_.flush(mark, 8);
      media_.fence(edge{"redo/E3"});
    }
    return {};
  }

  // Notes the lines of the pool (offsets / line_bytes) that the record will change. Called before append(): stores
  // after its fence would delay the loads after it.
  template <class EachLine>
  [[NVM_INLINE]] void note(unsigned index, EachLine&& each_line) noexcept {
    lane& l = lanes_[index];
    {
      const biased_lock::guard guard{l.settling, index + 1};
      l.noted_in = l.batch;
    }
    each_line([&](std::uint64_t line) { note(l, line); });
  }
  // The record is completely home, in the noted lines; with the log run in which it lies.
  template <class EachLine>
  [[NVM_INLINE]] void applied(unsigned index, std::uint64_t version, std::uint64_t log_run,
                              EachLine&& each_line) noexcept {
    lane& l = lanes_[index];
    {
      const biased_lock::guard guard{l.settling, index + 1};
      if (l.noted_in != l.batch) [[unlikely]] {
        // A truncation has come in between, and may have missed lines that were already dirty.
        l.noted.clear();
        l.noted_in = l.batch;
        each_line([&](std::uint64_t line) { note(l, line); });
      }
      publish(l);
      if (log_run != 0) l.runs.push_back({version, log_run});
      l.applied_head = l.head;
    }
    // release: pairs with the acquire in truncate(): the stores home.
    l.entered.store(nobody, std::memory_order_release);
    if (l.head - l.tail.load(std::memory_order_relaxed) > ring_bytes() / 2 && wake_) wake_();
  }

  [[nodiscard]] truncation_statistics statistics() const noexcept {
    truncation_statistics s;
    s.truncations = truncations_.load(std::memory_order_relaxed);
    s.home_lines = home_lines_.load(std::memory_order_relaxed);
    return s;
  }

  // ---- truncation: any thread ----

  // Records of all transactions that have drawn their version before this call are brought home and stop counting.
  [[gnu::noinline]] void truncate() noexcept {
    const std::lock_guard guard{truncating_};
    truncate_locked();
  }

  // Called by space: memory is about to get a use that no replay may touch. Afterwards no record up to t counts.
  void settle(tag, unsigned) noexcept {}
  void settle_all(tag t) noexcept {
    if (t.none() || planted(plant::no_settling)) return;
    if (truncated() < t.generation()) truncate();
  }

  // Leaves nothing to replay. No transaction is open.
  void come_to_rest() noexcept {
    if (!ever_used()) return;
    truncate();
  }

 private:
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};
  static constexpr unsigned other = 0;  // name, for `settling`, of a thread that does not own the lane
  static constexpr std::size_t seen_lines = 2048;

  // A line that is in `dirty` or `noted` already, since truncation number `batch`.
  struct seen_line {
    std::uint64_t line;
    std::uint64_t batch;
  };
  struct kept_run {
    std::uint64_t version;
    std::uint64_t offset;
  };
  struct alignas(line_bytes) lane {
    // Lower bound of the version that its commit may draw or has drawn; `nobody`: no commit is under way.
    std::atomic<std::uint64_t> entered{nobody};
    std::uint64_t head = 0;  // bytes ever written to the ring; owner
    std::uint64_t at = 0;    // head % ring_bytes()
    std::atomic<std::uint64_t> tail{0};
    std::uint64_t room = 0;  // in `dirty`, at least, and not promised; owner
    record_stage stage;
    std::unique_ptr<seen_line[]> seen;
    biased_lock settling;
    std::uint64_t applied_head = 0;
    std::uint64_t batch = 1;  // number of the truncation that takes `dirty`
    std::vector<std::uint64_t> dirty;
    std::vector<std::uint64_t> noted;  // of the commit under way, not in `dirty` yet; owner
    std::uint64_t noted_in = 0;        // batch
    std::vector<kept_run> runs;
    std::atomic<bool> used{false};
  };

  [[nodiscard]] std::uint64_t lane_offset(unsigned index) const noexcept {
    return geometry_.log_offset + index * geometry_.lane_bytes;
  }
  [[nodiscard]] std::uint64_t ring_bytes() const noexcept { return geometry_.lane_bytes - layout::redo_ring_at; }
  [[nodiscard]] std::uint64_t truncated_offset() const noexcept {
    return geometry_.log_offset + offsetof(layout::ring_head, truncated);
  }
  [[nodiscard]] std::uint64_t bound_offset() const noexcept {
    return geometry_.log_offset + offsetof(layout::ring_head, bound);
  }
  [[nodiscard]] std::uint64_t tail_of(unsigned index) const noexcept {
    const std::uint64_t at = *reinterpret_cast<const std::uint64_t*>(base_ + lane_offset(index)) & checked_mask;
    return at == 0 ? layout::redo_ring_at : at;
  }
  void set_word(std::uint64_t offset, std::uint64_t content) noexcept {
    auto* p = reinterpret_cast<std::uint64_t*>(base_ + offset);
    *p = seal_word(content, word_seed(offset));
    media_.flush(p, 8);
  }
  // Room that a record of `bytes` contents takes, with the unused end of the ring before it.
  [[nodiscard]] std::uint64_t room_taken(const lane& l, std::uint64_t bytes) const noexcept {
    const std::uint64_t room = round_up(bytes + sizeof(layout::redo_record), line_bytes);
    return l.at + room > ring_bytes() ? ring_bytes() - l.at + room : room;
  }
  [[nodiscard]] std::uint64_t free_room(const lane& l) const noexcept {
    // acquire: pairs with the release in truncate(): the tail is durable before we write over what was after it.
    return ring_bytes() - (l.head - l.tail.load(std::memory_order_acquire));
  }

  void put_wrap(unsigned index, std::uint64_t version, std::uint64_t at) noexcept {
    const std::uint64_t offset = lane_offset(index) + layout::redo_ring_at + at;
    alignas(line_bytes) std::byte line[line_bytes] = {};
    auto* r = reinterpret_cast<layout::redo_record*>(line);
    r->version = version;
    r->bytes = sizeof *r;
    r->kind_and_intents = static_cast<std::uint32_t>(layout::redo_kind::wrap);
    r->proof = redo_proof(r, offset, key_, index, how_);
    copy_out(media_, base_ + offset, line, line_bytes);
  }

  // expect() has made room, in `dirty` too.
  void note(lane& l, std::uint64_t line) noexcept {
    seen_line& s = l.seen[(line ^ line >> 11) % seen_lines];
    if (s.line == line && s.batch == l.noted_in) return;
    s = {line, l.noted_in};
    l.noted.push_back(line);
  }
  // With l.settling held.
  void publish(lane& l) noexcept {
    l.dirty.insert(l.dirty.end(), l.noted.begin(), l.noted.end());
    l.noted.clear();
  }
  [[gnu::noinline]] status make_volatile_room(lane& l, unsigned index, std::uint64_t lines) noexcept try {
    const biased_lock::guard guard{l.settling, index + 1};
    if (l.dirty.capacity() - l.dirty.size() < lines) {
      l.dirty.reserve(std::max<std::size_t>(l.dirty.size() + lines, 2 * l.dirty.capacity()));
    }
    // A truncation makes it more.
    l.room = l.dirty.capacity() - l.dirty.size();
    if (l.noted.capacity() < lines) l.noted.reserve(std::max<std::size_t>(lines, 2 * l.noted.capacity()));
    l.runs.reserve(l.runs.size() + 1);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for %lu lines to be written back", lines);
  }
  [[nodiscard]] bool ever_used() const noexcept {
    for (unsigned i = 0; i < count(); ++i) {
      if (lanes_[i].used.load(std::memory_order_acquire)) return true;
    }
    return false;
  }

  [[nodiscard]] status raise_bound(std::uint64_t version) noexcept {
    if (version > layout::version_max - layout::version_step) {
      return fail(errc::too_large, "version %lu: the pool's log cannot count further", version);
    }
    const std::lock_guard guard{bounding_};
    if (version <= bound_.load(std::memory_order_relaxed)) return {};
    const std::uint64_t bound = version + layout::version_step;
    set_word(bound_offset(), bound);
    media_.fence(edge{"redo/E8"});
    bound_.store(bound, std::memory_order_release);
    return {};
  }

  // Progress of a lane, taken before anything else is read.
  struct progress {
    std::uint64_t head = 0;
    bool used = false;
  };

  void truncate_locked() noexcept {
    std::fill(taken_.begin(), taken_.end(), progress{});
    for (unsigned i = 0; i < count(); ++i) {
      lane& l = lanes_[i];
      if (!l.used.load(std::memory_order_acquire)) continue;
      const biased_lock::guard guard{l.settling, other};
      taken_[i] = {l.applied_head, true};
    }
    // Every version drawn so far, among them those of all records before the heads just taken.
    const std::uint64_t through = version_of(clock_());
    for (unsigned i = 0; i < count(); ++i) {
      // acquire: pairs with the release in applied(): its stores home.
      while (lanes_[i].entered.load(std::memory_order_acquire) < through) std::this_thread::yield();
    }
    freed_.clear();
    std::uint64_t flushed = 0;
    for (unsigned i = 0; i < count(); ++i) {
      lane& l = lanes_[i];
      if (!l.used.load(std::memory_order_acquire)) continue;
      flushed += take_home(l, through);
    }
    media_.fence(edge{"redo/E5"});
    set_word(truncated_offset(), through);
    media_.fence(edge{"redo/E6"});
    // release: pairs with truncated(): a thread that sees it may use memory that older records cover.
    truncated_.store(through, std::memory_order_release);
    bool moved = false;
    for (unsigned i = 0; i < count(); ++i) {
      if (!taken_[i].used || taken_[i].head == lanes_[i].tail.load(std::memory_order_relaxed)) continue;
      set_word(lane_offset(i), layout::redo_ring_at + taken_[i].head % ring_bytes());
      moved = true;
    }
    if (moved) media_.fence(edge{"redo/E7"});
    for (unsigned i = 0; i < count(); ++i) {
      // release: pairs with the acquire in free_room().
      if (taken_[i].used) lanes_[i].tail.store(taken_[i].head, std::memory_order_release);
    }
    for (const std::uint64_t offset : freed_) give_(offset);
    truncations_.store(truncations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    home_lines_.store(home_lines_.load(std::memory_order_relaxed) + flushed, std::memory_order_relaxed);
  }

  // Flushes the lane's lines, and takes the runs that no record up to `through` needs into freed_.
  std::uint64_t take_home(lane& l, std::uint64_t through) noexcept {
    l.settling.lock(other);
    const std::uint64_t lines = l.dirty.size();
    take_runs(l, through);
    ++l.batch;
    const bool copied = copy_lines(l);
    if (!copied) flush_lines(l.dirty);
    l.dirty.clear();
    l.settling.unlock();
    // Without the lock: the lane's owner may go on.
    if (copied) flush_lines(lines_);
    return lines;
  }
  void flush_lines(const std::vector<std::uint64_t>& lines) noexcept {
    for (const std::uint64_t line : lines) media_.flush(base_ + line * line_bytes, line_bytes);
  }
  [[nodiscard]] bool copy_lines(const lane& l) noexcept try {
    lines_.assign(l.dirty.begin(), l.dirty.end());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  // Takes the log runs that may be given back; without memory they stay for the next truncation.
  void take_runs(lane& l, std::uint64_t through) noexcept try {
    if (l.runs.empty()) return;
    freed_.reserve(freed_.size() + l.runs.size());
    std::erase_if(l.runs, [&](const kept_run& r) {
      if (r.version <= through) freed_.push_back(r.offset);
      return r.version <= through;
    });
  } catch (const std::bad_alloc&) {
  }

  M& media_;
  std::byte* base_;
  const geometry& geometry_;
  std::uint64_t key_;
  validation how_;
  std::unique_ptr<lane[]> lanes_;
  clock_function clock_ = nullptr;
  std::uint64_t offset_ = 0;  // from a value of the clock to a version
  std::atomic<std::uint64_t> bound_{0};
  std::atomic<std::uint64_t> truncated_{0};
  std::atomic<std::uint64_t> truncations_{0};
  std::atomic<std::uint64_t> home_lines_{0};
  std::function<void(std::uint64_t)> give_;
  std::function<void()> wake_;
  std::mutex truncating_;
  std::mutex bounding_;
  // State of the truncation under way.
  std::vector<progress> taken_;
  std::vector<std::uint64_t> lines_;
  std::vector<std::uint64_t> freed_;
};

}  // namespace nvm::log
