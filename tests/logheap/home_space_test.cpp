// What home space says of addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "logheap/home_space.hpp"

namespace nvm::logheap {
namespace {

constexpr home_t first_home = 1 << 20;
constexpr std::uint64_t superblock_bytes = 4096;

struct walked {
  std::vector<home_t> slots;
  bool all = false;
};
walked walk(const home_space& homes, home_t home, std::uint64_t size) {
  walked w;
  w.all = homes.each_slot(home, size, [&w](const home_space::slot& s) { w.slots.push_back(s.home); });
  return w;
}

// Damage may have left nothing that tells of an object, and entries that lead from its addresses into the next one.
TEST(home_space, calls_for_each_slot_of_a_range_that_begins_or_goes_on_where_none_is_known) {
  epochs threads;
  home_space homes{threads, first_home, 1 << 20, superblock_bytes, 1};
  ASSERT_TRUE(homes.exists());
  const home_t one = first_home + superblock_bytes;
  const home_t two = first_home + 3 * superblock_bytes;
  for (const home_t home : {one, two}) ASSERT_TRUE(homes.learn(home, superblock_bytes)) << last_message();

  const walked before = walk(homes, one - 8, 16);
  EXPECT_FALSE(before.all);
  EXPECT_EQ(before.slots, std::vector<home_t>{one});
  const walked across = walk(homes, one, two + 8 - one);
  EXPECT_FALSE(across.all);
  EXPECT_EQ(across.slots, (std::vector<home_t>{one, two}));
  const walked inside = walk(homes, two, superblock_bytes);
  EXPECT_TRUE(inside.all);
  EXPECT_EQ(inside.slots, std::vector<home_t>{two});
  EXPECT_TRUE(walk(homes, first_home, superblock_bytes).slots.empty());
}

std::vector<home_space::slot> fill(home_space& homes, std::uint64_t size) {
  std::vector<home_space::slot> all;
  for (auto s = homes.take(0, size); s; s = homes.take(0, size)) all.push_back(*s);
  return all;
}

// Nothing is in the log here: what was taken is given back as an aborted transaction gives it.
TEST(home_space, holds_as_much_of_each_size_after_any_other) {
  std::vector<std::uint64_t> sizes{16, 500, 4096, 100000};
  do {
    epochs threads;
    home_space homes{threads, first_home, 1 << 20, superblock_bytes, 1};
    ASSERT_TRUE(homes.exists());
    for (int round = 0; round < 3; ++round) {
      for (const std::uint64_t size : sizes) {
        home_space fresh{threads, first_home, 1 << 20, superblock_bytes, 1};
        const auto taken = fill(homes, size);
        EXPECT_GE(taken.size(), fill(fresh, size).size() * 9 / 10) << size << " bytes, round " << round;
        for (const home_space::slot& s : taken) homes.give(s);
      }
    }
  } while (std::next_permutation(sizes.begin(), sizes.end()) && !HasFailure());
}

// While a cleaner has dropped the last entry of a slot, and has not looked yet, others take and give back all slots of
// the superblock, and drop its last entry.
TEST(home_space, counts_off_once_what_has_waited_and_left) {
  constexpr std::uint64_t size = 400;
  epochs threads;
  home_space homes{threads, first_home, 1 << 20, superblock_bytes, 1};
  ASSERT_TRUE(homes.exists());
  const unsigned me = threads.join();
  threads.enter(me);
  const std::array<home_space::slot, 2> freed{*homes.take(0, size), *homes.take(0, size)};
  ASSERT_EQ(freed[0].in, freed[1].in);
  const superblock* const left = freed[0].in;
  for (const home_space::slot& s : freed) {
    (void)home_space::set(s, slot_word::state::freed, first_home, 1);
    homes.give(s);
  }
  EXPECT_TRUE(homes.may_come(size));
  homes.drop(freed[0].home, 1, [&](log_t) {
    std::vector<home_space::slot> all;
    do all.push_back(*homes.take(0, size));
    while (all.back().in == left);
    ASSERT_EQ(all.size(), left->slots + 1);
    for (const home_space::slot& s : all) homes.give(s);
    homes.drop(freed[1].home, 1, [](log_t) {});
    ASSERT_EQ(left->where, superblock::place::gone);
  });
  EXPECT_FALSE(homes.may_come(size)) << "nothing waits";
  threads.leave(me);
  threads.leave_for_good(me);
}

}  // namespace
}  // namespace nvm::logheap
