// Method: pools of one chunk in a scratch folder; medium shm needs no tmpfs when it is named.
#include "pool/pool_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "pool_testing.hpp"

namespace nvm {
namespace {

using namespace nvm::testing;

class pool_file_of : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  scratch folder{memory_folder()};
  std::string path = folder.path();
  [[nodiscard]] result<pool_file::pointer> create() { return pool_file::create(path.c_str(), small_pool(GetParam())); }
  [[nodiscard]] result<pool_file::pointer> open(bool read_only = false) {
    return pool_file::open(path.c_str(), on_medium(GetParam(), read_only));
  }
};
INSTANTIATE_TEST_SUITE_P(medium, pool_file_of, ::testing::Values(NVM_MEDIUM_SHM, NVM_MEDIUM_SSD),
                         [](const auto& p) { return std::string{medium_name(p.param)}; });

TEST_P(pool_file_of, new_pool_is_mapped_empty_inside_the_window) {
  auto pool = create();
  ASSERT_TRUE(pool) << last_message();
  const geometry g = (*pool)->geometry();
  EXPECT_EQ(g.size_pages, 64U);
  EXPECT_EQ(g.capacity_pages, 1024U);
  EXPECT_EQ((*pool)->medium(), GetParam());
  EXPECT_TRUE((*pool)->was_clean());
  EXPECT_TRUE(platform::in_window((*pool)->base()));
  EXPECT_EQ(reinterpret_cast<std::uint64_t>((*pool)->base()), (*pool)->superblock().base_address);
  const std::byte* data = (*pool)->base();
  for (std::uint64_t at = g.page_map_offset; at < g.page_map_offset + 8 * g.size_pages; ++at)
    ASSERT_EQ(data[at], std::byte{0});
  for (std::uint64_t at = g.log_offset; at < g.size_bytes(); at += 64) ASSERT_EQ(data[at], std::byte{0});
  EXPECT_EQ(*read_root(data, g), 0U);
}

TEST_P(pool_file_of, closed_pool_opens_clean_at_the_same_address) {
  auto pool = create();
  ASSERT_TRUE(pool) << last_message();
  const std::byte* base = (*pool)->base();
  ASSERT_TRUE((*pool)->close()) << last_message();
  auto again = open();
  ASSERT_TRUE(again) << last_message();
  EXPECT_TRUE((*again)->was_clean());
  EXPECT_EQ((*again)->base(), base);
}

TEST_P(pool_file_of, pool_that_was_not_closed_opens_as_not_clean) {
  {
    ASSERT_TRUE(create()) << last_message();
  }
  auto pool = open();
  ASSERT_TRUE(pool) << last_message();
  EXPECT_FALSE((*pool)->was_clean());
}

// States of copies A and B.
std::pair<std::uint32_t, std::uint32_t> states_in(const std::vector<std::byte>& bytes) {
  std::uint32_t state[2];
  for (const std::size_t copy : {0U, 1U})
    std::memcpy(&state[copy], bytes.data() + copy * 4096 + offsetof(layout::superblock, state), sizeof state[copy]);
  return {state[0], state[1]};
}

TEST(pool_file, state_open_is_in_the_file_before_open_returns) {
  const testing::scratch folder;
  const std::string path = folder.path();
  closed_pool(path, NVM_MEDIUM_SHM);
  auto pool = pool_file::open(path.c_str(), on_medium(NVM_MEDIUM_SHM));
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ(states_in(bytes_of(path)), std::pair(2U, 2U));
}

TEST(pool_file, on_ssd_is_marked_open_in_one_copy_and_not_before_it_changes) {
  const testing::scratch folder;
  const std::string path = folder.path();
  closed_pool(path, NVM_MEDIUM_SSD);
  const auto reopen = [&] { return pool_file::open(path.c_str(), on_medium(NVM_MEDIUM_SSD)); };
  {
    auto pool = reopen();
    ASSERT_TRUE(pool) << last_message();
    EXPECT_TRUE((*pool)->was_clean());
    EXPECT_EQ(states_in(bytes_of(path)), std::pair(1U, 1U));
    EXPECT_EQ((*pool)->superblock().state, 2U) << "a growth writes what is so by then";
  }
  const auto unchanged = bytes_of(path);
  {
    auto pool = reopen();
    ASSERT_TRUE(pool) << last_message();
    ASSERT_TRUE((*pool)->close());
    auto bytes = bytes_of(path);
    std::memcpy(bytes.data() + layout::owner_sector, unchanged.data() + layout::owner_sector, sector_bytes);
    EXPECT_EQ(bytes, unchanged) << "opened and closed, not changed";
  }
  {
    auto pool = reopen();
    ASSERT_TRUE(pool) << last_message();
    ASSERT_TRUE((*pool)->mark_open());
    const auto marked = bytes_of(path);
    ASSERT_TRUE((*pool)->mark_open());
    EXPECT_EQ(bytes_of(path), marked) << "once";
    const auto [a, b] = states_in(marked);
    EXPECT_EQ(a + b, 3U) << "one copy says open, the other, which is whole, clean";
    const auto sb = pick_superblock(marked.data(), marked.size());
    ASSERT_TRUE(sb) << last_message();
    EXPECT_EQ(sb->state, 2U) << "the newer one";
  }
  {
    auto pool = reopen();
    ASSERT_TRUE(pool) << last_message();
    EXPECT_FALSE((*pool)->was_clean());
    ASSERT_TRUE((*pool)->close());
  }
  EXPECT_EQ(states_in(bytes_of(path)), std::pair(1U, 1U));
}

TEST_P(pool_file_of, file_has_space_of_its_own_for_all_it_holds) {
  ASSERT_TRUE(create()) << last_message();
  struct ::stat s{};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_GE(s.st_blocks * 512, s.st_size - 8192);  // the page map of the capacity may be a hole
  EXPECT_EQ(s.st_mode & 07777, 0600U);
}

TEST_P(pool_file_of, copy_with_holes_gets_its_space_when_it_is_opened) {
  closed_pool(path, GetParam());
  struct ::stat whole{};
  ASSERT_EQ(::stat(path.c_str(), &whole), 0);
  copy_with_holes(path, path + ".sparse");
  std::filesystem::rename(path + ".sparse", path);
  struct ::stat sparse{};
  ASSERT_EQ(::stat(path.c_str(), &sparse), 0);
  ASSERT_LT(sparse.st_blocks, whole.st_blocks);
  auto pool = open();
  ASSERT_TRUE(pool) << last_message();
  ASSERT_EQ(::stat(path.c_str(), &sparse), 0);
  EXPECT_GE(sparse.st_blocks, whole.st_blocks);
}

TEST_P(pool_file_of, existing_file_is_not_touched_by_create) {
  put_bytes(path, std::vector<std::byte>(100, std::byte{7}));
  EXPECT_EQ(create().error(), errc::exists);
  EXPECT_EQ(bytes_of(path), std::vector<std::byte>(100, std::byte{7}));
}

TEST_P(pool_file_of, same_process_cannot_open_it_twice) {
  auto pool = create();
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ(open().error(), errc::busy);
  EXPECT_MESSAGE("this process");
  EXPECT_EQ(open(true).error(), errc::busy);
  // The refusal took nothing from the owner.
  EXPECT_EQ(in_child([&] { return open().error() == errc::busy ? 0 : 1; }), 0);
}

TEST_P(pool_file_of, other_process_is_told_the_owners_pid) {
  auto pool = create();
  ASSERT_TRUE(pool) << last_message();
  const std::string pid = "process " + std::to_string(::getpid()) + " has it open";
  EXPECT_EQ(in_child([&] {
              if (open().error() != errc::busy) return 1;
              return message_has(pid.c_str()) ? 0 : 2;
            }),
            0);
}

TEST_P(pool_file_of, killed_owner_leaves_no_lock) {
  closed_pool(path, GetParam());
  EXPECT_EQ(in_child([&] {
              auto pool = open();
              if (!pool) return 1;
              ::kill(::getpid(), SIGKILL);
              return 2;
            }),
            1000 + SIGKILL);
  auto pool = open();
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ((*pool)->was_clean(), GetParam() == NVM_MEDIUM_SSD) << "there it had changed nothing";
}

TEST_P(pool_file_of, read_only_open_changes_no_byte) {
  const auto before = closed_pool(path, GetParam());
  {
    auto pool = open(true);
    ASSERT_TRUE(pool) << last_message();
    (*pool)->base()[(*pool)->geometry().data_offset] = std::byte{99};  // a private page
    EXPECT_TRUE((*pool)->close());
  }
  EXPECT_EQ(bytes_of(path), before);
}

TEST_P(pool_file_of, readers_share_and_keep_writers_out) {
  closed_pool(path, GetParam());
  auto reader = open(true);
  ASSERT_TRUE(reader) << last_message();
  EXPECT_EQ(in_child([&] { return open(true) ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([&] { return open().error() == errc::busy ? 0 : 1; }), 0);
}

TEST_P(pool_file_of, callback_after_mapping_sees_the_locked_pool_and_may_change_a_private_image) {
  closed_pool(path, GetParam());
  unsigned calls = 0;
  pool_open_options o = on_medium(GetParam());
  o.after_mapping.context = &calls;
  o.after_mapping.run = [](void* context, pool_file& pool) noexcept -> status {
    ++*static_cast<unsigned*>(context);
    if (pool.medium() != NVM_MEDIUM_SSD) return {};
    // What a log that grew the pool would do.
    layout::superblock sb = pool.superblock();
    sb.size_pages *= 2;
    sb.sequence += 1;
    sb.crc = superblock_crc(sb);
    std::memcpy(pool.base() + pool.geometry().superblock_at(superblock_copy_of(sb.sequence)), &sb, sizeof sb);
    if (!pool.read_only()) {  // the file of a pool that grew is as large
      if (auto grown = pool.file().allocate(0, geometry_of(sb).size_bytes()); !grown) return grown;
    }
    return pool.adopt_image();
  };
  const auto pages = small_pool(GetParam()).size_bytes / 4096;
  for (const bool read_only : {false, true}) {
    o.read_only = read_only;
    auto pool = pool_file::open(path.c_str(), o);
    ASSERT_TRUE(pool) << last_message();
    EXPECT_EQ((*pool)->size_pages(), GetParam() == NVM_MEDIUM_SSD ? 2 * pages : pages);
    pool->reset();
    const auto file = bytes_of(path);
    EXPECT_EQ(pick_superblock(file.data(), file.size())->size_pages, pages) << "the file says what it said";
  }
  EXPECT_EQ(calls, 2U);
}

TEST_P(pool_file_of, failing_callback_fails_the_open_and_releases_the_file) {
  closed_pool(path, GetParam());
  pool_open_options o = on_medium(GetParam());
  o.after_mapping.run = [](void*, pool_file&) noexcept -> status { return fail(errc::corrupt, "the log is damaged"); };
  EXPECT_EQ(pool_file::open(path.c_str(), o).error(), errc::corrupt);
  EXPECT_MESSAGE("the log is damaged");
  EXPECT_MESSAGE(path.c_str());
  EXPECT_TRUE(open()) << last_message();
}

TEST_P(pool_file_of, prepared_log_is_in_the_file_of_the_new_pool) {
  pool_create_options o = small_pool(GetParam());
  o.prepare.run = [](void*, platform::file& file, const layout::superblock& sb) noexcept -> status {
    const std::uint64_t value = 42;
    return file.write(sb.log_offset, &value, sizeof value);
  };
  auto pool = pool_file::create(path.c_str(), o);
  ASSERT_TRUE(pool) << last_message();
  std::uint64_t found = 0;
  std::memcpy(&found, (*pool)->base() + (*pool)->geometry().log_offset, sizeof found);
  EXPECT_EQ(found, 42U);
}

TEST_P(pool_file_of, any_truncation_is_refused_without_a_fault) {
  const auto whole = closed_pool(path, GetParam());
  for (std::size_t length = 0; length < whole.size(); length += 4093) {
    put_bytes(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    ASSERT_EQ(open().error(), errc::not_a_pool) << length << ": " << last_message();
    ASSERT_FALSE(open(true)) << length;
  }
}

TEST_P(pool_file_of, any_flipped_bit_of_both_superblocks_opens_or_is_refused) {
  const auto whole = closed_pool(path, GetParam());
  auto damaged = whole;
  for (std::size_t bit = 0; bit < sizeof(layout::superblock) * 8; bit += 13) {
    for (const std::size_t copy : {0U, 4096U}) {
      damaged[copy + bit / 8] ^= std::byte(1U << bit % 8);
      put_bytes(path, damaged);
      ASSERT_TRUE(open()) << copy << " bit " << bit << ": " << last_message();
      damaged[copy + bit / 8] = whole[copy + bit / 8];
    }
    for (const std::size_t copy : {0U, 4096U}) damaged[copy + bit / 8] ^= std::byte(1U << bit % 8);
    put_bytes(path, damaged);
    ASSERT_FALSE(open()) << bit;
    damaged = whole;
  }
}

struct {
  unsigned calls = 0;
  unsigned fatal = ~0U;
} faults;

bool call_fails() {
  if (faults.calls++ != faults.fatal) return false;
  errno = EIO;
  return true;
}

platform::file_calls failing_calls() {
  auto t = platform::system_file_calls();
  t.open = [](const char* path, int flags, unsigned mode) { return call_fails() ? -1 : ::open(path, flags, mode); };
  t.pread = [](int d, void* to, std::size_t n, off_t at) { return call_fails() ? -1 : ::pread(d, to, n, at); };
  t.pwrite = [](int d, const void* from, std::size_t n, off_t at) {
    return call_fails() ? -1 : ::pwrite(d, from, n, at);
  };
  t.fdatasync = [](int d) { return call_fails() ? -1 : ::fdatasync(d); };
  t.fstat = [](int d, struct ::stat* out) { return call_fails() ? -1 : ::fstat(d, out); };
  t.lock = [](int d, struct ::flock* range) { return call_fails() ? -1 : ::fcntl(d, F_OFD_SETLK, range); };
  return t;
}

TEST_P(pool_file_of, failure_of_any_call_of_open_or_close_loses_nothing) {
  const platform::file_calls table = failing_calls();
  closed_pool(path, GetParam());
  platform::use_file_calls(&table);
  faults = {};
  {
    auto pool = open();
    ASSERT_TRUE(pool && (*pool)->mark_open() && (*pool)->close()) << last_message();
  }
  const unsigned calls = faults.calls;
  EXPECT_GT(calls, 10U);
  for (unsigned k = 0; k < calls; ++k) {
    faults = {0, k};
    platform::use_file_calls(&table);
    auto pool = open();
    if (!pool) {
      EXPECT_EQ(errno, EIO) << k << ": " << last_message();
      EXPECT_MESSAGE(path.c_str());
    } else if (!(*pool)->mark_open() || !(*pool)->close()) {
      EXPECT_EQ(last_code(), errc::io) << k;
    }
    platform::use_file_calls(nullptr);
    pool_file::pointer gone = pool ? std::move(*pool) : nullptr;
    gone.reset();
    // Neither lock nor addresses nor content are lost.
    auto again = open();
    ASSERT_TRUE(again) << k << ": " << last_message();
    ASSERT_TRUE((*again)->close()) << last_message();
  }
}

TEST(pool_file, missing_file_is_named) {
  scratch folder;
  EXPECT_EQ(pool_file::open(folder.path("none.nvm").c_str(), {}).error(), errc::not_found);
  EXPECT_MESSAGE("none.nvm");
  EXPECT_MESSAGE("no such file");
  EXPECT_EQ(pool_file::create(folder.path("no/such/folder/a.nvm").c_str(), small_pool()).error(), errc::not_found);
  EXPECT_EQ(pool_file::open(nullptr, {}).error(), errc::invalid);
  EXPECT_EQ(pool_file::open("", {}).error(), errc::invalid);
}

TEST(pool_file, what_is_no_regular_file_is_refused) {
  scratch folder;
  EXPECT_EQ(pool_file::open(folder.folder().c_str(), {}).error(), errc::not_a_pool);
  EXPECT_EQ(pool_file::open(folder.folder().c_str(), on_medium(0, true)).error(), errc::not_a_pool);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(pool_file::open(folder.path("pipe").c_str(), {}).error(), errc::not_a_pool);
  EXPECT_EQ(pool_file::open(folder.path("pipe").c_str(), on_medium(0, true)).error(), errc::not_a_pool);
}

TEST_P(pool_file_of, links_lead_to_the_pool) {
  closed_pool(path, GetParam());
  const std::string link = folder.path("link.nvm"), further = folder.path("further.nvm"),
                    hard = folder.path("hard.nvm");
  ASSERT_EQ(::symlink("a.nvm", link.c_str()), 0);
  ASSERT_EQ(::symlink(link.c_str(), further.c_str()), 0);
  ASSERT_EQ(::link(path.c_str(), hard.c_str()), 0);
  EXPECT_EQ(pool_file::create(further.c_str(), small_pool()).error(), errc::exists);
  auto pool = pool_file::open(further.c_str(), on_medium(GetParam()));
  ASSERT_TRUE(pool) << last_message();
  EXPECT_STREQ((*pool)->path(), further.c_str()) << "as it was named";
  // One pool, whatever it is called.
  for (const std::string& name : {path, link, further, hard}) {
    const auto again = [&] { return pool_file::open(name.c_str(), on_medium(GetParam())).error(); };
    EXPECT_EQ(again(), errc::busy) << name;
    EXPECT_EQ(in_child([&] { return again() == errc::busy ? 0 : 1; }), 0) << name;
  }
  ASSERT_TRUE((*pool)->close()) << last_message();
  EXPECT_TRUE(std::filesystem::is_symlink(link) && std::filesystem::is_symlink(further));
}

TEST_P(pool_file_of, is_created_where_a_link_leads) {
  std::filesystem::create_directory(folder.path("elsewhere"));
  ASSERT_EQ(::symlink("elsewhere/target.nvm", path.c_str()), 0);
  ASSERT_TRUE(create()) << last_message();
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder.path("elsewhere/target.nvm")));
  EXPECT_TRUE(open()) << last_message();
  EXPECT_EQ(create().error(), errc::exists);
}

TEST(pool_file, links_in_a_circle_are_refused) {
  scratch folder;
  ASSERT_EQ(::symlink(folder.path("b").c_str(), folder.path("a").c_str()), 0);
  ASSERT_EQ(::symlink(folder.path("a").c_str(), folder.path("b").c_str()), 0);
  for (const bool creates : {false, true}) {
    const auto code = creates ? pool_file::create(folder.path("a").c_str(), small_pool()).error()
                              : pool_file::open(folder.path("a").c_str(), {}).error();
    EXPECT_EQ(code, errc::system) << creates;
    EXPECT_EQ(errno, ELOOP) << last_message();
  }
}

TEST(pool_file, that_any_user_may_write_is_refused) {
  scratch folder;
  closed_pool(folder.path());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0606), 0);
  EXPECT_EQ(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)).error(), errc::system);
  EXPECT_EQ(errno, EPERM);
  EXPECT_MESSAGE("0606");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0660), 0);
  EXPECT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM))) << last_message();
}

TEST(pool_file, mode_is_that_of_the_options_under_the_umask) {
  scratch folder;
  const mode_t old = ::umask(0027);
  auto o = small_pool();
  o.mode = 0664;
  EXPECT_TRUE(pool_file::create(folder.path().c_str(), o)) << last_message();
  ::umask(old);
  struct ::stat s{};
  ASSERT_EQ(::stat(folder.path().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0640U);
  for (const std::uint32_t mode : {0666U, 0400U, 01600U, 4U}) {
    o.mode = mode;
    EXPECT_EQ(pool_file::create(folder.path("b.nvm").c_str(), o).error(), errc::invalid) << mode;
    EXPECT_FALSE(std::filesystem::exists(folder.path("b.nvm")));
  }
}

TEST(pool_file, options_out_of_their_domain_leave_no_file) {
  scratch folder;
  const auto refused = [&](const pool_create_options& o) {
    const errc code = pool_file::create(folder.path().c_str(), o).error();
    EXPECT_FALSE(std::filesystem::exists(folder.path()));
    return code;
  };
  auto o = small_pool();
  o.capacity_bytes = std::uint64_t{1} << 62;
  EXPECT_EQ(refused(o), errc::too_large);
  EXPECT_MESSAGE("capacity");
  EXPECT_MESSAGE("window");
  o = small_pool();
  o.size_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refused(o), errc::too_large);
  o = small_pool();
  o.medium = 5;
  EXPECT_EQ(refused(o), errc::invalid);
  o = small_pool();
  o.lanes = 5000;
  EXPECT_EQ(refused(o), errc::invalid);
}

TEST(pool_file, foreign_bytes_are_refused_by_kind) {
  scratch folder;
  const auto open = [&] { return pool_file::open(folder.path().c_str(), {}).error(); };
  put_bytes(folder.path(), {});
  EXPECT_EQ(open(), errc::not_a_pool);
  EXPECT_MESSAGE("empty");
  put_bytes(folder.path(), std::vector<std::byte>(100, std::byte{1}));
  EXPECT_EQ(open(), errc::not_a_pool);
  EXPECT_MESSAGE("truncated");
  put_bytes(folder.path(), std::vector<std::byte>(100000, std::byte{1}));
  EXPECT_EQ(open(), errc::not_a_pool);
  EXPECT_MESSAGE("not a Holdfast pool");
  put_bytes(folder.path(), std::vector<std::byte>(100000));
  EXPECT_EQ(open(), errc::not_a_pool);
  EXPECT_MESSAGE("zeros");
}

// A file whose superblock is right for an image, but not for a file.
TEST(pool_file, image_with_other_pages_or_half_chunks_is_refused) {
  scratch folder;
  for (const unsigned shift : {10U, 11U, 12U}) {
    superblock_request r;
    r.shape.page_shift = shift;
    r.shape.size_pages = 65;
    r.shape.capacity_pages = 65;
    r.shape.lane_count = 1;
    r.shape.lane_bytes = std::uint64_t{1} << shift;
    r.medium = NVM_MEDIUM_SHM;
    r.uuid[0] = 1;
    r.base_address = platform::window_base;
    const auto sb = make_superblock(r);
    ASSERT_TRUE(sb) << last_message();
    std::vector<std::byte> bytes(geometry_of(*sb).size_bytes());
    format_image(bytes.data(), *sb);
    put_bytes(folder.path(), bytes);
    EXPECT_EQ(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)).error(),
              shift == 12 ? errc::corrupt : errc::version)
        << last_message();
  }
}

TEST(pool_file, hostile_base_address_is_refused) {
  scratch folder;
  const auto whole = closed_pool(folder.path());
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{4096}, platform::window_base + 4096,
                                   platform::window_base + platform::window_bytes,
                                   platform::window_base + platform::window_bytes - 4096, ~std::uint64_t{0} << 40}) {
    auto bytes = whole;
    for (std::uint64_t copy = 0; copy < 2; ++copy) {
      layout::superblock sb;
      std::memcpy(&sb, bytes.data() + copy * 4096, sizeof sb);
      sb.base_address = base;
      sb.crc = superblock_crc(sb);
      std::memcpy(bytes.data() + copy * 4096, &sb, sizeof sb);
    }
    put_bytes(folder.path(), bytes);
    EXPECT_EQ(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)).error(), errc::address)
        << last_message();
  }
}

TEST(pool_file, unknown_ro_compat_feature_opens_read_only) {
  scratch folder;
  auto bytes = closed_pool(folder.path());
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    layout::superblock sb;
    std::memcpy(&sb, bytes.data() + copy * 4096, sizeof sb);
    sb.features_ro_compat = 2;
    sb.crc = superblock_crc(sb);
    std::memcpy(bytes.data() + copy * 4096, &sb, sizeof sb);
  }
  put_bytes(folder.path(), bytes);
  EXPECT_EQ(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)).error(), errc::version);
  EXPECT_MESSAGE("read-only");
  EXPECT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM, true))) << last_message();
}

TEST(pool_medium, ssd_and_direct_media_do_not_stand_in_for_each_other) {
  scratch folder;
  closed_pool(folder.path("shm.nvm"), NVM_MEDIUM_SHM);
  closed_pool(folder.path("ssd.nvm"), NVM_MEDIUM_SSD);
  EXPECT_EQ(pool_file::open(folder.path("shm.nvm").c_str(), on_medium(NVM_MEDIUM_SSD)).error(), errc::medium);
  EXPECT_MESSAGE("made for medium shm");
  EXPECT_EQ(pool_file::open(folder.path("ssd.nvm").c_str(), on_medium(NVM_MEDIUM_SHM)).error(), errc::medium);
}

TEST(pool_medium, is_found_from_the_place_of_the_file) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  scratch memory{"/dev/shm"};
  auto o = small_pool(NVM_MEDIUM_DETECT);
  auto pool = pool_file::create(memory.path().c_str(), o);
  ASSERT_TRUE(pool) << last_message();
  EXPECT_EQ((*pool)->medium(), NVM_MEDIUM_SHM);
  pool->reset();
  auto again = pool_file::open(memory.path().c_str(), {});
  ASSERT_TRUE(again) << last_message();
  EXPECT_EQ((*again)->medium(), NVM_MEDIUM_SHM);
  // A pool made for ssd stays one wherever it lies.
  closed_pool(memory.path("ssd.nvm"), NVM_MEDIUM_SSD);
  auto ssd = pool_file::open(memory.path("ssd.nvm").c_str(), {});
  ASSERT_TRUE(ssd) << last_message();
  EXPECT_EQ((*ssd)->medium(), NVM_MEDIUM_SSD);
}

TEST(pool_medium, shm_pool_behind_a_page_cache_is_opened_only_by_name) {
  scratch folder;
  closed_pool(folder.path(), NVM_MEDIUM_SHM);
  const auto file = platform::file::open(folder.path().c_str(), O_RDONLY);
  ASSERT_TRUE(file);
  if (*file->file_system() != platform::file_system_kind::other) GTEST_SKIP() << "temporary folder is memory";
  EXPECT_EQ(pool_file::open(folder.path().c_str(), {}).error(), errc::medium);
  EXPECT_MESSAGE("page cache");
  EXPECT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM))) << last_message();
  // Looking at it needs no name: nothing is committed.
  EXPECT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_DETECT, true))) << last_message();
}

TEST(pool_medium, dax_is_refused_where_the_kernel_grants_no_MAP_SYNC) {
  scratch folder;
  put_bytes(folder.path("probe"), {});  // a folder on DAX does not say so
  const auto probe = platform::file::open(folder.path("probe").c_str(), O_RDONLY);
  ASSERT_TRUE(probe);
  if (*probe->file_system() == platform::file_system_kind::dax) GTEST_SKIP() << "temporary folder is DAX";
  for (const std::uint32_t medium : {NVM_MEDIUM_DAX, NVM_MEDIUM_AUTO}) {
    EXPECT_EQ(pool_file::create(folder.path().c_str(), small_pool(medium)).error(), errc::medium);
    EXPECT_MESSAGE("MAP_SYNC");
    EXPECT_FALSE(std::filesystem::exists(folder.path()));
  }
}

TEST(pool_inspect, works_beside_a_living_owner_and_names_it) {
  scratch folder;
  auto pool = pool_file::create(folder.path().c_str(), small_pool());
  ASSERT_TRUE(pool) << last_message();
  const geometry g = (*pool)->geometry();
  const std::uint64_t at = g.entry_offset(4);
  const std::uint64_t word = seal_word(7, word_seed(at));  // a run of 7 pages
  std::memcpy((*pool)->base() + at, &word, sizeof word);
  const auto pages = [](std::uint64_t content) noexcept { return content & 0xFFFFFFFF; };
  nvm_pool_info info;
  ASSERT_TRUE(inspect_pool(folder.path().c_str(), pages, info)) << last_message();
  EXPECT_EQ(info.owner_pid, ::getpid());
  EXPECT_EQ(info.clean, 0U);
  EXPECT_EQ(info.used_pages, 7U);
  EXPECT_EQ(info.free_pages, 57U);
  EXPECT_EQ(info.size, 256U * 1024);
  EXPECT_EQ(info.capacity, 4U * 1024 * 1024);
  EXPECT_EQ(info.medium, NVM_MEDIUM_SHM);
  EXPECT_EQ(info.lanes, 2U);
  EXPECT_EQ(info.page_bytes, 4096U);
  EXPECT_EQ(info.format_version, 1U);
  EXPECT_EQ(info.base, reinterpret_cast<std::uint64_t>((*pool)->base()));
  EXPECT_EQ(info.file_bytes, g.size_bytes());
  EXPECT_STREQ(info.path, folder.path().c_str());
  ASSERT_TRUE((*pool)->close());
  ASSERT_TRUE(inspect_pool(folder.path().c_str(), pages, info));
  EXPECT_EQ(info.owner_pid, 0);
  EXPECT_EQ(info.clean, 1U);
  // Nobody holds it, though a record says so.
  {
    ASSERT_TRUE(pool_file::open(folder.path().c_str(), on_medium(NVM_MEDIUM_SHM)));
  }
  ASSERT_TRUE(inspect_pool(folder.path().c_str(), pages, info));
  EXPECT_EQ(info.owner_pid, 0);
  EXPECT_EQ(info.clean, 0U);
}

TEST(pool_inspect, of_bad_files_says_what_open_says) {
  scratch folder;
  const auto pages = [](std::uint64_t content) noexcept { return content & 0xFFFFFFFF; };
  nvm_pool_info info;
  EXPECT_EQ(inspect_pool(folder.path().c_str(), pages, info).error(), errc::not_found);
  put_bytes(folder.path(), {});
  EXPECT_EQ(inspect_pool(folder.path().c_str(), pages, info).error(), errc::not_a_pool);
  EXPECT_EQ(inspect_pool(folder.folder().c_str(), pages, info).error(), errc::not_a_pool);
  auto bytes = closed_pool(folder.path("b.nvm"));
  bytes.resize(bytes.size() - 1);
  put_bytes(folder.path(), bytes);
  EXPECT_EQ(inspect_pool(folder.path().c_str(), pages, info).error(), errc::not_a_pool);
  EXPECT_MESSAGE("truncated");
}

}  // namespace
}  // namespace nvm
