// Ownership records: one word for all lines of memory that have one hash, for the whole process.
//
// A word is the version of the last transaction that wrote one of its lines, or names the transaction that is writing
// now.  They are volatile: after a restart every line has version 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "base/inlining.hpp"

namespace nvm::isolation {

// An atomic word.  Not std::atomic: a million of those are no constant to every compiler, and the table has to exist
// before a program's first constructor runs, and cost nothing until it is used.
class orec {
 public:
  [[nodiscard]] std::uint64_t load(std::memory_order order) const noexcept {
    return std::atomic_ref{word_}.load(order);
  }
  void store(std::uint64_t word, std::memory_order order) noexcept { std::atomic_ref{word_}.store(word, order); }
  bool compare_exchange_strong(std::uint64_t& expected, std::uint64_t word, std::memory_order success,
                               std::memory_order failure) noexcept {
    return std::atomic_ref{word_}.compare_exchange_strong(expected, word, success, failure);
  }

 private:
  mutable std::uint64_t word_;  // atomic_ref takes no constant
};

// Neighbouring lines have neighbouring words: walking along memory walks along the table.  2^20 words are 8 MiB, of
// which a program touches as many pages as its data needs.
inline constexpr unsigned orec_bits = 20;
extern orec orec_table[std::size_t{1} << orec_bits];

[[nodiscard]] inline std::uint64_t line_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) / line_bytes;
}
[[nodiscard]] inline orec& orec_of_line(std::uint64_t line) noexcept {
  return orec_table[(line ^ (line >> orec_bits)) & ((std::uint64_t{1} << orec_bits) - 1)];
}

// Begins to fetch memory and its words.  Any address will do.  Inlined: GCC removes calls of a function that only
// prefetches.
[[NVM_INLINE]] inline void fetch(const void* p, std::size_t n) noexcept {
  const std::uint64_t first = line_of(p);
  for (std::uint64_t line = first; line <= line_of(static_cast<const std::byte*>(p) + n - 1) && n != 0; ++line) {
    __builtin_prefetch(reinterpret_cast<const void*>(line * line_bytes));
    __builtin_prefetch(&orec_of_line(line));
    if (line - first == fetched_lines_max) return;
  }
}

// What a word says.  Unlocked: version * 2.  Locked: bit 0, the owner's number, and which of its locks this is.
namespace orec_word {
inline constexpr unsigned owner_bits = 20;
inline constexpr std::uint64_t owners_max = std::uint64_t{1} << owner_bits;

[[nodiscard]] constexpr bool locked(std::uint64_t w) noexcept { return (w & 1) != 0; }
[[nodiscard]] constexpr std::uint64_t of_version(std::uint64_t version) noexcept { return version << 1; }
[[nodiscard]] constexpr std::uint64_t of_lock(std::uint64_t owner, std::uint64_t lock) noexcept {
  return lock << (owner_bits + 1) | owner << 1 | 1;
}
[[nodiscard]] constexpr bool locked_by(std::uint64_t w, std::uint64_t owner) noexcept {
  return (w & (owners_max * 2 - 1)) == (owner << 1 | 1);
}
[[nodiscard]] constexpr std::uint64_t lock_of(std::uint64_t w) noexcept { return w >> (owner_bits + 1); }
}  // namespace orec_word

}  // namespace nvm::isolation
