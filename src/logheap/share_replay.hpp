// The second phase of recovery, by one thread, one share of home space after the other: records into slots' words, live
// bytes of chunks, and the mapping.
//
// Records in the order of home addresses, at one address the newest first; then, from one end of the share to the
// other, each byte goes to the newest record about it.  So the mapping gets its pieces in order, each once (fill()).
//
// Volatile memory: 64 bytes a record, and 24 a piece, of one share at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
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

  share_replay(heap_type& h, thread& t, const share_rule& rule) noexcept : heap_{h}, thread_{t}, rule_{rule} {}

  // Records of the share, by one part.
  void take(replay_list& dealt) { dealt.move_to(all_); }
  // Replays the records that were taken.  False: no memory for the mapping.
  [[nodiscard]] bool run() {
    active_.clear();
    pieces_.clear();
    home_t last_object = home_end;
    for (replay_record& r : in_order()) {
      learn_slots(r, last_object);
      if (hides_what_is_newer(r)) r.version = ~std::uint64_t{0};
      lay(r);
    }
    retire(home_end);
    end_slot();
    end_live();
    all_.clear();
    const typename heap_type::inside in{heap_, thread_};
    return bool{heap_.map_->fill(thread_.client_, pieces_)};
  }

 private:
  struct before {
    bool operator()(const replay_record& a, const replay_record& b) const noexcept {
      return a.home() != b.home() ? a.home() < b.home() : a.newer_than(b);
    }
  };
  // All that was taken, sorted: dealt out by address to about as many buckets as there are records, then each by
  // itself. Each log has written runs in order, and there are many runs: comparing all records with all would take
  // long.
  [[nodiscard]] std::span<replay_record> in_order() {
    const std::size_t n = all_.size();
    if (std::is_sorted(all_.begin(), all_.end(), before{})) return all_;
    std::uint64_t low = ~std::uint64_t{0};
    std::uint64_t high = 0;
    for (const replay_record& r : all_) {
      const std::uint64_t at = rule_.within_share(r.home());
      low = std::min(low, at);
      high = std::max(high, at);
    }
    const int bits = std::clamp(static_cast<int>(std::bit_width(n)) - 2, 0, 16);
    const int shift = std::max(static_cast<int>(std::bit_width(high - low)) - bits, 0);
    const auto bucket_of = [&](const replay_record& r) { return (rule_.within_share(r.home()) - low) >> shift; };
    ends_.assign((std::size_t{1} << bits) + 1, 0);
    for (const replay_record& r : all_) ++ends_[bucket_of(r) + 1];
    for (std::size_t i = 1; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
    if (sorted_.size() < n) sorted_.resize(n);
    for (const replay_record& r : all_) sorted_[ends_[bucket_of(r)]++] = r;
    // Each is now where the next one began.
    std::size_t begin = 0;
    for (std::size_t i = 0; i + 1 < ends_.size(); ++i) {
      const std::size_t end = ends_[i];
      if (end - begin > 1) std::sort(&sorted_[begin], &sorted_[begin] + (end - begin), before{});
      begin = end;
    }
    return {sorted_.data(), n};
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
          const home_t next = std::min(end, heap_.homes_->behind_gap(at));
          heap_.homes_->keep_out(at, next - at);
          at = next;
          continue;
        }
        if (s.home >= home || r.first()) {
          look_at(s);
          ++counts_;
        }
        at = s.home + s.bytes;
      }
      return;
    }
    if (!r.first()) return;
    const home_space::slot s = slot_at(home);
    const bool is_tombstone = r.kind() == layout::entry_kind::tombstone;
    look_at(s);
    if (!is_tombstone) ++counts_;
    // The newest comes first.
    if (std::exchange(last_object, home) == home) return;
    what_ = is_tombstone ? slot_word::state::freed : slot_word::state::allocated;
    entry_ = r.self();
    live_at(r.self(), entry_live_bytes);
  }
  // Stores after a slot's last tombstone belong to an object whose allocation is damaged: the slot is free, and must
  // read as zeros to the next object.  Addresses of large objects are not given away while the log has entries about
  // them.
  [[nodiscard]] bool hides_what_is_newer(const replay_record& r) const noexcept {
    // `entry_` is about this tombstone's slot: no slot that begins after it has been learnt since.
    return r.kind() == layout::entry_kind::tombstone && entry_ == r.self() && slot_at(r.home()).in->slots != 1;
  }
  [[nodiscard]] home_space::slot slot_at(home_t home) const noexcept {
    if (at_.in != nullptr && home - at_.home < at_.bytes) return at_;
    return heap_.homes_->find(home);
  }
  // Whether this is the slot whose word is being learnt; the word is written when all records about it have been seen.
  [[nodiscard]] bool is_at(const home_space::slot& s) const noexcept { return at_.in == s.in && at_.index == s.index; }
  void look_at(const home_space::slot& s) noexcept {
    if (is_at(s)) return;
    end_slot();
    at_ = s;
  }
  void end_slot() noexcept {
    const std::uint64_t counts = std::exchange(counts_, 0);
    if (what_ != slot_word::state::none) {
      (void)home_space::set(at_, std::exchange(what_, slot_word::state::none), entry_, counts);
    } else if (counts != 0) {
      home_space::count(at_, counts);
    }
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

  // Bytes go to the newest record about them.  `active_`: records that begin before `done_` and may have bytes after
  // it, a heap with the newest first; everything of that one before `done_` is told.
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
  // Tells records that end before `home`.
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
  const share_rule rule_;
  std::vector<replay_record> all_, sorted_;
  std::vector<std::size_t> ends_;  // of buckets
  std::vector<piece> pieces_;
  std::vector<const replay_record*> active_;
  home_t done_ = 0;
  home_space::slot at_;
  std::uint64_t counts_ = 0;                        // entries that are about it
  slot_word::state what_ = slot_word::state::none;  // none: not said by a record that this share has
  log_t entry_ = 0;                                 // that says so
  chunk* live_chunk_ = nullptr;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace nvm::logheap
