#include "harness/options.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace nvm::bench {
namespace {

void ensure_environment(char** argv) {
  const char* force = std::getenv("PMEM_IS_PMEM_FORCE");
  if (force != nullptr && std::strcmp(force, "1") == 0) return;
  setenv("PMEM_IS_PMEM_FORCE", "1", 1);
  execv("/proc/self/exe", argv);
  std::perror("cannot run this program anew with PMEM_IS_PMEM_FORCE=1");
  std::exit(1);
}

}  // namespace

bool options::selects(const std::string& name) const {
  if (filter.empty()) return true;
  std::istringstream parts(filter);
  for (std::string part; std::getline(parts, part, ',');)
    if (!part.empty() && name.find(part) != std::string::npos) return true;
  return false;
}

options parse_options(int argc, char** argv, const defaults& fallback) {
  ensure_environment(argv);
  options o;
  o.threads = fallback.threads;
  o.directory = fallback.directory;
  CLI::App app{fallback.question};
  app.add_flag("--quick", o.quick, "CI size: few operations, little data");
  auto* runs = app.add_option("--runs", o.runs, "repetitions of each system, alternating")->check(CLI::Range(1, 1000));
  app.add_option("--threads", o.threads, "numbers of threads, as in 1,2")->delimiter(',')->check(CLI::Range(1, 64));
  app.add_option("--filter", o.filter, "only benchmarks whose name contains one of these, as in sps,alloc");
  app.add_option("--json", o.json, "write the results to this file");
  app.add_option("--directory", o.directory, "where pools and files are made")->capture_default_str();
  auto* records = app.add_option("--records", o.records, "records in a table")->check(CLI::Range(100, 100'000'000));
  auto* steps = app.add_option("--count-steps", o.count_steps,
                               "instructions single-stepped for the counts of each system; 0: no counts");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  std::sort(o.threads.begin(), o.threads.end());
  if (runs->empty()) o.runs = o.quick ? 3 : fallback.runs;
  if (records->empty()) o.records = o.quick ? fallback.quick_records : fallback.records;
  if (steps->empty()) o.count_steps = o.quick ? 5'000 : 100'000;
  return o;
}

}  // namespace nvm::bench
