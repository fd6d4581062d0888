// A client that loads a server: many connections in one thread, each with a number of requests in flight.
//
// Every reply is read and looked at: its kind, its length, and that a value is the one of its key. A reply that is
// wrong ends the benchmark.
#pragma once

#include <cstdint>

#include "harness/histogram.hpp"
#include "server/servers.hpp"

namespace nvm::bench {

struct load {
  unsigned connections = 1;
  unsigned depth = 1;  // requests in flight on each
  std::uint64_t keys = 10'000;
  unsigned set_percent = 20;
  std::uint64_t seed = 1;
};

struct load_result {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t server_cpu_ns = 0;
  histogram latency;
};

// Stores the keys 0, 2, 4 ...: half of the range.
void fill(const server_process& server, std::uint64_t keys);
// For so long, and until what is in flight has been answered.
load_result run_load(const server_process& server, const load& how, std::uint64_t duration_ns);

}  // namespace nvm::bench
