// Memory of files that loses pages: zeros inside a call, which later reports the loss; SIGBUS for the program, or its
// own handler; stores do not reach the file any more.
#include "platform/lost_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../scratch_folder.hpp"
#include "platform/descriptor.hpp"
#include "platform/map.hpp"
#include "platform/threads.hpp"

namespace nvm::tests {
namespace {

using platform::in_call;
using platform::out_of_call;
using platform::watched_memory;

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 8;

// A file of pages that hold their number and 1, mapped and watched.
class mapped_file {
 public:
  explicit mapped_file(bool shared = true, std::size_t count = pages) : count_{count} {
    descriptor_ = platform::open_descriptor(path_.c_str(), O_RDWR | O_CREAT, 0600);
    std::vector<std::byte> all(count * page);
    for (std::size_t i = 0; i < count; ++i) std::memset(all.data() + i * page, static_cast<int>(i + 1), page);
    EXPECT_EQ(::pwrite(descriptor_, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, all.size(), PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, descriptor_, 0));
    EXPECT_NE(base_, MAP_FAILED);
    watch(shared);
  }
  ~mapped_file() {
    memory.stop();
    ::munmap(base_, count_ * page);
    ::close(descriptor_);
  }
  mapped_file(const mapped_file&) = delete;

  void watch(bool shared) {
    EXPECT_TRUE(memory.start({base_, count_ * page, count_ * page, descriptor_, path_.c_str(), shared}));
  }
  void cut(std::size_t bytes) const { EXPECT_EQ(::ftruncate(descriptor_, static_cast<off_t>(bytes)), 0); }
  // As if the device had lost it.
  void lose(std::size_t i) const {
    const int empty = platform::open_empty_file("holdfast lost page");
    EXPECT_NE(::mmap(at(i), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, empty, 0), MAP_FAILED);
    ::close(empty);
  }
  [[nodiscard]] std::byte* at(std::size_t i) const { return base_ + i * page; }
  [[nodiscard]] int load(std::size_t i) const { return static_cast<int>(*static_cast<volatile std::byte*>(at(i))); }
  void store(std::size_t i, int value) const { *static_cast<volatile std::byte*>(at(i)) = std::byte(value); }
  [[nodiscard]] int in_file(std::size_t i) const {
    unsigned char byte = 0;
    EXPECT_EQ(::pread(descriptor_, &byte, 1, static_cast<off_t>(i * page)), 1);
    return byte;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

  watched_memory memory;

 private:
  scratch_folder folder_{"lost", false};
  std::string path_ = folder_.path("file");
  std::size_t count_;
  int descriptor_ = -1;
  std::byte* base_ = nullptr;
};

struct ending {
  int how = 0;  // as waitpid() gives it
  std::string printed;
  [[nodiscard]] bool by_bus() const { return WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS; }
  [[nodiscard]] bool returned() const { return WIFEXITED(how) && WEXITSTATUS(how) == 0; }
};
// f() in a process of its own, which has the default action of SIGBUS before.
template <class F>
ending in_child(F&& f) {
  int ends[2];
  EXPECT_EQ(platform::open_pipe(ends), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // sanitizers have handlers that tell stories
    ::dup2(ends[1], STDERR_FILENO);
    ::alarm(30);
    f();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ::close(ends[1]);
  ending e;
  char part[512];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;)
    e.printed.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, &e.how, 0), child);
  return e;
}

TEST(lost_pages, are_zeros_inside_of_a_call_which_can_ask) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(2 * page + 100);
    const in_call here;
    EXPECT_FALSE(platform::any_lost());
    EXPECT_EQ(file.load(1), 2);
    EXPECT_FALSE(file.memory.lost());
    EXPECT_EQ(file.load(5), 0);
    EXPECT_TRUE(file.memory.lost());
    EXPECT_TRUE(platform::any_lost());
    EXPECT_TRUE(platform::call_was_struck());
    EXPECT_STREQ(file.memory.why(), "the page at offset 20480 is lost: the file was cut off to 8292 bytes");
    file.store(6, 9);
    EXPECT_EQ(file.load(6), 9);
    EXPECT_EQ(file.load(2), 3);  // the end of the file is in it
  });
  EXPECT_TRUE(e.returned()) << e.printed;
  EXPECT_EQ(e.printed, "");
}

TEST(lost_pages, keep_whatever_is_stored_afterwards_from_the_file) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(4 * page);
    const in_call here;
    file.store(0, 50);
    EXPECT_EQ(file.in_file(0), 50);
    EXPECT_EQ(file.load(7), 0);
    file.store(0, 60);
    file.store(1, 60);
    EXPECT_EQ(file.load(0), 60);
    EXPECT_EQ(file.in_file(0), 50);
    EXPECT_EQ(file.in_file(1), 2);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, leave_what_a_private_mapping_has) {
  const ending e = in_child([] {
    const mapped_file file{false};
    file.store(0, 50);
    file.cut(4 * page);
    const in_call here;
    EXPECT_EQ(file.load(7), 0);
    EXPECT_EQ(file.load(0), 50);
    EXPECT_EQ(file.in_file(0), 1);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, are_no_zeros_for_the_program) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(page);
    (void)file.load(3);
  });
  EXPECT_TRUE(e.by_bus()) << e.how << e.printed;
  EXPECT_NE(e.printed.find("/file: the program has touched what it cannot have: the page at offset 12288 is lost: the "
                           "file was cut off to 4096 bytes\n"),
            std::string::npos)
      << e.printed;
  const ending after = in_child([] {
    const mapped_file file;
    file.cut(page);
    {
      const in_call here;
      EXPECT_EQ(file.load(3), 0);
      const in_call inner;
      file.store(3, 7);
    }
    std::fputs("after\n", stderr);
    (void)file.load(3);
    std::fputs("zeros\n", stderr);
  });
  EXPECT_TRUE(after.by_bus()) << after.how << after.printed;
  EXPECT_EQ(after.printed.rfind("after\nholdfast: ", 0), 0U) << after.printed;
  EXPECT_EQ(after.printed.find("zeros"), std::string::npos);
}

TEST(lost_pages, are_no_zeros_for_a_function_of_the_program_inside_of_a_call) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(page);
    const in_call here;
    EXPECT_EQ(file.load(3), 0);
    const out_of_call theirs;
    std::fputs("theirs\n", stderr);
    (void)file.load(3);
  });
  EXPECT_TRUE(e.by_bus()) << e.how << e.printed;
  EXPECT_EQ(e.printed.rfind("theirs\nholdfast: ", 0), 0U) << e.printed;
}

TEST(lost_pages, in_a_call_that_goes_on_after_a_function_of_the_program_are_zeros_again) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(page);
    {
      const in_call here;
      EXPECT_EQ(file.load(3), 0);
      {
        const out_of_call theirs;
      }
      EXPECT_TRUE(platform::call_was_struck());
      EXPECT_EQ(file.load(3), 0);
    }
    const in_call next;
    EXPECT_FALSE(platform::call_was_struck());
    EXPECT_EQ(file.load(4), 0);
    EXPECT_TRUE(platform::call_was_struck());
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, of_which_there_are_many_are_zeros_all) {
  const ending e = in_child([] {
    constexpr std::size_t many = 300;
    const mapped_file file{true, many};
    const in_call here;
    file.lose(0);
    EXPECT_EQ(file.load(0), 0);  // the file is left, which maps it anew
    for (std::size_t i = 1; i < many; i += 2) file.lose(i);
    for (std::size_t i = 1; i < many; i += 2) EXPECT_EQ(file.load(i), 0) << i;
    EXPECT_NE(std::string{file.memory.why()}.find("its device cannot read it"), std::string::npos);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, that_another_thread_has_met_are_told_to_all) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(page);
    const in_call here;
    EXPECT_EQ(file.load(3), 0);
    std::thread{[&] {
      const in_call theirs;
      EXPECT_EQ(file.load(3), 0);
      EXPECT_TRUE(platform::any_lost() && file.memory.lost());
    }}.join();
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, end_no_thread_that_takes_no_signals) {
  const ending e = in_child([] {
    const mapped_file file;
    file.cut(page);
    const platform::signals_blocked quiet;
    std::thread{[&] {
      const in_call here;
      EXPECT_EQ(file.load(3), 0);
    }}.join();
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, are_forgotten_with_the_memory) {
  const ending e = in_child([] {
    {
      const mapped_file file;
      file.cut(page);
      const in_call here;
      EXPECT_EQ(file.load(3), 0);
      EXPECT_TRUE(platform::any_lost());
    }
    EXPECT_FALSE(platform::any_lost());
    const mapped_file file;
    const in_call here;
    EXPECT_EQ(file.load(3), 4);
    EXPECT_FALSE(platform::any_lost());
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

// ---- handlers of the program ----

sigjmp_buf back;
const void* volatile touched = nullptr;
volatile int handled = 0;

void jump(int) {
  handled = handled + 1;
  siglongjmp(back, 1);
}
void jump_with_info(int, siginfo_t* info, void*) {
  handled = handled + 1;
  touched = info->si_addr;
  siglongjmp(back, 1);
}
void install(void (*call)(int)) {
  struct sigaction a{};
  a.sa_handler = call;
  EXPECT_EQ(::sigaction(SIGBUS, &a, nullptr), 0);
}
// Whether a load there is SIGBUS, with a handler that jumps back.
bool faults(const std::byte* p) {
  if (sigsetjmp(back, 1) != 0) return true;
  (void)*static_cast<const volatile std::byte*>(p);
  return false;
}

TEST(lost_pages, are_handed_to_a_handler_that_the_program_has_had_before) {
  const ending e = in_child([] {
    struct sigaction a{};
    a.sa_sigaction = jump_with_info;
    a.sa_flags = SA_SIGINFO;
    EXPECT_EQ(::sigaction(SIGBUS, &a, nullptr), 0);
    const mapped_file file;
    file.cut(page);
    const mapped_file unknown;
    for (int i = 1; i <= 3; ++i) {  // each time with the signals as they were
      EXPECT_TRUE(faults(file.at(3) + 5));
      EXPECT_EQ(touched, file.at(3) + 5);
      EXPECT_EQ(handled, i);
    }
    EXPECT_TRUE(file.memory.lost());
    const in_call here;
    EXPECT_EQ(file.load(4), 0);
    EXPECT_EQ(handled, 3);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
  EXPECT_NE(e.printed.find("holdfast: "), std::string::npos);
}

TEST(lost_pages, of_memory_that_is_not_watched_are_none_of_ours) {
  const ending e = in_child([] {
    install(jump);
    mapped_file file;
    file.memory.stop();
    file.cut(page);
    const in_call here;
    EXPECT_TRUE(faults(file.at(3)));
    EXPECT_EQ(handled, 1);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
  EXPECT_EQ(e.printed, "");
  const ending plain = in_child([] {
    mapped_file file;
    file.memory.stop();
    file.cut(page);
    const in_call here;
    (void)file.load(3);
  });
  EXPECT_TRUE(plain.by_bus()) << plain.how;
}

struct sigaction before_ours;
TEST(lost_pages, are_served_by_a_handler_that_another_one_passes_on_to) {
  const ending e = in_child([] {
    const mapped_file file;
    struct sigaction a{};
    a.sa_flags = SA_SIGINFO;
    a.sa_sigaction = [](int number, siginfo_t* info, void* context) {
      handled = handled + 1;
      before_ours.sa_sigaction(number, info, context);
    };
    EXPECT_EQ(::sigaction(SIGBUS, &a, &before_ours), 0);
    const mapped_file another;  // which does not put ours before it: they would call each other for ever
    file.cut(page);
    another.cut(page);
    {
      const in_call here;
      EXPECT_EQ(file.load(3), 0);
      EXPECT_EQ(another.load(3), 0);
      EXPECT_EQ(handled, 2);
    }
    (void)file.load(3);
  });
  EXPECT_TRUE(e.by_bus()) << e.how << e.printed;
}

TEST(lost_pages, are_served_again_when_somebody_has_put_the_former_handler_back) {
  const ending e = in_child([] {
    install(jump);
    const mapped_file first;
    install(jump);
    const mapped_file file;
    first.cut(page);
    file.cut(page);
    const in_call here;
    EXPECT_EQ(first.load(3), 0);
    EXPECT_EQ(file.load(3), 0);
    EXPECT_EQ(handled, 0);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

TEST(lost_pages, are_told_from_a_signal_that_somebody_sends) {
  const ending e = in_child([] {
    const mapped_file file;
    const in_call here;
    ::raise(SIGBUS);
  });
  EXPECT_TRUE(e.by_bus()) << e.how << e.printed;
  const ending ignored = in_child([] {
    ::signal(SIGBUS, SIG_IGN);
    const mapped_file file;
    ::raise(SIGBUS);
  });
  EXPECT_TRUE(ignored.returned()) << ignored.how << ignored.printed;
}

TEST(lost_pages, of_a_parent_are_not_watched_by_its_child) {
  const ending e = in_child([] {
    mapped_file file;
    file.cut(page);
    const ending child = in_child([&] {
      file.memory.forget_in_child();
      const in_call here;
      (void)file.load(3);
    });
    EXPECT_TRUE(child.by_bus()) << child.how;
    // And the child may watch memory of its own.
    const ending own = in_child([&] {
      file.memory.forget_in_child();
      const mapped_file another;
      another.cut(page);
      const in_call here;
      EXPECT_EQ(another.load(3), 0);
    });
    EXPECT_TRUE(own.returned()) << own.printed;
    const in_call here;
    EXPECT_EQ(file.load(3), 0);
  });
  EXPECT_TRUE(e.returned()) << e.printed;
}

}  // namespace
}  // namespace nvm::tests
