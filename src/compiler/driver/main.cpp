// holdfast-cc, holdfast-c++: Clang 19 with the log pass, and the durable heap linked in.
//
// Whatever cc takes goes to Clang as it came.  What is added, and marked so that Clang does not complain where a step
// has no use for it: the plugin, the files of precompiled functions, the headers, and, where programs or shared
// libraries are linked, the run-time.  Our own options begin with -fnvm- or --holdfast-.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

constexpr const char* help = R"(holdfast-cc: C and C++ whose stores into durable memory are logged by the compiler

usage: holdfast-cc  [options of clang] [options below] file...
       holdfast-c++ [options of clang] [options below] file...

  -fnvm-unsafe=FILE      what precompiled functions write through their arguments; may be given several times
  -fnvm-check            looks at run time: a store into durable memory that no transaction can take back, a pointer in
                         a durable object to somewhere else, an unlogged change by a function that came compiled;
                         each ends the program with its place (NVM_CHECK=report: is reported)
  -fnvm-stats            prints what was done with the stores of each file
  -fno-nvm-elide         leaves no log call out, merges and hoists none
  -fno-nvm               compiles without the pass
  -Rpass=nvm-log         says of each store whether it is logged and why (-Rpass-missed=nvm-log: what may be missing)
  --holdfast-version     the versions of Holdfast and of its compiler
  --holdfast-help        this text

Environment: HOLDFAST_CLANG, HOLDFAST_CLANGXX  the compilers to use (default: clang-19, clang++-19)
)";

// Where things are: beside the program in a build tree, or installed.
struct places {
  std::string plugin, libc_table, include, library;
};

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "holdfast-cc: %s\n", why.c_str());
  std::exit(2);
}

places find_places() {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (failed) stop("cannot find out where this program is: " + failed.message());
  const fs::path prefix = self.parent_path().parent_path();
  places p{prefix / "lib/holdfast/nvm_log_pass.so", prefix / "lib/holdfast/libc.unsafe", prefix / "include",
           prefix / "lib"};
  if (!fs::exists(p.plugin) || !fs::exists(p.libc_table)) {
    p = {HOLDFAST_BUILD_PLUGIN, HOLDFAST_BUILD_TABLE, HOLDFAST_BUILD_INCLUDE, HOLDFAST_BUILD_LIBRARY};
  }
  for (const std::string& file : {p.plugin, p.libc_table}) {
    if (!fs::exists(file)) stop(file + " is missing: the installation is not complete");
  }
  return p;
}

// The front end's half of the plugin lies beside the optimizer's.
std::string front_of(const std::string& plugin) { return std::filesystem::path{plugin}.parent_path() / "nvm_front.so"; }

bool begins_with(const char* text, const char* with) { return std::strncmp(text, with, std::strlen(with)) == 0; }

}  // namespace

int main(int count, char** arguments) {
  const std::string name = std::filesystem::path{arguments[0]}.filename();
  const bool plus = name.find("++") != std::string::npos;
  const char* chosen = std::getenv(plus ? "HOLDFAST_CLANGXX" : "HOLDFAST_CLANG");
  const std::string compiler = chosen != nullptr ? chosen : plus ? "clang++-19" : "clang-19";

  std::vector<std::string> theirs;
  std::vector<std::string> tables;
  bool pass = true;
  bool check = false;
  bool statistics = false;
  bool elide = true;
  for (int i = 1; i < count; ++i) {
    const char* a = arguments[i];
    if (std::strcmp(a, "--holdfast-help") == 0) {
      std::fputs(help, stdout);
      return 0;
    }
    if (std::strcmp(a, "--holdfast-version") == 0) {
      std::printf("holdfast %s, for LLVM %s\n", HOLDFAST_VERSION, HOLDFAST_LLVM_VERSION);
      return 0;
    }
    if (begins_with(a, "-fnvm-unsafe=")) {
      tables.emplace_back(a + std::strlen("-fnvm-unsafe="));
    } else if (std::strcmp(a, "-fnvm-check") == 0) {
      check = true;
    } else if (std::strcmp(a, "-fnvm-stats") == 0) {
      statistics = true;
    } else if (std::strcmp(a, "-fno-nvm-elide") == 0) {
      elide = false;
    } else if (std::strcmp(a, "-fno-nvm") == 0) {
      pass = false;
    } else if (begins_with(a, "-fnvm-") || begins_with(a, "-fno-nvm-")) {
      stop(std::string{"unknown option "} + a + "; --holdfast-help lists those there are");
    } else {
      theirs.emplace_back(a);
    }
  }

  const places p = find_places();
  std::vector<std::string> all{compiler, "--start-no-unused-arguments"};
  if (pass) {
    all.push_back("-fplugin=" + front_of(p.plugin));
    all.push_back("-fplugin=" + p.plugin);
    all.push_back("-fpass-plugin=" + p.plugin);
    tables.insert(tables.begin(), p.libc_table);
    const auto to_pass = [&](const std::string& option) { all.insert(all.end(), {"-mllvm", option}); };
    for (const std::string& t : tables) to_pass("-nvm-unsafe=" + t);
    if (check) {
      to_pass("-nvm-log-check");
      all.push_back("-gline-tables-only");  // places; the user's own -g comes later and holds
    }
    if (statistics) to_pass("-nvm-log-stats");
    if (!elide) to_pass("-nvm-log-everything");
  }
  all.insert(all.end(), {"-isystem", p.include, "--end-no-unused-arguments"});
  all.insert(all.end(), theirs.begin(), theirs.end());
  // Behind the user's own libraries, which may need ours; a step that links nothing has no use for them.
  all.insert(all.end(), {"--start-no-unused-arguments", "-L" + p.library, "-Wl,-rpath," + p.library, "-Wl,--as-needed",
                         "-lnvm_rt", "-lholdfast", "--end-no-unused-arguments"});

  std::vector<char*> raw;
  for (std::string& a : all) raw.push_back(a.data());
  raw.push_back(nullptr);
  ::execvp(raw[0], raw.data());
  stop("cannot run " + compiler + ": " + std::strerror(errno) + "; Holdfast's compiler needs the package clang-19");
}
