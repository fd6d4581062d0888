// Object stores survive a crash at any point of their life, on each medium and under each model of it; and their calls
// take the fences that the sources promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "store_player.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::report;

struct store_case {
  store_story of;
  store_ground on;
  model under;
};
std::string name_of_store_case(const testing::TestParamInfo<store_case>& i) {
  std::string name = i.param.of.name;
  std::ranges::replace_if(name, [](char c) { return c == ' ' || c == ','; }, '_');
  return name + "_" + explore::name_of(i.param.under) + "_" + name_of(i.param.on);
}
std::vector<store_case> store_cases() {
  std::vector<store_case> all;
  for (const store_story& s : store_stories()) {
    for (const model m : {model::x86, model::torn8, model::eadr}) all.push_back({s, store_ground::undo, m});
    for (const model m : {model::x86, model::torn8}) {
      if (s.on_others) all.push_back({s, store_ground::redo, m});
    }
    for (const store_ground g : {store_ground::mnemosyne, store_ground::mnemosyne_undo}) {
      if (s.on_others) all.push_back({s, g, model::torn8});
    }
    if (s.on_ssd) all.push_back({s, store_ground::ssd, model::ssd});
  }
  return all;
}

class store_crash : public testing::TestWithParam<store_case> {};
TEST_P(store_crash, leaves_all_or_nothing) {
  const auto& [of, on, under] = GetParam();
  const report r = explore_today(store_subject(of, on), store_options(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, store_crash, testing::ValuesIn(store_cases()), name_of_store_case);

}  // namespace
}  // namespace nvm::tests
