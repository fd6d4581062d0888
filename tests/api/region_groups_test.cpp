// Groups of regions that are begun again: not for ever, and not with what is gone.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <string>
#include <thread>

#include "nvm/region.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

class region_group_runs : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override {
    pool = place.create();
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    set = nvm_regions_open(pool, "things", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
  }
  void TearDown() override { EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg(); }
  std::string get(std::uint64_t rid) {
    std::string seen(100, '\0');
    const std::int64_t n = nvm_region_read(set, rid, 0, seen.data(), seen.size());
    if (n < 0) return nvm_error_name(nvm_errno());
    seen.resize(static_cast<std::size_t>(n));
    return seen;
  }
  int put(std::uint64_t rid, const std::string& bytes) {
    return nvm_region_create_with(set, rid, bytes.data(), bytes.size(), 0);
  }
  static void expect_refused(int answer, int code) {
    EXPECT_EQ(answer, -1);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
  }

  scratch place{GetParam()};
  NVM_POOL* pool = nullptr;
  nvm_regions* set = nullptr;
};
INSTANTIATE_TEST_SUITE_P(kinds, region_group_runs, testing::Values(pool_kind::shm, pool_kind::ssd), name_of);

// Beside another transaction of the thread a create that is refused may be so for ever.
TEST_P(region_group_runs, do_not_begin_again_for_ever) {
  ASSERT_EQ(put(9, "bytes"), 0);
  const auto makes = [](nvm_region_group* g, void*) { return nvm_region_group_create(g, 5, 100) == 0 ? 0 : 1; };
  // It makes the region itself.
  nvm_region_group* mine = nvm_region_group_begin(set, nullptr, 0);
  ASSERT_NE(mine, nullptr);
  ASSERT_EQ(nvm_region_group_create(mine, 5, 100), 0);
  expect_refused(nvm_region_group_run(set, nullptr, 0, makes, nullptr), NVM_E_BUSY);
  ASSERT_EQ(nvm_region_group_abort(mine), 0);
  // It holds what the one waits for who makes it.
  ASSERT_EQ(nvm_region_begin(set, 9, NVM_REGION_ADAPTIVE), 0);
  std::promise<void> made;
  std::thread other{[&] {
    nvm_region_group* its = nvm_region_group_begin(set, nullptr, 0);
    EXPECT_EQ(nvm_region_group_create(its, 5, 100), 0);
    made.set_value();
    EXPECT_EQ(nvm_region_write(set, 9, 0, "other", 5), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_region_group_commit(its), 0) << nvm_errormsg();
  }};
  made.get_future().wait();
  expect_refused(nvm_region_group_run(set, nullptr, 0, makes, nullptr), NVM_E_BUSY);
  EXPECT_EQ(nvm_region_commit(set, 9), 0) << nvm_errormsg();
  other.join();
  EXPECT_EQ(get(9), "other");
  EXPECT_EQ(nvm_region_group_run(set, nullptr, 0, makes, nullptr), 1);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
}

TEST_P(region_group_runs, begin_again_without_what_was_dropped_meanwhile) {
  for (const std::uint64_t rid : {5, 9}) ASSERT_EQ(put(rid, "bytes"), 0);
  struct job {
    nvm_regions* set;
    std::promise<void> refused;
    int calls = 0;
  } j{set, {}};
  std::promise<void> held;
  std::thread other{[&] {
    const std::uint64_t rid = 5;
    nvm_region_group* g = nvm_region_group_begin(set, &rid, 1);
    EXPECT_EQ(nvm_region_group_drop(g, rid), 0);
    held.set_value();
    j.refused.get_future().wait();
    EXPECT_EQ(nvm_region_group_commit(g), 0);
  }};
  held.get_future().wait();
  const auto body = [](nvm_region_group* g, void* argument) {
    auto& its = *static_cast<job*>(argument);
    ++its.calls;
    if (nvm_region_group_join(g, 5, NVM_REGION_ADAPTIVE) == 0 || nvm_errno() == NVM_E_TX_OPEN) return 2;
    if (nvm_errno() == NVM_E_NOT_FOUND) return nvm_region_write(its.set, 9, 0, "alone", 5) == 0 ? 0 : 3;
    if (its.calls == 1) its.refused.set_value();
    return 1;
  };
  const std::uint64_t rid = 9;
  EXPECT_EQ(nvm_region_group_run(set, &rid, 1, body, &j), 0) << nvm_errormsg();
  other.join();
  EXPECT_EQ(j.calls, 2);
  EXPECT_EQ(get(9), "alone");
  EXPECT_EQ(get(5), "NVM_E_NOT_FOUND");
  // What the caller has named must be there.
  const std::uint64_t named[] = {5, 9};
  expect_refused(nvm_region_group_run(set, named, 2, body, &j), NVM_E_NOT_FOUND);
}

// The memory of a group that is over may be another group's.
TEST_P(region_group_runs, a_handle_of_a_group_that_is_over_is_no_other_groups) {
  for (const std::uint64_t rid : {1, 2, 3}) ASSERT_EQ(put(rid, "bytes"), 0);
  for (const bool commits : {true, false}) {
    const std::uint64_t first[] = {1};
    nvm_region_group* const over = nvm_region_group_begin(set, first, 1);
    ASSERT_NE(over, nullptr);
    ASSERT_EQ(commits ? nvm_region_group_commit(over) : nvm_region_group_abort(over), 0);
    const std::uint64_t second[] = {2};
    nvm_region_group* const now = nvm_region_group_begin(set, second, 1);
    ASSERT_NE(now, nullptr);
    ASSERT_EQ(nvm_region_write(set, 2, 0, commits ? "now 1" : "now 2", 5), 0);
    expect_refused(nvm_region_group_join(over, 3, NVM_REGION_ADAPTIVE), NVM_E_INVALID);
    expect_refused(nvm_region_group_create(over, 4, 10), NVM_E_INVALID);
    expect_refused(nvm_region_group_drop(over, 2), NVM_E_INVALID);
    expect_refused(nvm_region_group_abort(over), NVM_E_INVALID);
    expect_refused(nvm_region_group_commit(over), NVM_E_INVALID);
    EXPECT_EQ(nvm_region_group_commit(now), 0) << nvm_errormsg();
    EXPECT_EQ(get(2), commits ? "now 1" : "now 2");
    EXPECT_EQ(get(4), "NVM_E_NOT_FOUND");
    // It is not the thread's transaction of one region.
    ASSERT_EQ(nvm_region_begin(set, 3, NVM_REGION_ADAPTIVE), 0);
    expect_refused(nvm_region_group_commit(over), NVM_E_INVALID);
    expect_refused(nvm_region_group_commit(now), NVM_E_INVALID);
    EXPECT_EQ(nvm_region_abort(set, 3), 0) << nvm_errormsg();
  }
}

TEST_P(region_group_runs, handles_of_groups_outlive_their_threads_and_pools) {
  ASSERT_EQ(put(1, "bytes"), 0);
  nvm_region_group* its = nullptr;
  std::thread other{[&] {
    const std::uint64_t rid = 1;
    its = nvm_region_group_begin(set, &rid, 1);
    ASSERT_NE(its, nullptr);
    EXPECT_EQ(nvm_region_write(set, 1, 0, "other", 5), 0);
  }};
  other.join();
  expect_refused(nvm_region_group_commit(its), NVM_E_INVALID);
  EXPECT_EQ(get(1), "bytes");
  nvm_region_group* const mine = nvm_region_group_begin(set, nullptr, 0);
  ASSERT_NE(mine, nullptr);
  // Another thread may try.
  std::thread{[&] { expect_refused(nvm_region_group_abort(mine), NVM_E_INVALID); }}.join();
  ASSERT_EQ(nvm_region_group_commit(mine), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  set = nvm_regions_open(pool, "things", nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  nvm_region_group* const now = nvm_region_group_begin(set, nullptr, 0);
  ASSERT_NE(now, nullptr);
  for (nvm_region_group* over : {its, mine}) expect_refused(nvm_region_group_commit(over), NVM_E_INVALID);
  EXPECT_EQ(nvm_region_group_commit(now), 0) << nvm_errormsg();
}

// The run ends its own group, and no other one that the body begins after it has ended that.
TEST_P(region_group_runs, a_group_that_its_body_has_ended_is_refused) {
  ASSERT_EQ(put(1, "bytes"), 0);
  struct job {
    nvm_regions* set;
    nvm_region_group* begun = nullptr;
  } j{set};
  const auto body = [](nvm_region_group* g, void* argument) {
    auto& its = *static_cast<job*>(argument);
    EXPECT_EQ(nvm_region_group_commit(g), 0);
    const std::uint64_t rid = 1;
    its.begun = nvm_region_group_begin(its.set, &rid, 1);
    return nvm_region_write(its.set, 1, 0, "later", 5);
  };
  expect_refused(nvm_region_group_run(set, nullptr, 0, body, &j), NVM_E_INVALID);
  ASSERT_NE(j.begun, nullptr);
  EXPECT_EQ(nvm_region_group_abort(j.begun), 0) << nvm_errormsg();
  EXPECT_EQ(get(1), "bytes");
}

// The calls of a group take effect in their order, small regions and large.
TEST_P(region_group_runs, drop_and_make_regions_again) {
  const std::string small = "small";
  const std::string large(5000, 'L');
  const auto drop = [&](nvm_region_group* g, std::uint64_t rid) { ASSERT_EQ(nvm_region_group_drop(g, rid), 0); };
  const auto fill = [&](std::uint64_t rid, const std::string& bytes) {
    ASSERT_EQ(nvm_region_write(set, rid, 0, bytes.data(), bytes.size()), 0) << nvm_errormsg();
  };
  ASSERT_EQ(put(1, small), 0);
  ASSERT_EQ(put(2, large), 0);
  ASSERT_EQ(put(3, large), 0);
  ASSERT_EQ(put(4, small), 0);
  const std::uint64_t rids[] = {1, 2, 3, 4};
  for (const bool commits : {false, true}) {
    nvm_region_group* const g = nvm_region_group_begin(set, rids, 4);
    ASSERT_NE(g, nullptr) << nvm_errormsg();
    fill(1, "SMALL");  // of what is dropped nothing stays
    drop(g, 1);
    expect_refused(nvm_region_write(set, 1, 0, "x", 1), NVM_E_NOT_FOUND);
    ASSERT_EQ(nvm_region_group_create(g, 1, 3000), 0) << nvm_errormsg();
    expect_refused(nvm_region_group_create(g, 1, 3000), NVM_E_EXISTS);
    EXPECT_EQ(get(1), std::string(100, '\0'));
    fill(1, "again");
    drop(g, 2);
    ASSERT_EQ(nvm_region_create_with(set, 2, "two", 3, 0), 0) << nvm_errormsg();
    drop(g, 3);
    ASSERT_EQ(nvm_region_create(set, 3, 7), 0) << nvm_errormsg();
    drop(g, 4);
    ASSERT_EQ(nvm_region_group_create(g, 4, 9), 0) << nvm_errormsg();
    drop(g, 4);
    ASSERT_EQ(nvm_region_group_create(g, 5, 9), 0) << nvm_errormsg();
    drop(g, 5);
    ASSERT_EQ(nvm_region_group_create(g, 6, 9), 0) << nvm_errormsg();
    drop(g, 6);
    ASSERT_EQ(nvm_region_group_create(g, 6, 5000), 0) << nvm_errormsg();
    fill(6, large);
    ASSERT_EQ(commits ? nvm_region_group_commit(g) : nvm_region_group_abort(g), 0) << nvm_errormsg();
    if (commits) break;
    EXPECT_EQ(get(1), small);
    EXPECT_EQ(get(2), large.substr(0, 100));
    EXPECT_EQ(get(4), small);
    EXPECT_EQ(get(6), "NVM_E_NOT_FOUND");
  }
  const auto look = [&] {
    std::string one = "again";
    one.resize(100);
    EXPECT_EQ(get(1), one);
    EXPECT_EQ(get(2), "two");
    EXPECT_EQ(get(3), std::string(7, '\0'));
    EXPECT_EQ(get(4), "NVM_E_NOT_FOUND");
    EXPECT_EQ(get(5), "NVM_E_NOT_FOUND");
    EXPECT_EQ(get(6), large.substr(0, 100));
    std::uint64_t count = 0;
    EXPECT_EQ(nvm_regions_count(set, &count), 0);
    EXPECT_EQ(count, 4U);
  };
  look();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  set = nvm_regions_open(pool, "things", nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  look();
}

// Pages of what was dropped come back, and a lease of it keeps its bytes.
TEST_P(region_group_runs, make_a_region_again_beside_a_lease_of_what_it_was) {
  const std::string large(40000, 'L');
  ASSERT_EQ(put(1, large), 0);
  nvm_region_lease held;
  ASSERT_EQ(nvm_region_hold(set, 1, &held), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_begin(set, 1, NVM_REGION_ADAPTIVE), 0);
  ASSERT_EQ(nvm_region_drop(set, 1), 0);
  ASSERT_EQ(nvm_region_create_with(set, 1, "new", 3, 0), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_region_commit(set, 1), 0) << nvm_errormsg();
  EXPECT_EQ(get(1), "new");
  EXPECT_EQ(std::string(static_cast<const char*>(held.bytes), held.length), large);
  nvm_region_statistics s;
  ASSERT_EQ(nvm_region_get_statistics(set, &s), 0);
  EXPECT_GE(s.waiting_bytes, large.size());
  EXPECT_EQ(nvm_region_let_go(&held), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
