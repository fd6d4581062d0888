// Three layers of bits, one for each page, chunk and group (Lewat, section III-C): a higher bit sums up the 64 below
// it.
//
//   layered bitmap    higher bit = all 64 lower bits are set: a full chunk or group
//   layered lock map  higher bit = any lower bit is set: a whole chunk or group cannot be taken now
//
// Threads.  Any thread changes any bit of the lowest layer by one atomic read-modify-write; that bit alone decides. The
// thread whose change alters the sum of a word brings the layer above up to date, and looks at the word again
// afterwards.  So a higher bit is a hint while its word changes, and exact when no thread is at work: the last thread
// that wrote it has seen the word after writing, and a later change of the word writes it again.
#pragma once

#include <atomic>
#include <cstdint>

#include "pool/pool.hpp"
#include "space/sparse_array.hpp"

namespace nvm {

inline constexpr unsigned bits_per_word = 64;
static_assert(layout::pages_per_chunk == bits_per_word && layout::chunks_per_group == bits_per_word);

struct sum_is_all {
  static bool of(std::uint64_t word) noexcept { return word == ~std::uint64_t{0}; }
};
struct sum_is_any {
  static bool of(std::uint64_t word) noexcept { return word != 0; }
};

template <class Sum>
class layered_bits {
 public:
  explicit layered_bits(std::uint64_t pages) noexcept
      : pages_{ceil_div(pages, 64)}, chunks_{ceil_div(pages, 64 * 64)}, groups_{ceil_div(pages, 64 * 64 * 64)} {}
  [[nodiscard]] bool exists() const noexcept { return pages_.exists() && chunks_.exists() && groups_.exists(); }

  // The 64 page bits of a chunk.  acquire: pairs with set() and clear(): what a thread did with pages before it gave
  // them up is done.
  [[nodiscard]] std::uint64_t word(std::uint64_t chunk) const noexcept {
    return pages_[chunk].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool chunk_bit(std::uint64_t chunk) const noexcept {
    return (chunks_[chunk / 64].load(std::memory_order_relaxed) >> chunk % 64 & 1) != 0;
  }
  // The 64 chunk bits of a group.
  [[nodiscard]] std::uint64_t group_word(std::uint64_t group) const noexcept {
    return chunks_[group].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool group_bit(std::uint64_t group) const noexcept {
    return (groups_[group / 64].load(std::memory_order_relaxed) >> group % 64 & 1) != 0;
  }

  // Both return the word as it was before.  seq_cst throughout: sum_up() relies on the order of its write and re-read.
  std::uint64_t set(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const std::uint64_t old = pages_[chunk].fetch_or(mask, std::memory_order_seq_cst);
    if (Sum::of(old) != Sum::of(old | mask)) sum_chunk(chunk);
    return old;
  }
  std::uint64_t clear(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const std::uint64_t old = pages_[chunk].fetch_and(~mask, std::memory_order_seq_cst);
    if (Sum::of(old) != Sum::of(old & ~mask)) sum_chunk(chunk);
    return old;
  }
  // Sets all bits of the mask if none was set.
  [[nodiscard]] bool try_set(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const auto word = pages_[chunk];
    std::uint64_t old = word.load(std::memory_order_relaxed);
    do {
      if ((old & mask) != 0) return false;
    } while (!word.compare_exchange_weak(old, old | mask, std::memory_order_seq_cst, std::memory_order_relaxed));
    if (Sum::of(old) != Sum::of(old | mask)) sum_chunk(chunk);
    return true;
  }

 private:
  void sum_chunk(std::uint64_t chunk) noexcept {
    if (sum_up(pages_[chunk], chunks_[chunk / 64], chunk % 64)) {
      sum_up(chunks_[chunk / 64], groups_[chunk / 64 / 64], chunk / 64 % 64);
    }
  }
  // Returns whether it wrote; the caller sums the written word up in turn.
  static bool sum_up(std::atomic_ref<std::uint64_t> lower, std::atomic_ref<std::uint64_t> upper,
                     unsigned bit) noexcept {
    const std::uint64_t mask = std::uint64_t{1} << bit;
    bool wrote = false;
    for (;;) {
      const bool sum = Sum::of(lower.load(std::memory_order_seq_cst));
      const bool is = (upper.load(std::memory_order_seq_cst) & mask) != 0;
      if (sum != is) {
        sum ? upper.fetch_or(mask, std::memory_order_seq_cst) : upper.fetch_and(~mask, std::memory_order_seq_cst);
        wrote = true;
      }
      if (Sum::of(lower.load(std::memory_order_seq_cst)) == sum) return wrote;
    }
  }

  sparse_array<std::uint64_t> pages_;
  sparse_array<std::uint64_t> chunks_;
  sparse_array<std::uint64_t> groups_;
};

using layered_bitmap = layered_bits<sum_is_all>;
using layered_lock_map = layered_bits<sum_is_any>;

}  // namespace nvm
