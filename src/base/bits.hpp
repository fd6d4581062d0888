// Arithmetic that cannot wrap unnoticed, rounding, and the units of everything's size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace nvm {

inline constexpr std::size_t line_bytes = 64;     // cache line: unit of write-back
inline constexpr std::size_t sector_bytes = 512;  // unit of failure atomicity on a block device

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) noexcept { return value / unit * unit; }
constexpr std::uint64_t ceil_div(std::uint64_t value, std::uint64_t unit) noexcept {
  return value / unit + (value % unit != 0);
}

constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// [offset, offset + bytes) lies inside [0, size), without wrapping.
constexpr bool range_inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) noexcept {
  return offset <= size && bytes <= size - offset;
}

// Number of lines that [p, p + bytes) touches; 0 for an empty range.
inline std::uint64_t lines_touched(const void* p, std::size_t bytes) noexcept {
  if (bytes == 0) return 0;
  const auto first = reinterpret_cast<std::uintptr_t>(p) / line_bytes;
  const auto last = (reinterpret_cast<std::uintptr_t>(p) + bytes - 1) / line_bytes;
  return last - first + 1;
}

}  // namespace nvm
