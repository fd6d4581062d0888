// Transactions survive a crash at any point, on each medium and under each model of it.
#include <gtest/gtest.h>

#include <cstdio>

#include "scenarios.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct on_model {
  scenario of;
  kind_of_medium on;
  model under;
};
std::string name_of_case(const testing::TestParamInfo<on_model>& i) {
  const kind_of_medium on = i.param.on;
  const bool first = on == kind_of_medium::direct || on == kind_of_medium::image;
  const std::string engine = first ? "" : std::string{"_"} + name_of(on);
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + engine;
}
std::vector<on_model> cases() {
  std::vector<on_model> all;
  for (const scenario& s : all_scenarios()) {
    for (const model m : each_model) {
      for (const auto& kind : kinds_that([&](const auto& k) { return !is_stm(k) && k.part.stories.has(m); })) {
        if (is_image(kind) ? s.on_ssd : s.on_direct) all.push_back({s, kind, m});
      }
    }
  }
  return all;
}

class tx_crash : public testing::TestWithParam<on_model> {};

TEST_P(tx_crash, leaves_all_or_nothing) {
  const auto& [of, on, under] = GetParam();
  const report r = explore_today(subject_of(of, on), options_for(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(scenarios, tx_crash, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace nvm::tests
