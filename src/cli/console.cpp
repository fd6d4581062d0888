#include "cli/console.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nvm/nvm.h"

namespace nvm::cli {
namespace {

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

bool terminal_has_colour() {
  const char* off = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  return (off == nullptr || *off == '\0') && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

// Whether a failed system call is about this path, not about a failing device.
bool path_is_at_fault(int system_error) {
  switch (system_error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
      return true;
    default:
      return false;
  }
}

exit_code exit_of(int library_code, int system_error) {
  switch (library_code) {
    case NVM_E_INVALID:
    case NVM_E_TOO_LARGE:
    case NVM_E_NOT_FOUND:
    case NVM_E_EXISTS:
    case NVM_E_NOT_A_POOL:
    case NVM_E_VERSION:
    case NVM_E_CORRUPT:
    case NVM_E_BUSY:
    case NVM_E_READ_ONLY:
    case NVM_E_MEDIUM:
    case NVM_E_ADDRESS:
    case NVM_E_COPY:
      return exit_unavailable;
    case NVM_E_SYSTEM:
      return path_is_at_fault(system_error) ? exit_unavailable : exit_internal;
    default:
      return exit_internal;
  }
}

// Removes the pool's name from the library's sentence: the line in which it is printed begins with the name already.
std::string without_subject(std::string message, std::string_view path) {
  for (const std::string& prefix : {fmt::format("pool {}: ", path), fmt::format("{}: ", path)}) {
    if (message.starts_with(prefix)) return message.substr(prefix.size());
  }
  return message;
}

}  // namespace

exit_code exit_of_code(int library_code) { return exit_of(library_code, errno); }

failure library_failure(std::string_view path) {
  const int system_error = errno;
  const int code = nvm_errno();
  return {exit_of(code, system_error), std::string{path}, nvm_error_name(code), without_subject(nvm_errormsg(), path)};
}

json document_of(const failure& f) {
  return {{"code", f.code}, {"subject", f.subject}, {"message", f.message}, {"exit_code", static_cast<int>(f.exit)}};
}

console::console(bool as_json, bool quiet)
    : json_{as_json},
      quiet_{quiet},
      colour_{is_terminal(STDOUT_FILENO) && terminal_has_colour()},
      progress_{!quiet && is_terminal(STDERR_FILENO)} {}

std::string console::styled(std::string_view words, style s) const {
  const char* on = nullptr;
  switch (s) {
    case style::plain:
      break;
    case style::strong:
      on = "\033[1m";
      break;
    case style::good:
      on = "\033[32m";
      break;
    case style::bad:
      on = "\033[31m";
      break;
  }
  if (!colour_ || on == nullptr) return std::string{words};
  return fmt::format("{}{}\033[0m", on, words);
}

std::string line_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

void console::document(const json& answer) const {
  if (!json_) return;
  const std::string text = answer.dump(2, ' ', false, json::error_handler_t::replace);
  fmt::print(stdout, "{}\n", text);
}

void console::error_line(const failure& f) const {
  // Earlier text comes first if both go to one place.
  (void)std::fflush(stdout);
  // Not fmt::print, which throws if the line cannot be written: that failure could not be reported, either.
  std::fputs(fmt::format("holdfast: {}: {} ({})\n", f.subject, f.message, f.code).c_str(), stderr);
}

void console::warning(std::string_view subject, std::string_view message) const {
  if (quiet_) return;
  (void)std::fflush(stdout);
  std::fputs(fmt::format("holdfast: {}: warning: {}\n", subject, message).c_str(), stderr);
}

exit_code console::fail(const failure& f) const {
  document({{"error", document_of(f)}});
  error_line(f);
  return f.exit;
}

exit_code console::finish(exit_code so_far) const {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return so_far;
  error_line({exit_internal, "standard output", "OUTPUT", errno != 0 ? std::strerror(errno) : "a write failed"});
  return exit_internal;
}

}  // namespace nvm::cli
