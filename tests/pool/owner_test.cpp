// The mark of an owner, and copies of files that have it.  Method: files are copied byte by byte, as cp does.
#include "pool/owner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "pool_testing.hpp"

namespace nvm {
namespace {

using namespace nvm::testing;
using platform::file_identity;

class copy_of_a_pool : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  scratch folder{memory_folder()};
  std::string path = folder.path(), to = folder.path("copy.nvm");
  void copy() const { put_bytes(to, bytes_of(path)); }
  [[nodiscard]] result<pool_file::pointer> open(const std::string& name, bool read_only = false, bool accept = false) {
    auto o = on_medium(GetParam(), read_only);
    o.accept_copy = accept;
    return pool_file::open(name.c_str(), o);
  }
};
INSTANTIATE_TEST_SUITE_P(medium, copy_of_a_pool, ::testing::Values(NVM_MEDIUM_SHM, NVM_MEDIUM_SSD),
                         [](const auto& p) { return std::string{medium_name(p.param)}; });

TEST_P(copy_of_a_pool, that_was_closed_is_a_pool) {
  closed_pool(path, GetParam());
  copy();
  auto pool = open(to);
  ASSERT_TRUE(pool) << last_message();
  ASSERT_TRUE((*pool)->close());
}

TEST_P(copy_of_a_pool, in_use_is_refused_until_it_is_accepted) {
  closed_pool(path, GetParam());
  {
    auto owner = open(path);
    ASSERT_TRUE(owner) << last_message();
    copy();
    ASSERT_TRUE((*owner)->close());
  }
  for (const bool read_only : {false, true}) {
    EXPECT_EQ(open(to, read_only).error(), errc::copy);
    EXPECT_MESSAGE("in use");
    EXPECT_MESSAGE("inode");
    EXPECT_MESSAGE("--accept-copy");
    EXPECT_TRUE(open(to, true, true)) << last_message();
  }
  EXPECT_EQ(open(to).error(), errc::copy) << "reading accepts nothing";
  auto pool = open(to, false, true);
  ASSERT_TRUE(pool) << last_message();
  ASSERT_TRUE((*pool)->close());
  EXPECT_TRUE(open(to)) << last_message();
}

TEST_P(copy_of_a_pool, in_creation_is_refused) {
  auto owner = pool_file::create(path.c_str(), small_pool(GetParam()));
  ASSERT_TRUE(owner) << last_message();
  copy();
  ASSERT_TRUE((*owner)->close());
  EXPECT_EQ(open(to).error(), errc::copy);
}

TEST_P(copy_of_a_pool, whose_owner_was_killed_is_refused_and_the_pool_itself_opens_under_any_name) {
  closed_pool(path, GetParam());
  const auto die = [&] {
    return in_child([&] {
      const auto pool = open(path);
      return pool ? ::kill(::getpid(), SIGKILL) : 1;
    });
  };
  ASSERT_EQ(die(), 1000 + SIGKILL);
  copy();
  EXPECT_EQ(open(to).error(), errc::copy);
  // Its directory is restored, it is renamed, it has two names: it stays what it is.
  ASSERT_EQ(::link(path.c_str(), folder.path("hard.nvm").c_str()), 0);
  EXPECT_TRUE(open(folder.path("hard.nvm"))) << last_message();
  ASSERT_EQ(die(), 1000 + SIGKILL);
  std::filesystem::rename(path, folder.path("renamed.nvm"));
  EXPECT_TRUE(open(folder.path("renamed.nvm"))) << last_message();
}

TEST_P(copy_of_a_pool, that_was_released_without_a_close_is_whole) {
  closed_pool(path, GetParam());
  {
    ASSERT_TRUE(open(path)) << last_message();
  }
  copy();
  EXPECT_TRUE(open(to)) << last_message();
}

TEST_P(copy_of_a_pool, whose_open_failed_is_whole) {
  closed_pool(path, GetParam());
  auto o = on_medium(GetParam());
  o.after_mapping.run = [](void*, pool_file&) noexcept -> status { return fail(errc::corrupt, "the log is damaged"); };
  EXPECT_EQ(pool_file::open(path.c_str(), o).error(), errc::corrupt);
  copy();
  EXPECT_TRUE(open(to)) << last_message();
}

TEST_P(copy_of_a_pool, that_a_reader_had_open_is_whole) {
  closed_pool(path, GetParam());
  auto reader = open(path, true);
  ASSERT_TRUE(reader) << last_message();
  copy();
  reader->reset();
  EXPECT_TRUE(open(to)) << last_message();
}

constexpr file_identity certain(std::uint64_t inode, std::uint64_t birth_ns) {
  return {file_identity::how::certain, inode, birth_ns};
}

TEST(owner, is_told_from_a_copy_by_number_and_birth) {
  const auto owner = make_owner(77, certain(5, 1000));
  EXPECT_FALSE(is_of_a_copy(owner, certain(5, 1000)));
  EXPECT_TRUE(is_of_a_copy(owner, certain(6, 1000)));
  EXPECT_TRUE(is_of_a_copy(owner, certain(5, 1001))) << "numbers are given again";
  EXPECT_FALSE(is_of_a_copy(owner, certain(5, 0))) << "a kernel that does not tell";
  EXPECT_FALSE(is_of_a_copy(owner, {})) << "a system that says nothing";
  EXPECT_TRUE(is_of_a_copy(owner, {file_identity::how::changing, 5, 1000}));
  const auto without_birth = make_owner(77, certain(5, 0));
  EXPECT_FALSE(is_of_a_copy(without_birth, certain(5, 1000)));
  EXPECT_TRUE(is_of_a_copy(without_birth, certain(6, 1000)));
}

TEST(owner, that_says_nothing_refuses_nothing) {
  for (const auto& owner : {make_owner(0, certain(5, 1000)), make_owner(77, {}),
                            make_owner(77, {file_identity::how::changing, 5, 1000}), layout::owner_record{}}) {
    EXPECT_EQ(owner.inode, 0U);
    EXPECT_FALSE(is_of_a_copy(owner, certain(6, 0)));
  }
  auto torn = make_owner(77, certain(5, 1000));
  torn.birth_ns ^= 1;
  EXPECT_FALSE(is_of_a_copy(torn, certain(6, 1000)));
}

}  // namespace
}  // namespace nvm
