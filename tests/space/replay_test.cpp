// Recovery may make intents again long after they were applied: whatever has changed since must survive that.
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

// Every order of lanes gives the same pool: all of it, not only its metadata.
void expect_replay_changes_nothing(const test_pool& pool, unsigned lanes) {
  const auto before = pool.essence();
  for (unsigned from = 0; from < lanes; ++from) {
    EXPECT_TRUE(test_pool(pool, from).essence() == before) << "lanes from " << from;
  }
}

TEST(replay, of_a_free_spares_the_slot_s_next_object) {
  test_pool pool{test_geometry(64, 64, 2)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 4096 + 64);
  ASSERT_TRUE(a);
  // One extent holds seven of these: after a round lane 0 is given the slot that lane 1 freed.
  ASSERT_TRUE(drop(pool, *a, 1));
  for (int i = 0; i < 8; ++i) {
    const auto b = put(pool, 4096 + 64);
    ASSERT_TRUE(b);
    expect_replay_changes_nothing(pool, 2);
    if (*b == *a) return;
  }
  FAIL() << "the slot was never used again";
}

TEST(replay, of_an_allocation_does_not_revive_a_freed_object) {
  test_pool pool{test_geometry(64, 64, 2)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 100, 0);
  ASSERT_TRUE(drop(pool, *a, 1));
  expect_replay_changes_nothing(pool, 2);
}

// An extent of 64-byte objects with no room left, all allocated by lane 0 and settled: 56 of them share a word.
class full_extent {
 public:
  explicit full_extent(test_pool& pool) : pool_{pool} {
    EXPECT_TRUE(pool.boot());
    while (auto a = put(pool, 64, 0)) objects.push_back(*a);
    EXPECT_EQ(last_code(), errc::no_space);
    // Any change by another lane settles lane 0.
    EXPECT_TRUE(drop(pool, objects[0], 3));
    objects[0] = *put(pool, 64, 3);
  }
  // Lanes 1 and 2 free two objects of one word; both begin before either commits, so neither settles the other.
  void free_two_at_once() {
    test_tx t1{pool_, 1};
    test_tx t2{pool_, 2};
    EXPECT_TRUE(t1.free(objects[100]));
    EXPECT_TRUE(t2.free(objects[101]));
    t1.commit();
    t2.commit();
  }
  std::vector<std::uint64_t> objects;

 private:
  test_pool& pool_;
};

// The word's tag names lane 2 in the end, but it is lane 1, too, that has to be settled.
TEST(replay, of_a_free_is_prevented_though_another_lane_changed_the_word_since) {
  test_pool pool{test_geometry(8, 8, 4)};
  full_extent e{pool};
  e.free_two_at_once();
  ASSERT_TRUE(put(pool, 64, 0));
  ASSERT_TRUE(put(pool, 64, 0));
  expect_replay_changes_nothing(pool, 4);
}

// Lane 1 settles lane 2 but not itself: that is left to lane 0.
TEST(replay, of_a_lane_s_own_change_is_prevented_for_the_lanes_behind_it) {
  test_pool pool{test_geometry(8, 8, 4)};
  full_extent e{pool};
  e.free_two_at_once();
  for (int i = 0; i < 2; ++i) {
    test_tx t{pool, 1};
    ASSERT_TRUE(t.allocate(64));
    t.abort();
  }
  ASSERT_TRUE(put(pool, 64, 0));
  ASSERT_TRUE(put(pool, 64, 0));
  expect_replay_changes_nothing(pool, 4);
}

TEST(replay, into_pages_given_back_is_prevented_though_another_lane_changed_the_word_since) {
  test_pool pool{test_geometry(8, 8, 4)};
  full_extent e{pool};
  for (std::size_t i = 0; i < e.objects.size(); ++i) {
    if (i == 100 || i == 101) continue;
    ASSERT_TRUE(drop(pool, e.objects[i], 2));
  }
  e.free_two_at_once();
  const auto run = put(pool, 8 * 4096, 0);
  ASSERT_TRUE(run);
  std::memset(pool.base() + *run, 0xFF, 8 * 4096);
  expect_replay_changes_nothing(pool, 4);
}

TEST(replay, into_an_extent_whose_pages_became_a_run_is_prevented) {
  test_pool pool{test_geometry(8, 8, 2)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 7; ++i) all.push_back(*put(pool, 4096, 0));
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(drop(pool, all[i], i % 2));
  const auto run = put(pool, 8 * 4096, 0);
  ASSERT_TRUE(run) << "all pages were free but for an empty extent";
  std::memset(pool.base() + *run, 0x5A, 8 * 4096);
  expect_replay_changes_nothing(pool, 2);
}

TEST(replay, of_a_run_s_entry_spares_the_extent_that_took_its_place) {
  test_pool pool{test_geometry(8, 8, 2)};
  ASSERT_TRUE(pool.boot());
  const auto run = put(pool, 8 * 4096, 0);
  ASSERT_TRUE(run);
  ASSERT_TRUE(drop(pool, *run, 0));
  ASSERT_TRUE(put(pool, 4096, 0)) << "the same lane's intents count too: the extent's entry is no intent";
  expect_replay_changes_nothing(pool, 2);
}

TEST(replay, of_a_run_s_entry_spares_the_log_run_that_took_its_place) {
  test_pool pool{test_geometry(8, 8, 2)};
  ASSERT_TRUE(pool.boot());
  const auto run = put(pool, 8 * 4096, 1);
  ASSERT_TRUE(run);
  ASSERT_TRUE(drop(pool, *run, 1));
  const auto log = pool->reserve_log_run(8 * 4096);
  ASSERT_TRUE(log);
  expect_replay_changes_nothing(pool, 2);
  pool->release_log_run(log->offset);
  ASSERT_TRUE(put(pool, 8 * 4096, 0));
  expect_replay_changes_nothing(pool, 2);
}

TEST(replay, of_a_run_s_entry_spares_another_lane_s_run_in_its_place) {
  test_pool pool{test_geometry(8, 8, 3)};
  ASSERT_TRUE(pool.boot());
  for (unsigned i = 0; i < 6; ++i) {
    const auto run = put(pool, 8 * 4096, i * 2 % 3);
    ASSERT_TRUE(run);
    expect_replay_changes_nothing(pool, 3);
    ASSERT_TRUE(drop(pool, *run, (i * 2 + 1) % 3));
    expect_replay_changes_nothing(pool, 3);
  }
}

TEST(replay, costs_one_lane_no_settling) {
  test_pool pool{test_geometry(256, 256, 2)};
  ASSERT_TRUE(pool.boot());
  for (int i = 0; i < 1000; ++i) {
    const auto a = put(pool, 200 + i, 0);
    ASSERT_TRUE(a);
    ASSERT_TRUE(drop(pool, *a, 0));
  }
  EXPECT_EQ(pool.lanes().settlements(), 0U);
}

}  // namespace
}  // namespace nvm::testing
