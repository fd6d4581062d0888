// The table of commands.
#include "cli/command.hpp"

namespace nvm::cli {

extern const command create_command;
extern const command info_command;
extern const command check_command;
extern const command doctor_command;
extern const command repair_command;
extern const command relocate_command;
extern const command compact_command;
extern const command dump_command;
extern const command types_command;
extern const command gc_command;
extern const command pointers_command;
extern const command kv_command;
extern const command lf_command;
extern const command regions_command;
extern const command store_command;
extern const command tier_command;
extern const command bench_command;
extern const command crash_test_command;
extern const command advise_command;
extern const command completion_command;
extern const command manual_command;
extern const command help_command;
extern const command version_command;

namespace {

constexpr const command* table[] = {
    &create_command,  &info_command,       &check_command,  &doctor_command, &repair_command,   &relocate_command,
    &compact_command, &dump_command,       &types_command,  &gc_command,     &pointers_command, &kv_command,
    &lf_command,      &regions_command,    &store_command,  &tier_command,   &bench_command,    &crash_test_command,
    &advise_command,  &completion_command, &manual_command, &help_command,   &version_command,
};

constexpr option common[] = {
    {"json", value_kind::flag, "", "print one JSON document on standard output, also about a failure"},
    {"quiet", value_kind::flag, "", "print nothing but errors; the exit code is the answer"},
    {"help", value_kind::flag, "", "print this text"},
};

}  // namespace

std::span<const command* const> commands() noexcept { return table; }

const command* find_command(std::string_view name) noexcept {
  for (const command* c : table) {
    if (c->name == name) return c;
  }
  return nullptr;
}

std::span<const option> common_options() noexcept { return common; }

}  // namespace nvm::cli
