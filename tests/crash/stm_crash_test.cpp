// Barrier transactions survive a crash at any point, over each engine, medium and model of it: the stories of announced
// stores, and their own.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

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
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + name_of(i.param.on);
}
std::vector<on_model> cases() {
  std::vector<on_model> all;
  const auto add = [&](const scenario& s) {
    if (!s.on_stm) return;
    for (const model m : each_model) {
      for (const auto& kind : kinds_that([&](const auto& k) { return is_stm(k) && k.part.stories.has(m); })) {
        if (is_image(kind) ? s.on_ssd : s.on_direct) all.push_back({s, kind, m});
      }
    }
  };
  for (const scenario& s : barrier_scenarios()) add(s);
  for (const scenario& s : all_scenarios()) add(s);
  return all;
}

class stm_crash : public testing::TestWithParam<on_model> {};

TEST_P(stm_crash, leaves_all_or_nothing) {
  const auto& [of, on, under] = GetParam();
  const report r = explore_today(subject_of(of, on), options_for(under));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, stm_crash, testing::ValuesIn(cases()), name_of_case);

// Barrier transactions have no fence of their own.  Those of the engine below are missed through them as well.
std::set<std::string> labels_needed(const kind_of_medium& on) {
  if (is_image(on)) return {"image/E1", "image/E2", "image/E3", "image/E4", "replay/E1"};
  switch (on.log) {
    case log_kind::lanes:
      return {"undo/E1", "undo/E2", "undo/E3", "undo/E4", "undo/E5", "lane/E1", "lane/E2", "lane/E3", "recover/E1"};
    case log_kind::rings:
      return {"redo/E1", "redo/E2", "redo/E4", "redo/E5", "redo/E6", "redo/E8", "recover/E6", "recover/E7"};
    case log_kind::new_words:
      return {"mnemosyne/E1", "mnemosyne/E3", "mnemosyne/E4", "mnemosyne/E8", "mnemosyne/E9"};
    case log_kind::old_words:
      return {"mnemosyne/E1", "mnemosyne/E3", "mnemosyne/E4", "mnemosyne/E5", "mnemosyne/E6", "mnemosyne/E8"};
    case log_kind::none:
      break;
  }
  return {};
}
class stm_fences : public testing::TestWithParam<kind_of_medium> {};

std::set<std::string> labels_met(const report& r) {
  std::set<std::string> met;
  for (const auto& p : r.places) {
    if (p.kind == explore::place_kind::fence && p.count != 0) met.insert(p.name);
  }
  return met;
}

TEST_P(stm_fences, of_the_engine_are_necessary) {
  const kind_of_medium on = GetParam();
  const model under = is_image(on) ? model::ssd : model::torn8;
  std::set<std::string> wanted = labels_needed(on);
  EXPECT_FALSE(wanted.empty());
  for (const auto* stories : {&barrier_scenarios(), &all_scenarios()}) {
    for (const scenario& s : *stories) {
      if (wanted.empty()) break;
      if (!s.on_stm || !(is_image(on) ? s.on_ssd : s.on_direct)) continue;
      const explore::subject story = subject_of(s, on);
      explore::exploration e(story, options_for(under));
      const auto here = labels_met(e.original());
      std::erase_if(wanted, [&](const std::string& label) {
        return here.contains(label) && e.without(explore::without(edge{label.c_str()})).finds_violation();
      });
    }
  }
  for (const std::string& label : wanted) ADD_FAILURE() << label << " is not missed";
}
INSTANTIATE_TEST_SUITE_P(on, stm_fences,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.missed_by_label; })),
                         [](const auto& i) { return name_of(i.param); });

}  // namespace
}  // namespace nvm::tests
