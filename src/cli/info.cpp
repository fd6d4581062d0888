// holdfast info: what a pool's file says about itself, also beside a living owner.
#include "cli/arguments.hpp"
#include "cli/pool_facts.hpp"

namespace nvm::cli {
namespace info_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool"}};
constexpr std::string_view examples[] = {"holdfast info cache.nvm", "holdfast info --json cache.nvm"};

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_info info{};
  if (nvm_pool_inspect(path.c_str(), &info) != 0) return out.fail_library(path);
  print_info(info, path, out);
  out.document(document_of(info, path));
  return exit_good;
}

}  // namespace
}  // namespace info_verb

extern const command info_command;
const command info_command{
    .name = "info",
    .summary = "show what a pool is and in what condition",
    .description =
        "Shows the identity, the sizes, the medium and the condition of a pool. It works while an application "
        "has the pool open, takes no lock and changes nothing; the numbers are then those of a moment ago.",
    .operands = info_verb::operands,
    .options = {},
    .fields = info_fields(),
    .examples = info_verb::examples,
    .run = info_verb::run,
};

}  // namespace nvm::cli
