#include "options.hpp"

#include <algorithm>

#include "compiler/pass/warning_groups.hpp"

namespace nvm::compiler::driver {
namespace {

template <bool settings::* Which, bool To>
void set(settings& s, std::string_view /*value*/) {
  s.*Which = To;
}

template <document What>
void ask(settings& s, std::string_view /*value*/) {
  s.asked = What;
}

void dump_types(settings& s, std::string_view /*value*/) { s.types.emplace_back("dump"); }
void dump_no_types(settings& s, std::string_view /*value*/) { std::erase(s.types, "dump"); }

void add_table(settings& s, std::string_view file) { s.tables.emplace_back(file); }

constexpr option table[] = {
    {"-fnvm-unsafe=", "FILE", "what precompiled functions write through their arguments; may be given several times",
     add_table},
    {"-fnvm-check", "",
     "look at run time for stores into durable memory that no transaction can take back, pointers from there to "
     "somewhere else, and unlogged changes by precompiled functions; each ends the program with its place",
     set<&settings::check, true>, set<&settings::check, false>},
    {"-fnvm-stats", "", "print what was done with the stores of each file", set<&settings::statistics, true>,
     set<&settings::statistics, false>},
    {"-fnvm-record", "", "report each store to `holdfast crash-test`; also where the program is linked",
     set<&settings::record, true>, set<&settings::record, false>},
    {"-fnvm-profile", "",
     "count loads and stores by allocation site for `holdfast advise`; also where the program is linked",
     set<&settings::profile, true>, set<&settings::profile, false>},
    {"-fnvm-statics", "",
     "pools keep addresses of this program's functions and static objects in objects without a type, and they are put "
     "right when it was loaded elsewhere or built anew; also where the program is linked",
     set<&settings::statics, true>, set<&settings::statics, false>},
    {"-fnvm-dump-types", "", "print the layouts of the durable types of each file", dump_types, dump_no_types},
    {"-Wno-nvm", "", "give none of the warnings below", nullptr},
    {"-Wno-nvm-plain-pointer", "", "do not warn of fields of durable types that are pointers, but not NVM_PTR",
     nullptr},
    {"-Wno-nvm-volatile-pointer", "", "do not warn of durable fields that receive pointers to volatile memory",
     nullptr},
    {"-Wno-nvm-type-id", "", "do not warn of type ids of types that are not durable", nullptr},
    {"-Wno-nvm-library-type", "",
     "allow durable fields of library types whose memory is elsewhere, as std::string; "
     "-Wno-error=nvm-library-type: warn of them",
     nullptr},
    {"-Wno-nvm-unlogged", "",
     "do not warn where durable memory goes to functions that came compiled and are not described", nullptr},
    {"-Wno-nvm-lock", "", "do not warn of locks of the C library in durable memory", nullptr},
    {"-Wno-nvm-assembly", "", "do not warn of assembly that may store to durable memory unlogged", nullptr},
    {"-fno-nvm-elide", "", "leave no call of the log out, merge and hoist none", set<&settings::elide, false>,
     set<&settings::elide, true>},
    {"-fno-nvm", "", "compile without the pass", set<&settings::pass, false>, set<&settings::pass, true>},
    {"-fno-nvm-run-path", "", "do not write into what is linked where libholdfast is", set<&settings::run_path, false>,
     set<&settings::run_path, true>},
    {"-Rpass=nvm-log", "", "say of each store whether it is logged and why", nullptr},
    {"-Rpass-missed=nvm-log", "", "say which stores may be missing from the log", nullptr},
    {"-Rpass-analysis=nvm-static", "", "say where addresses of functions and static objects may become durable",
     nullptr},
    {"--holdfast-help", "", "print this list", ask<document::help>},
    {"--holdfast-version", "", "print the versions of Holdfast, of its pass and of the Clang that it is for",
     ask<document::version>},
};

constexpr variable environment[] = {
    {"HOLDFAST_CLANG", "the compiler that holdfast-cc runs; default: clang-19"},
    {"HOLDFAST_CLANGXX", "the compiler that holdfast-c++ runs; default: clang++-19"},
};

// "-fnvm-check" of "-fno-nvm-check" and the other way round.
std::string twin_of(std::string_view name) {
  const std::string_view no = "-fno-";
  return name.starts_with(no) ? "-f" + std::string{name.substr(no.size())}
                              : std::string{no} + std::string{name.substr(2)};
}

// -Wnvm-..., -Wno-nvm-..., -Werror=nvm-..., -Wno-error=nvm-...: the text after that part; empty: none of these.
std::string_view warning_group(std::string_view argument) noexcept {
  for (const std::string_view before : {"-W", "-Wno-", "-Werror=", "-Wno-error="}) {
    if (!argument.starts_with(before)) continue;
    const std::string_view group = argument.substr(before.size());
    if (group == "nvm" || group.starts_with("nvm-")) return group;
  }
  return {};
}

bool is_known_group(std::string_view group) noexcept {
  return group == "nvm" || std::ranges::find(warning_names, group) != warning_names.end();
}

}  // namespace

std::span<const option> options() noexcept { return table; }
std::span<const variable> variables() noexcept { return environment; }

bool is_ours(std::string_view argument) noexcept {
  for (const std::string_view beginning : {"-fnvm-", "-fno-nvm-", "--holdfast-"}) {
    if (argument.starts_with(beginning)) return true;
  }
  return argument == "-fno-nvm" || argument == "-fnvm" || !warning_group(argument).empty();
}

std::optional<std::string> apply(std::string_view argument, settings& s) {
  if (is_known_group(warning_group(argument))) {
    s.warnings.emplace_back(argument.substr(1));
    return std::nullopt;
  }
  for (const option& o : table) {
    if (o.apply == nullptr) continue;
    if (o.undo != nullptr && argument == twin_of(o.name)) {
      o.undo(s, {});
      return std::nullopt;
    }
    const bool takes_value = o.name.ends_with('=');
    if (takes_value ? !argument.starts_with(o.name) : argument != o.name) continue;
    const std::string_view value = argument.substr(o.name.size());
    if (takes_value && value.empty()) return std::string{o.name} + " lacks its " + std::string{o.value};
    o.apply(s, value);
    return std::nullopt;
  }
  return "unknown option '" + std::string{argument} + "'; --holdfast-help lists those there are";
}

}  // namespace nvm::compiler::driver
