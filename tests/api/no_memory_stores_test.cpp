// Object stores when volatile memory runs out at any allocation: a store that is deleted goes, by a later call if not
// by this one.  What another thread may do at any allocation.
#include <chrono>
#include <thread>
#include <vector>

#include "../scratch_folder.hpp"
#include "collected_stores.hpp"
#include "life_in_shortage.hpp"
#include "nvm/malloc.h"
#include "nvm/space.h"
#include "nvm/store.h"

namespace nvm::tests {
namespace {

class life_of_deleted_stores final : public life_in_shortage {
 private:
  void before() override {
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.capacity = 16 << 20;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    for (const char* name : {"a", "b", "c"}) ASSERT_EQ(nvm_store_create(pool_, name, nullptr), 0) << nvm_errormsg();
  }
  void live() override {
    attempt("delete", [&] { return nvm_store_delete(pool_, "a"); });
    attempt("delete", [&] { return nvm_store_delete(pool_, "b"); });
  }
  void look_again() override {
    ASSERT_EQ(nvm_store_delete(pool_, "c"), 0) << nvm_errormsg();
    nvm_stores_statistics s{};
    ASSERT_EQ(nvm_stores_get_statistics(pool_, &s), 0) << nvm_errormsg();
    EXPECT_EQ(s.names, 0U);
    EXPECT_EQ(s.dying, 0U);
    close();
    EXPECT_EQ(check(), 0) << nvm_errormsg();
  }
};

TEST(no_memory_stores, are_deleted_at_any_allocation) {
  for (const bool lasting : {false, true}) life_of_deleted_stores{}.run_all(lasting, 10);
}

class life_of_attached_stores final : public life_in_shortage {
 private:
  void before() override {
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_store_create(pool_, "a", nullptr), 0) << nvm_errormsg();
    // Handles that are refused later: the room for them is full.
    for (unsigned i = 0; i < 63; ++i) ASSERT_EQ(nvm_store_detach(nvm_store_attach(pool_, "a", 0)), 0) << nvm_errormsg();
    s_ = nullptr;
  }
  void live() override {
    for (const unsigned flags : {0U, unsigned{NVM_STORE_READ_ONLY}}) {
      attempt("attach", [&] {
        s_ = nvm_store_attach(pool_, "a", flags);
        return s_ == nullptr ? -1 : 0;
      });
      look();
      attempt("detach", [&] {
        const int done = nvm_store_detach(s_);
        if (done == 0) s_ = nullptr;
        return done;
      });
      look();
    }
  }
  void look() override {
    if (testing::Test::HasFailure()) return;
    EXPECT_EQ(nvm_store_find(pool_, "a"), s_);
    nvm_store_info now{};
    if (nvm_store_stat(pool_, "a", &now) == 0) {
      EXPECT_EQ(now.attached, s_ == nullptr ? 0U : 1U);
    }
    if (s_ == nullptr) return;
    EXPECT_EQ(nvm_store_pool(s_), pool_);
    EXPECT_EQ(nvm_store_number(s_), 1U);
    EXPECT_EQ(nvm_store_get_root(s_), nullptr) << "a page of it";
  }
  void look_again() override {
    look();
    close();
    EXPECT_EQ(check(), 0) << nvm_errormsg();
  }

  nvm_store* s_ = nullptr;
};

TEST(no_memory_stores, are_attached_and_detached_at_any_allocation) {
  for (const bool lasting : {false, true}) life_of_attached_stores{}.run_all(lasting, 10);
}

// ---- collections

// The library attaches the store for itself, and lets it go.
class life_of_collected_stores : public life_in_shortage {
 protected:
  void before() override {
    collection::know_types();
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    nvm_store* const s = nvm_store_attach(pool_, "a", NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    for (int i = 0; i < 3; ++i) {
      void* const p = nvm_store_calloc(s, collection::link_id, 1, sizeof(collection::link));
      ASSERT_EQ(nvm_store_set_root(s, p), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  void look() override {
    if (testing::Test::HasFailure()) return;
    EXPECT_EQ(nvm_store_find(pool_, "a"), nullptr);
    nvm_store_info now{};
    if (nvm_store_stat(pool_, "a", &now) == 0) {
      EXPECT_EQ(now.attached, 0U);
    }
  }
  void look_again() override {
    look();
    nvm_store* const s = nvm_store_attach(pool_, "a", NVM_STORE_READ_ONLY);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_store_detach(s), -1);
    EXPECT_EQ(nvm_store_delete(pool_, "a"), 0) << nvm_errormsg();
    close();
    EXPECT_EQ(check(), 0) << nvm_errormsg();
  }
};

class life_of_stores_collected_by_request final : public life_of_collected_stores {
 private:
  void live() override {
    attempt("gc", [&] { return nvm_store_gc(pool_, "a", nullptr, nullptr); });
    look();
  }
};
TEST(no_memory_stores, are_collected_at_any_allocation) {
  for (const bool lasting : {false, true}) life_of_stores_collected_by_request{}.run_all(lasting, 10);
}

class life_of_stores_collected_by_a_thread final : public life_of_collected_stores {
 private:
  static nvm_stores_options collecting(std::uint32_t what) {
    nvm_stores_options o{};
    o.collect = what;
    o.collect_period_ms = 1;
    o.collect_load = 1'000'000;
    return o;
  }
  void live() override {
    const nvm_stores_options begin = collecting(NVM_STORES_COLLECT_DETACHED);
    attempt("collect", [&] { return nvm_stores_configure(pool_, &begin); });
    nvm_collection_statistics now{};
    for (int i = 0; i < 30 && now.detached.finished == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      (void)nvm_stores_get_collections(pool_, &now);
    }
    const nvm_stores_options end = collecting(NVM_STORES_COLLECT_NOTHING);
    attempt("collect nothing", [&] { return nvm_stores_configure(pool_, &end); });
  }
};
TEST(no_memory_stores, are_collected_by_a_thread_at_any_allocation) {
  for (const bool lasting : {false, true}) life_of_stores_collected_by_a_thread{}.run_all(lasting, 10);
}

// ---- trims by another thread ----------------------------------------------------------------------------------------

// At each allocation of this thread, or at one of them.
struct trims {
  NVM_POOL* pool = nullptr;
  std::thread::id beside;
  unsigned only = 0;  // 0: at each
  unsigned seen = 0, done = 0;
} trimming;
void trim_meanwhile(fault kind, bool /*done*/) {
  if (kind != fault::memory || std::this_thread::get_id() != trimming.beside) return;
  if (++trimming.seen != trimming.only && trimming.only != 0) return;
  injected.watch.store(nullptr);
  std::thread{[] {
    nvm_trim_options inside{};
    inside.flags = NVM_TRIM_INSIDE;
    EXPECT_EQ(nvm_pool_trim(trimming.pool, &inside, nullptr), 0) << nvm_errormsg();
    ++trimming.done;
  }}.join();
  injected.watch.store(trim_meanwhile);
}

class stores_beside_trims : public testing::Test {
 protected:
  stores_beside_trims() {
    nvm_pool_options o{};
    o.size = o.capacity = 16 << 20;
    pool_ = nvm_pool_create_with(folder_.path("pool").c_str(), &o);
    EXPECT_NE(pool_, nullptr) << nvm_errormsg();
  }
  ~stores_beside_trims() override { EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg(); }
  nvm_store* attached(const char* name) {
    nvm_store* const s = nvm_store_attach(pool_, name, NVM_STORE_CREATE);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  // Clusters that are empty: what is beside them is the other store's.
  void add_empty_clusters(nvm_store* to, nvm_store* beside) {
    void* freed[4];
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    for (void*& one : freed) {
      one = nvm_store_alloc(to, 0, 300'000);
      ASSERT_NE(one, nullptr) << nvm_errormsg();
      void* const other = nvm_store_alloc(beside, 0, 20'000);
      ASSERT_NE(other, nullptr) << nvm_errormsg();
      others_.push_back(other);
    }
    ASSERT_EQ(nvm_tx_next(pool_), 0) << nvm_errormsg();
    for (void* one : freed) ASSERT_EQ(nvm_free(pool_, one), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  void free_others() {
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    for (void* one : others_) ASSERT_EQ(nvm_free(pool_, one), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    others_.clear();
  }
  // f(), with a trim inside of the pool at its `only`th allocation, 0: at each.
  template <class F>
  void trimmed_in(F&& f, unsigned only = 0) {
    trimming = {pool_, std::this_thread::get_id(), only, 0, 0};
    injected.watch.store(trim_meanwhile);
    f();
    injected.watch.store(nullptr);
  }

  const scratch_folder folder_{"stores_beside_trims", false};
  NVM_POOL* pool_ = nullptr;
  std::vector<void*> others_;
};

// Its pages are inaccessible at first: those that a trim took from it then would be the pool's, and stay so.
TEST_F(stores_beside_trims, lose_no_pages_while_they_are_attached_and_not_accessible_yet) {
  nvm_store* s = attached("s");
  nvm_store* const beside = attached("beside");
  add_empty_clusters(s, beside);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  nvm_stores_statistics now{};
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &now), 0) << nvm_errormsg();
  ASSERT_GE(now.closed_bytes, 1'200'000U);
  trimmed_in([&] { s = nvm_store_attach(pool_, "s", 0); });
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  EXPECT_GT(trimming.done, 3U);
  ASSERT_EQ(nvm_stores_get_statistics(pool_, &now), 0) << nvm_errormsg();
  EXPECT_EQ(now.closed_bytes, 0U);
}

// A store remembers where its last work was, also when the pages have gone to another since.
TEST_F(stores_beside_trims, do_not_make_others_accessible) {
  nvm_store* s = attached("s");
  nvm_store* const t = attached("t");
  void* at[2];
  for (nvm_store* const in : {s, t}) {
    void*& large = at[in == t];
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    large = nvm_store_alloc(in, 0, 6'000'000);
    ASSERT_NE(large, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    if (in == t) break;
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_free(pool_, large), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_store_trim(s), 1) << nvm_errormsg();
  }
  EXPECT_EQ(at[0], at[1]);
  const auto closed = [&] {
    nvm_stores_statistics now{};
    EXPECT_EQ(nvm_stores_get_statistics(pool_, &now), 0) << nvm_errormsg();
    return now.closed_bytes;
  };
  ASSERT_EQ(nvm_store_detach(t), 0) << nvm_errormsg();
  const std::uint64_t of_t = closed();
  EXPECT_GE(of_t, 6'000'000U);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  s = attached("s");
  EXPECT_EQ(closed(), of_t);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_delete(pool_, "s"), 0) << nvm_errormsg();
  EXPECT_EQ(closed(), of_t);
}

TEST_F(stores_beside_trims, are_described_whole) {
  nvm_store* const s = attached("s");
  nvm_store* const beside = attached("beside");
  for (const bool quota : {false, true}) {
    unsigned at = 1;
    do {
      add_empty_clusters(s, beside);
      trimmed_in(
          [&] {
            nvm_store_info now{};
            const int done = quota ? nvm_store_quota(pool_, "s", 1 << 30) : nvm_store_stat(pool_, "s", &now);
            EXPECT_EQ(done, 0) << "allocation " << at << ": " << nvm_errormsg();
          },
          at);
      free_others();
      ASSERT_GE(nvm_store_trim(s), 0) << nvm_errormsg();
    } while (trimming.seen >= at++);
    EXPECT_GT(at, 3U);
  }
}

}  // namespace
}  // namespace nvm::tests
