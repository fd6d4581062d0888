#include "harness/options.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

namespace nvm::bench {
namespace {

// Beside the program in the build tree; a build without libpmem has none.
std::string latency_library() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path library = program.parent_path() / "libbench_pmem_latency.so";
  return std::filesystem::exists(library) ? library.string() : "";
}

void ensure_environment(char** argv, const emulation& slower) {
  std::vector<std::pair<const char*, std::string>> wanted{{"PMEM_IS_PMEM_FORCE", "1"}};
  if (slower.any()) {
    wanted.emplace_back("LD_PRELOAD", latency_library());
    wanted.emplace_back("HOLDFAST_BENCH_EMULATION", std::to_string(slower.fence_ns) + " " +
                                                        std::to_string(slower.writeback_ns) + " " +
                                                        std::to_string(slower.bandwidth_bytes_s));
  }
  bool there = true;
  for (const auto& [name, value] : wanted) {
    const char* now = std::getenv(name);
    there = there && now != nullptr && value == now;
    setenv(name, value.c_str(), 1);
  }
  if (there) return;
  execv("/proc/self/exe", argv);
  std::perror("cannot run this program anew with its environment");
  std::exit(1);
}

}  // namespace

namespace {

bool has_one_of(const std::string& list, const std::string& name) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');)
    if (!part.empty() && (part[0] == '=' ? name == part.substr(1) : name.find(part) != std::string::npos)) return true;
  return false;
}

}  // namespace

bool options::selects(const std::string& name) const { return filter.empty() || has_one_of(filter, name); }
bool options::selects_system(const std::string& name) const { return !systems.empty() && has_one_of(systems, name); }

options parse_options(int argc, char** argv, const defaults& fallback) {
  options o;
  o.threads = fallback.threads;
  o.directory = fallback.directory;
  CLI::App app{fallback.question};
  app.add_flag("--quick", o.quick, "CI size: few operations, little data");
  auto* runs = app.add_option("--runs", o.runs, "repetitions of each system, alternating")->check(CLI::Range(1, 1000));
  app.add_option("--threads", o.threads, "numbers of threads, as in 1,2")->delimiter(',')->check(CLI::Range(1, 64));
  app.add_option("--filter", o.filter,
                 "only benchmarks whose name contains one of these, or with = is it, as in =sps-1,alloc");
  app.add_option("--systems", o.systems, "the same for systems; also variants that are else left out");
  app.add_option("--json", o.json, "write the results to this file");
  app.add_option("--directory", o.directory, "where pools and files are made")->capture_default_str();
  auto* records = app.add_option("--records", o.records, "records in a table")->check(CLI::Range(100, 100'000'000));
  app.add_option("--megabytes", o.megabytes, "data of benchmarks that say how much; 0: as much as suits each")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--ops", o.ops, "operations of a thread in a repetition of the suite; 0: as many as suit each");
  app.add_flag("!--no-limits", o.limits, "without the machine's limit for each system");
  auto* steps = app.add_option("--count-steps", o.count_steps,
                               "instructions single-stepped for the counts of each system; 0: no counts");
  if (fallback.emulations)
    app.add_option("--emulate", o.emulated, "emulated memory: none, or a preset of nvm_emulation_preset()");
  try {
    app.parse(argc, argv);
    if (o.emulated != "none") o.slower = fallback.emulations(o.emulated);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  ensure_environment(argv, o.slower);
  std::sort(o.threads.begin(), o.threads.end());
  if (runs->empty()) o.runs = o.quick ? 3 : fallback.runs;
  if (records->empty()) o.records = o.quick ? fallback.quick_records : fallback.records;
  if (steps->empty()) o.count_steps = o.quick ? 5'000 : 100'000;
  return o;
}

}  // namespace nvm::bench
