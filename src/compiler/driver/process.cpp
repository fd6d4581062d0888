#include "process.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "platform/descriptor.hpp"

namespace nvm::compiler::driver {
namespace {

std::vector<char*> raw(const arguments& command) {
  std::vector<char*> pointers;
  for (const std::string& a : command) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// As Clang reads response files: blanks end an argument, a backslash makes the next character an ordinary one.
std::string quoted(const std::string& argument) {
  std::string text = "\"";
  for (const char c : argument) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"\n";
}

// The command with its arguments in a file that exists in memory only, and ends with the last process that has it open.
bool shorten(const arguments& command, arguments& shorter) {
  const int file = platform::open_memory_file("arguments");
  if (file < 0) return false;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string text = quoted(command[i]);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(file, text.data() + done, text.size() - done);
      if (n < 0) return false;
      done += static_cast<std::size_t>(n);
    }
  }
  shorter = {command[0], "@/proc/self/fd/" + std::to_string(file)};
  return true;
}

bool wait_for(pid_t child, int& status) {
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

void become(const arguments& command) {
  ::execvp(command[0].c_str(), raw(command).data());
  arguments shorter;
  if (errno == E2BIG && shorten(command, shorter)) ::execvp(shorter[0].c_str(), raw(shorter).data());
}

int run(const arguments& command) {
  pid_t child = 0;
  int status = 0;
  if (const int e = ::posix_spawnp(&child, command[0].c_str(), nullptr, nullptr, raw(command).data(), environ)) {
    errno = e;
    return -1;
  }
  if (!wait_for(child, status)) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string output_of(const arguments& command) {
  int ends[2];
  if (platform::open_pipe(ends) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int e = ::posix_spawnp(&child, command[0].c_str(), &actions, nullptr, raw(command).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  if (e == 0) {
    char part[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) != 0;) {
      if (n > 0) text.append(part, static_cast<std::size_t>(n));
      if (n < 0 && errno != EINTR) break;
    }
    int status = 0;
    wait_for(child, status);
  }
  ::close(ends[0]);
  errno = e;
  return text;
}

}  // namespace nvm::compiler::driver
