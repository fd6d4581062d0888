// Lanes: the volatile side of the logs, and the steps that make a transaction durable on direct media.
//
// A lane is used by one transaction at a time; threads come back to the lane they used last, so a lane stands for a
// core. The steps are those of the undo engine (tx/transaction.hpp numbers them); recovery.hpp is their mirror.
//
// Generation g of a lane has ended once its commit record is durable. Its intents are applied after that, but not
// flushed: recovery makes the intents of the last generations again.  Every fourth generation flushes, before its own
// commit fence, the words that the four oldest ones changed, so that the next four may overwrite their commit records.
// So allocation words that change in every transaction are written back once in four.  See tag.hpp for why another lane
// has to settle() first.
//
// Threads.  sync/number_owners.hpp gives lanes to threads.  `settling` guards commit record, retired generation and
// pending words: the owner holds it from writing the commit record until its intents are flushed, a settler while it
// retires the lane. Under it the owner takes locks of space/, never the other way round.
//
/// S store, F flush, | fence, beside those of the transaction itself (tx/transaction.hpp):
///   Overflow:   S, F page map entry of a segment               | lane/E1  it is a segment before a link leads there
///   Retire:     F what the last generations changed, and, of a lane that comes to rest, S, F its last commit record
///                                                              | lane/E2  durable before it counts as that
///               S, F retired generation                        | lane/E3  none of them is made again from here on
///   First log:  S, F commit record of an empty generation      | lane/E4  the lane is not at rest before a record
///                                                                         of the next generation can be torn
//
// On a medium with atomic batches nothing of a lane is on media: acquire() and release() remain, settle() is free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "log/face.hpp"
#include "log/intent.hpp"
#include "log/recovery.hpp"
#include "log/tag.hpp"
#include "sync/sync.hpp"

namespace nvm::log {

struct segment {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

template <media M>
class lanes : public number_owners {
 public:
  // Lanes are replayed one by one, and each only its own changes of allocation words.
  static constexpr bool ordered = false;

  lanes(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned count)
      : number_owners{count},
        media_{m},
        base_{base},
        geometry_{g},
        key_{key},
        lanes_{new lane[count]},
        stages_{M::atomic_batches ? 0 : count * stage_stride + line_bytes} {
    if (stages_.data() == nullptr) throw std::bad_alloc{};
  }

  // After recovery: the lane continues after `generation`, with everything up to it retired; `attached` as in
  // set_attached().
  void start(unsigned index, std::uint64_t generation, std::uint32_t attached) noexcept {
    lanes_[index].generation = generation;
    lanes_[index].attached = attached;
    lanes_[index].retired.store(generation, std::memory_order_relaxed);
  }

  // Gives the lane its memory before its first transaction; the thread that holds the lane calls it.  False: there is
  // no memory.  An unused lane costs a line or two, so that opening a pool costs little.
  [[nodiscard]] bool furnish(unsigned index) noexcept {
    if constexpr (!M::atomic_batches) {
      lane& l = lanes_[index];
      if (l.pending == nullptr) l.pending.reset(new (std::nothrow) std::vector<std::uint64_t>[layout::commit_slots]);
      return l.pending != nullptr;
    }
    return true;
  }

  // Bytes of the largest record of a medium with atomic batches, whose ring takes the place of the lanes.
  [[nodiscard]] std::uint64_t record_bytes_max() const noexcept
    requires(M::atomic_batches)
  {
    return layout::ring_place{geometry_.log_offset, geometry_.log_bytes}.record_bytes_max();
  }

  [[nodiscard]] std::uint64_t generation(unsigned index) const noexcept { return lanes_[index].generation; }

  // ---- the open generation: owner only, direct media only ----

  // Copies the present bytes of the ranges into undo records and flushes these; the caller fences (E1) before any of
  // the ranges is overwritten.  old(offset, bytes, where they are kept) is called for each range, or for each piece of
  // a large one, in order.  grow(bytes, last) gives an overflow segment whose page map
  // entry is flushed; `last`: also of pages that are kept for logs.
  template <class Old, class Grow>
  [[nodiscard]] status append_undo(unsigned index, const byte_range* ranges, std::size_t count, Old&& old,
                                   Grow&& grow) {
    lane& l = lanes_[index];
    if (status s = may_count(l, index); !s) return s;
    begin_body(l, index);
    for (std::size_t i = 0; i < count;) {
      if (ranges[i].bytes >= layout::large_undo_bytes_min) {
        if (status s = append_pieces(l, ranges[i], old, grow); !s) return s;
        ++i;
        continue;
      }
      // Adds as many small ranges as fit.
      std::byte* const stage = stage_of(l);
      std::byte* at = stage + sizeof(layout::record_header);
      const std::byte* const end = stage + std::min<std::uint64_t>(room_of(l), stage_bytes);
      unsigned pieces = 0;
      for (; i < count; ++i, ++pieces) {
        const auto [from, bytes] = ranges[i];
        const std::uint64_t padded = round_up(bytes, 8);
        if (bytes >= layout::large_undo_bytes_min || at + 8 + padded > end) break;
        const std::uint64_t word = layout::pack_range(from, bytes);
        std::memcpy(at, &word, 8);
        at += 8;
        if (bytes == 8) {
          std::memcpy(at, base_ + from, 8);
        } else {
          std::memset(at + padded - 8, 0, 8);
          std::memcpy(at, base_ + from, bytes);
        }
        old(from, bytes, base_ + l.cursor + (at - stage));
        at += padded;
      }
      if (pieces == 0) {
        const std::uint64_t least = sizeof(layout::record_header) + 8 + round_up(ranges[i].bytes, 8);
        if (status s = extend(l, least, grow); !s) return s;
        continue;
      }
      finish_staged(l, static_cast<std::uint64_t>(at - stage), layout::record_kind::undo, pieces);
    }
    return {};
  }

  // Writes intents that are too many for the commit record as a record of the body, and flushes it (durable by the next
  // fence).
  template <class Grow>
  [[nodiscard]] status append_intents(unsigned index, const std::uint64_t* words, std::size_t count, Grow&& grow) {
    lane& l = lanes_[index];
    begin_body(l, index);
    const std::uint64_t bytes = sizeof(layout::record_header) + count * 8;
    if (bytes > layout::record_bytes_max) {
      return fail(errc::too_large, "transaction with %zu words of allocation changes: at most %lu", count,
                  layout::record_bytes_max / 8);
    }
    if (status s = make_room(l, bytes, grow); !s) return s;
    l.intents_at = l.cursor;
    std::memcpy(base_ + l.cursor + sizeof(layout::record_header), words, count * 8);
    finish_record(l, bytes, layout::record_kind::intents, 0);
    return {};
  }

  // Volatile room for `count` intents, so that nothing can fail after the commit point.
  [[nodiscard]] status prepare_finish(unsigned index, std::size_t count) noexcept try {
    lane& l = lanes_[index];
    const biased_lock::guard guard{l.settling, owner};
    if (status s = may_count(l, index); !s) return s;
    l.pending[(l.generation + 1) % layout::commit_slots].reserve(2 * count);
    l.pending[(l.generation + 2) % layout::commit_slots].reserve(2 * count);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for %zu pending words", count);
  }

  // From now on commit records say that the lane's ring of activation records ends there; called by the owner, on
  // direct media. The ring's bytes before it are durable with the next commit point.
  void set_attached(unsigned index, std::uint32_t end) noexcept { lanes_[index].attached = end; }
  [[nodiscard]] bool has_records(unsigned index) const noexcept { return lanes_[index].last_record != 0; }
  // Bytes that the open generation has put into its log.
  [[nodiscard]] std::uint64_t logged_bytes(unsigned index) const noexcept { return lanes_[index].logged; }

  // Ends the open generation: the commit record becomes durable, then apply(generation) makes the changes of `words`
  // (intents), which are flushed in time. Returns the generation.
  template <class Apply>
  std::uint64_t finish(unsigned index, layout::outcome kind, const std::uint64_t* words, std::size_t count,
                       edge commit_point, Apply&& apply) {
    lane& l = lanes_[index];
    const biased_lock::guard guard{l.settling, owner};
    l.used = true;
    const std::uint64_t g = l.generation + 1;
    const bool elsewhere = write_end(l, index, kind, words, count);
    media_.fence(commit_point);
    l.generation = g;
    auto& pending = l.pending[g % layout::commit_slots];
    pending.clear();
    apply(g);
    each_intent(words, count, [&](const intent& i) {
      each_store(i, [&](std::uint64_t offset, std::uint64_t) { pending.push_back(offset); });
      return true;
    });
    // The next generation overwrites the body: the intents in it must be durable first.
    if (elsewhere) retire(l, index);
    l.begun = false;
    l.last_record = 0;
    l.logged = 0;
    return g;
  }

  // Calls give() for overflow segments of the ended generation, to be given back; empties the list.
  template <class Give>
  void take_segments(unsigned index, Give&& give) {
    for (const segment& s : lanes_[index].segments) give(s.offset);
    lanes_[index].segments.clear();
  }

  // ---- settling (tag.hpp) ----

  void settle(tag t, unsigned lane) noexcept {
    if (!t.none() && t.lane() != lane) settle_all(t);
  }
  [[gnu::noinline]] void settle_all(tag t) noexcept {
    if constexpr (!M::atomic_batches) {
      if (t.none() || planted(plant::no_settling)) return;
      lane& l = lanes_[t.lane()];
      // acquire: pairs with the release store in retire(); the lane's words are durable then.
      if (l.retired.load(std::memory_order_acquire) >= t.generation()) return;
      const biased_lock::guard guard{l.settling, settler};
      if (l.retired.load(std::memory_order_relaxed) < t.generation()) retire(l, t.lane());
    }
  }
  // Brings every lane to rest: the next recovery finds nothing to do.  For closing, when no transaction is open.
  void come_to_rest() noexcept {
    if constexpr (!M::atomic_batches) {
      for (unsigned i = 0; i < count(); ++i) {
        lane& l = lanes_[i];
        if (!l.used) continue;
        const biased_lock::guard guard{l.settling, settler};
        // No fence of its own: the first one of retire() comes before the only store that follows.
        write_end(l, i, layout::outcome::rest, nullptr, 0);
        ++l.generation;
        retire(l, i);
        l.used = false;
      }
    }
  }

 private:
  static constexpr std::uint64_t stage_bytes = 4096;
  // Not a multiple of a page: the stages of all lanes would fall into the same few sets of a cache.
  static constexpr std::uint64_t stage_stride = stage_bytes + 3 * line_bytes;
  static constexpr unsigned slots_at_once = layout::commit_slots / 2;
  // Names, for `settling`, of its takers: one thread at a time holds the lane.
  static constexpr unsigned owner = 1;
  static constexpr unsigned settler = 0;
  static constexpr auto nothing_to_apply = [](std::uint64_t) {};
  struct alignas(line_bytes) lane {
    biased_lock settling;
    bool used = false;   // not at rest: a generation has ended in this process
    bool begun = false;  // the body has been begun in the open generation
    std::atomic<std::uint64_t> retired{0};
    std::uint64_t generation = 0;  // last finished
    std::uint64_t cursor = 0;      // where the next record goes
    std::uint64_t end = 0;         // of the current segment
    std::uint64_t last_record = 0;
    std::uint64_t intents_at = 0;
    std::uint64_t logged = 0;
    std::uint32_t attached = 0;
    // Offsets of the last generations' changes, by commit slot.
    std::unique_ptr<std::vector<std::uint64_t>[]> pending;
    std::vector<segment> segments;
  };
  struct no_targets {
    bool range(std::uint64_t, std::uint64_t) const noexcept { return false; }
    bool word(const intent&) const noexcept { return false; }
    bool segment(std::uint64_t, std::uint64_t) const noexcept { return false; }
  };
  using lane_writer = lane_reader<no_targets>;

  // Memory in which the lane builds a record: its lines are then written whole, past the caches if the medium can.
  [[nodiscard]] std::byte* stage_of(const lane& l) const noexcept {
    const auto first = round_up(reinterpret_cast<std::uintptr_t>(stages_.data()), line_bytes);
    return reinterpret_cast<std::byte*>(first) + static_cast<std::uint64_t>(&l - lanes_.get()) * stage_stride;
  }
  [[nodiscard]] std::uint64_t lane_offset(unsigned index) const noexcept {
    return geometry_.log_offset + index * geometry_.lane_bytes;
  }
  [[nodiscard]] std::uint64_t room_of(const lane& l) const noexcept {
    return l.end - l.cursor - layout::record_room(layout::link_record_bytes);
  }

  // With `settling` held: stores and flushes the commit record of the open generation, and flushes the other words that
  // its commit point has to cover.  The caller fences.  True: the intents are in the log.
  bool write_end(lane& l, unsigned index, layout::outcome kind, const std::uint64_t* words,
                 std::size_t count) noexcept {
    const std::uint64_t g = l.generation + 1;
    const bool elsewhere = count > layout::inline_intent_words;
    // The slots that generations g + 1 to g + 4 will overwrite.
    if (g % slots_at_once == 0) {
      recent_lines flushed;
      for (std::uint64_t k = 1; k <= slots_at_once; ++k) flush_pending(l, (g + k) % layout::commit_slots, flushed);
    }
    lane_writer::write_commit(media_, base_, lane_offset(index), g, kind, elsewhere ? &l.intents_at : words,
                              elsewhere ? layout::intents_elsewhere : static_cast<std::uint16_t>(count), l.attached,
                              key_);
    return elsewhere;
  }

  // Flushes the changes of the generation in this slot. The caller fences: a fence completes only its own thread's
  // flushes. `flushed` remembers lines that need no second flush; a forgotten line only costs a flush.
  struct recent_lines {
    std::uint64_t line[8] = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
    bool add(std::uint64_t l) noexcept {
      std::uint64_t& place = line[l % 8];
      const bool added = place != l;
      place = l;
      return added;
    }
  };
  void flush_pending(lane& l, std::uint64_t slot, recent_lines& flushed) noexcept {
    for (const std::uint64_t offset : l.pending[slot]) {
      if (flushed.add(offset / line_bytes)) media_.flush(base_ + offset, 1);
    }
  }

  // False: the next generation would be near the last.
  [[nodiscard]] static status may_count(const lane& l, unsigned index) noexcept {
    if (l.generation < layout::generation_max - layout::generations_kept) [[likely]]
      return {};
    return fail(errc::too_large, "lane %u: generation %lu: it cannot count further", index, l.generation);
  }
  void begin_body(lane& l, unsigned index) noexcept {
    if (l.begun) return;
    // A crash may leave a torn record of this generation here, which looks like an untouched body. So from now on the
    // lane is not at rest, and recovery gives the generation up (recovery.hpp).
    if (!l.used && !planted(plant::generation_used_again))
      finish(index, layout::outcome::abort, nullptr, 0, edge{"lane/E4"}, nothing_to_apply);
    l.begun = true;
    l.cursor = lane_offset(index) + layout::lane_body_at;
    l.end = lane_offset(index) + geometry_.lane_bytes;
    l.last_record = 0;
    l.logged = 0;
  }

  template <class Grow>
  [[nodiscard]] status make_room(lane& l, std::uint64_t bytes, Grow&& grow) {
    return bytes <= room_of(l) ? status{} : extend(l, bytes, grow);
  }

  template <class Old, class Grow>
  [[nodiscard]] status append_pieces(lane& l, const byte_range& range, Old&& old, Grow&& grow) {
    for (std::uint64_t done = 0; done < range.bytes;) {
      const std::uint64_t piece = std::min(range.bytes - done, layout::undo_range_bytes_max);
      const std::uint64_t from = range.offset + done;
      if (status s = make_room(l, line_bytes + round_up(piece, 8), grow); !s) return s;
      old(from, piece, append_large(l, from, piece));
      done += piece;
    }
    return {};
  }
  // Appends a record of one range, its bytes copied straight from their place; returns where they are kept.
  const std::byte* append_large(lane& l, std::uint64_t from, std::uint64_t bytes) noexcept {
    const std::uint64_t data = layout::large_undo_data_at(l.cursor);
    copy_out(media_, base_ + data, base_ + from, bytes);
    auto* r = reinterpret_cast<layout::record_header*>(stage_of(l));
    *reinterpret_cast<std::uint64_t*>(r + 1) = layout::pack_range(from, bytes);
    describe(l, r, data - l.cursor + round_up(bytes, 8), layout::record_kind::large_undo, 1);
    r->checksum = seal_large(r, l.cursor, base_ + from, bytes, r->generation, body_key_of(l));
    put_staged(l, sizeof *r + 8);
    advance(l, r->bytes);
    return base_ + data;
  }

  [[nodiscard]] std::uint64_t body_key_of(const lane& l) const noexcept {
    return body_key(key_, static_cast<unsigned>(&l - lanes_.get()));
  }
  void describe(const lane& l, layout::record_header* r, std::uint64_t bytes, layout::record_kind kind,
                std::uint16_t count) noexcept {
    r->generation = l.generation + 1;
    r->previous = l.last_record;
    r->bytes = static_cast<std::uint32_t>(bytes);
    r->kind = static_cast<std::uint16_t>(kind);
    r->count = count;
  }
  static void advance(lane& l, std::uint64_t bytes) noexcept {
    l.last_record = l.cursor;
    l.cursor += layout::record_room(bytes);
    l.logged += layout::record_room(bytes);
  }

  // Finishes the record whose content is staged, of `bytes` bytes with its header.
  void finish_staged(lane& l, std::uint64_t bytes, layout::record_kind kind, unsigned count) noexcept {
    auto* r = reinterpret_cast<layout::record_header*>(stage_of(l));
    describe(l, r, bytes, kind, static_cast<std::uint16_t>(count));
    r->checksum = seal_for(r, l.cursor, bytes, r->generation, body_key_of(l));
    put_staged(l, bytes);
    advance(l, bytes);
  }
  // Copies the staged bytes to the cursor, in whole lines.
  void put_staged(lane& l, std::uint64_t bytes) noexcept {
    const std::uint64_t whole = layout::record_room(bytes);
    std::byte* const stage = stage_of(l);
    if (whole != bytes) std::memset(stage + bytes, 0, whole - bytes);
    copy_out(media_, base_ + l.cursor, stage, whole);
  }

  // Finishes a record that was written in place.
  void finish_record(lane& l, std::uint64_t bytes, layout::record_kind kind, std::uint16_t count) noexcept {
    auto* r = reinterpret_cast<layout::record_header*>(base_ + l.cursor);
    describe(l, r, bytes, kind, count);
    r->checksum = seal(base_, l.cursor, bytes, r->generation, body_key_of(l));
    media_.flush(r, bytes);
    advance(l, bytes);
  }

  // Makes room for a record of `bytes` and a link after it.
  template <class Grow>
  [[nodiscard]] status extend(lane& l, std::uint64_t bytes, Grow&& grow) {
    l.segments.reserve(l.segments.size() + 1);  // a segment that is not in the list would never be given back
    // Doubling: a transaction of n bytes takes O(log n) segments; but no more than it needs of what is kept for logs.
    const std::uint64_t needed = layout::record_room(bytes) + layout::record_room(layout::link_record_bytes);
    result<segment> s =
        grow(std::max(needed, 2 * geometry_.lane_bytes << std::min<std::size_t>(l.segments.size(), 16)), false);
    if (!s) s = grow(needed, true);
    if (!s) return s.error();
    // The page map names the segment before a link can lead to it.
    media_.fence(edge{"lane/E1"});
    l.segments.push_back(*s);
    auto* words = reinterpret_cast<std::uint64_t*>(base_ + l.cursor + sizeof(layout::record_header));
    words[0] = s->offset;
    words[1] = s->bytes;
    finish_record(l, layout::link_record_bytes, layout::record_kind::link, 0);
    l.cursor = s->offset;
    l.end = s->offset + s->bytes;
    return {};
  }

  // With `settling` held: makes the applied words durable, then records that they need no replay.
  void retire(lane& l, unsigned index) noexcept {
    recent_lines flushed;
    for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
      flush_pending(l, slot, flushed);
      l.pending[slot].clear();
    }
    media_.fence(edge{"lane/E2"});
    const std::uint64_t at = lane_offset(index);
    auto* header = reinterpret_cast<layout::lane_header*>(base_ + at);
    header->retired = seal_word(l.generation, word_seed(at));
    media_.flush(&header->retired, 8);
    media_.fence(edge{"lane/E3"});
    // release: pairs with the acquire in settle_all().
    l.retired.store(l.generation, std::memory_order_release);
  }

  M& media_;
  std::byte* base_;
  const geometry& geometry_;
  std::uint64_t key_;
  std::unique_ptr<lane[]> lanes_;
  platform::zeroed_memory stages_;  // apart from the lanes: unused ones cost no memory, and opening no time
};

}  // namespace nvm::log
