// A full pool: a transaction that frees has the log for it, whatever else it changes, and what it frees can be used at
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "nvm/nvm.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct filling {
  filling* next;
  char bytes[1000];
};
struct overwritten {
  filling* head;
  char bytes[60000];
};

class full_pool : public testing::Test {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = std::size_t{1} << 20;
    o.capacity = o.size;
    o.medium = NVM_MEDIUM_SHM;
    pool_ = nvm_pool_create_with(place_.path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    root_ = static_cast<overwritten*>(nvm_calloc(pool_, 1, 1, sizeof(overwritten)));
    ASSERT_NE(root_, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_set_root(pool_, root_), 0);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  [[nodiscard]] bool add() {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    auto* const made = static_cast<filling*>(nvm_alloc(pool_, 2, sizeof(filling)));
    if (made == nullptr) {
      EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
      EXPECT_EQ(nvm_tx_abort(pool_), 0);
      return false;
    }
    std::memset(made->bytes, 7, sizeof made->bytes);
    made->next = root_->head;
    EXPECT_EQ(nvm_tx_log(&root_->head, sizeof root_->head), 0) << nvm_errormsg();
    root_->head = made;
    EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    return true;
  }
  // Objects of 1,000 bytes, and then of 16 until not one more fits.
  void fill() {
    while (add()) ++items_;
    void* last = root_;
    while (last != nullptr) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      last = nvm_alloc(pool_, 3, 16);
      ASSERT_EQ(last != nullptr ? nvm_tx_commit(pool_) : nvm_tx_abort(pool_), 0) << nvm_errormsg();
    }
  }
  // Takes items out; all of the table changes, too.
  void free_some(unsigned count, int value) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_log(root_, sizeof *root_), 0) << nvm_errormsg();
    std::memset(root_->bytes, value, sizeof root_->bytes);
    for (unsigned i = 0; i < count; ++i) {
      filling* const gone = root_->head;
      root_->head = gone->next;
      ASSERT_EQ(nvm_free(pool_, gone), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    items_ -= count;
  }

  scratch place_{pool_kind::shm};
  NVM_POOL* pool_ = nullptr;
  overwritten* root_ = nullptr;
  unsigned items_ = 0;
};
TEST_F(full_pool, frees_and_has_room_again_with_a_large_log) {
  for (int round = 1; round < 6; ++round) {
    fill();
    ASSERT_GT(items_, 100U);
    free_some(1, round);
    EXPECT_TRUE(add()) << "what was freed";
    ++items_;
    EXPECT_FALSE(add());
    free_some(40, round);
  }
  // The same after a reopen: what is kept does not depend on the process that filled the pool.
  fill();
  ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
  pool_ = nvm_pool_open(place_.path().c_str());
  ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  root_ = static_cast<overwritten*>(nvm_pool_get_root(pool_));
  EXPECT_FALSE(add());
  while (items_ != 0) free_some(std::min(items_, 40U), 9);
  EXPECT_EQ(root_->head, nullptr);
  ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place_.path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
}

TEST_F(full_pool, says_what_is_kept) {
  while (add()) {
  }
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  EXPECT_EQ(nvm_alloc(pool_, 2, 100000), nullptr);
  EXPECT_NE(std::strstr(nvm_errormsg(), "16 are kept for the logs of transactions that free"), nullptr)
      << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool_), 0);
  ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
