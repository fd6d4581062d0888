#include "platform/map.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "../fault_injection.hpp"
#include "../sanitized.hpp"
#include "faults.hpp"
#include "platform/file.hpp"

namespace nvm::platform {
namespace {

using tests::faults;

constexpr std::uintptr_t first = window_base;

// A file of one page without a name.
file unnamed_file(std::uint64_t bytes = 4096) {
  std::string name = std::filesystem::temp_directory_path().string() + "/holdfast-map-XXXXXX";
  const int descriptor = ::mkstemp(name.data());
  ::close(descriptor);
  auto f = file::open(name.c_str(), O_RDWR);
  ::unlink(name.c_str());
  EXPECT_TRUE(f) << last_message();
  EXPECT_TRUE(f->allocate(0, bytes)) << last_message();
  return std::move(*f);
}

template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f());
  int wait_status = 0;
  ::waitpid(pid, &wait_status, 0);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

TEST(window, is_where_the_public_header_says) {
  ASSERT_TRUE(reserve_window()) << last_message();
  EXPECT_TRUE(nvm_is_durable(reinterpret_cast<void*>(window_base)));
  EXPECT_TRUE(nvm_is_durable(reinterpret_cast<void*>(window_base + window_bytes - 1)));
  EXPECT_FALSE(nvm_is_durable(reinterpret_cast<void*>(window_base - 1)));
  EXPECT_FALSE(nvm_is_durable(reinterpret_cast<void*>(window_base + window_bytes)));
  int on_stack = 0;
  EXPECT_FALSE(in_window(&on_stack));
}

TEST(window, keeps_all_other_memory_out) {
  ASSERT_TRUE(reserve_window()) << last_message();
  void* const wanted = reinterpret_cast<void*>(window_base + window_bytes / 3);
  void* const got = ::mmap(wanted, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(got, MAP_FAILED);
  EXPECT_FALSE(in_window(got));
  ::munmap(got, 4096);
  EXPECT_TRUE(faults(reinterpret_cast<std::byte*>(window_base + 4096)));
}

[[noreturn]] void reserve_where_memory_is() {
  void* const inside = reinterpret_cast<void*>(window_base + (std::uint64_t{1} << 30));
  void* const mine =
      ::mmap(inside, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mine != inside) std::exit(1);
  std::memset(mine, 7, 4096);
  if (reserve_window().error() != errc::address) std::exit(2);
  if (slot::take(first, 1).error() != errc::address) std::exit(3);
  std::fputs(last_message(), stderr);
  std::exit(*static_cast<char*>(mine) == 7 ? 0 : 4);
}

[[noreturn]] void reserve_under_a_limit() {
  struct ::rlimit limit{};
  limit.rlim_cur = limit.rlim_max = std::uint64_t{1} << 34;
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::exit(1);
  if (reserve_window().error() != errc::address || errno != ENOMEM) std::exit(2);
  std::fputs(last_message(), stderr);
  std::exit(0);
}

// "threadsafe": the statement runs in a fresh process, whose window is not reserved yet.
TEST(window, that_is_taken_is_refused_and_nothing_is_replaced) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(reserve_where_memory_is(), ::testing::ExitedWithCode(0), "taken by another mapping");
}

TEST(window, that_a_limit_forbids_is_refused_with_the_reason) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  if (tests::sanitized) GTEST_SKIP() << "a sanitizer needs its own address space";
  EXPECT_EXIT(reserve_under_a_limit(), ::testing::ExitedWithCode(0), "ulimit -v");
}

TEST(slot, outside_the_window_or_off_a_granule_is_refused) {
  EXPECT_EQ(slot::take(first - granule_bytes, 1).error(), errc::address);
  EXPECT_EQ(slot::take(first + window_bytes, 1).error(), errc::address);
  EXPECT_EQ(slot::take(first + 4096, 1).error(), errc::address);
  EXPECT_EQ(slot::take(first + window_bytes - granule_bytes, granule_bytes + 1).error(), errc::address);
  EXPECT_EQ(slot::take(first, window_bytes + 1).error(), errc::too_large);
  EXPECT_EQ(slot::take(first, ~std::uint64_t{0}).error(), errc::too_large);
  EXPECT_EQ(slot::take(first, 0).error(), errc::invalid);
}

TEST(slot, is_exclusive_until_it_is_given_back) {
  auto a = slot::take(first, granule_bytes + 1);  // two granules
  ASSERT_TRUE(a) << last_message();
  EXPECT_EQ(a->bytes(), 2 * granule_bytes);
  EXPECT_EQ(slot::take(first, 1).error(), errc::address);
  EXPECT_EQ(slot::take(first + granule_bytes, 1).error(), errc::address);
  EXPECT_TRUE(slot::take(first + 2 * granule_bytes, 1));
  a->give_back();
  EXPECT_TRUE(slot::take(first + granule_bytes, 1)) << last_message();
}

// The kernel has no room for another mapping: what lies there stays until it has.
TEST(slot, that_cannot_be_given_back_is_given_back_when_the_next_is_taken) {
  const file f = unnamed_file();
  auto a = slot::take(first, 1);
  ASSERT_TRUE(a) << last_message();
  ASSERT_TRUE(a->map_shared(f.descriptor(), 4096)) << last_message();
  tests::injected.arm(tests::fault::map, ENOMEM, 1, true);
  EXPECT_EQ(a->map_shared(f.descriptor(), 4096).error(), errc::system);
  a->give_back();
  EXPECT_FALSE(faults(reinterpret_cast<std::byte*>(first)));
  EXPECT_EQ(slot::take(first, 1).error(), errc::address);
  tests::injected.relieve();
  EXPECT_TRUE(slot::take(first + granule_bytes, 1)) << last_message();
  EXPECT_TRUE(faults(reinterpret_cast<std::byte*>(first)));
  EXPECT_TRUE(slot::take(first, 1)) << last_message();
}

TEST(slot, of_the_whole_window_can_be_taken) {
  auto all = slot::take(first, window_bytes);
  ASSERT_TRUE(all) << last_message();
  EXPECT_FALSE(slot::take(first + window_bytes - granule_bytes, 1));
}

TEST(slot, that_moves_is_given_back_once) {
  auto a = slot::take(first, 1);
  ASSERT_TRUE(a);
  slot b{std::move(*a)};
  EXPECT_EQ(a->base(), nullptr);
  EXPECT_EQ(b.base(), reinterpret_cast<std::byte*>(first));
  slot c;
  c = std::move(b);
  EXPECT_EQ(slot::take(first, 1).error(), errc::address);
  c.give_back();
  c.give_back();
  EXPECT_TRUE(slot::take(first, 1));
}

TEST(mapping, shared_reaches_the_file_and_private_does_not) {
  const file f = unnamed_file();
  for (const bool shared : {true, false}) {
    auto s = slot::take(first, granule_bytes);
    ASSERT_TRUE(s) << last_message();
    ASSERT_TRUE(shared ? s->map_shared(f.descriptor(), granule_bytes) : s->map_private(f.descriptor(), granule_bytes))
        << last_message();
    const char value = shared ? 'S' : 'P';
    std::memset(s->base() + 100, value, 1);
    char in_file = 0;
    ASSERT_TRUE(f.read(100, &in_file, 1));
    EXPECT_EQ(in_file, 'S');
  }
}

TEST(mapping, beyond_the_end_of_the_file_faults_until_the_file_has_grown) {
  const file f = unnamed_file();
  auto s = slot::take(first, granule_bytes);
  ASSERT_TRUE(s) << last_message();
  ASSERT_TRUE(s->map_shared(f.descriptor(), granule_bytes)) << last_message();
  EXPECT_FALSE(faults(s->base()));
  EXPECT_TRUE(faults(s->base() + 4096));
  ASSERT_TRUE(f.allocate(4096, 4096));
  EXPECT_FALSE(faults(s->base() + 4096));
}

TEST(mapping, that_goes_away_leaves_the_reservation) {
  const file f = unnamed_file();
  std::byte* base = nullptr;
  {
    auto s = slot::take(first, granule_bytes);
    ASSERT_TRUE(s) << last_message();
    ASSERT_TRUE(s->map_shared(f.descriptor(), granule_bytes));
    base = s->base();
    EXPECT_FALSE(faults(base));
  }
  EXPECT_TRUE(faults(base));
  void* const got = ::mmap(base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(got, MAP_FAILED);
  if (got != MAP_FAILED) ::munmap(got, 4096);
}

TEST(mapping, that_fails_leaves_the_reservation_and_says_why) {
  auto s = slot::take(first, granule_bytes);
  ASSERT_TRUE(s) << last_message();
  EXPECT_EQ(s->map_shared(-1, granule_bytes).error(), errc::system);
  EXPECT_EQ(errno, EBADF);
  EXPECT_NE(std::strstr(last_message(), "cannot map"), nullptr);
  EXPECT_TRUE(faults(s->base()));
}

TEST(mapping, with_MAP_SYNC_is_refused_where_stores_need_more_than_write_back) {
  const file f = unnamed_file();
  if (*f.file_system() == file_system_kind::dax) GTEST_SKIP() << "temporary folder is DAX";
  auto s = slot::take(first, granule_bytes);
  ASSERT_TRUE(s) << last_message();
  EXPECT_EQ(s->map_shared_sync(f.descriptor(), granule_bytes).error(), errc::medium);
  EXPECT_NE(std::strstr(last_message(), "MAP_SYNC"), nullptr) << last_message();
}

TEST(mapping, is_not_inherited_by_a_child) {
  const file f = unnamed_file();
  auto s = slot::take(first, granule_bytes);
  ASSERT_TRUE(s) << last_message();
  ASSERT_TRUE(s->map_shared(f.descriptor(), granule_bytes));
  EXPECT_EQ(in_child([&] {
              if (!faults(s->base())) return 1;
              s->give_back_in_child();
              // Reserved again: no other memory comes here, a pool of the child may.
              if (::mmap(reinterpret_cast<void*>(first), 4096, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
                return 2;
              auto own = slot::take(first, granule_bytes);
              if (!own || !own->map_shared(f.descriptor(), granule_bytes)) return 3;
              return faults(own->base()) ? 4 : 0;
            }),
            0);
  EXPECT_FALSE(faults(s->base()));
}

}  // namespace
}  // namespace nvm::platform
