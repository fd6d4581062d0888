// Promises of the explorer to its users: determinism, replay, survival of faults and hangs, honest reports.
#include "explore/explore.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "toy_subject.hpp"

namespace nvm::explore {
namespace {

options quiet() {
  options o;
  o.print_violations = false;
  return o;
}

// Two words in two lines; the second must not be durable without the first.
struct pair {
  alignas(64) std::uint64_t data;
  alignas(64) std::uint64_t flag;
};
pair& pair_of(machine& m) { return *reinterpret_cast<pair*>(m.base()); }

subject publish(bool with_fence) {
  subject s;
  s.name = "publish";
  s.image.resize(sizeof(pair));
  s.run = [=](machine& m) {
    pair& p = pair_of(m);
    m.op_begin();
    p.data = 42;
    m.media().flush(&p.data, 8);
    if (with_fence) m.media().fence(edge{"publish/E1"});
    p.flag = 1;
    m.media().flush(&p.flag, 8);
    m.media().fence(edge{"publish/E2"});
    m.op_end();
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [](machine& m, const window& w) -> verdict {
    const pair& p = pair_of(m);
    if (p.flag == 1 && p.data != 42) return fault("published before it was written");
    if (w.promised == 1 && p.flag == 0) return fault("the operation was lost");
    return pass();
  };
  return s;
}

// Two mistakes at once, each in many states: the flag before the data, and a torn counter.
TEST(explorer, reports_each_kind_of_violation_once_and_counts_the_rest) {
  subject s;
  s.name = "two mistakes";
  s.image.resize(sizeof(pair));
  s.run = [](machine& m) {
    pair& p = pair_of(m);
    for (std::uint64_t i = 1; i <= 8; ++i) {
      m.op_begin();
      p.data = i;
      m.media().flush(&p.data, 8);
      p.flag = i;
      m.media().flush(&p.flag, 8);
      m.media().fence(edge{"two/E1"});
      m.op_end();
    }
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [](machine& m, const window&) -> verdict {
    const pair& p = pair_of(m);
    if (p.flag > p.data) return fault("the flag is ahead");
    if (p.data > p.flag) return fault("the data are ahead");
    return pass();
  };
  options o = quiet();
  o.one_of_each = true;
  o.violations_max = 0;
  unsigned told = 0;
  o.on_violation = [&](const violation&) { ++told; };
  const report r = explore(s, o);
  ASSERT_EQ(r.violations.size(), 2U);
  EXPECT_EQ(told, 2U);
  EXPECT_NE(r.violations[0].what, r.violations[1].what);
  EXPECT_GT(r.violations[0].count, 2U);
  EXPECT_EQ(r.violations[0].count + r.violations[1].count, r.bad_states);
  o.violations_max = 1;
  EXPECT_EQ(explore(s, o).violations.size(), 1U);
}

TEST(explorer, finds_a_missing_fence_and_names_both_stores_and_the_edge) {
  EXPECT_TRUE(explore(publish(true), quiet()).clean());
  const report r = explore(publish(false), quiet());
  ASSERT_EQ(r.violations.size(), 1U);
  const std::string& text = r.violations[0].report;
  EXPECT_NE(text.find("published before it was written"), std::string::npos) << text;
  EXPECT_NE(text.find("just before fence \"publish/E2\""), std::string::npos) << text;
  EXPECT_NE(text.find("explorer_test.cpp"), std::string::npos) << text;
  EXPECT_NE(text.find("missing edge"), std::string::npos) << text;
  EXPECT_NE(text.find("flushed, no fence yet"), std::string::npos) << text;
  EXPECT_NE(text.find("replay: NVM_REPLAY="), std::string::npos) << text;
}

TEST(explorer, gives_the_same_report_for_the_same_seed) {
  const subject s = toy::make_subject(toy::bug::no_fence_before_count);
  options o = quiet();
  o.violations_max = 5;
  o.seed = 99;
  const report a = explore(s, o);
  const report b = explore(s, o);
  EXPECT_EQ(a.unique_states, b.unique_states);
  EXPECT_EQ(a.duplicates, b.duplicates);
  ASSERT_EQ(a.violations.size(), b.violations.size());
  for (std::size_t i = 0; i < a.violations.size(); ++i) {
    EXPECT_EQ(a.violations[i].token, b.violations[i].token);
    EXPECT_EQ(a.violations[i].report, b.violations[i].report);
  }
}

class replayed : public testing::TestWithParam<toy::bug> {};

TEST_P(replayed, state_fails_again_in_the_same_way) {
  const subject s = toy::make_subject(GetParam());
  options o = quiet();
  o.nesting = 2;
  o.violations_max = 4;
  const report found = explore(s, o);
  ASSERT_FALSE(found.violations.empty());
  for (const violation& v : found.violations) {
    ASSERT_FALSE(v.token.empty());
    ASSERT_LE(v.token.size(), 64U);
    const auto again = replay(s, v.token, o);
    ASSERT_TRUE(again.has_value()) << v.report;
    ASSERT_EQ(again->violations.size(), 1U) << v.report;
    EXPECT_EQ(again->unique_states, 1U);
    EXPECT_EQ(again->violations[0].what, v.what);
    EXPECT_EQ(again->violations[0].depth, v.depth);
  }
}

INSTANTIATE_TEST_SUITE_P(toy_map, replayed,
                         testing::Values(toy::bug::no_fence_before_count, toy::bug::head_not_logged,
                                         toy::bug::recovery_clears_log_first, toy::bug::second_line_not_flushed),
                         [](const auto& i) { return std::to_string(static_cast<unsigned>(i.param)); });

TEST(replay, needs_the_mutation_that_made_the_state) {
  const subject s = toy::make_subject(toy::bug::none);
  const mutation m = without(edge{"toy/E3"});
  const report found = explore(s, quiet(), m);
  ASSERT_FALSE(found.violations.empty());
  const std::string& token = found.violations[0].token;
  const auto again = replay(s, token, quiet(), m);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->finds_violation());
  EXPECT_FALSE(replay(s, token, quiet()).has_value());
  EXPECT_FALSE(replay(toy::make_subject(toy::bug::head_not_logged), token, quiet(), m).has_value());
  EXPECT_FALSE(replay(s, "rubbish", quiet()).has_value());
}

// A subject whose recovery does something bad when the flag is set.
subject with_recovery(std::function<verdict(machine&)> recover) {
  subject s = publish(true);
  s.recover = [=](machine& m) { return pair_of(m).flag == 1 ? recover(m) : pass(); };
  return s;
}

std::string what_is_found(const subject& s, options o = quiet()) {
  const report r = explore(s, o);
  return r.violations.empty() ? "nothing" : r.violations[0].what;
}

TEST(explorer, survives_a_fault_in_recovery_and_reports_it) {
  const std::string what = what_is_found(with_recovery([](machine& m) {
    *reinterpret_cast<volatile int*>(m.base() + m.size() + 4096) = 1;
    return pass();
  }));
  EXPECT_NE(what.find("recovery faults: SIGSEGV"), std::string::npos) << what;
}

TEST(explorer, survives_a_division_by_zero_and_reports_it) {
  const std::string what = what_is_found(with_recovery([](machine& m) {
    volatile std::uint64_t zero = pair_of(m).flag - 1;
    pair_of(m).data = pair_of(m).data / zero;
    return pass();
  }));
  EXPECT_NE(what.find("SIGFPE"), std::string::npos) << what;
}

TEST(explorer, survives_a_failed_assertion_and_reports_it) {
  const std::string what = what_is_found(with_recovery([](machine&) -> verdict { std::abort(); }));
  EXPECT_NE(what.find("recovery aborts"), std::string::npos) << what;
}

TEST(explorer, survives_an_exception_and_reports_it) {
  const std::string what =
      what_is_found(with_recovery([](machine&) -> verdict { throw std::runtime_error("no way"); }));
  EXPECT_NE(what.find("recovery throws: no way"), std::string::npos) << what;
}

TEST(explorer, ends_an_endless_recovery_at_a_number_of_steps) {
  options o = quiet();
  o.steps_max = 10'000;
  const subject s = with_recovery([](machine& m) {
    while (pair_of(m).flag == 1) std::atomic_signal_fence(std::memory_order_seq_cst);
    return pass();
  });
  const std::string what = what_is_found(s, o);
  EXPECT_NE(what.find("recovery does not end: 10000 steps"), std::string::npos) << what;
}

[[gnu::noinline]] std::uint64_t descend(machine& m, std::uint64_t n) {
  volatile std::uint64_t own[64] = {n};
  return pair_of(m).flag == 0 ? 0 : descend(m, n + 1) + own[0];
}

TEST(explorer, survives_endless_recursion_and_reports_it) {
  options o = quiet();
  o.steps_max = INT64_MAX / 2;
  const std::string what = what_is_found(with_recovery([](machine& m) {
                                           pair_of(m).data = descend(m, 0);
                                           return pass();
                                         }),
                                         o);
  EXPECT_NE(what.find("recovery faults: SIGSEGV"), std::string::npos) << what;
}

TEST(explorer, finds_a_recovery_that_is_not_idempotent) {
  subject s = with_recovery([](machine& m) {
    pair_of(m).data += 0;
    pair& p = pair_of(m);
    reinterpret_cast<std::uint64_t*>(&p.flag)[1] += 1;
    return pass();
  });
  options o = quiet();
  o.idempotence_every = 1;
  EXPECT_NE(what_is_found(s, o).find("not idempotent"), std::string::npos);
  s.volatile_bytes = {{offsetof(pair, flag) + 8, 8}};
  EXPECT_EQ(what_is_found(s, o), "nothing");
}

TEST(explorer, finds_what_only_the_life_after_recovery_shows) {
  subject s = publish(true);
  s.recover = [](machine& m) {
    if (pair_of(m).flag == 1) reinterpret_cast<std::uint64_t*>(&pair_of(m).flag)[1] = 7;  // a lock left held
    return pass();
  };
  s.after = [](machine& m, const window&) -> verdict {
    return reinterpret_cast<std::uint64_t*>(&pair_of(m).flag)[1] == 0 ? pass() : fault("the lock is still held");
  };
  options o = quiet();
  o.after_every = 1;
  EXPECT_NE(what_is_found(s, o).find("life after recovery: the lock is still held"), std::string::npos);
}

NVM_NO_RECORD void store_unseen(std::byte* p) { *p = std::byte{1}; }

TEST(explorer, refuses_code_that_stores_behind_its_back) {
  subject s = toy::make_subject(toy::bug::none);
  s.oracle = [](machine& m, const window&) {
    store_unseen(m.base() + m.size() - 1);
    return pass();
  };
  EXPECT_THROW((void)explore(s, quiet()), std::logic_error);
}

TEST(explorer, stops_at_its_budget_and_says_so) {
  options o = quiet();
  o.states_max = 100;
  const report r = explore(toy::make_subject(toy::bug::none), o);
  EXPECT_TRUE(r.budget_spent);
  EXPECT_LE(r.unique_states, 101U);
}

TEST(explorer, spends_less_on_later_points_of_a_label_when_told_to) {
  options o = quiet();
  o.nesting = 0;
  const report all = explore(toy::make_subject(toy::bug::none), o);
  o.full_points_max = 4;
  const report some = explore(toy::make_subject(toy::bug::none), o);
  EXPECT_LT(some.unique_states, all.unique_states);
  EXPECT_EQ(some.crash_points, all.crash_points);
  EXPECT_TRUE(explore(toy::make_subject(toy::bug::no_fence_before_count), o).finds_violation());
}

TEST(explorer, tries_every_state_of_a_long_run) {
  toy::workload w;
  w.operations = 3000;
  options o = quiet();
  o.nesting = 0;
  o.random_rows = 32;
  o.rules = false;
  const report r = explore(toy::make_subject(toy::bug::none, w), o);
  EXPECT_TRUE(r.clean());
  EXPECT_GT(r.unique_states, 300'000U);
  std::printf("%.0f states a second of processor time\n", r.states_per_processor_second());
}

TEST(explorer, tries_more_images_at_greater_depth) {
  options o = quiet();
  std::uint64_t last = 0;
  for (unsigned depth = 0; depth <= 3; ++depth) {
    o.nesting = depth;
    const report r = explore(toy::make_subject(toy::bug::none), o);
    EXPECT_TRUE(r.clean());
    // At the third level all images of this map have been seen at the second.
    EXPECT_GE(r.unique_states, depth == 3 ? last : last + 1);
    last = r.unique_states;
  }
}

TEST(explorer, obliges_to_nothing_before_a_promise_when_operations_do_not_promise) {
  subject s = publish(true);
  s.oracle = [](machine& m, const window& w) -> verdict {
    return w.promised == 1 && pair_of(m).flag == 0 ? fault("lost") : pass();
  };
  s.run = [](machine& m) {
    m.op_begin();
    pair_of(m).flag = 1;
    m.op_end();
    m.media().flush(&pair_of(m).flag, 8);
    m.media().fence(edge{"publish/E2"});
    m.promise();
  };
  options o = quiet();
  EXPECT_EQ(what_is_found(s, o), "oracle: lost");
  o.promise_at_op_end = false;
  EXPECT_EQ(what_is_found(s, o), "nothing");
}

TEST(explorer, keeps_one_thread_from_completing_the_flushes_of_another) {
  subject s = publish(true);
  s.run = [](machine& m) {
    pair& p = pair_of(m);
    m.op_begin();
    p.data = 42;
    m.media().flush(&p.data, 8);
    m.thread(1);
    m.media().fence(edge{"publish/E1"});
    m.thread(0);
    p.flag = 1;
    m.media().flush(&p.flag, 8);
    m.media().fence(edge{"publish/E2"});
    m.op_end();
  };
  EXPECT_EQ(what_is_found(s), "oracle: published before it was written");
}

TEST(explorer, refuses_an_image_that_is_not_whole_lines) {
  subject s = publish(true);
  s.image.resize(100);
  EXPECT_THROW((void)explore(s, quiet()), std::invalid_argument);
}

}  // namespace
}  // namespace nvm::explore
