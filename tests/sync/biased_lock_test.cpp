// A biased lock has one holder at a time, with any favourite, and a holder sees the stores of the one before.
#include "sync/sync.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nvm {
namespace {

using namespace std::chrono_literals;

// Two plain counters that only the holder may touch; apart they are evidence of two holders at once.
struct guarded {
  biased_lock lock;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool whole = true;

  void step(unsigned who) {
    const biased_lock::guard in{lock, who};
    whole = whole && first == second;
    ++first;
    isa::compiler_fence();
    ++second;
  }
};

TEST(biased_lock, one_holder_at_a_time_while_the_bias_comes_and_goes) {
  constexpr unsigned steps = 1500;  // of each but the favourite
  guarded g;
  std::atomic<bool> stop{false};
  std::uint64_t done[3] = {};
  std::vector<std::thread> threads;
  // The favourite never pauses; the others come seldom enough that it is favoured again in between.
  threads.emplace_back([&] {
    while (!stop) {
      g.step(1);
      ++done[0];
    }
  });
  for (unsigned t = 1; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < steps; ++i) {
        g.step(t == 1 ? 0 : 2);
        ++done[t];
        std::this_thread::sleep_for(50us);
      }
    });
  }
  threads[1].join();
  threads[2].join();
  stop = true;
  threads[0].join();
  EXPECT_TRUE(g.whole);
  EXPECT_EQ(g.first, done[0] + done[1] + done[2]);
  EXPECT_EQ(g.second, g.first);
}

TEST(biased_lock, a_lane_takes_its_bias_from_thread_to_thread) {
  guarded g;
  std::uint64_t steps = 0;
  for (unsigned round = 0; round < 50; ++round) {
    std::thread favourite{[&] {
      for (unsigned i = 0; i < 1000; ++i) g.step(7);
    }};
    favourite.join();
    steps += 1000;
    if (round % 5 == 4) {
      g.step(0);
      ++steps;
    }
  }
  EXPECT_TRUE(g.whole);
  EXPECT_EQ(g.first, steps);
}

// Someone who comes now and then is no reason to let the favourite pay for ever.
TEST(biased_lock, a_bias_that_has_paid_comes_back_at_once) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "the system has no membarrier";
  guarded g;
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 1000; ++i) g.step(7);
    g.step(0);
  }
  for (unsigned i = 0; i < 8; ++i) g.step(7);
  EXPECT_TRUE(g.lock.biased());
}

TEST(biased_lock, a_bias_that_never_pays_is_given_up) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "the system has no membarrier";
  guarded g;
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 8; ++i) g.step(7);
    g.step(0);
  }
  for (unsigned i = 0; i < 8; ++i) g.step(7);
  EXPECT_FALSE(g.lock.biased());
}

TEST(biased_lock, others_wait_while_the_favourite_is_inside) {
  biased_lock lock;
  for (unsigned i = 0; i < 100; ++i) {
    lock.lock(3);
    lock.unlock();
  }
  lock.lock(3);
  std::atomic<bool> in{false};
  std::thread other{[&] {
    lock.lock(0);
    in = true;
    lock.unlock();
  }};
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(in);
  lock.unlock();
  other.join();
  EXPECT_TRUE(in);
}

TEST(threads, a_barrier_in_all_threads_is_had_where_it_is_promised) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "the system has no membarrier";
  // What makes the handshake: a store before and a load after, each side's other half plain but for the barrier.
  std::atomic<int> x{0};
  std::atomic<int> y{0};
  std::atomic<unsigned> round{0};
  std::atomic<unsigned> answered{0};
  constexpr unsigned rounds = 3000;
  int seen_by_other = 0;
  std::thread other{[&] {
    for (unsigned r = 1; r <= rounds; ++r) {
      while (round.load(std::memory_order_acquire) != r) std::this_thread::yield();
      x.store(1, std::memory_order_relaxed);
      isa::compiler_fence();
      seen_by_other = y.load(std::memory_order_relaxed);
      answered.store(r, std::memory_order_release);
    }
  }};
  unsigned both_missed = 0;
  for (unsigned r = 1; r <= rounds; ++r) {
    x = 0;
    y = 0;
    round.store(r, std::memory_order_release);
    y.store(1, std::memory_order_relaxed);
    platform::fence_all_threads();
    const int seen = x.load(std::memory_order_relaxed);
    while (answered.load(std::memory_order_acquire) != r) std::this_thread::yield();
    if (seen == 0 && seen_by_other == 0) ++both_missed;
  }
  other.join();
  EXPECT_EQ(both_missed, 0U);
}

}  // namespace
}  // namespace nvm
