// What calls of lock-free structures and of regions say that do not wait, and those whose answer is a number, after a
// write or a sync has failed.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "../fault_injection.hpp"
#include "../scratch_folder.hpp"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "nvm/region.h"

namespace nvm::tests {
namespace {

class positions : public testing::Test {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = std::uint64_t{2} << 20;
    o.capacity = std::uint64_t{64} << 20;
    o.log_bytes = std::uint64_t{2} << 20;
    o.medium = NVM_MEDIUM_SSD;
    pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_lf_options bytes{};
    bytes.kind = NVM_LF_HASH;
    bytes.flags = NVM_LF_BYTES | NVM_LF_NO_WAIT;
    lf = nvm_lf_open(pool, "table", &bytes);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    nvm_regions_options unwaited{};
    unwaited.flags = NVM_REGIONS_NO_WAIT;
    set = nvm_regions_open(pool, "set", &unwaited);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_region_create(set, 1, 100), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_region_create(set, 2, 100), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_regions_wait(set), 0) << nvm_errormsg();
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
    expect_waits_in_doubt();
  }
  // Of what is done already: IO would say that it is undone.
  void expect_waits_in_doubt() {
    expect_refused("wait", nvm_lf_wait(lf), NVM_E_IN_DOUBT);
    expect_refused("wait of regions", nvm_regions_wait(set), NVM_E_IN_DOUBT);
  }
  void expect_no_answers() {
    std::uint64_t number = 7;
    EXPECT_EQ(nvm_lf_get_position(lf, &number), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_IO);
    EXPECT_EQ(nvm_lf_get_count(lf, &number), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_IO);
    EXPECT_EQ(nvm_regions_count(set, &number), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_IO);
    EXPECT_EQ(number, 7U);
    EXPECT_EQ(nvm_lf_position(lf), UINT64_MAX);
  }
  static void expect_refused(const char* call, std::int64_t answer, int code = NVM_E_IO) {
    EXPECT_EQ(answer, -1) << call;
    EXPECT_EQ(nvm_errno(), code) << call << ": " << nvm_errormsg();
  }
  // Of calls that have not begun when the medium has failed; what they would do is lost, what they would tell may be.
  void expect_nothing_begins() {
    int key = 1;
    char value[8000];
    nvm_lf_entry e{};
    std::uint64_t cursor = 0;
    expect_refused("put", put(2));
    expect_refused("remove", nvm_lf_remove(lf, &key, sizeof key));
    expect_refused("get", nvm_lf_get(lf, &key, sizeof key, value, sizeof value, nullptr));
    expect_refused("find", nvm_lf_find(lf, &key, sizeof key, &e));
    expect_refused("scan", nvm_lf_scan(lf, &cursor, 10, [](const nvm_lf_entry*, void*) { return 0; }, nullptr));
    const auto remove = [](const nvm_lf_entry*, nvm_lf_change*, void*) { return NVM_LF_REMOVE; };
    expect_refused("update", nvm_lf_update(lf, &key, sizeof key, remove, nullptr));
    expect_refused("names", nvm_lf_names(pool, [](const char*, int, void*) { return 0; }, nullptr));

    const std::uint64_t rids[] = {1, 2};
    expect_refused("create", nvm_region_create(set, 3, 10));
    expect_refused("write", nvm_region_write(set, 1, 0, "x", 1));
    expect_refused("append", nvm_region_append(set, 1, "x", 1, nullptr));
    expect_refused("truncate", nvm_region_truncate(set, 1, 5));
    expect_refused("drop", nvm_region_drop(set, 1));
    expect_refused("read", nvm_region_read(set, 1, 0, value, 1));
    expect_refused("size", nvm_region_size(set, 1, &cursor));
    expect_refused("each", nvm_region_each(set, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr));
    expect_refused("begin", nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE));
    expect_refused("group", nvm_region_group_begin(set, rids, 2) == nullptr ? -1 : 0);
    expect_refused("names of sets",
                   nvm_regions_names(pool, [](const char*, std::uint64_t, void*) { return 0; }, nullptr));
  }
  // The checkpointer finds that it cannot write. One that came before has left nothing to write: then there is more.
  void let_a_checkpoint_fail() {
    constexpr int tries = 200;
    for (int key = 1000;; ++key) {
      injected.arm(fault::write, EIO, 1, true);
      for (int i = 0; i < tries && !injected.struck(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
      }
      injected.relieve();
      if (injected.struck()) break;
      ASSERT_EQ(put(key), 1) << nvm_errormsg();
      ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
    }
    while (nvm_lf_position(lf) != UINT64_MAX) std::this_thread::yield();
  }
  // More than the log has room for.
  [[nodiscard]] static std::string overflowing() { return std::string(std::size_t{3} << 20, 'o'); }

  scratch_folder folder{"positions", true};
  NVM_POOL* pool = nullptr;
  nvm_lf* lf = nullptr;
  nvm_regions* set = nullptr;
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
  ASSERT_EQ(nvm_regions_count(set, &count), 0) << nvm_errormsg();
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(nvm_wait(pool, position), 0) << nvm_errormsg();
}

TEST_F(positions, are_none_after_a_sync_has_failed) {
  int key = 1;
  ASSERT_EQ(put(key), 1);
  std::uint64_t before = nvm_lf_position(lf);
  injected.arm(fault::sync, EIO, 1, true);
  while (nvm_wait(pool, before) == 0) {  // it was durable before the failure was armed
    if (put(++key) == 1) before = nvm_lf_position(lf);
  }
  expect_no_wait(before);
  expect_no_answers();
  expect_nothing_begins();
  expect_no_wait(before);
}

// All that there was is durable then, and later changes are not even written.
TEST_F(positions, are_none_after_the_write_of_a_checkpoint_has_failed) {
  ASSERT_EQ(put(1), 1);
  ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
  let_a_checkpoint_fail();
  expect_no_answers();
  expect_nothing_begins();
  expect_waits_in_doubt();
}

// What the medium was given of it is lost, and it is done in memory.
TEST_F(positions, are_not_needed_to_learn_that_the_medium_fails_under_a_change) {
  const std::string much = overflowing();
  injected.arm(fault::write, EIO, 1, true);
  expect_refused("put", nvm_lf_put(lf, "key", 3, much.data(), much.size(), 0, 0), NVM_E_IN_DOUBT);
  EXPECT_TRUE(injected.struck());
  expect_no_answers();
  expect_nothing_begins();
}

// A transaction that was begun before is not carried out.
TEST_F(positions, are_none_of_a_transaction_of_regions_that_a_failed_medium_ends) {
  const std::uint64_t rids[] = {2};
  ASSERT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0) << nvm_errormsg();
  nvm_region_group* const group = nvm_region_group_begin(set, rids, 1);
  ASSERT_NE(group, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_region_write(set, 1, 0, "x", 1), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_write(set, 2, 0, "x", 1), 0) << nvm_errormsg();
  ASSERT_EQ(put(1), 1);
  ASSERT_EQ(nvm_lf_wait(lf), 0) << nvm_errormsg();
  let_a_checkpoint_fail();
  std::uint64_t position = 0;
  expect_refused("commit", nvm_region_commit_async(set, 1, &position));
  EXPECT_EQ(position, NVM_LSN_NONE);
  expect_refused("group", nvm_region_group_commit(group));
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

// On dax only growth syncs.  What was done before is there, and a wait for it must not say that it is undone.
TEST(waits_on_dax, leave_in_doubt_what_was_done_before_a_growth_failed) {
  const scratch_folder folder{"positions", false};
  injected.plays_dax = true;
  nvm_pool_options o{};
  o.size = std::uint64_t{1} << 20;
  o.capacity = std::uint64_t{64} << 20;
  o.medium = NVM_MEDIUM_DAX;
  NVM_POOL* const pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_lf_options table{};
  table.kind = NVM_LF_HASH;
  table.flags = NVM_LF_NO_WAIT;
  nvm_lf* const lf = nvm_lf_open(pool, "table", &table);
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  nvm_regions_options unwaited{};
  unwaited.flags = NVM_REGIONS_NO_WAIT;
  nvm_regions* const set = nvm_regions_open(pool, "set", &unwaited);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_put64(lf, 1, 2, 0), 1) << nvm_errormsg();
  ASSERT_EQ(nvm_region_create(set, 1, 100), 0) << nvm_errormsg();

  injected.arm(fault::sync, EIO, 1, true);
  EXPECT_EQ(nvm_region_create(set, 2, std::uint64_t{4} << 20), 0) << "pages come when they are written";
  const std::vector<char> much(std::size_t{4} << 20, 'm');
  EXPECT_EQ(nvm_region_write(set, 2, 0, much.data(), much.size()), -1);
  ASSERT_TRUE(injected.struck());
  EXPECT_EQ(nvm_regions_wait(set), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_wait(lf), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_IN_DOUBT) << nvm_errormsg();
  injected.relieve();
  (void)nvm_pool_close(pool);
  injected.plays_dax = false;
}

}  // namespace
}  // namespace nvm::tests
