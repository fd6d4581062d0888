// Which bytes of a line: a mask, bit b for byte b.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::isolation {

// Mask of n bytes from byte `from` of a line; n is 1 to 64.
[[nodiscard]] constexpr std::uint64_t bytes_mask(unsigned from, std::size_t n) noexcept {
  return (~std::uint64_t{0} >> (line_bytes - n)) << from;
}

// Calls visit(from, n) for each maximal run of bytes in `mask`.
template <class Visit>
void each_run(std::uint64_t mask, Visit&& visit) {
  while (mask != 0) {
    const auto from = static_cast<unsigned>(std::countr_zero(mask));
    const auto n = static_cast<unsigned>(std::countr_one(mask >> from));
    visit(from, std::size_t{n});
    if (from + n == line_bytes) return;
    mask &= ~std::uint64_t{0} << (from + n);
  }
}

}  // namespace nvm::isolation
