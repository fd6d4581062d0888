// A recorded program as judge of crash states: HOLDFAST_CRASH_JUDGE names a socket, over which it is asked about pools.
//
// It never enters main(). Each pool is opened in a forked child, which costs a tenth of starting the program anew and
// leaves nothing behind. The program's constructors run first; so it is main() that is caught.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "crash_test/judge_layout.hpp"
#include "crash_test/judge_messages.hpp"
#include "nvm/crash_test.h"
#include "platform/descriptor.hpp"

extern "C" [[gnu::weak]] int nvm_crash_check(NVM_POOL* pool);

namespace {

using namespace nvm::layout;
using nvm::crash_test::give;
using nvm::crash_test::take;

constexpr int exit_refused = 101;

[[noreturn]] void in_child(const char* path, int messages) noexcept {
  ::dup2(messages, STDERR_FILENO);
  const int nowhere = nvm::platform::open_descriptor("/dev/null", O_RDWR);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(nowhere, STDOUT_FILENO);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == nullptr) {
    std::fprintf(stderr, "%s", nvm_errormsg());
    std::fflush(stderr);
    ::_exit(exit_refused);
  }
  const int answer = nvm_crash_check(pool);
  std::fflush(stderr);
  // Never closed: the next question has another file.
  ::_exit(answer == 0 ? 0 : 1);
}

double now() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Reads what the child prints until it ends or its time is over; keeps the last bytes.
std::uint32_t follow(pid_t child, int from, double seconds, char (&message)[judge_message_max], bool& late) noexcept {
  std::uint32_t held = 0;
  const double end = now() + seconds;
  late = false;
  for (;;) {
    const double left = end - now();
    pollfd p{from, POLLIN, 0};
    if (left <= 0 || ::poll(&p, 1, static_cast<int>(left * 1000) + 1) == 0) {
      late = true;
      ::kill(child, SIGKILL);
      return held;
    }
    char piece[256];
    const ssize_t n = ::read(from, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return held;  // its end of the pipe is closed: it has ended
    const auto bytes = static_cast<std::uint32_t>(n);
    const std::uint32_t drop = held + bytes > judge_message_max ? held + bytes - judge_message_max : 0;
    std::memmove(message, message + drop, held - drop);
    std::memcpy(message + held - drop, piece, bytes);
    held += bytes - drop;
  }
}

bool answer_one(int socket, const char* path, double seconds) noexcept {
  judge_answer a{};
  char message[judge_message_max];
  int ends[2];
  a.verdict = static_cast<std::uint32_t>(judge_verdict::failed);
  if (nvm::platform::open_pipe(ends) != 0) return give(socket, &a, sizeof a);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(socket);
    in_child(path, ends[1]);
  }
  ::close(ends[1]);
  if (child > 0) {
    bool late = false;
    a.message_bytes = follow(child, ends[0], seconds, message, late);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (late) {
      a.verdict = static_cast<std::uint32_t>(judge_verdict::timeout);
    } else if (WIFSIGNALED(status)) {
      a.verdict = static_cast<std::uint32_t>(judge_verdict::signal);
      a.detail = static_cast<std::uint32_t>(WTERMSIG(status));
    } else {
      const int code = WEXITSTATUS(status);
      const judge_verdict v = code == 0              ? judge_verdict::good
                              : code == exit_refused ? judge_verdict::refused
                                                     : judge_verdict::bad;
      a.verdict = static_cast<std::uint32_t>(v);
      a.detail = static_cast<std::uint32_t>(code);
    }
  }
  ::close(ends[0]);
  return give(socket, &a, sizeof a) && give(socket, message, a.message_bytes);
}

int judge(int socket) noexcept {
  // No other program may inherit the socket, least of all one that a child executes.
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  ::unsetenv(judge_variable);
  const judge_greeting hello{nvm_crash_check != nullptr ? 1U : 0U};
  if (!give(socket, &hello, sizeof hello) || hello.ready == 0) return 0;
  judge_question q{};
  static char path[judge_path_max + 1];
  while (take(socket, &q, sizeof q)) {
    if (q.path_bytes > judge_path_max || !take(socket, path, q.path_bytes)) return 1;
    path[q.path_bytes] = 0;
    if (!answer_one(socket, path, q.seconds_max)) return 1;
  }
  return 0;
}

int (*program)(int, char**, char**) = nullptr;

int in_place_of_main(int count, char** arguments, char** environment) {
  const char* wanted = ::secure_getenv(judge_variable);
  if (wanted == nullptr) return program(count, arguments, environment);
  return judge(std::atoi(wanted));
}

}  // namespace

// The C library's start of a program asks for this name, and the program's own libraries are asked before the C
// library.
extern "C" [[gnu::visibility("default")]] int __libc_start_main(int (*main)(int, char**, char**), int count,
                                                                char** arguments, void (*init)(), void (*fini)(),
                                                                void (*rtld_fini)(), void* stack_end) {
  using start_type = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  auto* next = reinterpret_cast<start_type>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  program = main;
  return next(in_place_of_main, count, arguments, init, fini, rtld_fini, stack_end);
}
