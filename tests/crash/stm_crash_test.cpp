// Barrier transactions survive a crash at any point, over each engine, medium and model of it: the stories of announced
// stores, and their own.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "scenarios.hpp"

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
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + name_of(i.param.on);
}
std::vector<on_model> cases() {
  std::vector<on_model> all;
  const auto add = [&](const scenario& s) {
    if (!s.on_stm) return;
    if (s.on_direct) {
      for (const model m : {model::x86, model::torn8, model::eadr}) {
        for (const auto kind :
             {kind_of_medium::stm_direct, kind_of_medium::stm_direct_back, kind_of_medium::stm_redo,
              kind_of_medium::stm_redo_by_mark, kind_of_medium::stm_mnemosyne, kind_of_medium::stm_mnemosyne_undo}) {
          // What the engines below do under each model is tried without barriers, in tx_crash_test; ./dev explore tries
          // all models with them, too.
          if (m == model::torn8 || kind == kind_of_medium::stm_direct || kind == kind_of_medium::stm_redo) {
            all.push_back({s, kind, m});
          }
        }
      }
    }
    if (s.on_ssd) all.push_back({s, kind_of_medium::stm_image, model::ssd});
  };
  for (const scenario& s : barrier_scenarios()) add(s);
  for (const scenario& s : all_scenarios()) add(s);
  return all;
}

class stm_crash : public testing::TestWithParam<on_model> {};

TEST_P(stm_crash, leaves_all_or_nothing) {
  const auto& [of, on, under] = GetParam();
  const report r = explore(subject_of(of, on), options_for(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, stm_crash, testing::ValuesIn(cases()), name_of_case);

// Barrier transactions have no fence of their own.  Those of the engine below are missed through them as well.
struct needed {
  kind_of_medium on;
  model under;
  std::set<std::string> labels;
};
class stm_fences : public testing::TestWithParam<needed> {};

std::set<std::string> labels_met(const report& r) {
  std::set<std::string> met;
  for (const auto& p : r.places) {
    if (p.kind == explore::place_kind::fence && p.count != 0) met.insert(p.name);
  }
  return met;
}

TEST_P(stm_fences, of_the_engine_are_necessary) {
  const auto& [on, under, labels] = GetParam();
  std::set<std::string> missed;
  std::set<std::string> met;
  for (const auto* stories : {&barrier_scenarios(), &all_scenarios()}) {
    for (const scenario& s : *stories) {
      if (!s.on_stm || !(is_image(on) ? s.on_ssd : s.on_direct)) continue;
      explore::options o = options_for(under);
      const auto here = labels_met(explore(subject_of(s, on), o));
      o.print_violations = false;
      for (const std::string& label : here) {
        met.insert(label);
        if (missed.contains(label)) continue;
        if (explore(subject_of(s, on), o, explore::without(edge{label.c_str()})).finds_violation())
          missed.insert(label);
      }
    }
  }
  for (const std::string& label : labels) EXPECT_TRUE(missed.contains(label)) << label;
  std::string text;
  for (const std::string& label : met) text += (missed.contains(label) ? " " : " -") + label;
  std::printf("met and missed, - not missed:%s\n", text.c_str());
}
INSTANTIATE_TEST_SUITE_P(
    on, stm_fences,
    testing::Values(
        needed{kind_of_medium::stm_direct,
               model::torn8,
               {"undo/E1", "undo/E2", "undo/E3", "undo/E4", "undo/E5", "lane/E1", "lane/E2", "lane/E3", "recover/E1"}},
        needed{kind_of_medium::stm_redo,
               model::torn8,
               {"redo/E1", "redo/E2", "redo/E4", "redo/E5", "redo/E6", "redo/E8", "recover/E6", "recover/E7"}},
        needed{kind_of_medium::stm_mnemosyne,
               model::torn8,
               {"mnemosyne/E1", "mnemosyne/E3", "mnemosyne/E4", "mnemosyne/E8", "mnemosyne/E9"}},
        needed{kind_of_medium::stm_mnemosyne_undo,
               model::torn8,
               {"mnemosyne/E1", "mnemosyne/E3", "mnemosyne/E4", "mnemosyne/E5", "mnemosyne/E6", "mnemosyne/E8"}},
        needed{kind_of_medium::stm_image, model::ssd, {"image/E1", "image/E2", "image/E3", "image/E4", "replay/E1"}}),
    [](const auto& i) { return name_of(i.param.on); });

}  // namespace
}  // namespace nvm::tests
