// Concurrent code: every schedule with few preemptions, and the crashes of each.
//
//   concurrent c;
//   c.base = ...;                      // name, image, recover, oracle; run is not used
//   c.start = [&](machine& m) { set = std::make_unique<durable_set>(m.media(), m.base()); };
//   c.threads = {[&](machine& m) { m.op_begin(insert(5)); bool r = set->insert(5); m.op_end(r); }, ...};
//   EXPECT_TRUE(explore_schedules(c).clean());
//
// The code is compiled with the plugin that records loads: holdfast_instrument(<target> LOADS).  States that an earlier
// schedule has made, with the same begins and ends of operations before them, are not explored again.
#pragma once

#include "explore/explore.hpp"

namespace nvm::explore {

struct concurrent {
  subject base;
  std::function<void(machine&)> start;  // optional: alone, before the threads; makes new volatile state each time
  std::vector<std::function<void(machine&)>> threads;
  std::function<void(machine&)> finish;  // optional: alone, after the threads
  // Optional: the thread that runs from here on, for code that finds its thread's state by other means than arguments.
  std::function<void(unsigned thread)> on_switch;
};

struct schedule_options {
  unsigned preemptions = 2;         // all schedules with at most so many preemptions
  std::uint64_t schedules_max = 0;  // 0: no limit
  // With priority_runs the schedules are chosen by random priorities instead: for tests too large for all.
  unsigned priority_runs = 0;
  unsigned priority_depth = 3;
  std::uint64_t seed = 1;
};

struct schedule_report {
  report total;  // sums over all schedules; violations carry the schedule in their tokens
  std::uint64_t schedules = 0;
  bool all = false;               // every schedule within the bound was run
  std::uint64_t choices_max = 0;  // most turns of a schedule

  [[nodiscard]] bool clean() const noexcept { return total.clean(); }
  [[nodiscard]] bool finds_violation() const noexcept { return total.finds_violation(); }
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] schedule_report explore_schedules(const concurrent& c, const schedule_options& s = {},
                                                const options& o = {}, const mutation& m = {});
// Runs the schedule and the one state of a token again.
[[nodiscard]] std::optional<report> replay(const concurrent& c, std::string_view token, const options& o = {},
                                           const mutation& m = {});

}  // namespace nvm::explore
