// Output of a command. Text for people on standard output, or one JSON document instead; errors on standard error as
// `holdfast: SUBJECT: sentence (CODE)`, and with --json also as a document on standard output.
#pragma once

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "cli/command.hpp"

namespace nvm::cli {

using json = nlohmann::ordered_json;

// A failure: code is the library's ("NVM_E_BUSY"), "USAGE" or "OUTPUT".
struct failure {
  exit_code exit = exit_internal;
  std::string subject;  // path or command
  std::string code;
  std::string message;
};

// The library's last failure of this thread, about `path`.
// Exit code of a failure of the library: its code and errno.
[[nodiscard]] exit_code exit_of_code(int library_code);
[[nodiscard]] failure library_failure(std::string_view path);
[[nodiscard]] json document_of(const failure& f);

enum class style { plain, strong, good, bad };

class console {
 public:
  console(bool as_json, bool quiet);

  [[nodiscard]] bool as_json() const noexcept { return json_; }
  // Text on standard output is wanted.
  [[nodiscard]] bool as_text() const noexcept { return !json_ && !quiet_; }
  // Progress may be shown: standard error is a terminal.
  [[nodiscard]] bool shows_progress() const noexcept { return progress_; }

  template <class... T>
  void text(fmt::format_string<T...> format, T&&... values) const {
    if (as_text()) fmt::print(stdout, format, std::forward<T>(values)...);
  }
  // `words` in colour if standard output is a terminal that has it.
  [[nodiscard]] std::string styled(std::string_view words, style s) const;

  // The whole answer with --json.  Bytes that are no UTF-8, possible in a path, are replaced.
  void document(const json& answer) const;
  // Reports and returns the exit code.
  exit_code fail(const failure& f) const;
  exit_code fail_library(std::string_view path) const { return fail(library_failure(path)); }
  // The error line alone, for a command that puts the failure into a document of its own.
  void error_line(const failure& f) const;
  // Lines on standard error that are no failures, unless --quiet: about completed work, and before a wait for input.
  void warning(std::string_view subject, std::string_view message) const;
  template <class... T>
  void note(fmt::format_string<T...> format, T&&... values) const {
    if (!quiet_) fmt::print(stderr, "{}\n", fmt::format(format, std::forward<T>(values)...));
  }
  // Makes sure that all output has reached its destination; reports a failure otherwise.
  [[nodiscard]] exit_code finish(exit_code so_far) const;

 private:
  bool json_;
  bool quiet_;
  bool colour_;
  bool progress_;
};

// One line of JSON.
[[nodiscard]] std::string line_of(const json& value);

}  // namespace nvm::cli
