#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

// Of a thread of this process: 'S' while it waits for a lock.
char state_of(pid_t thread) {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos ? '?' : text[name_end + 2];
}

TEST(growth, happens_by_itself_and_keeps_everything) {
  test_pool pool{test_geometry(5, 3000)};
  ASSERT_TRUE(pool.boot());
  std::map<std::uint64_t, std::uint64_t> model;
  std::uint64_t bytes = 16;
  for (;;) {
    const auto a = put(pool, bytes, static_cast<unsigned>(bytes % 4));
    if (!a) break;
    EXPECT_TRUE(model.emplace(*a, pool->find(*a, object_layout::raw)->bytes).second);
    bytes = bytes * 9 / 8 % 60000 + 16;
  }
  EXPECT_EQ(last_code(), errc::no_space);
  EXPECT_EQ(pool.sizes().size_pages, 3000U);
  EXPECT_GE(pool.growths, 5U);
  EXPECT_EQ(pool.objects(), model);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot(2));
  EXPECT_EQ(again.objects(), model);
  EXPECT_TRUE(again.check());
}

TEST(growth, makes_room_for_one_object_larger_than_the_pool) {
  test_pool pool{test_geometry(10, 1000)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 900 * 4096);
  ASSERT_TRUE(a) << last_message();
  EXPECT_EQ(pool.growths, 1U);
  // The free pages at the end count: the capacity suffices exactly.
  const auto b = put(pool, 100 * 4096);
  ASSERT_TRUE(b) << last_message();
  EXPECT_EQ(pool->used_pages(), 1000U);
  EXPECT_EQ(put(pool, 16).error(), errc::no_space);
}

TEST(growth, by_the_last_pages_of_the_capacity_suffices_for_an_extent) {
  test_pool pool{test_geometry(5, 16)};
  ASSERT_TRUE(pool.boot());
  ASSERT_TRUE(put(pool, 3 * 4096));
  ASSERT_TRUE(put(pool, 4160)) << "a coarse extent at page 8";
  EXPECT_EQ(pool.sizes().size_pages % 8, 0U);
}

TEST(growth, is_not_needed_while_empty_extents_hold_the_pages) {
  test_pool pool{test_geometry(16, 1000)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 14; ++i) all.push_back(*put(pool, 4160));
  for (const std::uint64_t a : all) ASSERT_TRUE(drop(pool, a));
  ASSERT_TRUE(put(pool, 16 * 4096));
  EXPECT_EQ(pool.growths, 0U);
}

TEST(growth, that_fails_leaves_a_usable_pool_and_may_succeed_later) {
  test_pool pool{test_geometry(16, 1000)};
  ASSERT_TRUE(pool.boot());
  pool.device_pages = 20;
  ASSERT_TRUE(put(pool, 16 * 4096));
  EXPECT_EQ(put(pool, 10 * 4096).error(), errc::no_space);
  EXPECT_EQ(pool.sizes().size_pages, 16U);
  const auto small = put(pool, 4 * 4096);
  ASSERT_TRUE(small) << "the device has room for that";
  EXPECT_EQ(put(pool, 64).error(), errc::no_space);
  pool.device_pages = 1000;
  EXPECT_TRUE(put(pool, 10 * 4096));
  EXPECT_TRUE(put(pool, 64));
  EXPECT_TRUE(pool.check());
}

// While one thread makes the pool grow another comes to do so: what the first has done may be all it needs.
TEST(growth, is_asked_for_once_by_threads_that_wait_for_it) {
  for (const bool grows : {true, false}) {
    const geometry g = test_geometry(16, 1000);
    const image memory = make_image(g);
    ordered_media medium;
    test_lanes lanes{4};
    std::unique_ptr<test_space> s;
    std::atomic<unsigned> calls{0};
    std::atomic<pid_t> second{0};
    test_space::reservation last;
    s = std::make_unique<test_space>(medium, lanes, memory.get(), g, [&](std::uint64_t) -> result<std::uint64_t> {
      ++calls;
      // Nothing else keeps the second thread once it has begun but the lock that this one holds.
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
      while ((second == 0 || state_of(second) != 'S') && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
      if (grows) return 100;
      s->cancel(last, 0);  // the last pages become free instead
      return fail(errc::no_space, "the device is full");
    });
    ASSERT_TRUE(s->boot(0, 1));
    const auto a = s->reserve(0, 8 * 4096, object_layout::raw);
    const auto b = s->reserve(0, 8 * 4096, object_layout::raw);
    ASSERT_TRUE(a && b);
    last = a->offset > b->offset ? *a : *b;
    result<test_space::reservation> one = errc::invalid;
    std::thread first{[&] { one = s->reserve(0, 6 * 4096, object_layout::raw); }};
    while (calls == 0) std::this_thread::yield();
    result<test_space::reservation> two = errc::invalid;
    std::thread other{[&] {
      second = gettid();
      two = s->reserve(1, 5 * 4096, object_layout::raw);
    }};
    first.join();
    other.join();
    EXPECT_EQ(bool{one}, grows);
    EXPECT_TRUE(two) << "from what became free, or was added, meanwhile";
    EXPECT_EQ(calls, 1U);
    EXPECT_EQ(s->size_pages(), grows ? 100U : 16U);
  }
}

TEST(growth, is_impossible_without_a_way_to_grow) {
  const geometry g = test_geometry(8, 1000);
  const image memory = make_image(g);
  ordered_media medium;
  test_lanes lanes{4};
  test_space s{medium, lanes, memory.get(), g};
  ASSERT_TRUE(s.boot(0, 1));
  EXPECT_TRUE(s.reserve(0, 8 * 4096, object_layout::raw));
  EXPECT_EQ(s.reserve(0, 4096, object_layout::raw).error(), errc::no_space);
}

}  // namespace
}  // namespace nvm::testing
