// Facts of an open pool hold also after its file was renamed or removed, and count what its opening recovered; those of
// a place hold before there is one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "nvm/space.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

class info : public testing::TestWithParam<bool> {
 protected:
  scratch place{GetParam()};

  static nvm_pool_info of(NVM_POOL* pool) {
    nvm_pool_info i{};
    EXPECT_EQ(nvm_pool_get_info(pool, &i), 0) << nvm_errormsg();
    return i;
  }
  nvm_pool_info inspected(const char* name = "pool") const {
    nvm_pool_info i{};
    EXPECT_EQ(nvm_pool_inspect(place.path(name).c_str(), &i), 0) << nvm_errormsg();
    return i;
  }
  // Closed, with a root object of 64 bytes.
  void make_pool() const {
    NVM_POOL* pool = place.create();
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    void* root = nvm_calloc(pool, 1, 1, 64);
    ASSERT_EQ(nvm_pool_set_root(pool, root), 0);
    ASSERT_EQ(nvm_tx_commit(pool), 0);
    ASSERT_EQ(nvm_pool_close(pool), 0);
  }
  // A child opens the pool, does this, and kills itself.
  template <class F>
  void die_after(F&& work) const {
    const pid_t child = fork();
    if (child == 0) {
      NVM_POOL* pool = nvm_pool_open(place.path().c_str());
      if (pool == nullptr) _exit(1);
      work(pool, static_cast<long*>(nvm_pool_get_root(pool)));
      raise(SIGKILL);
    }
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how));
  }
};
INSTANTIATE_TEST_SUITE_P(media, info, testing::Bool(), [](const auto& i) { return i.param ? "ssd" : "shm"; });

TEST_P(info, of_an_open_pool_follows_the_file_and_not_its_name) {
  NVM_POOL* pool = place.create();
  const nvm_pool_info before = of(pool);
  const nvm_pool_info outside = inspected();
  EXPECT_EQ(std::memcmp(before.uuid, outside.uuid, sizeof before.uuid), 0);
  EXPECT_EQ(before.owner_pid, getpid());
  EXPECT_EQ(before.size, outside.size);
  EXPECT_EQ(before.capacity, outside.capacity);
  EXPECT_EQ(before.file_bytes, outside.file_bytes);
  EXPECT_EQ(before.base, outside.base);
  EXPECT_EQ(before.log_bytes, outside.log_bytes);
  EXPECT_EQ(before.medium, outside.medium);
  EXPECT_EQ(before.page_bytes, outside.page_bytes);
  EXPECT_EQ(before.format_version, outside.format_version);
  EXPECT_EQ(before.used_pages, outside.used_pages);
  EXPECT_EQ(before.free_pages, outside.free_pages);
  EXPECT_EQ(before.clean, 0U);

  std::filesystem::rename(place.path(), place.path("moved"));
  EXPECT_EQ(of(pool).file_bytes, before.file_bytes);
  // Another pool under the old name is another pool.
  NVM_POOL* other = place.create();
  EXPECT_EQ(std::memcmp(of(pool).uuid, before.uuid, sizeof before.uuid), 0);
  EXPECT_NE(std::memcmp(of(other).uuid, before.uuid, sizeof before.uuid), 0);
  EXPECT_EQ(nvm_pool_close(other), 0);
  std::filesystem::remove(place.path("moved"));
  EXPECT_EQ(of(pool).owner_pid, getpid());
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(info, of_a_pool_opened_by_a_relative_path_survives_a_change_of_directory) {
  make_pool();
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path{place.path()}.parent_path());
  NVM_POOL* pool = nvm_pool_open("pool");
  std::filesystem::current_path(here);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_STREQ(of(pool).path, "pool");
  EXPECT_EQ(of(pool).clean, 0U);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(info, of_a_read_only_pool_names_no_owner) {
  make_pool();
  nvm_pool_options o{};
  o.read_only = 1;
  NVM_POOL* pool = nvm_pool_open_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(of(pool).owner_pid, 0);
  EXPECT_EQ(of(pool).clean, 1U);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(info, counts_what_the_open_recovered) {
  make_pool();
  const auto work = [](NVM_POOL* pool, long* root) {
    for (long i = 1; i <= 3; ++i) {
      if (nvm_tx_begin(pool) != 0 || nvm_tx_log(root, sizeof *root) != 0) _exit(2);
      *root = i;
      if (nvm_tx_commit(pool) != 0) _exit(3);
    }
    if (nvm_tx_begin(pool) != 0 || nvm_tx_log(root, sizeof *root) != 0) _exit(4);
    *root = 4;
  };
  die_after(work);
  // Direct media: the unfinished transaction; ssd: three records of the log.  A reader recovers for itself alone.
  const std::uint64_t expected = GetParam() ? 3 : 1;
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.pending_transactions, expected);
  nvm_pool_options o{};
  for (const std::uint32_t read_only : {1U, 0U}) {
    o.read_only = read_only;
    NVM_POOL* pool = nvm_pool_open_with(place.path().c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(of(pool).recovered_transactions, expected) << (read_only != 0 ? "read-only" : "");
    EXPECT_EQ(*static_cast<long*>(nvm_pool_get_root(pool)), 3);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  NVM_POOL* pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(of(pool).recovered_transactions, 0U);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(info, of_a_place_says_the_medium_that_a_pool_there_will_have) {
  const std::string path = place.path(), link = place.path("link"), folder = place.path("");
  std::uint32_t before = 0, after = 0, behind = 0;
  std::filesystem::create_symlink("pool", link);
  ASSERT_EQ(nvm_medium_for(path.c_str(), &before), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_medium_for(link.c_str(), &behind), 0) << nvm_errormsg();
  EXPECT_EQ(behind, before);
  ASSERT_EQ(unlink(link.c_str()), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing was made";
  NVM_POOL* pool = nvm_pool_create(path.c_str(), 1 << 20);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(of(pool).medium, before);
  ASSERT_EQ(nvm_medium_for(path.c_str(), &after), 0) << "beside an owner: " << nvm_errormsg();
  EXPECT_EQ(after, before);
  EXPECT_EQ(nvm_pool_close(pool), 0);
}

TEST(medium_for, is_refused_without_a_path_a_folder_or_a_place_for_the_answer) {
  std::uint32_t medium = 77;
  for (const char* path : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_EQ(nvm_medium_for(path, &medium), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  }
  EXPECT_EQ(nvm_medium_for("pool", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_medium_for("/no such folder/pool", &medium), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
  EXPECT_EQ(medium, 77U);
}

TEST_P(info, beside_a_reader_names_no_writer_that_is_dead) {
  make_pool();
  die_after([](NVM_POOL*, long*) {});
  nvm_pool_options o{};
  o.read_only = 1;
  NVM_POOL* reader = nvm_pool_open_with(place.path().c_str(), &o);
  ASSERT_NE(reader, nullptr) << nvm_errormsg();
  const nvm_pool_info i = inspected();
  EXPECT_EQ(i.owner_pid, 0);
  EXPECT_EQ(i.clean, GetParam() ? 1U : 0U) << "on ssd it had changed nothing";
  const pid_t child = fork();
  if (child == 0) {
    if (nvm_pool_open(place.path().c_str()) != nullptr || nvm_errno() != NVM_E_BUSY) _exit(1);
    // No pid: the record's is that of a dead process.
    _exit(std::strstr(nvm_errormsg(), "another process reads it") != nullptr ? 0 : 2);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  EXPECT_EQ(nvm_pool_close(reader), 0);
}

}  // namespace
}  // namespace nvm::tests
