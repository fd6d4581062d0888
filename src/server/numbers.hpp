// Numbers as the protocol writes and reads them: decimal, with what memcached's readers let pass (a sign, white space
// behind), and refused when they do not fit instead of cut off.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace nvm::server {

inline constexpr std::size_t number_bytes_max = 20;

constexpr bool is_white(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

template <std::integral T>
[[nodiscard]] bool read_number(std::string_view text, T& to) noexcept {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return false;
  }
  T value{};
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc{} || (end != text.end() && !is_white(*end))) return false;
  to = value;
  return true;
}

// There must be room for number_bytes_max; returns the place behind the last digit.
inline char* put_number(char* to, std::uint64_t value) noexcept {
  return std::to_chars(to, to + number_bytes_max, value).ptr;
}

}  // namespace nvm::server
