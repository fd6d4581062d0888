// A line of memory that a transaction has written and no other transaction sees yet. A write set consists of them, and
// an engine takes them home.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/base.hpp"

namespace nvm::isolation {

struct written_line {
  std::uint64_t line;                      // address / line_bytes
  std::uint64_t mask;                      // of the bytes written; bit i: byte i
  alignas(8) std::byte bytes[line_bytes];  // those not in `mask`: unspecified
};

// Stores the bytes where they belong, word by word. release: a reader that sees one of them also sees that the line's
// orec was locked before, and so does not use it (shared_memory.hpp).
inline void store_home(const written_line& w) noexcept {
  auto* const home = reinterpret_cast<std::byte*>(w.line * line_bytes);
  for (std::uint64_t left = w.mask; left != 0;) {
    const auto i = static_cast<unsigned>(std::countr_zero(left)) & ~7U;
    const std::uint64_t mask = left >> i & 0xFF;
    left &= ~(std::uint64_t{0xFF} << i);
    if (mask == 0xFF) {
      std::uint64_t value;
      std::memcpy(&value, w.bytes + i, 8);
      auto* const word = reinterpret_cast<std::uint64_t*>(home + i);
      bring_first(word);
      std::atomic_ref<std::uint64_t>{*word}.store(value, std::memory_order_release);
      continue;
    }
    for (unsigned b = i; b < i + 8; ++b) {
      if ((w.mask >> b & 1) == 0) continue;
      bring_first(reinterpret_cast<unsigned char*>(home + b));
      std::atomic_ref<std::byte>{home[b]}.store(w.bytes[b], std::memory_order_release);
    }
  }
}

}  // namespace nvm::isolation
