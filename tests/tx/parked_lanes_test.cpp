// A lane has one user at a time, whoever parks it, takes it away or gives it back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "pool_image.hpp"

namespace nvm::tests {
namespace {

using namespace std::chrono_literals;

// More threads than lanes, each with a lane for a while: each way of coming by one and of leaving it meets all others.
TEST(parked_lanes, have_one_user_at_a_time) {
  direct_pool pool{{.lanes = 2}};
  auto& lanes = pool.heap().lanes();
  std::atomic<unsigned> users[2] = {};
  std::atomic<unsigned> shared{0};
  std::atomic<std::uint64_t> uses{0};
  const auto use = [&](unsigned lane) {
    if (users[lane].fetch_add(1) != 0) shared.fetch_add(1);
    std::this_thread::yield();
    users[lane].fetch_sub(1);
    uses.fetch_add(1, std::memory_order_relaxed);
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = t; !stop; ++i) {
        auto lane = lanes.acquire(t);
        if (!lane) continue;
        const bool parked = lanes.park(*lane);
        use(*lane);
        if (!parked) {
          lanes.release(*lane);
          continue;
        }
        lanes.leave(*lane);
        if (i % 3 == 0 && lanes.resume(*lane)) {
          use(*lane);
          lanes.leave(*lane);
        }
        lanes.give_back(*lane);
      }
    });
  }
  std::this_thread::sleep_for(400ms);
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(shared, 0U) << "of " << uses << " uses";
  EXPECT_GT(uses, 100U);
}

}  // namespace
}  // namespace nvm::tests
