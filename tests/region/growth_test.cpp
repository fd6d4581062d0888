// Runs that grow where they are, and give back what they do not need.
#include <map>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using media_type = direct_media;

class region_growth : public ::testing::Test {
 protected:
  void start(std::uint64_t pages, std::uint64_t capacity) {
    pool = std::make_unique<ground<media_type>>(pool_geometry(pages, capacity), settings(), isa::best_write_back());
    join();
  }
  void join() {
    set = &pool->make("subject");
    t = &pool->join();
  }
  template <class Body>
  status change(std::uint64_t rid, bool joins, Body&& body) {
    return change_alone(pool->all(), *set, *t, rid, mode::adaptive, joins, body);
  }
  status create(std::uint64_t rid, std::uint64_t size) {
    auto bytes = pattern(rid, size);
    const status s = change(rid, false, [&](auto& tx) -> status {
      if (status made = tx.create(rid, size, 0); !made) return made;
      return tx.write(rid, 0, bytes);
    });
    if (s) model[rid] = bytes;
    return s;
  }
  status append(std::uint64_t rid, std::uint64_t bytes) {
    const auto b = pattern(++patterns, bytes);
    const status s = change(rid, true, [&](auto& tx) -> status {
      const auto at = tx.append(rid, b);
      return at ? status{} : status{at.error()};
    });
    if (s) model[rid].insert(model[rid].end(), b.begin(), b.end());
    return s;
  }
  status truncate(std::uint64_t rid, std::uint64_t length) {
    const status s = change(rid, true, [&](auto& tx) { return tx.truncate(rid, length); });
    if (s) model[rid].resize(length);
    return s;
  }
  void compare() {
    for (const auto& [rid, bytes] : model) {
      std::vector<std::byte> seen(bytes.size() + 1);
      const auto n = read(pool->all(), *set, *t, rid, 0, seen);
      ASSERT_TRUE(n) << last_message();
      seen.resize(*n);
      EXPECT_EQ(seen, bytes) << rid;
    }
  }
  void crash() {
    pool->crash_and_open();
    join();
    compare();
  }
  void collect() {
    for (int i = 0; i < 3; ++i) pool->all().collect(true);
  }
  statistics sum() {
    statistics s;
    pool->all().sum_up(s);
    return s;
  }
  std::uint64_t fill(std::uint64_t bytes) {
    while (create(next, bytes)) ++next;
    return next;
  }

  std::unique_ptr<ground<media_type>> pool;
  set_state<media_type>* set = nullptr;
  thread_state<media_type>* t = nullptr;
  std::map<std::uint64_t, std::vector<std::byte>> model;
  std::uint64_t patterns = 1000;
  std::uint64_t next = 100;
};

TEST_F(region_growth, of_one_that_is_appended_to_copies_nothing) {
  start(2048, 4096);
  ASSERT_TRUE(create(1, 3000));
  for (unsigned i = 0; i < 300; ++i) ASSERT_TRUE(append(1, i % 3 == 0 ? 100 : 4000)) << last_message();
  compare();
  EXPECT_GT(sum().grown, 5U);
  // The end of the pool, and pages of others, are in the way now and then.
  EXPECT_LE(sum().changes[static_cast<unsigned>(technique::copy)], 10U);
  crash();
  ASSERT_TRUE(append(1, 9000));
  compare();
}

TEST_F(region_growth, goes_elsewhere_where_pages_are_in_use) {
  start(512, 512);
  for (std::uint64_t rid = 1; rid <= 6; ++rid) ASSERT_TRUE(create(rid, 4096));
  for (unsigned i = 0; i < 12; ++i) {
    for (std::uint64_t rid = 1; rid <= 6; ++rid) ASSERT_TRUE(append(rid, 3000)) << last_message();
  }
  compare();
  EXPECT_GT(sum().changes[static_cast<unsigned>(technique::copy)], 0U);
  collect();
  crash();
  for (std::uint64_t rid = 1; rid <= 6; ++rid) {
    ASSERT_TRUE(change(rid, true, [&](auto& tx) { return tx.drop(rid); }));
  }
  pool->all().come_to_rest();
  pool->all().drop(*set);
  const std::uint64_t free = pool->free_pages();
  pool->crash_and_open();
  EXPECT_EQ(pool->free_pages(), free);
}

TEST_F(region_growth, of_a_full_pool_takes_what_truncated_regions_do_not_need) {
  start(128, 128);
  ASSERT_TRUE(create(1, 100'000));
  // There is room: it stays.
  ASSERT_TRUE(truncate(1, 5000));
  const std::uint64_t last = fill(20'000);
  ASSERT_GT(last, 110U);  // more than there was room for beside the 25 pages
  compare();
  ASSERT_TRUE(truncate(100, 10));
  ASSERT_TRUE(truncate(101, 4097));
  collect();
  EXPECT_TRUE(create(2, 8000)) << last_message();
  EXPECT_TRUE(create(3, 8000)) << last_message();
  compare();
  EXPECT_TRUE(append(101, 4000)) << last_message();
  crash();
  // Known again after a crash.
  ASSERT_TRUE(truncate(102, 4000));
  EXPECT_TRUE(create(4, 8000)) << last_message();
  compare();
}

TEST_F(region_growth, takes_no_page_under_a_lease) {
  start(64, 64);
  ASSERT_TRUE(create(1, 20'000));
  (void)fill(9000);
  (void)fill(4000);
  const auto before = model[1];
  const auto l = hold(pool->all(), *set, *t, 1);
  ASSERT_TRUE(l) << last_message();
  ASSERT_TRUE(truncate(1, 100));
  collect();
  EXPECT_EQ(create(2, 4096).error(), errc::no_space);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), l->bytes));
  ASSERT_TRUE(let_go(pool->all(), *l));
}

TEST_F(region_growth, of_a_full_pool_takes_what_was_leased_or_held_before) {
  start(64, 64);
  ASSERT_TRUE(create(1, 20'000));
  (void)fill(9000);
  (void)fill(4000);
  const auto l = hold(pool->all(), *set, *t, 1);
  ASSERT_TRUE(l) << last_message();
  ASSERT_TRUE(truncate(1, 10'000));
  EXPECT_EQ(create(2, 4096).error(), errc::no_space);
  ASSERT_TRUE(let_go(pool->all(), *l));
  EXPECT_TRUE(create(2, 4096)) << last_message();
  (void)fill(4000);
  // The thread that truncates knows of no shortage; another one holds the region then.
  ASSERT_TRUE(change(100, true, [&](auto& tx) { return tx.drop(100); }));
  model.erase(100);
  collect();
  ASSERT_TRUE(truncate(1, 100));
  auto& other = pool->join();
  {
    const domain<media_type>::inside here{pool->all(), other};
    transaction<media_type> holds{pool->all(), *set, other};
    ASSERT_TRUE(holds.join(1));
    (void)fill(9000);
    (void)fill(4000);
    holds.abort();
  }
  EXPECT_TRUE(create(3, 4096)) << last_message();
  compare();
}

// Dropping a set loses none of the pages that its regions gave back before.
TEST_F(region_growth, loses_no_page_with_its_set) {
  start(64, 64);
  ASSERT_TRUE(create(1, 20'000));
  (void)fill(9000);
  ASSERT_TRUE(truncate(1, 100));
  pool->all().drop(*set);
  collect();
  const std::uint64_t free = pool->free_pages();
  pool->crash_and_open();
  EXPECT_EQ(pool->free_pages(), free);
}

// ---- long runs of scattered pages ----------------------------------------------------------------------------------

TEST(region_gather, takes_the_window_that_moves_the_fewest_pages) {
  using detail::stretch;
  const auto free = [](std::uint64_t first, std::uint64_t count) { return stretch{first, count}; };
  const auto used = [](std::uint64_t first, std::uint64_t count) { return stretch{first, count, first, 0, false}; };
  // Pages 30 to 33 and 64 are of others.
  const stretch all[] = {free(0, 10), used(10, 15), free(25, 5), free(34, 6), used(40, 4), free(44, 20), free(65, 20)};
  const auto is = [&](std::uint64_t count, std::uint64_t first, std::size_t begin, std::size_t end) {
    const detail::window w = detail::cheapest_window(all, count, 61);
    EXPECT_EQ(w.first, first) << count;
    EXPECT_EQ(w.begin, begin) << count;
    EXPECT_EQ(w.end, end) << count;
  };
  is(8, 2, 0, 1);
  is(20, 44, 5, 6);
  is(24, 40, 4, 6);
  is(25, 39, 3, 6);
  is(30, 34, 3, 6);
  for (const std::uint64_t none : {31, 62}) EXPECT_EQ(detail::cheapest_window(all, none, 61).end, 0U) << none;
}

// Every other one goes: half of the pool is free, and nowhere more than a few pages of it.
class region_gathering : public region_growth {
 protected:
  void scatter() {
    start(256, 256);
    const std::uint64_t last = fill(12'000);
    for (std::uint64_t rid = 100; rid < last; rid += 2) {
      ASSERT_TRUE(change(rid, true, [&](auto& tx) { return tx.drop(rid); }));
      model.erase(rid);
    }
    collect();
  }
};

TEST_F(region_gathering, moves_regions_to_make_a_long_run) {
  scatter();
  const std::uint64_t free = pool->free_pages();
  ASSERT_GT(free, 60U);
  EXPECT_TRUE(create(1, 160'000)) << last_message();
  EXPECT_GT(sum().moved, 5U);
  compare();
  collect();
  EXPECT_EQ(pool->free_pages(), free - 40);
  EXPECT_TRUE(append(1, 40'000)) << last_message();
  compare();
  crash();
  EXPECT_TRUE(create(2, 40'000)) << last_message();
  crash();
}

TEST_F(region_gathering, leaves_regions_alone_that_are_leased_or_held) {
  scatter();
  auto& other = pool->join();
  std::vector<lease> leases;
  std::vector<std::unique_ptr<transaction<media_type>>> open;
  unsigned i = 0;
  for (const auto& [rid, bytes] : model) {
    if (++i % 8 == 0) {
      const auto l = hold(pool->all(), *set, *t, rid);
      ASSERT_TRUE(l) << last_message();
      leases.push_back(*l);
    } else if (i % 8 == 4) {
      const domain<media_type>::inside here{pool->all(), other};
      open.push_back(std::make_unique<transaction<media_type>>(pool->all(), *set, other));
      ASSERT_TRUE(open.back()->join(rid)) << last_message();
    }
  }
  EXPECT_EQ(create(1, 160'000).error(), errc::no_space);
  EXPECT_TRUE(create(2, 60'000)) << last_message();
  for (const auto& tx : open) {
    const domain<media_type>::inside here{pool->all(), other};
    tx->abort();
  }
  open.clear();  // before their thread
  compare();
  for (const lease& l : leases) ASSERT_TRUE(let_go(pool->all(), l));
  crash();
}

}  // namespace
}  // namespace nvm::region::testing
