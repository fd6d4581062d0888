// Whatever call changes bytes of a pool: in a store that is attached read-only, or not attached, it is refused before
// anything is logged, so that nothing traps at the commit, and nothing is made again by a recovery; with and without
// protection of pages.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/compiled.h"
#include "nvm/gc.h"
#include "nvm/kv.h"
#include "nvm/malloc.h"
#include "nvm/nvm.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "nvm/store_kv.h"
#include "with_store.hpp"

namespace nvm::tests {
namespace {

struct read_only_kind {
  pool_type pool;
  bool protects;
};
std::vector<read_only_kind> read_only_kinds() {
  std::vector<read_only_kind> all;
  for (const pool_type& t : pool_types) {
    all.push_back({t, true});
    all.push_back({t, false});
  }
  return all;
}

class read_only_store : public testing::TestWithParam<read_only_kind> {
 protected:
  void SetUp() override {
    in_.create(GetParam().pool.engine, GetParam().pool.ssd);
    if (!GetParam().protects) {
      nvm_stores_options o{};
      o.protection = NVM_STORES_UNPROTECTED;
      ASSERT_EQ(nvm_stores_configure(pool(), &o), 0) << nvm_errormsg();
    }
    in_.fill_store();
    make_key_values();
    attach();
    at_ = in_.base() + in_.place();
    before_ = bytes_of_store();
    ASSERT_FALSE(before_.empty());
  }
  void TearDown() override {
    EXPECT_TRUE(bytes_of_store() == before_);
    // As a process that is killed leaves it, and as one that closes it does.
    const std::string killed = GetParam().pool.ssd ? "" : bytes_of_file(in_.path());
    in_.close();
    for (const std::string& file : {killed, std::string{}}) {
      if (!file.empty()) write_file(in_.path(), file);
      in_.open();
      EXPECT_EQ(in_.sum_of_store(), with_store::sum);
      in_.close();
      EXPECT_EQ(findings_in(in_.path()), "");
    }
  }
  [[nodiscard]] NVM_POOL* pool() const { return in_.pool(); }
  [[nodiscard]] bool announces() const { return GetParam().pool.ssd || GetParam().pool.engine == NVM_ENGINE_UNDO; }
  [[nodiscard]] item* at() const { return reinterpret_cast<item*>(at_); }
  void attach() {
    store_ = nvm_store_attach(pool(), "closed", NVM_STORE_READ_ONLY);
    ASSERT_NE(store_, nullptr) << nvm_errormsg();
  }
  void make_key_values() {
    nvm_store* const s = nvm_store_attach(pool(), "closed", 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    nvm_kv* const kv = nvm_kv_open_in(s, "some", nullptr);
    ASSERT_NE(kv, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_put(kv, "key", 3, "value", 5), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_close(kv), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  // All pages of the pool's only store, as this process sees them while it is attached.
  [[nodiscard]] std::string bytes_of_store() const {
    std::string all;
    const auto side = pool()->engine->stores();
    EXPECT_TRUE(side);
    std::uint64_t store = 0;
    EXPECT_TRUE((*side)->each_store([&](std::uint64_t page, std::uint32_t) { store = page; }));
    EXPECT_TRUE((*side)->ranges(
        store, [&](std::uint64_t offset, std::uint64_t bytes) { all.append(in_.base() + offset, bytes); }));
    return all;
  }
  void is_refused(const char* what, bool failed, int code = NVM_E_READ_ONLY) {
    EXPECT_TRUE(failed) << what;
    EXPECT_EQ(nvm_errno(), code) << what << ": " << nvm_errormsg();
    const std::string message = nvm_errormsg();
    if (code == NVM_E_READ_ONLY) {
      EXPECT_TRUE(message.find("closed") != std::string::npos || message.find("store 1 ") != std::string::npos)
          << what << ": " << message;
    }
  }
  // In a transaction that commits if it can: nothing of the store may be in it.
  template <class Call>
  void refused_in_transaction(const char* what, Call&& failed, int code = NVM_E_READ_ONLY) {
    SCOPED_TRACE(what);
    ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
    auto* const own = static_cast<std::uint64_t*>(nvm_alloc(pool(), 1, 64));
    ASSERT_NE(own, nullptr) << nvm_errormsg();
    is_refused(what, failed(), code);
    if (nvm_tx_commit(pool()) != 0) {
      EXPECT_EQ(nvm_errno(), NVM_E_MUST_ABORT) << what << ": " << nvm_errormsg();
    }
    if (nvm_tx_depth(pool()) != 0) nvm_tx_abort(pool());
  }
  void refused_by_barrier(const char* what, int (*body)(nvm_stm* tx, void* at), int code = NVM_E_READ_ONLY) {
    const bool failed = nvm_stm_run(pool(), body, at_) != 0;
    is_refused(what, failed, code);
  }
  void nothing_is_announced(int code) {
    if (!announces()) return;
    const nvm_range two[] = {{at_, 8}, {at_ + 64, 8}};
    refused_in_transaction("one", [&] { return nvm_tx_log(at_, 8) != 0; }, code);
    refused_in_transaction("again", [&] { return nvm_tx_log(at_ + 8, 1) != 0; }, code);
    refused_in_transaction("a page and more", [&] { return nvm_tx_log(at_, 5000) != 0; }, code);
    refused_in_transaction("two", [&] { return nvm_tx_log_many(two, 2) != 0; }, code);
    refused_in_transaction("or fail", [&] { return nvm_tx_log_or_fail(at_, 8) != 0; }, code);
    static char* at;
    at = at_;
    const auto compiled = [](void*) {
      __nvm_log(at, 8);
      at[0] = 'x';  // never reached
      return 0;
    };
    is_refused("of a compiled program", nvm_tx_run(pool(), compiled, nullptr) != 0, code);
  }
  void no_barrier_stores(int code) {
    refused_by_barrier(
        "64", [](nvm_stm* tx, void* p) { return nvm_stm_store64(tx, static_cast<std::uint64_t*>(p), 7), 0; }, code);
    refused_by_barrier(
        "32", [](nvm_stm* tx, void* p) { return nvm_stm_store32(tx, static_cast<std::uint32_t*>(p), 7), 0; }, code);
    refused_by_barrier(
        "16", [](nvm_stm* tx, void* p) { return nvm_stm_store16(tx, static_cast<std::uint16_t*>(p), 7), 0; }, code);
    refused_by_barrier(
        "8", [](nvm_stm* tx, void* p) { return nvm_stm_store8(tx, static_cast<std::uint8_t*>(p), 7), 0; }, code);
    refused_by_barrier("pointer", [](nvm_stm* tx, void* p) { return nvm_stm_store_pointer(tx, p, p), 0; }, code);
    refused_by_barrier("write", [](nvm_stm* tx, void* p) { return nvm_stm_write(tx, p, "some bytes", 10), 0; }, code);
    refused_by_barrier("fill", [](nvm_stm* tx, void* p) { return nvm_stm_fill(tx, p, 7, 5000), 0; }, code);
    refused_by_barrier(
        "second store",
        [](nvm_stm* tx, void* p) {
          auto* const own = static_cast<std::uint64_t*>(nvm_stm_alloc(tx, 1, 64));
          if (own == nullptr) return 1;
          nvm_stm_store64(tx, own, 7);
          nvm_stm_store64(tx, static_cast<std::uint64_t*>(p) + 8, 7);
          return 0;
        },
        code);
    refused_by_barrier(
        "after a store to the root",
        [](nvm_stm* tx, void* p) {
          auto* const root = static_cast<std::uint64_t*>(nvm_stm_get_root(tx));
          nvm_stm_store64(tx, root, 8);
          nvm_stm_store64(tx, static_cast<std::uint64_t*>(p), 7);
          return 0;
        },
        code);
    refused_by_barrier(
        "copy",
        [](nvm_stm* tx, void* p) {
          nvm_stm_copy(tx, p, nvm_stm_get_root(tx), 64);
          return 0;
        },
        code);
    refused_by_barrier(
        "in place",
        [](nvm_stm* tx, void* p) {
          nvm_stm_become_irrevocable(tx);
          nvm_stm_store64(tx, static_cast<std::uint64_t*>(p), 7);
          return 0;
        },
        code);
    refused_by_barrier(
        "log",
        [](nvm_stm* tx, void* p) {
          nvm_stm_become_irrevocable(tx);
          nvm_stm_log(tx, p, 8);
          return 0;
        },
        announces() ? code : NVM_E_INVALID);
    for (const auto policy : {NVM_STM_POLICY_WRITE_BACK, NVM_STM_POLICY_ENGINE}) {
      ASSERT_EQ(nvm_stm_set_policy(pool(), policy), 0) << nvm_errormsg();
      refused_by_barrier(
          "expected",
          [](nvm_stm* tx, void* p) {
            const nvm_range one{p, 8};
            nvm_stm_expect(tx, &one, 1);
            nvm_stm_store64(tx, static_cast<std::uint64_t*>(p), 7);
            return 0;
          },
          code);
    }
  }
  void have_a_root() {
    ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
    void* const root = nvm_calloc(pool(), 1, 8, 8);
    ASSERT_NE(root, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_set_root(pool(), root), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  }

  with_store in_{"read_only_store", GetParam().pool.ssd};
  nvm_store* store_ = nullptr;
  char* at_ = nullptr;  // the store's newest object
  std::string before_;
};
INSTANTIATE_TEST_SUITE_P(on, read_only_store, testing::ValuesIn(kinds_of_build(read_only_kinds())), [](const auto& i) {
  return std::string{i.param.pool.name} + (i.param.protects ? "" : "_unprotected");
});

TEST_P(read_only_store, is_not_announced) { nothing_is_announced(NVM_E_READ_ONLY); }

TEST_P(read_only_store, is_not_announced_when_it_is_detached) {
  ASSERT_EQ(nvm_store_detach(store_), 0) << nvm_errormsg();
  nothing_is_announced(NVM_E_BAD_POINTER);
  attach();
}

TEST_P(read_only_store, is_not_stored_to_by_barriers) {
  have_a_root();
  no_barrier_stores(NVM_E_READ_ONLY);
}

TEST_P(read_only_store, is_not_stored_to_by_barriers_when_it_is_detached) {
  have_a_root();
  ASSERT_EQ(nvm_store_detach(store_), 0) << nvm_errormsg();
  no_barrier_stores(NVM_E_BAD_POINTER);
  attach();
}

// What is remembered of its pages while it is attached for change is forgotten.
TEST_P(read_only_store, was_stored_to_before) {
  for (int times = 0; times < 3; ++times) {
    ASSERT_EQ(nvm_store_detach(store_), 0) << nvm_errormsg();
    nvm_store* const s = nvm_store_attach(pool(), "closed", 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    const auto body = [](nvm_stm* tx, void* p) {
      auto* const one = static_cast<item*>(p);
      nvm_stm_store64(tx, &one->number, nvm_stm_load64(tx, &one->number));
      return 0;
    };
    EXPECT_EQ(nvm_stm_run(pool(), body, at_), 0) << nvm_errormsg();
    if (announces()) {
      ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
      EXPECT_EQ(nvm_tx_log(at_, 8), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    attach();
    nothing_is_announced(NVM_E_READ_ONLY);
    refused_by_barrier("store", [](nvm_stm* tx, void* p) {
      nvm_stm_store64(tx, static_cast<std::uint64_t*>(p), 7);
      return 0;
    });
  }
  before_ = bytes_of_store();  // attaching for change may tidy its header
}

TEST_P(read_only_store, keeps_its_objects) {
  refused_in_transaction("free", [&] { return nvm_free(pool(), at_) != 0; });
  refused_in_transaction("a size in its room",
                         [&] { return nvm_realloc(pool(), at_, 7, sizeof(item) - 1) == nullptr; });
  refused_in_transaction("a larger size", [&] { return nvm_realloc(pool(), at_, 7, 500) == nullptr; });
  refused_in_transaction("a smaller size", [&] { return nvm_realloc(pool(), at_, 7, 8) == nullptr; });
  refused_in_transaction("another type", [&] { return nvm_realloc(pool(), at_, 8, sizeof(item)) == nullptr; });
  refused_in_transaction("resize of malloc", [&] { return nvm_malloc_resize(at_, 200) == nullptr; });
  EXPECT_EQ(nvm_malloc_resize(at_, sizeof(item) - 1), nullptr);
  refused_by_barrier("free by barrier",
                     [](nvm_stm* tx, void* p) { return nvm_stm_free(tx, p) != 0 ? nvm_errno() : 0; });
  // Without a transaction, so that the free waits for one of another thread.
  nvm_malloc_free(at_);
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  ASSERT_NE(nvm_alloc(pool(), 1, 64), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  EXPECT_EQ(pool()->late.waiting(), 0U);
  EXPECT_EQ(nvm_size_of(pool(), at_), sizeof(item)) << nvm_errormsg();
}

TEST_P(read_only_store, takes_no_objects) {
  refused_in_transaction("alloc", [&] { return nvm_store_alloc(store_, 7, 64) == nullptr; });
  refused_in_transaction("calloc", [&] { return nvm_store_calloc(store_, 7, 1, 64) == nullptr; });
  refused_in_transaction("text", [&] { return nvm_store_strdup(store_, "text") == nullptr; });
  refused_in_transaction("root", [&] { return nvm_store_set_root(store_, at()->next) != 0; });
  is_refused("root alone", nvm_store_set_root(store_, at()->next) != 0);
  is_refused("trim", nvm_store_trim(store_) < 0);
  nvm_store_gc_report report;
  is_refused("collection", nvm_store_gc(pool(), "closed", nullptr, &report) != 0);
  static nvm_store* in;
  in = store_;
  refused_by_barrier("alloc by barrier", [](nvm_stm* tx, void*) {
    return nvm_stm_store_alloc(tx, in, 7, 64) == nullptr ? nvm_errno() : 0;
  });
}

TEST_P(read_only_store, takes_no_key_values) {
  is_refused("another", nvm_kv_open_in(store_, "another", nullptr) == nullptr);
  is_refused("drop", nvm_kv_drop_in(store_, "some") != 0);
  is_refused("rename", nvm_kv_rename_in(store_, "some", "other") != 0);
  nvm_kv* const kv = nvm_kv_open_in(store_, "some", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  is_refused("put", nvm_kv_put(kv, "key", 3, "other", 5) != 0);
  is_refused("remove", nvm_kv_remove(kv, "key", 3) != 0);
  nvm_kv_operation one{};
  one.kv = kv;
  one.kind = NVM_KV_PUT;
  one.key = "key";
  one.key_bytes = 3;
  one.value = "other";
  one.value_bytes = 5;
  is_refused("batch", nvm_kv_batch(pool(), &one, 1, nullptr) != 0);
  char value[8] = {};
  std::size_t bytes = 0;
  EXPECT_EQ(nvm_kv_get(kv, "key", 3, value, sizeof value, &bytes), 1) << nvm_errormsg();
  EXPECT_STREQ(value, "value");
  ASSERT_EQ(nvm_kv_close(kv), 0) << nvm_errormsg();
}

// Holds are volatile, and so is what a weak pointer there is read by.
TEST_P(read_only_store, is_read_and_held) {
  EXPECT_EQ(nvm_hold(at_), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_drop(at_), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_weak_get(&at()->next), at()->next) << nvm_errormsg();
  EXPECT_EQ(nvm_drop(at()->next), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_type_of(pool(), at_), 7U);
  const auto body = [](nvm_stm* tx, void* p) {
    return nvm_stm_load64(tx, static_cast<std::uint64_t*>(p)) == 999 ? 0 : 1;
  };
  EXPECT_EQ(nvm_stm_run(pool(), body, at_), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
