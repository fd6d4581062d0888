// The tester tested: each seeded bug is found by the tier that ought to find it, and the map without them passes.
#include <gtest/gtest.h>

#include <cstdio>

#include "toy_subject.hpp"

namespace nvm::explore::toy {
namespace {

constexpr unsigned up_to_t1 = t1_program_order;
constexpr unsigned up_to_t2 = up_to_t1 | t2_all_low;
constexpr unsigned up_to_t3 = up_to_t2 | t3_pairs;

options quick(model m, unsigned tiers, unsigned nesting) {
  options o;
  o.persistency = m;
  o.tiers = tiers;
  o.nesting = nesting;
  o.print_violations = false;
  return o;
}

struct expectation {
  bug which;
  unsigned cheapest;  // tiers that find it; those before do not
  unsigned nesting;
};
constexpr expectation expectations[] = {
    {bug::no_fence_before_count, up_to_t3, 0},    {bug::changes_not_flushed, up_to_t2, 0},
    {bug::head_not_logged, up_to_t1, 0},          {bug::commit_not_flushed, up_to_t2, 0},
    {bug::free_head_not_logged, up_to_t1, 0},     {bug::undo_oldest_first, up_to_t1, 0},
    {bug::second_line_not_flushed, up_to_t2, 0},  {bug::recovery_clears_log_first, up_to_t1, 1},
    {bug::node_not_flushed, up_to_t2, 0},         {bug::free_count_not_logged, up_to_t1, 0},
    {bug::no_fence_before_truncate, up_to_t3, 0}, {bug::last_block_not_logged, up_to_t1, 0},
};

class seeded_bug : public testing::TestWithParam<expectation> {};

TEST_P(seeded_bug, is_found_by_its_tier_and_not_by_a_cheaper_one) {
  const expectation& e = GetParam();
  const subject s = make_subject(e.which);
  const report found = explore(s, quick(model::x86, e.cheapest, e.nesting));
  EXPECT_TRUE(found.finds_violation()) << found.text();
  ASSERT_FALSE(found.violations.empty());
  EXPECT_LE(found.violations[0].token.size(), 64U);
  if (e.nesting != 0) {
    EXPECT_TRUE(explore(s, quick(model::x86, all_tiers, 0)).clean()) << "only a crash inside recovery shows this bug";
  } else if (e.cheapest != up_to_t1) {
    const unsigned cheaper = e.cheapest == up_to_t3 ? up_to_t2 : up_to_t1;
    EXPECT_TRUE(explore(s, quick(model::x86, cheaper, 0)).clean());
  }
}

TEST_P(seeded_bug, is_found_under_torn_words_too) {
  const expectation& e = GetParam();
  const report found = explore(make_subject(e.which), quick(model::torn8, all_tiers & ~t6_exhaustive, e.nesting));
  EXPECT_TRUE(found.finds_violation()) << found.text();
}

INSTANTIATE_TEST_SUITE_P(toy_map, seeded_bug, testing::ValuesIn(expectations),
                         [](const auto& i) { return std::to_string(static_cast<unsigned>(i.param.which)); });

class correct_map : public testing::TestWithParam<model> {};

TEST_P(correct_map, survives_every_explored_crash) {
  for (std::uint64_t seed : {7U, 8U, 9U}) {
    workload w;
    w.seed = seed;
    options o = quick(GetParam(), all_tiers, 3);
    o.seed = seed;
    o.print_violations = true;
    o.states_max = 1'000'000;
    const report r = explore(make_subject(bug::none, w), o);
    EXPECT_TRUE(r.clean()) << r.text();
    EXPECT_GT(r.unique_states, GetParam() == model::eadr ? 1'000U : 20'000U);
    EXPECT_FALSE(r.breaks_any_rule()) << r.text();
    std::printf("%s", r.text().c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(models, correct_map, testing::Values(model::x86, model::torn8, model::eadr),
                         [](const auto& i) { return name_of(i.param); });

}  // namespace
}  // namespace nvm::explore::toy
