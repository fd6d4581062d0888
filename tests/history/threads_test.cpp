// What four threads see of each other, as histories.  Also run under ThreadSanitizer.
#include "history_rig.hpp"

namespace nvm::tests {
namespace {

class histories_of_threads : public engines {};
NVM_EVERY_ENGINE(histories_of_threads);

TEST_P(histories_of_threads, are_serializable_and_linearizable) {
  history_rig rig{GetParam()};
  rig.run(is_ssd(GetParam()) ? 100 : 4000);
  rig.look_at_everything();
  const auto transactions = rig.check_transactions();
  EXPECT_FALSE(transactions.has_value()) << *transactions;
  const auto calls = rig.check_calls();
  EXPECT_FALSE(calls.has_value()) << *calls;
}

}  // namespace
}  // namespace nvm::tests
