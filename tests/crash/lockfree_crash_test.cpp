// Lock-free structures survive a crash at any point, on each medium and under each model of it: completed operations
// are there, everything that is allocated is linked, and the structures can be worked on.
#include <gtest/gtest.h>

#include <cstdio>

#include "../random_seed.hpp"
#include "lockfree_random.hpp"
#include "lockfree_stories.hpp"
#include "scenarios.hpp"
#include "story_cases.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::report;

using lockfree_case = on_model<lockfree_story, lockfree_variant>;

class lockfree_crash : public testing::TestWithParam<lockfree_case> {};

TEST_P(lockfree_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  const report r = explore_today(subject_of(of, with), lockfree_options(under, with));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, lockfree_crash, testing::ValuesIn(cases_of(lockfree_stories(), lockfree_variants())),
                         name_of_case{});

class lockfree_random_crash : public testing::TestWithParam<lockfree_case> {};

TEST_P(lockfree_random_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  explore::options o = lockfree_options(under, with);
  o.nesting = 2;
  o.exhaustive_max = 64;
  const std::uint64_t seed = 1000 * seed_from_environment() + static_cast<unsigned>(under);
  const report r = explore(random_lockfree_subject(seed, 100, with), o);
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
std::vector<lockfree_case> random_cases() {
  return cases_of(std::vector<lockfree_story>{{.name = "random", .steps = nullptr, .on_ssd = true}},
                  lockfree_variants());
}
INSTANTIATE_TEST_SUITE_P(calls, lockfree_random_crash, testing::ValuesIn(random_cases()), name_of_case{});

}  // namespace
}  // namespace nvm::tests
