// Histories of calls about regions: threads of one process, and of processes that are killed again and again, also
// while they open the pool.  Appends and groups have to be strictly serializable, calls about one region durably
// linearizable.
#include "../sanitized.hpp"
#include "history_rig.hpp"
#include "region_workload.hpp"

namespace nvm::tests {
namespace {

struct region_kind {
  engine_kind engine;
  bool waits;
};
constexpr region_kind region_kinds[] = {
    {engine_kind::undo, true}, {engine_kind::redo, true}, {engine_kind::ssd, true}, {engine_kind::ssd, false}};
void PrintTo(const region_kind& k, std::ostream* to) { *to << name_of(k.engine) << (k.waits ? "" : "_no_wait"); }

class region_histories : public testing::TestWithParam<region_kind> {
 protected:
  bool ssd() const { return is_ssd(GetParam().engine); }
  basic_history_rig<history_regions> rig{GetParam().engine, GetParam().waits};

  void expect_one_order() {
    const auto transactions = rig.check_transactions();
    EXPECT_FALSE(transactions.has_value()) << *transactions;
    const auto calls = rig.check_calls();
    EXPECT_FALSE(calls.has_value()) << *calls;
  }
};
INSTANTIATE_TEST_SUITE_P(on, region_histories, testing::ValuesIn(region_kinds),
                         [](const auto& i) { return testing::PrintToString(i.param); });

TEST_P(region_histories, of_threads_are_serializable_and_linearizable) {
  rig.run(rounds_of_build(ssd() ? 200 : 3000));
  rig.look_at_everything();
  expect_one_order();
}

#if !defined(NVM_THREADS_ONLY)
TEST_P(region_histories, keep_what_was_acknowledged_through_kills) {
  std::mt19937_64 random{static_cast<std::uint64_t>(now())};
  constexpr unsigned kills = rounds_of_build(24U);
  for (unsigned k = 0; k < kills && !HasFailure(); ++k) {
    const auto after = std::chrono::microseconds{ssd() ? 2000 + random() % 30000 : 20 + random() % 4000};
    if (k % 4 == 3) {
      rig.run_and_kill_early(4000, after / 4);
    } else {
      rig.run_and_kill(4000, after);
    }
  }
  if (HasFailure()) return;
  rig.look_at_everything();
  expect_one_order();
  std::printf("%u kills, %zu transactions, %zu calls, %zu cut off\n", kills, rig.transactions(), rig.calls(),
              rig.cut_off());
}
#endif

}  // namespace
}  // namespace nvm::tests
