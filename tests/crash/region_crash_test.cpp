// Regions survive a crash at any point, on each medium and under each model of it: what was done is there all or not at
// all, no page is nobody's, and they can be worked on.
#include <gtest/gtest.h>

#include <cstdio>

#include "random_seed.hpp"
#include "region_random.hpp"
#include "region_stories.hpp"
#include "scenarios.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct on_model {
  region_story of;
  region_variant with;
  model under;
};
std::string name_of_case(const testing::TestParamInfo<on_model>& i) {
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + i.param.with.name;
}
std::vector<on_model> cases() {
  std::vector<on_model> all;
  for (const region_story& s : region_stories()) {
    for (const region_variant& v : region_variants()) {
      if (v.image) {
        if (s.on_ssd) all.push_back({s, v, model::ssd});
        continue;
      }
      for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({s, v, m});
    }
  }
  return all;
}

class region_crash : public testing::TestWithParam<on_model> {};

TEST_P(region_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  const report r = explore(subject_of(of, with), region_options(under, with));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, region_crash, testing::ValuesIn(cases()), name_of_case);

class region_random_crash : public testing::TestWithParam<on_model> {};

TEST_P(region_random_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  explore::options o = region_options(under, with);
  o.exhaustive_max = 64;
  const std::uint64_t seed = 1000 * seed_from_environment() + static_cast<unsigned>(under);
  const report r = explore(random_region_subject(seed, 120, with), o);
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
std::vector<on_model> random_cases() {
  std::vector<on_model> all;
  for (const region_variant& v : region_variants()) {
    if (v.image) {
      all.push_back({{"random", nullptr}, v, model::ssd});
      continue;
    }
    for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({{"random", nullptr}, v, m});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(calls, region_random_crash, testing::ValuesIn(random_cases()), name_of_case);

}  // namespace
}  // namespace nvm::tests
