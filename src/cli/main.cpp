// holdfast: the command line of the library.  Reads the line, runs one command of the table, returns its exit code.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/manual.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace {

exit_code run(const command_line& line, console& out) {
  if (!line.problem.empty()) {
    const std::string subject = line.what == nullptr ? "usage" : std::string{line.what->name};
    const exit_code code = out.fail({exit_usage, subject, "USAGE", line.problem});
    std::fputs(fmt::format("Try `holdfast {}--help`.\n", line.what == nullptr ? "" : subject + " ").c_str(), stderr);
    return code;
  }
  if (line.version && line.what == nullptr) {
    return find_command("version")->run(line.given, out);
  }
  if (line.help) {
    print_help(line.what, out);
    return exit_good;
  }
  return line.what->run(line.given, out);
}

int protected_main(int argc, char** argv) {
  const command_line line = command_line::read(argc, argv);
  console out{line.json, line.quiet};
  try {
    return out.finish(run(line, out));
  } catch (const std::bad_alloc&) {
    out.error_line({exit_internal, "memory", "NVM_E_NO_MEMORY", "no volatile memory left"});
  } catch (const std::system_error& e) {
    // Only writes to standard output throw these.
    out.error_line({exit_internal, "standard output", "OUTPUT", e.code().message()});
  } catch (const std::exception& e) {
    out.error_line({exit_internal, "internal", "INTERNAL", e.what()});
  }
  return exit_internal;
}

}  // namespace
}  // namespace nvm::cli

int main(int argc, char** argv) {
  nvm::platform::occupy_standard_descriptors();
  return nvm::cli::protected_main(argc, argv);
}
