// Protected pages: every load and store into a closed page traps, every store into a read-only one, whatever was
// closed, opened and freed in what order; none of them changes a byte, and neighbours cost one mapping.
#include <gtest/gtest.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <random>
#include <vector>

#include <sys/mman.h>

#include "../random_seed.hpp"
#include "store/page_guard.hpp"

namespace nvm::tests {
namespace {

using platform::page_access;
using stores::page_guard;

constexpr std::uint64_t page = 4096;

sigjmp_buf after_trap;
void trapped(int) { siglongjmp(after_trap, 1); }

// Memory, and a handler that comes back from a trap.
class page_guard_test : public testing::Test {
 protected:
  static constexpr std::uint64_t pages = 64;
  void SetUp() override {
    void* const p = ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    base_ = static_cast<std::byte*>(p);
    for (std::uint64_t i = 0; i < pages * page; ++i) base_[i] = static_cast<std::byte>(i * 7);
    struct sigaction action{};
    action.sa_handler = trapped;
    sigemptyset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(base_, pages * page);
  }
  [[nodiscard]] page_access access_at(std::uint64_t at) const {
    volatile std::byte* const p = base_ + at;
    if (sigsetjmp(after_trap, 1) != 0) return page_access::none;
    const std::byte there = *p;
    if (sigsetjmp(after_trap, 1) != 0) return page_access::read;
    *p = there;
    return page_access::all;
  }
  std::byte* base_ = nullptr;

 private:
  struct sigaction before_{};
};

TEST_F(page_guard_test, closes_and_opens_what_it_is_told) {
  page_guard g{base_, pages * page, page_access::all};
  g.close_to(4 * page, 4 * page, page_access::none);
  g.close_to(8 * page, 2 * page, page_access::read);
  EXPECT_EQ(access_at(3 * page), page_access::all);
  EXPECT_EQ(access_at(4 * page), page_access::none);
  EXPECT_EQ(access_at(8 * page - 1), page_access::none);
  EXPECT_EQ(access_at(8 * page), page_access::read);
  EXPECT_EQ(access_at(10 * page), page_access::all);
  EXPECT_EQ(g.now().ranges, 2U);
  EXPECT_EQ(g.now().closed_bytes, 4 * page);
  EXPECT_EQ(g.now().read_only_bytes, 2 * page);
  g.open(5 * page, 4 * page, false);
  EXPECT_EQ(access_at(5 * page), page_access::read);
  EXPECT_EQ(access_at(4 * page), page_access::none);
  g.open(5 * page, page, true);
  EXPECT_EQ(access_at(5 * page), page_access::all);
  g.close(5 * page, page);
  g.close(5 * page, 4 * page);
  EXPECT_EQ(access_at(5 * page), page_access::none);
  EXPECT_EQ(g.now().ranges, 2U);
  g.release(4 * page, 6 * page);
  EXPECT_EQ(access_at(5 * page), page_access::all);
  EXPECT_EQ(g.now().ranges, 0U);
}

TEST_F(page_guard_test, takes_neighbours_together) {
  page_guard g{base_, pages * page, page_access::all};
  for (std::uint64_t i = 0; i < pages; i += 2) g.close_to(i * page, page, page_access::none);
  EXPECT_EQ(g.now().ranges, pages / 2);
  for (std::uint64_t i = 1; i < pages; i += 2) g.close_to(i * page, page, page_access::none);
  EXPECT_EQ(g.now().ranges, 1U);
  const std::uint64_t calls = g.now().calls;
  g.open_all();
  EXPECT_EQ(g.now().calls, calls + 1);
  EXPECT_EQ(access_at(17 * page), page_access::all);
  g.close_all();
  EXPECT_EQ(access_at(17 * page), page_access::none);
  EXPECT_EQ(g.now().calls, calls + 2);
}

TEST_F(page_guard_test, leaves_open_what_would_take_more_mappings_than_it_may) {
  page_guard g{base_, pages * page, page_access::all, {4}};
  for (std::uint64_t i = 0; i < 6; ++i) g.close_to(2 * i * page, page, page_access::none);
  EXPECT_EQ(g.now().ranges, 4U);
  EXPECT_EQ(g.now().left_open_bytes, 2 * page);
  EXPECT_EQ(access_at(6 * page), page_access::none);
  EXPECT_EQ(access_at(10 * page), page_access::all);
  g.release(0, page);
  g.close_to(10 * page, page, page_access::none);
  EXPECT_EQ(access_at(10 * page), page_access::none);
  EXPECT_EQ(g.now().left_open_bytes, page);
}

TEST_F(page_guard_test, gives_up_as_a_whole_where_a_page_cannot_be_opened) {
  page_guard g{base_, pages * page, page_access::all};
  g.close_to(8 * page, 8 * page, page_access::none);
  g.close_to(40 * page, 8 * page, page_access::none);
  // What the kernel refuses: a range that is not mapped.
  ASSERT_EQ(::munmap(base_ + 44 * page, page), 0);
  g.open(40 * page, 8 * page, true);
  EXPECT_TRUE(g.now().given_up);
  EXPECT_EQ(g.now().ranges, 0U);
  EXPECT_EQ(access_at(8 * page), page_access::all);
  g.close_to(8 * page, 8 * page, page_access::none);
  EXPECT_EQ(access_at(8 * page), page_access::all);
}

// A walk over a pool goes on while pages leave one store and come to another that nobody has.
TEST_F(page_guard_test, keeps_all_pages_open_for_a_walk_whatever_comes_and_goes) {
  page_guard g{base_, pages * page, page_access::all};
  g.close_to(4 * page, 8 * page, page_access::none);
  g.open_all();
  EXPECT_EQ(access_at(5 * page), page_access::all);
  g.release(4 * page, 8 * page);
  g.close_to(6 * page, 4 * page, page_access::none);
  g.close_to(20 * page, page, page_access::read);
  g.open(6 * page, page, true);
  g.close(6 * page, page);
  EXPECT_EQ(access_at(6 * page), page_access::all);
  EXPECT_EQ(access_at(20 * page), page_access::all);
  g.open_all();
  g.close_all();
  EXPECT_EQ(access_at(7 * page), page_access::all);
  g.close_all();
  EXPECT_EQ(access_at(5 * page), page_access::all);
  EXPECT_EQ(access_at(7 * page), page_access::none);
  EXPECT_EQ(access_at(20 * page), page_access::read);
}

TEST_F(page_guard_test, leaves_what_lies_between_closed_pages_alone_after_a_walk) {
  page_guard g{base_, pages * page, page_access::all};
  g.close_to(4 * page, page, page_access::none);
  g.close_to(8 * page, 2 * page, page_access::none);
  g.close_to(12 * page, page, page_access::read);
  g.open_all();
  EXPECT_EQ(access_at(8 * page), page_access::all);
  g.close_all();
  for (std::uint64_t i = 0; i < pages; ++i) {
    const page_access wanted = i == 4 || i == 8 || i == 9 ? page_access::none
                               : i == 12                  ? page_access::read
                                                          : page_access::all;
    EXPECT_EQ(access_at(i * page), wanted) << i;
  }
}

TEST_F(page_guard_test, of_a_mapping_that_is_read_only_nothing_can_be_written) {
  ASSERT_EQ(::mprotect(base_, pages * page, PROT_READ), 0);
  page_guard g{base_, pages * page, page_access::read};
  g.close_to(0, 4 * page, page_access::none);
  g.close_to(4 * page, 4 * page, page_access::all);
  g.open(page, page, true);
  EXPECT_EQ(access_at(0), page_access::none);
  EXPECT_EQ(access_at(page), page_access::read);
  EXPECT_EQ(access_at(4 * page), page_access::read);
}

// Against a model of each page, at random.
TEST_F(page_guard_test, every_page_has_the_access_that_it_was_given) {
  const std::uint64_t seed = seed_from_environment();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  struct model {
    page_access own = page_access::all;
    unsigned opens = 0;
    bool writes = false;
    [[nodiscard]] page_access access() const {
      if (opens == 0) return own;
      return std::max(own, writes ? page_access::all : page_access::read);
    }
  };
  std::vector<model> expected(pages);
  struct range {
    std::uint64_t from, count;
  };
  std::vector<range> open;
  page_guard g{base_, pages * page, page_access::all};
  const std::vector<std::byte> bytes(base_, base_ + pages * page);
  for (unsigned i = 0; i < 3000; ++i) {
    const std::uint64_t from = random() % pages;
    const std::uint64_t count = 1 + random() % std::min<std::uint64_t>(9, pages - from);
    if (const unsigned what = static_cast<unsigned>(random() % 4); what == 0 || open.size() > 6) {
      if (open.empty()) continue;
      const range r = open.back();
      open.pop_back();
      g.close(r.from * page, r.count * page);
      for (std::uint64_t k = r.from; k < r.from + r.count; ++k) {
        if (--expected[k].opens == 0) expected[k].writes = false;
      }
    } else if (what == 1) {
      const bool writes = random() % 2 == 0;
      g.open(from * page, count * page, writes);
      open.push_back({from, count});
      for (std::uint64_t k = from; k < from + count; ++k) {
        ++expected[k].opens;
        expected[k].writes = expected[k].writes || writes;
      }
    } else {
      const auto to = static_cast<page_access>(random() % 3);
      g.close_to(from * page, count * page, to);
      for (std::uint64_t k = from; k < from + count; ++k) expected[k].own = to;
    }
    for (std::uint64_t k = 0; k < pages; ++k) {
      ASSERT_EQ(access_at(k * page + random() % page), expected[k].access()) << "page " << k << " after " << i;
    }
  }
  g.release(0, pages * page);
  EXPECT_EQ(g.now().ranges, 0U);
  EXPECT_EQ(std::memcmp(bytes.data(), base_, bytes.size()), 0);
}

}  // namespace
}  // namespace nvm::tests
