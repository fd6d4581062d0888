// holdfast doctor: tries in a place what a pool there can be trusted with.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/diagnosis.hpp"
#include "cli/power_cut_run.hpp"
#include "cli/progress.hpp"
#include "cli/recorded_run.hpp"
#include "cli/ticks_here.hpp"
#include "cli/units.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace doctor_verb {
namespace {

namespace fs = std::filesystem;

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "a folder, or a pool; neither is changed"}};
constexpr option options[] = {
    {"kill-seconds", value_kind::seconds, "S", "time for killing processes; default 3"},
    {"crash-seconds", value_kind::seconds, "S", "time for looking at what power cuts leave; default 2"},
    {"seed", value_kind::count, "N", "of the choices that are made by chance; default 1"},
};
constexpr std::string_view examples[] = {"holdfast doctor /var/lib/app", "holdfast doctor /dev/shm/cache.nvm --json",
                                         "holdfast doctor --kill-seconds 60 --crash-seconds 60 ."};

constexpr std::uint64_t room_needed = 16 << 20;
constexpr double sync_seconds = 0.4;

std::atomic<bool> interrupted{false};

// The trials end early and clean up after themselves.
class interruptible {
 public:
  interruptible() {
    struct sigaction how{};
    how.sa_handler = [](int) { interrupted = true; };
    for (std::size_t i = 0; i < std::size(signals); ++i) ::sigaction(signals[i], &how, &before_[i]);
    // Exceeding the limit of a file's size is then an ordinary error.
    how.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &how, &too_large_before_);
  }
  ~interruptible() {
    for (std::size_t i = 0; i < std::size(signals); ++i) ::sigaction(signals[i], &before_[i], nullptr);
    ::sigaction(SIGXFSZ, &too_large_before_, nullptr);
  }
  interruptible(const interruptible&) = delete;

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(signals)] = {};
  struct sigaction too_large_before_{};
};

class scratch_folder {
 public:
  explicit scratch_folder(const std::string& parent) {
    std::string name = parent + "/.holdfast-doctor-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~scratch_folder() {
    std::error_code none;
    if (!path_.empty()) fs::remove_all(path_, none);
  }
  scratch_folder(const scratch_folder&) = delete;
  // Empty: it could not be made, errno says why.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

void look_around(diagnosis& d) {
  d.mount = mount_of(d.folder);
  d.device = device_of(d.mount);
  d.syncs = judge_syncs(d.mount);
  for (const isa::write_back w : {isa::write_back::clflush, isa::write_back::clflushopt, isa::write_back::clwb}) {
    if (isa::has(w)) d.instructions.emplace_back(isa::name_of(w));
  }
  d.domains = persistence_domains();
  d.room = room_in(d.folder);
  d.limits = limits_of_process();
}

nvm_pool_options options_for(const diagnosis& d) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 4 << 20;
  if (d.pool) {
    o.medium = d.pool->medium;
    // Otherwise the default engine: the remaining ones take no announced stores.
    if (engine_of(d.pool->engine).is_its_log()) o.engine = d.pool->engine;
  }
  return o;
}

// Makes, opens and closes a pool there. Empty: it works.
std::string try_pool(diagnosis& d, const std::string& path) {
  const nvm_pool_options o = options_for(d);
  if (std::string why = proof_pool::create(path, o); !why.empty()) return why;
  NVM_POOL* pool = proof_pool::open(path, o.medium);
  if (pool == nullptr) return nvm_errormsg();
  nvm_pool_info info{};
  const bool known = nvm_pool_get_info(pool, &info) == 0;
  if (nvm_pool_close(pool) != 0 || !known) return nvm_errormsg();
  d.medium = info.medium;
  d.persist = info.persist;
  d.engine = info.engine;
  d.medium_because = reason_of_medium(d);
  return {};
}

template <class Work>
void shown_as(const console& out, const std::string& what, Work&& work) {
  std::atomic<double> share{0};
  progress line{out, what, [&share] { return share.load(); }};
  work(share);
}

void run_crashes(diagnosis& d, const std::string& folder, double seconds, std::uint64_t seed, const console& out) {
  if (*d.medium == NVM_MEDIUM_SSD) {
    power_cut_settings s;
    s.path = folder + "/cut.nvm";
    const scratch_folder in_memory{"/dev/shm"};
    s.state = (in_memory.path().empty() ? folder : in_memory.path()) + "/state.nvm";
    s.seconds = seconds;
    s.seed = seed;
    s.stopped = &interrupted;
    power_cut_outcome o;
    shown_as(out, "cutting the power", [&](std::atomic<double>& share) {
      s.share = &share;
      o = run_power_cuts(s);
    });
    d.crash_run = o.problem.empty() ? "power-cuts" : "none";
    d.crash_run_not = o.problem;
    d.crash_transactions = o.transactions;
    d.crash_states = o.states;
    d.crash_fault = o.fault;
    return;
  }
  const std::string compiler = find_compiler();
  if (compiler.empty()) {
    d.crash_run_not = "on memory it takes a program that holdfast-cc compiles, which is not there";
    return;
  }
  recorded_outcome o;
  {
    ticks_here ticks;
    std::atomic<double> share{0};
    progress line{out, "exploring crashes", [&share] { return share.load(); }};
    ticks.begin();
    o = run_recorded(compiler, folder, seconds, seed, &share);
  }
  d.crash_run = o.problem.empty() ? "crash-test" : "none";
  d.crash_run_not = o.problem;
  d.crash_transactions = o.transactions;
  d.crash_states = o.states;
  d.crash_fault = o.fault;
}

// Finds the place of PATH; a failure with an exit code if there is none.
std::optional<failure> find_place(diagnosis& d) {
  struct ::stat facts{};
  if (::stat(d.path.c_str(), &facts) != 0) {
    const std::string why = std::strerror(errno);
    if (errno == ENOENT) return failure{exit_unavailable, d.path, "NVM_E_NOT_FOUND", "no such file or folder"};
    return failure{exit_unavailable, d.path, "NVM_E_SYSTEM", why};
  }
  fs::path place = d.path;
  if (!S_ISDIR(facts.st_mode)) {
    nvm_pool_info info{};
    if (nvm_pool_inspect(d.path.c_str(), &info) != 0) return library_failure(d.path);
    d.pool = info;
    // Where the pool lies, not a link that leads to it.
    place = fs::canonical(place).parent_path();
  }
  d.folder = fs::canonical(place);
  return std::nullopt;
}

std::optional<failure> refusal(const diagnosis& d, const scratch_folder& scratch) {
  const int cause = errno;
  if (scratch.path().empty()) {
    const bool full = cause == ENOSPC || cause == EDQUOT;
    return failure{full ? exit_internal : exit_unavailable, d.path, full ? "NVM_E_NO_SPACE" : "NVM_E_SYSTEM",
                   fmt::format("no scratch folder can be made in {}: {}", d.folder, std::strerror(cause))};
  }
  if (d.room && d.room->free_bytes < room_needed) {
    return failure{exit_internal, d.path, "NVM_E_NO_SPACE",
                   fmt::format("{} has {} free; the trials need {}", d.folder, size_text(d.room->free_bytes),
                               size_text(room_needed))};
  }
  return std::nullopt;
}

exit_code run(const arguments& given, console& out) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_of = [&](std::string_view name, double otherwise) {
    const auto ns = given.number(name);
    return ns ? static_cast<double>(*ns) * 1e-9 : otherwise;
  };
  diagnosis d;
  d.path = given.operand(0);
  if (const auto why = find_place(d)) return out.fail(*why);
  look_around(d);
  const interruptible signals;
  const scratch_folder scratch{d.folder};
  if (const auto why = refusal(d, scratch)) return out.fail(*why);
  const std::uint64_t seed = given.number("seed").value_or(1);
  const std::string pool = scratch.path() + "/pool.nvm";

  d.memory = try_memory(scratch.path());
  if (!d.memory.window) d.problems.push_back(fmt::format("addresses: {}", d.memory.window_problem));
  d.latency = measure_syncs(scratch.path(), sync_seconds);
  if (!d.latency.problem.empty()) d.problems.push_back(fmt::format("sync: {}", d.latency.problem));
  if (const std::string why = try_pool(d, pool); !why.empty()) {
    d.problems.push_back(fmt::format("a pool: {}", why));
  } else {
    kill_settings s;
    s.path = pool;
    s.medium = *d.medium;
    s.seconds = seconds_of("kill-seconds", 3);
    s.seed = seed;
    s.stopped = &interrupted;
    shown_as(out, "killing processes", [&](std::atomic<double>& share) {
      s.share = &share;
      d.kills = run_kills(s);
    });
    if (!interrupted) run_crashes(d, scratch.path(), seconds_of("crash-seconds", 2), seed, out);
    judge(d);
  }
  if (interrupted) return out.fail({exit_internal, d.path, "INTERNAL", "interrupted"});
  add_notes(d);
  print(d, out);
  out.document(document_of(d, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  return d.problems.empty() ? exit_good : exit_negative;
}

}  // namespace
}  // namespace doctor_verb

extern const command doctor_command;
const command doctor_command{
    .name = "doctor",
    .summary = "try what a pool in a place survives, and say so",
    .description =
        "Looks at a folder, or at the one that a pool lies in, and tries there what the library promises: makes a "
        "small pool, kills the process that works on it again and again and looks at what each kill left; makes the "
        "states that a power cut could leave, recovers and checks each; times syncs. Then says which medium a pool "
        "there has and why, and what it survives. Scratch files are removed; PATH itself is not changed.\n\n"
        "Whether the power may fail is judged by what the system tells of mount options, devices and layers below; "
        "what a virtual machine's host, a server, or a device that lies about its cache does is reported as unknown. "
        "The exit code is 0 when everything that the medium promises holds, as far as can be known, 1 when something "
        "does not.",
    .operands = doctor_verb::operands,
    .options = doctor_verb::options,
    .fields = diagnosis_fields(),
    .examples = doctor_verb::examples,
    .run = doctor_verb::run,
};

}  // namespace nvm::cli
