// Recovery of the redo engine's rings: pure functions over the pool's bytes.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. validate the heads of all rings, every record that counts, and every target, before the first store
///   2. F those records, the heads of all rings                      | recover/E8  they are there as long as they count
///   3. by ascending version over all lanes: S ranges, intents; F     | recover/E6  home before these stop counting
///   4. S truncated = bound; F                                        | recover/E7  none of them counts on return
/// Repeatable: until 4 is durable the same records lead to the same stores in the same order; bytes that are already
/// home are overwritten by older records first, then by the newest again.
///
/// Why 2: if a process was killed, but not the machine, records and tails may be in caches only. A record that is lost
/// while half of it is home tears its transaction; a tail that is lost leads recovery to where the next process has
/// written the middle of another record. It is needed even if no record counts: `truncated` may be in caches only, and
/// this process may close the pool without a store to a ring.
///
/// What ends a ring.  A record is read at the tail, then at the end of each record.  The first one that does not prove
/// itself, or whose version is not larger than that of the one before, ends the ring: it was never finished, or it is
/// of the last lap, whose versions are all up to `truncated`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "base/plant.hpp"
#include "log/intent.hpp"
#include "log/recovery.hpp"
#include "log/redo_record.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::log {

struct redo_report {
  std::uint64_t used = 0;       // no version above this one was ever used, once recovery has returned
  std::uint64_t truncated = 0;  // as found
  std::uint64_t records = 0;    // that count
};

// Reads `truncated` and `bound`; errc::corrupt if one fails its check.
[[nodiscard]] inline status read_versions(const std::byte* base, const geometry& g, std::uint64_t& truncated,
                                          std::uint64_t& bound) noexcept {
  const auto* h = reinterpret_cast<const layout::ring_head*>(base + g.log_offset);
  const std::uint64_t t_at = g.log_offset + offsetof(layout::ring_head, truncated);
  const std::uint64_t b_at = g.log_offset + offsetof(layout::ring_head, bound);
  if (!word_holds(h->truncated, word_seed(t_at))) {
    return fail(errc::corrupt, "log at offset %lu: version that is home: found %016lx, which fails its check", t_at,
                h->truncated);
  }
  if (!word_holds(h->bound, word_seed(b_at))) {
    return fail(errc::corrupt, "log at offset %lu: largest version: found %016lx, which fails its check", b_at,
                h->bound);
  }
  truncated = h->truncated & checked_mask;
  bound = h->bound & checked_mask;
  if (bound > layout::version_max || truncated > layout::version_max) {
    return fail(errc::corrupt, "log at offset %lu: versions: found %lu and %lu, expected at most %lu", g.log_offset,
                truncated, bound, layout::version_max);
  }
  return {};
}

// Walks one lane's ring from its tail.
class ring_walk {
 public:
  ring_walk(const std::byte* base, const geometry& g, std::uint64_t key, unsigned lane, validation how) noexcept
      : base_{base},
        begin_{g.log_offset + lane * g.lane_bytes},
        end_{begin_ + g.lane_bytes},
        key_{key},
        lane_{lane},
        how_{how} {}

  // errc::corrupt: the tail is invalid.
  [[nodiscard]] status start() noexcept {
    const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(base_ + begin_);
    const std::uint64_t tail = word == 0 ? layout::redo_ring_at : word & checked_mask;
    // Not 0: the only valid word with content 0 is the raw zero.
    const bool good = word_holds(word, word_seed(begin_)) && tail % line_bytes == 0 && tail < end_ - begin_;
    if (!good) {
      return fail(errc::corrupt, "lane %u at offset %lu: tail: found %016lx, which is no place in the ring", lane_,
                  begin_, word);
    }
    at_ = begin_ + tail;
    return {};
  }
  // The next record with intents or ranges; nullptr: there is none.
  [[nodiscard]] const layout::redo_record* next() noexcept {
    for (;;) {
      if (walked_ >= end_ - begin_) return nullptr;
      const auto* r = redo_record_at(base_, at_, end_, key_, lane_, how_);
      if (r == nullptr || r->version < least_) return nullptr;
      offset_ = at_;
      const std::uint64_t room = round_up(r->bytes, line_bytes);
      if (layout::kind_of(*r) != layout::redo_kind::wrap) {
        walked_ += room;
        at_ += room;
        if (at_ == end_) at_ = begin_ + layout::redo_ring_at;
        least_ = r->version + 1;
        return r;
      }
      least_ = r->version;
      walked_ += end_ - at_;
      at_ = begin_ + layout::redo_ring_at;
    }
  }
  // Place of the record that next() returned.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  // That record does not count after all: the ring ends before it.
  void end_before(const layout::redo_record* r) noexcept {
    at_ = offset_;
    walked_ -= round_up(r->bytes, line_bytes);
  }

  // After next() has found no more: a record after the end that counts; 0: none. A transaction begins only when the one
  // before it in the lane is durable, so the record that ends the ring is damaged, not torn. The exception is a record
  // at the ring's start: one fence makes it durable with the wrap record before it, which may be torn. Records above
  // the largest version count here: that version was durable before them, so it is the damaged part.
  [[nodiscard]] std::uint64_t record_behind(std::uint64_t truncated) const noexcept {
    std::uint64_t at = at_;
    const std::uint64_t ring_bytes = end_ - begin_ - layout::redo_ring_at;
    for (std::uint64_t walked = walked_ + line_bytes; walked < ring_bytes; walked += line_bytes) {
      at += line_bytes;
      if (at == end_) {
        at = begin_ + layout::redo_ring_at;
        continue;
      }
      const auto* r = reinterpret_cast<const layout::redo_record*>(base_ + at);
      if (r->version <= truncated || r->version < least_) continue;
      if (redo_record_at(base_, at, end_, key_, lane_, how_) != nullptr) return at;
    }
    return 0;
  }

 private:
  const std::byte* base_;
  std::uint64_t begin_, end_;
  std::uint64_t key_;
  unsigned lane_;
  validation how_;
  std::uint64_t at_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t walked_ = 0;
  std::uint64_t least_ = 0;  // version of a record that may follow
};

template <targets V>
class redo_reader {
 public:
  redo_reader(const std::byte* base, const geometry& g, std::uint64_t key, validation how, const V& valid) noexcept
      : base_{base}, geometry_{g}, key_{key}, how_{how}, valid_{valid} {}

  // Finds every record that counts, in the order in which to replay them, and checks everything replay() relies on.
  // `everywhere`: also after the ends of the rings, for records that damage has cut off.
  enum class look { at_what_counts, everywhere };
  [[nodiscard]] status validate(look how_much = look::everywhere) noexcept try {
    if (status s = read_versions(base_, geometry_, report_.truncated, report_.used); !s) return s;
    found_.clear();
    for (unsigned lane = 0; lane < geometry_.lane_count; ++lane) {
      ring_walk walk{base_, geometry_, key_, lane, how_};
      if (status s = walk.start(); !s) return s;
      while (const auto* r = walk.next()) {
        if (r->version <= report_.truncated) continue;
        if (r->version > report_.used) return above_bound(r, walk.offset());
        redo_contents c;
        bool whole = false;
        if (status s = contents(r, walk.offset(), c, whole); !s) return s;
        if (!whole) {  // its run is not complete: it was never durable
          walk.end_before(r);
          break;
        }
        if (status s = check(c, walk.offset()); !s) return s;
        found_.push_back({r->version, r, c});
      }
      if (how_much == look::everywhere) {
        if (const std::uint64_t at = walk.record_behind(report_.truncated); at != 0) {
          const auto* r = reinterpret_cast<const layout::redo_record*>(base_ + at);
          if (r->version > report_.used) return above_bound(r, at);
          return fail(errc::corrupt,
                      "log record at offset %lu: found behind the end of its lane, expected none: the one "
                      "before it is damaged",
                      at);
        }
      }
    }
    if (!planted(plant::replay_by_lane)) {
      std::sort(found_.begin(), found_.end(), [](const found& a, const found& b) { return a.version < b.version; });
    }
    report_.records = found_.size();
    report_.used = std::max(report_.used, report_.truncated);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the list of log records");
  }
  [[nodiscard]] const redo_report& report() const noexcept { return report_; }
  // Nothing counts.
  [[nodiscard]] bool at_rest() const noexcept { return found_.empty(); }

  // After validate(): brings everything home; afterwards no record counts.
  template <media M>
  void replay(M& m, std::byte* base) noexcept {
    write_back(m);
    // A torn record has an unknown version, at most the bound.
    if (at_rest() && report_.used == report_.truncated) return;
    for (const found& f : found_) {
      // Asked again: a hostile record may have stored over the contents of a later one, which lie in data.
      (void)each_redo_range(f.contents, [&](std::uint64_t offset, std::uint64_t bytes, const std::byte* data) {
        if (!valid_.range(offset, bytes)) return false;
        std::memcpy(base + offset, data, bytes);
        m.flush(base + offset, bytes);
        return true;
      });
      (void)each_intent(f.contents.intents, f.contents.intent_words, [&](const intent& i) {
        bool inside = true;
        each_store(i, [&](std::uint64_t offset, std::uint64_t bytes) {
          inside = inside && range_inside(offset, bytes, geometry_.size_bytes());
        });
        if (!inside) return false;
        apply(base, i);
        each_store(i, [&](std::uint64_t offset, std::uint64_t bytes) { m.flush(base + offset, bytes); });
        return true;
      });
    }
    if (!found_.empty()) m.fence(edge{"recover/E6"});
    const std::uint64_t at = geometry_.log_offset + offsetof(layout::ring_head, truncated);
    auto* truncated = reinterpret_cast<std::uint64_t*>(base + at);
    *truncated = seal_word(report_.used, word_seed(at));
    m.flush(truncated, 8);
    m.fence(edge{"recover/E7"});
  }

 private:
  struct found {
    std::uint64_t version;
    const layout::redo_record* record;
    redo_contents contents;
  };

  template <media M>
  void write_back(M& m) const noexcept {
    const auto back = [&](const void* p, std::uint64_t bytes) { m.flush(p, bytes); };
    for (const found& f : found_) {
      back(f.record, f.record->bytes);
      if (layout::kind_of(*f.record) != layout::redo_kind::elsewhere) continue;
      back(f.contents.intents, f.contents.intent_words * 8 + f.contents.range_bytes);
    }
    for (unsigned i = 0; i < geometry_.lane_count; ++i) {
      back(base_ + geometry_.log_offset + i * geometry_.lane_bytes, sizeof(layout::ring_head));
    }
    m.fence(edge{"recover/E8"});
  }

  [[nodiscard]] status contents(const layout::redo_record* r, std::uint64_t at, redo_contents& out,
                                bool& whole) const noexcept {
    const auto* p = reinterpret_cast<const std::byte*>(r + 1);
    std::uint64_t bytes = r->bytes - sizeof *r;
    whole = true;
    if (layout::kind_of(*r) == layout::redo_kind::elsewhere) {
      layout::redo_place place;
      if (bytes != sizeof place) return malformed(at);
      std::memcpy(&place, p, sizeof place);
      if (!valid_.log_run(place.offset, place.bytes)) {
        return fail(errc::corrupt, "log record at offset %lu: leads to %lu bytes at %lu, which is no log run", at,
                    place.bytes, place.offset);
      }
      p = base_ + place.offset;
      bytes = place.bytes;
      whole = place_checksum(p, bytes, r->version) == place.checksum;
      if (!whole) {
        // A mark was made after the fence of the contents.
        if (proof_of(how_, layout::kind_of(*r)) == validation::checksum) return {};
        return fail(errc::corrupt, "log record at offset %lu: leads to %lu bytes at %lu, which fail their check", at,
                    place.bytes, place.offset);
      }
    } else if (layout::kind_of(*r) != layout::redo_kind::changes &&
               (how_ != validation::by_record || layout::kind_of(*r) != layout::redo_kind::marked_changes)) {
      return malformed(at);
    }
    return split_contents(p, bytes, layout::intents_of(*r), out) ? status{} : malformed(at);
  }
  [[nodiscard]] status above_bound(const layout::redo_record* r, std::uint64_t at) const noexcept {
    return fail(errc::corrupt, "log record at offset %lu: version: found %lu, expected at most %lu", at, r->version,
                report_.used);
  }
  [[nodiscard]] static status malformed(std::uint64_t at) noexcept {
    return fail(errc::corrupt, "log record at offset %lu: found parts that do not add up", at);
  }
  [[nodiscard]] status check(const redo_contents& c, std::uint64_t at) const noexcept {
    const bool intents = each_intent(c.intents, c.intent_words, [&](const intent& i) { return valid_.word(i); });
    const bool ranges = each_redo_range(
        c, [&](std::uint64_t offset, std::uint64_t bytes, const std::byte*) { return valid_.range(offset, bytes); });
    if (intents && ranges) return {};
    return fail(errc::corrupt, "log record at offset %lu: found %s that do not exist", at,
                intents ? "bytes" : "allocation words");
  }

  const std::byte* base_;
  const geometry& geometry_;
  std::uint64_t key_;
  validation how_;
  const V& valid_;
  redo_report report_;
  std::vector<found> found_;
};

}  // namespace nvm::log
