// The bytes that a commit puts into the log: stores in place, words, and lines of barriers; in order of addresses,
// disjoint, and without objects that the transaction frees.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "logheap/logheap_layout.hpp"

namespace nvm::logheap {

// A word of home space and its new value.
struct assigned_home {
  std::uint64_t home, value;
};

template <class Range>
class commit_set {
 public:
  void clear() noexcept {
    stores_.clear();
    in_place_.clear();
    left_out_.clear();
  }
  // Bytes that are stored in memory already; they may overlap others.  Throws std::bad_alloc, as do the others.
  void in_place(const log::byte_range& r) { in_place_.push_back(r); }
  // Leaves out bytes of an object that is freed.
  void leave_out(const log::byte_range& r) { left_out_.push_back(r); }

  // Adds words and lines; the later of two words with one place counts.  The memory that `words` and `lines` refer to
  // must stay until the commit has ended.
  void finish(std::byte* base, std::span<const assigned_home> words, std::span<const isolation::written_line> lines) {
    each_union([&](const log::byte_range& r) { stores_.push_back({r.offset, base + r.offset, r.bytes}); });
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto later = words.subspan(i + 1);
      const auto again = [&](const assigned_home& w) { return w.home == words[i].home; };
      if (std::any_of(later.begin(), later.end(), again)) continue;
      stores_.push_back({words[i].home, reinterpret_cast<const std::byte*>(&words[i].value), 8});
    }
    const std::uint64_t first_line = reinterpret_cast<std::uintptr_t>(base) / line_bytes;
    for (const isolation::written_line& w : lines) {
      const std::uint64_t line = (w.line - first_line) * line_bytes;
      isolation::each_run(w.mask,
                          [&](unsigned from, std::size_t n) { stores_.push_back({line + from, w.bytes + from, n}); });
    }
    std::sort(stores_.begin(), stores_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
    if (!left_out_.empty()) cut();
  }

  [[nodiscard]] const std::vector<Range>& all() const noexcept { return stores_; }
  // Size of the block that holds them.
  [[nodiscard]] std::uint64_t logged_bytes() const noexcept {
    std::uint64_t bytes = sizeof(layout::block_header);
    for (const Range& s : stores_) bytes += s.size + sizeof(std::uint64_t);
    return bytes;
  }

 private:
  static void sort(std::vector<log::byte_range>& ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  }
  // Calls visit(range) for the merged ranges that are in place.
  template <class Visit>
  void each_union(Visit&& visit) {
    sort(in_place_);
    log::byte_range run{0, 0};
    for (const log::byte_range& r : in_place_) {
      if (run.bytes != 0 && r.offset <= run.offset + run.bytes) {
        run.bytes = std::max(run.offset + run.bytes, r.offset + r.bytes) - run.offset;
        continue;
      }
      if (run.bytes != 0) visit(run);
      run = r;
    }
    if (run.bytes != 0) visit(run);
  }
  void cut() {
    kept_.clear();
    sort(left_out_);
    auto out = left_out_.begin();
    for (Range s : stores_) {
      while (out != left_out_.end() && out->offset + out->bytes <= s.home) ++out;
      for (auto o = out; s.size != 0 && o != left_out_.end() && o->offset < s.home + s.size; ++o) {
        if (o->offset > s.home) kept_.push_back({s.home, s.from, o->offset - s.home});
        const std::uint64_t end = std::min(s.home + s.size, o->offset + o->bytes);
        s.from += end - s.home;
        s.size -= end - s.home;
        s.home = end;
      }
      if (s.size != 0) kept_.push_back(s);
    }
    stores_.swap(kept_);
  }

  std::vector<Range> stores_, kept_;
  std::vector<log::byte_range> in_place_, left_out_;
};

}  // namespace nvm::logheap
