// Threads that load from home pages by plain loads while others commit, store in place, drop and shrink.
#include <atomic>
#include <mutex>
#include <thread>

#include "ground.hpp"
#include "page_ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::page;
using testing::page_ground;
using testing::reserved_range;

// Objects of 72 bytes, so that some lie over the end of a page and many share one.  Each has a lock that stands for the
// isolation of transactions, and all its bytes are the same.
constexpr std::uint64_t bytes_in_page = 72;
struct object {
  std::mutex lock;
  int value = 0;  // guarded by `lock`, as the object's bytes are
};

struct crowd {
  unsigned writers = 2;
  unsigned readers = 2;
  unsigned steps = 6000;  // of each writer; up to a hundred times as many until more than `built` pages were built
  unsigned built = 100;
};

// commit(writer, home, bytes), in_place(writer, home, bytes): what a writer does to an object that it has locked.
template <class Commit, class InPlace>
unsigned run(const crowd& c, home_pages& pages, std::vector<object>& objects, const std::vector<home_t>& homes,
             Commit&& commit, InPlace&& in_place) {
  std::atomic<unsigned> wrong{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  std::vector<std::thread> others;
  for (unsigned w = 0; w < c.writers; ++w) {
    writers.emplace_back([&, w] {
      std::mt19937_64 random{w};
      std::vector<std::byte> bytes(bytes_in_page);
      // On a busy machine whoever drops pages may get no turn for a while.
      const auto go_on = [&](unsigned i) {
        return i <= c.steps || (i <= 100 * c.steps && pages.statistics().built <= c.built);
      };
      for (unsigned i = 1; go_on(i); ++i) {
        const std::uint64_t n = random() % objects.size();
        const int value = static_cast<int>(random() % 256);
        std::fill(bytes.begin(), bytes.end(), std::byte(value));
        const std::lock_guard guard{objects[n].lock};
        if (i % 3 == 0) {
          in_place(w, homes[n], bytes);
        } else {
          commit(w, homes[n], bytes);
        }
        objects[n].value = value;
      }
    });
  }
  for (unsigned r = 0; r < c.readers; ++r) {
    others.emplace_back([&, r] {
      std::mt19937_64 random{100 + r};
      while (!done.load()) {
        const std::uint64_t n = random() % objects.size();
        const std::lock_guard guard{objects[n].lock};
        const std::byte* const at = pages.at(homes[n]);
        for (std::uint64_t i = 0; i < bytes_in_page; ++i) {
          if (std::to_integer<int>(at[i]) != objects[n].value) ++wrong;
        }
      }
    });
  }
  others.emplace_back([&] {
    std::mt19937_64 random{200};
    while (!done.load()) {
      const std::uint64_t n = random() % objects.size();
      switch (random() % 8) {
        case 0:
          (void)pages.shrink(random() % 16 * page);
          break;
        case 1:
          (void)pages.shrink(0);
          break;
        case 2:
          pages.touch(homes[n], bytes_in_page);
          break;
        default:
          pages.drop(round_down(homes[n], page), (1 + random() % 4) * page);
      }
      std::this_thread::yield();
    }
  });
  for (auto& t : writers) t.join();
  done.store(true);
  for (auto& t : others) t.join();
  return wrong.load();
}

std::vector<home_t> homes_from(home_t first, std::uint64_t count) {
  std::vector<home_t> homes;
  for (std::uint64_t n = 0; n < count; ++n) homes.push_back(first + n * bytes_in_page);
  return homes;
}

void crowd_over_bytes(std::uint64_t bytes_max, unsigned fault_threads, bool own_readers) {
  PAGE_GROUND(g, 100, bytes_max, fault_threads);
  const auto homes = homes_from(page_ground::first, g.bytes() / bytes_in_page - page * 3 / bytes_in_page);
  std::vector<object> objects(homes.size());
  const home_read own = g.reader();
  const home_read* const reader = own_readers ? &own : nullptr;
  const unsigned wrong = run(
      {}, *g, objects, homes,
      [&](unsigned, home_t home, const std::vector<std::byte>& bytes) { g.commit(home, bytes.data(), bytes.size()); },
      [&](unsigned, home_t home, const std::vector<std::byte>& bytes) {
        g->pin(home, bytes.size(), reader);
        isolation::copy_in(g->at(home), bytes.data(), bytes.size());
        std::this_thread::yield();
        isolation::copy_in(g.in_heap(home), bytes.data(), bytes.size());
        g->unpin(home, bytes.size());
      });
  EXPECT_EQ(wrong, 0U);
  for (std::size_t n = 0; n < homes.size(); ++n) ASSERT_TRUE(g.agrees(homes[n], bytes_in_page));
  EXPECT_EQ(g->check(), "");
  EXPECT_EQ(g.resident(), g->statistics().pages);
  EXPECT_GT(g->statistics().built, 100U);
}

TEST(home_pages_threads, load_what_was_committed_last) { crowd_over_bytes(0, 1, false); }
TEST(home_pages_threads, load_what_was_committed_last_below_a_limit) { crowd_over_bytes(70 * page, 1, false); }
TEST(home_pages_threads, load_what_was_committed_last_with_several_that_build) { crowd_over_bytes(0, 3, true); }

// Nobody sees a page that is not whole: all threads touch a page at the same time.
TEST(home_pages_threads, that_touch_one_page_at_once_all_see_it_whole) {
  PAGE_GROUND(g, 64, 0, 2);
  for (std::uint64_t n = 0; n < 64; ++n) g.fill(page_ground::first + n * page, page, 1 + static_cast<int>(n));
  constexpr unsigned threads = 4;
  std::atomic<unsigned> wrong{0};
  for (unsigned round = 0; round < 20; ++round) {
    (void)g->shrink(0);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (std::uint64_t n = 0; n < 64; ++n) {
          const home_t home = page_ground::first + n * page + t % 2 * (page - 1);
          if (g.load(home) != 1 + static_cast<int>(n)) ++wrong;
        }
      });
    }
    for (auto& t : all) t.join();
    ASSERT_EQ(g->statistics().pages, 64U);
  }
  EXPECT_EQ(wrong.load(), 0U);
  // A page that two threads have asked for may be built once more for the second, if it was dropped in between.
  EXPECT_GE(g->statistics().built, 20U * 64U);
}

// ---- over the heap, while cleaners move what pages are built from ----

template <class Kind>
class home_pages_threads_over : public ::testing::Test {};
using kinds_with_pages = ::testing::Types<testing::leaves, testing::skip_lists<mapping_step::lock_free_readers>>;
TYPED_TEST_SUITE(home_pages_threads_over, kinds_with_pages);

TYPED_TEST(home_pages_threads_over, a_heap_load_what_was_committed_last_while_cleaners_work) {
  heap_settings settings = testing::small_settings();
  settings.home_bytes = std::uint64_t{1} << 22;
  settings.cleaners = 1;
  settings.clean_from = 30;
  settings.clean_below = 60;
  ground<TypeParam> g{400, settings};
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  std::vector<home_t> homes;
  for (unsigned i = 0; i < 300; ++i) homes.push_back(g.put(bytes_in_page, 0));
  std::vector<object> objects(homes.size());

  const reserved_range range{settings.home_bytes};
  auto* const reading = *g->join();
  home_pages_settings s;
  s.base = range.base();
  s.first = settings.home_first;
  s.bytes = settings.home_bytes;
  auto opened =
      home_pages::open(s, {[&](home_t home, std::byte* to, std::uint64_t size) { g->read(*reading, home, to, size); }});
  if (!opened) GTEST_SKIP() << last_message();
  home_pages& pages = **opened;
  crowd c;
  c.steps = 20'000;
  c.built = 20;
  std::vector<typename ground<TypeParam>::heap_type::thread*> threads;
  for (unsigned w = 0; w < c.writers; ++w) threads.push_back(*g->join());
  std::atomic<unsigned> failures{0};
  const auto commit_from = [&](unsigned w, home_t home, const std::byte* from, std::uint64_t size) {
    const typename ground<TypeParam>::heap_type::store_range r{home, from, size};
    if (!g->commit(*threads[w], {{&r, 1}, {}, {}})) ++failures;
  };
  const unsigned wrong = run(
      c, pages, objects, homes,
      [&](unsigned w, home_t home, const std::vector<std::byte>& bytes) {
        commit_from(w, home, bytes.data(), bytes.size());
        pages.store(home, bytes.data(), bytes.size());
      },
      [&](unsigned w, home_t home, const std::vector<std::byte>& bytes) {
        const home_read own = [&](home_t at, std::byte* to, std::uint64_t size) { g->read(*threads[w], at, to, size); };
        pages.pin(home, bytes.size(), &own);
        isolation::copy_in(pages.at(home), bytes.data(), bytes.size());
        commit_from(w, home, pages.at(home), bytes.size());
        pages.unpin(home, bytes.size());
      });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(failures.load(), 0U);
  for (std::size_t n = 0; n < homes.size(); ++n) {
    const std::vector<std::byte> expected(bytes_in_page, std::byte(objects[n].value));
    ASSERT_EQ(std::memcmp(pages.at(homes[n]), expected.data(), bytes_in_page), 0);
    ASSERT_EQ(g.look(homes[n], bytes_in_page), expected);
  }
  EXPECT_EQ(pages.check(), "");
  EXPECT_GT(pages.statistics().built, 20U);
  opened->reset();
  for (auto* t : threads) g->leave(*t);
  g->leave(*reading);
  g->stop_cleaners();
  EXPECT_EQ(g->check(), "");
}

}  // namespace
}  // namespace nvm::logheap
