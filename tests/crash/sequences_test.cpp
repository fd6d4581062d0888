// Every sequence of at most two operations, a third of those of three, each day others, and random long ones survive a
// crash at any point: each recovered pool is that before or after the operation that was cut, whole and without leaks,
// and can be worked with.
#include <gtest/gtest.h>

#include <cstdio>

#include "goals.hpp"
#include "workloads.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;

struct totals {
  std::uint64_t traces = 0;
  std::uint64_t states = 0;
  std::uint64_t nested = 0;
  double seconds = 0;
  double processor_seconds = 0;

  void add(const report& r) {
    ++traces;
    states += r.unique_states;
    nested += r.nested_states;
    seconds += r.seconds;
    processor_seconds += r.processor_seconds;
    EXPECT_TRUE(r.bad_states == 0) << r.text();
  }
  // A second of a core, recovery of engine and allocator and the oracle on each.
  [[nodiscard]] double rate() const { return static_cast<double>(states) / processor_seconds; }
  void print(const char* what, model m) const {
    std::printf(
        "%s, model %s: %llu traces, %llu unique states, %llu of them in recoveries, %.0f s, %.0f states/s a core\n",
        what, name_of(m), static_cast<unsigned long long>(traces), static_cast<unsigned long long>(states),
        static_cast<unsigned long long>(nested), seconds, rate());
  }
};

// Every hundredth trace is crashed in recoveries of recoveries of recoveries.
explore::options options_of_trace(model m, std::uint64_t k, std::uint64_t seed) {
  explore::options o = options_for(m);
  o.seed = seed;
  o.nesting = k % 100 == 0 ? 3 : 2;
  return o;
}

struct ground_of_test {
  model under;
  kind_of_medium on;
};
class operations : public testing::TestWithParam<ground_of_test> {};

std::uint64_t sequences_goal(const ground_of_test& g) {
  const model m = g.under;
  if (is_redo(g.on)) return m == model::x86 ? goals::sequences_x86_redo : goals::sequences_torn8_redo;
  if (is_mnemosyne(g.on)) return goals::sequences_mnemosyne;
  return m == model::x86 ? goals::sequences_x86 : m == model::torn8 ? goals::sequences_torn8 : goals::sequences_ssd;
}
// Whether it is short, or has its turn: of three operations each one day in three, by the sum of its letters, so that
// each letter is the last one every day.
bool is_of_today(unsigned length, std::uint64_t k) {
  constexpr std::uint64_t days = 3;
  std::uint64_t sum = 0;
  for (const letter l : sequence(length, k)) sum += static_cast<std::uint64_t>(l);
  return length < 3 || is_turn_of_today(sum, days);
}

TEST_P(operations, of_any_short_sequence_are_all_or_nothing) {
  const auto [m, on] = GetParam();
  totals sum;
  const unsigned longest = is_redo(on) || is_mnemosyne(on) ? 2 : 3;  // ./dev explore goes further
  for (unsigned length = 1; length <= longest && !HasFailure(); ++length) {
    for (std::uint64_t k = 0; k < sequences(length) && !HasFailure(); ++k) {
      if (!is_of_today(length, k)) continue;
      sum.add(explore(sequence_subject(sequence(length, k), on), options_of_trace(m, k, 1)));
    }
    sum.print(("all sequences of at most " + std::to_string(length) + " operations").c_str(), m);
  }
  EXPECT_GE(sum.states, sequences_goal(GetParam()));
}

std::uint64_t random_goal(const ground_of_test& g) {
  const model m = g.under;
  if (is_redo(g.on)) return m == model::x86 ? goals::random_x86_redo : goals::random_torn8_redo;
  if (is_mnemosyne(g.on)) return goals::random_mnemosyne;
  return m == model::x86 ? goals::random_x86 : m == model::torn8 ? goals::random_torn8 : goals::random_ssd;
}
TEST_P(operations, of_long_random_workloads_are_all_or_nothing) {
  const auto [m, on] = GetParam();
  const std::uint64_t varied = seed_from_environment();
  std::printf("varied seed %llu\n", static_cast<unsigned long long>(varied));
  // Fixed seeds keep what was found once, and say whether the explorer still sees as much as it did; the others explore
  // new ground every day, half as much.
  const std::uint64_t pairs = is_mnemosyne(on) ? 2 : is_redo(on) ? 6 : 16;
  totals fixed;
  totals fresh;
  for (std::uint64_t k = 0; k < pairs && !HasFailure(); ++k) {
    for (const bool repeats : {true, false}) {
      if (!repeats && k % 2 != 0) continue;
      const std::uint64_t seed = repeats ? k + 1 : varied * 1000 + k;
      explore::options o = options_of_trace(m, k == 0 ? 0 : 1, seed);
      // Wide rather than deep: the whole of a long trace.
      o.nested_every = 64;
      o.exhaustive_max = 64;
      (repeats ? fixed : fresh).add(explore(random_subject(seed, 300, on), o));
    }
  }
  fixed.print("random workloads of 300 operations, repeated", m);
  fresh.print("random workloads of 300 operations, new", m);
  EXPECT_GE(fixed.states, random_goal(GetParam()));
}

std::vector<ground_of_test> grounds() {
  std::vector<ground_of_test> all;
  for (const kind_of_medium& kind : all_kinds) {
    for (const model m : each_model) {
      if (kind.part.sequences.has(m)) all.push_back({m, kind});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(under, operations, testing::ValuesIn(grounds()), [](const auto& i) {
  const kind_of_medium on = i.param.on;
  const char* const engine = is_redo(on)                                          ? "_redo"
                             : !is_mnemosyne(on)                                  ? ""
                             : mnemosyne_kind_of(on) == log::mnemosyne_kind::redo ? "_mnemosyne"
                                                                                  : "_mnemosyne_undo";
  return name_of(i.param.under) + std::string{engine};
});

}  // namespace
}  // namespace nvm::tests
