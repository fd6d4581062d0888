// The set of announced bytes: exact, each byte once.
#include "tx/line_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace nvm::tx {
namespace {

TEST(line_set, tells_each_byte_new_exactly_once) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 50; ++round) {
    line_set set;
    std::set<std::uint64_t> model;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t offset = random() % 5000;
      const std::uint64_t bytes = 1 + random() % 200;
      std::set<std::uint64_t> added;
      for (std::uint64_t line = offset / 64; line <= (offset + bytes - 1) / 64; ++line) {
        each_byte_run(line, set.add(line, line_set::mask_in(line, offset, bytes)),
                      [&](std::uint64_t o, std::uint64_t n) {
                        for (std::uint64_t b = o; b < o + n; ++b) EXPECT_TRUE(added.insert(b).second);
                      });
      }
      std::set<std::uint64_t> expected;
      for (std::uint64_t b = offset; b < offset + bytes; ++b) {
        if (model.insert(b).second) expected.insert(b);
      }
      ASSERT_EQ(added, expected);
    }
    std::set<std::uint64_t> all;
    for (const auto& e : set.entries()) {
      each_byte_run(e.line, e.mask, [&](std::uint64_t o, std::uint64_t n) {
        for (std::uint64_t b = o; b < o + n; ++b) all.insert(b);
      });
    }
    ASSERT_EQ(all, model);
  }
}

// Runs and single lines in any order: each line belongs to one of them, and none is told new twice.
TEST(line_set, a_line_is_in_a_run_or_an_entry_never_in_both) {
  std::mt19937_64 random{2};
  unsigned taken = 0;
  for (int round = 0; round < 200; ++round) {
    line_set set;
    std::set<std::uint64_t> model;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t first = random() % 300;
      if (random() % 3 == 0) {
        const std::uint64_t lines = line_set::run_lines_min + random() % 20;
        bool free = true;
        for (std::uint64_t line = first; line < first + lines; ++line) free = free && !model.contains(line);
        const std::size_t runs = set.runs().size();
        const bool added = set.add_run(first, lines);
        ASSERT_EQ(added, free && runs < line_set::runs_max);
        taken += added ? 1 : 0;
        if (added && random() % 4 == 0) {
          set.drop_runs(runs);
        } else if (added) {
          for (std::uint64_t line = first; line < first + lines; ++line) model.insert(line);
        }
      } else {
        ASSERT_EQ(set.add(first, ~std::uint64_t{0}), model.contains(first) ? 0 : ~std::uint64_t{0});
        model.insert(first);
      }
    }
    std::set<std::uint64_t> all;
    for (const auto& e : set.entries()) EXPECT_TRUE(all.insert(e.line).second);
    for (const auto& r : set.runs()) {
      for (std::uint64_t line = r.first; line < r.first + r.lines; ++line) EXPECT_TRUE(all.insert(line).second);
    }
    ASSERT_EQ(all, model);
    for (std::uint64_t line = 0; line < 330; ++line) ASSERT_EQ(set.mask_of(line) != 0, model.contains(line));
    EXPECT_EQ(set.empty(), model.empty());
    set.clear();
    EXPECT_TRUE(set.empty());
  }
  EXPECT_GT(taken, 100U);
}

TEST(line_set, is_empty_after_clear_for_any_number_of_rounds) {
  line_set set;
  for (std::uint64_t round = 0; round < 100000; ++round) {
    ASSERT_EQ(set.mask_of(round % 7), 0U);
    ASSERT_EQ(set.add(round % 7, 0xFF), 0xFFU);
    set.clear();
    ASSERT_TRUE(set.empty());
  }
}

TEST(line_set, forgets_bytes_that_are_removed) {
  line_set set;
  EXPECT_EQ(set.add(3, 0xFF00), 0xFF00U);
  set.remove(3, 0x0F00);
  EXPECT_EQ(set.add(3, 0xFF00), 0x0F00U);
}

}  // namespace
}  // namespace nvm::tx
