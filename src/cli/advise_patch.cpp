#include "cli/advise_patch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "platform/descriptor.hpp"

namespace nvm::cli {
namespace advise_patch {
namespace {

// Looks beside this program, in a build tree beside the compiler, then where the shell would find it.
std::string find_program() {
  namespace fs = std::filesystem;
  if (const char* set = std::getenv("HOLDFAST_REWRITE"); set != nullptr && *set != '\0') return set;
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* way : {"holdfast-rewrite", "../../bin/holdfast-rewrite"}) {
    if (!failed && fs::exists(here / way, failed)) return (here / way).lexically_normal();
  }
  return "holdfast-rewrite";
}

std::vector<std::string> words_of(const rewrite_order& o) {
  std::vector<std::string> words{find_program(), o.patch ? "--patch" : "--verdicts"};
  if (o.with_pointers) words.emplace_back("--with-pointers");
  std::string sites;
  for (const std::uint32_t s : o.sites) sites += (sites.empty() ? "" : ",") + std::to_string(s);
  if (!sites.empty()) words.push_back("--sites=" + sites);
  words.emplace_back("--");
  words.insert(words.end(), o.profiles.begin(), o.profiles.end());
  return words;
}

std::string read_all(int file) {
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t n = ::read(file, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(part, static_cast<std::size_t>(n));
  }
}

// Exit code of the program, -1: it could not be run.
int run(const std::vector<std::string>& words, std::string& output) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (platform::open_pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  int status = -1;
  if (child > 0) {
    output = read_all(ends[0]);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  ::close(ends[0]);
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string take(std::string& line, char until) {
  const std::size_t end = std::min(line.find(until), line.size());
  std::string word = line.substr(0, end);
  line.erase(0, std::min(end + 1, line.size()));
  return word;
}

// "verdict <site> <kind> <type>\t<sentence>", "remark <sentence>", "patch", and the rest is the patch.
void read_answer(std::string text, rewrite_answer& a) {
  while (!text.empty()) {
    std::string line = take(text, '\n');
    const std::string what = take(line, ' ');
    if (what == "patch") {
      a.patch = std::move(text);
      return;
    }
    if (what == "remark") a.remarks.push_back(line);
    if (what != "verdict") continue;
    const std::string number = take(line, ' ');
    std::uint32_t site = 0;
    std::from_chars(number.data(), number.data() + number.size(), site);
    rewrite_verdict v;
    v.kind = take(line, ' ');
    v.type = take(line, '\t');
    v.text = line;
    a.verdicts[site] = std::move(v);
  }
}

}  // namespace
}  // namespace advise_patch

rewrite_answer ask_rewriter(const rewrite_order& order) {
  rewrite_answer a;
  const auto words = advise_patch::words_of(order);
  std::string output;
  const int code = advise_patch::run(words, output);
  constexpr int not_found = 127;
  if (code == not_found) {
    a.missing = true;
    a.problem = {exit_unavailable, "advise", "NVM_E_NOT_FOUND",
                 "cannot run " + words[0] + ": holdfast-rewrite is part of the installation with holdfast-cc"};
  } else if (code < 0) {
    a.problem = {exit_internal, "advise", "INTERNAL", words[0] + " ended by a signal"};
  } else if (code != 0) {
    const bool refused = code == exit_negative;
    const std::string said = output.starts_with("error ") ? output.substr(6, output.find('\n') - 6) : "no reason given";
    a.problem = {refused ? exit_negative : exit_internal, "advise", refused ? "REFUSED" : "INTERNAL", said};
  } else {
    advise_patch::read_answer(std::move(output), a);
  }
  return a;
}

}  // namespace nvm::cli
