// A checked word detects damage of eight bytes by a device or a stray store.
#include "base/checked_word.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nvm {
namespace {

TEST(checked_word, finds_every_change_that_stays_inside_one_byte) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t content = round == 0 ? 1 : random() & checked_mask;
    const auto seed = static_cast<std::uint8_t>(random());
    const std::uint64_t word = seal_word(content, seed);
    ASSERT_TRUE(word_holds(word, seed));
    ASSERT_EQ(word & checked_mask, content);
    for (unsigned byte = 0; byte < 8; ++byte) {
      for (std::uint64_t change = 1; change < 256; ++change) {
        const std::uint64_t damaged = word ^ change << (8 * byte);
        // A word of one non-zero content byte and its check cannot become the valid zero by one byte either.
        ASSERT_FALSE(word_holds(damaged, seed)) << std::hex << word << " became " << damaged;
      }
    }
  }
}

TEST(checked_word, finds_every_pair_of_flipped_bits) {
  const std::uint64_t word = seal_word(0x123456789ABCDE, 0x42);
  for (unsigned a = 0; a < 64; ++a) {
    for (unsigned b = a + 1; b < 64; ++b) {
      ASSERT_FALSE(word_holds(word ^ std::uint64_t{1} << a ^ std::uint64_t{1} << b, 0x42)) << a << ", " << b;
    }
  }
}

TEST(checked_word, zero_is_valid_everywhere_and_means_nothing) {
  for (unsigned seed = 0; seed < 256; ++seed) {
    EXPECT_TRUE(word_holds(0, static_cast<std::uint8_t>(seed)));
    EXPECT_EQ(seal_word(0, static_cast<std::uint8_t>(seed)), 0U);
  }
}

TEST(checked_word, is_bound_to_its_place) {
  for (std::uint64_t offset = 8; offset < 4096; offset += 8) {
    if (word_seed(offset) == word_seed(0)) continue;
    EXPECT_FALSE(word_holds(seal_word(77, word_seed(0)), word_seed(offset)));
  }
}

}  // namespace
}  // namespace nvm
