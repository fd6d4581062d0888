// Pools that are partly in a second file: programs see the same as without one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "tiered_pool.hpp"

namespace nvm::tests {
namespace {

TEST_F(tiered_pool, is_as_without_over_opens_and_stays_below_its_limit) {
  NVM_POOL* p = create(4 * mib, 2 * mib);
  NEEDS_USER_FAULTS(p);
  build(p, 5000);  // 16 MB: the pool grows
  verify(p, 5000);
  std::mt19937 random{3};
  auto blocks = all_of(p);
  change(p, blocks, random, 300);
  verify(p, 5000);
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_LE(s.fast_bytes, 2 * mib);
  EXPECT_GT(s.slow_bytes, 10 * mib);
  EXPECT_GT(s.pages_out, 3000U);
  EXPECT_GT(s.pages_in, 3000U);
  EXPECT_STREQ(s.why, "");
  EXPECT_EQ(std::string{s.path}, slow());
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  nvm_tier_info info;
  ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &info), 0) << nvm_errormsg();
  EXPECT_LE(info.fast_bytes, 2 * mib);
  EXPECT_EQ(info.sequence, info.file_sequence);
  EXPECT_GT(info.slow_bytes, 10 * mib);
  EXPECT_LT(info.slow_bytes, 20 * mib);
  struct ::stat facts;
  ASSERT_EQ(::stat(fast().c_str(), &facts), 0);
  EXPECT_LT(static_cast<std::uint64_t>(facts.st_blocks) * 512, 5 * mib);
  expect_whole(fast());
  // Found by the pool's own word.
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 5000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  // Read-only: pages come and stay in this process.
  nvm_pool_options o{};
  o.read_only = 1;
  p = nvm_pool_open_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 5000);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

// Its pool is the log; objects are in memory of the process, built from there.
TEST_F(tiered_pool, of_the_log_engine_is_as_without) {
  engine_ = NVM_ENGINE_LOG;
  NVM_POOL* p = create(8 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 2000);
  std::mt19937 random{4};
  auto blocks = all_of(p);
  change(p, blocks, random, 300);
  verify(p, 2000);
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_LE(s.fast_bytes, mib);
  EXPECT_GT(s.slow_bytes, mib);
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 2000);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool, of_a_pool_that_had_none_is_joined_at_an_open) {
  nvm_pool_options o{};
  o.size = 16 * mib;
  o.medium = NVM_MEDIUM_SHM;
  NVM_POOL* p = nvm_pool_create_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  build(p, 3000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const std::string second = slow();
  nvm_tier_options t{};
  t.path = second.c_str();
  t.fast_bytes = mib;
  t.policy = NVM_TIER_UFLRU;
  t.compression = NVM_TIER_PLAIN;
  o = {};
  o.tier = &t;
  p = nvm_pool_open_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  NEEDS_USER_FAULTS(p);
  verify(p, 3000);
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_LE(s.fast_bytes, mib / 4);
  EXPECT_EQ(s.policy, std::uint32_t{NVM_TIER_UFLRU});
  verify(p, 3000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  // Wishes of a later open count, and are kept.
  t = {};
  t.policy = NVM_TIER_FIFO;
  t.fast_bytes = 3 * mib;
  p = nvm_pool_open_with(fast().c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 3000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  nvm_tier_info info;
  ASSERT_EQ(nvm_tier_inspect(fast().c_str(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.policy, std::uint32_t{NVM_TIER_FIFO});
  EXPECT_EQ(info.fast_bytes_max, 3 * mib);
  EXPECT_EQ(std::string{info.path}, second);
}

TEST_F(tiered_pool, without_its_second_file_is_refused_with_what_was_found) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 1000);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const std::string kept = slow() + ".kept", old = slow() + ".old";
  std::filesystem::copy_file(slow(), old);
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  std::mt19937 random{1};
  auto blocks = all_of(p);
  change(p, blocks, random, 100);
  verify(p, 1000);
  ASSERT_EQ(nvm_pool_close(p), 0);

  std::filesystem::rename(slow(), kept);
  EXPECT_NE(refusal(fast()).find(slow() + ": there is none of this name"), std::string::npos) << refusal(fast());
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  std::filesystem::copy_file(old, slow());
  EXPECT_NE(refusal(fast()).find("older than the pool: found"), std::string::npos) << refusal(fast());
  std::filesystem::remove(slow());
  std::filesystem::copy_file(kept, slow());
  std::filesystem::resize_file(slow(), std::filesystem::file_size(kept) - mib);
  EXPECT_NE(refusal(fast()).find("cut off: found"), std::string::npos) << refusal(fast());
  std::filesystem::remove(slow());
  NVM_POOL* other = create(4 * mib, mib, "other");
  ASSERT_EQ(nvm_pool_close(other), 0);
  std::filesystem::rename(slow("other"), slow());
  EXPECT_NE(refusal(fast()).find("of another pool: found uuid"), std::string::npos) << refusal(fast());
  std::filesystem::remove(slow());
  // A second file that has moved is named.
  nvm_tier_options t{};
  t.path = kept.c_str();
  nvm_pool_options o{};
  o.tier = &t;
  EXPECT_EQ(refusal(fast(), &o), "");
  p = nvm_pool_open(fast().c_str());  // and the pool has been told
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 1000);
  EXPECT_NE(refusal(fast()).find("open in this process"), std::string::npos);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool, with_wishes_that_cannot_be_is_refused_and_leaves_no_file) {
  nvm_tier_options t{};
  nvm_pool_options o{};
  o.medium = NVM_MEDIUM_SHM;
  o.tier = &t;
  const std::string second = slow();
  const auto refused = [&] {
    EXPECT_EQ(nvm_pool_create_with(fast().c_str(), &o), nullptr);
    EXPECT_FALSE(std::filesystem::exists(fast()));
    return std::string{nvm_errormsg()};
  };
  EXPECT_NE(refused().find("needs a path"), std::string::npos);
  t.path = second.c_str();
  EXPECT_NE(refused().find("fast_bytes: found 0"), std::string::npos);
  t.fast_bytes = 1000;
  EXPECT_NE(refused().find("fast_bytes: found 1000, expected at least"), std::string::npos);
  t.fast_bytes = mib;
  t.policy = 77;
  EXPECT_NE(refused().find("policy 77 is none"), std::string::npos);
  t.policy = 0;
  t.compression = 9;
  EXPECT_NE(refused().find("compression 9 is none"), std::string::npos);
  t.compression = 0;
  t.reserved[2] = 1;
  EXPECT_NE(refused().find("reserved field"), std::string::npos);
  t.reserved[2] = 0;
  EXPECT_FALSE(std::filesystem::exists(second));
  std::ofstream{second} << "mine";
  EXPECT_NE(refused().find("the file exists"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(second));
}

TEST_F(tiered_pool, of_the_log_engine_on_a_disk_works_without_and_says_so) {
  const std::string path = slow_.path("pool"), second = slow();
  nvm_tier_options t{};
  t.path = second.c_str();
  t.fast_bytes = mib;
  nvm_pool_options o{};
  o.size = 4 * mib;
  o.medium = NVM_MEDIUM_SSD;
  o.engine = NVM_ENGINE_LOG;
  o.tier = &t;
  NVM_POOL* p = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_EQ(s.active, 0U);
  EXPECT_NE(std::string{s.why}.find("medium shm"), std::string::npos);
  build(p, 100);
  verify(p, 100);
  ASSERT_EQ(nvm_pool_close(p), 0);
  EXPECT_FALSE(std::filesystem::exists(second));
  p = nvm_pool_open(path.c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_tier_get_statistics(p, &s), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool, pins_and_references_are_of_its_data) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 600);
  auto* r = static_cast<root*>(nvm_pool_get_root(p));
  EXPECT_EQ(nvm_tier_pin(p, r->first, 64 * 1024), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  nvm_tier_statistics s;
  ASSERT_EQ(nvm_tier_get_statistics(p, &s), 0);
  EXPECT_GE(s.fast_bytes, 64 * 1024U);
  EXPECT_LE(s.fast_bytes, 96 * 1024U);
  EXPECT_EQ(nvm_tier_unpin(p, r->first, 64 * 1024), 0);
  EXPECT_EQ(nvm_tier_refer(p, r->first, 4096, 1), 0);
  int outside = 0;
  EXPECT_EQ(nvm_tier_pin(p, &outside, sizeof outside), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_tier_pin(p, r->first, 0), -1);
  EXPECT_EQ(nvm_tier_refer(p, r->first, std::size_t{1} << 40, 1), -1);
  verify(p, 600);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool, a_system_call_gets_pages_that_have_left) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 600);
  block* const b = static_cast<root*>(nvm_pool_get_root(p))->first;
  ASSERT_EQ(nvm_tier_shrink(p, 0), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], b->bytes, sizeof b->bytes), static_cast<ssize_t>(sizeof b->bytes));
  std::vector<unsigned char> got(sizeof b->bytes);
  ASSERT_EQ(::read(ends[0], got.data(), got.size()), static_cast<ssize_t>(got.size()));
  EXPECT_EQ(std::memcmp(got.data(), b->bytes, got.size()), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(nvm_pool_close(p), 0);
}

TEST_F(tiered_pool, whose_file_was_copied_without_its_holes_is_refused) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 800);
  ASSERT_EQ(nvm_pool_close(p), 0);
  std::ifstream in{fast(), std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{in}, {}};
  std::filesystem::remove(fast());
  std::ofstream{fast(), std::ios::binary} << all;
  std::filesystem::permissions(fast(), std::filesystem::perms{0600});
  nvm_pool_options o{};
  o.medium = NVM_MEDIUM_SHM;
  o.accept_copy = 1;
  const std::string why = refusal(fast(), &o);
  EXPECT_NE(why.find("does not keep holes"), std::string::npos) << why;
  EXPECT_EQ(nvm_errno(), NVM_E_COPY);
}

// A mapping that is locked would be filled with zeros, which would win.
TEST_F(tiered_pool, of_a_process_that_locks_its_memory_is_as_without) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 800);
  ASSERT_EQ(nvm_pool_close(p), 0);
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) ::_exit(77);
    for (const std::uint32_t read_only : {1U, 0U}) {
      nvm_pool_options o{};
      o.read_only = read_only;
      p = nvm_pool_open_with(fast().c_str(), &o);
      if (p == nullptr) {
        std::fprintf(stderr, "%s\n", nvm_errormsg());
        ::_exit(1);
      }
      verify(p, 800);
      if (read_only == 0) {
        std::mt19937 random{1};
        auto blocks = all_of(p);
        change(p, blocks, random, 100);
        verify(p, 800);
      }
      if (nvm_pool_close(p) != 0) ::_exit(2);
    }
    ::_exit(HasFailure() ? 3 : 0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(pid, &how, 0), pid);
  ASSERT_TRUE(WIFEXITED(how));
  if (WEXITSTATUS(how) == 77) GTEST_SKIP() << "memory cannot be locked";
  EXPECT_EQ(WEXITSTATUS(how), 0);
}

// ---- kills ----

struct told {
  std::atomic<std::uint64_t> committed;
  std::atomic<std::uint64_t> failed;
};

[[noreturn]] void work_until_killed(const std::string& path, told& t, unsigned seed) {
  const auto give_up = [&](std::uint64_t why) {
    std::fprintf(stderr, "%s\n", nvm_errormsg());
    t.failed = why;
    ::_exit(1);
  };
  NVM_POOL* p = nvm_pool_open(path.c_str());
  if (p == nullptr) give_up(1);
  auto* r = static_cast<root*>(nvm_pool_get_root(p));
  std::uint64_t changes = 0;
  std::vector<block*> blocks;
  for (block* b = r->first; b != nullptr; b = b->next) {
    if (!holds(*b)) give_up(2);
    changes += b->changed;
    blocks.push_back(b);
  }
  if (changes != r->changes || changes < t.committed.load() || blocks.size() != r->count) give_up(3);
  std::mt19937 random{seed};
  for (;;) {
    nvm_tx_begin(p);
    if (nvm_tx_log(&r->changes, 8) != 0) give_up(4);
    for (unsigned k = 0; k < 3; ++k) {
      block* const b = blocks[random() % blocks.size()];
      if (nvm_tx_log(&b->changed, 8 + sizeof b->bytes) != 0) give_up(5);
      ++b->changed;
      fill(*b);
      ++r->changes;
    }
    if (random() % 16 == 0) (void)nvm_tier_shrink(p, 256 * 1024);
    const std::uint64_t now = r->changes;
    if (nvm_tx_commit(p) != 0) give_up(6);
    t.committed = now;
  }
}

TEST_F(tiered_pool, loses_nothing_when_its_process_is_killed) {
  NVM_POOL* p = create(4 * mib, mib);
  NEEDS_USER_FAULTS(p);
  build(p, 1500);
  ASSERT_EQ(nvm_pool_close(p), 0);
  void* const shared = ::mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  told& t = *new (shared) told{};
  std::mt19937 random{static_cast<unsigned>(seed_from_environment())};
  for (unsigned life = 0; life < 25; ++life) {
    const std::uint64_t until = t.committed.load() + random() % 400;
    const unsigned seed = random();
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) work_until_killed(fast(), t, seed);
    int how = 0;
    while (t.committed.load() < until && t.failed.load() == 0) {
      if (::waitpid(pid, &how, WNOHANG) == pid) break;
      ::sched_yield();
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &how, 0);
    ASSERT_EQ(t.failed.load(), 0U) << "life " << life;
  }
  expect_whole(fast());
  p = nvm_pool_open(fast().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  verify(p, 1500);
  EXPECT_GE(static_cast<root*>(nvm_pool_get_root(p))->changes, t.committed.load());
  ASSERT_EQ(nvm_pool_close(p), 0);
  ::munmap(shared, sizeof(told));
}

}  // namespace
}  // namespace nvm::tests
