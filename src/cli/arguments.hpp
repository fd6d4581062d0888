// The command line, read by a command's table: every value has been checked when a command sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace nvm::cli {

class arguments {
 public:
  // Names are those of the command's table; the option must be of the kind of the function.
  [[nodiscard]] bool flag(std::string_view option) const { return values_.contains(option); }
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view option) const;
  [[nodiscard]] std::optional<std::string> choice(std::string_view option) const;
  // Empty when it is optional and was left out.
  [[nodiscard]] const std::string& operand(std::size_t index) const;
  [[nodiscard]] std::size_t operands() const noexcept { return operands_.size(); }
  // The value of an option of kind text or path; empty when it was left out.
  [[nodiscard]] std::string text(std::string_view option) const;
  // The words after `--`, of a command that takes such.
  [[nodiscard]] const std::vector<std::string>& rest() const noexcept { return rest_; }

 private:
  friend struct command_line;
  struct value {
    std::string text;
    std::uint64_t number = 0;
  };
  std::map<std::string, value, std::less<>> values_;
  std::vector<std::string> operands_;
  std::vector<std::string> rest_;
};

// The request of a command line.
struct command_line {
  bool json = false;
  bool quiet = false;
  bool help = false;
  bool version = false;
  const command* what = nullptr;  // null: no command was named
  arguments given;
  std::string problem;  // wrong use, as a sentence; empty: none

  [[nodiscard]] static command_line read(int argc, const char* const* argv);

 private:
  void read_command(const std::vector<std::string>& rest);
  bool take(const option& o, const std::vector<std::string>& words);
};

}  // namespace nvm::cli
