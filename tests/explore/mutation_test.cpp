// Mutation of the trace: every fence and flush of the toy map is shown necessary, and unnecessary ones are reported.
#include <gtest/gtest.h>

#include <array>
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

// Each place of the subject, left out.
std::vector<mutation> all_mutations(const report& of_original) {
  std::vector<mutation> all;
  for (const place& p : of_original.places) {
    if (p.count == 0) continue;
    mutation m;
    m.what = p.kind == place_kind::fence ? mutation::kind::drop_fence : mutation::kind::drop_flush;
    m.place = p.text();
    all.push_back(m);
  }
  return all;
}

TEST(mutation, explored_after_the_original_comes_to_the_states_that_it_comes_to_alone) {
  options o = for_mutants();
  o.print_violations = false;
  o.rules = false;
  for (const model under : {model::x86, model::torn8}) {
    o.persistency = under;
    for (const unsigned all_tiers_at : {0U, 3U}) {
      o.full_points_max = all_tiers_at;
      for (const subject& s : map_and_its_restarts()) {
        exploration with(s, o);
        const report original = with.original();
        EXPECT_TRUE(original.clean());
        std::uint64_t shared = 0;
        for (const mutation& m : all_mutations(original)) {
          const report alone = explore(s, o, m);
          const report after = with.without(m);
          EXPECT_EQ(after.unique_states, alone.unique_states) << m.text();
          EXPECT_EQ(after.nested_states, alone.nested_states) << m.text();
          EXPECT_EQ(after.duplicates, alone.duplicates) << m.text();
          EXPECT_EQ(after.crash_points, alone.crash_points) << m.text();
          ASSERT_EQ(after.violations.size(), alone.violations.size()) << m.text();
          for (std::size_t i = 0; i < after.violations.size(); ++i) {
            EXPECT_EQ(after.violations[i].report, alone.violations[i].report);
          }
          shared += after.judged_before;
        }
        EXPECT_GT(shared, 0U);
      }
    }
  }
}

TEST(mutation, that_delays_a_flush_past_its_fence_is_found) {
  const subject s = make_subject(bug::none);
  options o = for_mutants();
  o.print_violations = false;
  const report base = explore(s, o);
  unsigned found = 0;
  unsigned flushes = 0;
  for (const place& p : base.places) {
    if (p.kind == place_kind::fence || p.count == 0) continue;
    ++flushes;
    found += explore(s, o, delayed_flush(p.text())).finds_violation() ? 1U : 0U;
  }
  EXPECT_GE(flushes, 6U);
  EXPECT_GE(found, flushes - 1) << "recovery's last flush is completed by no later fence within the run";
}

// Two words, the first durable before the second. Nobody minds the second alone until the next process finds it.
struct two_words {
  std::uint64_t first;
  std::uint64_t second;
  std::uint64_t harm;
};
two_words* words_of(machine& m) { return reinterpret_cast<two_words*>(m.base()); }

subject words(std::vector<std::byte> start, std::function<void(machine&)> run) {
  subject s;
  s.name = "two words";
  s.image = std::move(start);
  s.run = std::move(run);
  s.recover = [](machine&) { return pass(); };
  s.oracle = [](machine& m, const window&) { return words_of(m)->harm == 0 ? pass() : fault("harm was done"); };
  return s;
}
two_crashes words_and_the_next_process() {
  two_crashes s;
  s.first = words(std::vector<std::byte>(64), [](machine& m) {
    m.op_begin();
    words_of(m)->first = 1;
    m.media().flush(&words_of(m)->first, 8);
    m.media().fence(edge{"words/E1"});
    words_of(m)->second = 1;
    m.media().flush(&words_of(m)->second, 8);
    m.media().fence(edge{"words/E2"});
    m.op_end();
  });
  s.wanted = [](const machine& m, const window&) { return m.base()[8] == std::byte{1}; };
  s.then = [](std::vector<std::byte> image) {
    return words(std::move(image), [](machine& m) {
      if (words_of(m)->second == 1 && words_of(m)->first == 0) words_of(m)->harm = 1;
    });
  };
  return s;
}

TEST(mutation, that_one_crash_does_not_show_is_killed_by_two) {
  options o = for_mutants();
  o.persistency = model::torn8;
  o.print_violations = false;
  const two_crashes both = words_and_the_next_process();
  EXPECT_TRUE(explore(both, o).clean());
  EXPECT_TRUE(explore(both.first, o, without(edge{"words/E1"})).clean());
  EXPECT_TRUE(explore(both, o, without(edge{"words/E1"})).finds_violation());
  const mutation_report r = mutation_score(std::array{both.first}, o, {}, std::array{both});
  EXPECT_TRUE(r.clean());
  for (const mutant& m : r.mutants) {
    EXPECT_EQ(m.killed, m.took_two_crashes) << m.change.text();
  }
  EXPECT_EQ(r.mutants.size(), 4U);
  EXPECT_EQ(r.killed(), 2U) << r.text();
  EXPECT_EQ(r.unexplained(), 2U) << "the oracle asks for no durability";
}

TEST(explorer, looks_at_an_image_before_its_recovery) {
  subject s = words_and_the_next_process().first;
  // What recovery would put right is still wrong at this point.
  s.recover = [](machine& m) {
    words_of(m)->second = words_of(m)->first = 1;
    return pass();
  };
  s.before = [](machine& m, const window& w) {
    return w.promised == 1 && words_of(m)->second == 0 ? fault("the second word is not there") : pass();
  };
  options o = for_mutants();
  o.print_violations = false;
  EXPECT_TRUE(explore(s, o).clean());
  const report r = explore(s, o, without(edge{"words/E2"}));
  ASSERT_TRUE(r.finds_violation());
  EXPECT_NE(r.violations[0].what.find("before recovery: the second word"), std::string::npos) << r.violations[0].what;
}

}  // namespace
}  // namespace nvm::explore::toy
