// Home pages show the heap's contents after any touches, commits, stores in place and drops.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <fstream>
#include <thread>

#include "ground.hpp"
#include "page_ground.hpp"

namespace {
std::atomic<unsigned> pages_refused{0};  // the next pages that the system has no memory for
}  // namespace

// Comes before the C library's.
extern "C" int ioctl(int descriptor, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == UFFDIO_COPY) {
    for (unsigned left = pages_refused.load(); left != 0;) {
      if (!pages_refused.compare_exchange_weak(left, left - 1)) continue;
      errno = ENOMEM;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_ioctl, descriptor, request, argument));
}

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::page;
using testing::page_ground;
using testing::reserved_range;

constexpr home_t first = page_ground::first;

TEST(home_pages, shows_what_the_heap_has_when_it_is_touched) {
  PAGE_GROUND(g);
  EXPECT_EQ(g->statistics().pages, 0U);
  g.fill(first + 100, 5000, 3);
  EXPECT_EQ(g->statistics().pages, 0U) << "a commit to absent pages builds nothing";
  EXPECT_EQ(g.load(first + 99), 0);
  EXPECT_EQ(g.load(first + 100), 3);
  EXPECT_EQ(g.load(first + 5099), 3);
  EXPECT_EQ(g.load(first + 5100), 0);
  EXPECT_EQ(g->statistics().pages, 2U);
  EXPECT_EQ(g->statistics().built, 2U);
  EXPECT_EQ(g->statistics().faults, 2U);
}

// As many as were there before it in a row, so twice as many each time.
TEST(home_pages, who_reads_upward_waits_less_and_less_often) {
  PAGE_GROUND(g, 64, 0, 1, 16);
  for (std::uint64_t p = 0; p < 64; ++p) g.fill(first + p * page, page, static_cast<int>(p + 1));
  const auto load = [&](std::uint64_t p, std::uint64_t pages) {
    EXPECT_EQ(g.load(first + p * page), static_cast<int>(p + 1));
    while (g->statistics().pages < pages) std::this_thread::yield();
  };
  load(0, 1);
  load(1, 3);
  load(3, 7);
  load(7, 15);
  load(15, 31);  // 16 at most
  load(31, 47);
  load(47, 63);
  load(63, 64);
  const home_pages_statistics s = g->statistics();
  EXPECT_EQ(s.faults, 8U);
  EXPECT_EQ(s.ahead, 56U);
  EXPECT_EQ(s.built, 64U);
  EXPECT_TRUE(g.agrees(first, 64 * page));
  EXPECT_EQ(g->check(), "");
}

TEST(home_pages, a_touch_somewhere_brings_nothing_else) {
  PAGE_GROUND(g, 512, 0, 1, 16);
  for (std::uint64_t p = 510; p > 2; p -= 2) EXPECT_EQ(g.load(first + p * page), 0);
  EXPECT_EQ(g->statistics().ahead, 0U);
  EXPECT_EQ(g->statistics().pages, 254U);
}

TEST(home_pages, nothing_is_dropped_for_a_page_that_nobody_has_touched) {
  constexpr std::uint64_t most = 64;
  PAGE_GROUND(g, 512, most * page, 1, 16);
  for (std::uint64_t p = 0; p < 512; ++p) {
    g.fill(first + p * page, page, 7);
    EXPECT_EQ(g.load(first + p * page), 7);
    EXPECT_LE(g->statistics().pages, most + 1);
  }
  EXPECT_EQ(g->check(), "");
}

TEST(home_pages, a_commit_keeps_present_pages_current) {
  PAGE_GROUND(g);
  EXPECT_EQ(g.load(first), 0);
  g.fill(first + 4000, 200, 8);  // over the end of the page that is present, into one that is not
  EXPECT_EQ(g->statistics().pages, 1U);
  EXPECT_TRUE(g.agrees(first, 2 * page));
  g->clear(first + 4010, 10);
  EXPECT_EQ(g.load(first + 4009), 8);
  EXPECT_EQ(g.load(first + 4010), 0);
  EXPECT_EQ(g.load(first + 4020), 8);
}

TEST(home_pages, a_dropped_page_is_built_again) {
  PAGE_GROUND(g);
  g.fill(first, 10 * page, 4);
  g->touch(first, 10 * page);
  EXPECT_EQ(g.resident(), 10U);
  g->drop(first + 1, 8 * page);  // whole pages only: 1 to 7
  EXPECT_EQ(g->statistics().pages, 3U);
  EXPECT_EQ(g.resident(), 3U);
  g.fill(first + 2 * page, page, 5);
  EXPECT_TRUE(g.agrees(first, 10 * page));
  EXPECT_EQ(g->statistics().pages, 10U);
  EXPECT_EQ(g->shrink(0), 0U);
  EXPECT_EQ(g.resident(), 0U);
  EXPECT_TRUE(g.agrees(first, 10 * page));
  EXPECT_EQ(g->check(), "");
}

TEST(home_pages, a_page_without_contents_takes_no_memory_until_it_is_stored_to) {
  PAGE_GROUND(g);
  EXPECT_EQ(g.load(first), 0);
  EXPECT_EQ(g->statistics().zeros, 1U);
  g.fill(first, 64, 6);
  EXPECT_TRUE(g.agrees(first, page));
  g->pin(first + page, 1);
  EXPECT_EQ(g->statistics().pages, 2U);
  g->unpin(first + page, 1);
}

TEST(home_pages, a_thread_may_build_pages_itself) {
  PAGE_GROUND(g);
  g.fill(first, 64 * page, 9);
  const home_read own = g.reader();
  g->touch(first + 10, 20 * page, &own);  // 21 pages
  EXPECT_EQ(g->statistics().pages, 21U);
  g->pin(first + 40 * page, page, &own);
  EXPECT_EQ(g->statistics().pages, 22U);
  EXPECT_EQ(g->statistics().faults, 0U);
  EXPECT_TRUE(g.agrees(first, 64 * page));
  g->unpin(first + 40 * page, page);
}

TEST(home_pages, a_pinned_page_stays_until_it_is_unpinned_as_often) {
  PAGE_GROUND(g);
  g->touch(first, 4 * page);
  g->pin(first + page - 1, 2);  // two pages
  g->pin(first + page, 8);
  g->at(first + page)[0] = std::byte{77};  // in place, not committed
  EXPECT_EQ(g->shrink(0), 2 * page);
  g->drop(first, 4 * page);
  EXPECT_EQ(g.load(first + page), 77);
  g->unpin(first + page - 1, 2);
  EXPECT_EQ(g->shrink(0), page);
  EXPECT_EQ(g.load(first + page), 77);
  g->unpin(first + page, 8);
  EXPECT_EQ(g->shrink(0), 0U);
  EXPECT_EQ(g.load(first + page), 0);
}

TEST(home_pages, shrinks_to_what_is_asked_for_and_spares_what_was_in_use_since) {
  PAGE_GROUND(g);
  g->touch(first, 200 * page);
  EXPECT_EQ(g->shrink(100 * page + 1), 100 * page);
  EXPECT_EQ(g.resident(), 100U);
  g->shrink(0);
  g->touch(first, 200 * page);
  // The hand goes round and finds all pages in use; then only those that commits stored to.
  EXPECT_EQ(g->shrink(199 * page), 199 * page);
  const std::uint64_t built = g->statistics().built;
  for (std::uint64_t n = 0; n < 200; n += 4) g.fill(first + n * page, 8, 1);
  EXPECT_EQ(g->shrink(100 * page), 100 * page);
  for (std::uint64_t n = 0; n < 200; n += 4) EXPECT_EQ(g.load(first + n * page), 1);
  EXPECT_LE(g->statistics().built, built + 1);  // the one that went first may have been one of them
  EXPECT_EQ(g->check(), "");
}

TEST(home_pages, stays_below_its_limit) {
  constexpr std::uint64_t limit = 100;
  PAGE_GROUND(g, 2048, limit * page);
  for (std::uint64_t n = 0; n < 2048; ++n) g.fill(first + n * page, page, static_cast<int>(n % 251));
  for (unsigned round = 0; round < 3; ++round) {
    for (std::uint64_t n = 0; n < 2048; n += 1 + round) {
      ASSERT_EQ(g.load(first + n * page + n), static_cast<int>(n % 251));
      ASSERT_LE(g->statistics().pages, limit);
    }
  }
  EXPECT_LE(g.resident(), limit);
  // Pins may exceed it.
  g->pin(first, 2 * limit * page);
  EXPECT_EQ(g->statistics().pages, 2 * limit);
  for (std::uint64_t n = 2 * limit; n < 2048; ++n) ASSERT_EQ(g.load(first + n * page), static_cast<int>(n % 251));
  EXPECT_LE(g->statistics().pages, 2 * limit + limit / 64 + 2);
  g->unpin(first, 2 * limit * page);
  EXPECT_EQ(g.load(first), 0);
  EXPECT_LE(g->shrink(limit * page), limit * page);
  EXPECT_EQ(g->check(), "");
}

TEST(home_pages, a_page_that_there_is_no_memory_for_is_waited_for) {
  PAGE_GROUND(g);
  g.fill(first, 80 * page, 2);
  g->touch(first, 64 * page);
  pages_refused.store(3);
  EXPECT_EQ(g.load(first + 70 * page), 2);
  EXPECT_EQ(pages_refused.load(), 0U);
  EXPECT_EQ(g->statistics().waited, 3U);
  EXPECT_LT(g->statistics().pages, 64U) << "others were to go first";
  const home_read own = g.reader();
  pages_refused.store(1);
  g->touch(first + 71 * page, 1, &own);
  EXPECT_EQ(g->statistics().waited, 4U);
  EXPECT_TRUE(g.agrees(first, 80 * page));
}

TEST(home_pages, system_calls_read_and_write_untouched_pages_or_touched_ones) {
  PAGE_GROUND(g);
  g.fill(first, 8 * page, 6);
  const int file = ::memfd_create("home_pages_test", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  const bool all = g->in_system_calls();
  const auto out = ::pwrite(file, g->at(first + 10), page, 0);
  if (all) {
    EXPECT_EQ(out, static_cast<ssize_t>(page));
  } else {
    EXPECT_EQ(out, -1);
    EXPECT_EQ(errno, EFAULT);
  }
  g->touch(first + 10, page);
  EXPECT_EQ(::pwrite(file, g->at(first + 10), page, 0), static_cast<ssize_t>(page));
  std::vector<std::byte> read(page);
  EXPECT_EQ(::pread(file, read.data(), page, 0), static_cast<ssize_t>(page));
  EXPECT_EQ(read, std::vector<std::byte>(page, std::byte{6}));
  // Into a page: a store in place.
  g->pin(first + 6 * page, 100);
  EXPECT_EQ(::pread(file, g->at(first + 6 * page), 100, 0), 100);
  g->unpin(first + 6 * page, 100);
  EXPECT_TRUE(g.agrees(first, 8 * page));
  if (all) {
    g->shrink(0);
    EXPECT_EQ(::pread(file, g->at(first + 3 * page), page, 0), static_cast<ssize_t>(page));
    EXPECT_TRUE(g.agrees(first, 8 * page));
  }
  ::close(file);
}

template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    ::alarm(30);  // a child that hangs is a failure
    ::_exit(f());
  }
  int wait_status = 0;
  ::waitpid(pid, &wait_status, 0);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

TEST(home_pages, a_forked_child_has_none_and_does_not_hang) {
  PAGE_GROUND(g);
  g.fill(first, page, 1);
  EXPECT_EQ(g.load(first), 1);
  EXPECT_EQ(in_child([&] { return g.load(first); }), 1000 + SIGSEGV);
  EXPECT_EQ(in_child([&] { return g.load(first + page); }), 1000 + SIGSEGV);
  EXPECT_EQ(in_child([&] {
              g->forget_in_child();
              g.close();
              return 3;
            }),
            3);
  EXPECT_EQ(in_child([&] {
              g.close();
              return 4;
            }),
            4);
  // The parent's go on.
  EXPECT_EQ(g.load(first), 1);
  EXPECT_EQ(g.load(first + 9 * page), 0);
}

std::uint64_t resident_bytes() {
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  std::ifstream{"/proc/self/statm"} >> all >> resident;
  return resident * page;
}

TEST(home_pages, of_a_large_home_space_take_memory_for_what_is_touched) {
  constexpr std::uint64_t bytes = std::uint64_t{1} << 36;
  const reserved_range range{bytes};
  home_pages_settings s;
  s.base = range.base();
  s.first = first;
  s.bytes = bytes;
  const std::uint64_t before = resident_bytes();
  auto opened = home_pages::open(
      s, {[](home_t home, std::byte* to, std::uint64_t size) { std::memset(to, static_cast<int>(home >> 30), size); }});
  if (!opened) GTEST_SKIP() << last_message();
  home_pages& pages = **opened;
  std::mt19937_64 random{5};
  for (unsigned i = 0; i < 200; ++i) {
    const home_t home = first + random() % bytes;
    ASSERT_EQ(*pages.at(home), std::byte(home >> 30));
  }
  EXPECT_EQ(pages.statistics().pages, 200U);
  EXPECT_LT(resident_bytes(), before + (std::uint64_t{4} << 20));
  pages.drop(first, bytes / 2);
  EXPECT_LT(pages.statistics().pages, 150U);
  EXPECT_EQ(pages.shrink(10 * page), 10 * page);
  EXPECT_EQ(pages.check(), "");
}

// In each step something is stored, committed or called off, dropped or looked at; the model is the heap.
TEST(home_pages, agree_with_the_heap_whatever_comes_and_goes) {
  constexpr std::uint64_t pages = 1500;
  PAGE_GROUND(g, pages, 300 * page);
  std::mt19937_64 random{7};
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  const home_read own = g.reader();
  std::vector<std::byte> bytes;
  std::vector<std::byte> before;
  for (unsigned step = 0; step < 20'000; ++step) {
    // Mostly in some places.
    const home_t at = first + (pick(3) != 0 ? pick(64 * page) : pick(g.bytes() - 3 * page));
    const std::uint64_t size = 1 + (pick(4) == 0 ? pick(3 * page) : pick(200));
    bytes.resize(size);
    for (auto& b : bytes) b = std::byte(random());
    switch (pick(10)) {
      case 0:
      case 1:
        g.commit(at, bytes.data(), size);
        break;
      case 2:  // in place
      case 3: {
        g->pin(at, size, pick(2) == 0 ? &own : nullptr);
        before.assign(g->at(at), g->at(at) + size);
        std::memcpy(g->at(at), bytes.data(), size);
        if (pick(4) == 0) g->shrink(pick(300) * page);
        ASSERT_EQ(std::memcmp(g->at(at), bytes.data(), size), 0);
        if (pick(2) == 0) {
          isolation::copy_in(g.in_heap(at), bytes.data(), size);
        } else {
          std::memcpy(g->at(at), before.data(), size);
        }
        g->unpin(at, size);
        break;
      }
      case 4:
        g->drop(at, size);
        break;
      case 5:
        if (pick(20) == 0) g->shrink(pick(300) * page);
        break;
      case 6:
        g->touch(at, size, pick(2) == 0 ? &own : nullptr);
        break;
      default:
        ASSERT_TRUE(g.agrees(at, size)) << "step " << step;
    }
  }
  EXPECT_EQ(g->check(), "");
  EXPECT_EQ(g.resident(), g->statistics().pages);
  EXPECT_TRUE(g.agrees(first, g.bytes()));
  EXPECT_GT(g->statistics().dropped, 1000U);
}

// ---- over the heap ----

template <class Kind>
class home_pages_over : public ::testing::Test {};
using kinds_with_pages = ::testing::Types<testing::leaves, testing::skip_lists<mapping_step::lock_free_readers>>;
TYPED_TEST_SUITE(home_pages_over, kinds_with_pages);

// Random stores in place, which the heap takes from the pages; sometimes they are taken back instead.
template <class Kind>
void change_in_place(ground<Kind>& g, home_pages& pages, home_t home, std::vector<std::byte>& content,
                     std::mt19937_64& random, const home_read* own) {
  const std::uint64_t size = content.size();
  pages.pin(home, size, own);
  std::byte* const at = pages.at(home);
  ASSERT_EQ(std::memcmp(at, content.data(), size), 0);
  const std::vector<std::byte> old(at, at + size);
  for (std::uint64_t i = 0; i < size; ++i) at[i] = std::byte(random());
  if (random() % 3 == 0) {
    std::memcpy(at, old.data(), size);
  } else {
    const typename ground<Kind>::heap_type::store_range r{home, at, size};
    ASSERT_TRUE(g->commit(g.thread(), {{&r, 1}, {}, {}})) << last_message();
    content.assign(at, at + size);
  }
  pages.unpin(home, size);
}

TYPED_TEST(home_pages_over, a_heap_they_show_its_objects) {
  heap_settings settings = testing::small_settings();
  settings.home_bytes = std::uint64_t{1} << 24;
  ground<TypeParam> g{512, settings};
  const reserved_range range{settings.home_bytes};
  auto* const reading = *g->join();
  home_pages_settings s;
  s.base = range.base();
  s.first = settings.home_first;
  s.bytes = settings.home_bytes;
  s.bytes_max = 80 * page;
  auto opened =
      home_pages::open(s, {[&](home_t home, std::byte* to, std::uint64_t size) { g->read(*reading, home, to, size); }});
  if (!opened) GTEST_SKIP() << last_message();
  home_pages& pages = **opened;
  const home_read own = [&](home_t home, std::byte* to, std::uint64_t size) { g->read(g.thread(), home, to, size); };

  std::mt19937_64 random{3};
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  std::map<home_t, std::vector<std::byte>> model;
  const auto any = [&] { return std::next(model.begin(), static_cast<std::ptrdiff_t>(pick(model.size()))); };
  for (unsigned step = 0; step < 4000; ++step) {
    typename ground<TypeParam>::transaction_type t{*g, g.thread()};
    if (model.size() < 20 || (model.size() < 400 && pick(3) == 0)) {
      const std::uint64_t size = 1 + (pick(10) == 0 ? pick(20'000) : pick(400));
      const auto home = t.allocate(size);
      ASSERT_TRUE(home) << last_message();
      pages.clear(*home, size);  // somebody else's bytes may be in a page that stayed
      std::vector<std::byte> bytes(size);
      const std::uint64_t stored = pick(size + 1);
      for (std::uint64_t i = 0; i < stored; ++i) bytes[i] = std::byte(random());
      t.store(*home, bytes.data(), stored);
      ASSERT_TRUE(t.commit()) << last_message();
      pages.store(*home, bytes.data(), stored);
      model[*home] = std::move(bytes);
    } else if (pick(5) == 0) {
      const auto o = any();
      ASSERT_TRUE(t.release(o->first)) << last_message();
      ASSERT_TRUE(t.commit()) << last_message();
      pages.drop(o->first, o->second.size());
      model.erase(o);
    } else if (pick(2) == 0) {
      // An object's bytes, by way of a write set.
      const auto o = any();
      for (auto& b : o->second) b = std::byte(random());
      t.store(o->first, o->second.data(), o->second.size());
      ASSERT_TRUE(t.commit()) << last_message();
      pages.store(o->first, o->second.data(), o->second.size());
    } else {
      const auto o = any();
      ASSERT_NO_FATAL_FAILURE(change_in_place(g, pages, o->first, o->second, random, pick(2) == 0 ? &own : nullptr));
    }
    if (pick(50) == 0) (void)g->clean(4);
    if (pick(100) == 0) pages.shrink(pick(80) * page);
    const auto o = any();
    ASSERT_EQ(std::memcmp(pages.at(o->first), o->second.data(), o->second.size()), 0)
        << "step " << step << ", object of " << o->second.size() << " bytes at home " << std::hex << o->first;
  }
  for (const auto& [home, bytes] : model) ASSERT_EQ(std::memcmp(pages.at(home), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(pages.check(), "");
  EXPECT_GT(pages.statistics().dropped, 500U);
  opened->reset();
  g->leave(*reading);
}

}  // namespace
}  // namespace nvm::logheap
