// Lock-free structures of a full pool, by the C interface: what was removed is room at once, whichever thread did it.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "nvm/lockfree.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct room_kind {
  const char* name;
  std::uint32_t kind;
  std::uint32_t flags;
  bool ssd = false;
};
class shortage_of_room : public testing::TestWithParam<room_kind> {
 protected:
  void SetUp() override {
    nvm_pool_options o{};
    o.size = o.capacity = 1 << 20;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.log_bytes = GetParam().ssd ? 1 << 16 : 0;
    pool_ = nvm_pool_create_with(place_.path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    nvm_lf_options with{};
    with.kind = GetParam().kind;
    with.flags = NVM_LF_BYTES | GetParam().flags;
    lf_ = nvm_lf_open(pool_, "it", &with);
    ASSERT_NE(lf_, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    EXPECT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(place_.path().c_str(), nullptr, nullptr, nullptr), 0);
  }
  int put(std::uint64_t k) {
    const std::string value(value_bytes, static_cast<char>(k));
    return nvm_lf_put(lf_, &k, sizeof k, value.data(), value.size(), 0, NVM_LF_PUT_ABSENT);
  }
  int take(std::uint64_t k) { return nvm_lf_remove(lf_, &k, sizeof k); }
  // Keys from `from` on, as many as there is room for.
  std::uint64_t fill(std::uint64_t from = 0) {
    while (put(from) == 1) ++from;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    return from;
  }

  static constexpr std::size_t value_bytes = 300;
  scratch place_{GetParam().ssd};
  NVM_POOL* pool_ = nullptr;
  nvm_lf* lf_ = nullptr;
};
std::string name_of_room(const testing::TestParamInfo<room_kind>& i) { return i.param.name; }
INSTANTIATE_TEST_SUITE_P(structures, shortage_of_room,
                         testing::Values(room_kind{"hash", NVM_LF_HASH, 0}, room_kind{"list", NVM_LF_LIST, 0},
                                         room_kind{"skip_list", NVM_LF_SKIP_LIST, 0}, room_kind{"tree", NVM_LF_TREE, 0},
                                         room_kind{"hash_volatile", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
                                         room_kind{"hash_ssd", NVM_LF_HASH, 0, true}),
                         name_of_room);

TEST_P(shortage_of_room, ends_with_what_the_thread_itself_has_removed) {
  const std::uint64_t all = fill();
  ASSERT_GT(all, 300U);
  for (std::uint64_t k = 0; k < 60; ++k) ASSERT_EQ(take(k), 1) << nvm_errormsg();
  for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(put(all + k), 1) << k << ": " << nvm_errormsg();
}

TEST_P(shortage_of_room, ends_with_what_another_thread_has_removed_that_does_nothing_more) {
  const std::uint64_t all = fill();
  std::atomic<bool> is_done{false}, may_end{false};
  std::thread other{[&] {
    for (std::uint64_t k = 0; k < 60; ++k) EXPECT_EQ(take(k), 1) << nvm_errormsg();
    is_done.store(true);
    while (!may_end.load()) std::this_thread::yield();
  }};
  while (!is_done.load()) std::this_thread::yield();
  for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(put(all + k), 1) << k << ": " << nvm_errormsg();
  may_end.store(true);
  other.join();
}

TEST_P(shortage_of_room, lasts_inside_of_an_operation_that_may_look_at_what_was_removed) {
  const std::uint64_t all = fill();
  ASSERT_EQ(nvm_lf_enter(lf_), 0);
  for (std::uint64_t k = 0; k < 60; ++k) ASSERT_EQ(take(k), 1) << nvm_errormsg();
  EXPECT_EQ(put(all), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE);
  ASSERT_EQ(nvm_lf_leave(lf_), 0);
  EXPECT_EQ(put(all), 1) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
