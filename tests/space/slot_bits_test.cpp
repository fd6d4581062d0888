#include "space/slot_bits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace nvm::slot_bits {
namespace {

TEST(slot_bits, agree_with_a_vector_of_bools_for_every_range) {
  constexpr unsigned size = 256;
  std::mt19937_64 random{1};
  for (int round = 0; round < 2000; ++round) {
    std::array<std::uint64_t, size / 64> words{};
    std::vector<bool> model(size);
    for (int i = 0; i < 6; ++i) {
      const auto first = static_cast<unsigned>(random() % size);
      const auto count = static_cast<unsigned>(random() % (size - first) + 1);
      const bool on = random() % 2 != 0;
      on ? set_range(words.data(), first, count) : clear_range(words.data(), first, count);
      std::fill(model.begin() + first, model.begin() + first + count, on);
    }
    const auto end = static_cast<unsigned>(random() % (size + 1));
    const auto from = static_cast<unsigned>(random() % (size + 1));
    unsigned one = from;
    while (one < end && !model[one]) ++one;
    unsigned zero = from;
    while (zero < end && model[zero]) ++zero;
    unsigned below = 0;
    while (below < from && !model[from - below - 1]) ++below;
    // Nothing in an empty range: its end.
    EXPECT_EQ(next_one(words.data(), from, end), std::min(one, end));
    EXPECT_EQ(next_zero(words.data(), from, end), std::min(zero, end));
    EXPECT_EQ(zeros_below(words.data(), from), below);
    for (unsigned i = 0; i < size; ++i) EXPECT_EQ(test(words.data(), i), model[i]);
  }
}

}  // namespace
}  // namespace nvm::slot_bits
