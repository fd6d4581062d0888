// Method: a table of calls that counts down and then fails, is short or is interrupted.
#include "platform/file.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace nvm::platform {
namespace {

class scratch {
 public:
  explicit scratch(const char* where = nullptr) {
    std::string name = (where != nullptr ? std::string{where} : std::filesystem::temp_directory_path().string()) +
                       "/holdfast-file-XXXXXX";
    directory_ = ::mkdtemp(name.data()) != nullptr ? name : std::string{};
  }
  ~scratch() { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::string path(const char* name) const { return directory_ + "/" + name; }

 private:
  std::string directory_;
};

// What the replaced calls do; one test at a time.
struct {
  int error = 0;             // errno of a failing call
  int failures = 0;          // calls that fail before the system's take over
  std::size_t short_to = 0;  // longest transfer; 0: no limit
  int calls = 0;
} plan;

template <class Call>
auto planned(Call&& call) {
  ++plan.calls;
  if (plan.failures > 0) {
    --plan.failures;
    errno = plan.error;
    return static_cast<decltype(call())>(-1);
  }
  return call();
}
std::size_t shortened(std::size_t bytes) { return plan.short_to != 0 && plan.short_to < bytes ? plan.short_to : bytes; }

struct planned_calls {
  planned_calls() {
    plan = {};
    table = system_file_calls();
    table.pread = [](int d, void* to, std::size_t n, off_t at) {
      return planned([&] { return ::pread(d, to, shortened(n), at); });
    };
    table.pwrite = [](int d, const void* from, std::size_t n, off_t at) {
      return planned([&] { return ::pwrite(d, from, shortened(n), at); });
    };
    table.fdatasync = [](int d) { return planned([&] { return ::fdatasync(d); }); };
    table.fallocate = [](int d, int mode, off_t at, off_t n) {
      return planned([&] { return ::fallocate(d, mode, at, n); });
    };
    use_file_calls(&table);
  }
  ~planned_calls() { use_file_calls(nullptr); }
  file_calls table;
};

TEST(file, short_and_interrupted_calls_still_move_every_byte) {
  const scratch s;
  const planned_calls calls;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT | O_EXCL);
  ASSERT_TRUE(f);
  std::vector<char> out(10'000), in(10'000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 7);
  plan = {.error = EINTR, .failures = 3, .short_to = 777};
  ASSERT_TRUE(f->write(5, out.data(), out.size()).has_value());
  EXPECT_EQ(plan.calls, 3 + 13);
  plan = {.error = EINTR, .failures = 3, .short_to = 333};
  ASSERT_TRUE(f->read(5, in.data(), in.size()).has_value());
  EXPECT_EQ(in, out);
  EXPECT_EQ(*f->size(), 10'005u);
}

TEST(file, failures_keep_their_errno_and_name_the_place) {
  const scratch s;
  const planned_calls calls;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(f);
  char byte = 1;
  plan = {.error = EIO, .failures = 1};
  EXPECT_EQ(f->write(4096, &byte, 1).error(), errc::io);
  EXPECT_EQ(errno, EIO);
  EXPECT_NE(std::string{last_message()}.find("offset 4096"), std::string::npos) << last_message();
  plan = {.error = ENOSPC, .failures = 1};
  EXPECT_EQ(f->write(0, &byte, 1).error(), errc::no_space);
  plan = {.error = ENOSPC, .failures = 1};
  EXPECT_EQ(f->allocate(0, 4096).error(), errc::no_space);
  EXPECT_EQ(errno, ENOSPC);
  plan = {.error = EIO, .failures = 1};
  EXPECT_EQ(f->read(0, &byte, 1).error(), errc::io);
}

TEST(file, a_failed_sync_is_reported_and_not_repeated) {
  const scratch s;
  const planned_calls calls;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(f);
  plan = {.error = EIO, .failures = 1};
  EXPECT_EQ(f->sync_data().error(), errc::io);
  EXPECT_EQ(plan.calls, 1);
  EXPECT_EQ(errno, EIO);
}

TEST(file, a_read_past_the_end_is_an_error_that_says_so) {
  const scratch s;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(f);
  ASSERT_TRUE(f->write(0, "abc", 3).has_value());
  char in[8];
  EXPECT_EQ(f->read(0, in, sizeof in).error(), errc::corrupt);
  EXPECT_NE(std::string{last_message()}.find("ends after 3"), std::string::npos) << last_message();
}

TEST(file, a_missing_and_an_existing_file_are_told_apart) {
  const scratch s;
  EXPECT_EQ(file::open(s.path("none").c_str(), O_RDWR).error(), errc::not_found);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_TRUE(file::open(s.path("a").c_str(), O_RDWR | O_CREAT | O_EXCL));
  EXPECT_EQ(file::open(s.path("a").c_str(), O_RDWR | O_CREAT | O_EXCL).error(), errc::exists);
}

TEST(file, new_files_are_private_and_close_on_exec) {
  const scratch s;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT | O_EXCL);
  ASSERT_TRUE(f);
  struct ::stat st{};
  ASSERT_EQ(::fstat(f->descriptor(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
  EXPECT_NE(::fcntl(f->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(file, allocation_keeps_contents_and_gives_blocks) {
  const scratch s;
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(f);
  ASSERT_TRUE(f->write(0, "abc", 3).has_value());
  ASSERT_TRUE(f->allocate(0, 1 << 20).has_value());
  EXPECT_EQ(*f->size(), 1u << 20);
  struct ::stat st{};
  ASSERT_EQ(::fstat(f->descriptor(), &st), 0);
  EXPECT_GE(st.st_blocks * 512, 1 << 20);
  char in[3];
  ASSERT_TRUE(f->read(0, in, 3).has_value());
  EXPECT_EQ(std::string(in, 3), "abc");
}

TEST(file, the_lock_excludes_a_second_opener_of_the_same_process_too) {
  const scratch s;
  auto first = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  auto second = file::open(s.path("a").c_str(), O_RDWR);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(*second->locked_elsewhere());
  ASSERT_TRUE(first->lock_exclusive().has_value());
  EXPECT_TRUE(*second->locked_elsewhere());
  EXPECT_EQ(second->lock_exclusive().error(), errc::busy);
  first->close();
  EXPECT_TRUE(second->lock_exclusive().has_value());
}

TEST(file, opened_again_is_the_same_file_and_leaves_its_lock_alone) {
  const scratch s;
  auto first = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->lock_exclusive().has_value());
  // By whatever name.
  std::filesystem::rename(s.path("a"), s.path("b"));
  {
    const auto again = first->open_again(s.path("a").c_str());
    ASSERT_TRUE(again) << last_message();
    ASSERT_TRUE(again->write(0, "abc", 3)) << last_message();
    EXPECT_TRUE(again->sync_data()) << last_message();
    char in[3];
    ASSERT_TRUE(first->read(0, in, 3)) << last_message();
    EXPECT_EQ(std::string(in, 3), "abc");
  }
  EXPECT_TRUE(*file::open(s.path("b").c_str(), O_RDWR)->locked_elsewhere());
}

TEST(file, opened_again_where_there_is_no_proc_is_found_by_its_path_or_refused) {
  const scratch s;
  file_calls no_proc = system_file_calls();
  no_proc.open = [](const char* path, int flags, unsigned mode) {
    if (std::string{path}.starts_with("/proc/")) {
      errno = ENOENT;
      return -1;
    }
    return ::open(path, flags, mode);
  };
  auto first = file::open(s.path("a").c_str(), O_RDWR | O_CREAT, 0600, &no_proc);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->open_again(s.path("a").c_str())) << last_message();
  std::filesystem::rename(s.path("a"), s.path("b"));
  EXPECT_EQ(first->open_again(s.path("a").c_str()).error(), errc::not_found);
  ASSERT_TRUE(file::open(s.path("a").c_str(), O_RDWR | O_CREAT));
  EXPECT_EQ(first->open_again(s.path("a").c_str()).error(), errc::busy);
  EXPECT_NE(std::string{last_message()}.find("found another file"), std::string::npos) << last_message();
}

TEST(file, knows_tmpfs_from_a_disk) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const scratch s{"/dev/shm"};
  auto f = file::open(s.path("a").c_str(), O_RDWR | O_CREAT);
  ASSERT_TRUE(f);
  EXPECT_EQ(*f->file_system(), file_system_kind::tmpfs);
}

TEST(file, the_directory_of_a_path_can_be_synced) {
  const scratch s;
  EXPECT_TRUE(sync_directory_of(s.path("a").c_str()).has_value());
  EXPECT_EQ(sync_directory_of("/no-such-directory/a").error(), errc::not_found);
}

}  // namespace
}  // namespace nvm::platform
