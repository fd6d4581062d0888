// The explorer reports every bug of the zoo, within seconds, and finds nothing wrong with the correct twins.
#include <gtest/gtest.h>

#include <cctype>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::model;
using explore::options;
using explore::report;

std::vector<entry> all_entries() {
  std::vector<entry> all(order_entries().begin(), order_entries().end());
  all.insert(all.end(), transaction_entries().begin(), transaction_entries().end());
  return all;
}

options options_of(const entry& e) {
  options o;
  o.persistency = e.persistency;
  o.tiers = e.tiers;
  o.nesting = e.nesting;
  o.rmw_fences = e.rmw_fences;
  o.instructions = e.instructions;
  o.print_violations = false;
  return o;
}

bool processor_lacks(const entry& e) {
  if (e.needs == nullptr) return false;
  FILE* f = std::fopen("/proc/cpuinfo", "r");
  if (f == nullptr) return true;
  bool has = false;
  char line[8192];
  while (!has && std::fgets(line, sizeof line, f) != nullptr)
    has = std::string{line}.find(e.needs) != std::string::npos;
  std::fclose(f);
  return !has;
}

class zoo : public testing::TestWithParam<entry> {
 protected:
  void SetUp() override {
    if (processor_lacks(GetParam())) GTEST_SKIP() << "the processor has no " << GetParam().needs;
  }
};

TEST_P(zoo, buggy_program_is_reported_by_the_technique_that_is_named_for_it) {
  const entry& e = GetParam();
  const report r = explore::explore(e.make(twin::buggy), options_of(e));
  EXPECT_EQ(r.finds_violation(), e.shows_in_images) << r.text();
  for (const finding::rule rule : e.breaks) EXPECT_TRUE(r.breaks_rule(rule)) << name_of(rule) << '\n' << r.text();
  EXPECT_LT(r.processor_seconds, 1.0);
}

TEST_P(zoo, correct_twin_is_clean) {
  const entry& e = GetParam();
  const subject s = e.make(twin::correct);
  options o = options_of(e);
  o.print_violations = true;
  o.tiers = explore::all_tiers;
  o.nesting = 2;
  for (const model m : {model::x86, model::torn8, model::eadr}) {
    if (m == model::torn8 && !e.correct_on_torn8) continue;
    o.persistency = m;
    const report r = explore::explore(s, o);
    EXPECT_TRUE(r.clean()) << r.text();
    EXPECT_TRUE(r.findings.empty()) << r.text();
  }
  if (!e.correct_on_torn8) {
    o.persistency = model::torn8;
    o.print_violations = false;
    EXPECT_TRUE(explore::explore(s, o).finds_violation()) << "this program relies on what only x86 promises";
  }
}

INSTANTIATE_TEST_SUITE_P(bug, zoo, testing::ValuesIn(all_entries()), [](const auto& i) {
  std::string name = std::to_string(i.index) + "_";
  name += i.param.number <= 20 ? "A" : "B";
  name += std::to_string(i.param.number);
  return name;
});

TEST(zoo_list, has_the_patterns_of_flushes_stores_transactions_and_logs) {
  std::vector<bool> there(31);
  for (const entry& e : all_entries()) there.at(e.number) = true;
  for (unsigned n = 1; n <= 30; ++n) EXPECT_TRUE(there[n]) << n;
}

}  // namespace
}  // namespace nvm::zoo
