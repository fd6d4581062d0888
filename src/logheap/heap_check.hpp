// Full check of a heap at rest: its volatile state against its log; included by heap.hpp.
#pragma once

#include <map>
#include <new>

#include "logheap/heap.hpp"

namespace nvm::logheap {

// Checks that the live bytes of each chunk are those that mapping and slots lead to, that each slot counts its entries,
// and that every piece lies in a block, apart from the others.  Time in proportion to the log; not for damaged chunks.
template <media M, mapping Map>
class heap<M, Map>::checking {
 public:
  explicit checking(heap& h) noexcept : h_{h} {}
  [[nodiscard]] std::string run() {
    look_at_pieces();
    if (std::string block = look_at_blocks(); !block.empty()) return block;
    if (out_of_memory_) throw std::bad_alloc{};
    if (any_damage_) return fault_;
    h_.homes_->for_each([&](const home_space::slot& s, slot_word w) { caught([&] { look_at_slot(s, w); }); });
    if (out_of_memory_) throw std::bad_alloc{};
    if (!counts_.empty()) {
      fault_ = text("home without a slot's word", counts_.begin()->first, 0, counts_.begin()->second);
    }
    look_at_chunks();
    return fault_;
  }

 private:
  static std::string text(const char* what, std::uint64_t at, std::uint64_t found, std::uint64_t expected) {
    char out[160];
    std::snprintf(out, sizeof out, "%s %lx: found %lu, expected %lu", what, at, found, expected);
    return std::string{out};
  }
  // The functions that call back expect no exception.
  template <class F>
  void caught(F&& f) noexcept {
    try {
      f();
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    }
  }
  void look_at_pieces() {
    h_.map_->for_each([&](const piece& p) { caught([&] { look_at_piece(p); }); });
    log_t before = 0;
    for (const auto& [log, size] : pieces_) {
      if (log < before) fault_ = text("pieces overlap in the log at", log, log, before);
      before = log + size;
    }
  }
  void look_at_piece(const piece& p) {
    const std::uint32_t n = h_.chunks_.number_of(p.log);
    if (n == chunk_store<M>::none || p.home < end_) {
      fault_ = text("piece at home", p.home, p.log, end_);
      return;
    }
    end_ = p.home + p.size;
    live_[n] += p.size;
    if (!pieces_.try_emplace(p.log, p.size).second) fault_ = text("two pieces in the log at", p.log, 2, 1);
  }
  // Empty, or which block fails.
  [[nodiscard]] std::string look_at_blocks() {
    for (std::uint32_t i = 0; i < h_.chunks_.count(); ++i) {
      const chunk& c = h_.chunks_.at(i);
      const chunk_state state = c.state.load(std::memory_order_acquire);
      any_damage_ = any_damage_ || state == chunk_state::damaged;
      if (state == chunk_state::free || state == chunk_state::limbo) continue;
      for (std::uint64_t at = sizeof(layout::chunk_header);
           at < c.used.load(std::memory_order_relaxed) && state != chunk_state::damaged;) {
        layout::block_header h;
        const block_place place = h_.chunks_.place(c, at);
        if (inspect_block(h_.base_, place, h_.chunks_.chunk_bytes(), h) != block_fault::none) {
          return text("block at offset", place.offset(), 0, 1);
        }
        const bool fits = for_each_entry(h_.base_, place, h, [&](const entry& e) {
          caught([&] { entries_[e.self] = e; });
          if (e.kind == layout::entry_kind::tombstone) return;
          (void)h_.homes_->each_slot(e.home, bytes_in_slots(e),
                                     [&](const home_space::slot& s) { caught([&] { ++counts_[s.home]; }); });
        });
        if (!fits) return text("entries of the block at offset", place.offset(), 0, 1);
        at += round_up(h.bytes, layout::block_align);
      }
    }
    return {};
  }
  void look_at_slot(const home_space::slot& s, slot_word w) {
    const auto n = counts_.find(s.home);
    const std::uint64_t expected = n == counts_.end() ? 0 : n->second;
    if (w.count() != expected) fault_ = text("entries about home", s.home, w.count(), expected);
    if (n != counts_.end()) counts_.erase(n);
    if (w.what() == slot_word::state::none) return;
    live_[h_.chunks_.number_of(w.entry())] += entry_live_bytes;
    const auto e = entries_.find(w.entry());
    if (e == entries_.end() || (e->second.kind == layout::entry_kind::tombstone) == w.exists() ||
        e->second.kind == layout::entry_kind::update) {
      fault_ = text("entry of home", s.home, w.entry(), 0);
    } else if (w.exists() && e->second.home != s.home) {
      fault_ = text("what the entry is about of the object at home", s.home, e->second.home, s.home);
    } else if (w.exists() && h_.homes_->room_of(e->second.size) != s.bytes) {
      fault_ = text("bytes that the entry is about of the object at home", s.home, e->second.size, s.bytes);
    }
  }
  void look_at_chunks() {
    for (std::uint32_t i = 0; i < h_.chunks_.count(); ++i) {
      const chunk& c = h_.chunks_.at(i);
      const chunk_state state = c.state.load(std::memory_order_acquire);
      if (state == chunk_state::free || state == chunk_state::limbo) continue;
      const std::uint64_t found = c.live.load(std::memory_order_acquire);
      if (found != live_[i]) fault_ = text("live bytes of the chunk at offset", c.offset, found, live_[i]);
    }
  }

  heap& h_;
  bool out_of_memory_ = false;
  std::map<std::uint32_t, std::uint64_t> live_;  // bytes, by chunk
  std::map<log_t, std::uint64_t> pieces_;
  home_t end_ = 0;  // of the piece before
  std::map<home_t, std::uint64_t> counts_;
  std::map<log_t, entry> entries_;
  bool any_damage_ = false;
  std::string fault_;
};

template <media M, mapping Map>
std::string heap<M, Map>::check() {
  return checking{*this}.run();
}

}  // namespace nvm::logheap
