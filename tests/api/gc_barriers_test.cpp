// Collections beside barrier transactions, of which one may be open at every moment.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../sanitized.hpp"
#include "collected_stores.hpp"
#include "nvm/stm.h"
#include "platform/platform.hpp"

namespace nvm::tests {
namespace {

using namespace collection;

// Barrier transactions of two threads, each of which ends when another one has begun: at no moment is none open.
class barriers_without_a_gap {
 public:
  explicit barriers_without_a_gap(NVM_POOL* pool) {
    for (std::thread& t : threads_) {
      t = std::thread{[this, pool] {
        while (!over_) EXPECT_EQ(nvm_stm_run(pool, body, this), 0) << nvm_errormsg();
      }};
    }
    while (begun_ < 4) std::this_thread::yield();
  }
  ~barriers_without_a_gap() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }
  barriers_without_a_gap(const barriers_without_a_gap&) = delete;
  barriers_without_a_gap& operator=(const barriers_without_a_gap&) = delete;

 private:
  static int body(nvm_stm*, void* argument) {
    auto& of = *static_cast<barriers_without_a_gap*>(argument);
    const unsigned mine = ++of.begun_;
    while (of.begun_ == mine && !of.over_) std::this_thread::yield();
    return 0;
  }
  std::atomic<unsigned> begun_{0};
  std::atomic<bool> over_{false};
  std::thread threads_[2];
};

class collected_beside_barriers : public collected_stores {
 protected:
  void SetUp() override {
    collected_stores::SetUp();
    store_ = made("s");
    ASSERT_NE(store_, nullptr);
    for (std::uint64_t i = 0; i < kept.size(); ++i) (void)push_alone(store_, i);
  }
  void leak_some() {
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    for (std::uint64_t i = 0; i < some; ++i) leak(store_, i);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  template <class F>
  static bool in_time(F&& f) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{patience_ms};
    while (!f()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
  }

  static constexpr std::uint64_t some = 50;
  const std::vector<std::uint64_t> kept{2, 1, 0};
  nvm_store* store_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(on, collected_beside_barriers, testing::ValuesIn(kinds_of_build(kinds)),
                         [](const auto& i) { return i.param.name; });

TEST_P(collected_beside_barriers, stores_lose_their_garbage_though_one_is_always_open) {
  leak_some();
  const barriers_without_a_gap busy{pool_};
  nvm_store_gc_report r{};
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, some);
  leak_some();
  configure(NVM_STORES_COLLECT_LOCALLY);
  grow(store_);
  EXPECT_TRUE(in_time([&] { return until(store_, [&] { return counts().local.finished != 0; }); }));
  EXPECT_GE(counts().local.freed_objects, some);
  EXPECT_EQ(numbers(store_), kept);
}

TEST_P(collected_beside_barriers, pools_lose_their_garbage_though_one_is_always_open) {
  ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
  void* const root = nvm_calloc(pool_, link_id, 1, sizeof(link));
  ASSERT_EQ(nvm_pool_set_root(pool_, root), 0) << nvm_errormsg();
  for (std::uint64_t i = 0; i < some; ++i) ASSERT_NE(nvm_calloc(pool_, link_id, 1, sizeof(link)), nullptr);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  const barriers_without_a_gap busy{pool_};
  nvm_gc_options o{};
  o.beside = 1;
  nvm_gc_report r{};
  EXPECT_EQ(nvm_gc(pool_, &o, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, some);
  EXPECT_EQ(links(), 1 + kept.size());
}

// Where references are counted: what falls dies in the background.
TEST_P(collected_beside_barriers, counted_objects_die_though_one_is_always_open) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
  nvm_pool_options o{};
  o.collect = NVM_COLLECT_BACKGROUND;
  pool_ = nvm_pool_open_with(path().c_str(), &o);
  ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  const auto link_two = [](nvm_stm* tx, void*) {
    auto* const root = static_cast<link*>(nvm_stm_alloc(tx, link_id, sizeof(link)));
    auto* const other = static_cast<link*>(nvm_stm_alloc(tx, link_id, sizeof(link)));
    if (root == nullptr || other == nullptr) return -1;
    *root = {1, other, nullptr, {}};
    *other = {2, nullptr, nullptr, {}};
    return nvm_stm_set_root(tx, root);
  };
  ASSERT_EQ(nvm_stm_run(pool_, link_two, nullptr), 0) << nvm_errormsg();
  ASSERT_EQ(links(), 2 + kept.size());
  const barriers_without_a_gap busy{pool_};
  const auto unlink = [](nvm_stm* tx, void* root) {
    nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&static_cast<link*>(root)->next), 0);
    return 0;
  };
  ASSERT_EQ(nvm_stm_run(pool_, unlink, nvm_pool_get_root(pool_)), 0) << nvm_errormsg();
  (void)in_time([&] { return links() == 1 + kept.size(); });
  EXPECT_EQ(links(), 1 + kept.size());
}

// On engines that write back no others change what is there.
TEST_P(collected_beside_barriers, stores_are_collected_locally_in_which_nobody_else_allocates) {
  configure(NVM_STORES_COLLECT_LOCALLY);
  const auto leaks = [](nvm_stm* tx, void* to) {
    return nvm_stm_store_alloc(tx, static_cast<nvm_store*>(to), link_id, sizeof(link)) == nullptr ? -1 : 0;
  };
  for (unsigned i = 0; i < 40'000 && counts().local.finished == 0; ++i)
    ASSERT_EQ(nvm_stm_run(pool_, leaks, store_), 0) << nvm_errormsg();
  EXPECT_GT(counts().local.finished, 0U);
  EXPECT_GT(counts().local.freed_objects, 0U);
  EXPECT_EQ(numbers(store_), kept);
}

}  // namespace
}  // namespace nvm::tests
