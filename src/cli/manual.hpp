// Help, manual page: the table of commands as text.
#pragma once

#include <string>

#include "cli/console.hpp"

namespace nvm::cli {

// The tool in one phrase, for the beginning of help and manual.
inline constexpr std::string_view tool_summary = "look after pools of Holdfast, a durable heap for C and C++";

// Exit codes and their meanings, for help, the manual page and scripts.
struct exit_meaning {
  exit_code code;
  std::string_view meaning;
};
[[nodiscard]] std::span<const exit_meaning> exit_meanings() noexcept;

// "--size SIZE", "-h, --help".
[[nodiscard]] std::string option_text(const option& o);
// "PATH", "[DIRECTORY]", "PROFILE...".
[[nodiscard]] std::string operand_text(const operand& o);

// Prints help of one command, or of the tool when it is null; as JSON with --json.
void print_help(const command* what, const console& out);

// holdfast(1) in roff.
[[nodiscard]] std::string manual_page();

}  // namespace nvm::cli
