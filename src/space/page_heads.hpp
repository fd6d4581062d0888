// Where runs and extents begin, one bit a page: leads from any page to the head of what it belongs to, in three words
// for a pool of 1 GiB and one more for each further GiB.
//
// A bit of a higher layer may be stale while its word changes, so a head may be missed at that moment: a thread that
// finds none, or one that does not reach the page, walks the page map.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "space/layered_bits.hpp"

namespace nvm {

class page_heads {
 public:
  explicit page_heads(std::uint64_t capacity_pages) noexcept
      : pages_{ceil_div(capacity_pages, 64)},
        chunks_{ceil_div(capacity_pages, 64 * 64)},
        groups_{ceil_div(capacity_pages, 64 * 64 * 64)} {}
  [[nodiscard]] bool exists() const noexcept { return pages_.exists() && chunks_.exists() && groups_.exists(); }

  void begin(std::uint64_t page) noexcept { begin_in_chunk(page / 64, std::uint64_t{1} << page % 64); }
  // seq_cst, as in end(): sum_up() relies on the order of its write and re-read.
  void begin_in_chunk(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const std::uint64_t old = pages_[chunk].fetch_or(mask, std::memory_order_seq_cst);
    if (old == 0) sum_chunk(chunk);
  }
  void end(std::uint64_t page) noexcept {
    const std::uint64_t mask = std::uint64_t{1} << page % 64;
    const std::uint64_t old = pages_[page / 64].fetch_and(~mask, std::memory_order_seq_cst);
    if (old == mask) sum_chunk(page / 64);
  }

  // The last head at or before `page`.
  [[nodiscard]] std::optional<std::uint64_t> last(std::uint64_t page) const noexcept {
    const std::uint64_t chunk = page / 64;
    if (const auto bit = highest(word(pages_, chunk), page % 64 + 1)) return chunk * 64 + *bit;
    const std::uint64_t group = chunk / 64;
    if (const auto bit = highest(word(chunks_, group), chunk % 64)) return in_chunk(group * 64 + *bit);
    for (std::uint64_t top = group / 64, below = group % 64;; below = 64) {
      if (const auto bit = highest(word(groups_, top), below)) return in_group(top * 64 + *bit);
      if (top-- == 0) return std::nullopt;
    }
  }

 private:
  // The highest of the `count` lowest bits that is set.
  static std::optional<std::uint64_t> highest(std::uint64_t word, std::uint64_t count) noexcept {
    const std::uint64_t bits = count == 64 ? word : word & ((std::uint64_t{1} << count) - 1);
    return bits == 0 ? std::nullopt : std::optional{63U - static_cast<std::uint64_t>(std::countl_zero(bits))};
  }
  [[nodiscard]] std::optional<std::uint64_t> in_chunk(std::uint64_t chunk) const noexcept {
    const auto bit = highest(word(pages_, chunk), 64);
    return bit ? std::optional{chunk * 64 + *bit} : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint64_t> in_group(std::uint64_t group) const noexcept {
    const auto bit = highest(word(chunks_, group), 64);
    return bit ? in_chunk(group * 64 + *bit) : std::nullopt;
  }

  // acquire: pairs with begin_in_chunk(): the run that a bit tells of is there.
  static std::uint64_t word(const sparse_array<std::uint64_t>& layer, std::uint64_t index) noexcept {
    return layer[index].load(std::memory_order_acquire);
  }
  void sum_chunk(std::uint64_t chunk) noexcept {
    if (sum_up<sum_is_any>(pages_[chunk], chunks_[chunk / 64], chunk % 64)) {
      sum_up<sum_is_any>(chunks_[chunk / 64], groups_[chunk / 64 / 64], chunk / 64 % 64);
    }
  }

  sparse_array<std::uint64_t> pages_;
  sparse_array<std::uint64_t> chunks_;
  sparse_array<std::uint64_t> groups_;
};

}  // namespace nvm
