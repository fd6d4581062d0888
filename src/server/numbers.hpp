// Decimal numbers of the protocol and of the command line.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace nvm::server {

inline constexpr std::size_t number_bytes_max = 20;

constexpr bool is_white(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Number of the command line, refused when it does not fit. A plus sign, and text after white space, are ignored.
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

// Number of a client, read as memcached does with the C library: white space and a sign before it; white space or a
// zero byte, then anything, after it. A number that fits 64 bits is cut to its type. Unsigned types refuse a number
// with its top bit set and a minus in its text.
template <std::integral T>
[[nodiscard]] bool read_client_number(std::string_view text, T& to) noexcept {
  const std::string_view whole = text.substr(0, text.find('\0'));
  text = whole;
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), size);
  if (error != std::errc{} || (end != text.end() && !is_white(*end))) return false;
  const std::uint64_t value = negative ? 0 - size : size;
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  if constexpr (std::is_signed_v<T>) {
    if (negative ? size > sign : size >= sign) return false;
  } else if ((value & sign) != 0 && whole.find('-') != std::string_view::npos) {
    return false;
  }
  to = static_cast<T>(value);
  return true;
}

// The same for numbers with a fraction.
[[nodiscard]] inline bool read_client_number(std::string_view text, double& to) noexcept {
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.begin(), text.end(), to);
  return error == std::errc{} && (end == text.end() || is_white(*end));
}

// There must be room for number_bytes_max; returns the place after the last digit.
inline char* put_number(char* to, std::uint64_t value) noexcept {
  return std::to_chars(to, to + number_bytes_max, value).ptr;
}

}  // namespace nvm::server
