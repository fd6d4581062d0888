// Closing a pool with open transactions, threads, stores and structures: the first two refuse it; handles of stores and
// structures, and the pool's own, are recognised afterwards.
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/kv.hpp"
#include "nvm/lockfree.hpp"
#include "nvm/nvm.hpp"
#include "nvm/stm.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

#define EXPECT_CLOSED(call)                                                                                          \
  do {                                                                                                               \
    EXPECT_TRUE(call);                                                                                               \
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << #call;                                                                  \
    EXPECT_NE(std::string{nvm_errormsg()}.find("was closed"), std::string::npos) << #call << ": " << nvm_errormsg(); \
  } while (false)

class closing : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  long* word = nullptr;
  void SetUp() override {
    ASSERT_TRUE(nvm::transaction(pool, [&] {
      word = static_cast<long*>(nvm_calloc(pool, 1, 1, sizeof(long)));
      return word != nullptr && nvm_pool_set_root(pool, word) == 0;
    })) << nvm_errormsg();
  }
  void TearDown() override {
    if (pool != nullptr) (void)nvm_pool_close(pool);
  }
};
INSTANTIATE_TEST_SUITE_P(kinds, closing, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(closing, every_call_with_the_handle_of_a_closed_pool_is_refused) {
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_CLOSED(nvm_pool_close(pool) == -1);
  EXPECT_CLOSED(nvm_tx_begin(pool) == -1);
  EXPECT_CLOSED(nvm_tx_commit(pool) == -1);
  EXPECT_CLOSED(nvm_tx_abort(pool) == -1);
  EXPECT_CLOSED(nvm_wait(pool, 1) == -1);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_CLOSED(nvm_alloc(pool, 1, 8) == nullptr);
  EXPECT_CLOSED(nvm_calloc(pool, 1, 1, 8) == nullptr);
  EXPECT_CLOSED(nvm_free(pool, word) == -1);
  EXPECT_CLOSED(nvm_realloc(pool, word, 1, 16) == nullptr);
  EXPECT_CLOSED(nvm_size_of(pool, word) == 0);
  EXPECT_CLOSED(nvm_type_of(pool, word) == 0);
  EXPECT_CLOSED(nvm_pool_set_root(pool, nullptr) == -1);
  EXPECT_CLOSED(nvm_pool_get_root(pool) == nullptr);
  EXPECT_CLOSED(nvm_pool_each(pool, [](void*, uint32_t, size_t, void*) { return 0; }, nullptr) == -1);
  nvm_statistics s;
  EXPECT_CLOSED(nvm_pool_get_statistics(pool, &s) == -1);
  nvm_pool_info info;
  EXPECT_CLOSED(nvm_pool_get_info(pool, &info) == -1);
  EXPECT_CLOSED(nvm_pool_build_index(pool, 1) == -1);
  EXPECT_CLOSED(nvm_pool_each_type(pool, [](const nvm_type_info*, void*) { return 0; }, nullptr) == -1);
  EXPECT_CLOSED(nvm_stm_run(pool, [](nvm_stm*, void*) { return 0; }, nullptr) == -1);
  EXPECT_CLOSED(nvm_stm_set_policy(pool, NVM_STM_POLICY_ENGINE) == -1);
  EXPECT_CLOSED(nvm_kv_open(pool, "s", nullptr) == nullptr);
  EXPECT_CLOSED(nvm_kv_drop(pool, "s") == -1);
  EXPECT_CLOSED(nvm_lf_open(pool, "s", nullptr) == nullptr);
  EXPECT_CLOSED(nvm_lf_drop(pool, "s") == -1);
  EXPECT_FALSE(nvm::transaction(pool, [] {}));
  EXPECT_FALSE(nvm::atomic(pool, [] {}));
  EXPECT_EQ(nvm_pool_of(word), nullptr);
  EXPECT_EQ(nvm_tx_log(word, 8), -1);
}

TEST_P(closing, stores_that_are_open_are_closed_with_their_pool) {
  nvm_kv* kv = nvm_kv_open(pool, "s", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_put(kv, "k", 1, "v", 1), 0);
  nvm_kv_cursor* cursor = nvm_kv_cursor_open(kv, nullptr);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_CLOSED(nvm_kv_put(kv, "k", 1, "w", 1) == -1);
  EXPECT_CLOSED(nvm_kv_get(kv, "k", 1, nullptr, 0, nullptr) == -1);
  EXPECT_CLOSED(nvm_kv_remove(kv, "k", 1) == -1);
  EXPECT_CLOSED(nvm_kv_size(kv) == -1);
  nvm_kv_entry e;
  EXPECT_CLOSED(nvm_kv_cursor_next(cursor, &e) == -1);
  nvm_kv_cursor_close(cursor);
  nvm_kv_statistics s;
  EXPECT_CLOSED(nvm_kv_get_statistics(kv, &s) == -1);
  const nvm_kv_operation o{kv, NVM_KV_PUT, 0, "k", 1, "x", 1};
  EXPECT_CLOSED(nvm_kv_batch(pool, &o, 1, nullptr) == -1);
  EXPECT_STREQ(nvm_kv_name(kv), "s");
  EXPECT_EQ(nvm_kv_close(kv), 0);
  EXPECT_CLOSED(nvm_kv_close(kv) == -1);

  // The next opening of the file is another pool: the value is the one that was put before.
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_CLOSED(nvm_kv_put(kv, "k", 1, "w", 1) == -1);
  nvm_kv* again = nvm_kv_open(pool, "s", nullptr);
  char v = 0;
  EXPECT_EQ(nvm_kv_get(again, "k", 1, &v, 1, nullptr), 1);
  EXPECT_EQ(v, 'v');
  EXPECT_EQ(nvm_kv_close(again), 0);
}

TEST_P(closing, a_store_that_was_closed_is_recognised_and_may_be_opened_again) {
  nvm_kv* kv = nvm_kv_open(pool, "s", nullptr);
  ASSERT_EQ(nvm_kv_put(kv, "k", 1, "v", 1), 0);
  ASSERT_EQ(nvm_kv_close(kv), 0);
  EXPECT_CLOSED(nvm_kv_put(kv, "k", 1, "w", 1) == -1);
  EXPECT_CLOSED(nvm_kv_close(kv) == -1);
  ASSERT_EQ(nvm_kv_rename(pool, "s", "t"), 0) << nvm_errormsg();
  EXPECT_CLOSED(nvm_kv_put(kv, "k", 1, "w", 1) == -1);
  nvm_kv* renamed = nvm_kv_open(pool, "t", nullptr);
  ASSERT_NE(renamed, nullptr);
  EXPECT_EQ(nvm_kv_size(renamed), 1);
  EXPECT_EQ(nvm_kv_drop(pool, "t"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  ASSERT_EQ(nvm_kv_close(renamed), 0);
  ASSERT_EQ(nvm_kv_drop(pool, "t"), 0) << nvm_errormsg();
  EXPECT_CLOSED(nvm_kv_put(renamed, "k", 1, "w", 1) == -1);
  nvm_kv* fresh = nvm_kv_open(pool, "t", nullptr);
  EXPECT_EQ(nvm_kv_size(fresh), 0);
  EXPECT_EQ(nvm_kv_close(fresh), 0);
}

TEST_P(closing, objects_of_cplusplus_may_outlive_their_pool) {
  ASSERT_EQ(nvm_pool_close(pool), 0);
  auto p = nvm::pool::open(place.path().c_str());
  ASSERT_TRUE(p);
  auto store = nvm::kv::open(*p, "s");
  auto second = nvm::kv::open(*p, "s");
  ASSERT_TRUE(store->put("a", "b"));
  auto entries = store->entries();
  ASSERT_TRUE(p->close()) << nvm_errormsg();
  EXPECT_FALSE(store->put("a", "c"));
  EXPECT_FALSE(entries.next());
  EXPECT_EQ(store->get("a").code(), NVM_E_INVALID);
  EXPECT_FALSE(p->close());
}

TEST_P(closing, many_pools_that_were_closed_take_little_memory) {
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;  // its handle leads nowhere when so many others were closed
  nvm_kv* first = nullptr;
  for (int i = 0; i < 300; ++i) {
    NVM_POOL* p = nvm_pool_open(place.path().c_str());
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    if (i == 0) first = nvm_kv_open(p, "s", nullptr);
    ASSERT_EQ(nvm_pool_close(p), 0);
    if (is_ssd(GetParam()) && i == 20) break;
  }
  EXPECT_CLOSED(nvm_kv_put(first, "k", 1, "w", 1) == -1);
  EXPECT_EQ(nvm_kv_close(first), 0);
}

// Their pools stay until the stores are closed, however many there are.
TEST_P(closing, stores_of_many_closed_pools_can_be_closed_in_any_order) {
  if (is_ssd(GetParam())) GTEST_SKIP() << "each close waits for the device; the handles are the same";
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  std::vector<nvm_kv*> stores;
  for (int i = 0; i < 600; ++i) {
    NVM_POOL* p = nvm_pool_open(place.path().c_str());
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    if (i % 2 == 0) stores.push_back(nvm_kv_open(p, "s", nullptr));
    ASSERT_EQ(nvm_pool_close(p), 0);
  }
  for (std::size_t i = 0; i < stores.size(); ++i) {
    nvm_kv* const store = stores[(i * 7) % stores.size()];
    EXPECT_CLOSED(nvm_kv_put(store, "k", 1, "w", 1) == -1);
  }
  while (!stores.empty()) {
    EXPECT_EQ(nvm_kv_close(stores.back()), 0);
    stores.pop_back();
  }
}

// ---- threads inside of lock-free structures

class structures_at_close : public closing {};
INSTANTIATE_TEST_SUITE_P(kinds, structures_at_close, testing::Values(pool_kind::shm, pool_kind::ssd), name_of);

TEST_P(structures_at_close, a_thread_inside_refuses_the_close) {
  nvm_lf* lf = nvm_lf_open(pool, "s", nullptr);
  ASSERT_NE(lf, nullptr) << nvm_errormsg();
  {
    const nvm::lf_guard inside{lf};
    ASSERT_TRUE(inside);
    const nvm::lf_guard inner{lf};
    EXPECT_EQ(nvm_pool_close(pool), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
    EXPECT_NE(std::string{nvm_errormsg()}.find("nvm_lf_enter()"), std::string::npos) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_lf_leave(lf), -1);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_CLOSED(nvm_lf_put64(lf, 1, 1, 0) == -1);
  std::uint64_t v = 0;
  EXPECT_CLOSED(nvm_lf_get64(lf, 1, &v) == -1);
  EXPECT_CLOSED(nvm_lf_enter(lf) == -1);
  EXPECT_CLOSED(nvm_lf_leave(lf) == -1);
  EXPECT_CLOSED(nvm_lf_wait(lf) == -1);
  EXPECT_EQ(nvm_lf_pool(lf), pool);
}

TEST_P(structures_at_close, a_guard_leaves_with_an_exception) {
  nvm_lf* lf = nvm_lf_open(pool, "s", nullptr);
  try {
    nvm::lf_guard inside{lf};
    nvm::lf_guard moved{std::move(inside)};
    throw std::runtime_error{"no"};
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(structures_at_close, a_thread_that_ends_inside_holds_nothing_up) {
  nvm_lf_options o{};
  o.flags = NVM_LF_BYTES;
  nvm_lf* lf = nvm_lf_open(pool, "s", &o);
  ASSERT_NE(lf, nullptr);
  std::thread{[&] {
    EXPECT_EQ(nvm_lf_enter(lf), 0);
    EXPECT_EQ(nvm_lf_enter(lf), 0);
  }}.join();
  // Were it inside still, none of the old values could be freed: together they are far more than the pool can hold.
  const std::string big(4000, 'x');
  const int rounds = GetParam() == pool_kind::shm ? 4 * 4096 : 64;
  nvm_pool_info info{};
  for (int i = 0; i < rounds; ++i) ASSERT_EQ(nvm_lf_put(lf, "k", 1, big.data(), big.size(), 0, 0), i == 0 ? 1 : 2);
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  EXPECT_LE(info.size, std::uint64_t{32} << 20);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(structures_at_close, an_exception_of_a_visitor_goes_on_and_leaves_the_thread_outside) {
  nvm_lf_options o{};
  o.flags = NVM_LF_BYTES;
  nvm_lf* bytes = nvm_lf_open(pool, "b", &o);
  nvm_lf* words = nvm_lf_open(pool, "w", nullptr);
  ASSERT_EQ(nvm_lf_put(bytes, "k", 1, "v", 1, 0, 0), 1);
  ASSERT_EQ(nvm_lf_put64(words, 1, 2, 0), 1);
  std::uint64_t cursor = 0;
  EXPECT_THROW((void)nvm_lf_scan(bytes, &cursor, 10, [](const nvm_lf_entry*, void*) -> int { throw 1; }, nullptr), int);
  EXPECT_THROW((void)nvm_lf_each64(words, [](uint64_t, uint64_t, void*) -> int { throw 1; }, nullptr), int);
  EXPECT_THROW((void)nvm_lf_names(pool, [](const char*, int, void*) -> int { throw 1; }, nullptr), int);
  EXPECT_THROW(
      (void)nvm_lf_update(
          bytes, "k", 1, [](const nvm_lf_entry*, nvm_lf_change*, void*) -> nvm_lf_decision { throw 1; }, nullptr),
      int);
  EXPECT_EQ(nvm_lf_get(bytes, "k", 1, nullptr, 0, nullptr), 1);
  // The entry of another structure's kind has no mark, nor has a place that is none.
  nvm_lf_entry nowhere{};
  EXPECT_EQ(nvm_lf_set_mark(bytes, &nowhere, 1), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

// ---- exceptions and cancelled threads

TEST_P(closing, an_exception_of_a_callback_goes_on_in_order) {
  nvm_kv* kv = nvm_kv_open(pool, "s", nullptr);
  ASSERT_EQ(nvm_kv_put(kv, "k", 1, "v", 1), 0);
  for (int i = 0; i < 40; ++i) {  // more often than calls may nest
    EXPECT_THROW((void)nvm_pool_each(pool, [](void*, uint32_t, size_t, void*) -> int { throw 1; }, nullptr), int);
    EXPECT_THROW((void)nvm_kv_scan(kv, nullptr, [](const nvm_kv_entry*, void*) -> int { throw 1; }, nullptr), int);
    EXPECT_THROW((void)nvm_kv_visit(kv, "k", 1, [](const void*, size_t, void*) { throw 1; }, nullptr), int);
    EXPECT_THROW((void)nvm_kv_each(pool, [](const char*, nvm_kv_index, void*) -> int { throw 1; }, nullptr), int);
    EXPECT_THROW(
        (void)nvm_kv_update(kv, "k", 1, 8, [](void*, size_t*, size_t, void*) -> int { throw 1; }, nullptr), int);
    EXPECT_EQ(nvm_stm_current(), nullptr);
    EXPECT_THROW((void)nvm_stm_run(
                     pool,
                     [](nvm_stm* tx, void* w) -> int {
                       nvm_stm_store64(tx, static_cast<uint64_t*>(w), 7);
                       throw 1;
                     },
                     word),
                 int);
    EXPECT_EQ(nvm_stm_current(), nullptr);
    EXPECT_EQ(*word, 0);
  }
  EXPECT_EQ(nvm_kv_put(kv, "k", 1, "w", 1), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_close(kv), 0);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

struct work {
  NVM_POOL* pool;
  long* word;
  nvm_kv* kv;
  std::atomic<int> rounds{0};
};
void* announced(void* raw) {
  auto* w = static_cast<work*>(raw);
  for (;;) {
    if (nvm_tx_begin(w->pool) != 0) return raw;
    if (nvm_tx_log(w->word, sizeof *w->word) == 0) ++*w->word;
    if (nvm_tx_commit(w->pool) != 0) return raw;
    ++w->rounds;
  }
}
void* barriers(void* raw) {
  auto* w = static_cast<work*>(raw);
  for (;;) {
    if (nvm_kv_put(w->kv, "k", 1, "v", 1) != 0) return raw;
    ++w->rounds;
    pthread_testcancel();
  }
}

TEST_P(closing, a_thread_is_cancelled_between_transactions_only) {
  nvm_kv* kv = nvm_kv_open(pool, "s", nullptr);
  for (auto* body : {announced, barriers}) {
    for (int i = 0; i < 5; ++i) {
      work w{pool, word, kv, {}};
      pthread_t t;
      ASSERT_EQ(pthread_create(&t, nullptr, body, &w), 0);
      while (w.rounds.load() < 1 + i) std::this_thread::yield();
      ASSERT_EQ(pthread_cancel(t), 0);
      void* result = nullptr;
      ASSERT_EQ(pthread_join(t, &result), 0);
      EXPECT_EQ(result, PTHREAD_CANCELED) << nvm_errormsg();
    }
  }
  EXPECT_EQ(nvm_kv_close(kv), 0);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
