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

// Two stores by turns have one structure.  What a thread has reserved is in the store that it meant.
TEST(stores, are_detached_beside_threads_that_allocate_in_them) {
  constexpr unsigned workers = 4;
  test_pool pool{test_geometry(4096, 4096, workers + 1)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t pages[] = {make_store(pool, 1), make_store(pool, 2)};
  spin_lock lock;  // of `now`
  store_attachment now = attach(pool, pages[0]).attached_as();
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> made{0}, late{0};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> kept[workers];  // number of the store, object
  std::vector<std::thread> threads;
  for (unsigned lane = 0; lane < workers; ++lane) {
    threads.emplace_back([&, lane] {
      std::mt19937_64 random{lane + 1};
      while (!done) {
        lock.lock();
        const store_attachment in = now;
        lock.unlock();
        if (random() % 4 == 0) std::this_thread::yield();
        const std::uint64_t bytes = random() % 8 == 0 ? random() % 20'000 + 1 : random() % 700 + 1;
        const auto r = pool->reserve_in(in, lane, bytes, object_layout::raw);
        if (!r) {
          const errc why = last_code();
          ASSERT_TRUE(why == errc::invalid || why == errc::no_space) << last_message();
          ++(why == errc::invalid ? late : made);
          continue;
        }
        // The store stays until this is committed or cancelled.
        ASSERT_EQ(in.store->attachment(), in.number);
        ASSERT_TRUE(in.store->cluster_with(pool.sizes().page_of(r->offset)));
        const std::uint64_t number = in.store->number();
        if (kept[lane].size() < 200 && random() % 4 == 0) {
          pool->committed(*r, lane, pool.lanes().commit(lane, {r->set}));
          kept[lane].emplace_back(number, r->offset);
        } else {
          pool->cancel(*r, lane);
        }
        ++made;
      }
    });
  }
  for (int turn = 1; turn <= 200; ++turn) {
    for (const std::uint64_t until = made + 5; made < until;) std::this_thread::yield();
    open_store* const s = now.store;
    while (!pool->detach(*s)) {
      ASSERT_EQ(last_code(), errc::busy) << last_message();
      std::this_thread::yield();
    }
    const store_attachment next = attach(pool, pages[turn % 2]).attached_as();
    ASSERT_EQ(next.store, s);
    const std::lock_guard guard{lock};
    now = next;
  }
  done = true;
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(pool->detach(*now.store)) << last_message();
  for (const std::uint64_t page : pages) {
    open_store& s = attach(pool, page);
    for (const auto& list : kept) {
      for (const auto& [number, at] : list) {
        EXPECT_EQ(s.cluster_with(pool.sizes().page_of(at)).has_value(), number == s.number());
        EXPECT_TRUE(number != s.number() || pool->find(at, object_layout::raw)) << last_message();
      }
    }
    ASSERT_TRUE(pool->detach(s)) << last_message();
  }
  summary_of(pool);
}

}  // namespace
}  // namespace nvm::testing
