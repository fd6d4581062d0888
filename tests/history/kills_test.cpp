// Histories that go on over many deaths of the process.
#include "history_rig.hpp"

namespace nvm::tests {
namespace {

class histories_with_kills : public engines {};
NVM_EVERY_ENGINE(histories_with_kills);

TEST_P(histories_with_kills, keep_what_was_acknowledged_and_nothing_half) {
  history_rig rig{GetParam()};
  const bool ssd = is_ssd(GetParam());
  std::mt19937_64 random{static_cast<std::uint64_t>(now())};
  constexpr unsigned kills = 20;
  for (unsigned k = 0; k < kills; ++k) {
    const auto after = std::chrono::microseconds{ssd ? 2000 + random() % 40000 : 20 + random() % 800};
    rig.run_and_kill(900, after);
    if (testing::Test::HasFailure()) return;
  }
  rig.look_at_everything();
  const auto transactions = rig.check_transactions();
  EXPECT_FALSE(transactions.has_value()) << *transactions;
  const auto calls = rig.check_calls();
  EXPECT_FALSE(calls.has_value()) << *calls;
  std::printf("%zu transactions, %zu cut off\n", rig.transactions(), rig.cut_off());
}

}  // namespace
}  // namespace nvm::tests
