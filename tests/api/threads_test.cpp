// Many threads on one pool: every committed transaction is there, objects pass from thread to thread, lanes are shared.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "scratch.hpp"

namespace nvm::tests {
namespace {

class threads : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(media, threads, testing::Bool(), [](const auto& i) { return i.param ? "ssd" : "shm"; });

TEST_P(threads, each_commits_its_own_objects_and_frees_those_of_others) {
  scratch place{GetParam()};
  nvm_pool_options o{};
  o.size = 8 << 20;
  o.lanes = 3;  // fewer than threads: some wait
  o.medium = GetParam() ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const int rounds = GetParam() ? 60 : 600;
  std::mutex lock;
  std::vector<void*> shared;
  std::atomic<int> failures{0};
  const auto work = [&](unsigned seed) {
    for (int i = 0; i < rounds; ++i) {
      seed = seed * 1664525 + 1013904223;
      void* victim = nullptr;
      {
        const std::lock_guard guard{lock};
        if (shared.size() > 20) {
          victim = shared[seed % shared.size()];
          std::erase(shared, victim);
        }
      }
      std::uint64_t lsn = 0;
      void* made = nullptr;
      if (nvm_tx_begin(pool) != 0) ++failures;
      if (victim != nullptr && nvm_free(pool, victim) != 0) ++failures;
      made = nvm_alloc(pool, 1, 16 + seed / 7 % 2000);
      if (made == nullptr) ++failures;
      if (made != nullptr) std::memset(made, 1, 16);
      const bool abort = seed % 16 == 0 && victim == nullptr;
      if ((abort ? nvm_tx_abort(pool) : nvm_tx_commit_async(pool, &lsn)) != 0) ++failures;
      if (!abort) {
        const std::lock_guard guard{lock};
        shared.push_back(made);
      }
      if (i % 20 == 0 && nvm_wait(pool, lsn) != 0) ++failures;
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < 6; ++i) running.emplace_back(work, i + 1);
  for (std::thread& t : running) t.join();
  EXPECT_EQ(failures, 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.objects, shared.size());
}

TEST_P(threads, a_thread_that_ends_leaves_no_transaction_behind) {
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  std::thread{[&] {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_NE(nvm_alloc(pool, 1, 64), nullptr);
  }}.join();
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.objects, 0U);
}

}  // namespace
}  // namespace nvm::tests
