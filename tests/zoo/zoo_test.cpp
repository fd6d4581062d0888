// Every bug of the zoo is reported, after few states, and nothing is found wrong with the correct twins.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::model;

std::vector<entry> all_entries() {
  const std::span<const entry> parts[]{
      order_entries(),      transaction_entries(), log_entries(),       allocator_entries(),  collector_entries(),
      counting_entries(),   concurrency_entries(), structure_entries(), recovery_entries(),   lifecycle_entries(),
      file_entries(),       device_entries(),      store_entries(),     names_entries(),      tier_entries(),
      collection_entries(), trim_entries(),        region_entries(),    relocation_entries(),
  };
  std::vector<entry> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

options options_of(const entry& e) {
  options o;
  o.persistency = e.persistency;
  o.tiers = e.tiers;
  o.nesting = e.nesting;
  o.rmw_fences = e.rmw_fences;
  o.instructions = e.instructions;
  o.steps_max = 1'000'000;  // these programs are small: what takes longer hangs
  o.print_violations = false;
  return o;
}

report look_at(const entry& e, twin t, const options& o) {
  if (e.hunt != nullptr) return e.hunt(t, o);
  if (e.threads == nullptr) return explore::explore(e.make(t), o);
  explore::schedule_options s;
  s.preemptions = e.preemptions + (is_buggy(t) ? 0 : 1);
  return explore::explore_schedules(e.threads(t), s, o).total;
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

// Far less than a second of work; the one that takes most has 13,267.
constexpr std::uint64_t states_max = 50'000;

class zoo : public testing::TestWithParam<entry> {
 protected:
  void SetUp() override {
    if (processor_lacks(GetParam())) GTEST_SKIP() << "the processor has no " << GetParam().needs;
  }
};

TEST_P(zoo, buggy_program_is_reported_by_the_technique_that_is_named_for_it) {
  const entry& e = GetParam();
  const report r = look_at(e, twin::buggy, options_of(e));
  const std::uint64_t tried = r.unique_states + r.duplicates;
  std::printf("%s: %" PRIu64 " states\n", e.title, tried);
  EXPECT_LT(tried, states_max);
  EXPECT_EQ(r.finds_violation(), e.shows_in_images) << r.text();
  for (const auto& v : r.violations) std::printf("%s: %s\n", e.title, v.what.c_str());
  for (const finding::rule rule : e.breaks) EXPECT_TRUE(r.breaks_rule(rule)) << name_of(rule) << '\n' << r.text();
}

TEST_P(zoo, buggy_program_takes_the_schedules_and_nested_crashes_that_are_named_for_it) {
  entry cheaper = GetParam();
  if (cheaper.threads != nullptr && cheaper.preemptions != 0) {
    --cheaper.preemptions;
  } else if (cheaper.nesting != 0) {
    --cheaper.nesting;
  } else {
    return;
  }
  const report r = look_at(cheaper, twin::buggy, options_of(cheaper));
  EXPECT_FALSE(r.finds_violation()) << r.text();
}

// Under all models of its kind, except for hunts, which look for something else.
std::vector<model> models_of(const entry& e) {
  if (e.hunt != nullptr || e.persistency == model::ssd) return {e.persistency};
  if (!e.correct_on_torn8) return {model::x86, model::eadr};
  return {model::x86, model::torn8, model::eadr};
}

TEST_P(zoo, correct_twin_is_clean) {
  const entry& e = GetParam();
  options o = options_of(e);
  o.print_violations = true;
  o.tiers = explore::all_tiers;
  o.nesting = e.threads == nullptr ? 2 : 1;
  for (const model m : models_of(e)) {
    o.persistency = m;
    const report r = look_at(e, twin::correct, o);
    EXPECT_TRUE(r.clean()) << r.text();
    // Whoever helps another thread may flush what that one has flushed already.
    EXPECT_TRUE(e.threads != nullptr ? !r.breaks_any_rule() : r.findings.empty()) << r.text();
  }
  if (!e.correct_on_torn8) {
    o.persistency = model::torn8;
    o.print_violations = false;
    EXPECT_TRUE(look_at(e, twin::correct, o).finds_violation()) << "this program relies on what only x86 promises";
  }
}

// The headings of the list.
char letter_of(unsigned number) {
  constexpr std::array<unsigned, 5> last{20, 39, 51, 63, 75};
  return static_cast<char>('A' + (std::lower_bound(last.begin(), last.end(), number) - last.begin()));
}

INSTANTIATE_TEST_SUITE_P(bug, zoo, testing::ValuesIn(all_entries()), [](const auto& i) {
  return std::to_string(i.index) + "_" + letter_of(i.param.number) + std::to_string(i.param.number);
});

TEST(zoo_list, has_every_pattern) {
  constexpr unsigned last = 127;
  std::vector<bool> there(128);
  for (const entry& e : all_entries()) {
    there.at(e.number) = true;
    EXPECT_EQ((e.make != nullptr) + (e.threads != nullptr) + (e.hunt != nullptr), 1) << e.title;
  }
  for (unsigned n = 1; n <= last; ++n) EXPECT_TRUE(there[n]) << n;
}

}  // namespace
}  // namespace nvm::zoo
