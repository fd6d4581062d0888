// A process that is killed while pages come and go has lost no store.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../random_seed.hpp"
#include "swapped_ground.hpp"

namespace nvm::tier {
namespace {

constexpr std::uint64_t pages = 600;
constexpr unsigned threads = 3;
constexpr unsigned numbers = 5;

// What the child has told of each page, and how much it has done, in memory of both.
struct told {
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> failed;
  std::atomic<std::uint64_t> of_page[pages];
};

std::uint64_t& number(swapped_ground& g, std::uint64_t page, unsigned i) { return g.words(page)[i * 100 + page % 7]; }

// Numbers are stored in order: those before a kill are there, and nothing that came after what is missing.
std::string wrong_in(swapped_ground& g, const told& t, std::uint64_t page) {
  const std::uint64_t least = t.of_page[page].load();
  for (unsigned i = 0; i < numbers; ++i) {
    const std::uint64_t n = number(g, page, i);
    const std::uint64_t before = i == 0 ? n : number(g, page, i - 1);
    if (n < least || n > least + 1 || n > before) {
      return "page " + std::to_string(page) + ", number " + std::to_string(i) + ": found " + std::to_string(n) +
             ", told " + std::to_string(least) + ", the one before is " + std::to_string(before);
    }
  }
  return {};
}

[[noreturn]] void child(const std::string& name, const swapped_ground::wish& w, told& t, unsigned seed) {
  swapped_ground g{name, w};
  if (!g.open()) {
    std::fprintf(stderr, "open: %s\n", last_message());
    t.failed = 1;
    ::_exit(1);
  }
  for (std::uint64_t page = 0; page < pages; ++page) {
    const std::string wrong = wrong_in(g, t, page);
    if (!wrong.empty()) {
      std::fprintf(stderr, "%s\n", wrong.c_str());
      t.failed = 2;
      ::_exit(1);
    }
    const std::uint64_t least = number(g, page, 0);
    for (unsigned i = 0; i < numbers; ++i) number(g, page, i) = least;
    t.of_page[page] = least;
  }
  std::vector<std::thread> all;
  for (unsigned thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      std::mt19937 random{seed + thread};
      for (;;) {
        std::uint64_t page = random() % pages;
        if (random() % 2 == 0) page %= pages / 6;
        page = page / threads * threads + thread;
        if (page >= pages) continue;
        const std::uint64_t next = t.of_page[page].load() + 1;
        for (unsigned i = 0; i < numbers; ++i) {
          std::atomic_ref<std::uint64_t>{number(g, page, i)}.store(next, std::memory_order_release);
        }
        t.of_page[page].store(next);
        t.done.fetch_add(1);
      }
    });
  }
  for (;;) {
    g.tier().shrink(w.fast_pages_max / 2);
    std::this_thread::yield();
  }
}

TEST(swapped_over_kills, no_store_is_lost) {
  const std::string name = "holdfast-tier-kills-" + std::to_string(::getpid());
  swapped_ground::remove(name);
  swapped_ground::wish w;
  w.pages = pages;
  w.fast_pages_max = 80;
  {
    swapped_ground probe{name, w};
    if (!probe.open()) GTEST_SKIP() << last_message();
  }
  swapped_ground::remove(name);
  void* const shared = ::mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  told& t = *new (shared) told{};
  const unsigned seed = static_cast<unsigned>(tests::seed_from_environment());
  std::mt19937 random{seed};
  for (unsigned life = 0; life < 40; ++life) {
    w.policy = 1 + random() % NVM_TIER_FIFO;
    w.coding = life % 2 == 0 ? layout::page_coding::lz4 : layout::page_coding::plain;
    t.done = 0;
    const unsigned child_seed = random();
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) child(name, w, t, child_seed);
    const std::uint64_t until = random() % 3000;
    int how = 0;
    while (t.done.load() < until && t.failed.load() == 0) {
      if (::waitpid(pid, &how, WNOHANG) == pid) break;
      std::this_thread::yield();
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &how, 0);
    ASSERT_EQ(t.failed.load(), 0U) << "seed " << seed << ", life " << life;
    ASSERT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << "seed " << seed << ", life " << life;
  }
  ::munmap(shared, sizeof(told));
  swapped_ground::remove(name);
}

}  // namespace
}  // namespace nvm::tier
