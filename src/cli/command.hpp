// A command of the tool: plain data that the parser, the help, the manual page and the completion scripts read, and one
// function.  A new command is a new file that defines one `command` and a line in commands.cpp.
#pragma once

#include <span>
#include <string_view>

namespace nvm::cli {

class arguments;
class console;

// Exit codes of every command, documented in the manual page.
enum exit_code : int {
  exit_good = 0,
  exit_negative = 1,     // the answer is no: check has findings
  exit_usage = 2,        // wrong use: nothing was done
  exit_unavailable = 3,  // the pool cannot be created or opened, or another process has it
  exit_internal = 4,     // input or output failed, memory or space ran out, or a bug of the tool
};

enum class value_kind {
  flag,         // no value
  size,         // bytes with a binary suffix: 64M
  count,        // whole number
  seconds,      // decimal seconds, kept in nanoseconds
  permissions,  // octal
  choice,       // one of `choices`
  text,         // not empty
  path,         // of a file
};

struct option {
  std::string_view name;  // without the dashes
  value_kind kind;
  std::string_view placeholder;  // of the value, in help; empty for a flag
  std::string_view help;         // one sentence without its full stop
  std::span<const std::string_view> choices = {};
};

enum class operand_kind { pool_file, directory, choice, command, text };

struct operand {
  std::string_view name;  // upper case, as help prints it
  operand_kind kind;
  bool required;
  std::string_view help;
  std::span<const std::string_view> choices = {};
  bool many = false;  // any number of them; only the last operand of a command
};

// A field of the command's --json document: "findings[].offset" is the offset of each element of `findings`.
struct json_field {
  std::string_view name;
  std::string_view meaning;
};

struct command {
  std::string_view name;
  std::string_view summary;      // one line without its full stop
  std::string_view description;  // paragraphs, separated by an empty line
  std::span<const operand> operands;
  std::span<const option> options;
  std::span<const json_field> fields;
  std::span<const std::string_view> examples;
  exit_code (*run)(const arguments& given, console& out);
  // Words that may follow `--`, as help prints them, and their meaning; empty: none may.
  std::string_view rest = {};
  std::string_view rest_help = {};
};

// All commands, in the order of help.
[[nodiscard]] std::span<const command* const> commands() noexcept;
[[nodiscard]] const command* find_command(std::string_view name) noexcept;

// Options that every command takes: --json, --quiet, --help.
[[nodiscard]] std::span<const option> common_options() noexcept;

}  // namespace nvm::cli
