// Runs benchmarks, prints a table, keeps the results for JSON.
//
// For each benchmark: all systems are set up; each warms up; a few operations of each are counted instruction by
// instruction; limits are made of those counts; then the systems run in turn, A B C A B C ..., so that whatever
// disturbs the machine disturbs neighbours alike and the ratio of neighbours is fair. All systems do the same
// operations, and their digests must agree.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"

namespace nvm::bench {

class runner {
 public:
  explicit runner(const options& o);

  // Runs what the filter selects; a failure is printed and remembered.
  void run(const benchmark& b);
  // A result that was measured in another way: printed by the caller, kept for JSON.
  void add(nlohmann::ordered_json result);
  // Calls measure(); what it throws is printed and remembered.
  void attempt(const std::function<void()>& measure);

  // Writes the JSON file, if one was asked for. Returns the exit code: 0, or 1 if anything failed.
  int finish();

 private:
  const options& options_;
  nlohmann::ordered_json report_;
  bool failed_ = false;
};

// main() of a program: reads the command line, measures, reports.  Returns the exit code.
int answer(int argc, char** argv, const defaults& fallback, const std::function<void(runner& r, options& o)>& measure);

}  // namespace nvm::bench
