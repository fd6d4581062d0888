// Errors as values carry code and sentence; arithmetic on sizes does not wrap.
#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/base.hpp"

namespace nvm {
namespace {

TEST(result, carries_a_value_or_a_code_with_its_sentence) {
  result<std::unique_ptr<int>> good = std::make_unique<int>(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(**good, 4);
  result<std::unique_ptr<int>> moved = std::move(good);
  EXPECT_EQ(**moved, 4);
  result<int> bad = fail(errc::corrupt, "offset %d: found %s", 12, "x");
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error(), errc::corrupt);
  EXPECT_STREQ(last_message(), "offset 12: found x");
}

TEST(result, a_message_may_quote_the_message_before_it) {
  (void)fail(errc::io, "inner");
  (void)fail(errc::system, "outer: %s", last_message());
  EXPECT_STREQ(last_message(), "outer: inner");
  EXPECT_EQ(last_code(), errc::system);
}

TEST(failures, are_of_each_thread_also_where_many_fail_at_once) {
  constexpr int count = 40;
  std::barrier all{count};
  std::vector<std::string> last(count);
  std::vector<std::string> reported(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const std::string before = std::string{last_message()} + reported_message();
      (void)fail(errc::invalid, "failure of %d", i);
      report_failure(errc::invalid);
      (void)fail(errc::io, "later one of %d", i);
      all.arrive_and_wait();
      last[i] = before + last_message();
      reported[i] = reported_message();
    });
  }
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(last[i], "no errorno errorlater one of " + std::to_string(i));
    EXPECT_EQ(reported[i], "failure of " + std::to_string(i));
  }
}

TEST(failures, of_a_destructor_at_the_end_of_a_thread_are_told) {
  struct late {
    std::string* said;
    ~late() {
      (void)fail(errc::io, "at the end");
      *said = last_message();
    }
  };
  for (int i = 0; i < 100; ++i) {
    std::string said;
    std::thread{[&] {
      thread_local late at_the_end{&said};
      (void)at_the_end;
      (void)fail(errc::invalid, "before");
    }}.join();
    ASSERT_EQ(said, "at the end");
  }
}

TEST(bits, checked_arithmetic_refuses_to_wrap) {
  EXPECT_FALSE(checked_add(~std::uint64_t{0}, 1));
  EXPECT_FALSE(checked_mul(std::uint64_t{1} << 33, std::uint64_t{1} << 33));
  EXPECT_EQ(*checked_mul(6, 7), 42U);
  EXPECT_FALSE(range_inside(~std::uint64_t{0}, 2, ~std::uint64_t{0}));
  EXPECT_FALSE(range_inside(5, ~std::uint64_t{0}, 100));
  EXPECT_TRUE(range_inside(5, 95, 100));
  EXPECT_EQ(ceil_div(~std::uint64_t{0}, 2), std::uint64_t{1} << 63);
}

TEST(bits, a_range_touches_the_lines_it_overlaps) {
  alignas(64) char bytes[256] = {};
  EXPECT_EQ(lines_touched(bytes, 0), 0U);
  EXPECT_EQ(lines_touched(bytes, 64), 1U);
  EXPECT_EQ(lines_touched(bytes + 63, 2), 2U);
  EXPECT_EQ(lines_touched(bytes + 1, 128), 3U);
}

}  // namespace
}  // namespace nvm
