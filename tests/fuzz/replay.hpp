// Fuzzing without a fuzzer: inputs that once found a fault, and random ones.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "edits.hpp"

namespace nvm::fuzz {

// use(image) of each file of the target's corpus.
template <class Use>
void replay(const char* target, const std::vector<bytes>& images, Use&& use, bool lines_of_others = false) {
  const std::filesystem::path folder = std::filesystem::path{NVM_CORPUS} / target;
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::ifstream in{entry.path(), std::ios::binary};
    const std::vector<char> text{std::istreambuf_iterator<char>{in}, {}};
    use(edited(images, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, lines_of_others));
    ++files;
  }
  EXPECT_GT(files, 0U) << "no corpus in " << folder;
}

// Some are refused and some are not, or the edits are not what they should be.
template <class Use>
void random_edits(const std::vector<bytes>& images, Use&& use, unsigned seed, unsigned inputs, bool forged = true,
                  bool lines_of_others = false) {
  std::mt19937_64 random{seed};
  unsigned opened = 0;
  for (unsigned i = 0; i < inputs; ++i) {
    std::vector<std::uint8_t> input(1 + 14 * (1 + random() % 4));
    for (auto& b : input) b = static_cast<std::uint8_t>(random());
    for (std::size_t at = 1; at < input.size() && !forged; at += edit_bytes) make_damage(&input[at]);
    opened += use(edited(images, input, lines_of_others)) ? 1 : 0;
  }
  EXPECT_GT(opened, inputs / 50);
  EXPECT_LT(opened, inputs);
}

}  // namespace nvm::fuzz
