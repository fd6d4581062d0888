// The lines that a transaction will write home when it commits, with savepoints.  Lines of the pool and of volatile
// memory are kept apart: the engine takes those of the pool home.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/inlining.hpp"
#include "isolation/line_table.hpp"

namespace nvm::isolation {

class write_set {
 public:
  using mark = std::size_t;

  [[nodiscard]] bool empty() const noexcept { return durable_.empty() && volatile_.empty(); }
  [[nodiscard]] mark here() const noexcept { return before_.size(); }
  // A savepoint begins: lines are kept before they change.
  void begin_level() noexcept { ++level_; }

  // Puts bytes of the pool that lie inside one line, in the outermost level.  For a new line it calls locked(), which
  // locks it or fails. False: locked() has failed or there is no room; nothing was put.
  template <class T, class Locked>
  [[nodiscard, NVM_INLINE]] bool put_quickly(const T* p, T value, Locked&& locked) noexcept {
    const std::uint64_t line = reinterpret_cast<std::uintptr_t>(p) / line_bytes;
    const std::size_t known = durable_.size();
    const std::size_t i = durable_.at_quickly(line);
    if (i == line_table::npos) return false;
    written_line& w = durable_[i];
    if (i == known && !locked()) {
      with_empty_lines_ = true;
      return false;
    }
    const auto at = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) % line_bytes);
    std::memcpy(w.bytes + at, &value, sizeof value);
    w.mask |= bytes_mask(at, sizeof value);
    return true;
  }

  // n bytes inside one line.  May throw std::bad_alloc, having put nothing.
  [[NVM_INLINE]] void put(const void* p, const void* from, std::size_t n, bool durable, bool outermost) {
    table& t = durable ? durable_ : volatile_;
    const std::size_t i = t.at(reinterpret_cast<std::uintptr_t>(p) / line_bytes);
    if (!outermost) {
      // Saving may find no memory; and a new line is saved without bytes.
      with_empty_lines_ = with_empty_lines_ || t[i].mask == 0;
      save(t, i, durable);
    }
    const auto at = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) % line_bytes);
    std::memcpy(t[i].bytes + at, from, n);
    t[i].mask |= bytes_mask(at, n);
  }

  // The bytes of this transaction among [p, p + n), inside one line, replace those in `out`; their mask, from p on.
  [[nodiscard]] const written_line* find(const void* p, bool durable) const noexcept {
    const table& t = durable ? durable_ : volatile_;
    const std::size_t i = t.find(reinterpret_cast<std::uintptr_t>(p) / line_bytes);
    return i == line_table::npos ? nullptr : &t.lines()[i];
  }

  // Undoes the level that began at `m`.
  void put_back(mark m) noexcept {
    for (std::size_t i = before_.size(); i-- > m;) {
      written_line& w = (before_[i].durable ? durable_ : volatile_)[before_[i].index];
      w = before_[i].line;
      with_empty_lines_ = with_empty_lines_ || w.mask == 0;
    }
    before_.resize(m);
    ++level_;
  }
  // Makes the innermost level a part of the one around it.
  void end_level(bool outermost_now) noexcept {
    ++level_;
    if (outermost_now) before_.clear();
  }

  // Lines for the commit; nothing may be put after it.
  [[nodiscard]] std::span<const written_line> durable_lines() noexcept {
    if (with_empty_lines_) durable_.drop_empty_lines();
    return durable_.lines();
  }
  void store_volatile_home() const noexcept { volatile_.store_home(); }

  void clear() noexcept {
    durable_.clear();
    volatile_.clear();
    if (!before_.empty()) before_.clear();
    if (with_empty_lines_) with_empty_lines_ = false;
  }

 private:
  class table : public line_table {
   public:
    std::vector<std::uint64_t> saved;  // for each line: the level whose savepoint has it
  };
  struct old_line {
    written_line line;
    std::size_t index;
    bool durable;
  };

  [[gnu::noinline]] void save(table& t, std::size_t i, bool durable) {
    if (t.saved.size() < t.size()) t.saved.resize(t.size());
    if (t.saved[i] == level_) return;
    before_.push_back({t[i], i, durable});
    t.saved[i] = level_;
  }

  table durable_;
  table volatile_;
  std::vector<old_line> before_;
  std::uint64_t level_ = 1;  // numbers savepoints, and the time after each
  bool with_empty_lines_ = false;
};

}  // namespace nvm::isolation
