// Reference counts where threads use all lanes: committers wait for a settler, which waits for no lane.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "gc_graph.hpp"
#include "nvm/gc.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

class counting : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { know_gc_types(); }
  scratch place_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(kinds, counting, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

// A thread whose ring is full settles; meanwhile all other lanes are of threads that wait for it.
TEST_P(counting, with_full_rings_on_all_lanes_goes_on) {
  nvm_pool_options o{};
  o.size = std::size_t{4} << 20;
  o.collect = NVM_COLLECT_AT_REST;
  o.lanes = 4;
  choose(o, GetParam());
  NVM_POOL* pool = nvm_pool_create_with(place_.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  gc_graph g{pool};
  constexpr unsigned threads = 6;
  gc_node* root = g.make(threads);
  g.set_root(root);
  gc_node* two[] = {g.make(), g.make()};
  const int rounds = rounds_of_build(is_ssd(GetParam()) ? 300 : 3000);
  std::atomic<int> failures{0};
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int i = 0; i <= rounds && failures == 0; ++i) {
        std::uint64_t lsn = 0;
        bool good = nvm_tx_begin(pool) == 0 && nvm_tx_log(&root->more[t], sizeof root->more[t]) == 0;
        if (good) root->more[t] = two[i % 2];
        good = good && nvm_tx_commit_async(pool, &lsn) == 0;
        if (good) continue;
        ADD_FAILURE() << nvm_errormsg();
        ++failures;
      }
    });
  }
  for (std::thread& t : running) t.join();
  nvm_settle_report r{};
  EXPECT_EQ(nvm_settle(pool, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 1U) << "the one that is not linked";
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place_.path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
