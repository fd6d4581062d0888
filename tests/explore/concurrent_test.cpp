// Threads as fibers: schedules are enumerated as promised, the same schedule gives the same run, and bugs that need a
// schedule and a crash are found, in a durable lock-free stack with a switch for each.
#include "explore/concurrent.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <set>

#include "explore/linearize.hpp"
#include "explore/scheduler.hpp"

namespace nvm::explore {
namespace {

// ---- scheduler ------------------------------------------------------------------------------------------------------

std::vector<std::function<void(machine&)>> counting_threads(std::size_t threads, std::size_t points,
                                                            std::string& order) {
  std::vector<std::function<void(machine&)>> bodies;
  for (std::size_t t = 0; t < threads; ++t) {
    bodies.push_back([=, &order](machine& m) {
      for (std::size_t i = 0; i < points; ++i) {
        order += static_cast<char>('a' + t);
        m.yield();
      }
      order += static_cast<char>('A' + t);
    });
  }
  return bodies;
}

std::size_t schedules_of(std::size_t threads, std::size_t points, unsigned preemptions) {
  machine m(64);
  std::string order;
  const auto bodies = counting_threads(threads, points, order);
  scheduler s;
  bounded_chooser c(preemptions);
  std::set<std::string> seen;
  do {
    order.clear();
    s.run(m, bodies, c, nullptr);
    EXPECT_EQ(order.size(), threads * (points + 1));
    EXPECT_TRUE(seen.insert(order).second) << "schedule " << order << " was run twice";
  } while (c.next());
  return seen.size();
}

TEST(scheduler, without_preemption_runs_every_order_of_the_threads) {
  EXPECT_EQ(schedules_of(2, 3, 0), 2U);
  EXPECT_EQ(schedules_of(3, 3, 0), 6U);
  EXPECT_EQ(schedules_of(4, 1, 0), 24U);
}

TEST(scheduler, with_one_preemption_of_two_threads_switches_at_each_point) {
  // Either thread first; no preemption, or one at any of its three points or at those of the other one that runs on.
  EXPECT_EQ(schedules_of(2, 3, 1), 2U * (1 + 3));
}

TEST(scheduler, with_enough_preemptions_runs_every_interleaving) {
  // Two threads of three pieces each: C(6, 3).
  EXPECT_EQ(schedules_of(2, 2, 6), 20U);
}

TEST(scheduler, repeats_a_run_from_its_turns) {
  machine m(64);
  std::string order;
  const auto bodies = counting_threads(3, 4, order);
  scheduler s;
  priority_chooser c(7, 3, 50);
  do {
    order.clear();
    s.run(m, bodies, c, nullptr);
    const std::string first = order;
    fixed_chooser again(s.turns());
    const auto turns = s.turns();
    order.clear();
    s.run(m, bodies, again, nullptr);
    EXPECT_EQ(order, first);
    EXPECT_EQ(s.turns(), turns);
  } while (c.next());
}

TEST(scheduler, lets_others_run_while_a_thread_waits_and_calls_it_no_preemption) {
  machine m(64);
  bool ready = false;
  const std::vector<std::function<void(machine&)>> bodies{
      [&](machine& on) {
        while (!ready) on.yield();
      },
      [&](machine&) { ready = true; },
  };
  scheduler s;
  bounded_chooser c(0);
  unsigned runs = 0;
  do {
    ready = false;
    s.run(m, bodies, c, nullptr);
    EXPECT_TRUE(ready);
    ++runs;
  } while (c.next());
  EXPECT_EQ(runs, 2U);
}

TEST(scheduler, by_chance_ends_also_when_two_threads_wait_for_a_third) {
  machine m(64);
  bool ready = false;
  const auto waits = [&](machine& on) {
    while (!ready) on.yield();
  };
  const std::vector<std::function<void(machine&)>> bodies{waits, waits, [&](machine&) { ready = true; }};
  scheduler s;
  priority_chooser c(7, 3, 50);
  do {
    ready = false;
    EXPECT_NO_THROW(s.run(m, bodies, c, nullptr));
  } while (c.next());
}

// ---- a durable stack ------------------------------------------------------------------------------------------------

enum class mistake { none, reader_does_not_flush, push_does_not_flush_node, push_returns_early };

struct stack_node {
  alignas(64) std::uint64_t value;
  std::uint64_t next;  // index + 1
};
struct stack_image {
  alignas(64) std::uint64_t head;  // index + 1
  stack_node nodes[8];
};

// Treiber's stack without pop; each push has its node from the caller.
class durable_stack {
 public:
  durable_stack(machine& m, mistake wrong) : m_{m}, x_{*reinterpret_cast<stack_image*>(m.base())}, wrong_{wrong} {}

  void push(std::uint64_t index, std::uint64_t value) {
    stack_node& n = x_.nodes[index];
    std::atomic_ref head{x_.head};
    std::uint64_t seen = head.load(std::memory_order_acquire);
    n.value = value;
    do {
      n.next = seen;
      if (wrong_ != mistake::push_does_not_flush_node) m_.media().flush(&n, sizeof n);
      m_.media().fence(edge{"stack/E1"});
    } while (!head.compare_exchange_strong(seen, index + 1, std::memory_order_acq_rel));
    if (wrong_ == mistake::push_returns_early) return;
    m_.media().flush(&x_.head, 8);
    m_.media().fence(edge{"stack/E2"});
  }

  std::uint64_t top() {
    const std::uint64_t head = std::atomic_ref{x_.head}.load(std::memory_order_acquire);
    if (wrong_ != mistake::reader_does_not_flush) {
      // What is returned must not be taken back by a crash.
      m_.media().flush(&x_.head, 8);
      m_.media().fence(edge{"stack/E3"});
    }
    return head == 0 ? 0 : x_.nodes[head - 1].value;
  }

 private:
  machine& m_;
  stack_image& x_;
  mistake wrong_;
};

constexpr std::uint64_t push_op(std::uint64_t value) { return value; }
constexpr std::uint64_t top_op = 0;
struct stack_spec {
  std::vector<std::uint64_t> initial() const { return {}; }
  bool step(std::vector<std::uint64_t>& s, const operation& o) const {
    if (o.what != top_op) {
      s.push_back(o.what);
      return true;
    }
    return !o.returned || o.result == (s.empty() ? 0 : s.back());
  }
  std::uint64_t digest(const std::vector<std::uint64_t>& s) const {
    std::uint64_t d = 7;
    for (const std::uint64_t v : s) d = d * 1'000'003 + v;
    return d;
  }
};

struct step_of_thread {
  std::uint64_t push = 0;  // 0: top
};
concurrent stack_program(mistake wrong, const std::vector<std::vector<step_of_thread>>& threads) {
  auto stack = std::make_shared<std::unique_ptr<durable_stack>>();
  concurrent c;
  c.base.name = "durable stack";
  c.base.image.resize(sizeof(stack_image));
  c.base.recover = [](machine&) { return pass(); };
  c.base.oracle = [](machine& m, const window& w) -> verdict {
    const auto& x = *reinterpret_cast<const stack_image*>(m.base());
    std::vector<std::uint64_t> values;
    for (std::uint64_t at = x.head; at != 0; at = x.nodes[at - 1].next) {
      if (at > 8 || values.size() == 8) return fault("the chain is broken");
      values.insert(values.begin(), x.nodes[at - 1].value);
    }
    linearizer<stack_spec> search{stack_spec{}};
    return search.check(w.history, stack_spec{}.digest(values));
  };
  c.start = [=](machine& m) { *stack = std::make_unique<durable_stack>(m, wrong); };
  std::uint64_t node = 0;
  for (const auto& steps : threads) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> plan;  // value, node
    for (const auto& s : steps) plan.push_back({s.push, s.push == 0 ? 0 : node++});
    c.threads.push_back([=](machine& m) {
      for (const auto& [value, index] : plan) {
        m.op_begin(value == 0 ? top_op : push_op(value));
        std::uint64_t result = 0;
        if (value == 0) {
          result = (*stack)->top();
        } else {
          (*stack)->push(index, value);
        }
        m.op_end(result);
      }
    });
  }
  return c;
}
const std::vector<std::vector<step_of_thread>> two_by_two{{{1}, {2}}, {{0}, {3}}};
const std::vector<std::vector<step_of_thread>> three{{{1}, {0}}, {{2}, {0}}, {{0}, {3}}};

options for_schedules() {
  options o;
  o.print_violations = false;
  o.nesting = 0;
  return o;
}

TEST(durable_stack_schedules, are_all_clean_with_two_preemptions) {
  for (const model m : {model::x86, model::torn8}) {
    options o = for_schedules();
    o.persistency = m;
    o.print_violations = true;
    const schedule_report r = explore_schedules(stack_program(mistake::none, two_by_two), {}, o);
    EXPECT_TRUE(r.clean()) << r.text();
    EXPECT_TRUE(r.all);
    EXPECT_GT(r.schedules, 200U);
    EXPECT_FALSE(r.total.breaks_any_rule()) << r.text();
    std::printf("%s", r.text().c_str());
  }
}

TEST(durable_stack_schedules, of_three_threads_are_clean_with_one_preemption) {
  schedule_options s;
  s.preemptions = 1;
  const schedule_report r = explore_schedules(stack_program(mistake::none, three), s, for_schedules());
  EXPECT_TRUE(r.clean()) << r.text();
  EXPECT_TRUE(r.all);
  std::printf("%s", r.text().c_str());
}

TEST(durable_stack_schedules, by_priorities_are_clean) {
  schedule_options s;
  s.priority_runs = 300;
  const schedule_report r = explore_schedules(stack_program(mistake::none, three), s, for_schedules());
  EXPECT_TRUE(r.clean()) << r.text();
  EXPECT_EQ(r.schedules, 300U);
}

TEST(a_reader_that_acts_on_what_is_not_durable, is_found_with_one_preemption_and_not_without) {
  const concurrent c = stack_program(mistake::reader_does_not_flush, two_by_two);
  schedule_options s;
  s.preemptions = 0;
  EXPECT_TRUE(explore_schedules(c, s, for_schedules()).clean());
  s.preemptions = 1;
  const schedule_report r = explore_schedules(c, s, for_schedules());
  ASSERT_TRUE(r.finds_violation());
  EXPECT_NE(r.total.violations[0].what.find("no order of the operations"), std::string::npos);
}

TEST(a_reader_that_acts_on_what_is_not_durable, is_found_by_random_priorities) {
  schedule_options s;
  s.priority_runs = 500;
  EXPECT_TRUE(explore_schedules(stack_program(mistake::reader_does_not_flush, two_by_two), s, for_schedules())
                  .finds_violation());
}

TEST(a_node_that_is_not_flushed, is_found) {
  EXPECT_TRUE(explore_schedules(stack_program(mistake::push_does_not_flush_node, two_by_two), {}, for_schedules())
                  .finds_violation());
}

TEST(an_answer_before_durability, is_found) {
  EXPECT_TRUE(
      explore_schedules(stack_program(mistake::push_returns_early, two_by_two), {}, for_schedules()).finds_violation());
}

TEST(a_missing_fence_in_a_schedule, is_found_by_mutation) {
  const concurrent c = stack_program(mistake::none, two_by_two);
  for (const char* label : {"stack/E1", "stack/E2", "stack/E3"}) {
    EXPECT_TRUE(explore_schedules(c, {}, for_schedules(), without(edge{label})).finds_violation()) << label;
  }
}

TEST(a_token_of_a_schedule, brings_schedule_and_state_back) {
  const concurrent c = stack_program(mistake::reader_does_not_flush, two_by_two);
  const schedule_report r = explore_schedules(c, {}, for_schedules());
  ASSERT_FALSE(r.total.violations.empty());
  const violation& v = r.total.violations[0];
  EXPECT_LE(v.token.size(), 64U);
  const auto again = replay(c, v.token, for_schedules());
  ASSERT_TRUE(again.has_value());
  ASSERT_EQ(again->violations.size(), 1U);
  EXPECT_EQ(again->violations[0].what, v.what);
}

TEST(threads_that_wait_for_each_other, are_reported_as_a_failed_run) {
  concurrent c = stack_program(mistake::none, {});
  auto flags = std::make_shared<std::array<std::atomic<bool>, 2>>();
  c.start = [=](machine&) {
    for (auto& f : *flags) f = false;
  };
  for (std::size_t i = 0; i < 2; ++i) {
    c.threads.push_back([=](machine& m) {
      (void)m;
      while (!(*flags)[1 - i].load(std::memory_order_relaxed)) {
      }
      (*flags)[i] = true;
    });
  }
  schedule_options s;
  s.schedules_max = 1;
  s.preemptions = 0;
  const schedule_report r = explore_schedules(c, s, for_schedules());
  ASSERT_FALSE(r.total.violations.empty());
  EXPECT_NE(r.total.violations[0].what.find("wait for each other"), std::string::npos) << r.total.violations[0].what;
}

// Locks of which waiters try again and again, beside the image and in it.
TEST(threads_that_wait_by_trying, are_taken_to_wait_for_the_holder) {
  const auto exchange = [](std::uint64_t& word) {
    while (std::atomic_ref{word}.exchange(1, std::memory_order_acquire) != 0) {
    }
  };
  const auto compare = [](std::uint64_t& word) {
    std::uint64_t expected = 0;
    while (!std::atomic_ref{word}.compare_exchange_strong(expected, 1, std::memory_order_acquire)) expected = 0;
  };
  const std::function<void(std::uint64_t&)> ways[]{exchange, compare};
  for (const auto& acquire : ways) {
    for (const bool in_image : {false, true}) {
      concurrent c = stack_program(mistake::none, {});
      auto beside = std::make_shared<std::uint64_t>();
      const auto word = [=](machine& m) -> std::uint64_t& {
        return in_image ? reinterpret_cast<stack_image*>(m.base())->nodes[0].value : *beside;
      };
      c.base.oracle = [](machine&, const window&) { return pass(); };
      c.start = [=](machine&) { *beside = 0; };
      for (int i = 0; i < 2; ++i) {
        c.threads.push_back([=](machine& m) {
          acquire(word(m));
          m.media().fence(edge{"lock/held"});
          std::atomic_ref{word(m)}.store(0, std::memory_order_release);
        });
      }
      schedule_options s;
      s.schedules_max = 1000;
      const std::clock_t begun = std::clock();
      const schedule_report r = explore_schedules(c, s, for_schedules());
      EXPECT_FALSE(r.finds_violation()) << r.text();
      EXPECT_GT(r.schedules, 2U);
      // Against hanging: the holder does not go on where a waiter is not known for one.
      EXPECT_LT(std::clock() - begun, 60 * CLOCKS_PER_SEC);
    }
  }
}

TEST(a_fault_in_a_schedule, is_reported_with_its_token) {
  concurrent c = stack_program(mistake::none, {});
  c.threads.push_back([](machine& m) { *reinterpret_cast<volatile int*>(m.base() - 4096) = 1; });
  c.threads.push_back([](machine&) {});
  const schedule_report r = explore_schedules(c, {}, for_schedules());
  ASSERT_FALSE(r.total.violations.empty());
  EXPECT_NE(r.total.violations[0].what.find("SIGSEGV"), std::string::npos);
  const auto again = replay(c, r.total.violations[0].token, for_schedules());
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->finds_violation());
}

// ---- the search itself ----------------------------------------------------------------------------------------------

std::vector<op_event> history_of(std::initializer_list<op_event> events) { return events; }

TEST(linearizer, accepts_pending_operations_done_or_not_and_refuses_lost_ones) {
  const stack_spec spec;
  linearizer<stack_spec> search{spec};
  const auto state = [&](std::vector<std::uint64_t> v) { return spec.digest(v); };
  const auto one_done = history_of({{0, push_op(1), 0, false}, {0, 0, 0, true}, {1, push_op(2), 1, false}});
  EXPECT_FALSE(search.check(one_done, state({1})).has_value());
  EXPECT_FALSE(search.check(one_done, state({1, 2})).has_value());
  EXPECT_TRUE(search.check(one_done, state({})).has_value()) << "the operation that returned is lost";
  EXPECT_TRUE(search.check(one_done, state({2})).has_value());
  EXPECT_TRUE(search.check(one_done, state({2, 1})).has_value()) << "the second began after the first had returned";
}

TEST(linearizer, lets_overlapping_operations_take_either_order) {
  const stack_spec spec;
  linearizer<stack_spec> search{spec};
  const auto both =
      history_of({{0, push_op(1), 0, false}, {1, push_op(2), 1, false}, {0, 0, 0, true}, {1, 0, 1, true}});
  EXPECT_FALSE(search.check(both, spec.digest({1, 2})).has_value());
  EXPECT_FALSE(search.check(both, spec.digest({2, 1})).has_value());
  EXPECT_TRUE(search.check(both, spec.digest({1})).has_value());
}

TEST(linearizer, holds_readers_to_what_they_returned) {
  const stack_spec spec;
  linearizer<stack_spec> search{spec};
  // A top that returned 2 while the push of 2 is pending: the push must have happened.
  const auto read = history_of({{0, push_op(2), 0, false}, {1, top_op, 1, false}, {1, 2, 1, true}});
  EXPECT_FALSE(search.check(read, spec.digest({2})).has_value());
  EXPECT_TRUE(search.check(read, spec.digest({})).has_value());
}

}  // namespace
}  // namespace nvm::explore
