// A pool in shared memory with a second file, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "../scratch_folder.hpp"
#include "list_of_blocks.hpp"
#include "nvm/nvm.h"
#include "nvm/tier.h"

namespace nvm::tests {

class tiered_pool : public testing::Test {
 protected:
  tiered_pool() : fast_{"tier", false}, slow_{"tier", true} {}

  [[nodiscard]] NVM_POOL* create(std::uint64_t size, std::uint64_t fast_bytes, const char* name = "pool") {
    const std::string second = slow(name);
    nvm_tier_options t{};
    t.path = second.c_str();
    t.fast_bytes = fast_bytes;
    nvm_pool_options o{};
    o.size = size;
    o.medium = NVM_MEDIUM_SHM;
    o.engine = engine_;
    o.tier = &t;
    NVM_POOL* const p = nvm_pool_create_with(fast(name).c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }
  // Whether this system lets pages come and go.
  [[nodiscard]] static bool works(NVM_POOL* p) {
    nvm_tier_statistics s;
    EXPECT_EQ(nvm_tier_get_statistics(p, &s), 0) << nvm_errormsg();
    return s.active == 1;
  }
  [[nodiscard]] std::string fast(const char* name = "pool") const { return fast_.path(name); }
  [[nodiscard]] std::string slow(const char* name = "pool") const { return slow_.path(name) + ".tier"; }

  static void expect_whole(const std::string& path) {
    EXPECT_EQ(nvm_pool_check(
                  path.c_str(),
                  [](uint64_t at, const char* what, void*) { ADD_FAILURE() << "offset " << at << ": " << what; },
                  nullptr, nullptr),
              0)
        << nvm_errormsg();
  }
  static std::string refusal(const std::string& path, const nvm_pool_options* o = nullptr) {
    NVM_POOL* const p = nvm_pool_open_with(path.c_str(), o);
    if (p == nullptr) return nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(p), 0);
    return "";
  }

  scratch_folder fast_, slow_;
  std::uint32_t engine_ = NVM_ENGINE_UNDO;
};

#define NEEDS_USER_FAULTS(p)               \
  if (!works(p)) {                         \
    EXPECT_EQ(nvm_pool_close(p), 0);       \
    GTEST_SKIP() << "no user faults here"; \
  }

}  // namespace nvm::tests
