// Programs and scripts draw from the same number, whatever word NVM_EXPLORE_SEED is (tests/repo/random_seed_test.py
// reads the rows).
#include "../random_seed.hpp"

#include <gtest/gtest.h>

namespace nvm::tests {
namespace {

TEST(random_seed, is_the_number_that_a_word_is_or_a_sum_of_its_bytes) {
  EXPECT_EQ(seed_of(""), 1U);
  EXPECT_EQ(seed_of("0"), 0U);
  EXPECT_EQ(seed_of("20261126"), 20261126U);
  EXPECT_EQ(seed_of("18446744073709551617"), 1U);
  EXPECT_EQ(seed_of("abc"), 96354U);
  EXPECT_EQ(seed_of("b70921c0"), 2746477265034U);
  EXPECT_EQ(seed_of("2026-11-26"), 1364344768803974U);
  EXPECT_EQ(seed_of("any word at all"), 2212879317475059158U);
}

}  // namespace
}  // namespace nvm::tests
