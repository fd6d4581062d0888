// The bytes that a level of a transaction has announced: a byte mask for each cache line touched.
//
// Serves twice: a byte is logged once per level, exactly (no rounding: a neighbouring byte may belong to another lock),
// and at commit the set is the list of lines, or exact byte runs, to make durable.  Entries keep the order of first
// touch. Clearing is O(1).
//
// Many whole lines announced at once are one entry, a run: a kilobyte costs no more than a word.  There are at most a
// few runs; no line is in both a run and an entry; and a run is only taken out as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/base.hpp"
#include "isolation/isolation.hpp"

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

  line_set() { entries_.reserve(index_.room()); }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty() && run_count_ == 0; }
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::span<const run> runs() const noexcept { return {runs_, run_count_}; }

  void clear() noexcept {
    entries_.clear();
    run_count_ = 0;
    index_.forget();
  }

  // Mask of the line, 0 if it is not in the set.
  [[nodiscard]] std::uint64_t mask_of(std::uint64_t line) const noexcept {
    if (in_run(line)) return ~std::uint64_t{0};
    const std::size_t i = index_.find(line, line_of());
    return i == index_.npos ? 0 : entries_[i].mask;
  }

  // Adds bytes; returns those of them that were not in the set.  May throw std::bad_alloc, changing nothing.
  std::uint64_t add(std::uint64_t line, std::uint64_t mask) {
    if (in_run(line)) return 0;
    const std::size_t i = index_.at(line, entries_.size(), line_of());
    if (i == index_.npos) {
      enlarge();
      return add(line, mask);
    }
    if (i == entries_.size()) {
      entries_.push_back({line, mask});  // there is room
      return mask;
    }
    entry& e = entries_[i];
    const std::uint64_t added = mask & ~e.mask;
    e.mask |= mask;
    return added;
  }

  // Adds whole lines as a run; false, changing nothing, if some byte of them is in the set or there are too many runs.
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
    const std::size_t i = index_.find(line, line_of());
    if (i != index_.npos) entries_[i].mask &= ~mask;
  }

  // Bits of the bytes of [offset, offset + bytes) that lie in `line`.
  static std::uint64_t mask_in(std::uint64_t line, std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t start = line * line_bytes;
    const std::uint64_t from = offset > start ? offset - start : 0;
    const std::uint64_t to = offset + bytes < start + line_bytes ? offset + bytes - start : line_bytes;
    return from < to ? isolation::bytes_mask(static_cast<unsigned>(from), to - from) : 0;
  }

 private:
  [[nodiscard]] bool in_run(std::uint64_t line) const noexcept {
    for (std::size_t i = 0; i < run_count_; ++i) {
      if (line - runs_[i].first < runs_[i].lines) return true;
    }
    return false;
  }
  [[nodiscard]] bool has_entry(std::uint64_t line) const noexcept {
    return index_.find(line, line_of()) != index_.npos;
  }
  struct line_of_entry {
    const entry* entries;
    std::uint64_t operator()(std::size_t i) const noexcept { return entries[i].line; }
  };
  [[nodiscard]] line_of_entry line_of() const noexcept { return {entries_.data()}; }
  [[gnu::noinline]] void enlarge() {
    entries_.reserve(2 * index_.room());
    index_.enlarge(entries_.size(), line_of());
  }

  isolation::line_index index_{64};
  std::vector<entry> entries_;  // as many as the index has room for
  run runs_[runs_max];
  std::size_t run_count_ = 0;
};

// Calls visit(offset, bytes) for each maximal run of bytes set in `mask` of `line`.
template <class Visit>
void each_byte_run(std::uint64_t line, std::uint64_t mask, Visit&& visit) {
  isolation::each_run(mask, [&](unsigned from, std::size_t n) { visit(line * line_bytes + from, std::uint64_t{n}); });
}

}  // namespace nvm::tx
