// As no_memory_test.cpp, for barrier transactions: a transaction that lacks memory has changed nothing, the next one
// works, and no other thread dies of it, such as the one that empties the rings of the redo engine.
#include "nvm/stm.h"

#include <cstring>

#include "life_in_shortage.hpp"

namespace nvm::tests {
namespace {

constexpr int numbers_in_barriers = 96;
constexpr long transactions = 60;  // more than a ring has room for
struct table_of_barriers {
  long number[numbers_in_barriers];
  void* object;
};

struct ground {
  const char* name;
  nvm_medium medium;
  nvm_engine engine;
};

class life_with_barriers final : public life_in_shortage {
 public:
  explicit life_with_barriers(const ground& on) : on_{on} {}

 private:
  void before() override {
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.medium = on_.medium;
    o.engine = on_.engine;
    o.log_bytes = on_.medium == NVM_MEDIUM_SSD ? 1 << 20 : on_.engine == NVM_ENGINE_LOG ? 0 : 8192;
    o.lanes = 2;
    pool_ = nvm_pool_create_with(path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    const int made = nvm_stm_run(
        pool_,
        [](nvm_stm* tx, void*) {
          auto* t = static_cast<table_of_barriers*>(nvm_stm_alloc(tx, 1, sizeof(table_of_barriers)));
          if (t == nullptr) return -1;
          std::memset(t, 0, sizeof *t);
          return nvm_stm_set_root(tx, t);
        },
        nullptr);
    ASSERT_EQ(made, 0) << nvm_errormsg();
    table_ = static_cast<table_of_barriers*>(nvm_pool_get_root(pool_));
  }

  struct step {
    table_of_barriers* t;
    long n;
  };
  // Every number becomes n; the object is a new one, and holds n.
  static int change(nvm_stm* tx, void* argument) {
    const auto [t, n] = *static_cast<step*>(argument);
    for (long& number : t->number) {
      nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&number), static_cast<std::uint64_t>(n));
    }
    void* const before = nvm_stm_load_pointer(tx, &t->object);
    auto* const object = static_cast<long*>(nvm_stm_alloc(tx, 2, 200));
    if (object == nullptr) return -1;
    *object = n;
    nvm_stm_store_pointer(tx, &t->object, object);
    return before == nullptr ? 0 : nvm_stm_free(tx, before);
  }

  void live() override {
    for (long n = 1; n <= transactions && !testing::Test::HasFailure(); ++n) {
      step s{table_, n};
      if (nvm_stm_run(pool_, change, &s) == 0) continue;
      EXPECT_TRUE(injected.struck()) << nvm_errormsg();
      EXPECT_EQ(nvm_errno(), NVM_E_NO_MEMORY) << nvm_errormsg();
      injected.relieve();
      shows(n - 1);
      EXPECT_EQ(nvm_stm_run(pool_, change, &s), 0) << nvm_errormsg();
    }
    injected.relieve();
    shows(transactions);
  }
  void look_again() override {
    EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    EXPECT_EQ(check(), 0) << nvm_errormsg();
  }
  void shows(long n) {
    for (const long number : table_->number) ASSERT_EQ(number, n);
    ASSERT_EQ(table_->object == nullptr, n == 0);
    if (n != 0) {
      ASSERT_EQ(*static_cast<long*>(table_->object), n);
    }
  }

  const ground& on_;
  table_of_barriers* table_ = nullptr;
};

constexpr ground grounds[] = {{"undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                              {"redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                              {"log", NVM_MEDIUM_SHM, NVM_ENGINE_LOG},
                              {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT}};

class no_memory_for_barriers : public testing::TestWithParam<ground> {};
INSTANTIATE_TEST_SUITE_P(engines, no_memory_for_barriers, testing::ValuesIn(grounds),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(no_memory_for_barriers, at_any_allocation_loses_nothing) { life_with_barriers{GetParam()}.run_all(false, 10); }
TEST_P(no_memory_for_barriers, from_any_allocation_on_loses_nothing) {
  life_with_barriers{GetParam()}.run_all(true, 10);
}

}  // namespace
}  // namespace nvm::tests
