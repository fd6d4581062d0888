// What tests of stories explore on each run: the first tiers of every story, and of one story in three, each day
// others, the deep tiers as well.  Those that ask whether a fence is necessary explore all tiers always.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "../random_seed.hpp"
#include "explore/explore.hpp"

namespace nvm::tests {

// Of a crash point: program order, all low, pairs, and every image where there are few.  Crashes of recoveries are four
// times as rare.
[[nodiscard]] inline explore::options of_first_tiers(explore::options o) {
  o.tiers &= explore::t1_program_order | explore::t2_all_low | explore::t3_pairs | explore::t6_exhaustive;
  o.exhaustive_max = std::min<std::uint64_t>(o.exhaustive_max, 64);
  o.nested_every *= 4;
  return o;
}

// Whether the test that runs explores all tiers today; its name says so.
[[nodiscard]] inline bool explores_all_today() {
  constexpr std::uint64_t days = 3;
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  return is_turn_of_today(seed_of(test.test_suite_name()) + seed_of(test.name()), days);
}

// The story of the test that runs.  What is drawn among the states of one crash point differs from day to day, too; a
// token that repeats a state has the seed.
[[nodiscard]] inline explore::report explore_today(const explore::subject& story, explore::options o) {
  o.seed = seed_from_environment();
  return explore::explore(story, explores_all_today() ? o : of_first_tiers(o));
}

}  // namespace nvm::tests
