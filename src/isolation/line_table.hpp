// Lines of memory with some of their bytes: the new ones that a transaction will write home, or the old ones that it
// will put back.  In order of first touch, found by a hash.  Clearing is O(1), and memory is kept from one transaction
// to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/inlining.hpp"
#include "isolation/line_bytes.hpp"
#include "isolation/line_index.hpp"
#include "isolation/written_line.hpp"

namespace nvm::isolation {

class line_table {
 public:
  static constexpr std::size_t npos = line_index::npos;

  line_table() : lines_{std::make_unique_for_overwrite<written_line[]>(index_.room())} {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const written_line> lines() const noexcept { return {lines_.get(), size_}; }
  [[nodiscard]] written_line& operator[](std::size_t i) noexcept { return lines_[i]; }

  void clear() noexcept {
    if (size_ == 0) return;
    size_ = 0;
    if (index_.room() > keep_lines_max) give_memory_back();
    index_.forget();
  }

  // Number of the line, npos: it is not there.
  [[nodiscard]] std::size_t find(std::uint64_t line) const noexcept { return index_.find(line, line_of()); }
  // Number of the line, which is added with an empty mask if it is not there; npos: there is no room for that.
  [[nodiscard, NVM_INLINE]] std::size_t at_quickly(std::uint64_t line) noexcept {
    const std::size_t i = index_.at(line, size_, line_of());
    if (i == size_) {
      lines_[i].line = line;
      lines_[i].mask = 0;
      ++size_;
    }
    return i;
  }
  // May throw std::bad_alloc, changing nothing.
  [[nodiscard]] std::size_t at(std::uint64_t line) {
    const std::size_t i = at_quickly(line);
    if (i != npos) return i;
    enlarge();
    return at_quickly(line);
  }

  // Removes lines without bytes. Earlier answers of find() and at() are void, and neither may be called before clear().
  void drop_empty_lines() noexcept {
    written_line* const end = lines_.get() + size_;
    size_ = static_cast<std::size_t>(
        std::remove_if(lines_.get(), end, [](const written_line& w) { return w.mask == 0; }) - lines_.get());
    index_.forget();  // it names places where other lines are now, or none
  }

  // Stores all bytes to where they belong.
  void store_home() const noexcept {
    for (const written_line& w : lines()) isolation::store_home(w);
  }

 private:
  static constexpr std::size_t slots_first = 128;
  static constexpr std::size_t keep_lines_max = 1 << 16;

  struct line_of_number {
    const written_line* lines;
    std::uint64_t operator()(std::size_t i) const noexcept { return lines[i].line; }
  };
  [[nodiscard]] line_of_number line_of() const noexcept { return {lines_.get()}; }
  [[gnu::noinline]] void enlarge() {
    auto lines = std::make_unique_for_overwrite<written_line[]>(2 * index_.room());
    std::copy_n(lines_.get(), size_, lines.get());
    index_.enlarge(size_, line_of());
    lines_ = std::move(lines);
  }
  [[gnu::noinline]] void give_memory_back() noexcept try {
    line_index index{slots_first};
    lines_ = std::make_unique_for_overwrite<written_line[]>(index.room());
    index_ = std::move(index);
  } catch (const std::bad_alloc&) {
    // Then it is kept.
  }

  line_index index_{slots_first};
  std::unique_ptr<written_line[]> lines_;  // as many as the index has room for
  std::size_t size_ = 0;
};

}  // namespace nvm::isolation
