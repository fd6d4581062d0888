// Threads that commit and read, and cleaners in the background: each object is always of one transaction.
#include <thread>

#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::small_settings;

template <class Kind>
class log_heap_threads : public ::testing::Test {};
using kinds = ::testing::Types<testing::plain, testing::leaves, testing::skip_lists<mapping_step::node_cache>,
                               testing::skip_lists<mapping_step::lock_free_readers>>;
TYPED_TEST_SUITE(log_heap_threads, kinds);

constexpr std::uint64_t object_bytes = 120;

// A writer: overwrites its objects, and allocates and frees others.  `fills`: what each of its objects holds at the
// end.
template <class Kind>
void write_some(ground<Kind>& g, unsigned seed, const std::vector<home_t>& homes, std::vector<int>& fills,
                std::atomic<unsigned>& faults) {
  auto* t = *g->join();
  std::mt19937_64 random{seed};
  std::vector<home_t> mine;
  for (int i = 1; i <= 4000; ++i) {
    typename ground<Kind>::transaction_type tx{*g, *t};
    const unsigned which = random() % homes.size();
    const int fill = i % 251;
    const std::vector<std::byte> bytes(object_bytes, std::byte(fill));
    tx.store(homes[which], bytes.data(), object_bytes);
    if (mine.size() < 30 && random() % 2 == 0) {
      const auto home = tx.allocate(40 + random() % 400);
      if (home) tx.store(*home, bytes.data(), 40);
      if (home) mine.push_back(*home);
    } else if (!mine.empty()) {
      if (!tx.release(mine.back())) ++faults;
      mine.pop_back();
    }
    if (!tx.commit()) {
      ADD_FAILURE() << last_message();
      ++faults;
      break;
    }
    fills[which] = fill;
  }
  g->leave(*t);
}

TYPED_TEST(log_heap_threads, commit_and_read_while_cleaners_work) {
  heap_settings s = small_settings();
  s.cleaners = 2;
  s.clean_from = 30;
  s.clean_below = 60;
  ground<TypeParam> g{400, s};
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  constexpr unsigned writers = 3;
  constexpr std::uint64_t size = object_bytes;
  constexpr unsigned objects = 40;
  std::vector<std::vector<home_t>> homes(writers);
  std::vector<std::vector<int>> fills(writers, std::vector<int>(objects));
  std::atomic<unsigned> faults{0};
  std::atomic<bool> done{false};
  // Objects that stay, so that readers have something to look at.
  for (auto& h : homes) {
    for (unsigned i = 0; i < objects; ++i) h.push_back(g.put(size, 0));
  }
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] { write_some(g, w, homes[w], fills[w], faults); });
  }
  for (unsigned r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      auto* t = *g->join();
      std::mt19937_64 random{100 + r};
      std::vector<std::byte> out(size);
      while (!done.load()) {
        // A byte is of one transaction; bytes of different ones are for the caller's isolation to keep apart.
        const home_t at = homes[random() % writers][random() % objects];
        g->read(*t, at, out.data(), 1);
        if (std::to_integer<int>(out[0]) > 250) ++faults;
      }
      g->leave(*t);
    });
  }
  for (unsigned w = 0; w < writers; ++w) threads[w].join();
  done.store(true);
  for (std::size_t i = writers; i < threads.size(); ++i) threads[i].join();
  g->stop_cleaners();
  EXPECT_EQ(faults.load(), 0U);
  const auto as_expected = [&] {
    for (unsigned w = 0; w < writers; ++w) {
      for (unsigned i = 0; i < objects; ++i) {
        ASSERT_EQ(g.look(homes[w][i], size), std::vector<std::byte>(size, std::byte(fills[w][i]))) << w << " " << i;
      }
    }
  };
  as_expected();
  EXPECT_EQ(g->check(), "");
  EXPECT_GT(g->statistics().cleaned, 50U);
  const auto objects_before = g.objects();
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  as_expected();
  EXPECT_EQ(g.objects(), objects_before);
  EXPECT_EQ(g->check(), "");
}

}  // namespace
}  // namespace nvm::logheap
