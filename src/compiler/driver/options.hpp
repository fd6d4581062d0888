// The options of holdfast-cc that Clang does not have: one table, from which help and completion are made. The manual
// page (holdfast-cc.1.in) says more about each; a test compares the two.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvm::compiler::driver {

// A text that the driver prints instead of compiling.
enum class document { none, help, version };

// Requests of our options.
struct settings {
  bool pass = true;
  bool check = false;
  bool statistics = false;
  bool elide = true;
  bool record = false;
  bool profile = false;
  bool statics = false;
  bool run_path = true;
  std::vector<std::string> tables;    // *.unsafe files, as given
  std::vector<std::string> types;     // arguments of the plugin for durable types
  std::vector<std::string> warnings;  // W[no-]..., for plugin and pass
  document asked = document::none;
};

struct option {
  std::string_view name;   // as typed; ends in '=' where a value follows
  std::string_view value;  // what stands for it in help; empty for a flag
  std::string_view help;   // begins in lower case, has no full stop
  // Null: the option is Clang's own, and listed because it concerns the pass.
  void (*apply)(settings&, std::string_view value);
  // Applies the twin, with -fno- added or taken away; null: there is none.
  void (*undo)(settings&, std::string_view value) = nullptr;
};

struct variable {
  std::string_view name;
  std::string_view help;
};

[[nodiscard]] std::span<const option> options() noexcept;
[[nodiscard]] std::span<const variable> variables() noexcept;

// Begins as our options do, so that Clang never sees it.
[[nodiscard]] bool is_ours(std::string_view argument) noexcept;

// No value on success, otherwise the fault of the argument.
[[nodiscard]] std::optional<std::string> apply(std::string_view argument, settings& s);

}  // namespace nvm::compiler::driver
