// Pools on ssd that are partly in memory: programs see the same, and the same is durable, as without a limit.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../random_seed.hpp"
#include "../scratch_folder.hpp"
#include "list_of_blocks.hpp"
#include "nvm/kv.h"
#include "nvm/space.h"
#include "nvm/tier.h"

namespace nvm::tests {
namespace {

class bounded_image : public testing::TestWithParam<std::uint32_t> {
 protected:
  bounded_image() : folder_{"image-tier", true} {}

  [[nodiscard]] std::string path() const { return folder_.path("pool"); }
  [[nodiscard]] NVM_POOL* open(std::uint64_t fast_bytes, bool creates = false, std::uint32_t policy = 0) const {
    nvm_tier_options t{};
    t.fast_bytes = fast_bytes;
    t.policy = policy;
    nvm_pool_options o{};
    o.size = 4 * mib;
    o.log_bytes = 2 * mib;
    o.medium = NVM_MEDIUM_SSD;
    o.engine = creates ? GetParam() : std::uint32_t{NVM_ENGINE_DETECT};
    o.tier = &t;
    NVM_POOL* const p = creates ? nvm_pool_create_with(path().c_str(), &o) : nvm_pool_open_with(path().c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }
  [[nodiscard]] static nvm_tier_statistics statistics(NVM_POOL* p) {
    nvm_tier_statistics s{};
    EXPECT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
    return s;
  }
  void expect_whole() const {
    EXPECT_EQ(nvm_pool_check(
                  path().c_str(),
                  [](uint64_t at, const char* what, void*) { ADD_FAILURE() << "offset " << at << ": " << what; },
                  nullptr, nullptr),
              0)
        << nvm_errormsg();
  }

  scratch_folder folder_;
};
INSTANTIATE_TEST_SUITE_P(engines, bounded_image, testing::Values(NVM_ENGINE_UNDO, NVM_ENGINE_REDO),
                         [](const auto& i) { return i.param == NVM_ENGINE_UNDO ? "undo" : "redo"; });

#define BOUNDED_OR_SKIP(p)                                        \
  if (statistics(p).active == 0) {                                \
    const std::string why = statistics(p).why;                    \
    EXPECT_EQ(nvm_pool_close(p), 0);                              \
    EXPECT_NE(why.find("userfaultfd"), std::string::npos) << why; \
    GTEST_SKIP() << why;                                          \
  }

TEST_P(bounded_image, is_as_without_over_opens_and_stays_near_its_limit) {
  NVM_POOL* p = open(2 * mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  build(p, 5000);  // 16 MB: the pool grows
  verify(p, 5000);
  std::mt19937 random{3};
  auto blocks = all_of(p);
  change(p, blocks, random, 300);
  verify(p, 5000);
  ASSERT_EQ(nvm_tier_shrink(p, 2 * mib), 0);
  const nvm_tier_statistics s = statistics(p);
  EXPECT_LE(s.fast_bytes, 3 * mib);
  EXPECT_GT(s.slow_bytes, 10 * mib);
  EXPECT_GT(s.pages_dropped, 3000U);
  EXPECT_GT(s.pages_in, 3000U);
  EXPECT_EQ(s.pages_out, 0U);
  EXPECT_LE(s.dirty_bytes, s.fast_bytes);
  EXPECT_STREQ(s.why, "");
  EXPECT_EQ(std::string{s.path}, path());
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_whole();
  // The file knows nothing of it.
  p = nvm_pool_open(path().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 5000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  p = open(mib, false, NVM_TIER_LRU);
  ASSERT_NE(p, nullptr);
  verify(p, 5000);
  EXPECT_EQ(statistics(p).policy, std::uint32_t{NVM_TIER_LRU});
  EXPECT_LE(statistics(p).fast_bytes, mib + mib / 4);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// Runs of pages in the midst and at the end, of which some are in memory when they go; then others get their pages.
TEST_P(bounded_image, gives_free_pages_back_and_takes_them_again) {
  NVM_POOL* const p = open(2 * mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  build(p, 300);
  constexpr std::size_t bytes = 64 << 10;
  constexpr unsigned count = 160;
  const auto blocks_of_file = [this] {
    struct stat s{};
    EXPECT_EQ(::stat(path().c_str(), &s), 0);
    return static_cast<std::uint64_t>(s.st_blocks) * 512;
  };
  struct held {
    unsigned char* runs[count];
  };
  ASSERT_EQ(nvm_tx_begin(p), 0);
  auto* const all = static_cast<held*>(nvm_calloc(p, 3, 1, sizeof(held)));
  ASSERT_NE(all, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
  for (unsigned round = 1; round <= 3; ++round) {
    SCOPED_TRACE(round);
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_EQ(nvm_tx_begin(p), 0);
      ASSERT_EQ(nvm_tx_log(&all->runs[i], 8), 0) << nvm_errormsg();
      all->runs[i] = static_cast<unsigned char*>(nvm_alloc(p, 4, bytes));
      ASSERT_NE(all->runs[i], nullptr) << nvm_errormsg();
      std::memset(all->runs[i], static_cast<int>(round * 16 + i % 16), bytes);
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
    const std::uint64_t full = blocks_of_file();
    EXPECT_LE(statistics(p).slow_bytes, std::filesystem::file_size(path()));
    for (unsigned i = 0; i < count; ++i) {
      if (i % 10 == round) continue;
      ASSERT_EQ(nvm_tx_begin(p), 0);
      ASSERT_EQ(nvm_tx_log(&all->runs[i], 8), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_free(p, all->runs[i]), 0) << nvm_errormsg();
      all->runs[i] = nullptr;
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
    nvm_trim_report r{};
    ASSERT_EQ(nvm_pool_trim(p, nullptr, &r), 0) << nvm_errormsg();
    EXPECT_GT(r.punched, 5 * mib);
    EXPECT_LT(blocks_of_file(), full - 7 * mib);
    // No page that was freed keeps what is in no file any more.
    ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
    EXPECT_LT(statistics(p).fast_bytes, mib / 4);
    verify(p, 300);
    for (unsigned i = 0; i < count; ++i) {
      if (i % 10 != round) continue;
      for (std::size_t k = 0; k < bytes; k += 4096) ASSERT_EQ(all->runs[i][k], round * 16 + i % 16);
      ASSERT_EQ(nvm_tx_begin(p), 0);
      ASSERT_EQ(nvm_free(p, all->runs[i]), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
  }
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_whole();
}

// Pages come while the end of the file goes.
TEST_P(bounded_image, is_trimmed_while_threads_read) {
  NVM_POOL* const p = open(mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  constexpr std::uint64_t kept = 1000;
  build(p, kept);
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!ends.load()) verify(p, kept);
    });
  }
  for (unsigned round = 0; round < 20; ++round) {
    std::vector<void*> runs;
    for (unsigned i = 0; i < 16; ++i) {
      ASSERT_EQ(nvm_tx_begin(p), 0);
      runs.push_back(nvm_alloc(p, 4, 256 << 10));
      ASSERT_NE(runs.back(), nullptr) << nvm_errormsg();
      std::memset(runs.back(), static_cast<int>(round + 1), 256 << 10);
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
    for (void* r : runs) {
      ASSERT_EQ(nvm_tx_begin(p), 0);
      ASSERT_EQ(nvm_free(p, r), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
    nvm_trim_report r{};
    ASSERT_EQ(nvm_pool_trim(p, nullptr, &r), 0) << nvm_errormsg();
    EXPECT_GT(r.cut + r.punched, mib);
    EXPECT_LE(statistics(p).slow_bytes, std::filesystem::file_size(path()));
  }
  ends.store(true);
  for (std::thread& t : readers) t.join();
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_whole();
}

// In a transaction that is open all of its pages are asked to leave.
TEST_P(bounded_image, keeps_what_is_not_committed) {
  NVM_POOL* p = open(2 * mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  build(p, 300);
  auto blocks = all_of(p);
  ASSERT_EQ(nvm_tx_begin(p), 0);
  for (block* b : blocks) {
    ASSERT_EQ(nvm_tx_log(&b->changed, 8 + sizeof b->bytes), 0) << nvm_errormsg();
    b->changed = 17;
    fill(*b);
  }
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  for (const block* b : blocks) ASSERT_TRUE(b->changed == 17 && holds(*b));
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  ASSERT_EQ(nvm_tx_abort(p), 0) << nvm_errormsg();
  verify(p, 300);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_P(bounded_image, serves_threads_that_keep_values_of_all_sizes) {
  NVM_POOL* p = open(3 * mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  nvm_kv* const kv = nvm_kv_open(p, "values", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  constexpr unsigned threads = 3;
  constexpr unsigned keys = 60;
  const auto value_of = [](unsigned thread, unsigned key, unsigned n) {
    // Some are so large that they go straight to their place.
    const std::size_t bytes = n % 9 == 0 ? 100'000 + 1000 * key : 20 + 37 * ((key + n) % 200);
    return std::string(bytes, static_cast<char>('a' + (thread * 7 + key + n) % 26));
  };
  std::vector<std::vector<unsigned>> stored(threads, std::vector<unsigned>(keys));
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937 random{t + 5};
      std::vector<char> got(200'000);
      for (unsigned n = 1; n <= 250; ++n) {
        const unsigned key = random() % keys;
        const std::string name = std::to_string(t) + "-" + std::to_string(key);
        if (stored[t][key] != 0) {
          const std::string expected = value_of(t, key, stored[t][key]);
          std::size_t bytes = 0;
          ASSERT_EQ(nvm_kv_get(kv, name.data(), name.size(), got.data(), got.size(), &bytes), 1) << nvm_errormsg();
          ASSERT_EQ(std::string_view(got.data(), bytes), expected);
        }
        const std::string value = value_of(t, key, n);
        ASSERT_GE(nvm_kv_put(kv, name.data(), name.size(), value.data(), value.size()), 0) << nvm_errormsg();
        stored[t][key] = n;
      }
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_GT(statistics(p).pages_dropped, 100U);
  ASSERT_EQ(nvm_kv_close(kv), 0);
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_whole();
}

// Memory that is locked is made when it is mapped, and would be of zeros.
TEST_P(bounded_image, of_a_process_that_locks_its_memory_is_as_without) {
  NVM_POOL* p = open(mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  build(p, 800);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) ::_exit(77);
    p = open(mib);
    if (p == nullptr) ::_exit(1);
    verify(p, 800);
    std::mt19937 random{1};
    auto blocks = all_of(p);
    if (!testing::Test::HasFailure()) change(p, blocks, random, 100);
    if (nvm_pool_close(p) != 0) ::_exit(2);
    ::_exit(testing::Test::HasFailure() ? 3 : 0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how));
  if (WEXITSTATUS(how) == 77) GTEST_SKIP() << "memory cannot be locked";
  EXPECT_EQ(WEXITSTATUS(how), 0);
  p = nvm_pool_open(path().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 800);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// A program that is killed at any moment; each second life goes on without a limit.
TEST_P(bounded_image, loses_nothing_when_it_is_killed) {
  NVM_POOL* p = open(mib, true);
  ASSERT_NE(p, nullptr);
  BOUNDED_OR_SKIP(p);
  constexpr unsigned count = 1200;
  build(p, count);
  ASSERT_EQ(nvm_pool_close(p), 0);
  auto* const done = static_cast<std::atomic<unsigned>*>(
      ::mmap(nullptr, sizeof(std::atomic<unsigned>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(done), MAP_FAILED);
  std::mt19937 random{static_cast<unsigned>(seed_from_environment())};
  for (unsigned life = 0; life < 16; ++life) {
    *done = 0;
    const unsigned seed = random();
    const bool bounded = life % 4 != 3;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      NVM_POOL* const q = bounded ? open(mib) : nvm_pool_open(path().c_str());
      if (q == nullptr) ::_exit(1);
      verify(q, count);
      if (testing::Test::HasFailure()) ::_exit(2);
      std::mt19937 of_child{seed};
      auto blocks = all_of(q);
      for (;;) {
        change(q, blocks, of_child, 1);
        if (testing::Test::HasFailure()) ::_exit(3);
        ++*done;
      }
    }
    const unsigned until = random() % 200;
    int how = 0;
    while (*done < until && ::waitpid(child, &how, WNOHANG) != child) std::this_thread::yield();
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    (void)::waitpid(child, &how, 0);
    ASSERT_TRUE(WIFSIGNALED(how)) << WEXITSTATUS(how);
  }
  ::munmap(done, sizeof *done);
  p = open(mib);
  ASSERT_NE(p, nullptr);
  verify(p, count);
  ASSERT_EQ(nvm_pool_close(p), 0);
  expect_whole();
}

TEST(bounded_images, with_wishes_that_cannot_be_are_refused_and_leave_no_file) {
  const scratch_folder folder{"image-tier", true};
  const std::string path = folder.path("pool"), second = folder.path("second");
  nvm_tier_options t{};
  nvm_pool_options o{};
  o.medium = NVM_MEDIUM_SSD;
  o.tier = &t;
  const auto refused = [&] {
    EXPECT_EQ(nvm_pool_create_with(path.c_str(), &o), nullptr);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
    return std::string{nvm_errormsg()};
  };
  t.path = second.c_str();
  EXPECT_NE(refused().find("takes no second file, found " + second), std::string::npos);
  t.path = nullptr;
  t.compression = NVM_TIER_LZ4;
  EXPECT_NE(refused().find("nvm_tier_options.compression: found 2"), std::string::npos);
  t.compression = 0;
  t.fast_bytes = 1000;
  EXPECT_NE(refused().find("fast_bytes: found 1000, expected at least"), std::string::npos);
  t.fast_bytes = 0;
  NVM_POOL* const p = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_GT(s.fast_bytes_max, 16 * mib);  // a quarter of what there is
  ASSERT_EQ(nvm_pool_close(p), 0);
}

}  // namespace
}  // namespace nvm::tests
