#include "command_line.hpp"

#include <clang/Driver/Options.h>
#include <llvm/Option/ArgList.h>
#include <llvm/Option/OptTable.h>
#include <llvm/Support/Allocator.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <algorithm>

namespace nvm::compiler::driver {
namespace {

namespace id = clang::driver::options;
using namespace clang::driver::options;  // flags that the table below names
using namespace llvm::opt;
using llvm::ArrayRef;
using llvm::StringLiteral;

// Clang's table, which its headers hold as macros.
#define OPTTABLE_VALUES_CODE
#include <clang/Driver/Options.inc>
#undef OPTTABLE_VALUES_CODE
#define PREFIX(NAME, VALUE)                         \
  constexpr StringLiteral NAME##_and_end[] = VALUE; \
  constexpr ArrayRef<StringLiteral> NAME(NAME##_and_end, std::size(NAME##_and_end) - 1);
#include <clang/Driver/Options.inc>
#undef PREFIX
#define PREFIX_UNION(VALUES)                           \
  constexpr StringLiteral prefixes_and_end[] = VALUES; \
  constexpr ArrayRef<StringLiteral> prefixes(prefixes_and_end, std::size(prefixes_and_end) - 1);
#include <clang/Driver/Options.inc>
#undef PREFIX_UNION
constexpr OptTable::Info clang_options[] = {
#define OPTION(...) LLVM_CONSTRUCT_OPT_INFO(__VA_ARGS__),
#include <clang/Driver/Options.inc>
#undef OPTION
};
struct clang_table : PrecomputedOptTable {
  clang_table() : PrecomputedOptTable(clang_options, prefixes) {}
};

// Clang precompiles inputs of these kinds and links nothing.
bool is_header(llvm::StringRef file) {
  const auto dot = file.rfind('.');
  if (dot == llvm::StringRef::npos) return false;
  constexpr std::string_view endings[] = {"h", "H", "hh", "hp", "hpp", "hxx", "h++", "tcc"};
  return std::ranges::find(endings, std::string_view{file.substr(dot + 1)}) != std::end(endings);
}

bool may_link(const InputArgList& list) {
  bool some = false;
  llvm::StringRef language;
  for (const Arg* a : list) {
    const Option& o = a->getOption();
    if (o.matches(id::OPT_x)) language = a->getValue();
    if (o.matches(id::OPT_INPUT) || o.matches(id::OPT__DASH_DASH)) {
      for (const char* file : a->getValues()) {
        const bool by_name = language.empty() || language == "none";
        if (by_name ? is_header(file) : language.ends_with("-header")) return false;
        // If no input can be read Clang gives up, unless there is a library to link.
        some = some || llvm::StringRef{file} == "-" || llvm::sys::fs::exists(file);
      }
    } else if (o.hasFlag(id::LinkerInput)) {
      some = true;
    }
  }
  // -r makes one object of several: the libraries that it needs come with the program into which it is linked.
  return some && !list.hasArg(id::OPT_r) && !list.hasArg(id::OPT_fmodule_header, id::OPT_fmodule_header_EQ);
}

target judge(llvm::StringRef name) {
  const llvm::StringRef machine = name.split('-').first;
  if (machine == "x86_64" || machine == "amd64") return name.contains("x32") ? target::too_small : target::ours;
  const bool i386 = machine.size() == 4 && machine[0] == 'i' && machine.ends_with("86");
  return i386 ? target::too_small : target::other;
}

void find_target(const InputArgList& list, command_line& line) {
  if (const Arg* a = list.getLastArg(id::OPT_target, id::OPT_target_legacy_spelling)) {
    line.target_name = a->getValue();
    line.machine = judge(line.target_name);
  }
  if (const Arg* a = list.getLastArg(id::OPT_m64, id::OPT_m32, id::OPT_mx32, id::OPT_m16)) {
    if (!a->getOption().matches(id::OPT_m64) && line.machine == target::ours) line.machine = target::too_small;
  }
}

}  // namespace

command_line read_command_line(int count, char** arguments) {
  command_line line;
  llvm::SmallVector<const char*, 64> all(arguments + 1, arguments + count);
  if (!all.empty() && llvm::StringRef{all[0]}.starts_with("-cc1")) {
    line.internal = true;
    line.theirs.assign(all.begin(), all.end());
    return line;
  }

  llvm::BumpPtrAllocator memory;
  const auto quoted_as_windows = [](const char* a) { return llvm::StringRef{a} == "--rsp-quoting=windows"; };
  llvm::cl::ExpansionContext context(memory, llvm::any_of(all, quoted_as_windows) ? llvm::cl::TokenizeWindowsCommandLine
                                                                                  : llvm::cl::TokenizeGNUCommandLine);
  if (llvm::Error failed = context.expandResponseFiles(all)) {
    line.wrong.push_back(llvm::toString(std::move(failed)));
    return line;
  }

  const clang_table table;
  unsigned missing_at = 0;
  unsigned missing = 0;
  const InputArgList list = table.ParseArgs(all, missing_at, missing, Visibility(id::ClangOption));

  // Values have no Arg of their own: so a value that begins like one of our options is none.
  std::vector<bool> taken(all.size());
  std::size_t inputs_only = all.size();
  for (const Arg* a : list) {
    const unsigned at = a->getIndex();
    if (a->getOption().matches(id::OPT__DASH_DASH)) inputs_only = at;
    if (!is_ours(all[at])) continue;
    taken[at] = true;
    if (auto wrong = apply(all[at], line.ours)) line.wrong.push_back(*wrong);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (taken[i] || i == inputs_only) continue;
    // After a "--" there are only inputs, but our options have to come after these: inputs are renamed so that they
    // need no "--".
    const bool like_option = i > inputs_only && all[i][0] == '-' && all[i][1] != '\0';
    line.theirs.push_back(like_option ? std::string{"./"} + all[i] : all[i]);
  }

  // An option at the end that lacks its value must not take one of ours.
  line.links = missing == 0 && may_link(list);
  line.libraries = !list.hasArg(id::OPT_nostdlib, id::OPT_nodefaultlibs, id::OPT_nolibc);
  line.linked_statically = list.hasArg(id::OPT_static, id::OPT_static_pie);
  line.headers = !list.hasArg(id::OPT_nostdinc);
  line.asks_version = list.hasArg(id::OPT__version);
  line.asks_help = list.hasArg(id::OPT_help);
  if (const Arg* a = list.getLastArg(id::OPT_autocomplete)) {
    line.completed = llvm::StringRef{a->getValue()}.rsplit(',').second;
    if (line.completed.empty()) line.completed = a->getValue();
  }
  find_target(list, line);
  return line;
}

}  // namespace nvm::compiler::driver
