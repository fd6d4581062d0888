// Which bytes a level of a transaction has announced: a byte mask for each cache line touched.
//
// Serves twice: a byte is logged once per level, exactly (no rounding: a neighbouring byte may belong to another lock),
// and at commit the set is the list of lines, or exact byte runs, to make durable.  Entries keep the order of first
// touch. Clearing is O(1).
//
// Many whole lines announced at once are one entry, a run: a kilobyte costs no more than a word.  There are a few at
// most, no line is in a run and in an entry too, and nothing is taken out of a run but the run as a whole.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/base.hpp"

namespace nvm::tx {

class line_set {
 public:
  struct entry {
    std::uint64_t line = 0;  // offset in the pool / 64
    std::uint64_t mask = 0;  // bit b: byte b of the line
  };

  struct run {
    std::uint64_t first = 0;  // line
    std::uint64_t lines = 0;
  };
  static constexpr std::uint64_t run_lines_min = 4;
  static constexpr std::size_t runs_max = 8;

  line_set() : slots_(64), entries_{} { entries_.reserve(32); }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty() && run_count_ == 0; }
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::span<const run> runs() const noexcept { return {runs_, run_count_}; }

  void clear() noexcept {
    entries_.clear();
    run_count_ = 0;
    if (++epoch_ == 0) {  // wrapped: old slots would look current
      for (slot& s : slots_) s.epoch = 0;
      epoch_ = 1;
    }
  }

  // Mask of the line, 0 if it is not in the set.
  [[nodiscard]] std::uint64_t mask_of(std::uint64_t line) const noexcept {
    if (in_run(line)) return ~std::uint64_t{0};
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (s.epoch != epoch_) return 0;
      if (entries_[s.index].line == line) return entries_[s.index].mask;
    }
  }

  // Adds bytes; returns those of them that were not in the set.  May throw std::bad_alloc, changing nothing.
  std::uint64_t add(std::uint64_t line, std::uint64_t mask) {
    if (in_run(line)) return 0;
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      slot& s = slots_[i];
      if (s.epoch == epoch_) {
        entry& e = entries_[s.index];
        if (e.line != line) continue;
        const std::uint64_t added = mask & ~e.mask;
        e.mask |= mask;
        return added;
      }
      if ((entries_.size() + 1) * 2 > slots_.size()) {
        grow();
        return add(line, mask);
      }
      entries_.push_back({line, mask});
      s = {epoch_, static_cast<std::uint32_t>(entries_.size() - 1)};
      return mask;
    }
  }

  // Adds whole lines as a run; false, changing nothing, if some byte of them is in the set or there are runs enough.
  [[nodiscard]] bool add_run(std::uint64_t first, std::uint64_t lines) noexcept {
    if (run_count_ == runs_max) return false;
    for (const run& r : runs()) {
      if (first < r.first + r.lines && r.first < first + lines) return false;
    }
    if (entries_.size() <= lines) {
      for (const entry& e : entries_) {
        if (e.line - first < lines) return false;
      }
    } else {
      for (std::uint64_t line = first; line < first + lines; ++line) {
        if (has_entry(line)) return false;
      }
    }
    runs_[run_count_++] = {first, lines};
    return true;
  }
  // Takes the latest runs out again, down to the first `count`.
  void drop_runs(std::size_t count) noexcept { run_count_ = count; }

  // Takes bytes of entries out again (an announcement that failed half way).
  void remove(std::uint64_t line, std::uint64_t mask) noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (s.epoch != epoch_) return;
      if (entries_[s.index].line == line) {
        entries_[s.index].mask &= ~mask;
        return;
      }
    }
  }

  // Bits of the bytes of [offset, offset + bytes) that lie in `line`.
  static std::uint64_t mask_in(std::uint64_t line, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t start = line * line_bytes;
    const std::uint64_t from = offset > start ? offset - start : 0;
    const std::uint64_t to = offset + bytes < start + line_bytes ? offset + bytes - start : line_bytes;
    const std::uint64_t upto = to == line_bytes ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
    return upto & ~((std::uint64_t{1} << from) - 1);
  }

 private:
  [[nodiscard]] bool in_run(std::uint64_t line) const noexcept {
    for (std::size_t i = 0; i < run_count_; ++i) {
      if (line - runs_[i].first < runs_[i].lines) return true;
    }
    return false;
  }
  [[nodiscard]] bool has_entry(std::uint64_t line) const noexcept {
    for (std::size_t i = hash(line);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (s.epoch != epoch_) return false;
      if (entries_[s.index].line == line) return true;
    }
  }

  struct slot {
    std::uint32_t epoch = 0;
    std::uint32_t index = 0;
  };

  [[nodiscard]] std::size_t hash(std::uint64_t line) const noexcept {
    return static_cast<std::size_t>(line * 0x9E3779B97F4A7C15ULL >> 20) & (slots_.size() - 1);
  }

  void grow() {
    std::vector<slot> larger(slots_.size() * 2);
    slots_.swap(larger);
    for (std::uint32_t k = 0; k < entries_.size(); ++k) {
      std::size_t i = hash(entries_[k].line);
      while (slots_[i].epoch == epoch_) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = {epoch_, k};
    }
  }

  std::vector<slot> slots_;
  std::vector<entry> entries_;
  std::uint32_t epoch_ = 1;
  run runs_[runs_max];
  std::size_t run_count_ = 0;
};

// Calls visit(offset, bytes) for each maximal run of bytes set in `mask` of `line`.
template <class Visit>
void each_byte_run(std::uint64_t line, std::uint64_t mask, Visit&& visit) {
  while (mask != 0) {
    const unsigned from = static_cast<unsigned>(std::countr_zero(mask));
    const unsigned length = static_cast<unsigned>(std::countr_one(mask >> from));
    visit(line * line_bytes + from, std::uint64_t{length});
    if (from + length == line_bytes) return;
    mask &= ~std::uint64_t{0} << (from + length);
  }
}

}  // namespace nvm::tx
