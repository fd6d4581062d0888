// Programs that were written for malloc(): scopes, memory by address, failures that are only NULL, frees by threads
// without a transaction, turns.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/malloc.h"
#include "nvm/nvm.hpp"
#include "nvm/stm.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

int add_one(void*, std::uint32_t, std::size_t, void* count) {
  ++*static_cast<int*>(count);
  return 0;
}

// A thread that does what it is told, one thing after the other.
class other_thread {
 public:
  ~other_thread() {
    does([this] { over_ = true; });
    thread_.join();
  }
  void does(const std::function<void()>& what) {
    std::packaged_task<void()> task{what};
    auto done = task.get_future();
    next_.set_value(std::move(task));
    done.get();
  }

 private:
  void run() {
    while (!over_) {
      auto task = next_.get_future().get();
      next_ = {};
      task();
    }
  }
  bool over_ = false;
  std::promise<std::packaged_task<void()>> next_;
  std::thread thread_{[this] { run(); }};
};

class legacy : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  void TearDown() override {
    nvm_set_misuse_handler(nullptr, nullptr);
    if (pool == nullptr) return;
    if (nvm_tx_depth(pool) != 0) {
      EXPECT_EQ(nvm_tx_abort(pool), 0);
    }
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  // With no transaction open.
  int objects() const {
    int count = 0;
    EXPECT_EQ(nvm_pool_each(pool, add_one, &count), 0) << nvm_errormsg();
    return count;
  }
  void* committed_object() const {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    void* const p = nvm_alloc(pool, 0, 100);
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    return p;
  }
};
INSTANTIATE_TEST_SUITE_P(kinds, legacy, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(legacy, memory_comes_from_where_the_scope_says) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  void* before = nvm_malloc(10);
  EXPECT_FALSE(nvm_is_durable(before));
  void* inside = nullptr;
  void* volatile_inside = nullptr;
  {
    NVM_SCOPE(pool);
    EXPECT_EQ(nvm_scope_pool(), pool);
    inside = nvm_malloc_zeroed(10, 10);
    {
      NVM_SCOPE(nullptr);
      volatile_inside = nvm_malloc_strdup("text");
    }
    EXPECT_TRUE(nvm_is_durable(nvm_malloc_strdup("text")));
    std::thread{[] { EXPECT_EQ(nvm_scope_pool(), nullptr); }}.join();
  }
  EXPECT_EQ(nvm_scope_pool(), nullptr);
  EXPECT_TRUE(nvm_is_durable(inside));
  EXPECT_EQ(nvm_pool_of(inside), pool);
  EXPECT_EQ(std::string(static_cast<char*>(inside), 100), std::string(100, 0));
  EXPECT_FALSE(nvm_is_durable(volatile_inside));
  // By address, in any scope.
  inside = nvm_malloc_resize(inside, 1000);
  EXPECT_TRUE(nvm_is_durable(inside));
  EXPECT_EQ(nvm_malloc_usable_size(inside), 1000U);
  volatile_inside = nvm_malloc_resize(volatile_inside, 1000);
  EXPECT_FALSE(nvm_is_durable(volatile_inside));
  EXPECT_GE(nvm_malloc_usable_size(volatile_inside), 1000U);
  EXPECT_STREQ(static_cast<char*>(volatile_inside), "text");
  nvm_malloc_free(before);
  nvm_malloc_free(volatile_inside);
  nvm_malloc_free(inside);
  nvm_malloc_free(nullptr);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(objects(), 1);  // the text
}

TEST_P(legacy, nothing_is_something_as_in_c) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  NVM_SCOPE(pool);
  void* a = nvm_malloc(0);
  void* b = nvm_malloc_zeroed(0, 8);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(b, nullptr);
  EXPECT_NE(a, b);
  EXPECT_EQ(nvm_malloc_resize(a, 0), nullptr);
  EXPECT_EQ(nvm_malloc_zeroed(SIZE_MAX / 2, 4), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(nvm_malloc_aligned(3, 8), nullptr);
  EXPECT_EQ(errno, EINVAL);
  if (!is_ssd(GetParam()) || !is_log(GetParam())) {
    void* aligned = nvm_malloc_aligned(256, 100);
    ASSERT_NE(aligned, nullptr) << nvm_errormsg();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 256, 0U);
    nvm_malloc_free(aligned);
  }
  EXPECT_STREQ(nvm_malloc_strndup("texts", 4), "text");
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(objects(), 2);  // b and the text
}

TEST_P(legacy, an_allocation_that_fails_is_null_and_nothing_else) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  NVM_SCOPE(pool);
  auto* kept = static_cast<std::uint64_t*>(nvm_malloc(100));
  ASSERT_NE(kept, nullptr);
  *kept = 5;
  EXPECT_EQ(nvm_malloc(std::size_t{1} << 36), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_NE(nvm_errno(), NVM_OK);
  EXPECT_EQ(nvm_malloc_resize(kept, std::size_t{1} << 36), nullptr);
  EXPECT_EQ(nvm_tx_cause(pool), NVM_OK);
  EXPECT_EQ(*kept, 5U);
  // As Lua and Redis do: free something, and go on.
  void* next = nvm_malloc(200);
  ASSERT_NE(next, nullptr) << nvm_errormsg();
  nvm_malloc_free(next);
  ASSERT_EQ(nvm_pool_set_root(pool, kept), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(*static_cast<std::uint64_t*>(nvm_pool_get_root(pool)), 5U);
}

TEST_P(legacy, a_scope_without_a_transaction_gives_nothing) {
  NVM_SCOPE(pool);
  EXPECT_EQ(nvm_malloc(8), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(nvm_errno(), NVM_E_NO_TRANSACTION);
}

TEST_P(legacy, a_thread_without_a_transaction_leaves_its_frees_to_the_next_commit) {
  void* const p = committed_object();
  std::thread{[&] { nvm_malloc_free(p); }}.join();
  EXPECT_EQ(objects(), 1);
  ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(objects(), 0);
}

TEST_P(legacy, a_free_waits_for_transactions_that_may_have_unlinked_the_object) {
  void* const p = committed_object();
  other_thread owner;
  owner.does([&] { ASSERT_EQ(nvm_tx_begin(pool), 0); });
  std::thread{[&] { nvm_malloc_free(p); }}.join();
  // Of another thread, which has nothing to do with it: were the object freed now, a crash would bring back a link.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_NE(nvm_alloc(pool, 0, 8), nullptr);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(nvm_size_of(pool, p), 100U) << "freed while the transaction was open that may have unlinked it";
  owner.does([&] { ASSERT_EQ(nvm_tx_commit(pool), 0); });
  EXPECT_EQ(nvm_size_of(pool, p), 0U);
}

TEST_P(legacy, a_free_that_waits_is_kept_where_the_commit_fails) {
  void* const p = committed_object();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  std::thread{[&] { nvm_malloc_free(p); }}.join();
  EXPECT_EQ(nvm_alloc(pool, 0, std::size_t{1} << 36), nullptr);  // dooms it
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  EXPECT_EQ(nvm_size_of(pool, p), 100U);
  ASSERT_EQ(nvm_tx_next(pool), 0);
  ASSERT_EQ(nvm_tx_next(pool), 0);
  EXPECT_EQ(nvm_size_of(pool, p), 0U);
}

TEST_P(legacy, frees_that_wait_are_bounded_and_end_with_the_pool) {
  std::vector<void*> all;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  for (int i = 0; i < 600; ++i) all.push_back(nvm_alloc(pool, 0, 40));
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  std::thread{[&] {
    for (void* p : all) nvm_malloc_free(p);
  }}.join();
  const int left = objects();
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 257);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(objects(), 0);
}

int misuses = 0;
void count_misuse(const nvm_misuse* m, void*) {
  EXPECT_EQ(m->code, NVM_E_BAD_POINTER);
  ++misuses;
}

TEST_P(legacy, wrong_frees_are_told) {
  misuses = 0;
  nvm_set_misuse_handler(count_misuse, nullptr);
  auto* const p = static_cast<char*>(committed_object());
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  nvm_malloc_free(p + 16);
  EXPECT_EQ(misuses, 1);
  nvm_malloc_free(p);
  nvm_malloc_free(p);
  EXPECT_EQ(misuses, 2);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  std::thread{[&] { nvm_malloc_free(p); }}.join();
  EXPECT_EQ(misuses, 3);
  // Twice without a transaction: the second is told when the first is made.
  void* const q = committed_object();
  std::thread{[&] {
    nvm_malloc_free(q);
    nvm_malloc_free(q);
  }}.join();
  EXPECT_EQ(misuses, 3);
  ASSERT_EQ(nvm_tx_next(pool), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(misuses, 4);
  EXPECT_EQ(objects(), 0);
}

TEST_P(legacy, a_turn_is_a_transaction) {
  ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_depth(pool), 1U);
  NVM_SCOPE(pool);
  auto* root = static_cast<std::uint64_t*>(nvm_malloc_zeroed(1, 8));
  ASSERT_EQ(nvm_pool_set_root(pool, root), 0);
  for (std::uint64_t turn = 1; turn <= 5; ++turn) {
    ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_log(root, 8), 0);
    *root = turn;
  }
  std::uint64_t lsn = 7;
  ASSERT_EQ(nvm_tx_next_async(pool, &lsn), 0);
  EXPECT_EQ(lsn != 0, is_ssd(GetParam()));
  ASSERT_EQ(nvm_wait(pool, lsn), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_next(pool), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  EXPECT_EQ(nvm_tx_depth(pool), 2U);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  // A turn that can only be rolled back ends, and the next call begins one.
  EXPECT_EQ(nvm_alloc(pool, 0, std::size_t{1} << 36), nullptr);
  EXPECT_EQ(nvm_tx_next(pool), -1);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  ASSERT_EQ(nvm_tx_next(pool), 0);
  EXPECT_EQ(nvm_tx_depth(pool), 1U);
  EXPECT_EQ(*root, 5U);
}

}  // namespace
}  // namespace nvm::tests
