// Pages that are filled when they are first touched: contents come as a whole, a page given back is requested again,
// and a message names what a system lacks.
#include "platform/user_faults.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "platform/platform.hpp"

namespace nvm::platform {
namespace {

constexpr std::uint64_t bytes = 16 * 4096;

// Pages of a file in memory that exist, and are put right through the other mapping before a thread sees them.
TEST(unshown_pages, are_put_right_before_a_thread_sees_them) {
  auto taken = slot::take(window_base, bytes);
  ASSERT_TRUE(taken) << last_message();
  const int file = memfd_create("unshown", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, bytes), 0);
  ASSERT_TRUE(taken->map_shared(file, bytes)) << last_message();
  std::byte* const base = taken->base();
  for (unsigned page = 0; page < 15; ++page) base[page * 4096] = std::byte(page + 1);  // the last is a hole
  {
    auto faults = user_faults::open_shared(base, bytes, file, 4096);
    if (!faults) GTEST_SKIP() << last_message();
    std::atomic<unsigned> answered{0};
    std::thread answering{[&] {
      std::array<user_faults::fault, 4> waiting;
      while (const std::size_t n = faults->wait(waiting)) {
        for (std::size_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(waiting[i].page - base);
          if (faults->twin()[at] < std::byte{100}) faults->twin()[at] |= std::byte{128};
          ++answered;
          (void)faults->show(waiting[i].page);
        }
      }
    }};
    EXPECT_EQ(base[0], std::byte{1});  // was not hidden
    EXPECT_EQ(answered, 0U);
    for (unsigned page = 1; page < 8; ++page) EXPECT_EQ(base[page * 4096], std::byte(page + 1 + 128)) << page;
    EXPECT_EQ(base[15 * 4096], std::byte{0});
    base[2 * 4096] = std::byte{7};  // shown is shown
    EXPECT_EQ(base[2 * 4096], std::byte{7});
    EXPECT_GE(answered, 7U);
    EXPECT_LE(answered, 8U);
    faults->show_all();
    EXPECT_EQ(base[10 * 4096], std::byte{11});
    faults->stop();
    answering.join();
  }
  EXPECT_EQ(base[12 * 4096], std::byte{13});
  close(file);
}

// Holes of a file in memory are brought, stores to what was brought protected wait, also when the mapping has lost
// sight of it in between, and what the file gives back is asked for again.
TEST(swapped_pages, are_brought_when_they_are_missing_and_say_when_they_are_stored_to) {
  auto taken = slot::take(window_base, bytes);
  ASSERT_TRUE(taken) << last_message();
  const int descriptor = memfd_create("swapped", MFD_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(ftruncate(descriptor, bytes), 0);
  ASSERT_TRUE(taken->map_shared(descriptor, bytes, 4096)) << last_message();
  std::byte* const base = taken->base();
  base[0] = std::byte{1};  // accessible before
  {
    auto faults = user_faults::open_swapped(base + 4096, bytes - 4096, true);
    if (!faults) GTEST_SKIP() << last_message();
    ASSERT_TRUE(taken->show(bytes)) << last_message();
    std::atomic<unsigned> missing{0}, stored{0};
    std::thread answering{[&] {
      std::array<user_faults::fault, 4> waiting;
      const std::vector<std::byte> contents(2 * 4096, std::byte{7});
      while (const std::size_t n = faults->wait(waiting)) {
        for (std::size_t i = 0; i < n; ++i) {
          if (waiting[i].is_there) {
            ++stored;
            faults->unprotect(waiting[i].page, 1);
          } else {
            ++missing;
            EXPECT_EQ(faults->install(waiting[i].page, contents.data(), 2, !waiting[i].to_store),
                      user_faults::outcome::installed);
          }
        }
      }
    }};
    EXPECT_EQ(base[4096], std::byte{7});
    EXPECT_EQ(base[2 * 4096 + 5], std::byte{7});  // came along
    EXPECT_EQ(missing, 1U);
    ASSERT_TRUE(drop_private_pages(base + 4096, 4096));
    base[4096] = std::byte{8};
    EXPECT_EQ(stored, 1U);
    base[4096] = std::byte{9};
    EXPECT_EQ(stored, 1U);
    base[4 * 4096] = std::byte{3};  // missing, to be stored to
    EXPECT_EQ(missing, 2U);
    EXPECT_EQ(stored, 1U);
    ASSERT_TRUE(faults->protect(base + 4096, 1));
    base[4096] = std::byte{10};
    EXPECT_EQ(stored, 2U);
    ASSERT_EQ(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
    EXPECT_EQ(faults->install_zeros(base + 8 * 4096, 2), user_faults::outcome::installed);
    EXPECT_EQ(base[9 * 4096], std::byte{0});
    EXPECT_EQ(missing, 2U);
    faults->stop();
    answering.join();
  }
  EXPECT_EQ(base[4096], std::byte{0});  // a hole is one again
  EXPECT_EQ(base[2 * 4096], std::byte{7});
  close(descriptor);
}

// A file on a disk is none in memory, and its mapping stays as it was.
TEST(unshown_pages, need_a_file_in_memory) {
  auto taken = slot::take(window_base, bytes);
  ASSERT_TRUE(taken) << last_message();
  char name[] = "/var/tmp/holdfast-unshown-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  ASSERT_EQ(ftruncate(file, bytes), 0);
  ASSERT_TRUE(taken->map_shared(file, bytes)) << last_message();
  taken->base()[5 * 4096] = std::byte{9};
  auto faults = user_faults::open_shared(taken->base(), bytes, file, 4096);
  if (faults) GTEST_SKIP() << "/var/tmp is in memory";
  EXPECT_EQ(faults.error(), errc::system);
  EXPECT_EQ(taken->base()[5 * 4096], std::byte{9});
  close(file);
}

class user_faults_test : public ::testing::Test {
 protected:
  void SetUp() override {
    auto taken = slot::take(window_base, bytes);
    ASSERT_TRUE(taken) << last_message();
    slot_ = std::move(*taken);
  }
  void open() {
    auto opened = user_faults::open(slot_.base(), bytes);
    if (!opened) GTEST_SKIP() << last_message();
    faults_.emplace(std::move(*opened));
  }
  // Answers each fault by a page of `fill`.
  void answer(unsigned threads, int fill) {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this, fill] {
        std::array<user_faults::fault, 4> waiting;
        std::vector<std::byte> contents(4096, std::byte(fill));
        while (const std::size_t n = faults_->wait(waiting)) {
          for (std::size_t k = 0; k < n; ++k) {
            ++answered_;
            if (faults_->install(waiting[k].page, contents.data()) != user_faults::outcome::installed) {
              faults_->wake(waiting[k].page);
            }
          }
        }
      });
    }
  }
  void TearDown() override {
    if (!threads_.empty()) faults_->stop();
    for (auto& t : threads_) t.join();
  }
  [[nodiscard]] std::byte* page(std::uint64_t n) const { return slot_.base() + n * 4096; }
  [[nodiscard]] int load(std::uint64_t n) const {
    return std::to_integer<int>(*static_cast<const volatile std::byte*>(page(n)));
  }

  slot slot_;
  std::optional<user_faults> faults_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> answered_{0};
};

template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(30);  // a child that hangs is a failure
    ::_exit(f());
  }
  int wait_status = 0;
  ::waitpid(pid, &wait_status, 0);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

TEST_F(user_faults_test, a_touched_page_has_the_contents_that_were_installed) {
  open();
  if (IsSkipped()) return;
  answer(1, 7);
  for (std::uint64_t n = 0; n < 16; ++n) EXPECT_EQ(load(n), 7);
  for (std::uint64_t n = 0; n < 16; ++n) EXPECT_EQ(load(n), 7);
  EXPECT_EQ(answered_.load(), 16U);
}

TEST_F(user_faults_test, a_page_that_was_given_back_is_asked_for_again) {
  open();
  if (IsSkipped()) return;
  answer(2, 9);
  *page(3) = std::byte{1};
  EXPECT_EQ(load(3), 1);
  ASSERT_TRUE(drop_private_pages(page(3), 4096)) << last_message();
  EXPECT_EQ(load(3), 9);
}

TEST_F(user_faults_test, a_page_may_be_installed_before_anybody_touches_it) {
  open();
  if (IsSkipped()) return;
  const std::vector<std::byte> contents(4096, std::byte{5});
  EXPECT_EQ(faults_->install(page(0), contents.data()), user_faults::outcome::installed);
  EXPECT_EQ(faults_->install(page(0), contents.data()), user_faults::outcome::present);
  EXPECT_EQ(faults_->install_zeros(page(1)), user_faults::outcome::installed);
  EXPECT_EQ(faults_->install_zeros(page(1)), user_faults::outcome::present);
  EXPECT_EQ(load(0), 5);
  EXPECT_EQ(load(1), 0);
  *page(1) = std::byte{2};
  EXPECT_EQ(load(1), 2);
  faults_->wake(page(1));
}

TEST_F(user_faults_test, a_fault_says_whether_it_is_for_a_store) {
  open();
  if (IsSkipped()) return;
  std::array<user_faults::fault, 1> waiting;
  std::thread storing{[this] { *page(2) = std::byte{1}; }};
  ASSERT_EQ(faults_->wait(waiting), 1U);
  EXPECT_EQ(waiting[0].page, page(2));
  EXPECT_TRUE(waiting[0].to_store);
  EXPECT_EQ(faults_->install_zeros(page(2)), user_faults::outcome::installed);
  storing.join();
  std::thread loading{[this] { (void)load(4); }};
  ASSERT_EQ(faults_->wait(waiting), 1U);
  EXPECT_EQ(waiting[0].page, page(4));
  EXPECT_FALSE(waiting[0].to_store);
  EXPECT_EQ(faults_->install_zeros(page(4)), user_faults::outcome::installed);
  loading.join();
}

TEST_F(user_faults_test, every_thread_that_waits_is_stopped) {
  open();
  if (IsSkipped()) return;
  answer(3, 1);
  faults_->stop();
  for (auto& t : threads_) t.join();
  threads_.clear();
  std::array<user_faults::fault, 1> waiting;
  EXPECT_EQ(faults_->wait(waiting), 0U);
}

TEST_F(user_faults_test, addresses_are_reserved_again_at_the_end) {
  open();
  if (IsSkipped()) return;
  faults_.reset();
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(page(0), 4096, &resident), 0) << "the range is not mapped";
  EXPECT_EQ(in_child([this] {
              ::signal(SIGSEGV, SIG_DFL);
              return load(0);
            }),
            1000 + SIGSEGV);
}

TEST_F(user_faults_test, a_forked_child_that_touches_a_page_does_not_wait) {
  open();
  if (IsSkipped()) return;
  const std::vector<std::byte> contents(4096, std::byte{5});
  ASSERT_EQ(faults_->install(page(0), contents.data()), user_faults::outcome::installed);
  for (const std::uint64_t n : {0, 1}) {
    EXPECT_EQ(in_child([this, n] {
                ::signal(SIGSEGV, SIG_DFL);
                return load(n);
              }),
              1000 + SIGSEGV);
  }
  EXPECT_EQ(in_child([this] {
              faults_->forget_in_child();
              return 0;
            }),
            0);
  EXPECT_EQ(load(0), 5);
}

// Without rights the process has faults of its own instructions, and system calls say EFAULT.
TEST_F(user_faults_test, without_rights_system_calls_need_pages_that_are_there) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give up rights";
  const int result = in_child([this] {
    if (::setuid(65534) != 0) return 90;
    auto opened = user_faults::open(slot_.base(), bytes);
    if (!opened) {
      std::printf("%s\n", last_message());
      return 91;
    }
    if (opened->in_system_calls()) return 92;  // vm.unprivileged_userfaultfd is 1
    const int null = ::open("/dev/zero", O_RDWR);
    int pipes[2];
    if (null < 0 || ::pipe(pipes) != 0) return 93;
    if (::write(pipes[1], page(0), 8) != -1 || errno != EFAULT) return 94;
    if (opened->install_zeros(page(0)) != user_faults::outcome::installed) return 95;
    return ::write(pipes[1], page(0), 8) == 8 ? 0 : 96;
  });
  if (result == 91 || result == 92) GTEST_SKIP() << "this system grants all or nothing";
  EXPECT_EQ(result, 0);
}

// As a filter of system calls in a container may do.
TEST_F(user_faults_test, what_is_not_permitted_is_an_error_with_a_reason) {
  const int result = in_child([this] {
    constexpr auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
    std::array<sock_filter, 5> filter{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    }};
    const sock_fprog program{filter.size(), filter.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 90;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 91;
    const auto opened = user_faults::open(slot_.base(), bytes);
    if (opened || opened.error() != errc::system) return 92;
    if (std::strstr(last_message(), "userfaultfd is not permitted") == nullptr) return 93;
    return 0;
  });
  if (result == 91) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace nvm::platform
