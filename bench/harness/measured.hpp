// Results of benchmarks that time single calls by themselves: samples of each system, taken in turn.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/runner.hpp"
#include "harness/statistics.hpp"

namespace nvm::bench {

struct measured {
  std::string system;
  bench::role role;
  std::vector<double> ns;  // a repetition each
};

struct timed_calls {
  std::string name;
  std::string unit;
  unsigned threads = 1;
  nlohmann::ordered_json parameters;
};

// Prints and keeps one benchmark's result.
inline void report_times(runner& r, timed_calls what, const std::vector<measured>& systems) {
  nlohmann::ordered_json j{
      {"name", what.name}, {"threads", what.threads}, {"unit", std::move(what.unit)}, {"units_per_op", 1}};
  j["parameters"] = std::move(what.parameters);
  j["systems"] = nlohmann::ordered_json::array();
  j["ratios"] = nlohmann::ordered_json::array();
  fmt::print("\n{}, {} thread{}: microseconds; {}\n", what.name, what.threads, what.threads == 1 ? "" : "s",
             j["parameters"].dump());
  auto json = [](const std::vector<double>& sample) {
    const spread s = spread_of(sample);
    return nlohmann::ordered_json{{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
  };
  for (const measured& m : systems) {
    const spread s = spread_of(m.ns);
    fmt::print("  {:<30} median {:>12.1f}  min {:>12.1f}  max {:>12.1f}\n", m.system, s.median / 1e3, s.min / 1e3,
               s.max / 1e3);
    j["systems"].push_back(
        {{"name", m.system}, {"role", m.role == role::subject ? "subject" : "peer"}, {"wall_ns", json(m.ns)}});
  }
  for (const measured& subject : systems)
    for (const measured& peer : systems)
      if (subject.role == role::subject && peer.role == role::peer) {
        const std::vector<double> ratios = pairwise_ratio(peer.ns, subject.ns);
        fmt::print("  {} is {:.2f} times as fast as {}\n", subject.system, spread_of(ratios).median, peer.system);
        j["ratios"].push_back({{"subject", subject.system}, {"peer", peer.system}, {"wall", json(ratios)}});
      }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace nvm::bench
