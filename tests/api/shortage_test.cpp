// Lock-free structures of a full pool, by the C interface: a removed entry is room at once, whichever thread removed
// it, and for entries of any size.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
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
    o.size = o.capacity = pool_bytes_;
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
  int put(std::uint64_t k, std::size_t bytes = value_bytes) {
    const std::string value(bytes, static_cast<char>(k));
    return nvm_lf_put(lf_, &k, sizeof k, value.data(), value.size(), 0, NVM_LF_PUT_ABSENT);
  }
  int take(std::uint64_t k) { return nvm_lf_remove(lf_, &k, sizeof k); }
  // Keys from `from` on, as many as there is room for.
  std::uint64_t fill(std::uint64_t from = 0, std::size_t bytes = value_bytes) {
    while (put(from, bytes) == 1) ++from;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    return from;
  }

  static constexpr std::size_t value_bytes = 300;
  std::uint64_t pool_bytes_ = 1 << 20;
  scratch place_{GetParam().ssd};
  NVM_POOL* pool_ = nullptr;
  nvm_lf* lf_ = nullptr;
};
std::string name_of_room(const testing::TestParamInfo<room_kind>& i) { return i.param.name; }
const auto room_kinds = testing::Values(room_kind{"hash", NVM_LF_HASH, 0}, room_kind{"list", NVM_LF_LIST, 0},
                                        room_kind{"skip_list", NVM_LF_SKIP_LIST, 0}, room_kind{"tree", NVM_LF_TREE, 0},
                                        room_kind{"hash_volatile", NVM_LF_HASH, NVM_LF_VOLATILE_LINKS},
                                        room_kind{"hash_ssd", NVM_LF_HASH, 0, true});
INSTANTIATE_TEST_SUITE_P(structures, shortage_of_room, room_kinds, name_of_room);

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

class room_for_all_sizes : public shortage_of_room {
 protected:
  room_for_all_sizes() { pool_bytes_ = 4 << 20; }
};
INSTANTIATE_TEST_SUITE_P(structures, room_for_all_sizes, room_kinds, name_of_room);

TEST_P(room_for_all_sizes, is_there_in_any_order) {
  for (const std::size_t bytes : {700, 3900, 20'000, 300, 9000, 1500, 100'000, 400, 3900}) {
    const std::uint64_t all = fill(0, bytes);
    EXPECT_GT(all * bytes, pool_bytes_ / 2) << bytes;
    for (std::uint64_t k = 0; k < all; ++k) ASSERT_EQ(take(k), 1) << nvm_errormsg();
  }
  EXPECT_EQ(put(1, 300), 1) << nvm_errormsg();
}

TEST_P(room_for_all_sizes, is_made_by_those_that_lie_together) {
  const std::uint64_t all = fill(0, 300);
  ASSERT_EQ(put(all, 3900), -1);
  struct removal {
    nvm_lf* lf;
    std::set<std::uint64_t> gone{};
  } r{lf_};
  ASSERT_EQ(nvm_lf_enter(lf_), 0);
  const auto remove = [](const nvm_lf_entry* e, void* to) {
    auto& in = *static_cast<removal*>(to);
    std::uint64_t key = 0;
    EXPECT_EQ(e->key_bytes, sizeof key);
    std::memcpy(&key, e->key, sizeof key);
    EXPECT_EQ(e->value_bytes, 300U);
    EXPECT_TRUE(in.gone.insert(key).second) << key;
    return nvm_lf_remove(in.lf, e->key, e->key_bytes) == 1 ? 0 : 1;
  };
  // The pool's other pages are in some of these places.
  for (std::uint64_t k = 0; k < all && r.gone.size() < 100; ++k) {
    nvm_lf_entry e{};
    if (nvm_lf_find(lf_, &k, sizeof k, &e) != 1) continue;
    ASSERT_EQ(nvm_lf_each_beside(lf_, &e, 3900, remove, &r), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_lf_leave(lf_), 0);
  EXPECT_GT(r.gone.size(), 100U);
  EXPECT_LT(r.gone.size(), 3000U);
  for (std::uint64_t k = 0; k < 7; ++k) EXPECT_EQ(put(all + k, 3900), 1) << k << ": " << nvm_errormsg();
  for (std::uint64_t k = 0; k < all; ++k)
    EXPECT_EQ(nvm_lf_get(lf_, &k, sizeof k, nullptr, 0, nullptr), r.gone.contains(k) ? 0 : 1);
}

TEST_P(room_for_all_sizes, is_told_of_an_entry) {
  const std::uint64_t small = nvm_lf_entry_bytes(lf_, 8, 1);
  EXPECT_GE(small, 64U);
  EXPECT_LE(small, 128U);
  EXPECT_GE(nvm_lf_entry_bytes(lf_, 8, 3900), 3900U);
  EXPECT_EQ(nvm_lf_entry_bytes(lf_, 8, 20'000) % 4096, 0U);
  EXPECT_EQ(nvm_lf_entry_bytes(lf_, 8, std::size_t{1} << 40), 0U);
  EXPECT_EQ(nvm_errno(), NVM_E_TOO_LARGE);
}

TEST_P(room_for_all_sizes, is_not_looked_for_where_no_entry_can_be) {
  const auto none = [](const nvm_lf_entry*, void*) { return 1; };
  nvm_lf_entry e{};
  e.place = 16;
  EXPECT_EQ(nvm_lf_each_beside(lf_, &e, 64, none, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  e.place = std::uint64_t{1} << 60;
  EXPECT_EQ(nvm_lf_each_beside(lf_, &e, 64, none, nullptr), -1);
  EXPECT_EQ(nvm_lf_each_beside(lf_, nullptr, 64, none, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(put(1, 300), 1);
  const std::uint64_t key = 1;
  ASSERT_EQ(nvm_lf_find(lf_, &key, sizeof key, &e), 1);
  EXPECT_EQ(nvm_lf_each_beside(lf_, &e, std::uint64_t{1} << 60, none, nullptr), -1);
}

}  // namespace
}  // namespace nvm::tests
