// Kills a durable program with SIGKILL again and again, starts it again until it finishes, and compares its result with
// that of its volatile twin.
//
//   kill_driver --volatile PROGRAM --durable PROGRAM --medium shm|ssd --folder DIR [--kills N] [--seed N]
//               [--seconds S] [--check] [--name NAME] [--with ARGUMENT]... [--files TEXT...]
//
// A run starts without a pool and ends when the program has written its result; runs are repeated until N kills have
// been survived, and the last one is not killed any more.  With --check the pool file is checked after each kill, and
// the program checks its structure each time it opens it.  The amount of work is chosen so that an undisturbed run
// takes about S seconds; both programs get the arguments after --with and --files.  The last line of output is one row
// of the table that --header names. Exit codes: 0 all results identical and no pool damaged, 1 not so, 2 wrong usage or
// no text.
#include <nvm/nvm.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "child.hpp"
#include "moments.hpp"

namespace {

using kills::child;
using kills::phase;
using kills::seconds;

constexpr double passes_max = 2000;

using row = std::array<std::string, 10>;
const row header = {"medium",  "program",   "kills",       "creating",   "recovering",
                    "working", "finishing", "recovery ms", "at most ms", "damaged pools"};

void print(const row& cells) {
  for (std::size_t i = 0; i < cells.size(); i++) {
    const int width = static_cast<int>(std::max<std::size_t>(header[i].size(), 6));
    std::printf(i == 0 ? "%-*s" : i == 1 ? "  %-*s" : "  %*s", width, cells[i].c_str());
  }
  std::printf("\n");
}

struct settings {
  std::string volatile_program, durable_program, medium, folder;
  unsigned kills = 50;
  std::uint64_t seed = 1;
  double seconds_per_run = 2.5;
  bool check = false;
  std::string name = "index";
  std::vector<std::string> arguments;
};

// What went wrong, for the user; the files stay where they are.
struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class campaign {
 public:
  explicit campaign(const settings& s) : set_(s), moments_(s.seed, lives_per_run(s.kills)) {}

  int run() {
    choose_passes();
    const std::string twin = path("volatile.result");
    const seconds twin_time = run_undisturbed(volatile_command(twin));
    expected_ = contents(twin);
    while (killed() < set_.kills) one_run();
    const std::string what = set_.name + " on " + set_.medium;
    std::printf("%s: %u kills survived in %u runs of %u passes; result of %zu bytes identical to the volatile run\n",
                what.c_str(), killed(), runs_, passes_, expected_.size());
    std::printf(
        "%s: recovery time %.3f ms median, %.3f ms at most, of %zu openings after a kill, %u of which found a "
        "transaction to roll back or complete\n",
        what.c_str(), median_ms(), most_ms(), recoveries_ms_.size(), recovered_);
    std::printf("%s: the volatile run took %.2f s, a durable one %.2f s of work\n", what.c_str(), twin_time.count(),
                work_.count());
    print_row();
    for (const char* name : {"pool", "pool.new", "result", "result.new", "volatile.result", "errors"}) remove(name);
    std::error_code not_empty;
    std::filesystem::remove(set_.folder, not_empty);
    return 0;
  }

 private:
  // Enough lives for the work to be cut finely, enough runs for creation to be met often.
  static unsigned lives_per_run(unsigned kills) { return std::clamp(kills / 4, 1u, 20u); }

  std::string path(const char* name) const { return set_.folder + "/" + name; }
  void remove(const char* name) const { std::filesystem::remove(path(name)); }
  unsigned killed() const { return killed_in_[0] + killed_in_[1] + killed_in_[2] + killed_in_[3]; }

  std::vector<std::string> with_common(std::vector<std::string> command, const std::string& result) const {
    command.insert(command.end(), {"--result", result, "--passes", std::to_string(passes_)});
    command.insert(command.end(), set_.arguments.begin(), set_.arguments.end());
    return command;
  }
  std::vector<std::string> volatile_command(const std::string& result) const {
    return with_common({set_.volatile_program}, result);
  }
  std::vector<std::string> durable_command() const {
    std::vector<std::string> command{set_.durable_program, "--pool",    path("pool"),
                                     "--medium",           set_.medium, "--report-progress"};
    if (set_.check) command.emplace_back("--check");
    return with_common(std::move(command), path("result"));
  }

  // Runs a program to its end; the time from its opening of the pool, if it has one, or from its start.
  seconds run_undisturbed(const std::vector<std::string>& command) {
    remove("errors");
    child life(command, path("errors"));
    std::optional<kills::clock::time_point> never;
    seconds from{0};
    life.read_until(never, [&](const std::string& line, seconds since_start) {
      if (phase_of(line) == phase::working) from = since_start;
    });
    expect_success(life.wait());
    return life.age() - from;
  }

  void expect_success(int code) const {
    if (code == 0) return;
    const std::string said = contents(path("errors"));
    if (code == 2) {
      remove("errors");
      throw usage_error(said);
    }
    throw failure("the program ended with " + std::to_string(code) + ": " + said);
  }

  // A short run tells how long a pass takes here; the work of the runs to come follows from it.
  void choose_passes() {
    std::filesystem::create_directories(set_.folder);
    for (passes_ = 1;; passes_ *= 4) {
      for (const char* name : {"pool", "pool.new"}) remove(name);
      work_ = run_undisturbed(durable_command());
      if (work_.count() > set_.seconds_per_run / 8 || passes_ > passes_max / 4) break;
    }
    const double factor = std::clamp(set_.seconds_per_run / work_.count(), 1.0 / passes_, passes_max / passes_);
    passes_ = static_cast<unsigned>(passes_ * factor);
    moments_.saw_work(work_ * factor);
  }

  void one_run() {
    for (const char* name : {"pool", "pool.new", "result", "result.new", "errors"}) remove(name);
    percent_ = 0;
    seconds work{0};
    while (!one_life(work)) {
    }
    if (contents(path("result")) != expected_) throw failure("the result differs from that of the volatile run");
    work_ = work;
    moments_.saw_work(work);
    runs_++;
  }

  // True when the program reached its end.
  bool one_life(seconds& work) {
    const bool existing = std::filesystem::exists(path("pool"));
    // One kill while the result is written is enough for a run: the pool does not change any more.
    const bool to_be_killed = killed() < set_.kills && percent_ < 100;
    const auto choice = moments_.choose(existing, percent_);
    child life(durable_command(), path("errors"));
    phase now = phase::starting;
    seconds entered[4] = {};
    // Nothing may hang: far beyond what any life takes.
    std::optional<kills::clock::time_point> deadline = kills::clock::now() + std::chrono::minutes(5);
    bool armed = false;
    const auto arm = [&] {
      if (armed || !to_be_killed || now < choice.from) return;
      armed = true;
      deadline = kills::clock::now() + to_ticks(choice.delay);
    };
    arm();
    const bool ended = life.read_until(deadline, [&](const std::string& line, seconds since_start) {
      const phase before = now;
      now = std::max(now, phase_of(line));
      if (now != before) entered[static_cast<int>(now)] = since_start;
      if (now == phase::working && before == phase::opening) note_opening(line, existing);
      if (line.rfind("progress ", 0) == 0) percent_ = static_cast<unsigned>(std::atoi(line.c_str() + 9));
      arm();
    });
    if (!ended) life.kill();
    const seconds lived = life.age();
    const int code = life.wait();
    note_durations(entered, now, existing, lived, code == 0);
    if (now >= phase::working) work += (now == phase::finishing ? entered[3] : lived) - entered[2];
    if (code == -SIGKILL) {
      if (!armed) throw failure("the program hung");
      killed_in_[now == phase::finishing ? 3 : now == phase::working ? 2 : existing ? 1 : 0]++;
      killed_before_ = true;
      if (set_.check) check_pool(existing);
      return false;
    }
    expect_success(code);
    killed_before_ = false;
    return true;
  }

  static kills::clock::duration to_ticks(seconds s) { return std::chrono::duration_cast<kills::clock::duration>(s); }

  static phase phase_of(const std::string& line) {
    if (line == "opening") return phase::opening;
    if (line.rfind("opened ", 0) == 0) return phase::working;
    return line == "progress 100" ? phase::finishing : phase::starting;
  }

  void note_opening(const std::string& line, bool existing) {
    std::uint64_t transactions = 0, ns = 0;
    const std::size_t at = line.find(' ');
    if (std::sscanf(line.c_str() + at, " recovered_transactions=%" SCNu64 " recovery_ns=%" SCNu64, &transactions,
                    &ns) != 2) {
      throw failure("the program printed '" + line + "'");
    }
    if (!existing || !killed_before_) return;
    recoveries_ms_.push_back(static_cast<double>(ns) / 1e6);
    recovered_ += transactions > 0;
  }

  void note_durations(const seconds (&entered)[4], phase now, bool existing, seconds lived, bool finished) {
    if (now >= phase::opening) moments_.saw_start(entered[1]);
    if (now >= phase::working) moments_.saw_opening(existing, entered[2] - entered[1]);
    if (finished) moments_.saw_finish(lived - entered[3]);
  }

  // The file must be a sound pool at any moment, or, before it has its name, perhaps no pool yet.
  void check_pool(bool existed) {
    const bool exists = std::filesystem::exists(path("pool"));
    if (existed && !exists) throw failure("the pool is gone");
    const std::string file = path(exists ? "pool" : "pool.new");
    if (!std::filesystem::exists(file)) return;
    std::string findings;
    const std::int64_t count = nvm_pool_check(
        file.c_str(),
        [](std::uint64_t offset, const char* finding, void* argument) {
          *static_cast<std::string*>(argument) += "\n  offset " + std::to_string(offset) + ": " + finding;
        },
        &findings, nullptr);
    if (count == 0) return;
    // Copy A of the superblock is the last step of a creation; with copy B alone it is a pool that says what it lacks.
    const bool in_creation =
        count < 0 ? nvm_errno() == NVM_E_NOT_A_POOL
                  : count == 1 && findings.find("copy A: crc: found 0000000000000000") != std::string::npos;
    if (!exists && in_creation) return;
    if (count < 0) findings = std::string(" cannot be checked: ") + nvm_errormsg();
    damaged_++;
    print_row();
    throw failure(file + findings);
  }

  double median_ms() {
    if (recoveries_ms_.empty()) return 0;
    std::sort(recoveries_ms_.begin(), recoveries_ms_.end());
    return recoveries_ms_[recoveries_ms_.size() / 2];
  }
  double most_ms() const {
    return recoveries_ms_.empty() ? 0 : *std::max_element(recoveries_ms_.begin(), recoveries_ms_.end());
  }

  void print_row() {
    const auto in_ms = [](double ms) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3f", ms);
      return std::string(text);
    };
    row cells = {set_.medium, set_.name, std::to_string(killed())};
    for (unsigned i = 0; i < 4; i++) cells[3 + i] = std::to_string(killed_in_[i]);
    cells[7] = in_ms(median_ms());
    cells[8] = in_ms(most_ms());
    cells[9] = set_.check ? std::to_string(damaged_) : "-";
    print(cells);
  }

  settings set_;
  kills::moments moments_;
  unsigned passes_ = 1, percent_ = 0, runs_ = 0, recovered_ = 0, damaged_ = 0;
  unsigned killed_in_[4] = {};  // creating, recovering, working, finishing
  bool killed_before_ = false;
  seconds work_{0};
  std::vector<double> recoveries_ms_;
  std::string expected_;
};

settings parse(int argc, char** argv) {
  settings s;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); i++) {
    const std::string& name = arguments[i];
    if (name == "--check") {
      s.check = true;
      continue;
    }
    if (name == "--files") {
      s.arguments.push_back(name);
      while (i + 1 < arguments.size() && arguments[i + 1].rfind("--", 0) != 0) s.arguments.push_back(arguments[++i]);
      continue;
    }
    if (i + 1 == arguments.size()) throw usage_error(name + ": unknown option, or its value is missing");
    const std::string& value = arguments[++i];
    if (name == "--volatile") {
      s.volatile_program = value;
    } else if (name == "--durable") {
      s.durable_program = value;
    } else if (name == "--medium") {
      s.medium = value;
    } else if (name == "--name") {
      s.name = value;
    } else if (name == "--with") {
      s.arguments.push_back(value);
    } else if (name == "--folder") {
      s.folder = value;
    } else if (name == "--kills" && std::strtoul(value.c_str(), nullptr, 10) > 0) {
      s.kills = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (name == "--seed") {
      s.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--seconds" && std::strtod(value.c_str(), nullptr) > 0) {
      s.seconds_per_run = std::strtod(value.c_str(), nullptr);
    } else {
      throw usage_error(name + " " + value + ": unknown option or value");
    }
  }
  if (s.volatile_program.empty() || s.durable_program.empty() || s.medium.empty() || s.folder.empty()) {
    throw usage_error("--volatile, --durable, --medium and --folder are needed");
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--header") == 0) {
      print(header);
      return 0;
    }
    return campaign(parse(argc, argv)).run();
  } catch (const usage_error& error) {
    std::fprintf(stderr, "kill_driver: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kill_driver: %s\n", error.what());
    return 1;
  }
}
