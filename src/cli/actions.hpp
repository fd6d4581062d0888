// The actions of a command that has several: a row for each, with the number of its operands and its function.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/console.hpp"

namespace nvm::cli {

template <class Call>
struct action {
  std::string_view name;
  std::size_t operands_min;  // with ACTION and PATH
  std::size_t operands_max;
  exit_code (*run)(Call& c);
};

template <class Call, std::size_t N>
[[nodiscard]] constexpr std::array<std::string_view, N> names_of(const action<Call> (&table)[N]) {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = table[i].name;
  return names;
}

// A word of 8 bytes: decimal, or hexadecimal after 0x.
[[nodiscard]] inline std::optional<std::uint64_t> word_of(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t word = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), word, hexadecimal ? 16 : 10);
  return wrong == std::errc{} && end == text.data() + text.size() ? std::optional{word} : std::nullopt;
}

// Runs the action that the call names, and closes the pool that it has opened.  `missing`: the message about too few
// operands.
template <class Call, std::size_t N>
[[nodiscard]] exit_code run_action(const action<Call> (&table)[N], Call& c, std::string_view missing) {
  for (const action<Call>& a : table) {
    if (a.name != c.action) continue;
    if (c.given.operands() < a.operands_min) return c.misused(std::string{missing});
    if (c.given.operands() > a.operands_max) {
      return c.misused(fmt::format("unexpected \"{}\"", c.given.operand(a.operands_max)));
    }
    const exit_code code = a.run(c);
    if (c.at && !c.at->close() && code == exit_good) return c.failed();
    return code;
  }
  return exit_internal;
}

}  // namespace nvm::cli
