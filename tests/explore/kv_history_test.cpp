// The checker of key-value histories: what it lets pass, and what it must not.
#include "explore/kv_history.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace nvm::explore {
namespace {

kv_event put(std::uint64_t value, std::uint64_t begun, std::uint64_t ended, std::uint64_t key = 1) {
  return {key, kv_call::put, value, false, true, begun, ended};
}
kv_event get(std::uint64_t value, std::uint64_t begun, std::uint64_t ended, std::uint64_t key = 1) {
  return {key, kv_call::get, value, true, true, begun, ended};
}
kv_event get_nothing(std::uint64_t begun, std::uint64_t ended, std::uint64_t key = 1) {
  return {key, kv_call::get, 0, false, true, begun, ended};
}
kv_event change(kv_call call, std::uint64_t value, bool found, std::uint64_t begun, std::uint64_t ended) {
  return {1, call, value, found, true, begun, ended};
}
kv_event cut_off(kv_event e) {
  e.returned = false;
  e.ended = 0;
  return e;
}

bool holds(const std::vector<kv_event>& history, const std::vector<std::uint64_t>& crashes = {}) {
  return !check_kv_history(history, crashes).has_value();
}

TEST(kv_history, follows_one_thread) {
  EXPECT_TRUE(holds({get_nothing(1, 2), put(7, 3, 4), get(7, 5, 6), change(kv_call::update, 8, true, 7, 8),
                     get(8, 9, 10), change(kv_call::remove, 0, true, 11, 12), change(kv_call::update, 9, false, 13, 14),
                     change(kv_call::remove, 0, false, 15, 16), get_nothing(17, 18)}));
  EXPECT_FALSE(holds({put(7, 1, 2), get_nothing(3, 4)}));
  EXPECT_FALSE(holds({put(7, 1, 2), get(8, 3, 4)}));
  EXPECT_FALSE(holds({put(7, 1, 2), change(kv_call::remove, 0, false, 3, 4)}));
  EXPECT_FALSE(holds({change(kv_call::update, 7, true, 1, 2)}));
  EXPECT_FALSE(holds({change(kv_call::update, 7, false, 1, 2), get(7, 3, 4)}));
}

TEST(kv_history, lets_an_insertion_set_what_there_is_not) {
  EXPECT_TRUE(holds({change(kv_call::insert, 7, false, 1, 2), change(kv_call::insert, 8, true, 3, 4), get(7, 5, 6)}));
  EXPECT_FALSE(holds({change(kv_call::insert, 7, false, 1, 2), change(kv_call::insert, 8, true, 3, 4), get(8, 5, 6)}));
  EXPECT_FALSE(holds({change(kv_call::insert, 7, false, 1, 2), change(kv_call::insert, 8, false, 3, 4)}));
  EXPECT_FALSE(holds({change(kv_call::insert, 7, true, 1, 2), get_nothing(3, 4)}));
}

TEST(kv_history, lets_overlapping_calls_take_any_order) {
  EXPECT_TRUE(holds({put(7, 1, 10), put(8, 2, 9), get(7, 11, 12)}));
  EXPECT_TRUE(holds({put(7, 1, 10), put(8, 2, 9), get(8, 11, 12)}));
  EXPECT_TRUE(holds({put(7, 1, 10), get_nothing(2, 3), get(7, 4, 5)}));
  EXPECT_FALSE(holds({put(7, 1, 10), get(7, 2, 3), get_nothing(4, 5)}));  // seen, then not
  EXPECT_FALSE(holds({put(7, 1, 10), put(8, 2, 9), get(7, 11, 12), get(8, 13, 14)}));
}

TEST(kv_history, tells_keys_apart) {
  EXPECT_TRUE(holds({put(7, 1, 2, 1), get_nothing(3, 4, 2), get(7, 5, 6, 1)}));
  EXPECT_FALSE(holds({put(7, 1, 2, 1), get(7, 3, 4, 2)}));
}

TEST(kv_history, wants_what_was_acknowledged_before_a_crash) {
  EXPECT_TRUE(holds({put(7, 1, 2), get(7, 11, 12)}, {10}));
  EXPECT_FALSE(holds({put(7, 1, 2), get_nothing(11, 12)}, {10}));
  EXPECT_FALSE(holds({put(7, 1, 2), put(8, 3, 4), get(7, 11, 12)}, {10}));
}

TEST(kv_history, takes_what_a_crash_cut_off_as_done_or_not) {
  const kv_event cut = cut_off(put(8, 3, 0));
  EXPECT_TRUE(holds({put(7, 1, 2), cut, get(7, 11, 12)}, {10}));
  EXPECT_TRUE(holds({put(7, 1, 2), cut, get(8, 11, 12)}, {10}));
  EXPECT_FALSE(holds({put(7, 1, 2), cut, get_nothing(11, 12)}, {10}));
  // But not later, when the process is gone.
  EXPECT_FALSE(holds({put(7, 1, 2), cut, get(7, 11, 12), get(8, 13, 14)}, {10}));
  EXPECT_FALSE(holds({put(7, 1, 2), cut, get(7, 11, 12), get(8, 21, 22)}, {10, 20}));
}

TEST(kv_history, wants_what_was_read_before_a_crash) {
  // A reader has acted on it: it must be there, though its writer was never told.
  EXPECT_TRUE(holds({cut_off(put(7, 1, 0)), get(7, 2, 3), get(7, 11, 12)}, {10}));
  EXPECT_FALSE(holds({cut_off(put(7, 1, 0)), get(7, 2, 3), get_nothing(11, 12)}, {10}));
}

TEST(kv_history, names_the_call_that_nothing_explains) {
  const std::vector<kv_event> history{put(7, 1, 2), get(9, 3, 4)};
  const verdict v = check_kv_history(history, {});
  ASSERT_TRUE(v.has_value());
  EXPECT_NE(v->find("get(1, 9) [3, 4]"), std::string::npos) << *v;
  EXPECT_NE(v->find("may have held: 7"), std::string::npos) << *v;
}

TEST(kv_history, is_quick_on_long_histories) {
  std::vector<kv_event> history;
  for (std::uint64_t k = 0; k < 20000; ++k) {
    history.push_back(put(k + 1, 10 * k + 1, 10 * k + 8, k % 3));
    history.push_back(put(k + 100000, 10 * k + 2, 10 * k + 7, k % 3));
    history.push_back(get(k % 2 == 0 ? k + 1 : k + 100000, 10 * k + 9, 10 * k + 10, k % 3));
  }
  EXPECT_TRUE(holds(history));
  history.push_back(get(1, 1000000, 1000001, 0));
  EXPECT_FALSE(holds(history));
}

}  // namespace
}  // namespace nvm::explore
