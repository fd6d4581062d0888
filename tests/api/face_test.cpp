// The C++ face: fields that announce themselves, transactions as calls, exceptions that roll back and go on.
#include <gtest/gtest.h>

#include <stdexcept>

#include "nvm/nvm.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct account {
  nvm::p<long> balance{0};
  nvm::p<account*> next{nullptr};
};

class face : public testing::Test {
 protected:
  scratch place{false};
  std::optional<nvm::pool> pool = [&] {
    nvm_pool_options o{};
    o.size = 1 << 20;
    return nvm::pool::create(place.path().c_str(), o);
  }();
  account* root() { return pool->root<account>(); }
  void SetUp() override {
    ASSERT_TRUE(pool) << nvm_errormsg();
    ASSERT_TRUE(nvm::transaction(*pool, [&] {
      account* a = nvm::make<account>(*pool, 1);
      return a != nullptr && static_cast<bool>(pool->set_root(a));
    })) << nvm_errormsg();
  }
};

TEST_F(face, a_durable_field_is_rolled_back_with_its_transaction) {
  ASSERT_TRUE(nvm::transaction(*pool, [&] { root()->balance = 10; }));
  EXPECT_FALSE(nvm::transaction(*pool, [&] {
    root()->balance += 5;
    ++root()->balance;
    EXPECT_EQ(root()->balance, 16);
    return false;
  }));
  EXPECT_EQ(root()->balance, 10);
}

TEST_F(face, an_exception_rolls_back_and_goes_on) {
  EXPECT_THROW((void)nvm::transaction(*pool,
                                      [&] {
                                        root()->balance = 77;
                                        throw std::runtime_error{"no"};
                                      }),
               std::runtime_error);
  EXPECT_EQ(root()->balance, 0);
  EXPECT_EQ(nvm_tx_depth(pool->handle()), 0U);
}

TEST_F(face, a_nested_transaction_is_a_savepoint) {
  ASSERT_TRUE(nvm::transaction(*pool, [&] {
    root()->balance = 1;
    EXPECT_FALSE(nvm::transaction(*pool, [&] {
      root()->balance = 2;
      return false;
    }));
    EXPECT_EQ(root()->balance, 1);
  }));
  EXPECT_EQ(root()->balance, 1);
}

TEST_F(face, objects_are_made_and_destroyed) {
  ASSERT_TRUE(nvm::transaction(*pool, [&] { root()->next = nvm::make<account>(*pool, 1); }));
  ASSERT_NE(root()->next.get(), nullptr);
  ASSERT_TRUE(nvm::transaction(*pool, [&] {
    account* gone = root()->next;
    root()->next = nullptr;
    EXPECT_TRUE(nvm::destroy(*pool, gone));
  }));
  EXPECT_EQ(root()->next.get(), nullptr);
}

TEST_F(face, volatile_fields_are_ordinary_variables) {
  account local;
  local.balance = 3;
  EXPECT_EQ(local.balance++, 3);
  EXPECT_EQ(local.balance, 4);
}

}  // namespace
}  // namespace nvm::tests
