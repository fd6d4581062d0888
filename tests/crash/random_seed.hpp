// Random workloads differ from day to day (./dev test), and can be repeated.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace nvm::tests {

// NVM_EXPLORE_SEED: any word, such as a date; 1 by default.
[[nodiscard]] inline std::uint64_t seed_from_environment() {
  const char* text = std::getenv("NVM_EXPLORE_SEED");
  if (text == nullptr || *text == 0) return 1;
  std::uint64_t seed = 0;
  for (const char* c = text; *c != 0; ++c) seed = seed * 31 + static_cast<unsigned char>(*c);
  return seed;
}

}  // namespace nvm::tests
