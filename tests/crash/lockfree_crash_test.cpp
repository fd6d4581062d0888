// Lock-free structures survive a crash at any point, on each medium and under each model of it: what was done is there,
// nothing is allocated that nothing leads to, and they can be worked on.
#include <gtest/gtest.h>

#include <cstdio>

#include "lockfree_random.hpp"
#include "lockfree_stories.hpp"
#include "random_seed.hpp"
#include "scenarios.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct on_model {
  lockfree_story of;
  lockfree_variant with;
  model under;
};
std::string name_of_case(const testing::TestParamInfo<on_model>& i) {
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + i.param.with.name;
}
std::vector<on_model> cases() {
  std::vector<on_model> all;
  for (const lockfree_story& s : lockfree_stories()) {
    for (const lockfree_variant& v : lockfree_variants()) {
      if (v.image) {
        if (s.on_ssd) all.push_back({s, v, model::ssd});
        continue;
      }
      for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({s, v, m});
    }
  }
  return all;
}

class lockfree_crash : public testing::TestWithParam<on_model> {};

TEST_P(lockfree_crash, loses_nothing_and_leaks_nothing) {
  const auto& [of, with, under] = GetParam();
  const report r = explore(subject_of(of, with), lockfree_options(under, with));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, lockfree_crash, testing::ValuesIn(cases()), name_of_case);

class lockfree_random_crash : public testing::TestWithParam<on_model> {};

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
std::vector<on_model> random_cases() {
  std::vector<on_model> all;
  for (const lockfree_variant& v : lockfree_variants()) {
    if (v.image) {
      all.push_back({{"random", nullptr}, v, model::ssd});
      continue;
    }
    for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({{"random", nullptr}, v, m});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(calls, lockfree_random_crash, testing::ValuesIn(random_cases()), name_of_case);

}  // namespace
}  // namespace nvm::tests
