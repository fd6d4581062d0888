// The checkers notice transactions that commit without validating their reads: this program has that fault compiled in,
// to be switched on.
#include <chrono>
#include <string>

#include "../sanitized.hpp"
#include "base/plant.hpp"
#include "history_rig.hpp"
#include "kv_workload.hpp"
#include "region_workload.hpp"

namespace nvm::tests {
namespace {

// Few, so that an attempt is short.
constexpr std::uint32_t calls_of_a_thread = 500;

class planted_faults : public testing::Test {
 protected:
  // Transactions let others run at the wrong moment, and one run may be lucky all the same.
  template <class Attempt>
  static std::string until_found(Attempt&& attempt) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{3};
    std::string found;
    give_way = true;
    while (found.empty() && std::chrono::steady_clock::now() < deadline) found = attempt();
    give_way = false;
    return found;
  }
  void TearDown() override { planted_bug = plant::none; }
};
class planted : public planted_faults, public testing::WithParamInterface<engine_kind> {};
using planted_in_regions = planted_faults;
// On ssd transactions mostly wait for the device, and seldom meet.
INSTANTIATE_TEST_SUITE_P(on, planted,
                         testing::Values(engine_kind::undo, engine_kind::undo_write_back, engine_kind::redo),
                         [](const auto& i) { return name_of(i.param); });

TEST_P(planted, reads_that_are_not_validated_are_found) {
  const std::string found = until_found([] {
    history_rig rig{GetParam()};
    planted_bug = plant::reads_not_validated;
    rig.run(calls_of_a_thread);
    planted_bug = plant::none;
    rig.look_at_everything();
    return rig.check_transactions().value_or("");
  });
  // A cycle, or, of a lost update, lists that contradict each other.
  EXPECT_FALSE(found.empty());
  std::printf("%s\n", found.c_str());
}

TEST_P(planted, without_the_fault_there_is_none) {
  history_rig rig{GetParam()};
  rig.run(4000);
  rig.look_at_everything();
  const auto found = rig.check_transactions();
  EXPECT_FALSE(found.has_value()) << *found;
}

// The same through the calls of a key-value store: some value that nobody had put is found, or one that was replaced.
TEST_P(planted, reads_that_are_not_validated_are_found_in_stores) {
  if (by_thread_sanitizer)
    GTEST_SKIP() << "nobody waits for who still reads an object that was freed: a data race, too";
  const std::string found = until_found([] {
    basic_history_rig<history_store> rig{GetParam(), NVM_KV_LIST};
    planted_bug = plant::reads_not_validated;
    rig.run_in_spite_of_failures(calls_of_a_thread);
    planted_bug = plant::none;
    // A store that is damaged by it says so, too, but that is not what is asked here.
    return rig.failures() == 0 ? rig.check_calls().value_or("") : std::string{};
  });
  EXPECT_FALSE(found.empty());
  std::printf("%s\n", found.c_str());
}

// Regions.  Reads that a writer passes are found by region_schedules_test, in every order; threads meet by chance.

// Calls that do not wait, and count as if they did: a kill takes some of them back.
TEST_F(planted_in_regions, calls_that_do_not_wait_for_the_device_are_found) {
  if (by_thread_sanitizer) GTEST_SKIP() << "processes are killed";
  std::mt19937_64 random{static_cast<std::uint64_t>(now())};
  const std::string found = until_found([&] {
    basic_history_rig<history_regions> rig{engine_kind::ssd, true, std::uint32_t{NVM_REGIONS_NO_WAIT}};
    for (unsigned k = 0; k < 6; ++k) rig.run_and_kill(4000, std::chrono::microseconds{2000 + random() % 20000});
    rig.look_at_everything();
    return rig.check_calls().value_or("") + rig.check_transactions().value_or("");
  });
  EXPECT_FALSE(found.empty());
  std::printf("%s\n", found.c_str());
}

}  // namespace
}  // namespace nvm::tests
