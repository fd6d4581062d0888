// Collections of object stores that have key-value stores of their own: what these consist of is never garbage, and the
// program's objects beside them are as anywhere.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include "collected_stores.hpp"
#include "nvm/store_kv.h"

namespace nvm::tests {
namespace {

using namespace collection;

constexpr enum nvm_kv_index indexes[] = {NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE};

class stores_with_values : public collected_stores {
 protected:
  [[nodiscard]] nvm_kv* opened(nvm_store* s, enum nvm_kv_index index) {
    nvm_kv_options o{};
    o.index = index;
    nvm_kv* const kv = nvm_kv_open_in(s, nvm_kv_index_name(index), &o);
    EXPECT_NE(kv, nullptr) << nvm_errormsg();
    return kv;
  }
  [[nodiscard]] static std::string key_of(unsigned i) { return std::to_string(10'000'000 + i); }
  // Longer than an item holds, now and then.
  [[nodiscard]] static std::string value_of(unsigned i) { return std::string(i % 50 == 7 ? 6000 : 20, 'a' + i % 26); }
  static void put(nvm_kv* kv, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) {
      const std::string key = key_of(i);
      const std::string value = value_of(i);
      ASSERT_GE(nvm_kv_put(kv, key.data(), key.size(), value.data(), value.size()), 0) << nvm_errormsg();
    }
  }
  static void expect(nvm_kv* kv, unsigned to) {
    for (unsigned i = 0; i < to; ++i) {
      const std::string key = key_of(i);
      char value[8192];
      std::size_t bytes = 0;
      ASSERT_EQ(nvm_kv_get(kv, key.data(), key.size(), value, sizeof value, &bytes), 1) << nvm_errormsg();
      ASSERT_EQ(std::string_view(value, bytes), value_of(i));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(on, stores_with_values, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

TEST_P(stores_with_values, keep_them_and_lose_the_garbage_beside_them) {
  nvm_store* s = made("s");
  push_alone(s, 1);
  for (const auto index : indexes) {
    nvm_kv* const kv = opened(s, index);
    put(kv, 0, 150);
    ASSERT_EQ(nvm_kv_close(kv), 0);
  }
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (std::uint64_t i = 0; i < 100; ++i) leak(s, i);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  const std::uint64_t before = objects_of("s");
  nvm_store_gc_report r;
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 100U);
  EXPECT_EQ(r.reachable_objects, 1U);
  EXPECT_EQ(objects_of("s"), before - 100);
  reopen();
  s = nvm_store_attach(pool_, "s", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  EXPECT_EQ(numbers(s), std::vector<std::uint64_t>{1});
  for (const auto index : indexes) {
    nvm_kv* const kv = opened(s, index);
    expect(kv, 150);
    put(kv, 150, 200);
    expect(kv, 200);
    ASSERT_EQ(nvm_kv_close(kv), 0);
  }
}

// What it has of values counts as what lives: that it grows by them is no reason to look for garbage all the time.
TEST_P(stores_with_values, are_collected_locally_when_they_have_grown) {
  nvm_store* const s = made("s");
  push_alone(s, 1);
  nvm_kv* const kv = opened(s, NVM_KV_BTREE);
  put(kv, 0, 2000);
  configure(NVM_STORES_COLLECT_LOCALLY);
  grow(s);
  EXPECT_TRUE(until(s, [&] { return counts().local.finished != 0; }));
  EXPECT_GT(counts().local.freed_objects, 0U);
  const auto begun = counts().local.begun;
  // A tenth of what it has: no half.
  put(kv, 2000, 2200);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (int i = 0; i < 40; ++i) leak(s, 7);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  EXPECT_EQ(counts().local.begun, begun);
  expect(kv, 2200);
  ASSERT_EQ(nvm_kv_close(kv), 0);
}

TEST_P(stores_with_values, that_nobody_has_attached_are_collected_by_the_thread) {
  nvm_store* s = made("s");
  push_alone(s, 1);
  nvm_kv* kv = opened(s, NVM_KV_HASH);
  put(kv, 0, 300);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (std::uint64_t i = 0; i < 50; ++i) leak(s, i);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_close(kv), 0);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  configure(NVM_STORES_COLLECT_DETACHED);
  for (int i = 0; i < 100'000 && counts().detached.finished == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  EXPECT_EQ(counts().detached.freed_objects, 50U);
  s = nvm_store_attach(pool_, "s", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  kv = opened(s, NVM_KV_HASH);
  expect(kv, 300);
  ASSERT_EQ(nvm_kv_close(kv), 0);
}

TEST_P(stores_with_values, are_collected_while_threads_put) {
  nvm_store* const s = made("s");
  push_alone(s, 1);
  std::atomic<bool> done{false};
  std::thread writer{[&] {
    for (const auto index : indexes) {
      nvm_kv* const kv = opened(s, index);
      put(kv, 0, 200);
      for (unsigned round = 0; round < 3; ++round) put(kv, 0, 200);
      expect(kv, 200);
      EXPECT_EQ(nvm_kv_close(kv), 0);
    }
    done = true;
  }};
  unsigned collections = 0;
  while (!done || collections == 0) {
    nvm_store_gc_report r;
    const int ended = nvm_store_gc(pool_, "s", nullptr, &r);
    EXPECT_TRUE(ended == 0 || nvm_errno() == NVM_E_BUSY) << nvm_errormsg();
    collections += ended == 0 ? 1 : 0;
    EXPECT_EQ(r.garbage_objects, 0U);
  }
  writer.join();
  EXPECT_EQ(numbers(s), std::vector<std::uint64_t>{1});
}

// Its objects are not garbage for want of a root.
TEST_P(stores_with_values, without_a_root_are_left_alone) {
  nvm_store* const s = made("s");
  nvm_kv* const kv = opened(s, NVM_KV_HASH);
  put(kv, 0, 10);
  nvm_store_gc_report r;
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  expect(kv, 10);
  ASSERT_EQ(nvm_kv_close(kv), 0);
}

}  // namespace
}  // namespace nvm::tests
