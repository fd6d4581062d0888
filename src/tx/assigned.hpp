// Words that a transaction stores for the library itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::tx {

// A word of the pool and its new value.
struct assigned_word {
  std::uint64_t offset;
  std::uint64_t value;
};
inline constexpr std::size_t assigned_words_max = 4;

// The same of eight bytes or of four.
struct assigned_bytes {
  std::uint64_t offset;
  std::uint64_t value;
  std::uint32_t bytes;
};

}  // namespace nvm::tx
