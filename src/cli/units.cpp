#include "cli/units.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <optional>

namespace nvm::cli {
namespace {

constexpr std::string_view suffixes = "KMGT";

parsed_number refused(std::string_view text, std::string_view what, std::string_view expected) {
  return {0, fmt::format("\"{}\" is no {}: expected {}", text, what, expected)};
}

// The digits at the start of `text`, which they leave; nothing when there are none or too many.
std::optional<std::uint64_t> take_digits(std::string_view& text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

parsed_number parse_size(std::string_view text) {
  constexpr std::string_view expected =
      "a whole number of bytes, with K, M, G or T (KiB, MiB ...) after it for powers of 1024, or KB, MB, GB or TB for "
      "powers of 1000, such as 64M";
  std::string_view rest = text;
  const auto number = take_digits(rest, 10);
  if (!number) return refused(text, "size", expected);
  std::uint64_t unit = 1;
  if (!rest.empty()) {
    const char letter =
        rest.front() >= 'a' && rest.front() <= 'z' ? static_cast<char>(rest.front() - 32) : rest.front();
    const std::size_t place = suffixes.find(letter);
    rest.remove_prefix(1);
    const bool decimal = rest == "B";
    if (place == std::string_view::npos || !(rest.empty() || rest == "iB" || decimal)) {
      return refused(text, "size", expected);
    }
    for (std::size_t i = 0; i <= place; ++i) unit *= decimal ? 1000 : 1024;
  }
  if (*number == 0) return {0, "a size of 0 bytes: expected at least 1"};
  if (*number > UINT64_MAX / unit) return refused(text, "size", "less than 2^64 bytes");
  return {*number * unit, {}};
}

parsed_number parse_count(std::string_view text, std::uint64_t most) {
  std::string_view rest = text;
  const bool hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
  if (hexadecimal) rest.remove_prefix(2);
  const auto number = take_digits(rest, hexadecimal ? 16 : 10);
  if (!number || !rest.empty()) return refused(text, "number", "decimal digits, or hexadecimal ones after 0x");
  if (*number > most) return refused(text, "number in range", fmt::format("at most {}", most));
  return {*number, {}};
}

parsed_number parse_seconds(std::string_view text) {
  constexpr std::uint64_t ns_per_s = 1'000'000'000;
  constexpr std::string_view expected = "seconds from 0.001 to 3600, such as 2 or 0.25";
  std::string_view rest = text;
  const auto whole = take_digits(rest, 10);
  if (!whole || *whole > 3600) return refused(text, "duration", expected);
  std::uint64_t ns = *whole * ns_per_s;
  if (!rest.empty()) {
    if (rest.front() != '.' || rest.size() < 2) return refused(text, "duration", expected);
    rest.remove_prefix(1);
    std::uint64_t place = ns_per_s / 10;
    for (const char digit : rest) {
      if (digit < '0' || digit > '9') return refused(text, "duration", expected);
      ns += static_cast<std::uint64_t>(digit - '0') * place;
      place /= 10;
    }
  }
  if (ns < ns_per_s / 1000 || ns > 3600 * ns_per_s) return refused(text, "duration", expected);
  return {ns, {}};
}

parsed_number parse_permissions(std::string_view text) {
  std::string_view rest = text;
  const auto bits = take_digits(rest, 8);
  if (!bits || !rest.empty() || *bits == 0 || *bits > 0777) {
    return refused(text, "mode", "octal permission bits, such as 600 or 0640");
  }
  return {*bits, {}};
}

std::string size_text(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  if (value == static_cast<double>(static_cast<std::uint64_t>(value)))
    return fmt::format("{:.0f} {}", value, units[unit]);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

std::string duration_text(double ns) {
  if (ns < 1000) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string address_text(std::uint64_t address) { return fmt::format("{:#x}", address); }

}  // namespace nvm::cli
