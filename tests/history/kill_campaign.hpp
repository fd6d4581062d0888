// Pools that live through processes that are killed again and again, also while they open the pool and while they
// examine the state after a kill: the common part of such campaigns, for any contents of the pools.
//
/// A subject:
///   state                        derived from shared_state; lies in memory that the killed process shares with its
///                                parent, zero in the beginning
///   name, is_ssd, kills_openings    the last: a process may be killed before all of its threads have begun
///   make(path, s)                the pool
///   work(path, s, threads, seed)    in the process that is killed; each thread that has begun counts in s.working
///   look(path, s, threads)       in a process of its own, after a kill: s.looked, or a report
///   done(s, threads)             operations acknowledged so far
// Prints a line each minute, and at the end, which SIGINT and SIGTERM bring about, a row for each subject.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nvm/nvm.h"

namespace nvm::kills {

constexpr unsigned threads_max = 8;

struct shared_state {
  std::atomic<std::uint32_t> working;
  std::atomic<std::uint32_t> looked;
  char failure[512];
  std::atomic<bool> failed;
};

// What is wrong, with values of printf; the first report stays.  False.
template <class... Values>
bool report(shared_state& s, const char* format, Values... values) {
  if (s.failed.exchange(true)) return false;
  const std::string all = std::string{format} + " (%s)";
  std::snprintf(s.failure, sizeof s.failure, all.c_str(), values..., nvm_errormsg());
  return false;
}

struct settings {
  std::uint64_t seconds = 0;
  std::uint64_t seed = std::random_device{}();
  unsigned threads = 4;
  std::vector<std::string> subjects;  // by name; none: all
};
// `choice`: the option that names subjects.  False: wrong usage, which has been said.
inline bool parse(int count, char** arguments, const char* program, const char* choice, const char* names,
                  settings& s) {
  for (int i = 1; i < count; i += 2) {
    const std::string option = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
    const bool is_number = !value.empty() && *end == 0 && value[0] != '-';
    if (option == choice && !value.empty()) {
      s.subjects.push_back(value);
    } else if (option == "--minutes" && is_number) {
      s.seconds = number * 60;
    } else if (option == "--seconds" && is_number) {
      s.seconds = number;
    } else if (option == "--seed" && is_number) {
      s.seed = number;
    } else if (option == "--threads" && is_number && number >= 1 && number <= threads_max) {
      s.threads = static_cast<unsigned>(number);
    } else {
      std::fprintf(stderr, "usage: %s [--minutes N | --seconds N] [--seed N] [--threads N] [%s %s]...\n", program,
                   choice, names);
      return false;
    }
  }
  return true;
}

inline std::atomic<bool> told_to_end{false};
static_assert(std::atomic<bool>::is_always_lock_free);

template <class Subject>
class campaign {
 public:
  explicit campaign(const Subject& subject) : it_{subject} {}

  [[nodiscard]] bool is_right() const { return wrong_.empty(); }
  // False: there is no room for it, in memory or on the device.
  bool begin() {
    std::string folder = std::string{it_.is_ssd ? "/var/tmp" : "/dev/shm"} + "/holdfast-kills-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return false;
    folder_ = folder;
    void* p = ::mmap(nullptr, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    state_ = static_cast<state*>(p);
    (void)wait_for(in_process([&] { it_.make(path(), *state_); }));
    note_failure();
    return true;
  }
  void round(unsigned threads, std::mt19937_64& random) {
    const std::uint64_t before = it_.done(*state_, threads);
    kill_at_work(threads, random);
    done_ += it_.done(*state_, threads) - before;
    state_->looked.store(0);
    while (state_->looked.load() == 0 && !state_->failed.load()) look_or_be_killed(threads, random);
    note_failure();
  }

  [[nodiscard]] std::uint64_t kills() const { return kills_ + kills_opening_ + kills_looking_; }
  [[nodiscard]] std::uint64_t kills_meanwhile() const { return kills_opening_ + kills_looking_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  void print_row() const {
    std::printf("%-16s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 " %12" PRIu64 "  %s\n", it_.name, kills_, kills_opening_,
                kills_looking_, done_, is_right() ? "right" : wrong_.c_str());
    if (is_right()) {
      std::filesystem::remove_all(folder_);
    } else {
      std::printf("  the pool is in %s\n", folder_.c_str());
    }
  }

 private:
  using state = typename Subject::state;

  [[nodiscard]] std::string path() const { return folder_ + "/pool"; }
  template <class Work>
  static pid_t in_process(Work&& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(0);
    }
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    (void)::waitpid(child, &status, 0);
    return status;
  }
  static void sleep_up_to(std::uint64_t microseconds, std::mt19937_64& random) {
    std::this_thread::sleep_for(std::chrono::microseconds{random() % microseconds});
  }
  void note_failure() {
    if (state_->failed.load()) wrong_ = state_->failure;
  }
  void kill_at_work(unsigned threads, std::mt19937_64& random) {
    state_->working.store(0);
    const std::uint64_t seed = random();
    const pid_t worker = in_process([&] { it_.work(path(), *state_, threads, seed); });
    if (it_.kills_openings && random() % 4 == 0) {
      sleep_up_to(6'000, random);
    } else {
      while (state_->working.load() < threads && !state_->failed.load()) std::this_thread::yield();
      sleep_up_to(it_.is_ssd ? 60'000 : 20'000, random);
    }
    (void)::kill(worker, SIGKILL);
    (void)wait_for(worker);
    ++(state_->working.load() == threads ? kills_ : kills_opening_);
  }
  void look_or_be_killed(unsigned threads, std::mt19937_64& random) {
    state& s = *state_;
    const pid_t looker = in_process([&] { it_.look(path(), s, threads); });
    if (random() % 3 == 0) {
      sleep_up_to(6'000, random);
      // Not after it has said what counts from now on: the state is this process's, not the pool's.
      if (s.looked.load() == 0 && ::kill(looker, SIGKILL) == 0) ++kills_looking_;
    }
    const int status = wait_for(looker);
    if (WIFEXITED(status) && s.looked.load() == 0 && !s.failed.load())
      report(s, "the process that looks ended: found exit code %d, expected none", WEXITSTATUS(status));
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      report(s, "the process that looks ended: found signal %d, expected none", WTERMSIG(status));
  }

  const Subject it_;
  std::string folder_, wrong_;
  state* state_ = nullptr;
  std::uint64_t kills_ = 0, kills_opening_ = 0, kills_looking_ = 0, done_ = 0;
};

// Exit code of the program: 0 all was right, 1 something was not, 2 there is no such subject.  `unit`: what done()
// counts.
template <class Subject, std::size_t count>
int run(const settings& how, const Subject (&subjects)[count], const char* unit) {
  std::vector<campaign<Subject>> all;
  for (const std::string& name : how.subjects) {
    const std::size_t known = all.size();
    for (const Subject& s : subjects) {
      if (name == s.name) all.emplace_back(s);
    }
    if (all.size() == known) {
      std::fprintf(stderr, "there is no '%s'\n", name.c_str());
      return 2;
    }
  }
  if (all.empty()) {
    for (const Subject& s : subjects) all.emplace_back(s);
  }
  std::printf("seed %" PRIu64 ", %u threads, %" PRIu64 " seconds\n", how.seed, how.threads, how.seconds);
  std::fflush(stdout);
  bool right = true;
  for (auto& c : all) {
    if (!c.begin()) {
      std::perror("no room for a pool");
      return 1;
    }
    right = right && c.is_right();
  }
  std::signal(SIGINT, [](int) { told_to_end = true; });
  std::signal(SIGTERM, [](int) { told_to_end = true; });
  std::mt19937_64 random{how.seed};
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::seconds{how.seconds};
  auto next_line = clock::now() + std::chrono::minutes{1};
  for (unsigned minutes = 0; right && !told_to_end && clock::now() < deadline;) {
    for (auto& c : all) {
      c.round(how.threads, random);
      right = right && c.is_right();
    }
    if (!right || clock::now() < next_line) continue;
    next_line += std::chrono::minutes{1};
    std::uint64_t kills = 0, meanwhile = 0, done = 0;
    for (const auto& c : all) {
      kills += c.kills();
      meanwhile += c.kills_meanwhile();
      done += c.done();
    }
    std::printf("%3u min: %" PRIu64 " kills, %" PRIu64 " while opened or looked at, %" PRIu64 " %s, nothing lost\n",
                ++minutes, kills, meanwhile, done, unit);
    std::fflush(stdout);
  }
  std::printf("%-16s %8s %14s %14s %12s  %s\n", "subject", "kills", "while opened", "while looking", unit, "result");
  for (const auto& c : all) c.print_row();
  return right ? 0 : 1;
}

}  // namespace nvm::kills
