// Rights, as a file system decides: the first class that fits counts, also where a later one would allow more.
#include <gtest/gtest.h>

#include "store/rights.hpp"

namespace nvm::tests {
namespace {

using namespace stores;

const identity owner{10, 100, {}};
const identity in_group{11, 200, {100, 300}};
const identity stranger{12, 200, {300}};
const identity superuser{0, 0, {}};

TEST(rights, the_first_class_that_fits_counts) {
  const rights r{10, 100, 0046};
  EXPECT_FALSE(may(r, owner, may_read));
  EXPECT_TRUE(may(r, in_group, may_read));
  EXPECT_FALSE(may(r, in_group, may_write));
  EXPECT_TRUE(may(r, stranger, may_read | may_write));
  EXPECT_TRUE(may(r, superuser, may_read | may_write));
}
TEST(rights, each_bit_of_each_class_allows_what_it_says) {
  for (std::uint32_t mode = 0; mode <= mode_bits; ++mode) {
    const rights r{10, 100, mode};
    EXPECT_EQ(may(r, owner, may_read), (mode & 0400) != 0);
    EXPECT_EQ(may(r, owner, may_write), (mode & 0200) != 0);
    EXPECT_EQ(may(r, in_group, may_read), (mode & 0040) != 0);
    EXPECT_EQ(may(r, in_group, may_write), (mode & 0020) != 0);
    EXPECT_EQ(may(r, stranger, may_read), (mode & 0004) != 0);
    EXPECT_EQ(may(r, stranger, may_read | may_write), (mode & 0006) == 0006);
  }
}
TEST(rights, names_and_modes_are_the_owners) {
  const rights r{10, 100, 0777};
  EXPECT_TRUE(owns(r, owner));
  EXPECT_TRUE(owns(r, superuser));
  EXPECT_FALSE(owns(r, in_group));
}
TEST(rights, an_owner_gives_a_store_to_groups_of_his_own_alone) {
  const rights r{10, 100, 0600};
  const identity member{10, 100, {300}};
  EXPECT_TRUE(may_give(r, member, 10, 300));
  EXPECT_TRUE(may_give(r, member, 10, 100));
  EXPECT_FALSE(may_give(r, member, 10, 301));
  EXPECT_FALSE(may_give(r, member, 11, 300));
  EXPECT_FALSE(may_give(r, in_group, 10, 300));
  EXPECT_TRUE(may_give(r, superuser, 11, 301));
}
TEST(rights, this_process_is_somebody) {
  const auto who = platform::identity_of_process();
  ASSERT_TRUE(who) << last_message();
  EXPECT_TRUE(who->is_in(who->group));
}

}  // namespace
}  // namespace nvm::tests
