// What the calls of lock-free structures say whose answer is a number, after a sync has failed.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "../fault_injection.hpp"
#include "../scratch_folder.hpp"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"

namespace nvm::tests {
namespace {

class positions : public testing::Test {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = std::uint64_t{2} << 20;
    o.capacity = std::uint64_t{64} << 20;
    o.medium = NVM_MEDIUM_SSD;
    pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_lf_options bytes{};
    bytes.kind = NVM_LF_HASH;
    bytes.flags = NVM_LF_BYTES | NVM_LF_NO_WAIT;
    lf = nvm_lf_open(pool, "table", &bytes);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    injected.relieve();
    (void)nvm_pool_close(pool);
  }
  int put(int key) {
    const std::vector<char> value(8000, 'v');
    return nvm_lf_put(lf, &key, sizeof key, value.data(), value.size(), 0, 0);
  }
  void expect_no_wait(std::uint64_t taken_before) {
    EXPECT_EQ(nvm_lf_position(lf), UINT64_MAX);
    EXPECT_EQ(nvm_wait(pool, UINT64_MAX), -1);
    EXPECT_EQ(nvm_wait(pool, taken_before), -1);
    EXPECT_EQ(nvm_wait(pool, 0), -1);
    EXPECT_EQ(nvm_lf_wait(lf), -1);
  }
  void expect_no_answers() {
    std::uint64_t number = 7;
    EXPECT_EQ(nvm_lf_get_position(lf, &number), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_IO);
    EXPECT_EQ(nvm_lf_get_count(lf, &number), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_IO);
    EXPECT_EQ(number, 7U);
    EXPECT_EQ(nvm_lf_position(lf), UINT64_MAX);
  }

  scratch_folder folder{"positions", true};
  NVM_POOL* pool = nullptr;
  nvm_lf* lf = nullptr;
};

TEST_F(positions, and_counts_are_told_while_the_pool_is_whole) {
  EXPECT_EQ(put(1), 1);
  std::uint64_t position = 0;
  std::uint64_t count = 0;
  ASSERT_EQ(nvm_lf_get_position(lf, &position), 0) << nvm_errormsg();
  EXPECT_NE(position, 0U);
  EXPECT_EQ(position, nvm_lf_position(lf));
  ASSERT_EQ(nvm_lf_get_count(lf, &count), 0) << nvm_errormsg();
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(nvm_wait(pool, position), 0) << nvm_errormsg();
}

TEST_F(positions, are_none_after_a_sync_has_failed) {
  ASSERT_EQ(put(1), 1);
  const std::uint64_t before = nvm_lf_position(lf);
  injected.arm(fault::sync, EIO, 1, true);
  EXPECT_EQ(nvm_wait(pool, before), -1);
  expect_no_wait(before);
  (void)put(2);  // may be carried out: it is not what promises to be durable
  expect_no_wait(before);
}

// All that there was is durable then, and later changes are not even written.
TEST_F(positions, are_none_after_the_write_of_a_checkpoint_has_failed) {
  ASSERT_EQ(put(1), 1);
  ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
  injected.arm(fault::write, EIO, 1, true);
  constexpr int patience = 2000;
  for (int i = 0; i < patience && nvm_lf_position(lf) != UINT64_MAX; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  EXPECT_TRUE(injected.struck());
  (void)put(2);
  std::uint64_t position = 0;
  EXPECT_EQ(nvm_lf_get_position(lf, &position), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_IO) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_wait(lf), -1);
}

TEST_F(positions, are_none_after_the_sync_of_a_growth_has_failed) {
  ASSERT_EQ(put(0), 1);
  std::uint64_t before = nvm_lf_position(lf);
  int key = 1;
  injected.arm(fault::sync, EIO, 1, true);
  while (key < 1000 && put(key) == 1) {
    const std::uint64_t now = nvm_lf_position(lf);
    if (now != UINT64_MAX) before = now;
    ++key;
  }
  ASSERT_TRUE(injected.struck());
  EXPECT_LT(key, 1000);
  expect_no_answers();
  expect_no_wait(before);
}

TEST_F(positions, and_counts_need_a_place_and_a_structure) {
  std::uint64_t number = 0;
  EXPECT_EQ(nvm_lf_get_position(lf, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_get_count(lf, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_get_position(nullptr, &number), -1);
  EXPECT_EQ(nvm_lf_get_count(nullptr, &number), -1);
}

}  // namespace
}  // namespace nvm::tests
