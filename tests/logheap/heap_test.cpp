// What committed transactions have left is there: now, after a crash, after a clean close, whatever was cleaned.
#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::player;
using testing::small_settings;

// On every mapping, and on each step of the paper's.
template <class Kind>
class log_heap : public ::testing::Test {};
using kinds =
    ::testing::Types<testing::plain, testing::leaves, testing::skip_lists<mapping_step::base>,
                     testing::skip_lists<mapping_step::two_layers>, testing::skip_lists<mapping_step::group_update>,
                     testing::skip_lists<mapping_step::node_cache>,
                     testing::skip_lists<mapping_step::lock_free_readers>>;
TYPED_TEST_SUITE(log_heap, kinds);

TYPED_TEST(log_heap, has_what_was_committed) {
  ground<TypeParam> g;
  const home_t a = g.put(100, 1);
  const home_t b = g.put(50, 2);
  g.paint(a + 10, 20, 3);
  EXPECT_EQ(g.look(a, 10), std::vector<std::byte>(10, std::byte{1}));
  EXPECT_EQ(g.look(a + 10, 20), std::vector<std::byte>(20, std::byte{3}));
  g.free(b);
  EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{a, 100}}));
  EXPECT_EQ(g->check(), "");
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_EQ(g.look(a + 5, 10)[4], std::byte{1});
  EXPECT_EQ(g.look(a + 5, 10)[5], std::byte{3});
  EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{a, 100}}));
  EXPECT_EQ(g->check(), "");
}

template <class Kind>
void live_through(const heap_settings& s, std::uint64_t seed, bool crashes, bool closes) {
  ground<Kind> g{512, s};
  player<Kind> p{g, seed};
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 60; ++i) p.step();
    ASSERT_NO_FATAL_FAILURE(p.compare()) << "round " << round;
    if (round % 3 == 1) {
      while (g->clean(4, round % 2 == 1) != 0) {
      }
      ASSERT_NO_FATAL_FAILURE(p.compare()) << "round " << round << ", cleaned";
    }
    if (crashes && round % 4 == 2) {
      ASSERT_TRUE(g.crash_and_open()) << last_message();
      EXPECT_FALSE(g.report().clean);
      for (const damaged_block& d : g.report().damaged) {
        ADD_FAILURE() << "block at " << d.offset << ", version " << d.version << ", of " << d.homes;
      }
      ASSERT_NO_FATAL_FAILURE(p.compare()) << "round " << round << ", recovered";
    }
    if (closes && round % 4 == 3) {
      // What a close has saved is what the log says: in turn, one of them.
      g.settings().use_saved = round % 8 == 3;
      ASSERT_TRUE(g.close_and_open()) << last_message();
      EXPECT_EQ(g.report().clean, g.settings().use_saved) << last_message();
      EXPECT_TRUE(g.report().damaged.empty());
      ASSERT_NO_FATAL_FAILURE(p.compare()) << "round " << round << ", closed";
    }
  }
}

TYPED_TEST(log_heap, is_as_its_model_through_crashes_and_closes) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    ASSERT_NO_FATAL_FAILURE(live_through<TypeParam>(small_settings(), seed, true, true)) << "seed " << seed;
  }
}
// What is reserved for a partition must last for all of its changes, in whatever order entries are laid out.
TYPED_TEST(log_heap, changes_a_partition_in_many_ways_at_once) {
  heap_settings s = small_settings();
  s.partition_bytes = 16384;
  ground<TypeParam> g{512, s};
  std::vector<home_t> old;
  for (int i = 0; i < 12; ++i) old.push_back(g.put(100, i));
  const std::uint64_t slot = old[1] - old[0];
  const std::vector<std::byte> bytes(std::max<std::uint64_t>(12 * slot, 3000), std::byte{99});
  typename ground<TypeParam>::transaction_type t{*g, g.thread()};
  std::vector<home_t> fresh;
  for (int i = 0; i < 8; ++i) {
    fresh.push_back(*t.allocate(100));
    t.store(fresh.back(), bytes.data(), 100);
    if (i == 6) t.store(*t.allocate(3000), bytes.data(), 3000);
  }
  t.store(old[0], bytes.data(), 10 * slot);
  ASSERT_TRUE(t.commit()) << last_message();
  for (int lives = 0; lives < 2; ++lives) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(g.look(old[static_cast<std::size_t>(i)], 100)[0], std::byte{99});
    for (const home_t h : fresh) EXPECT_EQ(g.look(h, 100)[99], std::byte{99});
    EXPECT_EQ(g->check(), "");
    ASSERT_TRUE(g.crash_and_open()) << last_message();
  }
}
TYPED_TEST(log_heap, is_as_its_model_with_one_log_for_all) {
  heap_settings s = small_settings();
  s.separate_logs = false;
  s.group_update = false;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    ASSERT_NO_FATAL_FAILURE(live_through<TypeParam>(s, seed, true, true)) << "seed " << seed;
  }
}
TYPED_TEST(log_heap, recovers_in_parallel_what_it_recovers_alone) {
  heap_settings s = small_settings();
  s.recovery_threads = 3;
  for (std::uint64_t seed = 11; seed <= 12; ++seed) {
    ASSERT_NO_FATAL_FAILURE(live_through<TypeParam>(s, seed, true, false)) << "seed " << seed;
  }
}
// Shares of home space are replayed apart, in pieces of at most 32 KiB.
TYPED_TEST(log_heap, recovers_objects_that_lie_in_several_shares) {
  for (const unsigned threads : {1U, 3U}) {
    heap_settings s = small_settings();
    s.recovery_threads = threads;
    ground<TypeParam> g{1024, s};
    constexpr std::uint64_t size = 200'000;
    std::vector<home_t> homes;
    std::vector<std::vector<std::byte>> expected;
    std::mt19937_64 random{threads};
    for (int i = 0; i < 3; ++i) {
      homes.push_back(g.put(size, i));
      expected.emplace_back(size, std::byte(i));
    }
    for (int i = 0; i < 300; ++i) {
      const std::size_t which = random() % 3;
      const std::uint64_t from = random() % size;
      const std::uint64_t n = std::min(size - from, 1 + random() % (i % 10 == 0 ? 80'000 : 50));
      g.paint(homes[which] + from, n, i);
      std::fill_n(expected[which].begin() + static_cast<std::ptrdiff_t>(from), n, std::byte(i));
      if (i % 60 != 0) continue;
      while (g->clean(8, true) > 4) {
      }
    }
    g.free(homes[1]);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_EQ(g.look(homes[0], size), expected[0]);
    EXPECT_EQ(g.look(homes[2], size), expected[2]);
    EXPECT_EQ(g.look(homes[1], size), std::vector<std::byte>(size));
    EXPECT_EQ(g.objects().size(), 2U);
    EXPECT_EQ(g->check(), "");
  }
}

}  // namespace
}  // namespace nvm::logheap
