// Recovery (LSNVMM, section 4.5); included by heap.hpp.
//
// Two phases, as map and reduce.  First all chunks are read in parallel, once: blocks are checked, and their entries
// dealt out by home address, each to one of many shares; blocks at the ends of logs wait until it is decided which
// transactions have committed.  Then each share is replayed by one thread (share_replay.hpp).  Media change only where
// a chunk gets its end:
//
/// 1. F headers of chunks, and blocks that count in chunks without an end;
///                                     | logheap/E11  a process that was killed has left it in caches, and an end says
///                        that what is before it is durable
/// 2. S end of each chunk that has none, after the last block that counts; session = next, saved = 0; F them;
///                                     | logheap/E7  before anything else changes: blocks that were dropped must not
///                        come back when `through` passes them, and a saved mapping must not outlive what it says
// A crash before that leaves everything as it was.
//
// Which blocks count.
//   - A chunk with an end: all blocks up to there.  A block that does not hold is damaged; the next one is found by its
//     header.
//   - Another one was the end of a log.  Its thread fenced each block before it wrote the next, so that only the last
//     one can be torn; a block that does not hold, and has an intact block after it or is older than another block of
//     its thread, is damaged.  A cleaner writes many before it fences: after its end, everything from the first block
//     on that does not hold is dropped; the originals still exist (logheap/E9).
//   - A block in a chunk without an end, of a transaction above `through` whose cycle is not whole, is dropped, unless
//     a block of it is in a chunk that has an end, what is missing is damaged, its thread has a newer block or one of
//     another transaction stands after it: then it had committed.
//
// Volatile memory: 32 bytes an entry, besides what the heap keeps.
#pragma once

#include <cstdio>
#include <map>
#include <numeric>
#include <set>

#include "logheap/heap.hpp"
#include "logheap/mend_block.hpp"
#include "logheap/replay_record.hpp"
#include "logheap/share_replay.hpp"

namespace nvm::logheap {

template <media M, mapping Map>
class recovery {
 public:
  using heap_type = heap<M, Map>;
  using thread = typename heap_type::thread;

  recovery(heap_type& h, recovery_report& report) noexcept
      : heap_{h}, report_{report}, parts_{std::max(1U, h.settings_.recovery_threads)} {}

  // Fills mapping and home space.  errc::no_memory, corrupt.
  [[nodiscard]] status run() noexcept {
    try {
      return run_phases();
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to recover the heap");
    }
  }

 private:
  // A block of which it is not known yet whether its transaction has committed.
  struct block_found {
    std::uint64_t offset = 0;
    std::uint64_t version = 0;
    std::uint64_t peer = 0;
    bool dropped = false;
  };
  struct damaged_range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t version = 0;  // 0: not known
    bool kept = false;
  };
  struct chunk_found {
    std::vector<block_found> blocks;
    std::vector<damaged_range> damaged;
    std::uint64_t end = sizeof(layout::chunk_header);
    std::uint64_t newest = 0;
    std::uint64_t newest_intact = 0;
    std::uint32_t stamp = 0;  // 0: not known
    bool had_end = false;
    bool torn = false;
    damaged_range torn_block;  // if its header holds
  };
  struct tombstone {
    entry what;
    std::uint64_t version;
    bool holds = false;  // it is about a slot of a superblock that was learnt
  };
  // Findings of one part.
  struct part_found {
    std::vector<replay_list> dealt;  // for each share
    std::vector<tombstone> tombstones;
    std::size_t unknown = 0;     // from here on no superblock was known where they are, the newest last
    std::vector<entry> entries;  // of the block at hand
    std::uint64_t blocks = 0;
    std::uint64_t entries_seen = 0;
  };

  // Calls f(part) for all parts; the first exception of any becomes one here.
  template <class F>
  void in_parts(F&& f) {
    std::atomic<bool> failed{false};
    platform::run_parts(parts_, [&](unsigned part) noexcept {
      try {
        f(part);
      } catch (...) {
        failed.store(true, std::memory_order_relaxed);
      }
    });
    if (failed.load(std::memory_order_relaxed)) throw std::bad_alloc{};
  }

  // Calls f(part, number) for all chunks, in the order in which they lie: mostly that in which they were filled.
  template <class F>
  void each_chunk(F&& f) {
    std::atomic<std::uint32_t> next{0};
    in_parts([&](unsigned part) {
      for (std::uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < found_.size();) {
        f(parts_found_[part], order_[i]);
      }
    });
  }

  [[nodiscard]] status run_phases() {
    heap_type& h = heap_;
    found_.resize(h.chunks_.count());
    order_.resize(h.chunks_.count());
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return h.chunks_.at(a).offset < h.chunks_.at(b).offset; });
    // About a megabyte of records each.
    const std::uint64_t log_bytes = h.chunks_.count() * h.chunks_.chunk_bytes();
    const std::uint64_t shares =
        std::clamp<std::uint64_t>(log_bytes / share_log_bytes, parts_ == 1 ? 1 : 4 * parts_, 1024);
    rule_.first = h.chunks_.root().home_first;
    rule_.shift = static_cast<unsigned>(
        std::countr_zero(std::max(h.settings_.partition_bytes, h.chunks_.root().superblock_bytes)));
    rule_.shares_shift = static_cast<unsigned>(std::countr_zero(std::bit_ceil(shares)));
    parts_found_.resize(parts_);
    for (part_found& p : parts_found_) p.dealt.resize(rule_.shares());
    each_chunk([&](part_found& p, std::uint32_t i) { scan(p, i); });
    decide();
    each_chunk([&](part_found& p, std::uint32_t i) {
      for (const block_found& b : found_[i].blocks) {
        if (!b.dropped) deal(p, i, b.offset);
      }
    });
    for (const auto& [number, d] : forged_) found_[number].damaged.push_back(d);
    deal_tombstones();
    if (h.settings_.refuse_damage) {
      if (status s = refuse_damage(); !s) return s;
    }
    if (status s = replay_all(); !s) return s;
    finish();
    return {};
  }

  // ---- phase 1 ----

  void scan(part_found& p, std::uint32_t number) {
    heap_type& h = heap_;
    chunk& c = h.chunks_.at(number);
    if (c.state.load(std::memory_order_relaxed) == chunk_state::free || c.use == layout::chunk_use::saved) return;
    chunk_found& f = found_[number];
    const auto bound = [&](std::size_t field) -> std::optional<std::uint32_t> {
      const std::uint64_t word = h.chunks_.load(c.offset + field) & checked_mask;
      if (!h.chunks_.holds(c.offset + field) || !layout::bound_to(word, c.generation)) return std::nullopt;
      return static_cast<std::uint32_t>(word);
    };
    f.stamp = bound(offsetof(layout::chunk_header, owner)).value_or(0);
    const bool by_cleaner = c.by_cleaner;
    const std::uint64_t bytes = h.chunks_.chunk_bytes();
    std::uint64_t end = bytes;  // beyond it nothing counts
    std::uint64_t sure = 0;     // before it everything was durable
    if (const auto mark = bound(offsetof(layout::chunk_header, end)); mark && *mark <= bytes) {
      sure = *mark;
      f.had_end = !by_cleaner;
      if (f.had_end) end = sure;
    }
    const std::uint64_t through = h.chunks_.through();
    std::uint64_t at = sizeof(layout::chunk_header);
    while (at < end) {
      layout::block_header b;
      const block_place place = h.chunks_.place(c, at);
      const block_fault fault = inspect_block(h.base_, place, bytes, b);
      if (fault == block_fault::none && at + b.bytes <= end) {
        f.newest = std::max(f.newest, b.version);
        f.newest_intact = std::max(f.newest_intact, b.version);
        // In a chunk that has an end it was durable, as all of its transaction was.
        if (f.had_end || b.version <= through || (b.flags & layout::block_moved) != 0) {
          deal(p, number, place.offset());
        } else {
          f.blocks.push_back({place.offset(), b.version, peer_of(b), false});
        }
        at += step_over(fault, b);
        f.end = at;
        continue;
      }
      const bool has_header = fault != block_fault::no_header;
      if (has_header) f.newest = std::max(f.newest, b.version);
      std::uint64_t behind = at + step_over(fault, b);
      const bool is_last = at >= sure && by_cleaner;
      if (!is_last) behind = next_intact(c, behind, end);
      if (!is_last && (behind < end || at < sure)) {
        behind = std::min(behind, end);
        if (h.settings_.salvage && mend_block(h.base_, place, bytes, behind - at, f.newest_intact, b) &&
            at + b.bytes <= end) {
          keep(p, number, place.offset(), b);
          at += round_up(b.bytes, layout::block_align);
          f.end = at;
          continue;
        }
        f.damaged.push_back({place.offset(), c.offset + behind, has_header ? b.version : 0});
        f.end = at = behind;
        continue;
      }
      f.torn = has_header || b.version != 0;
      if (has_header && !by_cleaner) {
        f.torn_block = {place.offset(), place.offset() + round_up(b.bytes, layout::block_align), b.version};
      }
      break;
    }
    if (f.had_end) f.end = sure;
  }

  // Where the next block begins that holds, from `at` on; `end` or beyond: none does.
  [[nodiscard]] std::uint64_t next_intact(const chunk& c, std::uint64_t at, std::uint64_t end) noexcept {
    while (at < end) {
      layout::block_header b;
      const block_fault fault = inspect_block(heap_.base_, heap_.chunks_.place(c, at), heap_.chunks_.chunk_bytes(), b);
      if (fault == block_fault::none) break;
      at += step_over(fault, b);
    }
    return at;
  }
  // Keeps a block whose entries count, also if its contents are damaged.
  void keep(part_found& p, std::uint32_t number, std::uint64_t offset, const layout::block_header& b) {
    chunk_found& f = found_[number];
    f.newest = std::max(f.newest, b.version);
    f.damaged.push_back({offset, offset + round_up(b.bytes, layout::block_align), b.version, true});
    deal(p, number, offset);
  }

  // The block at an offset, among those not known to have committed.
  [[nodiscard]] const block_found* block_at(std::uint64_t offset) const noexcept {
    const std::uint32_t number = heap_.chunks_.number_of(offset);
    if (number == chunk_store<M>::none) return nullptr;
    const auto& blocks = found_[number].blocks;
    const auto b = std::lower_bound(blocks.begin(), blocks.end(), offset,
                                    [](const block_found& x, std::uint64_t o) { return x.offset < o; });
    return b != blocks.end() && b->offset == offset ? &*b : nullptr;
  }
  // The block of the version that is there, in a chunk that has an end.
  [[nodiscard]] std::optional<block_found> durable_at(std::uint64_t offset, std::uint64_t version) const noexcept {
    const std::uint32_t number = heap_.chunks_.number_of(offset);
    if (number == chunk_store<M>::none || !found_[number].had_end) return std::nullopt;
    const chunk& c = heap_.chunks_.at(number);
    layout::block_header b;
    const block_fault fault =
        inspect_block(heap_.base_, heap_.chunks_.place(c, offset - c.offset), heap_.chunks_.chunk_bytes(), b);
    if (fault != block_fault::none || offset - c.offset + b.bytes > found_[number].end || b.version != version ||
        (b.flags & layout::block_moved) != 0) {
      return std::nullopt;
    }
    return block_found{offset, b.version, peer_of(b), false};
  }
  [[nodiscard]] bool is_damaged(std::uint64_t offset) const noexcept {
    const std::uint32_t number = heap_.chunks_.number_of(offset);
    if (number == chunk_store<M>::none) return false;
    const auto& all = found_[number].damaged;
    return std::any_of(all.begin(), all.end(),
                       [&](const damaged_range& d) { return offset >= d.from && offset < d.to; });
  }
  // Where the blocks from `b` on lead.  whole: back to it, or to damage that was durable; missing: nowhere, though one
  // of them was durable; torn: nowhere.
  enum class cycle : std::uint8_t { whole, missing, torn };
  [[nodiscard]] cycle follow(const block_found& b) const noexcept {
    bool durable = false;
    std::uint64_t next = b.peer;
    for (std::size_t steps = 0; steps <= found_.size() && next != b.offset; ++steps) {
      if (is_damaged(next)) return cycle::whole;
      const block_found* at = block_at(next);
      const std::optional<block_found> sure = at == nullptr ? durable_at(next, b.version) : std::nullopt;
      if (sure) {
        durable = true;
        at = &*sure;
      }
      if (at == nullptr || at->version != b.version) return durable ? cycle::missing : cycle::torn;
      next = at->peer;
    }
    return next == b.offset ? cycle::whole : durable ? cycle::missing : cycle::torn;
  }
  // Whether the thread that has filled the chunk fenced its transaction of this version: it has written a later one
  // then.
  [[nodiscard]] bool went_on(const chunk_found& f, std::uint64_t version) const {
    const auto newest = newest_.find(f.stamp);
    return f.stamp != 0 && newest != newest_.end() && version < newest->second;
  }
  void find_newest() {
    for (const chunk_found& f : found_) {
      if (f.newest_intact == 0) continue;
      std::uint64_t& newest = newest_[f.stamp];
      newest = std::max(newest, f.newest_intact);
    }
  }
  // A last block that does not hold was durable if its thread has written a later one.
  void find_damaged_ends(std::uint64_t through) {
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      chunk_found& f = found_[i];
      const std::uint64_t version = f.torn_block.version;
      if (version == 0 || (version > through && !went_on(f, version))) continue;
      const block_place place =
          heap_.chunks_.place(heap_.chunks_.at(i), f.torn_block.from - heap_.chunks_.at(i).offset);
      layout::block_header b;
      if (heap_.settings_.salvage && mend_block(heap_.base_, place, heap_.chunks_.chunk_bytes(),
                                                f.torn_block.to - f.torn_block.from, f.newest_intact, b)) {
        keep(parts_found_[0], i, f.torn_block.from, b);
      } else {
        f.damaged.push_back(f.torn_block);
      }
      f.torn = false;
      f.end = f.torn_block.to - heap_.chunks_.at(i).offset;
    }
  }
  // Decides which blocks at the ends of logs belong to transactions that have committed.
  void decide() {
    const std::uint64_t through = heap_.chunks_.through();
    find_newest();
    find_damaged_ends(through);
    std::vector<std::pair<std::uint32_t, block_found*>> drop;
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      chunk_found& f = found_[i];
      for (block_found& b : f.blocks) {
        const cycle c = follow(b);
        if (c == cycle::whole) continue;
        // A block after it also says that it was durable, where the thread's stamp is damaged; and the new end must not
        // cut that block off.
        if (c == cycle::missing || went_on(f, b.version) || f.blocks.back().version != b.version) {
          missing_.insert(b.version);
          continue;
        }
        drop.push_back({i, &b});
      }
    }
    std::uint64_t version = through;
    for (const chunk_found& f : found_) version = std::max(version, f.newest);
    heap_.clock_.store(version, std::memory_order_relaxed);
    for (const auto& [i, b] : drop) {
      b->dropped = true;
      found_[i].end = std::min(found_[i].end, b->offset - heap_.chunks_.at(i).offset);
      ++report_.dropped;
    }
  }

  // Deals out the entries of a block that counts.  One with entries that no heap has written gets no further.
  void deal(part_found& p, std::uint32_t number, std::uint64_t offset) {
    heap_type& h = heap_;
    chunk& c = h.chunks_.at(number);
    layout::block_header header;
    std::memcpy(&header, h.base_ + offset, sizeof header);
    p.entries.clear();
    bool inside = true;
    const bool fits = for_each_entry(h.base_, h.chunks_.place(c, offset - c.offset), header, [&](const entry& e) {
      inside = inside && h.homes_->inside(e.home, e.size);
      p.entries.push_back(e);
    });
    const auto is_possible = [&](const entry& e) { return !makes_object(e) || learn(e); };
    if (!fits || !inside || !std::all_of(p.entries.begin(), p.entries.end(), is_possible)) {
      const std::lock_guard guard{lock_};
      forged_.push_back({number, {offset, offset + header.bytes, header.version}});
      return;
    }
    ++p.blocks;
    std::uint64_t filled = 0;
    for (const entry& e : p.entries) {
      // When all allocations are known: deal_tombstones().
      if (e.kind == layout::entry_kind::tombstone) {
        p.tombstones.push_back({e, header.version});
        continue;
      }
      ++p.entries_seen;
      if (layout::has_contents(e.kind)) filled += e.size;
      if (e.kind == layout::entry_kind::update) {
        cut(p, e, header.version, e.size);
        continue;
      }
      filled += entry_live_bytes;
      cut(p, e, header.version, h.homes_->room_of(e.size));
    }
    c.filled.fetch_add(static_cast<std::uint32_t>(filled), std::memory_order_relaxed);
  }
  [[nodiscard]] static bool makes_object(const entry& e) noexcept {
    return e.kind == layout::entry_kind::allocation || e.kind == layout::entry_kind::bare;
  }
  // Learns where an object was.  False: none of this size can have been there, beside others that were learnt.
  [[nodiscard]] bool learn(const entry& e) {
    const status s = heap_.homes_->learn(e.home, e.size);
    if (!s && s.error() == errc::no_memory) throw std::bad_alloc{};
    return bool{s};
  }
  // A tombstone that hides nothing any more may be older than the superblock that is there now, of another size: it is
  // left out.  An allocation in the log proves its superblock, for while it is there no other can have been made.
  // Where there is none, the newest tombstone does: entries that it hides have kept the superblock since.
  void deal_tombstones() {
    const auto is_known = [&](const tombstone& t) { return heap_.homes_->is_known_around(t.what.home, t.what.size); };
    in_parts([&](unsigned part) {
      auto& all = parts_found_[part].tombstones;
      const auto unknown = std::partition(all.begin(), all.end(), is_known);
      std::for_each(all.begin(), unknown, [&](tombstone& t) { t.holds = learn(t.what); });
      std::sort(unknown, all.end(), [](const tombstone& a, const tombstone& b) { return a.version < b.version; });
      parts_found_[part].unknown = static_cast<std::size_t>(unknown - all.begin());
    });
    learn_unknown();
    in_parts([&](unsigned part) {
      part_found& p = parts_found_[part];
      for (const tombstone& t : p.tombstones) {
        if (!t.holds) continue;
        ++p.entries_seen;
        heap_.chunks_.of(t.what.self).filled.fetch_add(entry_live_bytes, std::memory_order_relaxed);
        cut(p, t.what, t.version, heap_.homes_->room_of(t.what.size));
      }
      std::vector<tombstone>{}.swap(p.tombstones);
    });
  }
  // Learns from tombstones about what no allocation has told of, of all parts the newest first.
  void learn_unknown() {
    std::vector<std::size_t> ends;  // those after it have been looked at
    ends.reserve(parts_found_.size());
    for (const part_found& p : parts_found_) ends.push_back(p.tombstones.size());
    for (;;) {
      tombstone* newest = nullptr;
      std::size_t* end = nullptr;
      for (std::size_t i = 0; i < parts_found_.size(); ++i) {
        if (ends[i] == parts_found_[i].unknown) continue;
        tombstone& t = parts_found_[i].tombstones[ends[i] - 1];
        if (newest != nullptr && t.version <= newest->version) continue;
        newest = &t;
        end = &ends[i];
      }
      if (newest == nullptr) return;
      newest->holds = learn(newest->what);
      --*end;
    }
  }
  // `room`: bytes from its home on that the entry is about; contents of the first of them.
  void cut(part_found& p, const entry& e, std::uint64_t version, std::uint64_t room) {
    const std::uint64_t contents = layout::has_contents(e.kind) ? e.size : 0;
    const std::uint64_t span = std::uint64_t{1} << rule_.shift;
    for (std::uint64_t done = 0; done < room;) {
      const std::uint64_t x = e.home + done - rule_.first;
      const std::uint64_t n =
          std::min({room - done, replay_record::bytes_max - x % replay_record::bytes_max, span - x % span});
      const std::uint64_t bytes = done < contents ? std::min(n, contents - done) : 0;
      p.dealt[rule_.share_of(e.home + done)].push_back(
          replay_record::of(e.kind, done == 0, e.home + done, e.log + done, bytes, e.self, n, version));
      done += n;
    }
  }

  // ---- phase 2 ----

  static constexpr std::uint64_t share_log_bytes = std::uint64_t{4} << 20;

  [[nodiscard]] status replay_all() {
    std::vector<thread*> threads;
    for (unsigned i = 0; i < parts_; ++i) {
      const auto t = heap_.join();
      if (!t) return t.error();
      threads.push_back(*t);
    }
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    in_parts([&](unsigned part) {
      share_replay<M, Map> replay{heap_, *threads[part], rule_};
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < rule_.shares();) {
        for (part_found& p : parts_found_) replay.take(p.dealt[i]);
        if (!replay.run()) failed.store(true, std::memory_order_relaxed);
      }
    });
    for (thread* t : threads) heap_.leave(*t);
    if (failed.load(std::memory_order_relaxed)) return fail(errc::no_memory, "no volatile memory for the mapping");
    return {};
  }

  void finish() {
    heap_type& h = heap_;
    for (const part_found& p : parts_found_) {
      report_.blocks += p.blocks;
      report_.entries += p.entries_seen;
    }
    write_back();
    h.homes_->end_learning([&](log_t tombstone) { h.no_longer_live(tombstone, entry_live_bytes); });
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      chunk& c = h.chunks_.at(i);
      chunk_found& f = found_[i];
      if (c.state.load(std::memory_order_relaxed) == chunk_state::free || c.use == layout::chunk_use::saved) continue;
      ++report_.chunks;
      report_.torn += f.torn ? 1 : 0;
      c.used.store(static_cast<std::uint32_t>(f.end), std::memory_order_relaxed);
      c.newest.store(f.newest, std::memory_order_relaxed);
      c.state.store(f.damaged.empty() ? chunk_state::sealed : chunk_state::damaged, std::memory_order_relaxed);
      for (const damaged_range& d : f.damaged) describe(c, d);
      if (!f.had_end) h.chunks_.mark_end(c, c.used.load(std::memory_order_relaxed));
    }
    for (const std::uint64_t version : missing_) report_.damaged.push_back({0, 0, false, version, {}, {}});
  }
  // Writes back words that a killed process may have left in caches.
  void write_back() noexcept {
    heap_type& h = heap_;
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      const chunk_found& f = found_[i];
      h.medium_.flush(h.base_ + h.chunks_.at(i).offset, f.had_end ? sizeof(layout::chunk_header) : f.end);
    }
    h.medium_.fence(edge{"logheap/E11"});
  }
  // errc::corrupt, with the readable facts of the first damaged block.
  [[nodiscard]] status refuse_damage() {
    std::size_t blocks = missing_.size();
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      blocks += found_[i].damaged.size();
      for (const damaged_range& d : found_[i].damaged) {
        if (report_.damaged.empty()) describe(heap_.chunks_.at(i), d);
      }
    }
    if (blocks == 0) return {};
    if (report_.damaged.empty()) report_.damaged.push_back({0, 0, false, *missing_.begin(), {}, {}});
    const damaged_block& first = report_.damaged.front();
    return fail(
        errc::corrupt,
        "log: found %zu blocks that fail their checks, expected none; the first: offset %lu, version %lu, about %s",
        blocks, first.offset, first.version, first.homes.empty() ? "what cannot be read" : first.homes.c_str());
  }
  // Describes a damaged block as far as it can still be read.
  void describe(const chunk& c, const damaged_range& d) {
    heap_type& h = heap_;
    damaged_block out{d.from, d.to, d.kept, d.version, {}, {}};
    layout::block_header header;
    std::memcpy(&header, h.base_ + d.from, sizeof header);
    const bool plausible = header.bytes >= sizeof header && header.bytes <= c.offset + h.chunks_.chunk_bytes() - d.from;
    if (plausible) {
      unsigned told = 0;
      const auto tell = [&](const entry& e) {
        char text[64];
        std::snprintf(text, sizeof text, "%s[%lx, %lx)", told == 0 ? "" : " ", e.home, e.home + e.size);
        if (!h.homes_->inside(e.home, e.size)) return;
        if (told++ < 16) out.homes += text;
        out.ranges.push_back({e.home, e.size});
      };
      if (for_each_entry(h.base_, h.chunks_.place(c, d.from - c.offset), header, tell) && out.version == 0) {
        out.version = header.version;
      }
    }
    report_.damaged.push_back(std::move(out));
  }

  heap_type& heap_;
  recovery_report& report_;
  const unsigned parts_;
  std::mutex lock_;  // of forged_
  std::vector<chunk_found> found_;
  std::vector<std::uint32_t> order_;                             // numbers of chunks
  std::vector<std::pair<std::uint32_t, damaged_range>> forged_;  // by chunk: blocks that the library cannot have
                                                                 // written
  std::map<std::uint32_t, std::uint64_t> newest_;                // version of an intact block, of each thread
  std::set<std::uint64_t> missing_;                              // versions with a block whose header is lost, too
  share_rule rule_;
  std::vector<part_found> parts_found_;
};

template <media M, mapping Map>
status heap<M, Map>::make_volatile_state() noexcept {
  const layout::root& r = chunks_.root();
  try {
    map_.reset();
    homes_.reset();
    homes_.emplace(epochs_, r.home_first, r.home_bytes, r.superblock_bytes, epochs::threads_max);
    make_map_(map_, epochs_, mapping_settings{r.home_first, r.home_bytes, settings_.partition_bytes});
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the heap");
  }
  if (!homes_->exists()) return fail(errc::no_memory, "no volatile memory for home space");
  return map_->exists();
}

template <media M, mapping Map>
status heap<M, Map>::open(recovery_report& report) noexcept {
  report = {};
  if (status s = chunks_.open_root(); !s) return s;
  // Before anything is made for it: the pool knows where its home space is, too.
  if (const layout::root& r = chunks_.root();
      r.home_first != settings_.home_first || r.home_bytes != settings_.home_bytes) {
    return fail(errc::corrupt, "home space: found [%lx, +%lx) in the heap's root, expected [%lx, +%lx)", r.home_first,
                r.home_bytes, settings_.home_first, settings_.home_bytes);
  }
  if (status s = chunks_.read_list(); !s) return s;
  if (status s = make_volatile_state(); !s) return s;
  if (settings_.use_saved && chunks_.saved() != 0) {
    const status loaded = saved_mapping<M, Map>{*this}.load();
    report.clean = bool{loaded};
    try {
      if (loaded.error() == errc::corrupt) report.saved_fault = last_message();
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to recover the heap");
    }
  }
  if (!report.clean) {
    for (auto& p : thread_pointers_) p.store(nullptr, std::memory_order_relaxed);
    for (auto& t : threads_) t.reset();
    if (status s = make_volatile_state(); !s) return s;
    for (std::uint32_t i = 0; i < chunks_.count(); ++i) chunks_.at(i).reset_counts();
    if (status s = recovery<M, Map>{*this, report}.run(); !s) return s;
  }
  // The saved mapping is of no use from now on.
  for (std::uint32_t i = 0; i < chunks_.count(); ++i) {
    chunk& c = chunks_.at(i);
    if (c.use != layout::chunk_use::saved) continue;
    chunks_.retire(c);
    c.use = layout::chunk_use::free;
    c.state.store(chunk_state::free, std::memory_order_relaxed);
  }
  chunks_.set_saved(0);
  chunks_.set_session(chunks_.session() >= layout::version_max ? layout::session_after_last : chunks_.session() + 1);
  medium_.fence(edge{"logheap/E7"});
  if (status s = chunks_.fill_pool(); !s) return s;
  const auto own = join_as(true);
  if (!own) return own.error();
  own_cleaner_ = *own;
  return {};
}

}  // namespace nvm::logheap
