// Many threads at once: every byte of memory has one owner at a time, and the media hold exactly the committed changes.
#include <random>
#include <thread>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

// Objects that any thread may free, each by one.
class exchange {
 public:
  void give(std::uint64_t offset) {
    const std::lock_guard guard{lock_};
    all_.push_back(offset);
  }
  std::uint64_t take(std::uint64_t pick) {
    const std::lock_guard guard{lock_};
    if (all_.empty()) return 0;
    std::swap(all_[pick % all_.size()], all_.back());
    const std::uint64_t offset = all_.back();
    all_.pop_back();
    return offset;
  }
  std::vector<std::uint64_t> rest() {
    const std::lock_guard guard{lock_};
    return all_;
  }

 private:
  std::mutex lock_;
  std::vector<std::uint64_t> all_;
};

struct load {
  unsigned threads;
  unsigned rounds;
  std::uint64_t bytes_max;
};

// Each thread fills what it allocates with its own pattern and finds it unchanged when anybody frees it.
void stress(test_pool& pool, const load& l, exchange& objects) {
  std::vector<std::thread> threads;
  for (unsigned lane = 0; lane < l.threads; ++lane) {
    threads.emplace_back([&, lane] {
      std::mt19937_64 random{lane + 1};
      for (unsigned round = 0; round < l.rounds; ++round) {
        test_tx t{pool, lane};
        std::vector<std::uint64_t> made;
        std::vector<std::uint64_t> freed;
        for (std::uint64_t n = random() % 6; n > 0; --n) {
          const std::uint64_t bytes = random() % (random() % 8 == 0 ? l.bytes_max : 400) + 16;
          auto r = t.allocate(bytes);
          if (!r) {
            EXPECT_EQ(r.error(), errc::no_space);
            break;
          }
          std::memset(pool.base() + r->offset, static_cast<int>(r->offset / 16 % 251), r->bytes);
          made.push_back(r->offset);
        }
        for (std::uint64_t n = random() % 6; n > 0; --n) {
          const std::uint64_t offset = objects.take(random());
          if (offset == 0) break;
          auto o = pool->find(offset, object_layout::raw);
          ASSERT_TRUE(o) << last_message();
          const auto* p = reinterpret_cast<const unsigned char*>(pool.base()) + offset;
          for (std::uint64_t i = 0; i < o->bytes; ++i) ASSERT_EQ(p[i], offset / 16 % 251);
          ASSERT_TRUE(t.free(offset)) << last_message();
          freed.push_back(offset);
        }
        const bool commit = random() % 4 != 0;
        if (commit) {
          t.commit();
        } else {
          t.abort();
        }
        for (const std::uint64_t offset : commit ? made : freed) objects.give(offset);
        if (random() % 64 == 0) pool->trim();
        // Pointers that are wrong, into memory that others change meanwhile.
        const geometry g = pool.sizes();
        (void)pool->find(g.data_offset + random() % (g.size_bytes() - g.data_offset), object_layout::region);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

void expect_consistent(test_pool& pool, exchange& objects, unsigned lanes) {
  std::vector<std::uint64_t> rest = objects.rest();
  std::sort(rest.begin(), rest.end());
  std::vector<std::uint64_t> found;
  for (const auto& [offset, bytes] : pool.objects()) found.push_back(offset);
  EXPECT_EQ(found, rest);
  EXPECT_TRUE(pool.check());
  const auto before = pool.essence();
  for (unsigned from = 0; from < lanes; ++from) {
    EXPECT_TRUE(test_pool(pool, from).essence() == before) << "replay from lane " << from;
  }
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot(2));
  EXPECT_EQ(again->used_pages(), pool->used_pages());
  unsigned lane = 0;
  for (const std::uint64_t offset : rest) ASSERT_TRUE(drop(pool, offset, lane++ % lanes)) << last_message();
  pool->trim();
  EXPECT_EQ(pool->used_pages(), 0U);
  EXPECT_EQ(pool->statistics().slot_bytes_used, 0U);
  const run_allocator& pages = pool->index().pages;
  for (std::uint64_t c = 0; c < ceil_div(pages.size_pages(), 64); ++c) {
    EXPECT_EQ(pages.bitmap().chunk_bit(c), pages.bitmap().word(c) == ~std::uint64_t{0});
    EXPECT_EQ(pages.lock_map().word(c), 0U);
    EXPECT_FALSE(pages.lock_map().is_claimed(c));
  }
}

class threads : public ::testing::TestWithParam<unsigned> {};

TEST_P(threads, share_a_roomy_pool) {
  test_pool pool{test_geometry(4096, 4096, GetParam())};
  ASSERT_TRUE(pool.boot());
  exchange objects;
  stress(pool, {GetParam(), 3000, 20000}, objects);
  expect_consistent(pool, objects, GetParam());
}

TEST_P(threads, share_a_pool_that_is_always_full) {
  test_pool pool{test_geometry(60, 60, GetParam())};
  ASSERT_TRUE(pool.boot());
  exchange objects;
  stress(pool, {GetParam(), 3000, 60000}, objects);
  expect_consistent(pool, objects, GetParam());
}

TEST_P(threads, share_a_pool_that_grows) {
  test_pool pool{test_geometry(3, 3000, GetParam())};
  ASSERT_TRUE(pool.boot());
  exchange objects;
  stress(pool, {GetParam(), 1500, 300000}, objects);
  expect_consistent(pool, objects, GetParam());
}

TEST_P(threads, index_a_pool_on_demand_together) {
  test_pool before{test_geometry(2048, 2048, GetParam())};
  ASSERT_TRUE(before.boot());
  exchange objects;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    test_tx t{before, static_cast<unsigned>(i % GetParam())};
    const auto r = t.allocate(i % 10 == 0 ? 5000 : i % 700 + 16);
    ASSERT_TRUE(r);
    std::memset(before.base() + r->offset, static_cast<int>(r->offset / 16 % 251), r->bytes);
    objects.give(r->offset);
    t.commit();
  }
  test_pool pool{before, 0};
  ASSERT_TRUE(pool.boot());
  std::thread indexer{[&] { EXPECT_TRUE(pool->build_index(0, 1)); }};
  stress(pool, {GetParam(), 2000, 20000}, objects);
  indexer.join();
  expect_consistent(pool, objects, GetParam());
}

// Whoever comes by a wrong pointer asks for the extent that was at a page, while lanes pass its descriptor on.
TEST_P(threads, ask_for_extents_that_come_and_go) {
  test_pool pool{test_geometry(8, 8, GetParam())};
  ASSERT_TRUE(pool.boot());
  std::atomic<unsigned> at_work{GetParam()};
  std::vector<std::thread> all;
  for (unsigned lane = 0; lane < GetParam(); ++lane) {
    all.emplace_back([&, lane] {
      for (int i = 0; i < 10000; ++i) {
        const auto made = put(pool, 200, lane);
        if (made) {
          EXPECT_TRUE(drop(pool, *made, lane)) << last_message();
        }
        pool->trim();
      }
      --at_work;
    });
  }
  std::mt19937_64 random{1};
  const geometry g = pool.sizes();
  while (at_work != 0)
    (void)pool->find(g.data_offset + random() % (g.size_bytes() - g.data_offset), object_layout::region);
  for (std::thread& t : all) t.join();
  EXPECT_TRUE(pool.check());
  EXPECT_EQ(pool->used_pages(), 0U);
}

TEST_P(threads, take_each_page_once) {
  run_allocator pages{64 * 64 * 2 + 30, GetParam()};
  pages.extend(64 * 64 * 2 + 30);
  std::vector<std::atomic<unsigned>> owner(pages.size_pages());
  std::vector<std::thread> all;
  for (unsigned arena = 0; arena < GetParam(); ++arena) {
    all.emplace_back([&, arena] {
      std::mt19937_64 random{arena + 100};
      std::vector<std::pair<std::uint64_t, std::uint64_t>> own;
      const auto give_last = [&] {
        for (std::uint64_t p = own.back().first; p < own.back().first + own.back().second; ++p) owner[p] = 0;
        pages.give(own.back().first, own.back().second);
        own.pop_back();
      };
      for (int i = 0; i < 3000; ++i) {
        if (random() % 8 < 5) {
          const auto use = static_cast<page_use>(random() % 3);
          std::uint64_t count = use == page_use::fine ? 1 : use == page_use::coarse ? 8 : random() % 64 + 1;
          if (use == page_use::run && random() % 8 == 0) count = random() % 500 + 1;
          const auto page = pages.take(arena, use, count);
          if (!page) continue;
          for (std::uint64_t p = *page; p < *page + count; ++p) {
            EXPECT_EQ(owner[p].exchange(arena + 1), 0U) << "page " << p << " has two owners";
          }
          own.emplace_back(*page, count);
        } else if (!own.empty()) {
          std::swap(own[random() % own.size()], own.back());
          give_last();
        }
      }
      while (!own.empty()) give_last();
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(pages.free_pages(), pages.size_pages());
  for (std::uint64_t c = 0; c < ceil_div(pages.size_pages(), 64); ++c) {
    EXPECT_EQ(pages.bitmap().chunk_bit(c), pages.bitmap().word(c) == ~std::uint64_t{0});
    EXPECT_EQ(pages.lock_map().word(c), 0U);
    EXPECT_FALSE(pages.lock_map().is_claimed(c));
  }
  EXPECT_TRUE(pages.take(0, page_use::run, pages.size_pages()));
}

// Runs of up to a quarter of the pool, and short ones between them: who asks gets what there is.
TEST_P(threads, take_and_give_long_runs) {
  constexpr std::uint64_t size = 64 * 64 * 6 + 100;
  run_allocator pages{size, GetParam()};
  pages.extend(size);
  std::vector<std::atomic<unsigned>> owner(size);
  std::vector<std::thread> all;
  for (unsigned arena = 0; arena < GetParam(); ++arena) {
    all.emplace_back([&, arena] {
      std::mt19937_64 random{arena + 100};
      for (int i = 0; i < 1500; ++i) {
        const std::uint64_t count = 1 + random() % (i % 3 == 0 ? 64 : size / (2 * GetParam()) - 64);
        // Less than half of the pool is in use, in runs: there may be no room in one piece, but for a few pages.
        const auto page = pages.take(arena, page_use::run, count);
        if (!page) {
          EXPECT_GT(count, 64U);
          continue;
        }
        for (std::uint64_t p = *page; p < *page + count; ++p) {
          ASSERT_EQ(owner[p].exchange(arena + 1, std::memory_order_relaxed), 0U) << "page " << p << " has two owners";
        }
        for (std::uint64_t p = *page; p < *page + count; ++p) owner[p].store(0, std::memory_order_relaxed);
        pages.give(*page, count);
      }
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(pages.free_pages(), size);
  for (std::uint64_t c = 0; c < ceil_div(size, 64) - 1; ++c) {
    EXPECT_EQ(pages.bitmap().word(c), 0U);
    EXPECT_EQ(pages.bitmap().used_chunks(c / 64) >> c % 64 & 1, 0U);
    EXPECT_EQ(pages.lock_map().word(c), 0U);
    EXPECT_FALSE(pages.lock_map().is_claimed(c));
  }
  EXPECT_TRUE(pages.take(0, page_use::run, size));
}

INSTANTIATE_TEST_SUITE_P(of, threads, ::testing::Values(2U, 4U, 8U));

}  // namespace
}  // namespace nvm::testing
