// A lane has one user at a time, when threads park it, take it away or give it back; words that lanes share take the
// changes of all.
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
  // As much as there is time for, and enough where there is little: each use gives the processor away.
  const auto end = std::chrono::steady_clock::now() + 400ms;
  const auto go_on = [&] {
    return uses.load(std::memory_order_relaxed) < 1000 || std::chrono::steady_clock::now() < end;
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = t; go_on(); ++i) {
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
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(shared, 0U) << "of " << uses << " uses";
}

TEST(lanes, that_are_kept_are_taken_by_nobody) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "no lane is parked here";
  number_owners lanes{2};
  const auto kept = lanes.acquire(0);
  ASSERT_TRUE(kept && lanes.keep(*kept));
  lanes.leave(*kept);
  const auto parked = lanes.acquire(0);
  ASSERT_TRUE(parked && lanes.park(*parked));
  lanes.leave(*parked);
  // The other one is taken from its thread, once, and is not kept afterwards: that thread may be about to resume it.
  std::thread{[&] {
    const auto taken = lanes.acquire(0);
    ASSERT_TRUE(taken);
    EXPECT_EQ(*taken, *parked);
    EXPECT_FALSE(lanes.keep(*taken));
    EXPECT_EQ(lanes.acquire(0, 1ms).error(), errc::no_lane);
    lanes.release(*taken);
  }}.join();
  EXPECT_FALSE(lanes.resume(*parked));
  EXPECT_TRUE(lanes.resume(*kept));
  lanes.leave(*kept);
  lanes.give_back(*kept);
  const auto again = lanes.acquire(*kept, 1ms);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *kept);
}

// A thread that begins again at once leaves no moment in which others see its lane idle.
TEST(lanes, that_are_parked_go_to_a_thread_that_waits_when_their_use_ends) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "no lane is parked here";
  number_owners lanes{1};
  const auto mine = lanes.acquire(0);
  ASSERT_TRUE(mine && lanes.park(*mine));
  std::atomic<bool> done{false};
  std::thread other{[&] {
    const auto got = lanes.acquire(0);
    EXPECT_TRUE(got) << last_message();
    if (got) lanes.release(*got);
    done = true;
  }};
  while (!lanes.is_wanted()) std::this_thread::yield();
  lanes.leave(*mine);
  other.join();
  EXPECT_TRUE(done);
  EXPECT_FALSE(lanes.resume(*mine));
}

TEST(lanes, all_in_use_are_waited_for_and_no_longer_than_the_caller_has_patience) {
  number_owners lanes{2};
  const auto first = lanes.acquire(0);
  const auto second = lanes.acquire(0);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(lanes.acquire(0, 20ms).error(), errc::no_lane);
  EXPECT_STREQ(last_message(), "all 2 lanes have been in use for 20 ms");
  lanes.release(*second);
  const auto third = lanes.acquire(0, 20ms);
  ASSERT_TRUE(third) << last_message();
  EXPECT_EQ(*third, *second);
}

// Bits of one word change in two threads; each change is there in the end, and the word passes its check throughout.
TEST(intents, of_two_threads_on_one_word_lose_none) {
  alignas(line_bytes) std::byte pool[2 * line_bytes] = {};
  constexpr std::uint64_t word_at = 8;
  constexpr std::uint64_t lengths_at = 64;
  std::atomic<unsigned> ready{0};
  const auto change = [&](unsigned first, unsigned bits) {
    ready.fetch_add(1);
    while (ready != 2) {
    }
    for (unsigned i = 0; i < 200'000; ++i) {
      const unsigned bit = first + i % bits;
      log::apply(pool, i / bits % 2 == 0 ? log::intent::make_object(word_at, bit, 1, lengths_at - word_at)
                                         : log::intent::make(log::intent_op::clear_bit, word_at, bit));
    }
  };
  // Numbers of bits that leave what was set last.
  std::thread other{[&] { change(0, 20); }};
  change(28, 16);
  other.join();
  std::uint64_t expected = 0;
  for (const auto& [first, bits] : {std::pair{0U, 20U}, std::pair{28U, 16U}}) {
    for (unsigned i = 200'000 - 2 * bits; i < 200'000; ++i) {
      const std::uint64_t bit = std::uint64_t{1} << (first + i % bits);
      expected = i / bits % 2 == 0 ? expected | bit : expected & ~bit;
    }
  }
  std::uint64_t word = 0;
  std::memcpy(&word, pool + word_at, sizeof word);
  EXPECT_TRUE(word_holds(word, word_seed(word_at)));
  EXPECT_EQ(word & checked_mask, expected);
}

}  // namespace
}  // namespace nvm::tests
