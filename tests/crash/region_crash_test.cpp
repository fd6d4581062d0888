// Regions survive a crash at any point, on each medium and under each model of it: each change is there as a whole or
// not at all, every page has an owner, and regions can be worked on.
#include <gtest/gtest.h>

#include <cstdio>

#include "../random_seed.hpp"
#include "region_random.hpp"
#include "region_stories.hpp"
#include "scenarios.hpp"
#include "story_cases.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::report;

using region_case = on_model<region_story, region_variant>;

class region_crash : public testing::TestWithParam<region_case> {};

TEST_P(region_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  const report r = explore_today(subject_of(of, with), region_options(under, with));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, region_crash, testing::ValuesIn(cases_of(region_stories(), region_variants())),
                         name_of_case{});

INSTANTIATE_TEST_SUITE_P(straight, region_crash,
                         testing::ValuesIn(cases_of(straight_stories(), std::vector{region_variants().back()})),
                         name_of_case{});

class region_random_crash : public testing::TestWithParam<region_case> {};

TEST_P(region_random_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  explore::options o = region_options(under, with);
  o.exhaustive_max = 64;
  const std::uint64_t seed = 1000 * seed_from_environment() + static_cast<unsigned>(under);
  const report r = explore(random_region_subject(seed, 120, with), o);
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
std::vector<region_case> random_cases() {
  return cases_of(std::vector<region_story>{{.name = "random", .steps = nullptr, .on_ssd = true}}, region_variants());
}
INSTANTIATE_TEST_SUITE_P(calls, region_random_crash, testing::ValuesIn(random_cases()), name_of_case{});

}  // namespace
}  // namespace nvm::tests
