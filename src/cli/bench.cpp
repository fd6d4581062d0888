// holdfast bench: what transactions cost on this machine and medium.
#include <array>
#include <atomic>
#include <chrono>

#include "cli/arguments.hpp"
#include "cli/measurement.hpp"
#include "cli/pool_facts.hpp"
#include "cli/progress.hpp"
#include "cli/units.hpp"
#include "holdfast_version.hpp"

namespace nvm::cli {
namespace bench_verb {
namespace {

constexpr std::string_view presets[] = {"off", "lsnvmm", "log-free", "breeze"};
constexpr operand operands[] = {
    {"DIRECTORY", operand_kind::directory, false,
     "where the temporary pool is made; default /dev/shm for --medium shm, else the current "
     "directory"}};
constexpr option options[] = {
    {"medium", value_kind::choice, "MEDIUM", "detect, shm, dax, auto or ssd; default detect, by the file system",
     media_names},
    {"persist", value_kind::choice, "HOW", "write-back of direct media: none, fence, clflush, clflushopt, clwb or best",
     persist_names},
    {"emulate", value_kind::choice, "PRESET", "slow direct media down as a paper did: off, lsnvmm, log-free or breeze",
     presets},
    {"seconds", value_kind::seconds, "S", "duration of each measurement; default 1"},
    {"threads", value_kind::count, "N", "threads that work at the same time, each on its own objects; default 1"},
};
constexpr json_field fields[] = {
    {"version", "of the tool"},
    {"directory", "where the pool was"},
    {"medium", "in force"},
    {"persist", "write-back in force; none on ssd, where the log is synced instead"},
    {"emulation", "preset"},
    {"threads", "that worked at the same time"},
    {"seconds", "of each measurement"},
    {"measurements[].name", "what one operation is"},
    {"measurements[].operations", "that were measured"},
    {"measurements[].operations_per_second", "of all threads together"},
    {"measurements[].mean_ns", "duration of an operation, with one reading of the clock"},
    {"measurements[].p50_ns", "half of the operations took no longer"},
    {"measurements[].p99_ns", "99 of 100 took no longer"},
    {"measurements[].p99_9_ns", "999 of 1000 took no longer"},
    {"measurements[].max_ns", "the longest"},
    {"measurements[].fences_per_operation", "counted in one thread"},
    {"measurements[].lines_per_operation", "cache lines written back"},
    {"measurements[].logged_bytes_per_operation", "log records with their headers"},
    {"measurements[].syncs_per_operation", "syncs of the device, checkpoints included"},
};
constexpr std::string_view examples[] = {"holdfast bench --medium shm",
                                         "holdfast bench /srv/data --threads 8 --seconds 5",
                                         "holdfast bench --medium shm --persist clwb --json"};
constexpr std::uint64_t threads_max = 1024;
constexpr std::uint64_t count_ns = 100'000'000;

struct line {
  const workload* what;
  duration_sample sample;
  operation_cost cost;
};

struct plan {
  nvm_pool_options pool{};
  std::string directory;
  std::string emulation;
  unsigned threads = 1;
  std::uint64_t ns = 0;
};

plan plan_of(const arguments& given) {
  plan p;
  p.threads = static_cast<unsigned>(given.number("threads").value_or(1));
  p.ns = given.number("seconds").value_or(1'000'000'000);
  p.emulation = given.choice("emulate").value_or("off");
  p.pool.medium = number_of(given.choice("medium").value_or("detect"), media_names);
  p.pool.persist = number_of(given.choice("persist").value_or("detect"), persist_names);
  p.pool.size = std::max<std::uint64_t>(64, 2 * p.threads) << 20;
  p.directory = given.operand(0);
  if (p.directory.empty()) p.directory = p.pool.medium == NVM_MEDIUM_SHM ? "/dev/shm" : ".";
  return p;
}

// Every workload twice: with the library's meter, for the costs, and without, for the times.
std::optional<failure> run_all(const plan& p, const console& out, nvm_pool_info& info, std::vector<line>& lines) {
  std::atomic<std::size_t> steps{0};
  const auto share = [&steps] { return static_cast<double>(steps.load()) / static_cast<double>(workloads().size()); };
  progress bar{out, "measuring", share};
  for (const workload& w : workloads()) {
    line l{&w, {}, {}};
    for (const bool metered : {true, false}) {
      nvm_pool_options o = p.pool;
      o.meter = metered ? 1 : 0;
      // A lane for each thread, where the pool's own number is less.
      if (p.threads > 64) o.lanes = p.threads;
      temporary_pool pool;
      if (!pool.create(p.directory, o)) {
        failure f = library_failure(pool.path());
        f.subject = p.directory;
        if (nvm_errno() == NVM_E_INVALID) f.exit = exit_usage;
        return f;
      }
      info = pool.info();
      auto failed = metered ? count_costs(pool, w, std::min(p.ns, count_ns), l.cost)
                            : measure(pool, w, p.threads, p.ns, l.sample);
      if (failed) return failed;
    }
    lines.push_back(std::move(l));
    ++steps;
  }
  return std::nullopt;
}

double per_second(const line& l, const plan& p) {
  return static_cast<double>(l.sample.count()) * 1e9 / static_cast<double>(p.ns);
}

constexpr std::array<double, 3> shares = {0.5, 0.99, 0.999};

void print_table(const plan& p, const nvm_pool_info& info, std::vector<line>& lines, const console& out) {
  if (!out.as_text()) return;
  const bool ssd = info.medium == NVM_MEDIUM_SSD;
  out.text("{}: medium {}, {}{}, {} thread{}, {} each\n", p.directory, medium_name(info.medium),
           ssd ? "log synced" : fmt::format("write-back {}", persist_name(info.persist)),
           p.emulation == "off" ? "" : fmt::format(", emulating {}", p.emulation), p.threads, p.threads == 1 ? "" : "s",
           duration_text(static_cast<double>(p.ns)));
  out.text("{:<27}{:>11}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{}{:>8}\n", "", "ops/s", "mean", "p50", "p99", "p99.9",
           "max", ssd ? "syncs" : "fences", ssd ? "" : "   lines", "logged");
  for (line& l : lines) {
    const auto q = l.sample.quantiles(shares);
    out.text("{:<27}{:>11.0f}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8.2f}{}{:>8.0f}\n", l.what->name, per_second(l, p),
             duration_text(l.sample.mean()), duration_text(static_cast<double>(q[0])),
             duration_text(static_cast<double>(q[1])), duration_text(static_cast<double>(q[2])),
             duration_text(static_cast<double>(l.sample.max())), ssd ? l.cost.syncs : l.cost.fences,
             ssd ? std::string{} : fmt::format("{:>8.2f}", l.cost.flushed_lines), l.cost.logged_bytes);
  }
  out.text("{} and bytes logged are per operation, counted in one thread.\n",
           ssd ? "Syncs" : "Fences, lines written back");
}

json document_of(const plan& p, const nvm_pool_info& info, std::vector<line>& lines) {
  json measurements = json::array();
  for (line& l : lines) {
    const auto q = l.sample.quantiles(shares);
    measurements.push_back({{"name", l.what->name},
                            {"operations", l.sample.count()},
                            {"operations_per_second", per_second(l, p)},
                            {"mean_ns", l.sample.mean()},
                            {"p50_ns", q[0]},
                            {"p99_ns", q[1]},
                            {"p99_9_ns", q[2]},
                            {"max_ns", l.sample.max()},
                            {"fences_per_operation", l.cost.fences},
                            {"lines_per_operation", l.cost.flushed_lines},
                            {"logged_bytes_per_operation", l.cost.logged_bytes},
                            {"syncs_per_operation", l.cost.syncs}});
  }
  return {
      {"version", HOLDFAST_VERSION},
      {"directory", p.directory},
      {"medium", medium_name(info.medium)},
      {"persist", info.medium == NVM_MEDIUM_SSD ? "none" : persist_name(info.persist)},
      {"emulation", p.emulation},
      {"threads", p.threads},
      {"seconds", static_cast<double>(p.ns) / 1e9},
      {"measurements", std::move(measurements)},
  };
}

exit_code run(const arguments& given, console& out) {
  if (const auto n = given.number("threads"); n && (*n == 0 || *n > threads_max)) {
    return out.fail({exit_usage, "bench", "USAGE", fmt::format("--threads: {}: expected 1 to {}", *n, threads_max)});
  }
  plan p = plan_of(given);
  if (nvm_emulation_preset(p.emulation.c_str(), &p.pool.emulation) != 0) return out.fail_library("bench");
  nvm_pool_info info{};
  std::vector<line> lines;
  if (const auto failed = run_all(p, out, info, lines)) return out.fail(*failed);
  print_table(p, info, lines, out);
  out.document(document_of(p, info, lines));
  return exit_good;
}

}  // namespace
}  // namespace bench_verb

extern const command bench_command;
const command bench_command{
    .name = "bench",
    .summary = "measure transactions on this machine",
    .description =
        "Makes a temporary pool in DIRECTORY, measures commits, overwrites and allocations on it, and prints "
        "rates, quantiles and the costs of one operation: fences, lines written back, bytes logged, syncs. "
        "The pool's file has no name while it is used, so none is left behind however the command ends.",
    .operands = bench_verb::operands,
    .options = bench_verb::options,
    .fields = bench_verb::fields,
    .examples = bench_verb::examples,
    .run = bench_verb::run,
};

}  // namespace nvm::cli
