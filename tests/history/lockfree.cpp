// Lock-free structures in processes that are killed again and again, also while they open the pool: every change that
// was acknowledged is there, nothing comes back that was acknowledged as removed, no value is torn, nothing leaks.
//
// usage: lockfree [--minutes N | --seconds N] [--seed N] [--threads N] [--medium shm|ssd]
//
// One pool on each medium lives through all kills.  It holds each kind of structure twice: of words, and of bytes. Each
// key belongs to one thread, which alone changes it; neighbours belong to others, so that threads meet at links.  What
// a thread is about to do, and what it has been told, it notes in memory that it shares with the parent.  Other threads
// read the key meanwhile and look whether its value is whole.
// (kill_campaign.hpp).  Exit code: 0 all was right, 1 something was not, 2 wrong usage.
#include "kill_campaign.hpp"

#include <cstring>
#include <iterator>

#include "nvm/lockfree.h"

namespace {

using nvm::kills::report;
using nvm::kills::threads_max;

constexpr unsigned keys_max = 512;
constexpr std::size_t value_max = 6000;
struct subject {
  const char* name;
  nvm_lf_kind kind;
  unsigned flags;
};
constexpr subject subjects[] = {
    {"list", NVM_LF_LIST, 0},
    {"hash", NVM_LF_HASH, 0},
    {"skip list", NVM_LF_SKIP_LIST, 0},
    {"tree", NVM_LF_TREE, 0},
    {"byte list", NVM_LF_LIST, NVM_LF_BYTES},
    {"byte hash", NVM_LF_HASH, NVM_LF_BYTES},
    {"byte skip list", NVM_LF_SKIP_LIST, NVM_LF_BYTES},
    {"byte tree", NVM_LF_TREE, NVM_LF_BYTES},
    {"list with volatile links", NVM_LF_LIST, NVM_LF_VOLATILE_LINKS},
    {"hash with volatile links", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
    {"skip list with volatile links", NVM_LF_SKIP_LIST, NVM_LF_VOLATILE_LINKS},
    {"byte hash with volatile links", NVM_LF_HASH, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS},
    {"byte skip list with volatile links", NVM_LF_SKIP_LIST, NVM_LF_BYTES | NVM_LF_VOLATILE_LINKS},
};
constexpr unsigned structures = std::size(subjects);
constexpr bool has_words(unsigned s) { return (subjects[s].flags & NVM_LF_BYTES) == 0; }
constexpr unsigned keys_of(unsigned s) { return subjects[s].kind == NVM_LF_LIST ? 96 : keys_max; }

// Of a key: 0, it is absent, or the number of its value.
struct entry {
  std::atomic<std::uint32_t> told;     // what the structure said last
  std::atomic<std::uint32_t> wanted;   // what may be there instead: the call is under way
  std::atomic<std::uint32_t> numbers;  // of values so far
};
struct ledger : nvm::kills::shared_state {
  entry of[structures][keys_max];
  std::atomic<std::uint64_t> calls;
};

struct medium {
  using state = ledger;
  const char* name;
  bool is_ssd;
  static constexpr bool kills_openings = true;

  void make(const std::string& path, ledger& s) const;
  static void work(const std::string& path, ledger& s, unsigned threads, std::uint64_t seed);
  static bool look(const std::string& path, ledger& s, unsigned threads);
  static std::uint64_t done(const ledger& s, unsigned) { return s.calls.load(); }
};
constexpr medium media[] = {{"shm", false}, {"ssd", true}};

bool report_value(ledger& s, const char* what, unsigned structure, unsigned key, std::uint64_t found,
                  std::uint64_t expected) {
  return report(s, "%s: key %u of the %s: found value %" PRIu64 ", expected %" PRIu64, what, key,
                subjects[structure].name, found, expected);
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
bool open(const std::string& path, ledger& all, open_pool& p) {
  p.pool = nvm_pool_open(path.c_str());
  if (p.pool == nullptr) return report(all, "the pool does not open");
  for (unsigned s = 0; s < structures; ++s) {
    nvm_lf_options o{};
    o.kind = subjects[s].kind;
    o.flags = subjects[s].flags;
    o.expected = 16;  // so that the hash tables grow
    p.it[s] = nvm_lf_open(p.pool, subjects[s].name, &o);
    if (p.it[s] == nullptr) return report(all, "a %s does not open", subjects[s].name);
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

bool change(ledger& all, nvm_lf* lf, unsigned s, unsigned key, std::mt19937_64& random) {
  entry& e = all.of[s][key];
  const std::uint32_t now = e.told.load();
  const std::uint32_t next = e.numbers.load() + 1;
  const auto is = [&](const char* what, int said, int expected) {
    return said == expected ||
           report_value(all, what, s, key, static_cast<std::uint64_t>(said), static_cast<std::uint64_t>(expected));
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
bool read(ledger& all, nvm_lf* lf, unsigned s, unsigned key, bool own) {
  std::uint32_t number = 0;
  const int said = get(lf, s, key, number);
  if (said < 0) return report_value(all, "get", s, key, 0, 1);
  if (said == 1 && number == 0) return report_value(all, "a torn value", s, key, 0, all.of[s][key].told.load());
  if (own && number != all.of[s][key].told.load())
    return report_value(all, "what a thread reads of its own", s, key, number, all.of[s][key].told.load());
  return true;
}
// A structure that comes and goes.
bool come_and_go(ledger& all, NVM_POOL* pool, unsigned me, std::mt19937_64& random) {
  const std::string name = "of thread " + std::to_string(me);
  nvm_lf_options o{};
  const subject& like = subjects[random() % structures];
  o.kind = like.kind;
  o.flags = like.flags & ~unsigned{NVM_LF_BYTES};
  (void)nvm_lf_drop(pool, name.c_str());
  nvm_lf* lf = nvm_lf_open(pool, name.c_str(), &o);
  if (lf == nullptr) return report(all, "making a structure");
  for (std::uint64_t key = 0; key < random() % 40; ++key) {
    if (nvm_lf_put64(lf, key, key, 0) < 0) return report(all, "filling a structure");
  }
  if (random() % 2 == 0 && nvm_lf_drop(pool, name.c_str()) != 0) return report(all, "dropping a structure");
  return true;
}
void call(ledger& all, const open_pool& p, unsigned me, unsigned threads, std::uint64_t seed, unsigned only) {
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
void medium::work(const std::string& path, ledger& s, unsigned threads, std::uint64_t seed) {
  open_pool p;
  if (!open(path, s, p)) return;
  const auto only = static_cast<unsigned>(seed % (2 * structures));  // half of the time all threads meet in one of them
  std::vector<std::thread> all;
  all.reserve(threads);
  for (unsigned me = 0; me < threads; ++me) {
    all.emplace_back([&s, &p, me, threads, seed, only] { call(s, p, me, threads, seed, only); });
  }
  for (std::thread& t : all) t.join();  // only a failure ends the work
}

// ---- the process that looks

void note_finding(std::uint64_t offset, const char* finding, void* raw) {
  report(*static_cast<ledger*>(raw), "check: %s at offset %" PRIu64, finding, offset);
}
bool medium::look(const std::string& path, ledger& all, unsigned) {
  if (nvm_pool_check(path.c_str(), note_finding, &all, nullptr) != 0)
    return report(all, "the check does not come about");
  open_pool p;
  if (!open(path, all, p)) return false;
  for (unsigned s = 0; s < structures; ++s) {
    std::uint64_t there = 0;
    for (unsigned key = 0; key < keys_of(s); ++key) {
      std::uint32_t number = 0;
      const int said = get(p.it[s], s, key, number);
      const std::uint32_t told = all.of[s][key].told.load(), wanted = all.of[s][key].wanted.load();
      if (said < 0) return report_value(all, "get", s, key, 0, 1);
      if (said == 1 && number == 0) return report_value(all, "a torn value", s, key, 0, told);
      if (number != told && number != wanted) return report_value(all, "after a kill", s, key, number, told);
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
    if (seen != there) return report(all, "keys that a walk meets: found %" PRIu64 ", expected %" PRIu64, seen, there);
  }
  // What was under way and is there, counts from now on.
  for (unsigned s = 0; s < structures; ++s) {
    for (unsigned key = 0; key < keys_of(s); ++key) {
      std::uint32_t number = 0;
      (void)get(p.it[s], s, key, number);
      all.of[s][key].told.store(number);
      all.of[s][key].wanted.store(number);
    }
  }
  if (nvm_pool_close(p.pool) != 0) return report(all, "the pool does not close");
  if (nvm_pool_check(path.c_str(), note_finding, &all, nullptr) != 0)
    return report(all, "the check after closing does not come about");
  all.looked.store(1);
  return true;
}

void medium::make(const std::string& path, ledger& s) const {
  nvm_pool_options o{};
  o.size = std::uint64_t{8} << 20;
  o.medium = is_ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr || nvm_pool_close(pool) != 0) report(s, "no pool is made");
}

}  // namespace

int main(int count, char** arguments) {
  nvm::kills::settings how;
  how.seconds = 600;
  if (!nvm::kills::parse(count, arguments, "lockfree", "--medium", "shm|ssd", how)) return 2;
  return nvm::kills::run(how, media, "calls");
}
