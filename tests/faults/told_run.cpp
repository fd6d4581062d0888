// The process has two threads, each with words of its own.  Their transactions are numbered; the n-th stores n into two
// words, and some allocate so much that the pool grows.  A shared page keeps the results that each was given.
//
// What must hold.  After the next open a thread's words are those of one of its transactions, all of them: not of one
// that was reported as rolled back, and of none older than the newest that was reported as durable.
#include "told_run.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "nvm/nvm.hpp"
#include "nvm/stm.hpp"
#include "told_regions.hpp"
#include "told_stores.hpp"

namespace nvm::tests {
namespace {

constexpr unsigned threads = 2;
constexpr unsigned attempts = told_attempts;
constexpr unsigned words_each = 16;
constexpr int nothing = INT_MAX;
constexpr int in_work = INT_MAX - 1;

struct told_attempt {
  std::atomic<int> code{nothing};  // what the caller was told; 0: durable
  std::atomic<unsigned> events{0};
  std::atomic<bool> twice{false};  // an event came again, or after one that ends it
  std::atomic<bool> seen{false};   // another thread has read what it made, and was told so
};
struct told_page {
  std::array<std::array<told_attempt, attempts + 1>, threads> of;
  std::atomic<long> calls{0}, told{0};
  std::atomic<bool> struck{false}, unexpected{false}, closed{false};
  std::array<char, 200> why{};
};

told_page* page;
told_case now;
std::string path_now, snapshot_now;
std::mutex taking_snapshot;
std::atomic<bool> counting{false};  // calls; the pool is prepared

constexpr unsigned bit(nvm_tx_event e) { return 1U << e; }
constexpr unsigned last_events = bit(NVM_TX_ON_COMMIT) | bit(NVM_TX_ON_ABORT) | bit(NVM_TX_ON_IN_DOUBT);

[[noreturn]] void die() {
  page->struck = true;
  ::kill(::getpid(), SIGKILL);
  ::pause();
  std::abort();
}
void somebody_was_told() {
  if (now.end == told_end::killed_told && ++page->told == now.number) die();
}

void hook(NVM_POOL*, enum nvm_tx_event event, void* argument) {
  auto& a = *static_cast<told_attempt*>(argument);
  const unsigned before = a.events.fetch_or(bit(event));
  if ((before & (bit(event) | last_events)) != 0) a.twice = true;
  if (event == NVM_TX_ON_COMMIT) somebody_was_told();
}
constexpr nvm_tx_event all_events[] = {NVM_TX_ON_COMMIT, NVM_TX_ON_ABORT, NVM_TX_ON_ORDERED, NVM_TX_ON_IN_DOUBT};

// While a snapshot is taken no thread comes past the end of a sync: what it writes next may rest on what it has synced,
// and the snapshot, read a page at a time, would have the one without the other.
void take_snapshot() {
  std::error_code none;
  std::filesystem::copy_file(path_now, snapshot_now, std::filesystem::copy_options::overwrite_existing, none);
}

void watch(fault kind, bool done) {
  if (!counting) {
    if (done && kind == fault::sync) {
      const std::lock_guard whole{taking_snapshot};
    }
    return;
  }
  if (kind != now.kind || now.end == told_end::killed_told) return;
  if (!done) {
    const long number = ++page->calls;
    if (number != now.number) return;
    if (now.end == told_end::killed) die();
    if (now.end != told_end::held) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    const std::lock_guard whole{taking_snapshot};
    die();
  }
  const long made = page->calls;
  if (now.end == told_end::killed_late && made == now.number) die();
  // Before anybody can be told: of the last that is not held, and of those that end while it is.
  if (now.end == told_end::held && kind == fault::sync && made >= now.number - 1) {
    const std::lock_guard whole{taking_snapshot};
    take_snapshot();
  }
}

// ---- the process

struct worker {
  NVM_POOL* pool;
  std::uint64_t* words;  // of this thread
  const told_stores& stores;
  unsigned thread;
};

std::uint64_t* second(std::uint64_t* words, std::uint64_t n) { return words + 8 + n % 8; }

void tell(told_attempt& a, int code) {
  a.code = code;
  if (code == 0) somebody_was_told();
}

// In an open transaction of announced stores.  False: a call has failed.
bool announced_body(const worker& w, unsigned n, told_attempt& a) {
  bool good = true;
  for (const nvm_tx_event e : all_events) good = nvm_tx_on(w.pool, e, hook, &a) == 0 && good;
  good = nvm_tx_log(w.words, words_each * sizeof *w.words) == 0 && good;
  if (!good) return false;
  w.words[0] = n;
  *second(w.words, n) = n;
  return !told_grows(n) || nvm_alloc(w.pool, 1, told_large) != nullptr;
}
int barrier_body(nvm_stm* tx, const worker& w, unsigned n, told_attempt& a) {
  a.events = 0;  // a conflict has run ABORT hooks, and the body starts again
  for (const nvm_tx_event e : all_events) {
    if (nvm_stm_on(tx, e, hook, &a) != 0) return nvm_errno();
  }
  nvm_stm_store64(tx, w.words, n);
  nvm_stm_store64(tx, second(w.words, n), n);
  return !told_grows(n) || nvm_stm_alloc(tx, 1, told_large) != nullptr ? 0 : nvm_errno();
}

int by_announcing(const worker& w, unsigned n, told_attempt& a) {
  if (nvm_tx_begin(w.pool) != 0) return nvm_errno();
  (void)announced_body(w, n, a);
  return nvm_tx_commit(w.pool) == 0 ? 0 : nvm_errno();
}
int by_run(const worker& w, unsigned n, told_attempt& a) {
  struct given {
    const worker& w;
    unsigned n;
    told_attempt& a;
  } g{w, n, a};
  const int ended = nvm_stm_run(
      w.pool,
      [](nvm_stm* tx, void* argument) {
        auto& g = *static_cast<given*>(argument);
        return barrier_body(tx, g.w, g.n, g.a);
      },
      &g);
  return ended == -1 ? nvm_errno() : ended;
}
int attempt(const worker& w, unsigned n, told_attempt& a) {
  switch (now.face) {
    case told_face::announced:
      return by_announcing(w, n, a);
    case told_face::block: {
      nvm_atomic_block b = nvm_atomic_begin(w.pool);
      if (!announced_body(w, n, a)) {
        const int code = nvm_errno();
        (void)nvm_tx_abort(w.pool);
        return code;
      }
      nvm_atomic_end(&b);
      return 0;
    }
    case told_face::function: {
      const outcome o = transaction(w.pool, [&] { return announced_body(w, n, a); });
      return o.code();
    }
    case told_face::barriers:
      return by_run(w, n, a);
    case told_face::atomic: {
      const outcome o = atomic(w.pool, [&](tx& t) {
        if (const int failed = barrier_body(t.handle(), w, n, a); failed != 0) t.cancel(failed);
      });
      return o.code();
    }
    case told_face::store:
    case told_face::entries:
    case told_face::structure:
    case told_face::bytes:
    case told_face::items:
    case told_face::item:
    case told_face::region:
    case told_face::committed:
    case told_face::group:
      return attempt_in_stores(now, w.stores, w.thread, n);
    case told_face::asynchronous:
    case told_face::unwaited:
    case told_face::later_region:
    case told_face::unwaited_region:
      break;
  }
  return nothing;
}

// What a wait has said of the n-th attempt, and of those before it that nobody has waited for.
void tell_all(unsigned thread, unsigned& waited, unsigned n, int code) {
  while (waited < n) {
    told_attempt& a = page->of[thread][++waited];
    if (code == 0 && a.code == in_work) tell(a, 0);
    if (code != 0 && waited == n) a.code = code;
  }
}

int commit_later(const worker& w, unsigned n, told_attempt& a, std::uint64_t* lsn) {
  if (now.face == told_face::later_region) return commit_region_later(now, w.stores, w.thread, n, lsn);
  *lsn = NVM_LSN_NONE;
  if (nvm_tx_begin(w.pool) != 0) return -1;
  (void)announced_body(w, n, a);
  return nvm_tx_commit_async(w.pool, lsn);
}
void work_asynchronously(const worker& w) {
  unsigned waited = 0;
  for (unsigned n = 1; n <= attempts; ++n) {
    told_attempt& a = page->of[w.thread][n];
    a.code = in_work;
    std::uint64_t lsn = 0;
    if (commit_later(w, n, a, &lsn) != 0) {
      a.code = nvm_errno();
      if (lsn != NVM_LSN_NONE || nvm_wait(w.pool, lsn) == 0) page->unexpected = true;
      continue;
    }
    if (lsn == 0) tell(a, 0);  // it is durable, whatever becomes of the pool
    if (n % 3 == 0 && lsn != 0) tell_all(w.thread, waited, n, nvm_wait(w.pool, lsn) == 0 ? 0 : nvm_errno());
  }
}

// What the other thread has made, as far as a reader is told that it lasts; 0: nothing.
unsigned seen_of_other(const worker& w) {
  const unsigned other = 1 - w.thread;
  if (is_of_stores(now.face)) return entry_of(now, w.stores, other).value_or(0);
  if (now.face != told_face::barriers && now.face != told_face::atomic) return 0;
  const std::uint64_t* const words = w.words - w.thread * words_each + other * words_each;
  std::uint64_t newest = 0;
  const outcome read = atomic(w.pool, [&](tx& t) { newest = nvm_stm_load64(t.handle(), words); });
  return read ? static_cast<unsigned>(newest) : 0;
}
void note_seen(const worker& w, unsigned seen) {
  if (seen != 0 && seen <= attempts) page->of[1 - w.thread][seen].seen = true;
}

void work_without_waiting(const worker& w) {
  unsigned waited = 0;
  for (unsigned n = 1; n <= attempts; ++n) {
    told_attempt& a = page->of[w.thread][n];
    a.code = in_work;
    if (const int code = attempt_in_stores(now, w.stores, w.thread, n); code != 0) {
      a.code = code;
      continue;
    }
    const unsigned seen = seen_of_other(w);
    if (n % 3 != 0) continue;
    const int code = wait_in_stores(w.stores);
    if (code == 0) note_seen(w, seen);
    tell_all(w.thread, waited, n, code);
  }
}

void work(const worker& w) {
  if (now.face == told_face::asynchronous || now.face == told_face::later_region) return work_asynchronously(w);
  if (now.face == told_face::unwaited || now.face == told_face::unwaited_region) return work_without_waiting(w);
  for (unsigned n = 1; n <= attempts; ++n) {
    told_attempt& a = page->of[w.thread][n];
    a.code = in_work;
    tell(a, attempt(w, n, a));
    note_seen(w, seen_of_other(w));
  }
}

// A close that succeeds has waited for what nobody had waited for.
void close_pool(NVM_POOL* pool) {
  if (nvm_pool_close(pool) != 0) return;
  page->closed = true;
  for (auto& of_thread : page->of) {
    for (told_attempt& a : of_thread) {
      if (a.code == in_work) a.code = 0;
    }
  }
}

nvm_pool_options options() {
  nvm_pool_options o{};
  o.size = std::size_t{256} << 10;
  o.capacity = std::size_t{64} << 20;
  o.medium = now.on->medium;
  o.engine = now.on->engine;
  if (o.medium == NVM_MEDIUM_SSD && o.engine != NVM_ENGINE_LOG) o.log_bytes = std::size_t{2} << 20;
  return o;
}

told_stores prepare() {
  const nvm_pool_options o = options();
  told_stores p;
  p.pool = nvm_pool_create_with(path_now.c_str(), &o);
  const bool made = p.pool != nullptr && atomic(p.pool, [](tx& t) {
                      void* const root = t.alloc(1, threads * words_each * 8);
                      std::memset(root, 0, threads * words_each * 8);
                      t.set_root(root);
                    });
  if (made && open_stores(now, p, true)) return p;
  std::snprintf(page->why.data(), page->why.size(), "cannot prepare: %s", nvm_errormsg());
  ::_exit(2);
}
told_stores open_again() {
  nvm_pool_options o{};
  o.medium = now.on->medium;
  told_stores p;
  p.pool = nvm_pool_open_with(path_now.c_str(), &o);
  if (p.pool != nullptr && open_stores(now, p, false)) return p;
  std::snprintf(page->why.data(), page->why.size(), "cannot open what was prepared: %s", nvm_errormsg());
  ::_exit(2);
}
// As a process before this one has left it that did not close: what is in its log is to be brought home first.
told_stores prepare_by_another() {
  const pid_t child = ::fork();
  if (child == 0) {
    (void)prepare();
    ::_exit(0);
  }
  int ended = 0;
  (void)::waitpid(child, &ended, 0);
  return open_again();
}

[[noreturn]] void live() {
  injected.plays_dax = now.on->medium == NVM_MEDIUM_DAX;
  injected.watch = watch;
  const told_stores p = now.variant >= told_variants / 2 ? prepare_by_another() : prepare();
  {
    const std::lock_guard whole{taking_snapshot};
    if (now.end == told_end::held) take_snapshot();
    counting = true;
  }
  if (now.end == told_end::fails || now.end == told_end::fails_on) {
    injected.arm(now.kind, now.kind == fault::sync || now.number % 2 == 0 ? EIO : ENOSPC, now.number,
                 now.end == told_end::fails_on);
  }
  {
    auto* const root = static_cast<std::uint64_t*>(nvm_pool_get_root(p.pool));
    const worker of[] = {{p.pool, root, p, 0}, {p.pool, root + words_each, p, 1}};
    std::thread other{work, of[1]};
    work(of[0]);
    other.join();
  }
  if (p.kv != nullptr) (void)nvm_kv_close(p.kv);
  // Each second one ends without a close; but hooks of asynchronous commits are owed.
  if (now.number % 2 == 0 || now.face == told_face::asynchronous) close_pool(p.pool);
  page->struck = page->struck || injected.struck();
  ::_exit(0);
}

// ---- afterwards

std::string complaint(unsigned thread, unsigned n, const char* what) {
  const told_attempt& a = page->of[thread][n];
  char text[200];
  std::snprintf(text, sizeof text, "thread %u, transaction %u: %s (told code %d, events %x)", thread, n, what,
                a.code.load(), a.events.load());
  return text;
}

// What was told is no contradiction in itself.
std::string check_told(unsigned thread, bool at_end) {
  const bool hooks = !is_of_stores(now.face);
  for (unsigned n = 1; n <= attempts; ++n) {
    const told_attempt& a = page->of[thread][n];
    const unsigned events = a.events;
    const int code = a.code;
    if (code == NVM_E_IN_DOUBT && page->closed) return complaint(thread, n, "in doubt, and the close was told good");
    if (a.twice) return complaint(thread, n, "a hook ran again, or after the last");
    const bool ordered = (events & bit(NVM_TX_ON_ORDERED)) != 0;
    if (ordered == ((events & bit(NVM_TX_ON_ABORT)) != 0) && events != 0) {
      return complaint(thread, n, "ORDERED and ABORT are not one or the other");
    }
    if (!hooks || code == nothing || code == in_work) {
      if (hooks && at_end && ordered && (events & last_events) == 0)
        return complaint(thread, n, "hooks never heard the end");
      continue;
    }
    const unsigned wanted = code == 0                ? bit(NVM_TX_ON_COMMIT)
                            : code == NVM_E_IN_DOUBT ? bit(NVM_TX_ON_IN_DOUBT)
                                                     : bit(NVM_TX_ON_ABORT);
    // A transaction that could not begin, or whose hooks could not be had, has no events.
    if ((events & last_events) == wanted || (events == 0 && code != 0 && code != NVM_E_IN_DOUBT)) continue;
    if (now.face == told_face::asynchronous && (events & last_events) == 0 && !at_end) continue;
    return complaint(thread, n, "hooks heard another end than the caller");
  }
  return {};
}

bool was_told_durable(const told_attempt& a) {
  return a.code == 0 || a.seen || (a.events & bit(NVM_TX_ON_COMMIT)) != 0;
}
bool was_told_rolled_back(const told_attempt& a) {
  const int code = a.code;
  return (a.events & bit(NVM_TX_ON_ABORT)) != 0 ||
         (code != 0 && code != nothing && code != in_work && code != NVM_E_IN_DOUBT);
}

std::string check_words(unsigned thread, std::uint64_t newest, std::uint64_t beside) {
  if (newest > attempts || newest != beside) return complaint(thread, 0, "half of a transaction is there");
  for (unsigned n = static_cast<unsigned>(newest) + 1; n <= attempts; ++n) {
    if (was_told_durable(page->of[thread][n])) return complaint(thread, n, "told durable, and lost");
  }
  if (newest != 0 && was_told_rolled_back(page->of[thread][newest])) {
    return complaint(thread, static_cast<unsigned>(newest), "told rolled back, and there");
  }
  return {};
}

// The entry is that of one of the attempts, or of none, that may be the last.
std::string check_entry(const told_stores& p, unsigned thread) {
  const std::optional<unsigned> found = entry_of(now, p, thread);
  if (!found) return complaint(thread, 0, "its entry is of no attempt");
  unsigned durable = 0;
  for (unsigned n = 1; n <= attempts; ++n) {
    if (!was_told_durable(page->of[thread][n])) continue;
    durable = n;
    if (!has_left_one(now, p, thread, n)) return complaint(thread, n, "told durable, and what it has put is lost");
  }
  for (unsigned n = durable; n <= attempts; ++n) {
    if (n != 0 && was_told_rolled_back(page->of[thread][n])) continue;
    if (*found == (n == 0 || removes_entry(now, n) ? 0 : n)) return {};
  }
  return complaint(thread, durable, ("told durable, and the entry is that of " + std::to_string(*found)).c_str());
}

std::string check_thread(const told_stores& p, unsigned thread) {
  if (is_of_stores(now.face)) return check_entry(p, thread);
  auto* const root = static_cast<std::uint64_t*>(nvm_pool_get_root(p.pool));
  if (root == nullptr) return complaint(thread, 0, "told durable before the threads began, and the root is lost");
  auto* const words = root + thread * words_each;
  return check_words(thread, words[0], words[0] == 0 ? 0 : *second(words, words[0]));
}

std::string look(bool at_end, bool snapshot_counts) {
  for (unsigned t = 0; t < threads; ++t) {
    if (std::string bad = check_told(t, at_end); !bad.empty()) return bad;
  }
  if (page->unexpected) return "a commit that failed gave an LSN that could be waited for";
  injected.plays_dax = now.on->medium == NVM_MEDIUM_DAX;
  nvm_pool_options o{};
  o.medium = now.on->medium;
  told_stores p;
  if (snapshot_counts) {
    // Into the same file: as a copy of a pool in use it would be refused.
    std::error_code failed;
    std::filesystem::copy_file(snapshot_now, path_now, std::filesystem::copy_options::overwrite_existing, failed);
    if (failed) return "the snapshot cannot be put back: " + failed.message();
  }
  p.pool = nvm_pool_open_with(path_now.c_str(), &o);
  if (p.pool == nullptr) return std::string{"the next open fails: "} + nvm_errormsg();
  std::string bad;
  if (!open_stores(now, p, false)) bad = nvm_errormsg();
  for (unsigned t = 0; t < threads && bad.empty(); ++t) bad = check_thread(p, t);
  if (p.kv != nullptr) (void)nvm_kv_close(p.kv);
  if (nvm_pool_close(p.pool) != 0 && bad.empty()) bad = nvm_errormsg();
  injected.plays_dax = false;
  return bad;
}

}  // namespace

const char* name_of(told_face face) {
  constexpr const char* names[] = {"announced", "asynchronous", "block",          "function",  "barriers",
                                   "atomic",    "store",        "entries",        "structure", "bytes",
                                   "unwaited",  "items",        "item",           "region",    "committed",
                                   "group",     "later_region", "unwaited_region"};
  return names[static_cast<unsigned>(face)];
}

bool fits(const told_ground& on, told_face face) {
  if (face == told_face::structure || face == told_face::bytes || face == told_face::unwaited) return on.structures;
  if (is_of_regions(face) || face == told_face::items || face == told_face::item) return on.regions;
  return on.announces || face == told_face::barriers || face == told_face::atomic || is_of_stores(face);
}

std::string text_of(const told_case& c) {
  constexpr const char* ends[] = {"fails", "fails_on", "killed", "killed_late", "held", "killed_told"};
  return std::string{c.on->name} + " " + name_of(c.face) + " " + ends[static_cast<unsigned>(c.end)] + " " +
         (c.kind == fault::sync    ? "sync "
          : c.kind == fault::write ? "write "
                                   : "growth ") +
         std::to_string(c.number) + " variant " + std::to_string(c.variant);
}

std::string run_told(const told_case& c, const std::string& folder, bool& struck) {
  now = c;
  path_now = folder + "/pool";
  snapshot_now = folder + "/snapshot";
  std::error_code none;
  std::filesystem::remove(path_now, none);
  std::filesystem::remove(snapshot_now, none);
  void* const shared = ::mmap(nullptr, sizeof(told_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no page to share";
  page = new (shared) told_page;
  const pid_t child = ::fork();
  if (child == 0) live();
  int ended = 0;
  std::string bad;
  if (child < 0 || ::waitpid(child, &ended, 0) != child) bad = "no process";
  const bool killed = WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL;
  // NVM_ATOMIC can tell of a failure in no other way.
  const bool aborted = WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT && c.face == told_face::block;
  struck = page->struck || aborted;
  if (page->why[0] != '\0') bad = page->why.data();
  if (bad.empty() && !killed && !aborted && !(WIFEXITED(ended) && WEXITSTATUS(ended) == 0)) {
    bad = "the process has ended with status " + std::to_string(ended);
  }
  const bool at_end = !killed && !aborted;
  if (bad.empty() && (struck || at_end)) {
    bad = look(at_end, struck && c.end == told_end::held);
  }
  ::munmap(shared, sizeof(told_page));
  return bad.empty() ? bad : text_of(c) + ": " + bad;
}

}  // namespace nvm::tests
