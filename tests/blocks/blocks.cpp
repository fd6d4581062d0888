// Crash states of a whole machine with a disk: a bank (../history/bank.hpp) on a pool on ssd, on a file system, on a
// disk that logs its writes (logged_disk.hpp).
//
// usage: blocks [--fs ext4|xfs] [--engine NAME]... [--minutes N | --states N] [--seed N] [--threads N]
//               [--plant no-syncs|few-syncs] [--keep DIR] [--again FILE]
//
// A trace: the pool is made, threads work on it and are killed, and it is recovered, several times.  A state: what was
// written before a sync that had come back, and of what was written after it any part, down to single sectors of single
// writes.  It is mounted, and judged: the file system replays its journal, the pool recovers, everything that had been
// acknowledged before the crash is there, nothing is half there or leaks.  A nested state is a crash of that in turn.
//
// Writes of one sector are whole; later ones replace earlier ones; discards are refused, as many disks do.
//
// --plant leaves syncs of the pool out: a test that this finds what it should.  --again judges a state that was kept.
// Exit code: 0 all was right, 1 something was not, 2 wrong usage, 77 this cannot run here.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <unordered_set>

#include "../history/bank.hpp"
#include "logged_disk.hpp"

namespace {

enum class plant { none, no_syncs, few_syncs };
plant planted = plant::none;  // in processes that work

}  // namespace

// The library's syncs come here.
extern "C" int fdatasync(int descriptor) {
  static std::atomic<unsigned> calls{0};
  if (planted == plant::no_syncs || (planted == plant::few_syncs && calls.fetch_add(1) % 4 == 3)) return 0;
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}

namespace {

using namespace std::chrono_literals;
using nvm::bank::engine;
using nvm::bank::ledger;
using nvm::blocks::event;
using nvm::blocks::logged_disk;
using nvm::blocks::sector_bytes;
using nvm::kills::threads_max;
using nvm::kills::told_to_end;
using clock_type = std::chrono::steady_clock;

constexpr engine engines[] = {
    {"undo", NVM_MEDIUM_SSD, false, NVM_ENGINE_UNDO, false},
    {"undo-write-back", NVM_MEDIUM_SSD, true, NVM_ENGINE_UNDO, false},
    {"redo", NVM_MEDIUM_SSD, false, NVM_ENGINE_REDO, false},
    {"log", NVM_MEDIUM_SSD, false, NVM_ENGINE_LOG, false},
};
constexpr unsigned engines_by_default = 3;

struct file_system {
  const char* name;
  std::uint64_t disk_bytes;
  std::uint64_t whole_below;  // writes below it are not torn
  const char* made_by;        // the device follows
};
// The superblock of ext4 lies in two sectors, with a checksum over both, and is written in place: ext4 has nothing to
// set against its being torn.
constexpr file_system file_systems[] = {
    {"ext4", std::uint64_t{64} << 20, 4096,
     "mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "},
    {"xfs", std::uint64_t{320} << 20, 0, "mkfs.xfs -q -f -K "},
};

// What a crash owes the bank.
struct owed {
  std::uint64_t made;
  std::uint64_t acknowledged[threads_max];
};

struct shared_ledger {
  std::atomic<std::uint64_t> made;
  ledger of_bank;

  void take(owed& out) const {
    for (unsigned i = 0; i < threads_max; ++i) out.acknowledged[i] = of_bank.acknowledged[i].load();
    out.made = made.load();
  }
  void set(const owed& from) {
    made.store(from.made);
    for (unsigned i = 0; i < threads_max; ++i) of_bank.acknowledged[i].store(from.acknowledged[i]);
    of_bank.working.store(0);
    of_bank.looked.store(0);
    of_bank.failed.store(false);
  }
};

// A log, out of the disk's way.
struct trace {
  std::vector<event> events;
  std::vector<char> bytes;
  std::vector<owed> notes;  // one more than events

  explicit trace(const logged_disk& disk) : events{disk.events().begin(), disk.events().end()} {
    for (std::size_t i = 0; i <= events.size(); ++i) {
      owed n;
      std::memcpy(&n, disk.note(i), sizeof n);
      notes.push_back(n);
    }
    for (event& e : events) {
      const char* from = disk.bytes_of(e);
      e.written = bytes.size();
      bytes.insert(bytes.end(), from, from + e.bytes);
    }
  }
  [[nodiscard]] bool is_sync(std::size_t i) const { return events[i].bytes == 0; }
};

struct piece {
  std::uint64_t offset, bytes;
  const char* from;
};

struct settings {
  const file_system* fs = file_systems;
  std::vector<engine> engines;
  std::uint64_t seconds = 60, states = UINT64_MAX, seed = std::random_device{}();
  unsigned threads = 4;
  plant planted = plant::none;
  std::string keep = ".", again;
};

class replay {
 public:
  explicit replay(const settings& how) : how_{how}, random_{how.seed} {}
  ~replay() {
    disk_.end();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;

  int run();
  int run_again();

 private:
  bool begin();
  bool run_trace(const engine& it);
  void explore(const engine& it, const trace& t, std::uint64_t states);
  bool judge(const engine& it, const std::vector<piece>& state, const owed& due);
  void keep(const engine& it, const std::vector<piece>& state, const owed& due);

  std::string mounted();
  bool mount();
  bool unmount();
  void restore(const std::vector<piece>& state);
  void write_to(char* disk, const std::vector<piece>& state) const {
    for (const piece& p : state) std::memcpy(disk + p.offset, p.from, p.bytes);
  }
  // Pages that are alike stay as they are: most have never been touched.
  void copy_disk(char* to, const char* from) const {
    constexpr std::size_t page = 4096;
    for (std::size_t at = 0; at < how_.fs->disk_bytes; at += page) {
      if (std::memcmp(to + at, from + at, page) != 0) std::memcpy(to + at, from + at, page);
    }
  }
  void select(const trace& t, std::size_t from, std::size_t to, std::vector<piece>& out);
  // The latest sync before `end`; 0: none.
  static std::size_t sync_before(const trace& t, std::size_t end) {
    while (end > 0 && !t.is_sync(end - 1)) --end;
    return end;
  }
  bool wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
    return false;
  }
  // In a process of its own, until it ends or 30 s have passed.
  template <class Work>
  bool in_process(const char* what, Work&& work);
  template <class Work>
  static pid_t forked(Work&& work) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGINT, SIG_IGN);
      work();
      ::_exit(0);
    }
    return child;
  }

  const settings how_;
  std::mt19937_64 random_;
  std::string folder_, wrong_;
  logged_disk disk_;
  shared_ledger* ledger_ = nullptr;
  char* base_ = nullptr;   // the disk at the sync that a state starts from
  char* fresh_ = nullptr;  // the disk after mkfs
  std::uint64_t traces_ = 0, events_ = 0, syncs_ = 0, transfers_ = 0;
  std::uint64_t states_ = 0, nested_ = 0, recovered_ = 0, tried_ = 0;
  std::unordered_set<std::uint64_t> seen_;
};

template <class T>
T* shared_memory(std::size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<T*>(p);
}

bool replay::begin() {
  std::string folder = "/var/tmp/holdfast-blocks-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return wrong("no folder in /var/tmp");
  folder_ = folder;
  std::filesystem::create_directory(mounted());
  ledger_ = shared_memory<shared_ledger>(sizeof(shared_ledger));
  base_ = shared_memory<char>(how_.fs->disk_bytes);
  fresh_ = shared_memory<char>(how_.fs->disk_bytes);
  if (ledger_ == nullptr || base_ == nullptr || fresh_ == nullptr) return wrong("no memory");
  logged_disk::settings s;
  s.folder = folder_;
  s.bytes = how_.fs->disk_bytes;
  s.note_bytes = sizeof(owed);
  s.take_note = [l = ledger_](char* to) {
    owed now;
    l->take(now);
    std::memcpy(to, &now, sizeof now);
  };
  if (const std::string w = disk_.begin(s); !w.empty()) return wrong(w);
  const std::string command = how_.fs->made_by + disk_.device();
  if (std::system(command.c_str()) != 0) return wrong("'" + command + "' fails");
  copy_disk(fresh_, disk_.contents());
  return true;
}

std::string replay::mounted() { return folder_ + "/mounted"; }
bool replay::mount() {
  // What the kernel may still have of the disk in memory is of another state.
  const int device = ::open(disk_.device().c_str(), O_RDONLY | O_CLOEXEC);
  if (device < 0 || ::ioctl(device, BLKFLSBUF, 0) != 0) return wrong("the kernel's copy of the disk");
  ::close(device);
  disk_.forget();
  if (::mount(disk_.device().c_str(), mounted().c_str(), how_.fs->name, MS_NOATIME, nullptr) == 0) return true;
  return wrong(std::string{"the file system is not mounted: "} + std::strerror(errno));
}
bool replay::unmount() {
  for (int tries = 0; ::umount2(mounted().c_str(), 0) != 0; ++tries) {
    if (errno != EBUSY || tries == 1000) return wrong(std::string{"umount: "} + std::strerror(errno));
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

template <class Work>
bool replay::in_process(const char* what, Work&& work) {
  const pid_t child = forked(work);
  const auto deadline = clock_type::now() + 30s;
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(child, &status, WNOHANG)) == 0;) {
    if (clock_type::now() > deadline) {
      (void)::kill(child, SIGKILL);
      (void)::waitpid(child, &status, 0);
      return wrong(std::string{what} + " takes more than 30 s");
    }
    std::this_thread::sleep_for(200us);
  }
  const ledger& l = ledger_->of_bank;
  if (l.failed.load()) return wrong(std::string{what} + ": " + l.failure);
  if (WIFSIGNALED(status)) return wrong(std::string{what} + " ended by signal " + std::to_string(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 || wrong(std::string{what} + " ended with an error");
}

// ---- a trace, and its states

bool replay::run_trace(const engine& it) {
  copy_disk(disk_.contents(), fresh_);
  copy_disk(base_, fresh_);
  const std::string pool = mounted() + "/pool";
  ledger_->set({});
  if (!mount()) return false;
  planted = how_.planted;  // those who judge have their syncs
  bool good = in_process("making", [&] {
    it.make(pool, ledger_->of_bank);
    ledger_->made.store(1);
  });
  for (unsigned round = 0; good && round < 3; ++round) {
    ledger& l = ledger_->of_bank;
    l.working.store(0);
    l.looked.store(0);
    const std::uint64_t seed = random_();
    const pid_t worker = forked([&] { it.work(pool, l, how_.threads, seed); });
    while (l.working.load() < how_.threads && !l.failed.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds{random_() % 60'000});
    (void)::kill(worker, SIGKILL);
    (void)::waitpid(worker, nullptr, 0);
    good = in_process("looking", [&] { it.look(pool, l, how_.threads); });
  }
  planted = plant::none;
  transfers_ += engine::done(ledger_->of_bank, how_.threads);
  if (!unmount() || !good) return false;
  if (disk_.has_overflowed()) return wrong("the log is full");

  const trace t{disk_};
  ++traces_;
  events_ += t.events.size();
  syncs_ +=
      static_cast<std::uint64_t>(std::count_if(t.events.begin(), t.events.end(), [](auto& e) { return e.bytes == 0; }));
  copy_disk(disk_.contents(), fresh_);
  explore(it, t, 200);
  return wrong_.empty();
}

// Of the writes from `from` to `to` some, in their order.
void replay::select(const trace& t, std::size_t from, std::size_t to, std::vector<piece>& out) {
  const std::uint64_t quarters = random_() % 5;  // of the writes that are there
  for (std::size_t i = from; i < to; ++i) {
    const event& e = t.events[i];
    if (t.is_sync(i)) continue;
    const char* bytes = t.bytes.data() + e.written;
    if (random_() % 4 != 0 || e.offset < how_.fs->whole_below) {
      if (random_() % 4 < quarters) out.push_back({e.offset, e.bytes, bytes});
      continue;
    }
    // Torn.
    for (std::uint64_t at = 0; at < e.bytes; at += sector_bytes) {
      if (random_() % 2 == 0) out.push_back({e.offset + at, sector_bytes, bytes + at});
    }
  }
}

std::uint64_t fingerprint(std::size_t synced, const std::vector<piece>& state, const owed& due) {
  std::uint64_t h = synced;
  const auto add = [&h](std::uint64_t x) { h = (h ^ x ^ h >> 29) * 0x9E37'79B9'7F4A'7C15ULL; };
  for (const piece& p : state) add(p.offset), add(p.bytes), add(reinterpret_cast<std::uintptr_t>(p.from));
  for (const std::uint64_t a : due.acknowledged) add(a);
  return h;
}

void replay::explore(const engine& it, const trace& t, std::uint64_t states) {
  std::vector<std::size_t> ends;
  for (std::uint64_t i = 0; i < states; ++i) {
    std::size_t end = random_() % (t.events.size() + 1);
    // Most with something under way.
    for (int tries = 0; tries < 3 && sync_before(t, end) == end; ++tries) end = random_() % (t.events.size() + 1);
    ends.push_back(end);
  }
  std::sort(ends.begin(), ends.end());
  seen_.clear();
  std::size_t synced = 0;  // base_ and the disk hold the events before it
  for (const std::size_t end : ends) {
    if (!wrong_.empty() || told_to_end || states_ + nested_ >= how_.states) return;
    const std::size_t sync = sync_before(t, end);
    for (; synced < sync; ++synced) {
      const event& e = t.events[synced];
      std::memcpy(base_ + e.offset, t.bytes.data() + e.written, e.bytes);
      std::memcpy(disk_.contents() + e.offset, t.bytes.data() + e.written, e.bytes);
    }
    std::vector<piece> state;
    select(t, sync, end, state);
    ++tried_;
    if (!seen_.insert(fingerprint(sync, state, t.notes[end])).second) continue;
    ++states_;
    if (!judge(it, state, t.notes[end])) continue;

    // A crash while that was mounted, recovered, looked at and closed.
    if (random_() % 4 != 0) {
      restore(state);
      continue;
    }
    const trace again{disk_};
    restore(state);
    const std::size_t end_again = random_() % (again.events.size() + 1);
    const std::size_t sync_again = sync_before(again, end_again);
    for (std::size_t i = 0; i < sync_again; ++i) {
      const event& e = again.events[i];
      state.push_back({e.offset, e.bytes, again.bytes.data() + e.written});
    }
    select(again, sync_again, end_again, state);
    ++nested_;
    if (judge(it, state, again.notes[end_again])) restore(state);
  }
}

// The disk is base_, and it again after restore().
bool replay::judge(const engine& it, const std::vector<piece>& state, const owed& due) {
  ledger_->set(due);
  write_to(disk_.contents(), state);
  const std::string pool = mounted() + "/pool";
  bool good = mount();
  if (good) {
    good = in_process("after a crash", [&] {
      if (due.made != 0) return void(it.look(pool, ledger_->of_bank, how_.threads));
      // A pool whose making was cut short is refused, or it is a pool.
      if (NVM_POOL* half = nvm_pool_open(pool.c_str()); half != nullptr) (void)nvm_pool_close(half);
    });
    if (due.made != 0) ++recovered_;
    good = unmount() && good;
  }
  if (good) return true;
  restore(state);
  if (how_.again.empty()) {
    keep(it, state, due);
  } else {
    std::printf("engine %s, %s: %s\n", it.name, how_.fs->name, wrong_.c_str());
  }
  return false;
}

void replay::restore(const std::vector<piece>& state) {
  char* disk = disk_.contents();
  if (disk_.has_overflowed()) {
    copy_disk(disk, base_);
    return;
  }
  for (const piece& p : state) std::memcpy(disk + p.offset, base_ + p.offset, p.bytes);
  for (const event& e : disk_.events()) std::memcpy(disk + e.offset, base_ + e.offset, e.bytes);
}

// ---- a state that is kept

struct kept_state {
  char magic[8];
  char engine[32], fs[16];
  std::uint64_t threads, disk_bytes;
  owed due;
};
constexpr char kept_magic[8] = {'b', 'l', 'o', 'c', 'k', 's', '0', '1'};

void replay::keep(const engine& it, const std::vector<piece>& state, const owed& due) {
  const std::string path =
      how_.keep + "/crashed-" + std::to_string(how_.seed) + "-" + std::to_string(states_ + nested_) + ".disk";
  kept_state head{};
  std::memcpy(head.magic, kept_magic, sizeof head.magic);
  std::strncpy(head.engine, it.name, sizeof head.engine - 1);
  std::strncpy(head.fs, how_.fs->name, sizeof head.fs - 1);
  head.threads = how_.threads;
  head.disk_bytes = how_.fs->disk_bytes;
  head.due = due;
  std::vector<char> all(base_, base_ + how_.fs->disk_bytes);
  write_to(all.data(), state);
  std::ofstream out{path, std::ios::binary};
  out.write(reinterpret_cast<const char*>(&head), sizeof head);
  // Pages of zeroes are holes.
  constexpr std::size_t page = 4096;
  static constexpr char zeroes[page] = {};
  for (std::size_t at = 0; at < all.size(); at += page) {
    if (std::memcmp(all.data() + at, zeroes, page) == 0 && at + page < all.size()) continue;
    out.seekp(static_cast<std::streamoff>(sizeof head + at));
    out.write(all.data() + at, page);
  }
  std::printf("state %" PRIu64 " of seed %" PRIu64 ", engine %s, %s: %s\n", states_ + nested_, how_.seed, it.name,
              how_.fs->name, wrong_.c_str());
  std::printf(out.flush() ? "  kept: judge it again by --again %s\n" : "  it cannot be kept as %s\n", path.c_str());
}

int replay::run_again() {
  kept_state head{};
  std::ifstream in{how_.again, std::ios::binary};
  in.read(reinterpret_cast<char*>(&head), sizeof head);
  head.engine[sizeof head.engine - 1] = head.fs[sizeof head.fs - 1] = 0;
  const bool good = in && std::memcmp(head.magic, kept_magic, sizeof head.magic) == 0 &&
                    head.fs == std::string{how_.fs->name} && head.disk_bytes == how_.fs->disk_bytes &&
                    head.threads == how_.threads;
  const auto* it =
      std::find_if(std::begin(engines), std::end(engines), [&](auto& e) { return e.name == std::string{head.engine}; });
  if (!good || it == std::end(engines)) {
    std::fprintf(stderr, "blocks: %s is no state that was kept with these --fs and --threads\n", how_.again.c_str());
    return 2;
  }
  if (!begin()) {
    std::fprintf(stderr, "blocks: %s\n", wrong_.c_str());
    return 77;
  }
  in.read(base_, static_cast<std::streamsize>(head.disk_bytes));
  std::memcpy(disk_.contents(), base_, head.disk_bytes);
  if (!judge(*it, {}, head.due)) return 1;
  std::printf("right\n");
  return 0;
}

int replay::run() {
  if (!begin()) {
    std::fprintf(stderr, "blocks: %s\n", wrong_.c_str());
    return 77;
  }
  std::printf("%s, seed %" PRIu64 ", %u threads\n", how_.fs->name, how_.seed, how_.threads);
  const auto start = clock_type::now();
  const auto deadline = start + std::chrono::seconds{how_.seconds};
  const auto seconds = [&] { return std::chrono::duration<double>(clock_type::now() - start).count(); };
  auto next_line = start + 1min;
  while (wrong_.empty() && !told_to_end && states_ + nested_ < how_.states && clock_type::now() < deadline) {
    if (!run_trace(how_.engines[traces_ % how_.engines.size()])) break;
    if (clock_type::now() < next_line) continue;
    next_line += 1min;
    std::printf("%4.0f s: %" PRIu64 " states, %" PRIu64 " nested\n", seconds(), states_, nested_);
    std::fflush(stdout);
  }
  if (!wrong_.empty()) std::printf("wrong: %s\n", wrong_.c_str());
  std::printf("%" PRIu64 " traces of %" PRIu64 " transfers, %" PRIu64 " writes, %" PRIu64 " syncs\n", traces_,
              transfers_, events_ - syncs_, syncs_);
  std::printf("%" PRIu64 " states and %" PRIu64 " nested ones in %.0f s (%.1f a second, traces included), %" PRIu64
              " after the bank was made: %s\n",
              states_, nested_, seconds(), static_cast<double>(states_ + nested_) / seconds(), recovered_,
              wrong_.empty() ? "nothing lost" : "WRONG");
  return wrong_.empty() ? 0 : 1;
}

// ---- the program

int usage() {
  std::fprintf(stderr,
               "usage: blocks [--fs ext4|xfs] [--engine undo|undo-write-back|redo|log]... [--minutes N | --states N]\n"
               "              [--seed N] [--threads N] [--plant no-syncs|few-syncs] [--keep DIR] [--again FILE]\n");
  return 2;
}

std::optional<std::uint64_t> number_of(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 18) return {};
  return std::stoull(text);
}

bool set(settings& s, const std::string& option, const std::string& value) {
  const auto number = number_of(value);
  if (option == "--fs") {
    for (const file_system& fs : file_systems) {
      if (value == fs.name) return s.fs = &fs, true;
    }
  } else if (option == "--engine") {
    for (const engine& e : engines) {
      if (value == e.name) return s.engines.push_back(e), true;
    }
  } else if (option == "--plant" && (value == "no-syncs" || value == "few-syncs")) {
    return s.planted = value == "no-syncs" ? plant::no_syncs : plant::few_syncs, true;
  } else if ((option == "--keep" || option == "--again") && !value.empty()) {
    return (option == "--keep" ? s.keep : s.again) = value, true;
  } else if (number) {
    if (option == "--minutes") return s.seconds = *number * 60, true;
    if (option == "--states") return s.states = *number, s.seconds = 1'000'000, true;
    if (option == "--seed") return s.seed = *number, true;
    if (option == "--threads" && *number >= 1 && *number <= threads_max)
      return s.threads = static_cast<unsigned>(*number), true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  settings how;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 >= count || !set(how, arguments[i], arguments[i + 1])) return usage();
  }
  if (how.engines.empty()) how.engines.assign(engines, engines + engines_by_default);
  if (::geteuid() != 0) {
    std::fprintf(stderr, "blocks: skipped: only root may mount file systems\n");
    return 77;
  }
  if (::access("/dev/fuse", R_OK | W_OK) != 0 || ::access("/dev/loop-control", R_OK | W_OK) != 0) {
    std::fprintf(stderr, "blocks: skipped: this needs /dev/fuse and /dev/loop-control\n");
    return 77;
  }
  std::signal(SIGINT, [](int) { told_to_end = true; });
  std::signal(SIGTERM, [](int) { told_to_end = true; });
  replay all{how};
  return how.again.empty() ? all.run() : all.run_again();
}
