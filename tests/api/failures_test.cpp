// A transaction that can only abort tells of its first failure, also after later ones, on every engine.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nvm/nvm.hpp"
#include "nvm/stm.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct engine_and_medium {
  const char* name;
  nvm_engine engine;
  bool ssd;
};
constexpr engine_and_medium all[] = {
    {"undo", NVM_ENGINE_UNDO, false},
    {"redo", NVM_ENGINE_REDO, false},
    {"mnemosyne", NVM_ENGINE_MNEMOSYNE, false},
    {"mnemosyne_undo", NVM_ENGINE_MNEMOSYNE_UNDO, false},
    {"log", NVM_ENGINE_LOG, false},
    {"undo_on_ssd", NVM_ENGINE_UNDO, true},
    {"log_on_ssd", NVM_ENGINE_LOG, true},
};

class failures : public testing::TestWithParam<engine_and_medium> {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = std::size_t{1} << 20;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = GetParam().engine;
    pool = nvm_pool_create_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    if (pool != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
  }
  static bool says(const char* what) { return std::string{nvm_errormsg()}.find(what) != std::string::npos; }
  // The first failure; then another one, of which nothing may be left.
  void fail_twice() {
    EXPECT_EQ(nvm_alloc(pool, 1, 0), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
    EXPECT_EQ(nvm_alloc(pool, 1, 8), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_MUST_ABORT);
    EXPECT_EQ(nvm_tx_log(&pool, SIZE_MAX), 0);
    EXPECT_EQ(nvm_free(pool, &pool), -1);
    EXPECT_FALSE(says("0 bytes"));
  }
  void expect_refused_for_the_first() {
    EXPECT_EQ(nvm_errno(), NVM_E_MUST_ABORT);
    EXPECT_TRUE(says("allows only abort, because: an object of 0 bytes")) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_cause(pool), NVM_E_INVALID);
    EXPECT_EQ(nvm_tx_cause(nullptr), NVM_E_INVALID);
  }

  scratch place{GetParam().ssd};
  NVM_POOL* pool = nullptr;
};
INSTANTIATE_TEST_SUITE_P(engines, failures, testing::ValuesIn(all),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(failures, of_a_commit_name_the_first_failure_and_its_code) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_cause(pool), NVM_OK);
  fail_twice();
  EXPECT_EQ(nvm_tx_cause(pool), NVM_E_INVALID);
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  expect_refused_for_the_first();
  // The next one begins anew.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_cause(pool), NVM_OK);
  EXPECT_EQ(nvm_tx_commit(pool), 0);
}

TEST_P(failures, of_an_inner_level_are_named_by_the_outer_commit_too) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  fail_twice();
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  expect_refused_for_the_first();
  std::uint64_t lsn = 0;
  EXPECT_EQ(nvm_tx_commit_async(pool, &lsn), -1);
  expect_refused_for_the_first();
  EXPECT_EQ(lsn, NVM_LSN_NONE);
  EXPECT_EQ(nvm_wait(pool, lsn), -1);
}

TEST_P(failures, of_the_outer_level_outlast_a_level_that_is_rolled_back) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  fail_twice();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  expect_refused_for_the_first();
}

TEST_P(failures, of_an_inner_level_that_is_rolled_back_are_over) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  fail_twice();
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_tx_cause(pool), NVM_OK);
  EXPECT_NE(nvm_alloc(pool, 1, 8), nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_P(failures, are_told_to_hooks_and_not_replaced_by_what_fails_in_them) {
  const auto hook = [](NVM_POOL* p, enum nvm_tx_event, void* told) {
    *static_cast<int*>(told) = nvm_errno();
    EXPECT_EQ(nvm_wait(p, NVM_LSN_NONE), -1);
  };
  int told = 0;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_on(pool, NVM_TX_ON_ABORT, hook, &told), 0);
  fail_twice();
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  EXPECT_EQ(told, NVM_E_MUST_ABORT);
  expect_refused_for_the_first();
}

TEST_P(failures, of_barrier_transactions_keep_code_and_sentence) {
  const auto doomed = [](nvm_stm* tx, void*) {
    EXPECT_EQ(nvm_stm_alloc(tx, 1, 0), nullptr);
    EXPECT_EQ(nvm_stm_alloc(tx, 1, 8), nullptr);
    EXPECT_EQ(nvm_wait(nvm_stm_pool(tx), NVM_LSN_NONE), -1);
    EXPECT_EQ(nvm_tx_cause(nvm_stm_pool(tx)), NVM_E_INVALID);
    EXPECT_EQ(nvm_tx_cause(nullptr), NVM_E_INVALID);
    return 0;
  };
  EXPECT_EQ(nvm_stm_run(pool, doomed, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_TRUE(says("an object of 0 bytes")) << nvm_errormsg();
  // The same for an inner level whose result was not read.
  const auto around = [](nvm_stm* tx, void* inner) {
    EXPECT_EQ(nvm_stm_run(nvm_stm_pool(tx), *static_cast<int (**)(nvm_stm*, void*)>(inner), nullptr), -1);
    EXPECT_EQ(nvm_wait(nvm_stm_pool(tx), NVM_LSN_NONE), -1);
    return 0;
  };
  int (*inner)(nvm_stm*, void*) = doomed;
  EXPECT_EQ(nvm_stm_run(pool, around, &inner), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_TRUE(says("an object of 0 bytes")) << nvm_errormsg();
}

TEST_P(failures, of_bodies_that_give_up_have_a_sentence) {
  (void)nvm_wait(pool, NVM_LSN_NONE);
  EXPECT_EQ(atomic(pool, [](tx& t) { t.cancel(); }).code(), NVM_E_MUST_ABORT);
  EXPECT_EQ(nvm_errno(), NVM_E_MUST_ABORT);
  EXPECT_TRUE(says("cancelled")) << nvm_errormsg();
  EXPECT_EQ(atomic(pool, [](tx& t) { t.cancel(77); }).code(), 77);
  EXPECT_TRUE(says("77")) << nvm_errormsg();
  EXPECT_EQ(atomic(pool, [](tx& t) { (void)t.alloc(1, 0); }).code(), NVM_E_INVALID);
  EXPECT_TRUE(says("0 bytes")) << nvm_errormsg();
  EXPECT_EQ(atomic(pool, [] { return false; }).code(), NVM_E_MUST_ABORT);
  EXPECT_TRUE(says("returned false")) << nvm_errormsg();
  EXPECT_EQ(transaction(pool, [] { return false; }).code(), NVM_E_MUST_ABORT);
  EXPECT_TRUE(says("returned false")) << nvm_errormsg();
  EXPECT_EQ(transaction(pool, [&] { return nvm_alloc(pool, 1, 0) != nullptr; }).code(), NVM_E_MUST_ABORT);
  expect_refused_for_the_first();
}

TEST_P(failures, leave_hooks_of_each_end_to_run_once_in_order) {
  std::vector<std::string> ran;
  const auto note = [&ran](const char* what) { return [&ran, what] { ran.emplace_back(what); }; };
  const auto all_of = [&](tx& t) {
    t.on_in_doubt(note("in doubt"));
    t.on_commit(note("commit"));
    t.on_abort(note("abort"));
    t.on_ordered(note("ordered"));
  };
  EXPECT_TRUE(atomic(pool, all_of)) << nvm_errormsg();
  EXPECT_EQ(ran, (std::vector<std::string>{"ordered", "commit"}));
  ran.clear();
  EXPECT_FALSE(atomic(pool, [&](tx& t) {
    all_of(t);
    t.cancel();
  }));
  EXPECT_EQ(ran, (std::vector<std::string>{"abort"}));
}

TEST_P(failures, of_a_root_are_told_from_no_root) {
  void* root = &root;
  EXPECT_EQ(nvm_pool_read_root(pool, &root), 0);
  EXPECT_EQ(root, nullptr);
  EXPECT_EQ(nvm_pool_read_root(nullptr, &root), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

}  // namespace
}  // namespace nvm::tests
