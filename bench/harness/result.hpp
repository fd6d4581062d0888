// What was measured of one system in one benchmark, and how it is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/histogram.hpp"
#include "harness/statistics.hpp"

namespace nvm::bench {

// Per operation, from stepping.
struct op_counts {
  std::uint64_t ops = 0;  // operations counted
  double fences = 0;
  double waiting_fences = 0;  // those that had a write-back to wait for
  double waiting_locks = 0;   // locked instructions that waited for one, too
  double lines = 0;
  double clwb = 0, clflushopt = 0, clflush = 0, streamed_lines = 0;
  double instructions = 0;
  std::optional<double> logged_bytes;
  std::optional<double> dirty_bytes;  // see library_counts
};

// Per operation, by the library's own count: all its threads, over a whole repetition.
struct own_counts {
  double fences = 0;
  double lines = 0;
  double dirty_bytes = 0;
  double logged_bytes = 0;
};

struct system_result {
  std::string name;
  bench::role role = role::peer;
  std::string limit_of;  // of a limit with the same lines as a system: that system
  std::uint64_t digest = 0;
  std::optional<op_counts> counts;
  std::optional<own_counts> own;
  // One entry a repetition. Wall time: threads * duration / operations, so the latency of an operation where threads do
  // not wait for each other. CPU time: of the whole process / operations. Aborts: an operation.
  std::vector<double> wall_ns, cpu_ns, waits, device_bytes, aborts;
  histogram latency;
};

struct benchmark_result {
  const benchmark& what;
  std::vector<system_result> systems;
};

nlohmann::ordered_json to_json(const benchmark_result& r);
void print_table(const benchmark_result& r);

}  // namespace nvm::bench
