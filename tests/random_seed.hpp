// Random workloads differ from day to day (./dev test), and can be repeated.  Scripts: random_seed.py, the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace nvm::tests {

// The number that a word is: its value if all of it are decimal digits, so that days follow each other, or a sum of its
// bytes; of no word 1.
[[nodiscard]] constexpr std::uint64_t seed_of(std::string_view word) {
  if (word.empty()) return 1;
  const bool is_number = std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::uint64_t base = is_number ? 10 : 31;
  std::uint64_t seed = 0;
  for (const char c : word) seed = seed * base + static_cast<unsigned char>(c) - (is_number ? '0' : 0);
  return seed;
}

// Of NVM_EXPLORE_SEED: any word, such as a date; 1 by default.
[[nodiscard]] inline std::uint64_t seed_from_environment() {
  const char* const word = std::getenv("NVM_EXPLORE_SEED");
  return seed_of(word == nullptr ? "" : word);
}

// Whether the deep tier of the exploration of this number has its turn: one day in `each`, by the seed, so that in so
// many days all have had it.  With NVM_EXPLORE_ALL all have it at once (./dev explore deep).
[[nodiscard]] inline bool is_turn_of_today(std::uint64_t number, std::uint64_t each) {
  return std::getenv("NVM_EXPLORE_ALL") != nullptr || (number + seed_from_environment()) % each == 0;
}

// Of so many runs by chance all when it is this number's turn, one day in three, and the first third on other days.
[[nodiscard]] inline unsigned runs_of_today(unsigned all, std::uint64_t number) {
  return is_turn_of_today(number, 3) ? all : (all + 2) / 3;
}

}  // namespace nvm::tests
