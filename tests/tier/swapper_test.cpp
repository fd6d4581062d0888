// Pages that leave come back as they were: for one thread, for several, over opens, over kills, and where the second
// file fails.
#include "tier/swapper.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../clocks.hpp"
#include "media/memory_device.hpp"
#include "swapped_ground.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t words_in_page = swapper::page_bytes / 8;

class swapped : public testing::Test {
 protected:
  swapped() { swapped_ground::remove(name); }
  ~swapped() override { swapped_ground::remove(name); }
  const std::string name = "holdfast-tier-" + std::to_string(::getpid());
};

#define OPEN_OR_SKIP(ground, ...)                                                                             \
  if (const status opened = (ground).open(__VA_ARGS__); !opened) {                                            \
    if (std::string{last_message()}.find("userfaultfd") != std::string::npos) GTEST_SKIP() << last_message(); \
    FAIL() << last_message();                                                                                 \
  }

// Of page `page` when it was stored to the `n`th time: some pages compress, some do not.
void fill(std::uint64_t* words, std::uint64_t page, std::uint64_t n) {
  std::mt19937_64 random{page * 1000 + n};
  const std::uint64_t step = page % 3 == 0 ? 1 : 7;
  for (std::uint64_t i = 0; i < words_in_page; i += step) words[i] = n == 0 ? 0 : random();
}
bool holds(const std::uint64_t* words, std::uint64_t page, std::uint64_t n) {
  std::vector<std::uint64_t> expected(words_in_page);
  fill(expected.data(), page, n);
  return std::memcmp(words, expected.data(), swapper::page_bytes) == 0;
}

TEST_F(swapped, pages_come_back_as_they_were_under_each_policy_and_coding) {
  for (std::uint32_t policy = NVM_TIER_STEADY; policy <= NVM_TIER_FIFO; ++policy) {
    for (const auto coding : {layout::page_coding::plain, layout::page_coding::lz4, layout::page_coding::zstd}) {
      swapped_ground::wish w;
      w.policy = policy;
      w.coding = coding;
      std::map<std::uint64_t, std::uint64_t> stored;
      std::mt19937 random{policy};
      for (unsigned life = 0; life < 3; ++life) {
        swapped_ground g{name, w};
        OPEN_OR_SKIP(g);
        for (unsigned i = 0; i < 3000; ++i) {
          const std::uint64_t page = random() % w.pages;
          ASSERT_TRUE(holds(g.words(page), page, stored[page])) << page;
          if (random() % 4 == 0) fill(g.words(page), page, ++stored[page]);
        }
        g.tier().stop_leaving();
        ASSERT_EQ(g.tier().check(), "");
        const auto s = g.tier().statistics();
        EXPECT_LE(s.present, w.fast_pages_max);
        EXPECT_GT(s.in, 100U);
        EXPECT_GT(s.out + s.dropped, 100U);
        EXPECT_EQ(g.tier().why(), "");
      }
      swapped_ground::remove(name);
    }
  }
}

TEST_F(swapped, a_file_that_fits_is_left_alone) {
  swapped_ground::wish w;
  w.pages = 256;
  w.fast_pages_max = 320;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (unsigned round = 0; round < 5; ++round) {
    for (std::uint64_t page = 0; page < w.pages; ++page) fill(g.words(page), page, round + 1);
  }
  EXPECT_EQ(g.tier().check(), "");
  const auto s = g.tier().statistics();
  EXPECT_EQ(s.out + s.dropped + s.in + s.store_faults, 0U);
  EXPECT_EQ(s.zeros_in, w.pages);
  EXPECT_LT(s.faults, w.pages / 8);  // new pages in a row come together
}

TEST_F(swapped, pages_in_a_row_come_before_they_are_asked_for) {
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < w.pages; ++page) fill(g.words(page), page, 1);
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  const auto before = g.tier().statistics();
  for (std::uint64_t page = 0; page < 100; ++page) EXPECT_TRUE(holds(g.words(page), page, 1));
  EXPECT_EQ(g.tier().check(), "");
  const auto after = g.tier().statistics();
  EXPECT_GE(after.in - before.in, 100U);
  EXPECT_LT(after.faults - before.faults, 30U);
}

TEST_F(swapped, pages_of_zeros_take_no_room_and_no_write) {
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < w.pages; ++page) EXPECT_EQ(g.words(page)[5], 0U);
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 0U);
  EXPECT_EQ(g.slow().bytes_written(), 0U);
  // One that has been something else is told to be zeros again.
  g.words(9)[1] = 7;
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  EXPECT_EQ(g.words(9)[1], 7U);
  g.words(9)[1] = 0;
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  EXPECT_EQ(g.slow().units_used(), 0U);
  g.close();
  swapped_ground again{name, w};
  OPEN_OR_SKIP(again);
  EXPECT_EQ(again.words(9)[1], 0U);
}

constexpr auto by_program = swapper::pinned_by::program;

TEST_F(swapped, pinned_pages_stay_until_they_are_unpinned) {
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < 100; ++page) fill(g.words(page), page, 1);
  ASSERT_TRUE(g.tier().pin(10, 3, by_program));
  ASSERT_TRUE(g.tier().pin(12, 1, by_program));
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 3U);
  g.tier().unpin(10, 3, by_program);
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 1U);
  EXPECT_EQ(*g.fast().next_data(0), 0U);
  EXPECT_EQ(*g.fast().next_data(4096), 13 * swapper::page_bytes);
  for (unsigned i = 1; i < 255; ++i) ASSERT_TRUE(g.tier().pin(12, 1, by_program));
  EXPECT_EQ(g.tier().pin(11, 2, by_program).error(), errc::too_large);
  EXPECT_TRUE(holds(g.words(11), 11, 1));
}

TEST_F(swapped, what_the_library_pins_stays_whatever_the_program_unpins) {
  constexpr auto by_library = swapper::pinned_by::library;
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < 100; ++page) fill(g.words(page), page, 1);
  ASSERT_TRUE(g.tier().pin(10, 3, by_library));
  ASSERT_TRUE(g.tier().pin(11, 1, by_program));
  for (int i = 0; i < 3; ++i) g.tier().unpin(0, 100, by_program);
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 3U);
  EXPECT_EQ(g.tier().check(), "");
  ASSERT_TRUE(g.tier().pin(12, 1, by_program));
  g.tier().unpin(10, 3, by_library);
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 1U);
  g.tier().unpin(12, 1, by_program);
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, 0U);
  EXPECT_EQ(g.tier().check(), "");
  for (std::uint64_t page = 0; page < 100; ++page) EXPECT_TRUE(holds(g.words(page), page, 1)) << page;
}

// A page that the file has at the open is kept where pages may be huge.
TEST_F(swapped, what_is_kept_for_good_is_not_unpinned_by_the_program) {
  swapped_ground::wish w;
  w.keep_found = true;
  {
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    for (std::uint64_t page = 0; page < 4; ++page) fill(g.words(page), page, 1);
  }
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  // Pages that came ahead are among them.
  const std::uint64_t found = g.tier().statistics().present;
  EXPECT_GE(found, 4U);
  g.tier().unpin(0, w.pages, by_program);
  g.tier().shrink(0);
  EXPECT_EQ(g.tier().statistics().present, found);
  for (std::uint64_t page = 0; page < 4; ++page) EXPECT_TRUE(holds(g.words(page), page, 1)) << page;
}

// More pinned pages than leave at a time, and all of them first.
TEST_F(swapped, pinned_pages_hinder_no_others) {
  for (const std::uint32_t policy : {NVM_TIER_FIFO, NVM_TIER_UFLRU, NVM_TIER_STEADY}) {
    swapped_ground::wish w;
    w.policy = policy;
    w.fast_pages_max = 1000;
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    for (std::uint64_t page = 0; page < 500; ++page) fill(g.words(page), page, 1);
    ASSERT_TRUE(g.tier().pin(0, 200, by_program));
    g.tier().shrink(0);
    EXPECT_EQ(g.tier().statistics().present, 200U) << policy_name(policy);
    EXPECT_EQ(g.tier().check(), "");
    for (std::uint64_t page = 0; page < 500; ++page) EXPECT_TRUE(holds(g.words(page), page, 1)) << page;
    g.tier().unpin(0, 200, by_program);
    EXPECT_EQ(g.tier().check(), "");
    g.tier().shrink(0);
    EXPECT_EQ(g.tier().statistics().present, 0U) << policy_name(policy);
    g.close();
    swapped_ground::remove(name);
  }
}

// What another program has stored into the file counts, also where pages are read ahead.
TEST_F(swapped, pages_that_came_behind_its_back_count) {
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < 60; ++page) fill(g.words(page), page, 1);
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  for (const std::uint64_t page : {0U, 7U, 8U, 30U}) {
    std::vector<std::uint64_t> other(words_in_page);
    fill(other.data(), page, 2);
    ASSERT_TRUE(g.fast().write((page + 1) * swapper::page_bytes, other.data(), swapper::page_bytes));
  }
  for (unsigned round = 0; round < 3; ++round) {
    for (std::uint64_t page = 0; page < 60; ++page) {
      const bool foreign = page == 0 || page == 7 || page == 8 || page == 30;
      EXPECT_TRUE(holds(g.words(page), page, foreign ? 2 : 1)) << page << ", round " << round;
    }
    g.tier().shrink(0);
  }
}

// The same of pages that were never stored to: those after one that is there come, too.
TEST_F(swapped, pages_of_zeros_that_came_behind_its_back_hinder_no_others) {
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  std::vector<std::uint64_t> other(words_in_page);
  fill(other.data(), 40, 2);
  ASSERT_TRUE(g.fast().write(41 * swapper::page_bytes, other.data(), swapper::page_bytes));
  for (std::uint64_t page = 0; page <= 30; ++page) EXPECT_TRUE(holds(g.words(page), page, 0)) << page;
  // 40 was read ahead. A hole that the books say is there would be a fault without an end.
  ASSERT_EQ(g.tier().check(), "");
  ASSERT_GT(g.tier().statistics().zeros_in, 41U);
  for (std::uint64_t page = 31; page < 100; ++page) {
    EXPECT_TRUE(holds(g.words(page), page, page == 40 ? 2 : 0)) << page;
    fill(g.words(page), page, 1);
  }
  for (std::uint64_t page = 0; page < 100; ++page) EXPECT_TRUE(holds(g.words(page), page, page > 30 ? 1 : 0)) << page;
  EXPECT_EQ(g.tier().check(), "");
}

TEST_F(swapped, unreferenced_pages_leave_before_referenced_ones) {
  for (const std::uint32_t policy : {NVM_TIER_UFLRU, NVM_TIER_STEADY}) {
    swapped_ground::wish w;
    w.policy = policy;
    w.fast_pages_max = 512;
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    for (std::uint64_t page = 0; page < 200; ++page) fill(g.words(page), page, 1);
    EXPECT_EQ(g.tier().check(), "");
    g.tier().shrink(0);
    for (std::uint64_t page = 0; page < 200; ++page) EXPECT_TRUE(holds(g.words(page), page, 1));  // all clean
    // No mapping tells that they were used: what is referenced is told.
    (void)platform::drop_private_pages(g.page(0), 200 * swapper::page_bytes);
    for (std::uint64_t page = 0; page < 200; page += 2) g.tier().refer(page, 1, true);
    EXPECT_EQ(g.tier().check(), "");
    g.tier().shrink(150);
    unsigned referenced = 0;
    for (std::uint64_t page = 0; page < 200; page += 2) {
      referenced += *g.fast().next_data((page + 1) * swapper::page_bytes) == (page + 1) * swapper::page_bytes ? 1 : 0;
    }
    EXPECT_GE(referenced, 95U) << policy_name(policy);
    g.close();
    swapped_ground::remove(name);
  }
}

// A second file that stops in the middle of a write until it is let go on.
class stopping_device final : public block_device {
 public:
  explicit stopping_device(std::size_t bytes) : inner_{bytes} {}
  ~stopping_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s) noexcept override {
    if (stopping.load()) {
      stopped.store(true);
      while (stopping.load()) std::this_thread::yield();
    }
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override { return inner_.sync(e); }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }
  memory_device& inner() { return inner_; }
  std::atomic<bool> stopping{false}, stopped{false};

 private:
  memory_device inner_;
};

// A second file that cannot be read for a while, since the system has no memory.
class starving_device final : public block_device {
 public:
  explicit starving_device(std::size_t bytes) : inner_{bytes} {}
  ~starving_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s) noexcept override {
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    if (starving.load() == 0) return inner_.read(offset, to, bytes);
    --starving;
    fail(errc::io, "read: no memory");
    errno = ENOMEM;
    return errc::io;
  }
  status sync(edge e) noexcept override { return inner_.sync(e); }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }
  std::atomic<unsigned> starving{0};

 private:
  memory_device inner_;
};

TEST_F(swapped, a_page_that_there_is_no_memory_to_read_is_not_lost) {
  starving_device device{8 << 20};
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g, &device);
  for (std::uint64_t page = 0; page < 40; ++page) fill(g.words(page), page, 1);
  EXPECT_EQ(g.tier().check(), "");
  g.tier().shrink(0);
  for (std::uint64_t page = 0; page < 40; ++page) {
    device.starving = page % 5;
    ASSERT_TRUE(holds(g.words(page), page, 1)) << page << ": " << g.lost_why();
  }
  EXPECT_EQ(g.lost_page(), ~std::uint64_t{0});
}

TEST_F(swapped, a_store_while_a_page_leaves_keeps_it) {
  stopping_device device{8 << 20};
  swapped_ground::wish w;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g, &device);
  fill(g.words(1), 1, 1);
  fill(g.words(2), 2, 1);
  EXPECT_EQ(g.tier().check(), "");
  device.stopping = true;
  std::thread leaving{[&] { g.tier().shrink(0); }};
  while (!device.stopped) std::this_thread::yield();
  g.words(1)[3] = 77;  // waits for the fault thread, no longer
  EXPECT_TRUE(holds(g.words(2), 2, 1));
  device.stopping = false;
  leaving.join();
  const auto s = g.tier().statistics();
  EXPECT_EQ(s.kept, 1U);
  EXPECT_EQ(g.words(1)[3], 77U);
  EXPECT_TRUE(holds(g.words(2), 2, 1));
  g.tier().stop_leaving();
  EXPECT_EQ(g.tier().check(), "");
}

TEST_F(swapped, where_the_second_file_is_full_pages_stay_and_none_is_lost) {
  memory_device device{(4096 + 1024 * 32 + 8192) + 200 * 4096};
  swapped_ground::wish w;
  w.coding = layout::page_coding::plain;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g, &device);
  for (std::uint64_t page = 0; page < 600; ++page) fill(g.words(page), page, 1);
  EXPECT_GT(g.tier().statistics().present, w.fast_pages_max);
  EXPECT_NE(g.tier().why(), "");
  for (std::uint64_t page = 0; page < 600; ++page) ASSERT_TRUE(holds(g.words(page), page, 1)) << page;
  EXPECT_FALSE(g.slow().failed());
}

TEST_F(swapped, where_the_second_file_fails_pages_stay_and_none_is_lost) {
  for (const std::uint64_t k : {1U, 2U, 3U, 4U, 7U, 20U, 33U}) {
    memory_device device{8 << 20};
    swapped_ground::wish w;
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g, &device);
    for (std::uint64_t page = 0; page < 100; ++page) fill(g.words(page), page, 1);
    device.fail_call(k);
    std::uint64_t filled = 100;
    for (; filled < 600; ++filled) fill(g.words(filled), filled, 1);
    // On a busy machine many pages leave in one call.
    for (; filled < w.pages && !g.slow().failed(); ++filled) {
      fill(g.words(filled), filled, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    for (std::uint64_t page = 0; page < filled; ++page) {
      // A read that fails is another matter.
      if (g.lost_page() != ~std::uint64_t{0}) break;
      ASSERT_TRUE(holds(g.words(page), page, 1)) << page << ", call " << k;
    }
    EXPECT_TRUE(g.slow().failed()) << k;
    EXPECT_NE(g.tier().why(), "");
    g.close();
    swapped_ground::remove(name);
  }
}

TEST_F(swapped, a_page_that_is_damaged_is_named_and_others_are_not_touched) {
  swapped_ground::wish w;
  w.coding = layout::page_coding::plain;
  {
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    for (std::uint64_t page = 0; page < 30; ++page) fill(g.words(page), page, 1);
    EXPECT_EQ(g.tier().check(), "");
    g.tier().shrink(0);
  }
  const int slow = ::open(swapped_ground::slow_path(name).c_str(), O_RDWR);
  ASSERT_GE(slow, 0);
  const std::uint64_t slots = 4096 + 1024 * 32;
  std::uint64_t word = 0;
  const off_t at = static_cast<off_t>(slots + 5 * 4096 + 8 * 6);
  ASSERT_EQ(::pread(slow, &word, 8, at), 8);
  word ^= 1;
  ASSERT_EQ(::pwrite(slow, &word, 8, at), 8);
  ::close(slow);
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  for (std::uint64_t page = 0; page < 30; ++page) {
    // A system call fails where a load would be SIGBUS.
    const ssize_t n = ::write(ends[1], g.page(page), 8);
    if (n < 0) {
      EXPECT_EQ(errno, EFAULT);
      EXPECT_EQ(g.lost_page(), page);
      EXPECT_NE(g.lost_why().find("sum: found"), std::string::npos) << g.lost_why();
    } else {
      EXPECT_TRUE(holds(g.words(page), page, 1)) << page;
    }
  }
  EXPECT_EQ(g.lost_page(), 5U);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(swapped, a_private_mapping_shows_all_pages_and_changes_neither_file) {
  swapped_ground::wish w;
  {
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    for (std::uint64_t page = 0; page < 400; ++page) fill(g.words(page), page, 1);
  }
  w.shared = false;
  swapped_ground g{name, w};
  OPEN_OR_SKIP(g);
  for (std::uint64_t page = 0; page < 400; ++page) {
    ASSERT_TRUE(holds(g.words(page), page, 1)) << page;
    fill(g.words(page), page, 2);
  }
  for (std::uint64_t page = 0; page < 400; ++page) ASSERT_TRUE(holds(g.words(page), page, 2)) << page;
  g.close();
  w.shared = true;
  swapped_ground again{name, w};
  OPEN_OR_SKIP(again);
  for (std::uint64_t page = 0; page < 400; ++page) ASSERT_TRUE(holds(again.words(page), page, 1)) << page;
}

// ---- threads ----

// Each thread has pages of its own among those of the others: it stores a number to some words of one, in order, and
// then says that it has.
constexpr unsigned numbers_in_page = 6;
struct told {
  std::atomic<std::uint64_t> all;
  std::atomic<std::uint64_t> of_page[4096];
};
void play(swapped_ground& g, told& t, unsigned thread, unsigned threads, std::uint64_t pages, unsigned seed,
          std::uint64_t steps, std::atomic<unsigned>& wrong) {
  std::mt19937 random{seed};
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::uint64_t page = random() % pages;
    if (random() % 2 == 0) page = page % (pages / 8);  // some are hot
    page = page - page % threads + thread;
    if (page >= pages) continue;
    const std::uint64_t last = t.of_page[page].load(std::memory_order_relaxed);
    for (unsigned i = 0; i < numbers_in_page; ++i) {
      const std::atomic_ref<std::uint64_t> at{g.words(page)[i * 80 + page % 5]};
      if (at.load(std::memory_order_relaxed) != last) ++wrong;
    }
    if (random() % 3 != 0) continue;
    for (unsigned i = 0; i < numbers_in_page; ++i) {
      std::atomic_ref<std::uint64_t>{g.words(page)[i * 80 + page % 5]}.store(last + 1, std::memory_order_relaxed);
    }
    t.of_page[page].store(last + 1, std::memory_order_release);
    t.all.fetch_add(1, std::memory_order_relaxed);
  }
}

TEST_F(swapped, threads_find_what_they_stored_while_pages_come_and_go) {
  for (const std::uint32_t policy : {NVM_TIER_STEADY, NVM_TIER_UFLRU, NVM_TIER_FIFO}) {
    swapped_ground::wish w;
    w.pages = 1000;
    w.fast_pages_max = 100;
    w.policy = policy;
    auto t = std::make_unique<told>();
    swapped_ground g{name, w};
    OPEN_OR_SKIP(g);
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] { play(g, *t, i, 4, w.pages, i + 1, 8000, wrong); });
    }
    // Somebody who lets all go now and then.
    std::atomic<bool> done{false};
    std::thread shrinking{[&] {
      while (!done) {
        g.tier().shrink(30);
        tests::pause_between_rounds();
      }
    }};
    for (std::thread& one : threads) one.join();
    done = true;
    shrinking.join();
    EXPECT_EQ(wrong, 0U);
    g.tier().stop_leaving();
    EXPECT_EQ(g.tier().check(), "");
    EXPECT_LE(g.tier().statistics().present, w.fast_pages_max);
    g.close();
    swapped_ground::remove(name);
  }
}

}  // namespace
}  // namespace nvm::tier
