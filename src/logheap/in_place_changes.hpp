// Stores that a transaction makes in place, in memory private to this process: their old bytes, to be put back, and
// their places, to be made durable.
//
// A byte is kept once a level.  Threads: one.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "log/log.hpp"
#include "tx/tx.hpp"

namespace nvm::logheap {

class in_place_changes {
 public:
  explicit in_place_changes(std::byte* base) noexcept : base_{base} {}

  // A level begins.  Throws std::bad_alloc.
  void begin_level() {
    if (sets_.size() <= marks_.size()) sets_.push_back(std::make_unique<tx::line_set>());
    marks_.push_back(kept_.size());
    sets_[marks_.size() - 1]->clear();
  }
  // The bytes will be stored; hold(range) is called for those that are new to the level, before they are read.  Throws
  // std::bad_alloc: what was held before is kept.
  template <class Hold>
  void keep(const log::byte_range& r, Hold&& hold) {
    tx::line_set& set = *sets_[marks_.size() - 1];
    const std::uint64_t last = (r.offset + r.bytes - 1) / line_bytes;
    log::byte_range run{0, 0};
    const auto end_run = [&] {
      if (run.bytes == 0) return;
      kept_.reserve(kept_.size() + 1);
      hold(run);
      kept_.push_back({run.offset, run.bytes, nullptr});
      kept_.back().old = old_.keep(base_ + run.offset, run.bytes);
      run.bytes = 0;
    };
    for (std::uint64_t line = r.offset / line_bytes; line <= last; ++line) {
      const std::uint64_t added = set.add(line, tx::line_set::mask_in(line, r.offset, r.bytes));
      tx::each_byte_run(line, added, [&](std::uint64_t o, std::uint64_t n) {
        if (run.bytes != 0 && run.offset + run.bytes == o) {
          run.bytes += n;
        } else {
          end_run();
          run = {o, n};
        }
      });
    }
    end_run();
  }
  // Whether the innermost level can take back a store to these bytes.
  [[nodiscard]] bool covers(const log::byte_range& r) const noexcept {
    const tx::line_set& set = *sets_[marks_.size() - 1];
    for (std::uint64_t line = r.offset / line_bytes; line * line_bytes < r.offset + r.bytes; ++line) {
      const std::uint64_t wanted = tx::line_set::mask_in(line, r.offset, r.bytes);
      if ((set.mask_of(line) & wanted) != wanted) return false;
    }
    return true;
  }
  // The innermost level becomes part of the one around it, whose own old bytes are older.  Throws std::bad_alloc,
  // having changed nothing that matters.
  void join_level() {
    for (const auto& e : sets_[marks_.size() - 1]->entries()) (void)sets_[marks_.size() - 2]->add(e.line, e.mask);
    marks_.pop_back();
  }
  // Puts old bytes of the innermost level back; calls let_go(range) for each range that was held.
  template <class LetGo>
  void put_back_level(LetGo&& let_go) noexcept {
    while (kept_.size() > marks_.back()) {
      const kept& k = kept_.back();
      if (k.old != nullptr) std::memcpy(base_ + k.offset, k.old, k.bytes);
      let_go(log::byte_range{k.offset, k.bytes});
      kept_.pop_back();
    }
    marks_.pop_back();
  }
  // Calls visit(range) for announced ranges; a byte may be in the ranges of several levels.
  template <class Visit>
  void each_changed(Visit&& visit) const {
    for (const kept& k : kept_) visit(log::byte_range{k.offset, k.bytes});
  }
  // Calls visit(offset, bytes, old bytes); the oldest version last.
  template <class Visit>
  void each_old(Visit&& visit) const {
    for (std::size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].old != nullptr) visit(kept_[i].offset, kept_[i].bytes, kept_[i].old);
    }
  }
  // The transaction is over: calls let_go(range) for ranges that are still held.
  template <class LetGo>
  void finish(LetGo&& let_go) noexcept {
    for (const kept& k : kept_) let_go(log::byte_range{k.offset, k.bytes});
    kept_.clear();
    marks_.clear();
    old_.reset();
  }

 private:
  struct kept {
    std::uint64_t offset, bytes;
    const std::byte* old;  // nullptr: there was no memory to keep it, and the program was told not to store
  };
  std::byte* const base_;
  std::vector<std::unique_ptr<tx::line_set>> sets_;  // of each level
  std::vector<std::size_t> marks_;                   // where each level's entries begin in kept_
  std::vector<kept> kept_;
  tx::byte_arena old_;
};

}  // namespace nvm::logheap
