// Errors as values carry code and sentence; arithmetic on sizes does not wrap.
#include <gtest/gtest.h>

#include <memory>

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
