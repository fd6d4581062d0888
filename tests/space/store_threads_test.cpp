// Object stores that threads use while others come and go.
#include <random>
#include <set>
#include <thread>

#include "store_testing.hpp"

namespace nvm::testing {
namespace {

// Threads allocate and free in two stores while a third comes and goes; another looks for objects everywhere.
TEST(stores, are_used_by_threads_while_others_come_and_go) {
  constexpr unsigned workers = 3;
  constexpr int steps = 1500;
  test_pool pool{test_geometry(4096, 4096, workers + 2)};
  ASSERT_TRUE(pool.boot());
  open_store* const busy[2] = {&attach(pool, make_store(pool, 1)), &attach(pool, make_store(pool, 2))};
  const std::uint64_t guest_page = make_store(pool, 3);
  std::vector<std::uint64_t> left[workers + 1];
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned lane = 0; lane < workers; ++lane) {
    threads.emplace_back([&, lane] {
      std::mt19937_64 random{lane + 1};
      auto& mine = left[lane];
      for (int i = 0; i < steps; ++i) {
        if (mine.size() < 8 || random() % 2 == 0) {
          const std::uint64_t bytes = random() % 16 == 0 ? random() % 40'000 + 1 : random() % 700 + 1;
          const auto at = put_in(pool, *busy[random() % 2], bytes, lane);
          ASSERT_TRUE(at) << last_message();
          mine.push_back(*at);
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          ASSERT_TRUE(drop(pool, mine.back(), lane)) << last_message();
          mine.pop_back();
        }
        if (i % 300 == 299) (void)pool->trim(*busy[lane % 2]);
      }
    });
  }
  threads.emplace_back([&] {
    auto& mine = left[workers];
    for (int i = 0; i < 60; ++i) {
      open_store& guest = attach(pool, guest_page);
      for (int k = 0; k < 5; ++k) mine.push_back(*put_in(pool, guest, 50 + 1000 * k, workers));
      while (mine.size() > 12) {
        ASSERT_TRUE(drop(pool, mine.back(), workers)) << last_message();
        mine.pop_back();
      }
      (void)pool->trim(guest);
      ASSERT_TRUE(pool->detach(guest)) << last_message();
    }
  });
  std::thread looking{[&] {
    std::mt19937_64 random{99};
    while (!done) {
      const std::uint64_t at = pool.sizes().page_offset(random() % 4096) + random() % 4096;
      (void)pool.around(at);
    }
  }};
  for (std::thread& t : threads) t.join();
  done = true;
  looking.join();
  std::set<std::uint64_t> expected;
  for (const auto& list : left) expected.insert(list.begin(), list.end());
  std::set<std::uint64_t> found;
  for (const auto& [at, bytes] : pool.objects()) found.insert(at);
  EXPECT_EQ(found, expected);
  summary_of(pool);
}

}  // namespace
}  // namespace nvm::testing
