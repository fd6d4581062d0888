#include "cli/kill_run.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <random>
#include <thread>

namespace nvm::cli {
namespace {

using clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::seconds{30};  // for a child to open the pool, for a transaction after the time
constexpr std::size_t text_room = 512;

// Reports of a worker; they outlive the worker.
struct told {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<bool> ready{false};
  char fault[text_room] = {};
};

class shared_told {
 public:
  shared_told() {
    place_ = ::mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place_ == MAP_FAILED) throw std::bad_alloc{};
    new (place_) told;
  }
  ~shared_told() { ::munmap(place_, sizeof(told)); }
  shared_told(const shared_told&) = delete;
  told* operator->() const noexcept { return static_cast<told*>(place_); }

 private:
  void* place_;
};

[[noreturn]] void give_up(told* t, const std::string& why) {
  std::memcpy(t->fault, why.data(), std::min(why.size(), text_room - 1));
  ::_exit(1);
}

// Commits transactions until it is killed.
[[noreturn]] void work(const kill_settings& s, told* t) {
  NVM_POOL* pool = proof_pool::open(s.path, s.medium);
  if (pool == nullptr) give_up(t, fmt::format("opening it again: {}", nvm_errormsg()));
  std::uint64_t n = proof_pool::number(pool);
  // release: a process that sees it ready sees where it begins.
  t->begun.store(n, std::memory_order_release);
  t->acknowledged.store(n, std::memory_order_release);
  t->ready.store(true, std::memory_order_release);
  for (;;) {
    ++n;
    t->begun.store(n, std::memory_order_release);
    if (!s.step(pool, n)) give_up(t, fmt::format("transaction {}: {}", n, nvm_errormsg()));
    t->acknowledged.store(n, std::memory_order_release);
  }
}

pid_t start(const std::function<void()>& child) {
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id != 0) return id;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  child();
  ::_exit(0);
}

int end_of(pid_t child) {
  int ending = 0;
  while (::waitpid(child, &ending, 0) < 0 && errno == EINTR) {
  }
  return ending;
}

bool was_killed(int ending) { return WIFSIGNALED(ending) && WTERMSIG(ending) == SIGKILL; }

std::string how_it_ended(const char* who, int ending, const char* fault) {
  if (*fault != 0) return fault;
  if (WIFSIGNALED(ending)) return fmt::format("{} died of signal {}", who, WTERMSIG(ending));
  return fmt::format("{} ended with code {}", who, WEXITSTATUS(ending));
}

}  // namespace

kill_outcome run_kills(const kill_settings& s) {
  kill_outcome out;
  std::mt19937_64 dice{s.seed};
  const auto pause = [&](unsigned microseconds_max) {
    std::this_thread::sleep_for(std::chrono::microseconds{dice() % microseconds_max});
  };
  const auto begin = clock::now();
  const std::chrono::duration<double> time{s.seconds};
  shared_told t;
  unsigned slowness = 1;  // pauses get longer while nothing is acknowledged in them
  while (out.fault.empty()) {
    const std::chrono::duration<double> past = clock::now() - begin;
    if (s.share != nullptr) *s.share = std::min(past / time, 1.0);
    if (out.kills != 0 && s.stopped != nullptr && *s.stopped) break;
    if (out.kills != 0 && past >= time && (out.transactions != 0 || past >= time + patience)) break;
    const std::uint64_t before = t->acknowledged.load(std::memory_order_acquire);
    t->ready.store(false, std::memory_order_release);
    const pid_t worker = start([&] { work(s, t.operator->()); });
    if (worker < 0) {
      out.fault = fmt::format("no child process: {}", std::strerror(errno));
      break;
    }
    const auto since = clock::now();
    while (!t->ready.load(std::memory_order_acquire) && t->fault[0] == 0 && clock::now() - since < patience) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    pause((dice() % 4 == 0 ? 20000 : 3000) * slowness);
    ::kill(worker, SIGKILL);
    const int ending = end_of(worker);
    if (!was_killed(ending) || t->fault[0] != 0) {
      out.fault = how_it_ended("the process that works on it", ending, t->fault);
      break;
    }
    ++out.kills;
    // The process that recovers is killed as well.
    while (dice() % 3 == 0) {
      const pid_t opener = start([&] { (void)proof_pool::open(s.path, s.medium); });
      if (opener < 0) break;
      pause(4000);
      ::kill(opener, SIGKILL);
      if (!was_killed(end_of(opener))) break;  // it had finished
      ++out.kills;
      ++out.kills_of_recovery;
    }
    const std::uint64_t acknowledged = t->acknowledged.load(std::memory_order_acquire);
    const std::uint64_t begun = t->begun.load(std::memory_order_acquire);
    out.transactions += acknowledged - std::min(before, acknowledged);
    if (out.transactions == 0) slowness = std::min(2 * slowness, 64U);
    out.fault = in_a_child([&] { return proof_pool::judge(s.path, s.medium, acknowledged, begun); });
  }
  return out;
}

}  // namespace nvm::cli
