// The second phase of recovery, by one thread, one share of home space after the other: records into slots' words, what
// lives in chunks, and the mapping.
//
// Records in the order of home addresses, of the same one the newest first; then from one end of the share to the other
// each byte goes to the newest record about it.  So the mapping gets its pieces in order, each once (fill()).
//
// Volatile memory: 32 bytes a record, and 24 a piece, of one share at a time.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "logheap/heap.hpp"
#include "logheap/replay_record.hpp"

namespace nvm::logheap {

template <media M, mapping Map>
class share_replay {
 public:
  using heap_type = heap<M, Map>;
  using thread = typename heap_type::thread;

  share_replay(heap_type& h, thread& t) noexcept : heap_{h}, thread_{t} {}

  // Records of the share, by one part.
  void take(replay_list& dealt) {
    own_.clear();
    dealt.move_to(own_);
    if (!std::is_sorted(own_.begin(), own_.end(), in_order)) std::sort(own_.begin(), own_.end(), in_order);
    if (all_.empty()) return all_.swap(own_);
    merged_.resize(all_.size() + own_.size());
    std::merge(all_.begin(), all_.end(), own_.begin(), own_.end(), merged_.begin(), in_order);
    all_.swap(merged_);
  }
  // Replays what was taken.  False: no memory for the mapping.
  [[nodiscard]] bool run() {
    active_.clear();
    pieces_.clear();
    home_t last_object = home_end;
    for (replay_record& r : all_) {
      learn_slots(r, last_object);
      if (hides_what_is_newer(r)) r.version = ~std::uint64_t{0};
      lay(r);
    }
    retire(home_end);
    end_count();
    end_live();
    all_.clear();
    const typename heap_type::inside in{heap_, thread_};
    return bool{heap_.map_->fill(thread_.client_, pieces_)};
  }

 private:
  static bool in_order(const replay_record& a, const replay_record& b) noexcept {
    return a.home() != b.home() ? a.home() < b.home() : a.newer_than(b);
  }
  // Slots' words, and how many entries there are about each.
  void learn_slots(const replay_record& r, home_t& last_object) {
    const home_t home = r.home();
    if (r.is_update()) {
      // A slot that began in an earlier part was counted there.
      const home_t end = r.end();
      for (home_t at = home; at < end;) {
        const home_space::slot s = slot_at(at);
        if (s.in == nullptr) {
          heap_.homes_->keep_out(home, end - home);
          return;
        }
        if (s.home >= home || r.first()) count_slot(s);
        at = s.home + s.bytes;
      }
      return;
    }
    if (!r.first()) return;
    const home_space::slot s = slot_at(home);
    const bool is_tombstone = r.kind() == layout::entry_kind::tombstone;
    if (!is_tombstone) count_slot(s);
    // The newest comes first.
    if (std::exchange(last_object, home) == home) return;
    (void)home_space::set(s, is_tombstone ? slot_word::state::freed : slot_word::state::allocated, r.self());
    live_at(r.self(), entry_live_bytes);
  }
  // What is stored behind a slot's last tombstone is of an object whose allocation is damaged: the slot is free, and
  // must be zeros to whoever gets it.  Large objects are not given to anybody while the log has entries about them.
  [[nodiscard]] bool hides_what_is_newer(const replay_record& r) const noexcept {
    if (r.kind() != layout::entry_kind::tombstone) return false;
    const home_space::slot s = slot_at(r.home());
    return s.in->slots != 1 && slot_word{s.word().load(std::memory_order_relaxed)}.entry() == r.self();
  }
  [[nodiscard]] home_space::slot slot_at(home_t home) const noexcept {
    if (counted_.in != nullptr && home - counted_.home < counted_.bytes) return counted_;
    return heap_.homes_->find(home);
  }
  void count_slot(const home_space::slot& s) noexcept {
    if (counted_.in != s.in || counted_.index != s.index) {
      end_count();
      counted_ = s;
    }
    ++counts_;
  }
  void end_count() noexcept {
    if (counts_ != 0) home_space::count(counted_, std::exchange(counts_, 0));
  }
  void live_at(log_t log, std::uint64_t bytes) noexcept {
    if (live_chunk_ == nullptr || log - live_chunk_->offset >= heap_.chunks_.chunk_bytes()) {
      end_live();
      live_chunk_ = &heap_.chunks_.of(log);
    }
    live_bytes_ += bytes;
  }
  void end_live() noexcept {
    if (live_bytes_ == 0) return;
    const std::uint64_t n = std::exchange(live_bytes_, 0);
    live_chunk_->live.fetch_add(static_cast<std::uint32_t>(n), std::memory_order_relaxed);
  }

  // Bytes go to the newest record about them.  `active_`: records that begin before what is done and may have bytes
  // behind it, a heap with the newest first; of that one everything before `done_` is told.
  static bool is_older(const replay_record* a, const replay_record* b) noexcept { return b->newer_than(*a); }
  void lay(const replay_record& r) {
    const home_t home = r.home();
    retire(home);
    if (!active_.empty() && !r.newer_than(*active_.front())) {
      if (r.end() <= active_.front()->end()) return;
    } else {
      if (!active_.empty()) tell(*active_.front(), home);
      done_ = home;
    }
    active_.push_back(&r);
    std::push_heap(active_.begin(), active_.end(), is_older);
  }
  // Tells what ends before `home`.
  void retire(home_t home) {
    while (!active_.empty() && active_.front()->end() <= home) {
      const replay_record& r = *active_.front();
      if (r.end() > done_) {
        tell(r, r.end());
        done_ = r.end();
      }
      std::pop_heap(active_.begin(), active_.end(), is_older);
      active_.pop_back();
    }
  }
  void tell(const replay_record& r, home_t end) {
    const home_t stop = std::min(end, r.home() + r.bytes());
    if (done_ >= stop) return;
    const log_t log = r.log() + (done_ - r.home());
    pieces_.push_back({done_, stop - done_, log});
    live_at(log, stop - done_);
  }

  heap_type& heap_;
  thread& thread_;
  std::vector<replay_record> all_, own_, merged_;
  std::vector<piece> pieces_;
  std::vector<const replay_record*> active_;
  home_t done_ = 0;
  home_space::slot counted_;
  std::uint64_t counts_ = 0;
  chunk* live_chunk_ = nullptr;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace nvm::logheap
