// Method: pools of one chunk grow; the device is full by a replaced system call, and by a small tmpfs where this
// process may mount one.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "pool/pool_file.hpp"
#include "pool_testing.hpp"

namespace nvm {
namespace {

using namespace nvm::testing;

class growth : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  scratch folder{memory_folder()};
  std::string path = folder.path();
  plain_media m;
  pool_file::pointer pool;

  void SetUp() override {
    auto made = pool_file::create(path.c_str(), small_pool(GetParam()));
    ASSERT_TRUE(made) << last_message();
    pool = std::move(*made);
  }
  void TearDown() override { platform::use_file_calls(nullptr); }
  void reopen(bool read_only = false) {
    pool.reset();
    auto opened = pool_file::open(path.c_str(), on_medium(GetParam(), read_only));
    ASSERT_TRUE(opened) << last_message();
    pool = std::move(*opened);
  }
};
INSTANTIATE_TEST_SUITE_P(medium, growth, ::testing::Values(tests::direct_medium(), NVM_MEDIUM_SSD),
                         [](const auto& p) { return std::string{medium_name(p.param)}; });

TEST_P(growth, doubles_in_whole_chunks_up_to_the_capacity) {
  EXPECT_EQ(*pool->grow(m, 65), 128U);
  EXPECT_EQ(*pool->grow(m, 100), 128U);  // large enough already
  EXPECT_EQ(*pool->grow(m, 600), 640U);
  EXPECT_EQ(*pool->grow(m, 641), 1024U);
  EXPECT_EQ(pool->geometry().size_pages, 1024U);
  EXPECT_EQ(pool->grow(m, 1025).error(), errc::no_space);
  EXPECT_MESSAGE("capacity is 1024");
}

TEST_P(growth, makes_new_pages_usable_at_once_with_space_of_their_own) {
  ASSERT_TRUE(pool->grow(m, 65)) << last_message();
  const geometry g = pool->geometry();
  std::byte* last = pool->base() + g.size_bytes() - 1;
  EXPECT_EQ(*last, std::byte{0});
  *last = std::byte{5};
  struct ::stat s{};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(s.st_size), g.size_bytes());
  EXPECT_GE(s.st_blocks * 512, s.st_size - 8192);
}

TEST_P(growth, by_many_threads_at_once_is_one_growth) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(*pool->grow(m, 65), 128U); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(pool->size_pages(), 128U);
}

// Another thread's, between the look at the file and the comparison.
TEST_P(growth, beside_a_look_at_the_file_is_no_file_that_was_cut_off) {
  static std::function<void()> meanwhile;
  auto table = platform::system_file_calls();
  table.fstat = [](int descriptor, struct ::stat* out) {
    const int code = platform::system_file_calls().fstat(descriptor, out);
    if (const auto now = std::exchange(meanwhile, {})) now();
    return code;
  };
  meanwhile = [&] { EXPECT_EQ(*pool->grow(m, 65), 128U); };
  platform::use_file_calls(&table);
  EXPECT_TRUE(pool->may_be_written()) << last_message();
  platform::use_file_calls(nullptr);
  EXPECT_EQ(pool->size_pages(), 128U);
}

TEST_P(growth, on_a_full_device_leaves_the_pool_as_it_was) {
  auto table = platform::system_file_calls();
  table.fallocate = [](int, int, off_t, off_t) {
    errno = ENOSPC;
    return -1;
  };
  const auto before = std::filesystem::file_size(path);
  platform::use_file_calls(&table);
  EXPECT_EQ(pool->grow(m, 65).error(), errc::no_space);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_MESSAGE("cannot grow");
  platform::use_file_calls(nullptr);
  EXPECT_EQ(pool->size_pages(), 64U);
  EXPECT_EQ(std::filesystem::file_size(path), before);
  EXPECT_EQ(*pool->grow(m, 65), 128U);
}

TEST_P(growth, takes_what_is_needed_where_there_is_no_room_to_double) {
  ASSERT_TRUE(pool->grow(m, 256));
  auto table = platform::system_file_calls();
  table.fallocate = [](int d, int mode, off_t at, off_t bytes) {
    if (bytes > 100 * 4096) {
      errno = ENOSPC;
      return -1;
    }
    return ::fallocate(d, mode, at, bytes);
  };
  platform::use_file_calls(&table);
  const auto grown = pool->grow(m, 257);
  platform::use_file_calls(nullptr);
  ASSERT_TRUE(grown) << last_message();
  EXPECT_EQ(*grown, 320U);
}

TEST_P(growth, works_on_a_file_system_without_preallocation) {
  auto table = platform::system_file_calls();
  table.fallocate = [](int, int, off_t, off_t) {
    errno = EOPNOTSUPP;
    return -1;
  };
  platform::use_file_calls(&table);
  EXPECT_EQ(*pool->grow(m, 65), 128U);
  platform::use_file_calls(nullptr);
  struct ::stat s{};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_GE(s.st_blocks * 512, s.st_size - 8192);
}

TEST_P(growth, whose_sync_fails_is_refused) {
  if (GetParam() == NVM_MEDIUM_SHM) GTEST_SKIP() << "shm is not synced";
  auto table = platform::system_file_calls();
  table.fdatasync = [](int) {
    errno = EIO;
    return -1;
  };
  platform::use_file_calls(&table);
  EXPECT_TRUE(pool->accepts_commits());
  EXPECT_EQ(pool->grow(m, 65).error(), errc::io);
  platform::use_file_calls(nullptr);
  EXPECT_EQ(pool->size_pages(), 64U);
  // Which pages the system has lost nobody will be told again.
  EXPECT_EQ(pool->accepts_commits().error(), errc::io);
  EXPECT_MESSAGE((path + " takes no more commits: sync of the file's data").c_str());
  EXPECT_EQ(pool->grow(m, 65).error(), errc::io);
  EXPECT_EQ(pool->close().error(), errc::io);
  pool.reset();
  auto again = pool_file::open(path.c_str(), on_medium(GetParam()));
  ASSERT_TRUE(again) << last_message();
  EXPECT_FALSE((*again)->was_clean() && !has_image((*again)->superblock()));
}

TEST_P(growth, of_a_file_that_was_cut_off_is_refused) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4096);
  EXPECT_EQ(pool->grow(m, 65).error(), errc::corrupt);
  EXPECT_MESSAGE("it was cut off");
}

// The blocks were allocated, the superblock not yet written.
TEST_P(growth, that_crashed_before_its_superblock_leaves_the_old_pool) {
  const auto old_size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, old_size + 64 * 4096);
  reopen();
  EXPECT_EQ(pool->size_pages(), 64U);
  EXPECT_EQ(*pool->grow(m, 65), 128U);
}

TEST_P(growth, is_refused_in_a_pool_opened_read_only) {
  reopen(true);
  EXPECT_EQ(pool->grow(m, 65).error(), errc::read_only);
}

TEST(growth_of_a_direct_pool, is_there_when_it_opens_again) {
  scratch folder;
  plain_media m;
  {
    auto pool = pool_file::create(folder.path().c_str(), small_pool());
    ASSERT_TRUE(pool) << last_message();
    ASSERT_TRUE((*pool)->grow(m, 65));
  }
  auto pool = pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM));
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ((*pool)->size_pages(), 128U);
}

// On ssd stores to the mapping stay private, so a replayed log puts the superblock into the file: here by hand.
TEST(growth_of_an_ssd_pool, is_adopted_from_a_replayed_image) {
  scratch folder;
  closed_pool(folder.path(), NVM_MEDIUM_SSD);
  std::filesystem::resize_file(folder.path(), std::filesystem::file_size(folder.path()) + 64 * 4096);
  auto pool = pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SSD, true));
  ASSERT_TRUE(pool) << last_message();
  plain_media m;
  layout::superblock sb = (*pool)->superblock();
  sb.size_pages = 128;
  write_superblock(m, (*pool)->base(), sb);
  ASSERT_TRUE((*pool)->adopt_image()) << last_message();
  EXPECT_EQ((*pool)->size_pages(), 128U);
}

// In a mount namespace of its own, so that nothing is left behind whatever happens.
template <class F>
int on_small_tmpfs(const std::string& folder, const char* size, F&& f) {
  return in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return 77;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, size) != 0) return 77;
    return f();
  });
}

TEST(full_tmpfs, makes_growth_fail_and_never_faults) {
  scratch folder;
  const int code = on_small_tmpfs(folder.folder(), "size=1m", [&] {
    plain_media m;
    auto o = small_pool(NVM_MEDIUM_DETECT);
    auto pool = pool_file::create(folder.path().c_str(), o);
    if (!pool || (*pool)->medium() != NVM_MEDIUM_SHM) return 1;
    if (!(*pool)->grow(m, 128)) return 2;
    if ((*pool)->grow(m, 512).error() != errc::no_space) return 3;
    const geometry g = (*pool)->geometry();
    if (g.size_pages != 128) return 4;
    // Every byte that exists can be stored to.
    std::memset((*pool)->base() + g.data_offset, 1, g.size_bytes() - g.data_offset);
    std::memset((*pool)->base() + g.page_map_offset, 0, g.size_pages * 8);
    std::memset((*pool)->base() + g.log_offset, 0, g.log_bytes);
    return 0;
  });
  if (code == 77) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(code, 0);
}

TEST(full_tmpfs, makes_creation_fail_and_leaves_no_file) {
  scratch folder;
  const int code = on_small_tmpfs(folder.folder(), "size=200k", [&] {
    if (pool_file::create(folder.path().c_str(), small_pool()).error() != errc::no_space) return 1;
    if (!message_has("No space")) return 2;
    return std::filesystem::exists(folder.path()) ? 3 : 0;
  });
  if (code == 77) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace nvm
