#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "platform/clock.hpp"
#include "platform/process.hpp"
#include "platform/threads.hpp"

namespace nvm::platform {
namespace {

TEST(process, knows_itself_and_whether_others_exist) {
  EXPECT_EQ(process_id(), ::getpid());
  EXPECT_TRUE(process_exists(::getpid()));
  EXPECT_TRUE(process_exists(1));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_exists(child));
}

// Records come from files: no number in one may reach kill() as a process group.
TEST(process, asks_nobody_about_a_number_that_is_no_pid) {
  for (const std::int64_t pid : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 32})
    EXPECT_FALSE(process_exists(pid)) << pid;
}

std::atomic<int> before_calls{0}, parent_calls{0}, child_calls{0};

TEST(process, runs_fork_handlers_on_both_sides) {
  ASSERT_TRUE(
      at_fork([]() noexcept { ++before_calls; }, []() noexcept { ++parent_calls; }, []() noexcept { ++child_calls; }));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(before_calls == 1 && parent_calls == 0 && child_calls == 1 ? 0 : 1);
  int wait_status = 0;
  ::waitpid(child, &wait_status, 0);
  EXPECT_EQ(WEXITSTATUS(wait_status), 0);
  EXPECT_EQ(before_calls, 1);
  EXPECT_EQ(parent_calls, 1);
  EXPECT_EQ(child_calls, 0);
}

TEST(process, random_bytes_fill_the_buffer_and_differ) {
  std::set<std::array<std::uint8_t, 16>> seen;
  for (int i = 0; i < 100; ++i) {
    std::array<std::uint8_t, 16> bytes{};
    ASSERT_TRUE(random_bytes(bytes.data(), bytes.size()));
    seen.insert(bytes);
  }
  EXPECT_EQ(seen.size(), 100U);
  std::array<std::uint8_t, 4096> large{};
  ASSERT_TRUE(random_bytes(large.data(), large.size()));
  EXPECT_GT(std::set<std::uint8_t>(large.begin(), large.end()).size(), 200U);
}

TEST(clock, of_this_machine_goes_on_and_knows_the_century) {
  const std::uint64_t before = monotonic_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  EXPECT_GE(monotonic_ns() - before, 2'000'000U);
  EXPECT_GT(unix_s(), 1'700'000'000U);
}

TEST(run_parts, runs_each_part_once_whatever_their_number) {
  for (const unsigned parts : {0U, 1U, 2U, 7U, 33U}) {
    std::array<std::atomic<int>, 33> runs{};
    run_parts(parts, [&](unsigned part) noexcept { ++runs[part]; });
    for (unsigned i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], i < parts ? 1 : 0) << i << " of " << parts;
  }
}

TEST(run_parts, runs_parts_at_the_same_time) {
  std::atomic<unsigned> arrived{0};
  run_parts(2, [&](unsigned) noexcept {
    ++arrived;
    const std::uint64_t start = monotonic_ns();
    while (arrived.load() < 2 && monotonic_ns() - start < 5'000'000'000) std::this_thread::yield();
    EXPECT_EQ(arrived.load(), 2U);
  });
}

TEST(run_parts, makes_what_parts_wrote_visible_to_the_caller) {
  std::array<std::uint64_t, 8> results{};
  run_parts(8, [&](unsigned part) noexcept { results[part] = part + 1; });
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(results[i], i + 1);
}

TEST(processors, are_those_that_this_process_may_use) {
  EXPECT_GE(processors(), 1U);
  EXPECT_EQ(processors(), [] {
    cpu_set_t set;
    ::sched_getaffinity(0, sizeof set, &set);
    return static_cast<unsigned>(CPU_COUNT(&set));
  }());
}

}  // namespace
}  // namespace nvm::platform
