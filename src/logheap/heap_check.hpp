// Full check of a heap at rest: its volatile state against its log; included by heap.hpp.
#pragma once

#include <map>
#include <new>

#include "logheap/heap.hpp"

namespace nvm::logheap {

// Checks that the living bytes of each chunk are those that mapping and slots lead to, that each slot counts its
// entries, and that every piece lies in a block, apart from the others.  Time in proportion to the log; not for damaged
// chunks.
template <media M, mapping Map>
std::string heap<M, Map>::check() {
  const auto text = [](const char* what, std::uint64_t at, std::uint64_t found, std::uint64_t expected) {
    char out[160];
    std::snprintf(out, sizeof out, "%s %lx: found %lu, expected %lu", what, at, found, expected);
    return std::string{out};
  };
  // The functions that call back expect no exception.
  bool out_of_memory = false;
  const auto caught = [&out_of_memory](auto&& f) noexcept {
    try {
      f();
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  };
  std::map<std::uint32_t, std::uint64_t> live;
  std::map<log_t, std::uint64_t> pieces;
  std::string fault;
  home_t end = 0;
  const auto look_at_piece = [&](const piece& p) {
    const std::uint32_t n = chunks_.number_of(p.log);
    if (n == chunk_store<M>::none || p.home < end) {
      fault = text("piece at home", p.home, p.log, end);
      return;
    }
    end = p.home + p.size;
    live[n] += p.size;
    if (!pieces.try_emplace(p.log, p.size).second) fault = text("two pieces in the log at", p.log, 2, 1);
  };
  map_->for_each([&](const piece& p) { caught([&] { look_at_piece(p); }); });
  log_t before = 0;
  for (const auto& [log, size] : pieces) {
    if (log < before) fault = text("pieces overlap in the log at", log, log, before);
    before = log + size;
  }
  std::map<home_t, std::uint64_t> counts;
  std::map<log_t, entry> entries;
  bool any_damage = false;
  for (std::uint32_t i = 0; i < chunks_.count(); ++i) {
    const chunk& c = chunks_.at(i);
    const chunk_state state = c.state.load(std::memory_order_acquire);
    any_damage = any_damage || state == chunk_state::damaged;
    if (state == chunk_state::free || state == chunk_state::limbo) continue;
    for (std::uint64_t at = sizeof(layout::chunk_header);
         at < c.used.load(std::memory_order_relaxed) && state != chunk_state::damaged;) {
      layout::block_header h;
      const block_place place = chunks_.place(c, at);
      if (inspect_block(base_, place, chunks_.chunk_bytes(), h) != block_fault::none) {
        return text("block at offset", place.offset(), 0, 1);
      }
      const bool fits = for_each_entry(base_, place, h, [&](const entry& e) {
        caught([&] { entries[e.self] = e; });
        if (e.kind == layout::entry_kind::tombstone) return;
        (void)homes_->each_slot(e.home, bytes_in_slots(e),
                                [&](const home_space::slot& s) { caught([&] { ++counts[s.home]; }); });
      });
      if (!fits) return text("entries of the block at offset", place.offset(), 0, 1);
      at += round_up(h.bytes, layout::block_align);
    }
  }
  if (out_of_memory) throw std::bad_alloc{};
  if (any_damage) return fault;
  const auto look_at_slot = [&](const home_space::slot& s, slot_word w) {
    const auto n = counts.find(s.home);
    const std::uint64_t expected = n == counts.end() ? 0 : n->second;
    if (w.count() != expected) fault = text("entries about home", s.home, w.count(), expected);
    if (n != counts.end()) counts.erase(n);
    if (w.what() == slot_word::state::none) return;
    live[chunks_.number_of(w.entry())] += entry_live_bytes;
    const auto e = entries.find(w.entry());
    if (e == entries.end() || (e->second.kind == layout::entry_kind::tombstone) == w.exists() ||
        e->second.kind == layout::entry_kind::update) {
      fault = text("entry of home", s.home, w.entry(), 0);
    } else if (w.exists() && e->second.home != s.home) {
      fault = text("what the entry is about of the object at home", s.home, e->second.home, s.home);
    } else if (w.exists() && homes_->room_of(e->second.size) != s.bytes) {
      fault = text("bytes that the entry is about of the object at home", s.home, e->second.size, s.bytes);
    }
  };
  homes_->for_each([&](const home_space::slot& s, slot_word w) { caught([&] { look_at_slot(s, w); }); });
  if (out_of_memory) throw std::bad_alloc{};
  if (!counts.empty()) fault = text("home without a slot's word", counts.begin()->first, 0, counts.begin()->second);
  for (std::uint32_t i = 0; i < chunks_.count(); ++i) {
    const chunk& c = chunks_.at(i);
    const chunk_state state = c.state.load(std::memory_order_acquire);
    if (state == chunk_state::free || state == chunk_state::limbo) continue;
    const std::uint64_t found = c.live.load(std::memory_order_acquire);
    if (found != live[i]) fault = text("live bytes of the chunk at offset", c.offset, found, live[i]);
  }
  return fault;
}

}  // namespace nvm::logheap
