// The checksum is one function, whichever instructions compute it.
#include "base/base.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace nvm {
std::uint64_t checksum_avx2(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;

namespace {

TEST(checksum, has_one_value_for_all_instruction_sets) {
  std::mt19937_64 random{3};
  std::vector<std::uint64_t> words(2000);
  for (auto& w : words) w = random();
  for (std::size_t count = 0; count < words.size() * 8; count += 1 + count / 7) {
    const std::uint64_t seed = random();
    const std::uint64_t value = XXH3_64bits_withSeed(words.data(), count, seed);
    EXPECT_EQ(checksum(words.data(), count, seed), value) << count;
    EXPECT_EQ(long_checksum(words.data(), count, seed), value) << count;
    if (__builtin_cpu_supports("avx2")) {
      EXPECT_EQ(checksum_avx2(words.data(), count, seed), value) << count;
    }
  }
}

}  // namespace
}  // namespace nvm
