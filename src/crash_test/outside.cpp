#include "crash_test/outside.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "crash_test/judge_layout.hpp"
#include "crash_test/judge_messages.hpp"
#include "platform/platform.hpp"

namespace nvm::crash_test {
namespace {

// ---- the directory --------------------------------------------------------------------------------------------------

char to_remove[512];  // path of the only scratch directory, for a signal handler
constexpr int interruptions[] = {SIGINT, SIGTERM, SIGHUP};

void remove_files(const char* directory) noexcept {
  char path[sizeof to_remove + 32];
  for (const char* name : {scratch::trace, scratch::pool, scratch::candidate}) {
    // No snprintf: this may run in a signal handler.
    std::strcpy(path, directory);
    std::strcat(path, "/");
    std::strcat(path, name);
    ::unlink(path);
  }
  ::rmdir(directory);
}

void on_interruption(int number) {
  remove_files(to_remove);
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  ::sigaction(number, &plain, nullptr);
  ::raise(number);
}

// ---- processes ------------------------------------------------------------------------------------------------------

using clock = std::chrono::steady_clock;

// Arguments and environment of a child, made before fork(): nothing may be allocated after it. They refer to the
// strings that they are made from.
struct child_vectors {
  std::vector<char*> arguments, environment;
  child_vectors(const std::vector<std::string>& a, const std::vector<std::string>& more) {
    arguments.reserve(a.size() + 1);
    for (const std::string& s : a) arguments.push_back(const_cast<char*>(s.c_str()));
    arguments.push_back(nullptr);
    for (char** e = environ; *e != nullptr; ++e) {
      const bool replaced = std::any_of(more.begin(), more.end(), [&](const std::string& m) {
        return std::strncmp(*e, m.c_str(), m.find('=') + 1) == 0;
      });
      if (!replaced) environment.push_back(*e);
    }
    for (const std::string& s : more) environment.push_back(const_cast<char*>(s.c_str()));
    environment.push_back(nullptr);
  }
};

[[noreturn]] void become(const child_vectors& v, int failure) noexcept {
  ::setpgid(0, 0);
  for (const int number : interruptions) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(v.arguments[0], v.arguments.data(), v.environment.data());
  const int cause = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &cause, sizeof cause);
  ::_exit(127);
}

void keep_end(std::string& text, const char* piece, std::size_t bytes, std::size_t most) {
  text.append(piece, bytes);
  if (text.size() > most) text.erase(0, text.size() - most);
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? std::string{"SIG"} + name : "signal " + std::to_string(number);
}

}  // namespace

std::optional<scratch> scratch::make(std::string& problem) {
  for (const char* place : {"/dev/shm", static_cast<const char*>(std::getenv("TMPDIR")), "/tmp"}) {
    if (place == nullptr || ::access(place, W_OK | X_OK) != 0) continue;
    std::string path = std::string{place} + "/holdfast-crash-test." + std::to_string(::getpid()) + ".XXXXXX";
    if (path.size() >= sizeof to_remove || ::mkdtemp(path.data()) == nullptr) continue;
    std::strcpy(to_remove, path.c_str());
    struct sigaction a{};
    a.sa_handler = on_interruption;
    for (const int number : interruptions) ::sigaction(number, &a, nullptr);
    return scratch{path};
  }
  problem = std::string{"no directory for temporary files: "} + std::strerror(errno);
  return std::nullopt;
}

scratch::~scratch() {
  if (path_.empty()) return;
  for (const int number : interruptions) ::signal(number, SIG_DFL);
  remove_files(path_.c_str());
}

std::string ending::text() const {
  switch (what) {
    case how::exited:
      return "exit code " + std::to_string(code);
    case how::signalled:
      return signal_text(code);
    case how::late:
      return "no end within its time";
    case how::not_started:
      break;
  }
  return "no start: " + errors;
}

namespace {

// A running child and the pipes that lead from it.
struct running {
  pid_t child;
  int out, err, failure;
  clock::time_point end;  // when it is late, if there is a limit
  bool limited;
  bool late = false;
};

// Takes what the child prints until it has closed both pipes or is late.
void gather(running& r, const run_options& o, ending& e) {
  constexpr std::size_t errors_max = 2048;
  for (int open = 2; open > 0;) {
    pollfd fds[2] = {{r.out, POLLIN, 0}, {r.err, POLLIN, 0}};
    int wait_ms = -1;
    if (r.limited) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(r.end - clock::now()).count();
      r.late = r.late || left <= 0;
      wait_ms = static_cast<int>(std::max<std::int64_t>(left, 0)) + 1;
    }
    if (r.late) {
      ::kill(-r.child, SIGKILL);
      break;
    }
    const int ready = ::poll(fds, 2, wait_ms);
    if (ready < 0 && errno != EINTR) break;
    for (int i = 0; ready > 0 && i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      char piece[4096];
      const ssize_t n = ::read(fds[i].fd, piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        ::close(fds[i].fd);
        (i == 0 ? r.out : r.err) = -1;
        --open;
      } else if (i == 0) {
        e.output.append(piece,
                        std::min(static_cast<std::size_t>(n), o.output_max - std::min(o.output_max, e.output.size())));
      } else {
        keep_end(e.errors, piece, static_cast<std::size_t>(n), errors_max);
      }
    }
  }
}

// Waits for the end of a child, which may have closed its output earlier; returns its wait status.
int wait_for_end(running& r) {
  while (!r.late && r.limited) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(r.child), &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == r.child)
      break;
    r.late = clock::now() > r.end;
    if (r.late) ::kill(-r.child, SIGKILL);
    ::usleep(1000);
  }
  int status = 0;
  while (::waitpid(r.child, &status, 0) < 0 && errno == EINTR) continue;
  ::kill(-r.child, SIGKILL);  // processes that the child has left
  return status;
}

}  // namespace

ending run_program(const std::vector<std::string>& arguments, const run_options& o) {
  ending e;
  int out[2], err[2], failure[2];
  if (platform::open_pipe(out) != 0 || platform::open_pipe(err) != 0 || platform::open_pipe(failure) != 0) {
    e.errors = std::strerror(errno);
    return e;
  }
  const child_vectors vectors{arguments, o.environment};
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = platform::open_descriptor("/dev/null", O_RDWR);
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    if (!o.errors_pass) ::dup2(err[1], STDERR_FILENO);
    become(vectors, failure[1]);
  }
  for (const int d : {out[1], err[1], failure[1]}) ::close(d);
  if (child < 0) {
    e.errors = std::strerror(errno);
    for (const int d : {out[0], err[0], failure[0]}) ::close(d);
    return e;
  }
  ::setpgid(child, child);  // in both processes: the order in which they run does not matter
  running r{child,
            out[0],
            err[0],
            failure[0],
            clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.seconds_max)),
            o.seconds_max > 0};
  gather(r, o, e);
  const int status = wait_for_end(r);
  int cause = 0;
  const bool failed = take(r.failure, &cause, sizeof cause);
  for (const int d : {r.out, r.err, r.failure}) {
    if (d >= 0) ::close(d);
  }
  if (failed) {
    e.errors = std::strerror(cause);
  } else if (r.late) {
    e.what = ending::how::late;
  } else if (WIFSIGNALED(status)) {
    e.what = ending::how::signalled;
    e.code = WTERMSIG(status);
  } else {
    e.what = ending::how::exited;
    e.code = WEXITSTATUS(status);
  }
  return e;
}

// ---- candidate ------------------------------------------------------------------------------------------------------

std::optional<candidate_file> candidate_file::make(const std::string& path, std::uint64_t image_bytes,
                                                   std::string& problem) {
  const int d = platform::open_descriptor(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  void* m = MAP_FAILED;
  if (d >= 0 && ::ftruncate(d, static_cast<off_t>(image_bytes)) == 0) {
    m = ::mmap(nullptr, image_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d, 0);
  }
  if (m == MAP_FAILED) {
    problem = path + ": " + std::strerror(errno);
    if (d >= 0) ::close(d);
    return std::nullopt;
  }
  return candidate_file{path, d, static_cast<std::byte*>(m), image_bytes};
}

candidate_file::candidate_file(candidate_file&& other) noexcept
    : path_{std::move(other.path_)}, descriptor_{other.descriptor_}, base_{other.base_}, bytes_{other.bytes_} {
  other.descriptor_ = -1;
  other.base_ = nullptr;
}

candidate_file::~candidate_file() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool candidate_file::put(const std::byte* image, std::uint64_t length) {
  constexpr std::uint64_t page = 4096;
  // The program that was asked last may have extended the file or written beyond the image: both are undone.
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) return false;
  if (::ftruncate(descriptor_, static_cast<off_t>(std::max(length, bytes_))) != 0) return false;
  static constexpr std::byte zeros[page]{};
  for (std::uint64_t at = 0; at < bytes_; at += page) {
    const std::uint64_t n = std::min(page, bytes_ - at);
    if (std::memcmp(base_ + at, image + at, n) == 0) continue;
    // A store into a hole of a full file system would be SIGBUS.
    if (std::memcmp(base_ + at, zeros, n) == 0 &&
        ::posix_fallocate(descriptor_, static_cast<off_t>(at), static_cast<off_t>(n)) != 0) {
      return false;
    }
    std::memcpy(base_ + at, image + at, n);
  }
  return true;
}

// ---- judges ---------------------------------------------------------------------------------------------------------

std::string with_pool(std::string_view command, const std::string& path, bool quoted) {
  constexpr std::string_view mark = "{pool}";
  std::string shell_path = path;
  if (quoted) {
    shell_path = "'";
    for (const char c : path) shell_path += c == '\'' ? std::string{"'\\''"} : std::string{c};
    shell_path += "'";
  }
  std::string text;
  for (std::size_t at = 0;;) {
    const std::size_t found = command.find(mark, at);
    text += command.substr(at, found - at);
    if (found == std::string_view::npos) return text;
    text += shell_path;
    at = found + mark.size();
  }
}

std::optional<objection> command_judge::judge(const std::string& path) {
  run_options o;
  o.seconds_max = seconds_max_;
  o.environment.emplace_back(accepts_copies);
  for (const auto& [name, command] : {std::pair{"recovery", recover_}, std::pair{"check", check_}}) {
    if (command.empty()) continue;
    const ending e = run_program({"/bin/sh", "-c", with_pool(command, path, true)}, o);
    if (!e.good()) return objection{std::string{"the "} + name + " command ends with " + e.text(), one_line(e.errors)};
  }
  return std::nullopt;
}

std::unique_ptr<program_judge> program_judge::start(const std::vector<std::string>& program, double seconds_max) {
  int ends[2], failure[2];
  if (platform::open_socket_pair(AF_UNIX, SOCK_STREAM, ends) != 0) return nullptr;
  if (platform::open_pipe(failure) != 0) {
    for (const int d : ends) ::close(d);
    return nullptr;
  }
  const std::vector<std::string> more{std::string{layout::judge_variable} + "=" + std::to_string(ends[1]),
                                      accepts_copies};
  const child_vectors vectors{program, more};
  const pid_t child = ::fork();
  if (child == 0) {
    ::fcntl(ends[1], F_SETFD, 0);
    const int nothing = platform::open_descriptor("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    become(vectors, failure[1]);
  }
  ::close(ends[1]);
  ::close(failure[0]);
  ::close(failure[1]);
  if (child < 0) {
    ::close(ends[0]);
    return nullptr;
  }
  std::unique_ptr<program_judge> judge{new program_judge{child, ends[0], seconds_max}};
  // A program that was built without recording runs as usual and never answers, so the wait is short.
  pollfd p{ends[0], POLLIN, 0};
  layout::judge_greeting hello{};
  constexpr int greeting_ms = 5000;
  if (::poll(&p, 1, greeting_ms) <= 0 || !take(ends[0], &hello, sizeof hello) || hello.ready == 0) return nullptr;
  return judge;
}

program_judge::~program_judge() {
  ::close(socket_);
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

std::optional<objection> program_judge::judge(const std::string& path) {
  using layout::judge_verdict;
  const layout::judge_question q{static_cast<std::uint32_t>(path.size()),
                                 static_cast<std::uint32_t>(std::ceil(seconds_max_))};
  layout::judge_answer a{};
  std::string message;
  const bool asked = give(socket_, &q, sizeof q) && give(socket_, path.data(), path.size());
  if (!asked || !take(socket_, &a, sizeof a) || a.message_bytes > layout::judge_message_max) {
    return objection{"the program that judges is gone", ""};
  }
  message.resize(a.message_bytes);
  if (!take(socket_, message.data(), message.size())) return objection{"the program that judges is gone", ""};
  message = one_line(message);
  switch (static_cast<judge_verdict>(a.verdict)) {
    case judge_verdict::good:
      return std::nullopt;
    case judge_verdict::refused:
      return objection{"nvm_pool_open() refuses the pool", message};
    case judge_verdict::bad:
      return objection{"nvm_crash_check() says no", message};
    case judge_verdict::signal:
      return objection{"nvm_crash_check() ends with " + signal_text(static_cast<int>(a.detail)), message};
    case judge_verdict::timeout:
      return objection{"nvm_crash_check() does not end within its time", message};
    case judge_verdict::failed:
      break;
  }
  return objection{"no process could be made to judge", message};
}

}  // namespace nvm::crash_test
