// Cleaning (LSNVMM, sections 3.4 and 4.4); included by heap.hpp.
//
/// One pass.  S store, F flush, | fence.
///   0. T = every version up to here has committed; victims: sealed chunks without a newer one
///   1. S copies of the blocks with live parts, of the same version, in a cleaner's logs; F;
///      S root.through = T; F;                              | logheap/E2  both, before a victim loses anything: a copy
///                        has no peers, and the peers that stay where they were lead to nothing
///   2. S ends of all chunks with copies; F;                | logheap/E9  an original is there until the end says of
///                        its copy that it was durable: what damages a copy later passes for no torn one
///      Pieces that have not changed meanwhile move to the copy: mapping and slots' words, piece by piece (the paper's
///      quasi-transaction).  Where some cannot, the victim stays, and is another pass's at once.
///   3. S victims' use = free; F;                           | logheap/E3  no recovery reads them any more, before
///                        they are filled again, and before a tombstone goes that hid their entries
///   4. entries of the victims no longer count; tombstones with nothing left to hide no longer live; home addresses
///      that no entry is about may go to objects of any size; the victims may be used when no thread is inside that may
///      have found an address in them
// Fast: a victim in which nothing lives goes through 0, 3 and 4 alone (its versions are not above `through` either:
// step 1 without copies).  A pass of such victims has no step 2.
//
// Never at the end of a log: a chunk is sealed by its thread when the commit that left it is durable.
//
// A crash between 1 and 3 leaves blocks twice, with the same contents and the same version, which is as good as once. A
// victim from which something could not be moved, for want of memory, leaves them twice as well; it stays as it was.
//
// Cost.  A victim's bytes are read once; words of mapping and slots about its entries are fetched some entries ahead.
// A piece whose bounds stay takes no memory of the mapping.  Three fences and one barrier in all threads a pass, two
// where nothing is copied.
#pragma once

#include "logheap/heap.hpp"

namespace nvm::logheap {

template <media M, mapping Map>
class cleaner {
 public:
  using heap_type = heap<M, Map>;
  using thread = typename heap_type::thread;
  using purpose = typename heap_type::purpose;

  cleaner(heap_type& h, thread& t) noexcept : heap_{h}, thread_{t} {}

  // Bytes of log that the last pass has gained.
  [[nodiscard]] std::uint64_t gained() const noexcept { return gained_; }
  // Returns how many chunks it has recycled.
  std::size_t pass(unsigned victims_max, bool whole) noexcept {
    heap_type& h = heap_;
    h.busy_.fetch_add(1, std::memory_order_acq_rel);
    h.passes_.fetch_add(1, std::memory_order_relaxed);
    const std::size_t n = [&] {
      const biased_lock::guard guard{thread_.log_lock_, thread_.number_ + 1};
      return clean(victims_max, whole);
    }();
    h.busy_.fetch_sub(1, std::memory_order_acq_rel);
    return n;
  }

 private:
  struct item {
    entry what;
    std::uint64_t version = 0;
    // A part of the copy is about the same bytes: it is counted instead of this one.
    bool carried = false;
  };
  // One that is copied; its entries and their copies are parts of items_ and copies_.
  struct victim {
    std::uint32_t number = 0;
    std::size_t items = 0, items_end = 0;
    std::size_t copies = 0, copies_end = 0;
  };
  // So many entries ahead is fetched what is going to be read about them.
  static constexpr std::size_t ahead = 12;
  static constexpr std::uint32_t whole_looks = 4096;

  std::size_t clean(unsigned victims_max, bool whole) noexcept {
    heap_type& h = heap_;
    const std::uint64_t through = h.committed_through();
    fast_ = gained_ = 0;
    // Seals chunks that earlier passes have filled, not those of this pass: another cleaner would find that nothing
    // leads to them yet.
    thread_.log_.seal_full();
    return recycle(victims_max, whole, through);
  }
  std::size_t recycle(unsigned victims_max, bool whole, std::uint64_t through) noexcept {
    heap_type& h = heap_;
    try {
      // Memory for all of them first: a chosen victim is kept from other cleaners until it is given back.
      done_.reserve(victims_max);
      waiting_.chunks.clear();
      waiting_.chunks.reserve(victims_max);
      {
        const std::lock_guard guard{h.limbo_lock_};
        h.limbo_.reserve(h.limbo_.size() + epochs::threads_max);  // as many cleaners there can be
      }
      choose(victims_max, whole, through);
    } catch (const std::bad_alloc&) {
      return 0;
    }
    done_.clear();
    items_.clear();
    copies_.clear();
    copy_victims();
    if (done_.empty()) return 0;
    thread_.log_.flush_written();
    if (!planted(plant::recycled_without_through)) h.chunks_.raise_through(through);
    h.medium_.fence(edge{"logheap/E2"});
    if (!copies_.empty()) {
      thread_.log_.mark_ends();
      // Before move(): another cleaner may take a victim that stays, and free it.
      h.medium_.fence(edge{"logheap/E9"});
    }
    move();
    if (done_.empty()) return 0;
    for (const victim& v : done_) h.chunks_.retire(h.chunks_.at(v.number));
    h.medium_.fence(edge{"logheap/E3"});
    h.recycled_fast_.fetch_add(fast_, std::memory_order_relaxed);
    forget();
    return done_.size();
  }

  // Sets victims_, those with the largest gain first.
  void choose(unsigned victims_max, bool whole, std::uint64_t through) {
    heap_type& h = heap_;
    victims_.clear();
    candidates_.clear();
    const std::uint32_t count = h.chunks_.count();
    // Bytes that a log may leave free at a chunk's end are no gain: a copy would leave them, too, and be copied for
    // ever.
    const std::uint64_t least_gain =
        std::max<std::uint64_t>(h.chunks_.chunk_bytes() / 16, log_writer<M>::left_free_max);
    const std::uint64_t limit =
        whole ? h.chunks_.chunk_bytes() - least_gain : h.chunks_.chunk_bytes() * h.settings_.clean_below / 100;
    // Some chunks are looked at, by a hand that goes round; when nothing else helps, more of them, and all before the
    // answer is that there is none.
    const std::uint32_t looks = std::min<std::uint32_t>(count, whole ? whole_looks : 64 * victims_max);
    const std::uint32_t first = h.hand_.fetch_add(looks, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < looks || (whole && i < count && candidates_.empty()); ++i) {
      const std::uint32_t number = (first + i) % count;
      const chunk& c = h.chunks_.at(number);
      // acquire: pairs with seal_full(): `used` and `newest` are what they stay.
      if (c.state.load(std::memory_order_acquire) != chunk_state::sealed ||
          c.newest.load(std::memory_order_relaxed) > through)
        continue;
      const std::uint64_t size = c.bytes_of_copy();
      if (size <= limit) candidates_.push_back({size, number});
    }
    // Some more than are wanted: others may take some of them.
    const auto wanted =
        candidates_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(candidates_.size(), 2 * victims_max));
    std::partial_sort(candidates_.begin(), wanted, candidates_.end());
    candidates_.erase(wanted, candidates_.end());
    constexpr std::size_t dear_max = 4;
    const std::uint64_t dear = h.chunks_.chunk_bytes() / 8 * 7;
    victims_.reserve(victims_max);
    for (const auto& [size, number] : candidates_) {
      if (victims_.size() == victims_max) break;
      // Only a few victims of little gain at a time: while the others wait, more of them becomes stale.
      if (victims_.size() >= dear_max && size > dear) break;
      chunk_state s = chunk_state::sealed;
      chunk& c = h.chunks_.at(number);
      if (!c.state.compare_exchange_strong(s, chunk_state::cleaning, std::memory_order_acquire)) continue;
      // It may have been recycled and filled since we looked.
      if (c.newest.load(std::memory_order_relaxed) <= through) {
        victims_.push_back(number);
      } else {
        c.state.store(chunk_state::sealed, std::memory_order_release);
      }
    }
  }

  // Sets done_: victims that were copied, or need no copy.  The rest is given back: if there is no room or memory for
  // one, there is none for the next ones, which have more live bytes.
  void copy_victims() noexcept {
    heap_type& h = heap_;
    bool has_room = true;
    for (const std::uint32_t number : victims_) {
      chunk& c = h.chunks_.at(number);
      chunk_state back = chunk_state::sealed;
      const std::size_t items_before = items_.size();
      if (has_room && !take(number, c, back)) {
        items_.resize(items_before);
        has_room = done_.empty() || back == chunk_state::damaged;
      } else if (has_room) {
        continue;
      }
      c.state.store(back, std::memory_order_release);
    }
  }
  // False: the chunk is to be given back, as `back`.
  [[nodiscard]] bool take(std::uint32_t number, chunk& c, chunk_state& back) noexcept {
    victim v{number, items_.size(), 0, copies_.size(), 0};
    try {
      if (!read(c)) {
        back = chunk_state::damaged;
        return false;
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
    v.items_end = items_.size();
    const bool is_fast = c.live.load(std::memory_order_acquire) == 0;
    if (!is_fast && !copy(c, v)) return false;
    v.copies_end = copies_.size();
    fast_ += is_fast ? 1 : 0;
    gained_ += heap_.chunks_.chunk_bytes() - std::min(heap_.chunks_.chunk_bytes(), c.bytes_of_copy());
    done_.push_back(v);
    return true;
  }
  // Appends the chunk's entries to items_.  False: it has an entry that no commit has written.
  [[nodiscard]] bool read(const chunk& c) {
    std::uint64_t at = sizeof(layout::chunk_header);
    while (at < c.used.load(std::memory_order_relaxed)) {
      const block_place place = heap_.chunks_.place(c, at);
      layout::block_header h;
      if (inspect_block(heap_.base_, place, heap_.chunks_.chunk_bytes(), h) != block_fault::none) return false;
      if (!for_each_entry(heap_.base_, place, h, [&](const entry& e) { items_.push_back({e, h.version}); }))
        return false;
      at += round_up(h.bytes, layout::block_align);
    }
    return true;
  }

  // Lays out, and writes, a copy of its live bytes.  False: no room, or no memory; nothing has changed.
  [[nodiscard]] bool copy(const chunk& c, const victim& v) noexcept {
    heap_type& h = heap_;
    log_writer<M>& log = thread_.log_;
    const std::size_t origins_before = origins_.size();
    log.start();
    bool fits = true;
    try {
      std::uint64_t block = 0;
      const typename heap_type::inside in{h, thread_};
      for (std::size_t i = v.items; fits && i < v.items_end; ++i) {
        item& it = items_[i];
        if (i + ahead < v.items_end) fetch(items_[i + ahead].what);
        // A copy of a block is one block, or more where it is split.
        if (it.version != block) log.close_blocks();
        block = it.version;
        fits = bool{copy_entry(c, it)};
      }
      if (fits) {
        log.prepare();
        copies_.reserve(copies_.size() + log.parts().size());
      }
    } catch (const std::bad_alloc&) {
      fits = false;
    }
    if (!fits) {
      log.drop();
      origins_.resize(origins_before);
      return false;
    }
    // Counted before the copy can be the only one.
    for (const part& p : log.parts()) {
      if (p.what.kind != layout::entry_kind::tombstone && !p.carries)
        h.homes_->count(p.what.home, bytes_in_slots(p.what));
    }
    log.write(0, layout::block_moved, false, [](std::byte*, home_t, std::uint64_t) noexcept {});
    copies_.insert(copies_.end(), log.parts().begin(), log.parts().end());
    return true;
  }
  void fetch(const entry& e) const noexcept {
    heap_.map_->fetch(e.home);
    heap_.homes_->fetch(e.home);
  }
  [[nodiscard]] status copy_entry(const chunk& c, item& it) {
    heap_type& h = heap_;
    log_writer<M>& log = thread_.log_;
    const entry& e = it.what;
    const auto add = [&](layout::entry_kind kind, home_t home, std::uint64_t size, log_t from,
                         bool of_object) -> status {
      part p{{kind, home, size, 0, 0}, from != 0 ? h.base_ + from : nullptr};
      if (of_object) p.object = static_cast<std::uint32_t>(origins_.size() - 1);
      const std::size_t before = log.parts().size();
      if (status s = log.add_to(c.use, p, purpose::clean, it.version); !s) return s;
      const bool same = log.parts().size() == before + 1 && home == e.home && size == e.size;
      if (same && !it.carried && e.kind != layout::entry_kind::tombstone) {
        it.carried = log.parts().back().carries = true;
      }
      return {};
    };
    bool is_object = false;
    if (e.kind != layout::entry_kind::update) {
      const home_space::slot s = h.homes_->find(e.home);
      if (s.in != nullptr && s.home == e.home) {
        const slot_word w{s.word().load(std::memory_order_acquire)};
        const bool about_it =
            e.kind == layout::entry_kind::tombstone ? w.what() == slot_word::state::freed : w.exists();
        is_object = about_it && w.entry() == e.self;
        if (planted(plant::tombstone_let_go) && e.kind == layout::entry_kind::tombstone) is_object = false;
      }
      if (is_object) origins_.push_back(e.self);
    }
    if (!layout::has_contents(e.kind)) {
      return is_object ? add(e.kind, e.home, e.size, 0, true) : status{};
    }
    live_.clear();
    std::uint64_t live = 0;
    bool all = true;
    h.map_->for_each_piece(thread_.client_, e.home, e.size, [&](const piece& p) noexcept {
      if (p.log != e.log + (p.home - e.home)) return;
      live += p.size;
      try {
        live_.push_back(p);
      } catch (const std::bad_alloc&) {
        all = false;
      }
    });
    if (!all) throw std::bad_alloc{};
    if (live == 0 && !is_object) return {};
    // Holes cost more than they save if the entries of the pieces between them would be larger than the whole.
    const bool whole = live == e.size || live + entry_live_bytes * 2 * live_.size() > e.size;
    if (whole && live != 0) {
      const layout::entry_kind kind = is_object ? layout::entry_kind::allocation : layout::entry_kind::update;
      return add(kind, e.home, e.size, e.log, is_object);
    }
    if (is_object) {
      if (status s = add(layout::entry_kind::bare, e.home, e.size, 0, true); !s) return s;
    }
    for (const piece& p : live_) {
      if (status s = add(layout::entry_kind::update, p.home, p.size, p.log, false); !s) return s;
    }
    return {};
  }

  // Step 2.  A victim that could not be moved as a whole is sealed again, and is not in done_.
  void move() noexcept {
    heap_type& h = heap_;
    const typename heap_type::inside in{h, thread_};
    std::uint64_t moved = 0;
    const auto stays = [&](const victim& v) {
      chunk& c = h.chunks_.at(v.number);
      if (move(v, c, moved)) return false;
      for (std::size_t i = v.items; i < v.items_end; ++i) {
        if (items_[i].carried) h.homes_->count(items_[i].what.home, bytes_in_slots(items_[i].what));
      }
      c.state.store(chunk_state::sealed, std::memory_order_release);
      return true;
    };
    std::erase_if(done_, stays);
    h.moved_bytes_.fetch_add(moved, std::memory_order_relaxed);
    origins_.clear();
  }
  [[nodiscard]] bool move(const victim& v, chunk& c, std::uint64_t& moved) noexcept {
    heap_type& h = heap_;
    bool all = true;
    std::uint64_t left = 0;  // bytes of the victim that are no longer live
    for (std::size_t i = v.copies; i < v.copies_end; ++i) {
      const part& p = copies_[i];
      if (i + ahead < v.copies_end) h.map_->fetch(copies_[i + ahead].what.home);
      if (layout::has_contents(p.what.kind)) {
        const std::uint64_t n = move_contents(p, all);
        if (n != p.what.size) {
          // Holes that were copied because entries would have cost more: nothing would be gained by doing so again.
          h.dead_copies_.fetch_add(1, std::memory_order_relaxed);
          h.no_longer_live(p.what.log, p.what.size - n);
          h.chunks_.of(p.what.log)
              .filled.fetch_sub(static_cast<std::uint32_t>(p.what.size - n), std::memory_order_relaxed);
        }
        moved += n;
        left += n;
      }
      if (p.what.kind == layout::entry_kind::update) continue;
      // The slot may have gone, and another one be there: no word but that slot's leads to the victim's entry.
      const home_space::slot s = h.homes_->find(p.what.home);
      if (s.in != nullptr && home_space::move(s, origins_[p.object], p.what.self)) {
        left += entry_live_bytes;
      } else {
        h.no_longer_live(p.what.self, entry_live_bytes);
      }
    }
    c.live.fetch_sub(static_cast<std::uint32_t>(left), std::memory_order_relaxed);
    return all;
  }
  // Moves contents to the copy; returns how many bytes lie there now.  `all`: none are left in the victim.
  [[nodiscard]] std::uint64_t move_contents(const part& p, bool& all) noexcept {
    heap_type& h = heap_;
    const home_range range{p.what.home, p.what.size};
    const log_t from = static_cast<log_t>(p.from - h.base_);
    std::uint64_t moved = h.map_->move_whole_pieces(thread_.client_, range.home, range.size, from, p.what.log);
    if (moved == range.size) return moved;
    std::uint64_t left = 0;
    h.map_->for_each_piece(thread_.client_, range.home, range.size, [&](const piece& x) noexcept {
      if (x.log == from + (x.home - range.home)) left += x.size;
    });
    if (left == 0) return moved;
    if (!h.map_->reserve(thread_.client_, {&range, 1})) {
      all = false;
      return moved;
    }
    moved += h.map_->compare_and_move(thread_.client_, range.home, range.size, from, p.what.log);
    h.map_->release(thread_.client_);
    return moved;
  }
  void drop_entries(const victim& v) noexcept {
    heap_type& h = heap_;
    const typename heap_type::inside in{h, thread_};
    const auto idle = [&](log_t tombstone) { h.no_longer_live(tombstone, entry_live_bytes); };
    for (std::size_t i = v.items; i < v.items_end; ++i) {
      if (i + ahead < v.items_end) h.homes_->fetch(items_[i + ahead].what.home);
      const item& it = items_[i];
      if (it.what.kind != layout::entry_kind::tombstone && !it.carried) {
        h.homes_->drop(it.what.home, bytes_in_slots(it.what), idle);
      }
    }
  }
  // Step 4.
  void forget() noexcept {
    heap_type& h = heap_;
    for (const victim& v : done_) {
      drop_entries(v);
      h.chunks_.at(v.number).state.store(chunk_state::limbo, std::memory_order_release);
      waiting_.chunks.push_back(v.number);
    }
    h.epochs_.take_vector(waiting_.then);
    {
      const std::lock_guard guard{h.limbo_lock_};
      h.limbo_.push_back(std::move(waiting_));
    }
    h.recycled_.fetch_add(done_.size(), std::memory_order_acq_rel);
    h.drain_limbo();
  }

  heap_type& heap_;
  thread& thread_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> candidates_;
  std::vector<std::uint32_t> victims_;
  std::vector<victim> done_;
  std::vector<item> items_;
  typename heap_type::waiting_chunks waiting_;
  std::vector<part> copies_;
  std::vector<log_t> origins_;  // of objects and tombstones in copies: where their entries were
  std::vector<piece> live_;
  std::uint64_t fast_ = 0;
  std::uint64_t gained_ = 0;
};

template <media M, mapping Map>
std::size_t heap<M, Map>::clean(unsigned victims, bool whole) noexcept {
  drain_limbo();
  const std::lock_guard guard{own_cleaner_lock_};
  return cleaner<M, Map>{*this, *own_cleaner_}.pass(victims, whole);
}

template <media M, mapping Map>
status heap<M, Map>::start_cleaners() noexcept {
  stop_ = false;
  try {
    cleaners_.reserve(settings_.cleaners);
    for (unsigned i = 0; i < settings_.cleaners; ++i) {
      auto t = join_as(true);
      if (!t) return t.error();
      cleaners_.emplace_back([this, t = *t]() noexcept {
        cleaner<M, Map> mine{*this, *t};
        for (;;) {
          {
            std::unique_lock guard{wake_lock_};
            wake_.wait(guard, [this] { return stop_ || wanted_; });
            if (stop_) break;
          }
          const platform::in_call here;
          drain_limbo();
          const bool scarce = chunks_are_scarce();
          const bool idle = mine.pass(pass_victims, scarce) == 0 || mine.gained() < chunks_.chunk_bytes();
          // Until threads have filled some chunks, no stale bytes are left that would be worth a look. relaxed: a hint.
          if (idle) {
            rest_until_.store(begun_.load(std::memory_order_relaxed) + pass_victims, std::memory_order_relaxed);
          }
          if (idle || utilisation() < settings_.clean_from) {
            const std::lock_guard guard{wake_lock_};
            wanted_ = false;
          }
        }
        const platform::in_call here;
        end_cleaner(*t);
      });
    }
  } catch (...) {
    return fail(errc::no_memory, "no thread for a cleaner");
  }
  return {};
}
// Ends the cleaner's logs: the next thread with its number may be no cleaner.  The object stays, as that of any thread
// that leaves: other cleaners, and threads that need room, may be looking at it (committed_through()).
template <media M, mapping Map>
void heap<M, Map>::end_cleaner(thread& t) noexcept {
  const std::lock_guard guard{sealing_};
  t.log_.seal_all();
  leave(t);
}
template <media M, mapping Map>
void heap<M, Map>::stop_cleaners() noexcept {
  {
    const std::lock_guard guard{wake_lock_};
    stop_ = true;
    wake_.notify_all();
  }
  for (std::thread& t : cleaners_) t.join();
  cleaners_.clear();
}

}  // namespace nvm::logheap
