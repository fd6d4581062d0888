#include "cli/hex.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace nvm::cli {

std::string hex_text(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

std::string hex_lines(std::span<const std::byte> bytes, unsigned indent) {
  constexpr std::size_t columns = 16;
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += columns) {
    const auto row = bytes.subspan(at, std::min(columns, bytes.size() - at));
    text += fmt::format("{:{}}{:06x} ", "", indent, at);
    for (std::size_t i = 0; i < columns; ++i) {
      if (i % 8 == 0) text += ' ';
      text += i < row.size() ? hex_text(row.subspan(i, 1)) + ' ' : "   ";
    }
    text += " |";
    for (const std::byte b : row) {
      const auto c = std::to_integer<char>(b);
      text += c >= ' ' && c <= '~' ? c : '.';
    }
    text += "|\n";
  }
  return text;
}

}  // namespace nvm::cli
