#include "server/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace nvm::server {
namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_letter = 64;

constexpr auto values = [] {
  std::array<std::uint8_t, 256> v{};
  v.fill(no_letter);
  for (std::size_t i = 0; i < letters.size(); ++i)
    v[static_cast<std::uint8_t>(letters[i])] = static_cast<std::uint8_t>(i);
  return v;
}();

}  // namespace

char* put_base64(char* to, std::string_view plain) noexcept {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<std::uint8_t>(plain[i])}; };
  std::size_t i = 0;
  for (; i + 3 <= plain.size(); i += 3) {
    const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) *to++ = letters[group >> shift & 63];
  }
  const std::size_t rest = plain.size() - i;
  if (rest != 0) {
    const std::uint32_t group = byte(i) << 16 | (rest == 2 ? byte(i + 1) << 8 : 0);
    *to++ = letters[group >> 18 & 63];
    *to++ = letters[group >> 12 & 63];
    *to++ = rest == 2 ? letters[group >> 6 & 63] : '=';
    *to++ = '=';
  }
  return to;
}

std::size_t read_base64(std::string_view text, char* to) noexcept {
  const auto value = [](char c) { return c == '=' ? std::uint8_t{0} : values[static_cast<std::uint8_t>(c)]; };
  const auto counts = [&](char c) { return value(c) != no_letter; };
  if (std::count_if(text.begin(), text.end(), counts) % 4 != 0) return 0;
  char* const begin = to;
  std::uint32_t group = 0;
  unsigned count = 0;
  unsigned padding = 0;
  for (const char c : text) {
    if (!counts(c)) continue;
    if (c == '=') ++padding;
    group = group << 6 | value(c);
    if (++count % 4 != 0) continue;
    if (padding > 2) return 0;
    for (unsigned byte = 0; byte < 3 - padding; ++byte) *to++ = static_cast<char>(group >> (16 - 8 * byte) & 255);
    if (padding != 0) break;
    group = 0;
  }
  return static_cast<std::size_t>(to - begin);
}

}  // namespace nvm::server
