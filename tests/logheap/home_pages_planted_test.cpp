// What would go wrong with home pages if an order were another is seen: this program has such faults compiled in.
//
// Each story holds a builder of a page at the moment that matters and lets another thread run for a while: with the
// fault it gets through, without it it waits.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/plant.hpp"
#include "page_ground.hpp"

namespace nvm::logheap {
namespace {

using testing::page;
using testing::page_ground;

constexpr home_t first = page_ground::first;

// Waits until it is set, or, where that should never be, for as long as a thread would need that is not held up.
void give_time_to(const std::atomic<bool>& done) {
  const std::chrono::milliseconds patience{planted_bug == plant::none ? 100 : 20'000};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done.load() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

class home_pages_planted : public ::testing::Test {
 protected:
  void TearDown() override { planted_bug = plant::none; }

  // A commit into a page that is being built, after the builder has read it: what is loaded afterwards.
  static int commit_beside_a_build(page_ground& g) {
    g.fill(first, page, 1);
    std::atomic<bool> has_read{false};
    std::atomic<bool> committed{false};
    g.after_read = [&](home_t) {
      has_read.store(true);
      give_time_to(committed);
    };
    std::thread other{[&] {
      while (!has_read.load()) std::this_thread::yield();
      g.fill(first + 100, 8, 2);
      committed.store(true);
    }};
    (void)g.load(first);
    other.join();
    return g.load(first + 100);
  }
  // A load from a page that is being built, before its builder has read it all.
  static int load_beside_a_build(page_ground& g) {
    g.fill(first, page, 1);
    std::atomic<bool> loaded{false};
    std::atomic<int> seen{-1};
    g.after_read = [&](home_t) { give_time_to(loaded); };
    std::thread other{[&] {
      seen.store(g.load(first));
      loaded.store(true);
    }};
    other.join();
    g.close();  // with the fault the builder is not done yet
    return seen.load();
  }
  // What a transaction has stored in place and not committed, while memory is wanted.
  static int drop_beside_a_transaction(page_ground& g) {
    g.fill(first, page, 1);
    g->pin(first, 8);
    g->at(first)[0] = std::byte{2};
    g->shrink(0);
    const int seen = g.load(first);
    g->unpin(first, 8);
    return seen;
  }
};

TEST_F(home_pages_planted, without_a_fault_all_is_well) {
  {
    PAGE_GROUND(g, 64);
    EXPECT_EQ(commit_beside_a_build(g), 2);
  }
  {
    PAGE_GROUND(g, 64);
    EXPECT_EQ(load_beside_a_build(g), 1);
  }
  PAGE_GROUND(g, 64);
  EXPECT_EQ(drop_beside_a_transaction(g), 2);
}

TEST_F(home_pages_planted, a_page_built_outside_of_its_lock_loses_a_commit) {
  PAGE_GROUND(g, 64);
  planted_bug = plant::page_built_unlocked;
  EXPECT_EQ(commit_beside_a_build(g), 1);
}

TEST_F(home_pages_planted, a_page_shown_before_its_contents_reads_as_zeros) {
  PAGE_GROUND(g, 64);
  planted_bug = plant::page_shown_unfinished;
  EXPECT_EQ(load_beside_a_build(g), 0);
}

TEST_F(home_pages_planted, a_pinned_page_dropped_loses_stores_in_place) {
  PAGE_GROUND(g, 64);
  planted_bug = plant::pinned_page_dropped;
  EXPECT_EQ(drop_beside_a_transaction(g), 1);
}

}  // namespace
}  // namespace nvm::logheap
