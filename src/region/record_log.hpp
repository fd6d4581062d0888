// How a change of regions becomes durable all or nothing: as one record of the log, whatever it changes (holes C1 to C9
// and M1 to M7 of docs/design/023).
//
/// Direct media, over log::redo_log.  S store, F flush, | fence.
///   1. S, F bytes that no header leads to yet         | region/E2  (the caller, if there are any)
///   2. S, F record                                    | redo/E2    the commit point; by commit mark also | redo/E3
///      One that does not fit a ring: S, F a run's entry | space/E6   pages are there before a record leads to them;
///      S, F its contents there, and a short record      | redo/E2    the commit point: it has their checksum
///   3. S home, not flushed: truncation writes it back   redo/E5 to E7
/// Image media:
///   1. one batch of all ranges                        | region/E3  the commit point is the batch's sync
///   2. S home; checkpoints write what the batch has, and nothing else stores or captures there meanwhile
///      New bytes that go straight to their place come before; the batch has their sums (docs/design/029).
// Readers see neither before the commit point of direct media, nor on an image medium before the whole batch has its
// place in the order; a change that depends on it waits for its LSN.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::region {

// Bytes of the pool that a change stores.
struct home_range {
  std::uint64_t offset = 0;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

// Versions of the process's records, for all pools.
class version_source {
 public:
  [[nodiscard]] static std::uint64_t now() noexcept { return last_.load(std::memory_order_acquire); }
  [[nodiscard]] static std::uint64_t next() noexcept { return last_.fetch_add(1, std::memory_order_acq_rel) + 1; }

 private:
  alignas(line_bytes) static inline constinit std::atomic<std::uint64_t> last_{0};
};

// Proof of a record: a checksum of all of it, one fence (CERL); or a mark after it, two (REDO).
enum class proof : std::uint8_t { checksum, mark };

inline void store_home(std::byte* base, std::span<const home_range> ranges) noexcept {
  for (const home_range& r : ranges) isolation::copy_in(base + r.offset, r.from, r.bytes);
}

// Where the rings are.
struct rings {
  std::uint64_t offset = 0;
  std::uint64_t bytes_each = 0;
  std::uint32_t count = 0;
  std::uint64_t key = 0;
};
// A geometry in which the rings are the pool's.
[[nodiscard]] inline geometry geometry_with(geometry g, const rings& r) noexcept {
  g.log_offset = r.offset;
  g.lane_bytes = r.bytes_each;
  g.lane_count = r.count;
  return g;
}

// New bytes that are in their place on the device already.
struct straight_range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

// State of one thread between calls.
struct log_user {
  unsigned hint = 0;
  image_batch batch;
  std::vector<straight_range> straight;  // of the next record
};

template <media M>
class record_log {
 public:
  static constexpr bool replays = !M::atomic_batches;

  // May throw std::bad_alloc.  `used`: no version above this one was ever used.
  record_log(M& medium, std::byte* base, region_pages& pages, const rings& r, std::uint64_t used)
      : medium_{medium}, base_{base}, pages_{pages}, geometry_{geometry_with(pages.sizes(), r)} {
    if constexpr (replays) {
      log_ = std::make_unique<log::redo_log<M>>(medium, base, geometry_, r.key, r.count, log::validation::by_record);
      log_->start(used, &version_source::now);
      log_->on_release([this](std::uint64_t offset) { pages_.give(offset); });
    }
  }

  // Nothing that was stored by a record up to this version is stored again.
  [[nodiscard]] std::uint64_t truncated() const noexcept {
    if constexpr (replays) return log_->truncated();
    return ~std::uint64_t{0};
  }
  void truncate() noexcept {
    if constexpr (replays) log_->truncate();
  }
  void come_to_rest() noexcept {
    if constexpr (replays) log_->come_to_rest();
  }
  void on_pressure(std::function<void()> wake) {
    if constexpr (replays) log_->on_pressure(std::move(wake));
  }

  // begin(): the regions are changing from here on; it may wait for their readers alone.  end(version): their bytes are
  // home; 0: they are as they were.
  // Returns the version, or the LSN, of the record.  errc::no_memory, log_full, too_large (image media), no_space (for
  // a record that fits no ring), no_lane, io; nothing has changed then.
  template <class Begin, class End>
  [[nodiscard]] result<std::uint64_t> commit(log_user& user, std::span<const home_range> ranges, proof how,
                                             Begin&& begin, End&& end) noexcept {
    if constexpr (replays) {
      const auto lane = log_->acquire(user.hint);
      if (!lane) return lane.error();
      user.hint = *lane;
      auto version = commit_in(*lane, ranges, how, begin, end);
      log_->release(*lane);
      return version;
    } else {
      return publish(user, ranges, begin, end);
    }
  }

 private:
  // Given back unless its record is durable; then a truncation does it.
  struct spilled_record {
    region_pages& pages;
    std::uint64_t offset = 0;  // 0: there is none

    explicit spilled_record(region_pages& p) noexcept : pages{p} {}
    ~spilled_record() {
      if (offset != 0) pages.give(offset);
    }
    spilled_record(const spilled_record&) = delete;
    spilled_record& operator=(const spilled_record&) = delete;
    [[nodiscard]] status take(unsigned arena, std::uint64_t bytes) noexcept {
      const auto at = pages.take_run(arena, nvm::layout::slot_protocol::region, layout::directory_owner, bytes);
      if (!at) return at.error();
      offset = *at;
      return {};
    }
  };

  template <class Begin, class End>
  [[nodiscard]] result<std::uint64_t> commit_in(unsigned lane, std::span<const home_range> ranges, proof how,
                                                Begin&& begin, End&& end) noexcept {
    log::redo_log<M>& l = *log_;
    if (!l.furnish(lane)) return fail(errc::no_memory, "no volatile memory for a lane of the log of regions");
    log::record_stage& stage = l.stage(lane);
    stage.begin();
    std::uint64_t lines = 0;
    for (const home_range& r : ranges) {
      lines += r.bytes / line_bytes + 2;
      for (std::uint64_t done = 0; done < r.bytes;) {
        const std::uint64_t piece = std::min(r.bytes - done, nvm::layout::redo_range_bytes_max);
        stage.range(r.offset + done, r.from + done, piece);
        done += piece;
      }
    }
    if (!stage.whole()) return fail(errc::no_memory, "no volatile memory for a record of the log of regions");
    // Pages of a record that fits no ring; recovery frees them, like all pages of this owner that nothing names.
    spilled_record run{pages_};
    std::uint64_t in_ring = stage.contents_bytes();
    if (in_ring > l.record_bytes_max() - sizeof(nvm::layout::redo_record)) {
      if (status s = run.take(lane, in_ring); !s) return s.error();
      in_ring = sizeof(nvm::layout::redo_place);
    }
    if (status s = l.make_room(lane, in_ring); !s) return s.error();
    if (status s = l.expect(lane, lines, run.offset != 0); !s) return s.error();
    l.enter(lane);
    const std::uint64_t version = l.version_of(version_source::next());
    const auto each_line = [&](auto&& note) {
      for (const home_range& r : ranges) {
        for (std::uint64_t at = r.offset / line_bytes; at <= (r.offset + r.bytes - 1) / line_bytes; ++at) note(at);
      }
    };
    l.note(lane, each_line);
    auto kind = how == proof::mark ? nvm::layout::redo_kind::marked_changes : nvm::layout::redo_kind::changes;
    if (run.offset != 0) {
      kind = nvm::layout::redo_kind::elsewhere;
      put_elsewhere(stage, run.offset, version);
    }
    if (status s = l.append(lane, version, kind, 0); !s) {
      l.leave_commit(lane);
      return s.error();
    }
    begin();
    store_home(base_, ranges);
    end(version);
    l.applied(lane, version, std::exchange(run.offset, 0), each_line);
    return version;
  }
  // Puts the staged record into the run; the record staged after that leads there.
  void put_elsewhere(log::record_stage& stage, std::uint64_t offset, std::uint64_t version) noexcept {
    const std::uint64_t bytes = stage.contents_bytes();
    const nvm::layout::redo_place place{offset, bytes, log::place_checksum(stage.contents(), bytes, version)};
    copy_out(medium_, base_ + offset, stage.contents(), bytes);
    stage.begin();
    for (const std::uint64_t word : {place.offset, place.bytes, place.checksum}) stage.word(word);
  }

  template <class Begin, class End>
  [[nodiscard]] result<std::uint64_t> publish(log_user& user, std::span<const home_range> ranges, Begin&& begin,
                                              End&& end) noexcept {
    image_batch& batch = user.batch;
    batch.clear();
    for (const home_range& r : ranges) batch.add_for(base_ + r.offset, r.from, r.bytes);
    for (const straight_range& r : user.straight) batch.add_straight(base_ + r.offset, r.bytes, r.sum);
    // Room comes first, and for that perhaps a sync: readers do not wait for it.  This thread waits for readers without
    // a lock of the medium.  The mark comes before the record, since a checkpoint may bring it home, and from there a
    // page that is not in memory has the new bytes before they are stored here.
    if (status s = await_room(medium_, batch); !s) return s.error();
    begin();
    const auto lsn = medium_.publish(batch, []() noexcept {}, edge{"region/E3"});
    if (!lsn) {
      end(std::uint64_t{0});
      return lsn.error();
    }
    store_home(base_, ranges);
    end(*lsn);
    return *lsn;
  }

  M& medium_;
  std::byte* base_;
  region_pages& pages_;
  geometry geometry_;
  std::unique_ptr<log::redo_log<M>> log_;
};

}  // namespace nvm::region
