// holdfast version: the version of this program.
#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "holdfast_version.hpp"

namespace nvm::cli {
namespace version_verb {
namespace {

constexpr json_field fields[] = {{"version", "of the tool and of the library in it"}};
constexpr std::string_view examples[] = {"holdfast version", "holdfast version --json"};

exit_code run(const arguments&, console& out) {
  out.text("holdfast {}\n", HOLDFAST_VERSION);
  out.document({{"version", HOLDFAST_VERSION}});
  return exit_good;
}

}  // namespace
}  // namespace version_verb

extern const command version_command;
const command version_command{
    .name = "version",
    .summary = "print the version of the tool",
    .description = "Prints the version of the tool and of the library in it, as --version and -V before a command do.",
    .operands = {},
    .options = {},
    .fields = version_verb::fields,
    .examples = version_verb::examples,
    .run = version_verb::run,
};

}  // namespace nvm::cli
