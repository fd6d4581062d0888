// The C++ face of regions.
#include "nvm/region.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "scratch.hpp"

namespace {

class region_cpp : public ::testing::Test {
 protected:
  void SetUp() override {
    pool = nvm::pool::create(place.path().c_str(), {});
    ASSERT_TRUE(pool) << nvm_errormsg();
    set = nvm::regions::open(*pool, "players");
    ASSERT_TRUE(set) << nvm_errormsg();
  }
  nvm::tests::scratch place{false};
  std::optional<nvm::pool> pool;
  std::optional<nvm::regions> set;
};

TEST_F(region_cpp, reads_and_writes) {
  ASSERT_TRUE(set->create(1, 10)) << nvm_errormsg();
  ASSERT_TRUE(set->create_with(2, "two", 100));
  EXPECT_EQ(set->create(1, 5).code(), NVM_E_EXISTS);
  ASSERT_TRUE(set->write(1, 3, "abc"));
  EXPECT_EQ(*set->read(1), std::string("\0\0\0abc\0\0\0\0", 10));
  EXPECT_EQ(*set->read(1, 4, 2), "bc");
  EXPECT_EQ(*set->append(2, "+more"), 3U);
  EXPECT_EQ(*set->read(2, 3), "+more");
  ASSERT_TRUE(set->truncate(2, 4));
  EXPECT_EQ(*set->size(2), 4U);
  char some[8] = {};
  EXPECT_EQ(*set->read(2, 1, some, sizeof some), 3U);
  EXPECT_EQ(std::string(some), "wo+");
  EXPECT_EQ(set->read(7).code(), NVM_E_NOT_FOUND);
  EXPECT_EQ(set->read(2, 5).code(), NVM_E_INVALID);
  EXPECT_EQ(set->append(7, "x").code(), NVM_E_NOT_FOUND);
  EXPECT_EQ(set->write(2, 3, "xx").code(), NVM_E_INVALID);
  std::map<std::uint64_t, std::uint64_t> all;
  ASSERT_TRUE(set->each([&](std::uint64_t rid, std::uint64_t size) { all[rid] = size; }));
  EXPECT_EQ(all, (std::map<std::uint64_t, std::uint64_t>{{1, 10}, {2, 4}}));
  int visits = 0;
  ASSERT_TRUE(set->each([&](std::uint64_t, std::uint64_t) { return ++visits < 1; }));
  EXPECT_EQ(visits, 1);
  EXPECT_THROW((void)set->each([](std::uint64_t, std::uint64_t) { throw std::runtime_error{"f"}; }),
               std::runtime_error);
  ASSERT_TRUE(set->drop(2));
  EXPECT_EQ(*set->count(), 1U);
  ASSERT_TRUE(set->wait());
  EXPECT_EQ(set->statistics()->regions, 1U);
}

TEST_F(region_cpp, updates_are_all_or_nothing) {
  ASSERT_TRUE(set->create_with(1, "aaaa"));
  ASSERT_TRUE(set->create_with(2, "bbbb"));
  ASSERT_TRUE(set->update({2, 1}, [](auto& tx) {
    tx.write(1, 0, "x");
    tx.append(2, "+");
    EXPECT_EQ(*tx.read(1), "xaaa");
    tx.create(3, 2);
    tx.write(3, 0, "33");
  })) << nvm_errormsg();
  EXPECT_EQ(*set->read(1), "xaaa");
  EXPECT_EQ(*set->read(2), "bbbb+");
  EXPECT_EQ(*set->read(3), "33");
  // A call that fails, and nobody looks.
  EXPECT_EQ(set->update({1, 2},
                        [](auto& tx) {
                          tx.write(1, 0, "y");
                          tx.write(2, 100, "y");
                        })
                .code(),
            NVM_E_INVALID);
  EXPECT_EQ(set->update({1}, [](auto& tx) { return tx.write(1, 0, "y") && false; }).code(), NVM_E_MUST_ABORT);
  EXPECT_THROW((void)set->update({1, 2},
                                 [](auto& tx) {
                                   tx.write(1, 0, "y");
                                   throw std::runtime_error{"body"};
                                 }),
               std::runtime_error);
  EXPECT_EQ(set->update({1, 9}, [](auto&) { FAIL(); }).code(), NVM_E_NOT_FOUND);
  EXPECT_EQ(*set->read(1), "xaaa");
  ASSERT_TRUE(set->update(1, [](auto& tx) { return tx.truncate(1, 2) && tx.append(1, "zz"); }, NVM_REGION_COPY));
  EXPECT_EQ(*set->read(1), "xazz");
  EXPECT_FALSE(set->update(1, [](auto& tx) { tx.write(1, 9, "y"); }));
  EXPECT_THROW((void)set->update(1, [](auto&) { throw std::runtime_error{"body"}; }), std::runtime_error);
  // All of these have let it go.
  ASSERT_TRUE(set->update(1, [](auto& tx) { tx.drop(1); }));
  EXPECT_EQ(set->read(1).code(), NVM_E_NOT_FOUND);
  ASSERT_TRUE(set->update({3}, [](auto& tx) { tx.join(2) && tx.drop(2); }));
  EXPECT_EQ(*set->count(), 1U);
}

// Each holds what the other joins.
TEST_F(region_cpp, updates_of_threads_that_join_go_on) {
  for (const std::uint64_t rid : {1, 2}) ASSERT_TRUE(set->create_with(rid, std::string(1, '\0')));
  const auto add = [&](std::uint64_t first) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(set->update({first}, [&](auto& tx) {
        if (!tx.join(3 - first)) return;
        for (const std::uint64_t rid : {1, 2}) {
          const auto now = tx.read(rid);
          tx.write(rid, 0, std::string(1, static_cast<char>((*now)[0] + 1)));
        }
      })) << nvm_errormsg();
    }
  };
  std::thread other{[&] { add(2); }};
  add(1);
  other.join();
  for (const std::uint64_t rid : {1, 2}) EXPECT_EQ(static_cast<unsigned char>((*set->read(rid))[0]), 200);
  EXPECT_EQ(set->update({1}, [](auto& tx) { tx.join(1); }).code(), NVM_E_TX_OPEN);
}

TEST_F(region_cpp, leases_end_with_their_scope) {
  ASSERT_TRUE(set->create_with(1, "before"));
  nvm::region_lease kept = set->hold(1);
  ASSERT_TRUE(kept);
  {
    nvm::region_lease other = set->hold(1);
    ASSERT_TRUE(set->write(1, 0, "after."));
    EXPECT_EQ(other.bytes(), "before");
    EXPECT_EQ(other.size(), 6U);
    EXPECT_EQ(set->statistics()->leases, 2U);
    kept = std::move(other);
    EXPECT_FALSE(other);  // NOLINT: what was moved from is let go
  }
  EXPECT_EQ(kept.bytes(), "before");
  EXPECT_EQ(set->statistics()->leases, 1U);
  EXPECT_EQ(pool->close().code(), NVM_E_BUSY);
  EXPECT_EQ(set->hold(7).code(), NVM_E_NOT_FOUND);
  kept.let_go();
  EXPECT_FALSE(kept);
  kept.let_go();
  EXPECT_TRUE(pool->close()) << nvm_errormsg();
}

}  // namespace
