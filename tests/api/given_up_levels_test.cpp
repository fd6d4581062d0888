// What a transaction allocates after an inner level was given up, and stores whose last cluster went with the pool's
// end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/nvm.h"
#include "nvm/space.h"
#include "nvm/store.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

class given_up_levels : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { ASSERT_NE(pool, nullptr) << nvm_errormsg(); }
  // In the thread's transaction.
  char* made(std::size_t bytes, char fill) {
    char* const o = static_cast<char*>(nvm_alloc(pool, 1, bytes));
    EXPECT_NE(o, nullptr) << nvm_errormsg();
    if (o != nullptr) std::memset(o, fill, bytes);
    return o;
  }

  const scratch place{GetParam()};
  NVM_POOL* const pool = place.create("pool", std::size_t{16} << 20);
};
INSTANTIATE_TEST_SUITE_P(kinds, given_up_levels, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(given_up_levels, leave_all_own_objects_known) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  for (int i = 0; i < 20; ++i) ASSERT_NE(nvm_alloc(pool, 1, 40), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  for (int i = 0; i < 20; ++i) ASSERT_NE(nvm_alloc(pool, 1, 40), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  void* const x = nvm_alloc(pool, 1, 40);
  void* const y = nvm_alloc(pool, 1, 40);
  ASSERT_TRUE(x != nullptr && y != nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_log(x, 40), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_free(pool, y), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_size_of(pool, x), 40U) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

// A range over several new objects of an inner level that was given up since: their places are others' by then.
TEST_P(given_up_levels, take_nothing_back_where_others_have_committed) {
  constexpr std::size_t bytes = 70000;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  char* first = made(bytes, 'a');
  char* second = made(bytes, 'a');
  ASSERT_TRUE(first != nullptr && second != nullptr);
  if (second < first) std::swap(first, second);
  const auto both = static_cast<std::size_t>(second - first) + bytes;
  ASSERT_EQ(nvm_tx_log(first, both), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  std::vector<char*> others;
  std::thread{[&] {
    for (bool there = false; !there && others.size() < 200;) {
      ASSERT_EQ(nvm_tx_begin(pool), 0);
      others.push_back(made(bytes, 'b'));
      ASSERT_NE(others.back(), nullptr);
      ASSERT_EQ(nvm_tx_commit(pool), 0);
      there = others.back() >= second && others.back() < second + bytes;
    }
  }}.join();
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  for (const char* o : others) ASSERT_EQ(std::count(o, o + bytes, 'b'), static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

// One range over an object of before, one of the outer level and one of the inner level.
TEST_P(given_up_levels, take_back_what_is_not_their_own) {
  constexpr std::size_t bytes = 70000;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  char* const old = made(bytes, 'o');
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  char* const outer = made(bytes, 'p');
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  char* const inner = made(bytes, 'q');
  ASSERT_TRUE(old != nullptr && outer != nullptr && inner != nullptr);
  char* const first = std::min({old, outer, inner});
  char* const last = std::max({old, outer, inner});
  ASSERT_EQ(nvm_tx_log(first, static_cast<std::size_t>(last - first) + bytes), 0) << nvm_errormsg();
  for (char* const o : {old, outer, inner}) std::memset(o, 'x', bytes);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  const auto all_are = [&](const char* o, char fill) { return std::count(o, o + bytes, fill) == bytes; };
  EXPECT_TRUE(all_are(old, 'o'));
  EXPECT_TRUE(all_are(outer, 'p'));
  ASSERT_EQ(nvm_tx_log(old, bytes), 0);
  std::memset(old, 'y', bytes);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_TRUE(all_are(old, 'o'));
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

TEST(stores_at_the_end, are_attached_after_the_pool_was_cut_off) {
  const scratch place{pool_kind::shm};
  NVM_POOL* pool = place.create("pool", std::size_t{8} << 20);
  ASSERT_NE(pool, nullptr);
  nvm_store* s = nvm_store_attach(pool, "s", NVM_STORE_CREATE);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto* const root = static_cast<char*>(nvm_store_alloc(s, 0, 64));
  ASSERT_NE(root, nullptr) << nvm_errormsg();
  std::strcpy(root, "kept");
  ASSERT_EQ(nvm_store_set_root(s, root), 0);
  ASSERT_NE(nvm_alloc(pool, 0, 7500000), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  // The pool grows, and a cluster lies near its end.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  void* const large = nvm_store_alloc(s, 0, 5 << 20);
  ASSERT_NE(large, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, large), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_GE(nvm_store_trim(s), 0) << nvm_errormsg();
  nvm_trim_report t{};
  ASSERT_EQ(nvm_pool_trim(pool, nullptr, &t), 0) << nvm_errormsg();
  EXPECT_GT(t.cut, 0U);
  ASSERT_EQ(nvm_store_detach(s), 0);
  s = nvm_store_attach(pool, "s", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  EXPECT_STREQ(static_cast<char*>(nvm_store_get_root(s)), "kept");
  ASSERT_EQ(nvm_store_detach(s), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(nvm_pool_check(
                place.path().c_str(), [](std::uint64_t, const char* text, void*) { ADD_FAILURE() << text; }, nullptr,
                nullptr),
            0)
      << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
