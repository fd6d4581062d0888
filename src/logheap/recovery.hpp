// Recovery (LSNVMM, section 4.5); included by heap.hpp.
//
// Two phases, as map and reduce.  First all chunks are read in parallel, their blocks checked, and it is decided which
// transactions have committed; then the entries of those are dealt out by home address, and each share is replayed by
// one thread, in order of versions.  What is on media changes only where a chunk gets its end:
//
/// 1. S end of each chunk that has none, behind the last block that counts; session = next, saved = 0; F them;
///                                     | logheap/E7  before anything else changes: blocks that were dropped must not
///                        come back when `through` passes them, and a saved mapping must not outlive what it says
// A crash before that leaves everything as it was.
//
// Which blocks count.
//   - A chunk with an end: all up to there.  What does not hold is damaged; the next block is found by its header.
//   - Another one was the end of a log.  Its thread fenced each block before it wrote the next, so that only the last
//     one can be torn; what does not hold, and has an intact block behind it or is older than another block of its
//     thread, is damaged.  A cleaner writes many before it fences: behind its end, what follows the first block that
//     does not hold is dropped; it is somewhere else still.
//   - A block in a chunk without an end, of a transaction above `through` whose cycle is not whole, is dropped, unless
//     what is missing is damaged, its thread has a newer block or another one stands behind it: then it had committed.
#pragma once

#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "logheap/heap.hpp"

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
  struct block_found {
    std::uint64_t offset = 0;
    std::uint64_t version = 0;
    std::uint64_t peer = 0;
    bool moved = false;
    bool dropped = false;
  };
  struct damaged_range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t version = 0;  // 0: not known
  };
  struct chunk_found {
    std::vector<block_found> blocks;
    std::vector<damaged_range> damaged;
    std::uint64_t end = sizeof(layout::chunk_header);
    std::uint64_t newest = 0;
    std::uint32_t stamp = 0;  // 0: not known
    bool had_end = false;
    bool torn = false;
    damaged_range torn_block;  // if its header holds
  };
  // What an entry says, cut to one share.
  struct record {
    home_t home = 0;
    std::uint64_t size = 0;
    log_t log = 0;  // of contents, or the entry itself
    std::uint64_t version = 0;
    layout::entry_kind kind = layout::entry_kind::update;
    bool first = true;      // of an object: the part where it begins
    bool obsolete = false;  // there is a newer one of the same bytes
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

  [[nodiscard]] status run_phases() {
    heap_type& h = heap_;
    found_.resize(h.chunks_.count());
    std::atomic<std::uint32_t> next{0};
    in_parts([&](unsigned) {
      for (std::uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < found_.size();) scan(i);
    });
    decide();
    learn_objects();
    shares_ = std::size_t{parts_} * shares_each;
    dealt_.resize(parts_);
    for (auto& d : dealt_) d.resize(shares_);
    next.store(0, std::memory_order_relaxed);
    in_parts([&](unsigned part) {
      for (std::uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < found_.size();) deal(i, part);
    });
    if (h.settings_.refuse_damage) {
      if (status s = refuse_damage(); !s) return s;
    }
    if (status s = replay_all(); !s) return s;
    finish();
    return {};
  }

  // ---- phase 1 ----

  void scan(std::uint32_t number) {
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
    std::uint64_t at = sizeof(layout::chunk_header);
    while (at < end) {
      layout::block_header b;
      const block_place place = h.chunks_.place(c, at);
      const block_fault fault = inspect_block(h.base_, place, bytes, b);
      if (fault == block_fault::none && at + b.bytes <= end) {
        f.blocks.push_back({place.offset(), b.version, peer_of(b), (b.flags & layout::block_moved) != 0, false});
        f.newest = std::max(f.newest, b.version);
        at += round_up(b.bytes, layout::block_align);
        f.end = at;
        continue;
      }
      if (fault == block_fault::content) f.newest = std::max(f.newest, b.version);
      // The next block: behind this one, if its header holds, or wherever there is one.
      std::uint64_t behind =
          at + (fault == block_fault::content ? round_up(b.bytes, layout::block_align) : layout::block_align);
      const bool is_last = at >= sure && by_cleaner;
      while (!is_last && behind < end) {
        layout::block_header other;
        if (inspect_block(h.base_, h.chunks_.place(c, behind), bytes, other) == block_fault::none) break;
        behind += layout::block_align;
      }
      if (!is_last && (behind < end || at < sure)) {
        behind = std::min(behind, end);
        f.damaged.push_back({place.offset(), c.offset + behind, fault == block_fault::content ? b.version : 0});
        f.end = at = behind;
        continue;
      }
      f.torn = fault == block_fault::content || b.version != 0;
      if (fault == block_fault::content && !by_cleaner) {
        f.torn_block = {place.offset(), place.offset() + round_up(b.bytes, layout::block_align), b.version};
      }
      break;
    }
    if (f.had_end) f.end = sure;
  }

  [[nodiscard]] const block_found* block_at(std::uint64_t offset) const noexcept {
    const std::uint32_t number = heap_.chunks_.number_of(offset);
    if (number == chunk_store<M>::none) return nullptr;
    const auto& blocks = found_[number].blocks;
    const auto b = std::lower_bound(blocks.begin(), blocks.end(), offset,
                                    [](const block_found& x, std::uint64_t o) { return x.offset < o; });
    return b != blocks.end() && b->offset == offset ? &*b : nullptr;
  }
  [[nodiscard]] bool is_damaged(std::uint64_t offset) const noexcept {
    const std::uint32_t number = heap_.chunks_.number_of(offset);
    if (number == chunk_store<M>::none) return false;
    const auto& all = found_[number].damaged;
    return std::any_of(all.begin(), all.end(),
                       [&](const damaged_range& d) { return offset >= d.from && offset < d.to; });
  }
  // The blocks from `b` on lead back to it, or to what was durable and is damaged.
  [[nodiscard]] bool is_whole(const block_found& b) const noexcept {
    const block_found* at = &b;
    for (std::size_t steps = 0; steps <= found_.size(); ++steps) {
      if (is_damaged(at->peer)) return true;
      const block_found* next = block_at(at->peer);
      if (next == nullptr || next->version != b.version || next->moved) return false;
      if (next == &b) return true;
      at = next;
    }
    return false;
  }
  // The thread that has filled the chunk fenced its transaction of this version: it has written a later one.
  [[nodiscard]] bool went_on(const chunk_found& f, std::uint64_t version) const {
    const auto newest = newest_.find(f.stamp);
    return f.stamp != 0 && newest != newest_.end() && version < newest->second;
  }
  void find_newest() {
    for (const chunk_found& f : found_) {
      for (const block_found& b : f.blocks) newest_[f.stamp] = std::max(newest_[f.stamp], b.version);
    }
  }
  // A last block that does not hold was durable if its thread has written a later one.
  void find_damaged_ends(std::uint64_t through) {
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      chunk_found& f = found_[i];
      const std::uint64_t version = f.torn_block.version;
      if (version == 0 || (version > through && !went_on(f, version))) continue;
      f.damaged.push_back(f.torn_block);
      f.torn = false;
      f.end = f.torn_block.to - heap_.chunks_.at(i).offset;
    }
  }
  // Which blocks of the ends of logs are of transactions that have committed.
  void decide() {
    const std::uint64_t through = heap_.chunks_.through();
    find_newest();
    find_damaged_ends(through);
    std::vector<std::pair<std::uint32_t, block_found*>> drop;
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      chunk_found& f = found_[i];
      for (block_found& b : f.blocks) {
        if (b.moved || b.version <= through) continue;
        // In a chunk that has an end it was durable, as all of its transaction was.
        if (f.had_end || is_whole(b)) continue;
        // What stands behind it says so, too, where the thread's stamp is damaged; nor may the new end cut it off.
        if (went_on(f, b.version) || &b != &f.blocks.back()) {
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

  // Calls visit(block, header, entry) for the entries of blocks that count.
  template <class Visit>
  void each_entry(std::uint32_t number, Visit&& visit) {
    heap_type& h = heap_;
    const chunk& c = h.chunks_.at(number);
    for (block_found& b : found_[number].blocks) {
      if (b.dropped) continue;
      const block_place place = h.chunks_.place(c, b.offset - c.offset);
      layout::block_header header;
      std::memcpy(&header, h.base_ + b.offset, sizeof header);
      if (!for_each_entry(h.base_, place, header, [&](const entry& e) { visit(b, e); })) {
        b.dropped = true;
        note_damage(number, {b.offset, b.offset + header.bytes, b.version});
      }
    }
  }
  void note_damage(std::uint32_t number, const damaged_range& d) {
    const std::lock_guard guard{lock_};
    found_[number].damaged.push_back(d);
  }

  // Where objects were.  Allocations first: a tombstone that hides nothing any more may be older than the superblock
  // that is there now, and teaches only where nothing else is known.
  void learn_objects() {
    for (const bool tombstones : {false, true}) {
      std::atomic<std::uint32_t> next{0};
      in_parts([&](unsigned) {
        for (std::uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < found_.size();) {
          // Entries that no heap has written do not get any further.
          for (block_found& b : found_[i].blocks) {
            if (!tombstones) check_entries(i, b);
          }
          each_entry(i, [&](const block_found& b, const entry& e) {
            const bool is_tombstone = e.kind == layout::entry_kind::tombstone;
            if (e.kind == layout::entry_kind::update || is_tombstone != tombstones) return;
            const status s = heap_.homes_->learn(e.home, e.size);
            if (s) return;
            if (s.error() == errc::no_memory) throw std::bad_alloc{};
            if (!is_tombstone) note_damage(i, {b.offset, b.offset + 1, b.version});
            const std::lock_guard guard{lock_};
            strange_.push_back(e.self);
          });
        }
      });
    }
    std::sort(strange_.begin(), strange_.end());
  }
  // Entries of a block lie in the home space.
  void check_entries(std::uint32_t number, block_found& b) {
    if (b.dropped) return;
    heap_type& h = heap_;
    const chunk& c = h.chunks_.at(number);
    layout::block_header header;
    std::memcpy(&header, h.base_ + b.offset, sizeof header);
    bool inside = true;
    const bool fits = for_each_entry(h.base_, h.chunks_.place(c, b.offset - c.offset), header,
                                     [&](const entry& e) { inside = inside && h.homes_->inside(e.home, e.size); });
    if (fits && inside) return;
    b.dropped = true;
    note_damage(number, {b.offset, b.offset + header.bytes, b.version});
  }

  // ---- phase 2 ----

  static constexpr unsigned shares_each = 16;
  [[nodiscard]] std::uint64_t share_bytes() const noexcept {
    return std::max(heap_.settings_.partition_bytes, heap_.chunks_.root().superblock_bytes);
  }
  void deal(std::uint32_t number, unsigned part) {
    chunk_found& f = found_[number];
    std::uint64_t filled = 0;
    std::uint64_t entries = 0;
    each_entry(number, [&](const block_found& b, const entry& e) {
      if (std::binary_search(strange_.begin(), strange_.end(), e.self)) return;
      ++entries;
      if (e.kind != layout::entry_kind::update) {
        filled += entry_live_bytes;
        const home_space::slot s = heap_.homes_->find(e.home);
        cut(part, {s.home, s.bytes, e.self, b.version, e.kind});
      }
      if (e.kind != layout::entry_kind::tombstone && !heap_.homes_->count(e.home, e.size)) {
        heap_.homes_->keep_out(e.home, e.size);
      }
      if (layout::has_contents(e.kind)) {
        filled += e.size;
        cut(part, {e.home, e.size, e.log, b.version, layout::entry_kind::update});
      }
    });
    heap_.chunks_.at(number).filled.store(static_cast<std::uint32_t>(filled), std::memory_order_relaxed);
    std::uint64_t blocks = 0;
    for (const block_found& b : f.blocks) blocks += b.dropped ? 0 : 1;
    const std::lock_guard guard{lock_};
    report_.entries += entries;
    report_.blocks += blocks;
  }
  void cut(unsigned part, record r) {
    const std::uint64_t span = share_bytes();
    for (std::uint64_t left = r.size; left != 0; left -= r.size) {
      r.size = std::min(left, span - r.home % span);
      dealt_[part][r.home / span % shares_].push_back(r);
      r.home += r.size;
      if (r.kind == layout::entry_kind::update) r.log += r.size;
      r.first = false;
    }
  }

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
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < shares_;) {
        if (!replay(i, *threads[part])) failed.store(true, std::memory_order_relaxed);
      }
    });
    for (thread* t : threads) heap_.leave(*t);
    if (failed.load(std::memory_order_relaxed)) return fail(errc::no_memory, "no volatile memory for the mapping");
    return {};
  }
  [[nodiscard]] bool replay(std::size_t share, thread& t) {
    std::vector<record> all;
    for (auto& d : dealt_) {
      all.insert(all.end(), d[share].begin(), d[share].end());
      std::vector<record>{}.swap(d[share]);
    }
    // Of updates of the same bytes, the newest.
    const auto is_update = [](const record& r) { return r.kind == layout::entry_kind::update; };
    std::sort(all.begin(), all.end(), [&](const record& a, const record& b) {
      return std::tuple{a.home, a.size, is_update(a), b.version} < std::tuple{b.home, b.size, is_update(b), a.version};
    });
    for (std::size_t i = 1; i < all.size(); ++i) {
      const record& before = all[i - 1];
      record& r = all[i];
      r.obsolete = is_update(r) && is_update(before) && r.home == before.home && r.size == before.size;
    }
    std::erase_if(all, [](const record& r) { return r.obsolete; });
    // Of a version, an object comes before what was stored into it.
    std::sort(all.begin(), all.end(), [&](const record& a, const record& b) {
      return std::tuple{a.version, is_update(a), a.home} < std::tuple{b.version, is_update(b), b.home};
    });
    heap_type& h = heap_;
    const typename heap_type::inside in{h, t};
    const auto replaced = [&](const piece& p) { h.no_longer_live(p.log, p.size); };
    for (const record& r : all) {
      if (is_update(r) && is_of_freed_slot(r.home)) continue;
      const home_range range{r.home, r.size};
      if (!h.map_->reserve(t.client_, std::span{&range, 1})) return false;
      if (is_update(r)) {
        h.chunks_.of(r.log).live.fetch_add(static_cast<std::uint32_t>(r.size), std::memory_order_relaxed);
        const piece p{r.home, r.size, r.log};
        h.map_->assign(t.client_, std::span{&p, 1}, replaced);
        continue;
      }
      h.map_->erase(t.client_, range, replaced);
      if (!r.first) continue;
      const auto what = r.kind == layout::entry_kind::tombstone ? slot_word::state::freed : slot_word::state::allocated;
      const slot_word old = home_space::set(h.homes_->find(r.home), what, r.log);
      if (old.what() != slot_word::state::none) h.no_longer_live(old.entry(), entry_live_bytes);
      h.chunks_.of(r.log).live.fetch_add(entry_live_bytes, std::memory_order_relaxed);
    }
    h.map_->release(t.client_);
    return true;
  }

  // A store into an object whose allocation is damaged, in the slot of one that was freed before: the slot is free, and
  // must be zeros to whoever gets it.  Large objects are not given to anybody while the log has entries about them.
  [[nodiscard]] bool is_of_freed_slot(home_t home) const noexcept {
    const home_space::slot s = heap_.homes_->find(home);
    return s.in != nullptr && s.in->slots != 1 &&
           slot_word{s.word().load(std::memory_order_relaxed)}.what() == slot_word::state::freed;
  }

  void finish() {
    heap_type& h = heap_;
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
    for (const std::uint64_t version : missing_) report_.damaged.push_back({0, version, {}, {}});
  }
  // errc::corrupt, with what can be read of the first damaged block.
  [[nodiscard]] status refuse_damage() {
    std::size_t blocks = missing_.size();
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      blocks += found_[i].damaged.size();
      for (const damaged_range& d : found_[i].damaged) {
        if (report_.damaged.empty()) describe(heap_.chunks_.at(i), d);
      }
    }
    if (blocks == 0) return {};
    if (report_.damaged.empty()) report_.damaged.push_back({0, *missing_.begin(), {}, {}});
    const damaged_block& first = report_.damaged.front();
    return fail(
        errc::corrupt,
        "log: found %zu blocks that fail their checks, expected none; the first: offset %lu, version %lu, about %s",
        blocks, first.offset, first.version, first.homes.empty() ? "what cannot be read" : first.homes.c_str());
  }
  // What can still be read of it.
  void describe(const chunk& c, const damaged_range& d) {
    heap_type& h = heap_;
    damaged_block out{d.from, d.version, {}, {}};
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
  std::mutex lock_;  // of damage, the report, strange_
  std::vector<chunk_found> found_;
  std::map<std::uint32_t, std::uint64_t> newest_;  // version of an intact block, of each thread
  std::set<std::uint64_t> missing_;                // versions of which a block is gone, header and all
  std::vector<log_t> strange_;                     // entries that cannot be where the others are
  std::size_t shares_ = 1;
  std::vector<std::vector<std::vector<record>>> dealt_;  // by each part, for each share
};

template <media M, mapping Map>
status heap<M, Map>::make_volatile_state() noexcept {
  const layout::root& r = chunks_.root();
  try {
    map_.reset();
    homes_.reset();
    homes_.emplace(r.home_first, r.home_bytes, r.superblock_bytes, epochs::threads_max);
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
  if (status s = chunks_.read_list(); !s) return s;
  if (status s = make_volatile_state(); !s) return s;
  if (settings_.use_saved && chunks_.saved() != 0) report.clean = bool{saved_mapping<M, Map>{*this}.load()};
  if (!report.clean) {
    for (auto& p : thread_pointers_) p.store(nullptr, std::memory_order_relaxed);
    for (auto& t : threads_) t.reset();
    if (status s = make_volatile_state(); !s) return s;
    for (std::uint32_t i = 0; i < chunks_.count(); ++i) chunks_.at(i).live.store(0, std::memory_order_relaxed);
    if (status s = recovery<M, Map>{*this, report}.run(); !s) return s;
  }
  // What was saved is of no use from now on.
  for (std::uint32_t i = 0; i < chunks_.count(); ++i) {
    chunk& c = chunks_.at(i);
    if (c.use != layout::chunk_use::saved) continue;
    chunks_.retire(c);
    c.use = layout::chunk_use::free;
    c.state.store(chunk_state::free, std::memory_order_relaxed);
  }
  chunks_.set_saved(0);
  chunks_.set_session(chunks_.session() + 1);
  medium_.fence(edge{"logheap/E7"});
  if (status s = chunks_.fill_pool(); !s) return s;
  const unsigned n = epochs_.join();
  if (n == epochs::threads_max) return fail(errc::no_lane, "more than %u threads use the heap", n);
  const auto own = thread_numbered(n, true);
  if (!own) return own.error();
  own_cleaner_ = *own;
  return {};
}

}  // namespace nvm::logheap
