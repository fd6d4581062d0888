// holdfast-cc, holdfast-c++: Clang with the log pass, and the durable heap linked in.
//
// The options of cc go to Clang, which takes the place of this process: exit codes, signals and output are its own.
// Added options are marked so that Clang does not complain in steps that do not use them: the plugin, the files of
// precompiled functions, the headers and, if something is linked, the run-time.
//
//   options.cpp       our options, one table
//   command_line.cpp  which arguments are ours, and what Clang will do with the others
//   places.cpp        where plugin, headers and libraries are
//   documents.cpp     help, manual page, completion
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "command_line.hpp"
#include "documents.hpp"
#include "places.hpp"
#include "platform/descriptor.hpp"
#include "process.hpp"

namespace nvm::compiler::driver {
namespace {

std::string program;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "%s: error: %s\n", program.c_str(), why.c_str());
  std::exit(1);
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) stop(std::string{"cannot write to standard output: "} + std::strerror(errno));
}

[[noreturn]] void cannot_run(const std::string& compiler) {
  stop("cannot run " + compiler + ": " + std::strerror(errno) + "; Holdfast's compiler needs Clang " +
       HOLDFAST_LLVM_MAJOR + ", Debian's package clang-" HOLDFAST_LLVM_MAJOR);
}

struct compiler {
  std::string name;
  bool is_named = false;  // as the version that the plugin was built for
};

compiler find_compiler() {
  const bool plus = program.find("++") != std::string::npos;
  const std::string usual = plus ? "clang++-" HOLDFAST_LLVM_MAJOR : "clang-" HOLDFAST_LLVM_MAJOR;
  const char* chosen = std::getenv(plus ? "HOLDFAST_CLANGXX" : "HOLDFAST_CLANG");
  if (chosen == nullptr || *chosen == '\0') return {usual, true};
  return {chosen, std::filesystem::path{chosen}.filename() == usual};
}

// A plugin takes its symbols from the compiler that loads it; with another version it would fail with a list of
// symbols, or misread structures. Asking costs a process, so a compiler with the version in its name is not asked.
void check_version(const compiler& c) {
  if (c.is_named) return;
  const std::string text = output_of({c.name, "--version"});
  if (text.empty()) cannot_run(c.name);
  const std::string first = text.substr(0, text.find('\n'));
  const std::string before = "clang version ";
  const auto at = first.find(before);
  if (at == std::string::npos) stop(c.name + " is not Clang but '" + first + "'; the pass is a plugin of Clang");
  const std::string version = first.substr(at + before.size());
  const auto release = [](const std::string& v) { return v.substr(0, v.find('.', v.find('.') + 1)); };
  if (release(version) != release(HOLDFAST_LLVM_VERSION)) {
    stop(c.name + " is Clang " + version.substr(0, version.find(' ')) + ", but the pass was built for LLVM " +
         HOLDFAST_LLVM_VERSION);
  }
}

void add_pass(arguments& command, const settings& s, const places& p) {
  const auto to_frontend = [&](const std::string& option) { command.insert(command.end(), {"-Xclang", option}); };
  // -mllvm alone would also reach the assembler, which has no plugin and does not know the options.
  const auto to_pass = [&](const std::string& option) {
    to_frontend("-mllvm");
    to_frontend(option);
  };
  command.insert(command.end(), {"-fplugin=" + p.front_plugin, "-fplugin=" + p.plugin, "-fpass-plugin=" + p.plugin});
  // Makes nvm.h declare durable types in the form that the plugin reads.
  command.emplace_back("-D__HOLDFAST_TYPES__");
  for (const std::string& argument : s.types) command.push_back("-fplugin-arg-nvm-" + argument);
  for (const std::string& argument : s.warnings) {
    command.push_back("-fplugin-arg-nvm-" + argument);
    to_pass("-nvm-warning=" + argument);
  }
  to_pass("-nvm-unsafe=" + p.libc_table);
  for (const std::string& table : s.tables) {
    to_pass("-nvm-unsafe=" + table);
    to_frontend("-fdepfile-entry=" + table);
  }
  if (s.check) {
    to_pass("-nvm-log-check");
    command.push_back("-gline-tables-only");  // for places; a later -g of the user overrides it
  }
  if (s.statics) {
    to_pass("-nvm-statics");
    // Bytes between members are copied, too, and must not be the rest of an address.
    command.emplace_back("-ftrivial-auto-var-init=zero");
  }
  if (s.statistics) to_pass("-nvm-log-stats");
  if (!s.elide) to_pass("-nvm-log-everything");
}

// After the log pass, whose calls are not the program's stores.
void add_recording(arguments& command, const places& p) {
  command.insert(command.end(), {"-fplugin=" + p.record_plugin, "-fpass-plugin=" + p.record_plugin, "-Xclang", "-mllvm",
                                 "-Xclang", "-nvm-record-steps=false", "-gline-tables-only"});
}

// Also after the pass that logs. Sites are identified by lines and columns.
void add_profile(arguments& command, const settings& s, const places& p) {
  command.insert(command.end(), {"-fplugin=" + p.profile_plugin, "-fpass-plugin=" + p.profile_plugin,
                                 "-gline-tables-only", "-gdwarf-5", "-gcolumn-info", "-grecord-command-line"});
  const auto describe = [&](const std::string& table) {
    for (const std::string& option : {std::string{"-mllvm"}, "-nvm-profile-unsafe=" + table})
      command.insert(command.end(), {"-Xclang", option});
  };
  describe(p.libc_table);
  for (const std::string& table : s.tables) describe(table);
}

void add_libraries(arguments& command, const command_line& line, const places& p) {
  if (!p.libraries_are_the_systems()) {
    command.push_back("-L" + p.libraries);
    if (line.ours.run_path && !line.linked_statically) command.push_back("-Wl,-rpath," + p.libraries);
  }
  // Pools know a program by its build id.
  if (line.ours.statics) command.emplace_back("-Wl,--build-id");
  if (!line.libraries) return;
  if (line.ours.profile) {
    // Before the C library, whose malloc it replaces, also if no code of the program names it.
    command.insert(command.end(), {"-Wl,--push-state", "-Wl,--no-as-needed", "-lholdfast_profile", "-Wl,--pop-state",
                                   "-Wl,--build-id"});
  }
  // The user's settings for other libraries do not apply to ours, and ours do not apply to those.
  command.insert(command.end(), {"-Wl,--push-state", "-Wl,--as-needed", "-lnvm_rt",
                                 line.ours.record ? "-lholdfast_record" : "-lholdfast"});
  if (line.linked_statically) command.insert(command.end(), {"-lstdc++", "-lm"});
  command.push_back("-Wl,--pop-state");
}

arguments command_of(const compiler& c, const command_line& line, const places& p) {
  arguments command{c.name};
  const bool ours = line.machine == target::ours;
  command.push_back("--start-no-unused-arguments");
  if (line.ours.pass && ours) add_pass(command, line.ours, p);
  if (line.ours.record && ours) add_recording(command, p);
  if (line.ours.profile && ours) add_profile(command, line.ours, p);
  if (line.headers && !p.headers_are_the_systems()) command.insert(command.end(), {"-isystem", p.headers});
#ifdef HOLDFAST_WINDOW
  command.insert(command.end(), {HOLDFAST_WINDOW});
#endif
  command.push_back("--end-no-unused-arguments");
  command.insert(command.end(), line.theirs.begin(), line.theirs.end());
  if (line.links && ours) {
    // After the user's own files and libraries, which may need ours.
    command.push_back("--start-no-unused-arguments");
    add_libraries(command, line, p);
    command.push_back("--end-no-unused-arguments");
  }
  return command;
}

// CMake takes "holdfast-" for the prefix of a whole toolchain, and optimises at link time only where that has an
// archiver of LLVM: holdfast-llvm-ar and holdfast-llvm-ranlib are links to this program.
void become_tool(const std::string& tool, int count, char** given) {
  arguments command{""};
  command.insert(command.end(), given + 1, given + count);
  for (const std::string& name : {"llvm-" + tool + "-" HOLDFAST_LLVM_MAJOR, "llvm-" + tool, tool}) {
    command[0] = name;
    become(command);
    if (errno != ENOENT) break;
  }
  stop("cannot run llvm-" + tool + "-" HOLDFAST_LLVM_MAJOR + ": " + std::strerror(errno));
}

int compile(int count, char** given) {
  const std::string of_llvm = "holdfast-llvm-";
  if (program.starts_with(of_llvm)) become_tool(program.substr(of_llvm.size()), count, given);
  const command_line line = read_command_line(count, given);
  for (const std::string& w : line.wrong) std::fprintf(stderr, "%s: error: %s\n", program.c_str(), w.c_str());
  if (!line.wrong.empty()) return 1;
  if (line.ours.asked != document::none) {
    print(text_of(line.ours.asked));
    return 0;
  }

  const compiler c = find_compiler();
  arguments plain{c.name};
  plain.insert(plain.end(), line.theirs.begin(), line.theirs.end());
  if (line.asks_version) {
    // Build systems take the first line and the first number for the compiler's: so Clang's come first.
    const int code = run(plain);
    if (code < 0) cannot_run(c.name);
    print(text_of(document::version));
    return code;
  }
  if (line.asks_help) print(text_of(document::help) + "\nOptions of Clang:\n\n");
  if (!line.completed.empty()) print(completions_of(line.completed));
  if (line.internal || line.asks_help || !line.completed.empty()) {
    become(plain);
    cannot_run(c.name);
  }

  if (line.ours.record && line.linked_statically && line.links) {
    stop("-fnvm-record needs shared libraries: what records is one");
  }
  if (line.ours.profile && line.linked_statically && line.links) {
    stop("-fnvm-profile needs shared libraries: what counts is one");
  }
  const places p = find_places();
  if (!p.missing.empty()) stop(p.missing + " is missing: the installation is not complete");
  if (line.ours.pass) {
    if (line.machine == target::other) {
      stop("the run-time is for x86_64, not for '" + line.target_name + "'; -fno-nvm compiles without the pass");
    }
    check_version(c);
  }
  become(command_of(c, line, p));
  cannot_run(c.name);
}

}  // namespace
}  // namespace nvm::compiler::driver

int main(int count, char** arguments) {
  if (count == 0) return 1;
  nvm::platform::occupy_standard_descriptors();
  nvm::compiler::driver::program = std::filesystem::path{arguments[0]}.filename();
  return nvm::compiler::driver::compile(count, arguments);
}
