// The bank: threads move money between accounts by barrier transactions in a process that is killed again and again;
// the total stays, every transfer that was acknowledged is there, and nothing of one that was not, but whole.
//
// usage: bank [--minutes N | --seconds N] [--seed N] [--threads N] [--engine NAME]...
//
// Per engine one pool lives through all kills.  Some of the processes that look after a kill are killed, too, inside
// recovery or on the way.  Prints a line each minute, and at the end, which SIGINT and SIGTERM bring about, a row for
// each engine.  Exit code: 0 all was right, 1 something was not, 2 wrong usage.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nvm/stm.hpp"

namespace {

constexpr unsigned threads_max = 8, accounts = 128;
constexpr std::int64_t opening = 1000;

struct receipt {
  receipt* older;
  std::uint64_t number, from, to;
  std::int64_t amount;
};
struct bank {
  std::int64_t account[accounts];
  std::uint64_t done[threads_max];  // transfers of each thread
  receipt* receipts[threads_max];   // the latest first
  std::uint64_t receipt_count;
};

// Of one engine, in memory that the killed process shares with this one.
struct shared_state {
  std::atomic<std::uint64_t> acknowledged[threads_max];
  std::atomic<std::uint32_t> working;
  std::atomic<std::uint32_t> looked;  // the process that looks has found everything right
  char failure[512];
  std::atomic<bool> failed;
};

struct engine {
  const char* name;
  bool ssd, write_back, redo, by_mark;
};
constexpr engine engines[] = {
    {"undo", false, false, false, false}, {"undo-write-back", false, true, false, false},
    {"redo", false, false, true, false},  {"redo-by-mark", false, false, true, true},
    {"ssd", true, false, false, false},
};

struct campaign {
  const engine* e;
  std::string folder;
  shared_state* state;
  std::uint64_t kills = 0, kills_looking = 0, transfers = 0, cut_off = 0;
  std::string wrong;

  [[nodiscard]] std::string path() const { return folder + "/pool"; }
};

bool report(shared_state& s, const char* what, std::int64_t found, std::int64_t expected) {
  if (!s.failed.exchange(true)) {
    std::snprintf(s.failure, sizeof s.failure, "%s: found %" PRId64 ", expected %" PRId64 " (%s)", what, found,
                  expected, nvm_errormsg());
  }
  return false;
}

NVM_POOL* open(const campaign& c) {
  NVM_POOL* pool = nvm_pool_open(c.path().c_str());
  if (pool == nullptr) {
    report(*c.state, "the pool does not open", nvm_errno(), 0);
    return nullptr;
  }
  if (c.e->write_back) (void)nvm_stm_set_policy(pool, NVM_STM_POLICY_WRITE_BACK);
  return pool;
}

bool make(campaign& c) {
  nvm_pool_options o{};
  o.size = std::uint64_t{8} << 20;
  o.medium = c.e->ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  if (c.e->redo) o.engine = NVM_ENGINE_REDO;
  if (c.e->by_mark) o.validation = NVM_VALIDATION_COMMIT_MARK;
  NVM_POOL* pool = nvm_pool_create_with(c.path().c_str(), &o);
  if (pool == nullptr) return report(*c.state, "no pool is made", nvm_errno(), 0);
  const nvm::outcome done = nvm::atomic(pool, [&](nvm::tx& t) {
    auto* b = static_cast<bank*>(t.alloc(1, sizeof(bank)));
    std::memset(static_cast<void*>(b), 0, sizeof(bank));
    for (std::int64_t& a : b->account) a = opening;
    t.set_root(b);
  });
  if (!done || nvm_pool_close(pool) != 0) return report(*c.state, "no bank is made", nvm_errno(), 0);
  return true;
}

// ---- the process that is killed

void transfer(nvm::tx& t, bank* b, unsigned me, std::uint64_t number, std::mt19937_64& random) {
  const std::uint64_t from = random() % accounts, to = random() % accounts;
  const auto amount = static_cast<std::int64_t>(random() % 50);
  const std::int64_t have = t.load(&b->account[from]);
  t.store(&b->account[from], have - amount);
  t.store(&b->account[to], t.load(&b->account[to]) + amount);
  if (random() % 4 == 0) {
    auto* r = static_cast<receipt*>(t.alloc(2, sizeof(receipt)));
    *r = {t.load(&b->receipts[me]), number, from, to, amount};
    t.store(&b->receipts[me], r);
    t.store(&b->receipt_count, t.load(&b->receipt_count) + 1);
  } else if (random() % 4 == 0) {
    if (receipt* r = t.load(&b->receipts[me]); r != nullptr) {
      t.store(&b->receipts[me], t.load(&r->older));
      t.store(&b->receipt_count, t.load(&b->receipt_count) - 1);
      t.free(r);
    }
  }
  t.store(&b->done[me], number);
}

void work(const campaign& c, NVM_POOL* pool, unsigned me, std::uint64_t seed) {
  shared_state& s = *c.state;
  auto* b = static_cast<bank*>(nvm_pool_get_root(pool));
  std::mt19937_64 random{seed * threads_max + me};
  s.working.fetch_add(1);
  for (std::uint64_t number = s.acknowledged[me].load() + 1; !s.failed.load(); ++number) {
    const std::uint64_t seed_of_attempt = random();
    const bool look = random() % 64 == 0;
    std::int64_t total = 0;
    const nvm::outcome done = nvm::atomic(pool, [&](nvm::tx& t) {
      std::mt19937_64 again{seed_of_attempt};
      transfer(t, b, me, number, again);
      if (again() % 8 == 0) {
        // What is taken back is never seen.
        (void)nvm::atomic(pool, [&](nvm::tx& u) {
          u.store(&b->account[again() % accounts], -1'000'000);
          if (again() % 2 == 0) (void)u.alloc(3, 100);
          return false;
        });
      }
      if (look) {
        total = 0;
        for (const std::int64_t& a : b->account) total += t.load(&a);
      }
    });
    if (!done) return void(report(s, "a transfer fails", done.code(), 0));
    if (look && total != opening * accounts) return void(report(s, "the total inside", total, opening * accounts));
    // release: whoever sees the number sees a transfer that is durable.
    s.acknowledged[me].store(number, std::memory_order_release);
  }
}

[[noreturn]] void be_killed(const campaign& c, unsigned threads, std::uint64_t seed) {
  NVM_POOL* pool = open(c);
  if (pool == nullptr) ::_exit(1);
  std::vector<std::thread> all;
  for (unsigned me = 0; me < threads; ++me) all.emplace_back([&c, pool, me, seed] { work(c, pool, me, seed); });
  for (std::thread& t : all) t.join();
  ::_exit(1);  // only a failure ends the work
}

// ---- the process that looks

bool look(const campaign& c, unsigned threads) {
  shared_state& s = *c.state;
  nvm_check_summary found{};
  if (const std::int64_t findings = nvm_pool_check(c.path().c_str(), nullptr, nullptr, &found); findings != 0)
    return report(s, "findings of the check", findings, 0);
  NVM_POOL* pool = open(c);
  if (pool == nullptr) return false;
  auto* b = static_cast<bank*>(nvm_pool_get_root(pool));
  std::int64_t total = 0;
  for (const std::int64_t a : b->account) total += a;
  if (total != opening * accounts) return report(s, "the total", total, opening * accounts);
  std::uint64_t receipts = 0;
  for (unsigned me = 0; me < threads; ++me) {
    const std::uint64_t acknowledged = s.acknowledged[me].load();
    if (b->done[me] != acknowledged && b->done[me] != acknowledged + 1)
      return report(s, "transfers of a thread", static_cast<std::int64_t>(b->done[me]),
                    static_cast<std::int64_t>(acknowledged));
    std::uint64_t before = UINT64_MAX;
    for (const receipt* r = b->receipts[me]; r != nullptr; r = r->older, ++receipts) {
      if (r->number >= before || nvm_size_of(pool, r) != sizeof(receipt))
        return report(s, "a receipt's number", static_cast<std::int64_t>(r->number), static_cast<std::int64_t>(before));
      before = r->number;
    }
  }
  if (receipts != b->receipt_count)
    return report(s, "receipts", static_cast<std::int64_t>(receipts), static_cast<std::int64_t>(b->receipt_count));
  // What was not acknowledged and is there, counts from now on.
  for (unsigned me = 0; me < threads; ++me) s.acknowledged[me].store(b->done[me]);
  if (nvm_pool_close(pool) != 0) return report(s, "the pool does not close", nvm_errno(), 0);
  if (nvm_pool_check(c.path().c_str(), nullptr, nullptr, &found) != 0) return report(s, "findings after closing", 1, 0);
  // The bank itself, and the receipts: nothing leaks.
  if (found.objects != receipts + 1)
    return report(s, "objects", static_cast<std::int64_t>(found.objects), static_cast<std::int64_t>(receipts + 1));
  s.looked.store(1);
  return true;
}

// ---- the parent

template <class Work>
pid_t in_process(Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  return child;
}

void round(campaign& c, unsigned threads, std::mt19937_64& random) {
  shared_state& s = *c.state;
  std::uint64_t before = 0, after = 0;
  for (unsigned me = 0; me < threads; ++me) before += s.acknowledged[me].load();
  s.working.store(0);
  const std::uint64_t seed = random();
  const pid_t worker = in_process([&] { be_killed(c, threads, seed); });
  while (s.working.load() < threads && !s.failed.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds{random() % (c.e->ssd ? 60'000 : 20'000)});
  (void)::kill(worker, SIGKILL);
  int status = 0;
  (void)::waitpid(worker, &status, 0);
  ++c.kills;
  for (unsigned me = 0; me < threads; ++me) after += s.acknowledged[me].load();
  c.transfers += after - before;

  s.looked.store(0);
  while (s.looked.load() == 0 && !s.failed.load()) {
    const pid_t looker = in_process([&] { (void)look(c, threads); });
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 4'000});
      // Not while it says what was acknowledged: the state is this process's, not the pool's.
      if (s.looked.load() == 0 && ::kill(looker, SIGKILL) == 0) ++c.kills_looking;
    }
    (void)::waitpid(looker, &status, 0);
    if (WIFEXITED(status) && s.looked.load() == 0 && !s.failed.load())
      report(s, "the process that looks ended", WEXITSTATUS(status), 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      report(s, "the process that looks ended by signal", WTERMSIG(status), 0);
  }
  std::uint64_t known = 0;
  for (unsigned me = 0; me < threads; ++me) known += s.acknowledged[me].load();
  c.cut_off += known - after;
  if (s.failed.load()) c.wrong = s.failure;
}

std::atomic<bool> told_to_end{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void end_soon(int) { told_to_end = true; }

// Of all engines, once a minute.
class progress {
 public:
  void tell(const std::vector<campaign>& all) {
    if (std::chrono::steady_clock::now() < next_) return;
    next_ += std::chrono::minutes{1};
    std::uint64_t kills = 0, looking = 0, transfers = 0;
    for (const campaign& c : all) {
      kills += c.kills;
      looking += c.kills_looking;
      transfers += c.transfers;
    }
    std::printf("%3u min: %" PRIu64 " kills, %" PRIu64 " while opened, %" PRIu64 " transfers, nothing lost\n",
                ++minutes_, kills, looking, transfers);
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  unsigned minutes_ = 0;
};

int usage() {
  std::fputs("usage: bank [--minutes N | --seconds N] [--seed N] [--threads N] [--engine NAME]...\n", stderr);
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  std::uint64_t seconds = 3600, seed = std::random_device{}();
  unsigned threads = 4;
  std::vector<campaign> all;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) return usage();
    const std::string option = arguments[i], value = arguments[i + 1];
    if (option == "--engine") {
      for (const engine& e : engines) {
        if (value == e.name) all.push_back({&e, "", nullptr, 0, 0, 0, 0, ""});
      }
      if (all.empty() || value != all.back().e->name) return usage();
      continue;
    }
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || *end != 0 || value[0] == '-') return usage();
    if (option == "--minutes") {
      seconds = number * 60;
    } else if (option == "--seconds") {
      seconds = number;
    } else if (option == "--seed") {
      seed = number;
    } else if (option == "--threads" && number >= 1 && number <= threads_max) {
      threads = static_cast<unsigned>(number);
    } else {
      return usage();
    }
  }
  if (all.empty()) {
    for (const engine& e : engines) all.push_back({&e, "", nullptr, 0, 0, 0, 0, ""});
  }
  std::printf("seed %" PRIu64 ", %u threads, %" PRIu64 " seconds\n", seed, threads, seconds);
  std::fflush(stdout);
  std::mt19937_64 random{seed};
  bool wrong = false;
  for (campaign& c : all) {
    std::string folder = c.e->ssd ? "/var/tmp/holdfast-bank-XXXXXX" : "/dev/shm/holdfast-bank-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    c.folder = folder;
    void* p = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    c.state = static_cast<shared_state*>(p);
    int status = 0;
    (void)::waitpid(in_process([&] { (void)make(c); }), &status, 0);
    if (c.state->failed.load()) c.wrong = c.state->failure;
    wrong |= !c.wrong.empty();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{seconds};
  std::signal(SIGINT, end_soon);
  std::signal(SIGTERM, end_soon);
  progress so_far;
  while (!wrong && !told_to_end && std::chrono::steady_clock::now() < deadline) {
    for (campaign& c : all) {
      round(c, threads, random);
      wrong |= !c.wrong.empty();
    }
    if (!wrong) so_far.tell(all);
  }
  std::printf("%-16s %8s %12s %12s %8s  %s\n", "engine", "kills", "while opened", "transfers", "cut off", "result");
  for (const campaign& c : all) {
    std::printf("%-16s %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %8" PRIu64 "  %s\n", c.e->name, c.kills,
                c.kills_looking, c.transfers, c.cut_off, c.wrong.empty() ? "right" : c.wrong.c_str());
    if (c.wrong.empty()) {
      std::filesystem::remove_all(c.folder);
    } else {
      std::printf("  the pool is in %s\n", c.folder.c_str());
    }
  }
  return wrong ? 1 : 0;
}
