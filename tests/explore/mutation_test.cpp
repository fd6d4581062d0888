// Mutation of the trace: every fence and flush of the toy map is shown necessary, and what is not necessary is
// reported.
#include <gtest/gtest.h>

#include <cstdio>

#include "toy_subject.hpp"

namespace nvm::explore::toy {
namespace {

options for_mutants() {
  options o;
  o.tiers = t1_program_order | t2_all_low | t3_pairs | t5_single;
  o.nesting = 2;
  return o;
}

// What recovery orders for the life after it shows only where that life goes on.
std::vector<subject> map_and_its_restarts() {
  std::vector<subject> all{make_subject(bug::none)};
  workload again;
  again.operations = 6;
  for (auto& image : crashed_images(all[0], 3, 6)) {
    again.seed += 11;
    all.push_back(make_restarted_subject(bug::none, again, std::move(image)));
  }
  return all;
}

TEST(mutation, kills_every_fence_and_flush_of_the_toy_map_but_the_ones_that_are_not_needed) {
  const auto subjects = map_and_its_restarts();
  const mutation_report r = mutation_score(subjects, for_mutants());
  EXPECT_TRUE(r.clean());
  std::printf("%s", r.text().c_str());
  std::size_t fences = 0;
  for (const mutant& m : r.mutants) {
    if (m.change.what == mutation::kind::drop_fence) {
      ++fences;
      EXPECT_TRUE(m.killed) << m.change.text();
    }
  }
  EXPECT_EQ(fences, 6U);
  EXPECT_GE(r.mutants.size(), 12U);
  for (const mutant& m : r.mutants) EXPECT_TRUE(m.killed) << m.change.text();
}

TEST(mutation, reports_a_flush_that_nothing_needs_as_a_survivor) {
  subject s = make_subject(bug::none);
  const auto run = s.run;
  std::uint32_t line = 0;
  s.run = [=, &line](machine& m) {
    run(m);
    m.op_begin();
    line = __builtin_LINE() + 1;
    m.media().flush(m.base(), 8);
    m.media().fence(edge{"toy/idle"});
    m.op_end();
  };
  s.oracle = [](machine&, const window&) { return pass(); };
  const mutation_report r = mutation_score(s, for_mutants(), std::array{waiver{"toy/idle", "does nothing"}});
  bool survived = false;
  for (const mutant& m : r.mutants) {
    if (m.change.place.ends_with("mutation_test.cpp:" + std::to_string(line))) survived = !m.killed;
    if (m.change.place == "toy/idle") {
      EXPECT_EQ(m.waived, "does nothing");
    }
  }
  EXPECT_TRUE(survived);
  EXPECT_LT(r.score(), 1.0);
}

TEST(mutation, without_one_label_leaves_the_others_alone) {
  const subject s = make_subject(bug::none);
  options o = for_mutants();
  o.print_violations = false;
  EXPECT_TRUE(explore(s, o, without(edge{"toy/E1"})).finds_violation());
  EXPECT_TRUE(explore(s, o, without(edge{"toy/E3"})).finds_violation());
  EXPECT_TRUE(explore(s, o, without(edge{"toy/R1"})).finds_violation());
  EXPECT_TRUE(explore(s, o, without(edge{"no/such"})).clean());
  EXPECT_TRUE(explore(s, o).clean()) << "a mutation leaves nothing behind";
}

TEST(mutation, that_delays_a_flush_past_its_fence_is_found) {
  const subject s = make_subject(bug::none);
  options o = for_mutants();
  o.print_violations = false;
  const report base = explore(s, o);
  unsigned found = 0;
  unsigned flushes = 0;
  for (const place& p : base.places) {
    if (p.is_fence || p.count == 0) continue;
    ++flushes;
    found += explore(s, o, delayed_flush(p.text())).finds_violation() ? 1U : 0U;
  }
  EXPECT_GE(flushes, 6U);
  EXPECT_GE(found, flushes - 1) << "recovery's last flush is completed by no later fence within the run";
}

}  // namespace
}  // namespace nvm::explore::toy
