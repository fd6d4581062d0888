// How full the log is, and what happens to a transaction that is larger than it.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "nvm/compiled.h"
#include "nvm/malloc.h"
#include "nvm/store.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

class room : public testing::Test {
 protected:
  void create(std::uint32_t medium, std::uint32_t engine, std::uint64_t log_bytes) {
    nvm_pool_options o{};
    o.size = 32 * mib;
    o.medium = medium;
    o.engine = engine;
    o.log_bytes = log_bytes;
    pool = nvm_pool_create_with(dir.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    bytes = static_cast<char*>(nvm_alloc(pool, 0, 8 * mib));
    ASSERT_NE(bytes, nullptr) << nvm_errormsg();
    std::memset(bytes, 1, 8 * mib);
    ASSERT_EQ(nvm_pool_set_root(pool, bytes), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  ~room() override {
    if (pool == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  nvm_tx_room now() const {
    nvm_tx_room r{};
    EXPECT_EQ(nvm_tx_get_room(pool, &r), 0) << nvm_errormsg();
    return r;
  }
  // The figures of the log's message.
  static bool told_figures() {
    return std::strstr(nvm_errormsg(), "bytes of log") != nullptr ||
           std::strstr(nvm_errormsg(), "lines of log") != nullptr;
  }

  scratch dir{true};
  NVM_POOL* pool = nullptr;
  char* bytes = nullptr;
};

TEST_F(room, is_told_before_a_turn_is_too_large_and_such_turns_commit) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  nvm_tx_room r{};
  EXPECT_EQ(nvm_tx_get_room(pool, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NO_TRANSACTION);
  EXPECT_EQ(nvm_tx_get_room(pool, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  // Four times the log in turns that end when half of it is used.
  unsigned turns = 1;
  ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
  const std::uint64_t empty = now().used;
  for (std::size_t at = 0; at < 8 * mib; at += 4096) {
    ASSERT_EQ(nvm_tx_log(bytes + at, 4096), 0) << nvm_errormsg();
    std::memset(bytes + at, 2, 4096);
    r = now();
    ASSERT_GE(r.used, empty + 4096);
    ASSERT_LE(r.used, r.most);
    if (r.used <= r.most / 2) continue;
    ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
    EXPECT_EQ(now().used, empty);
    ++turns;
  }
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_GT(turns, 8U);
}

TEST_F(room, counts_new_objects_and_no_more_those_that_are_freed) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::vector<void*> all;
  for (unsigned i = 0; i < 100; ++i) all.push_back(nvm_alloc(pool, 0, 1000));
  EXPECT_GE(now().used, 100'000U);
  const std::uint64_t before = now().used;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  for (void* p : all) ASSERT_EQ(nvm_free(pool, p), 0) << nvm_errormsg();
  EXPECT_LT(now().used, 20'000U);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(now().used, before);
  // Objects that come and go in one transaction, ten times the log in all.
  for (unsigned i = 0; i < 20'000; ++i) {
    void* const p = nvm_alloc(pool, 0, 1000);
    ASSERT_NE(p, nullptr) << i << ' ' << nvm_errormsg();
    ASSERT_EQ(nvm_free(pool, p), 0);
  }
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_F(room, refuses_the_call_that_is_too_much_and_the_program_goes_on) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::size_t at = 0;
  while (at < 8 * mib && nvm_tx_log(bytes + at, 4096) == 0) {
    std::memset(bytes + at, 3, 4096);
    at += 4096;
  }
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL);
  EXPECT_TRUE(told_figures()) << nvm_errormsg();
  EXPECT_TRUE(at > mib / 2 && at <= mib) << at;
  // Compiled code stores all the same, and nothing of it stays.
  __nvm_log(bytes + at, 2 * mib);
  std::memset(bytes + at, 4, 2 * mib);
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  EXPECT_EQ(nvm_tx_cause(nullptr), NVM_E_LOG_FULL);
  for (std::size_t i = 0; i < at + 2 * mib; i += 512) ASSERT_EQ(bytes[i], 1) << i;

  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::size_t made = 0;
  while (made < 8 * mib && nvm_alloc(pool, 0, 4000) != nullptr) made += 4000;
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  EXPECT_TRUE(told_figures()) << nvm_errormsg();
  EXPECT_TRUE(made > mib / 2 && made <= mib) << made;
  ASSERT_EQ(nvm_tx_abort(pool), 0);

  // Of the malloc family the same is NULL and nothing else.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  {
    NVM_SCOPE(pool);
    while (nvm_malloc(4000) != nullptr) {
    }
    EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_F(room, counts_objects_with_pages_of_their_own_that_go_through_the_log) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::size_t made = 0;
  while (made < 8 * mib && nvm_alloc(pool, 0, 40'000) != nullptr) made += 40'000;
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  EXPECT_TRUE(told_figures()) << nvm_errormsg();
  EXPECT_TRUE(made > mib / 2 && made <= mib) << made;
  ASSERT_EQ(nvm_tx_abort(pool), 0);

  ASSERT_EQ(nvm_tx_begin(pool), 0);
  while (made > mib / 2) {
    ASSERT_NE(nvm_alloc(pool, 0, 40'000), nullptr) << nvm_errormsg();
    made -= 40'000;
  }
  EXPECT_GE(now().used, 400'000U);
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_F(room, counts_objects_of_a_store) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  ASSERT_EQ(nvm_store_create(pool, "store", nullptr), 0) << nvm_errormsg();
  nvm_store* const store = nvm_store_attach(pool, "store", 0);
  ASSERT_NE(store, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::size_t made = 0;
  while (made < 8 * mib && nvm_store_alloc(store, 0, 4000) != nullptr) made += 4000;
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  EXPECT_TRUE(made > mib / 2 && made <= mib) << made;
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_store_detach(store), 0) << nvm_errormsg();
}

// Pages of objects whose free is not durable yet go through the log, unless the log has no room for them.
TEST_F(room, is_no_question_for_objects_in_pages_that_were_just_freed) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  constexpr std::size_t each = 200'000;
  std::vector<char*> all(12);
  const auto make = [&] {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (char*& p : all) {
      p = static_cast<char*>(nvm_alloc(pool, 0, each));
      ASSERT_NE(p, nullptr) << nvm_errormsg();
      std::memset(p, 6, each);
    }
    const nvm_tx_room r = now();
    EXPECT_LT(r.used, r.most / 2);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  };
  make();
  for (unsigned round = 0; round < 5 && !HasFailure(); ++round) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (char* p : all) ASSERT_EQ(nvm_free(pool, p), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit_async(pool, nullptr), 0) << nvm_errormsg();
    make();
  }
}

TEST_F(room, of_an_inner_level_that_is_too_much_leaves_the_outer_one) {
  create(NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, 2 * mib);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(bytes, 8), 0);
  bytes[0] = 5;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  while (nvm_alloc(pool, 0, 4000) != nullptr) {
  }
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(bytes[0], 5);
}

TEST_F(room, has_no_bound_of_its_own_where_the_log_finds_more) {
  create(direct_medium(), NVM_ENGINE_UNDO, 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(bytes, 4 * mib), 0) << nvm_errormsg();
  EXPECT_EQ(now().most, 0U);
  EXPECT_GE(now().used, 4 * mib);
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_F(room, of_engine_mnemosyne_is_that_of_the_lanes_ring) {
  create(direct_medium(), NVM_ENGINE_MNEMOSYNE_UNDO, 256 * 1024);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  const std::uint64_t most = now().most;
  EXPECT_TRUE(most > 64 * 1024 && most <= 256 * 1024) << most;
  std::size_t at = 0;
  std::uint64_t used = now().used;
  while (at < 8 * mib && nvm_tx_log(bytes + at, 512) == 0) {
    ASSERT_GT(now().used, used);
    used = now().used;
    at += 512;
  }
  EXPECT_EQ(nvm_errno(), NVM_E_LOG_FULL) << nvm_errormsg();
  EXPECT_TRUE(told_figures()) << nvm_errormsg();
  EXPECT_GT(used, most / 2);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
}

}  // namespace
}  // namespace nvm::tests
