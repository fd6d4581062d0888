// Words of an image of a pool as they lie there, and sentences about them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace nvm::care {

[[nodiscard]] inline std::uint64_t word_at(const std::byte* base, std::uint64_t at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, base + at, sizeof word);
  return word;
}

// As by printf(), cut off after 511 bytes.
[[nodiscard]] inline std::string text_of(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace nvm::care
