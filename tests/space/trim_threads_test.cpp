// Threads allocate and free while others trim: every object keeps what it holds, and no page without blocks is used.
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../random_seed.hpp"
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

class shared_file final : public pool_blocks {
 public:
  explicit shared_file(test_pool& pool) : pool_{pool} {}
  status fill(std::uint64_t page, std::uint64_t count) noexcept override {
    const std::lock_guard guard{lock_};
    for (std::uint64_t p = page; p < page + count; ++p) holes_.erase(p);
    return {};
  }
  status allow_holes() noexcept override { return {}; }
  status bring_home() noexcept override {
    std::this_thread::yield();
    return {};
  }
  status punch(std::uint64_t page, std::uint64_t count) noexcept override {
    const std::lock_guard guard{lock_};
    for (std::uint64_t p = page; p < page + count; ++p) {
      if (!holes_.insert(p).second) ++wrong;
    }
    // Whoever has these pages would see it, and so would a tool that watches threads.
    std::memset(pool_.base() + pool_.sizes().page_offset(page), 0xDD, count * 4096);
    return {};
  }
  status shrink(std::uint64_t pages, status&) noexcept override {
    const geometry g = pool_.sizes();
    std::memset(pool_.base() + g.page_offset(pages), 0xDD, (g.size_pages - pages) * 4096);
    pool_.shrunk_to(pages);
    const std::lock_guard guard{lock_};
    holes_.erase(holes_.lower_bound(pages), holes_.end());
    return {};
  }
  [[nodiscard]] bool is_hole(std::uint64_t page) {
    const std::lock_guard guard{lock_};
    return holes_.contains(page);
  }
  std::atomic<unsigned> wrong{0};

 private:
  test_pool& pool_;
  std::mutex lock_;
  std::set<std::uint64_t> holes_;
};

struct object_of_thread {
  std::uint64_t offset, bytes;
  unsigned char fill;
};

TEST(trim_threads, leave_each_object_as_it_is) {
  constexpr unsigned workers = 3;
  constexpr unsigned rounds = 4000;
  test_pool pool{test_geometry(256, 4096, workers + 1)};
  ASSERT_TRUE(pool.boot());
  shared_file file{pool};
  pool->keep_blocks_by(file);
  std::atomic<unsigned> working{workers};
  std::atomic<unsigned> bad{0};
  std::vector<std::thread> threads;
  for (unsigned lane = 0; lane < workers; ++lane) {
    threads.emplace_back([&, lane] {
      std::mt19937_64 random{tests::seed_from_environment() + lane};
      std::vector<object_of_thread> mine;
      for (unsigned i = 0; i < rounds; ++i) {
        // Sizes of extents and runs, many and then few.
        const bool more = (i / 500) % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0;
        if (more || mine.empty()) {
          const std::uint64_t bytes = random() % 8 == 0 ? 4200 + random() % 20000 : 16 + random() % 2000;
          const auto at = put(pool, bytes, lane);
          if (!at) continue;
          const auto fill = static_cast<unsigned char>(random());
          std::memset(pool.base() + *at, fill, bytes);
          if (file.is_hole(pool.sizes().page_of(*at))) ++bad;
          mine.push_back({*at, bytes, fill});
          continue;
        }
        std::swap(mine[random() % mine.size()], mine.back());
        const object_of_thread o = mine.back();
        mine.pop_back();
        const auto* p = reinterpret_cast<const unsigned char*>(pool.base() + o.offset);
        for (std::uint64_t k = 0; k < o.bytes; ++k) bad += p[k] != o.fill;
        if (!drop(pool, o.offset, lane)) ++bad;
      }
      for (const object_of_thread& o : mine) {
        if (!drop(pool, o.offset, lane)) ++bad;
      }
      --working;
    });
  }
  std::uint64_t punched = 0;
  std::uint64_t cut = 0;
  while (working != 0) {
    trim_outcome out;
    if (!pool->give_back({}, out)) ++bad;
    punched += out.pages_punched;
    cut += out.pages_cut;
    std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0U);
  EXPECT_EQ(file.wrong, 0U);
  std::printf("%lu pages punched, %lu cut\n", punched, cut);
  trim_outcome out;
  ASSERT_TRUE(pool->give_back({}, out));
  EXPECT_EQ(pool->used_pages(), 0U);
  EXPECT_TRUE(pool.check());
}

}  // namespace
}  // namespace nvm::testing
