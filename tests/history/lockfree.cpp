// Lock-free structures in processes that are killed again and again, also while they open the pool: every change that
// was acknowledged is there, nothing comes back that was acknowledged as removed, no value is torn, nothing leaks.
//
// usage: lockfree [--minutes N | --seconds N] [--seed N] [--threads N] [--medium shm|ssd]
//
// One pool on each medium lives through all kills.  It holds each kind of structure twice: of words, and of bytes. Each
// key belongs to one thread, which alone changes it; neighbours belong to others, so that threads meet at links.  What
// a thread is about to do, and what it has been told, it notes in memory that it shares with the parent.  Other threads
// read the key meanwhile and look whether its value is whole.
//
// Prints a line each minute, and at the end, which SIGINT and SIGTERM bring about, a row for each medium.  Exit code: 0
// all was right, 1 something was not, 2 wrong usage.
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

#include "nvm/lockfree.h"

namespace {

constexpr unsigned threads_max = 8, structures = 8, keys_max = 512;
constexpr std::size_t value_max = 6000;
constexpr nvm_lf_kind kinds[] = {NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE};
constexpr const char* names[structures] = {"list",      "hash",      "skip list",      "tree",
                                           "byte list", "byte hash", "byte skip list", "byte tree"};
constexpr bool has_words(unsigned s) { return s < structures / 2; }
constexpr unsigned keys_of(unsigned s) { return kinds[s % 4] == NVM_LF_LIST ? 96 : keys_max; }

// Of a key: 0, it is absent, or the number of its value.
struct entry {
  std::atomic<std::uint32_t> told;     // what the structure said last
  std::atomic<std::uint32_t> wanted;   // what may be there instead: the call is under way
  std::atomic<std::uint32_t> numbers;  // of values so far
};
// In memory that the killed process shares with this one.
struct shared_state {
  entry ledger[structures][keys_max];
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint32_t> working;
  std::atomic<std::uint32_t> looked;  // the process that looks has found everything right
  char failure[512];
  std::atomic<bool> failed;
};

struct campaign {
  const char* medium;
  bool ssd;
  std::string folder;
  shared_state* state;
  std::uint64_t kills = 0, kills_opening = 0, kills_looking = 0, calls = 0;
  std::string wrong;

  [[nodiscard]] std::string path() const { return folder + "/pool"; }
};

bool report(shared_state& s, const char* what, std::uint64_t found, std::uint64_t expected) {
  if (!s.failed.exchange(true)) {
    std::snprintf(s.failure, sizeof s.failure, "%s: found %" PRIu64 ", expected %" PRIu64 " (%s)", what, found,
                  expected, nvm_errormsg());
  }
  return false;
}
bool report(shared_state& s, const char* what, unsigned structure, unsigned key, std::uint64_t found,
            std::uint64_t expected) {
  if (!s.failed.exchange(true)) {
    std::snprintf(s.failure, sizeof s.failure,
                  "%s: key %u of the %s: found value %" PRIu64 ", expected %" PRIu64 " (%s)", what, key,
                  names[structure], found, expected, nvm_errormsg());
  }
  return false;
}

// ---- values that tell whether they are whole

std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ x >> 31) * 0x9E37'79B9'7F4A'7C15ULL;
  return x ^ x >> 29;
}
std::uint64_t word_of(unsigned key, std::uint32_t number) {
  return std::uint64_t{number} << 32 | (scramble(std::uint64_t{key} << 32 | number) >> 32);
}
std::size_t bytes_of(unsigned key, std::uint32_t number) {
  const std::uint64_t r = scramble(number * 512ULL + key);
  return 8 + (r % 64 == 0 ? r / 64 % (value_max - 8) : r / 64 % 250);
}
void fill(unsigned char* at, unsigned key, std::uint32_t number) {
  const std::uint64_t word = word_of(key, number);
  std::memcpy(at, &word, 8);
  for (std::size_t i = 8; i < bytes_of(key, number); ++i) {
    at[i] = static_cast<unsigned char>(scramble(word + i / 8) >> 8 * (i % 8));
  }
}
// The number; 0: it is torn.
std::uint32_t number_of(unsigned key, std::uint64_t word) {
  const auto number = static_cast<std::uint32_t>(word >> 32);
  return word == word_of(key, number) ? number : 0;
}
std::uint32_t number_of(unsigned key, const unsigned char* at, std::size_t bytes) {
  if (bytes < 8) return 0;
  std::uint64_t word = 0;
  std::memcpy(&word, at, 8);
  const std::uint32_t number = number_of(key, word);
  if (number == 0 || bytes != bytes_of(key, number)) return 0;
  unsigned char expected[value_max];
  fill(expected, key, number);
  return std::memcmp(at, expected, bytes) == 0 ? number : 0;
}
std::string name_of(unsigned key) { return "all keys begin alike " + std::to_string(key * 7919 % 1009); }

// ---- calls

struct open_pool {
  NVM_POOL* pool = nullptr;
  nvm_lf* it[structures] = {};
};
bool open(const campaign& c, open_pool& p) {
  p.pool = nvm_pool_open(c.path().c_str());
  if (p.pool == nullptr) return report(*c.state, "the pool does not open", 0, 0);
  for (unsigned s = 0; s < structures; ++s) {
    nvm_lf_options o{};
    o.kind = kinds[s % 4];
    o.flags = has_words(s) ? 0 : NVM_LF_BYTES;
    o.expected = 16;  // so that the hash tables grow
    p.it[s] = nvm_lf_open(p.pool, names[s], &o);
    if (p.it[s] == nullptr) return report(*c.state, "a structure does not open", s, 0);
  }
  return true;
}
int put(nvm_lf* lf, unsigned s, unsigned key, std::uint32_t number, unsigned flags) {
  if (has_words(s)) return nvm_lf_put64(lf, key, word_of(key, number), flags);
  unsigned char value[value_max];
  fill(value, key, number);
  const std::string name = name_of(key);
  return nvm_lf_put(lf, name.data(), name.size(), value, bytes_of(key, number), 0, flags);
}
int remove(nvm_lf* lf, unsigned s, unsigned key) {
  if (has_words(s)) return nvm_lf_remove64(lf, key);
  const std::string name = name_of(key);
  return nvm_lf_remove(lf, name.data(), name.size());
}
// 1, 0, -1; `number`: 0 if the value is torn.
int get(nvm_lf* lf, unsigned s, unsigned key, std::uint32_t& number) {
  if (has_words(s)) {
    std::uint64_t word = 0;
    const int r = nvm_lf_get64(lf, key, &word);
    number = number_of(key, word);
    return r;
  }
  unsigned char value[value_max];
  std::size_t bytes = 0;
  const std::string name = name_of(key);
  const int r = nvm_lf_get(lf, name.data(), name.size(), value, sizeof value, &bytes);
  number = r == 1 ? number_of(key, value, bytes) : 0;
  return r;
}

// ---- the process that is killed

bool change(shared_state& all, nvm_lf* lf, unsigned s, unsigned key, std::mt19937_64& random) {
  entry& e = all.ledger[s][key];
  const std::uint32_t now = e.told.load();
  const std::uint32_t next = e.numbers.load() + 1;
  const auto is = [&](const char* what, int said, int expected) {
    return said == expected ||
           report(all, what, s, key, static_cast<std::uint64_t>(said), static_cast<std::uint64_t>(expected));
  };
  switch (random() % 6) {
    case 0:
    case 1:
      e.wanted.store(0);
      if (!is("remove", remove(lf, s, key), now != 0 ? 1 : 0)) return false;
      break;
    case 2:
      e.numbers.store(next);
      if (now == 0) e.wanted.store(next);
      if (!is("put if absent", put(lf, s, key, next, NVM_LF_PUT_ABSENT), now == 0 ? 1 : 0)) return false;
      break;
    case 3:
      e.numbers.store(next);
      if (now != 0) e.wanted.store(next);
      if (!is("put if present", put(lf, s, key, next, NVM_LF_PUT_PRESENT), now != 0 ? 2 : 0)) return false;
      break;
    default:
      e.numbers.store(next);
      e.wanted.store(next);
      if (!is("put", put(lf, s, key, next, 0), now != 0 ? 2 : 1)) return false;
  }
  // seq_cst, as all of these: the order in which they are stored is the order in which they are found.
  e.told.store(e.wanted.load());
  return true;
}
bool read(shared_state& all, nvm_lf* lf, unsigned s, unsigned key, bool own) {
  std::uint32_t number = 0;
  const int said = get(lf, s, key, number);
  if (said < 0) return report(all, "get", s, key, 0, 1);
  if (said == 1 && number == 0) return report(all, "a torn value", s, key, 0, all.ledger[s][key].told.load());
  if (own && number != all.ledger[s][key].told.load())
    return report(all, "what a thread reads of its own", s, key, number, all.ledger[s][key].told.load());
  return true;
}
// A structure that comes and goes.
bool come_and_go(shared_state& all, NVM_POOL* pool, unsigned me, std::mt19937_64& random) {
  const std::string name = "of thread " + std::to_string(me);
  nvm_lf_options o{};
  o.kind = kinds[random() % 4];
  (void)nvm_lf_drop(pool, name.c_str());
  nvm_lf* lf = nvm_lf_open(pool, name.c_str(), &o);
  if (lf == nullptr) return report(all, "making a structure", me, 0);
  for (std::uint64_t key = 0; key < random() % 40; ++key) {
    if (nvm_lf_put64(lf, key, key, 0) < 0) return report(all, "filling a structure", me, 0);
  }
  if (random() % 2 == 0 && nvm_lf_drop(pool, name.c_str()) != 0) return report(all, "dropping a structure", me, 0);
  return true;
}
void work(const campaign& c, const open_pool& p, unsigned me, unsigned threads, std::uint64_t seed, unsigned only) {
  shared_state& all = *c.state;
  std::mt19937_64 random{seed * threads_max + me};
  all.working.fetch_add(1);
  for (std::uint64_t n = 1; !all.failed.load(); ++n) {
    const unsigned s = only < structures ? only : static_cast<unsigned>(random() % structures);
    const unsigned count = keys_of(s);
    const auto any = static_cast<unsigned>(random() % count);
    const unsigned own = any / threads * threads + me;
    const bool changes = random() % 4 != 0 && own < count;
    const bool good = changes ? change(all, p.it[s], s, own, random) : read(all, p.it[s], s, any, any % threads == me);
    if (!good) return;
    if (n % 512 == 0 && !come_and_go(all, p.pool, me, random)) return;
    all.calls.fetch_add(1);
  }
}
[[noreturn]] void be_killed(const campaign& c, unsigned threads, std::uint64_t seed) {
  open_pool p;
  if (!open(c, p)) ::_exit(1);
  const auto only = static_cast<unsigned>(seed % (2 * structures));  // half of the time all threads meet in one of them
  std::vector<std::thread> all;
  all.reserve(threads);
  for (unsigned me = 0; me < threads; ++me) {
    all.emplace_back([&c, &p, me, threads, seed, only] { work(c, p, me, threads, seed, only); });
  }
  for (std::thread& t : all) t.join();
  ::_exit(1);  // only a failure ends the work
}

// ---- the process that looks

void note_finding(std::uint64_t offset, const char* finding, void* raw) {
  auto& s = *static_cast<shared_state*>(raw);
  if (!s.failed.exchange(true)) {
    std::snprintf(s.failure, sizeof s.failure, "check: %s at offset %" PRIu64, finding, offset);
  }
}
bool look(const campaign& c) {
  shared_state& all = *c.state;
  if (nvm_pool_check(c.path().c_str(), note_finding, &all, nullptr) != 0)
    return report(all, "findings of the check", 1, 0);
  open_pool p;
  if (!open(c, p)) return false;
  for (unsigned s = 0; s < structures; ++s) {
    std::uint64_t there = 0;
    for (unsigned key = 0; key < keys_of(s); ++key) {
      std::uint32_t number = 0;
      const int said = get(p.it[s], s, key, number);
      const std::uint32_t told = all.ledger[s][key].told.load(), wanted = all.ledger[s][key].wanted.load();
      if (said < 0) return report(all, "get", s, key, 0, 1);
      if (said == 1 && number == 0) return report(all, "a torn value", s, key, 0, told);
      if (number != told && number != wanted) return report(all, "after a kill", s, key, number, told);
      there += said == 1 ? 1 : 0;
    }
    std::uint64_t seen = 0;
    if (has_words(s)) {
      (void)nvm_lf_each64(
          p.it[s], [](std::uint64_t, std::uint64_t, void* to) { return ++*static_cast<std::uint64_t*>(to), 0; }, &seen);
    } else {
      std::uint64_t cursor = 0;
      do {
        (void)nvm_lf_scan(
            p.it[s], &cursor, 100, [](const nvm_lf_entry*, void* to) { return ++*static_cast<std::uint64_t*>(to), 0; },
            &seen);
      } while (cursor != 0);
    }
    if (seen != there) return report(all, "keys that a walk meets", seen, there);
  }
  // What was under way and is there, counts from now on.
  for (unsigned s = 0; s < structures; ++s) {
    for (unsigned key = 0; key < keys_of(s); ++key) {
      std::uint32_t number = 0;
      (void)get(p.it[s], s, key, number);
      all.ledger[s][key].told.store(number);
      all.ledger[s][key].wanted.store(number);
    }
  }
  if (nvm_pool_close(p.pool) != 0) return report(all, "the pool does not close", 0, 0);
  if (nvm_pool_check(c.path().c_str(), note_finding, &all, nullptr) != 0)
    return report(all, "findings after closing", 1, 0);
  all.looked.store(1);
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

void make(campaign& c) {
  nvm_pool_options o{};
  o.size = std::uint64_t{8} << 20;
  o.medium = c.ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(c.path().c_str(), &o);
  if (pool == nullptr || nvm_pool_close(pool) != 0) report(*c.state, "no pool is made", 0, 0);
}

void round(campaign& c, unsigned threads, std::mt19937_64& random) {
  shared_state& s = *c.state;
  const std::uint64_t before = s.calls.load();
  s.working.store(0);
  const std::uint64_t seed = random();
  const pid_t worker = in_process([&] { be_killed(c, threads, seed); });
  if (random() % 4 != 0) {
    while (s.working.load() < threads && !s.failed.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds{random() % (c.ssd ? 60'000 : 20'000)});
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 6'000});
  }
  (void)::kill(worker, SIGKILL);
  int status = 0;
  (void)::waitpid(worker, &status, 0);
  ++(s.working.load() == threads ? c.kills : c.kills_opening);
  c.calls += s.calls.load() - before;

  s.looked.store(0);
  while (s.looked.load() == 0 && !s.failed.load()) {
    const pid_t looker = in_process([&] { (void)look(c); });
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 6'000});
      if (s.looked.load() == 0 && ::kill(looker, SIGKILL) == 0) ++c.kills_looking;
    }
    (void)::waitpid(looker, &status, 0);
    if (WIFEXITED(status) && s.looked.load() == 0 && !s.failed.load())
      report(s, "the process that looks ended", static_cast<std::uint64_t>(WEXITSTATUS(status)), 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      report(s, "the process that looks ended by signal", static_cast<std::uint64_t>(WTERMSIG(status)), 0);
  }
  if (s.failed.load()) c.wrong = s.failure;
}

std::atomic<bool> told_to_end{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void end_soon(int) { told_to_end = true; }

// Of all media, once a minute.
class progress {
 public:
  void tell(const std::vector<campaign>& all) {
    if (std::chrono::steady_clock::now() < next_) return;
    next_ += std::chrono::minutes{1};
    std::uint64_t kills = 0, opening = 0, calls = 0;
    for (const campaign& c : all) {
      kills += c.kills + c.kills_opening + c.kills_looking;
      opening += c.kills_opening + c.kills_looking;
      calls += c.calls;
    }
    std::printf("%3u min: %" PRIu64 " kills, %" PRIu64 " while opened or looked at, %" PRIu64 " calls, nothing lost\n",
                ++minutes_, kills, opening, calls);
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  unsigned minutes_ = 0;
};

int usage() {
  std::fputs("usage: lockfree [--minutes N | --seconds N] [--seed N] [--threads N] [--medium shm|ssd]\n", stderr);
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  std::uint64_t seconds = 600, seed = std::random_device{}();
  unsigned threads = 4;
  std::string medium;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) return usage();
    const std::string option = arguments[i], value = arguments[i + 1];
    if (option == "--medium" && (value == "shm" || value == "ssd")) {
      medium = value;
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
  std::printf("seed %" PRIu64 ", %u threads, %" PRIu64 " seconds\n", seed, threads, seconds);
  std::fflush(stdout);
  std::mt19937_64 random{seed};
  std::vector<campaign> all;
  if (medium != "ssd") all.push_back({"shm", false, "/dev/shm/holdfast-lockfree-XXXXXX", nullptr, 0, 0, 0, 0, ""});
  if (medium != "shm") all.push_back({"ssd", true, "/var/tmp/holdfast-lockfree-XXXXXX", nullptr, 0, 0, 0, 0, ""});
  bool wrong = false;
  for (campaign& c : all) {
    if (::mkdtemp(c.folder.data()) == nullptr) return 1;
    void* p = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    c.state = static_cast<shared_state*>(p);
    int status = 0;
    (void)::waitpid(in_process([&] { make(c); }), &status, 0);
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
  std::printf("%-6s %8s %14s %14s %12s  %s\n", "medium", "kills", "while opened", "while looking", "calls", "result");
  for (const campaign& c : all) {
    std::printf("%-6s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 " %12" PRIu64 "  %s\n", c.medium, c.kills, c.kills_opening,
                c.kills_looking, c.calls, c.wrong.empty() ? "right" : c.wrong.c_str());
    if (c.wrong.empty()) {
      std::filesystem::remove_all(c.folder);
    } else {
      std::printf("  the pool is in %s\n", c.folder.c_str());
    }
  }
  return wrong ? 1 : 0;
}
