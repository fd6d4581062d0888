// Read sets: unread lines cost nothing, late reads are not missed, and reads of recovery without a guarantee are named.
#include <gtest/gtest.h>

#include "toy_subject.hpp"

namespace nvm::explore {
namespace {

options with_reads() {
  options o;
  o.print_violations = false;
  o.read_set = true;
  return o;
}

struct board {
  alignas(64) std::uint64_t flag;
  alignas(64) std::uint64_t detail;
  struct alignas(64) scratch {
    std::uint64_t word;
  } scratch[10];
};

// Twelve lines become durable at one fence; the oracle looks at the flag, and at the detail only if the flag is there.
subject board_subject(bool ordered) {
  subject s;
  s.name = "board";
  s.image.resize(sizeof(board));
  s.run = [=](machine& m) {
    auto& b = *reinterpret_cast<board*>(m.base());
    m.op_begin();
    for (std::size_t i = 0; i < 10; ++i) b.scratch[i].word = i + 1;
    b.detail = 5;
    m.media().flush(&b, sizeof b);
    if (ordered) m.media().fence(edge{"board/E1"});
    b.flag = 1;
    m.media().flush(&b, sizeof b);
    m.media().fence(edge{"board/E2"});
    m.op_end();
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [](machine& m, const window&) -> verdict {
    const auto& b = *reinterpret_cast<const board*>(m.base());
    if (b.flag == 0) return pass();
    return b.detail == 5 ? pass() : fault("the flag is there and the detail is not");
  };
  return s;
}

TEST(read_set, leaves_lines_out_that_nothing_reads) {
  options o = with_reads();
  const report pruned = explore(board_subject(true), o);
  o.read_set = false;
  const report full = explore(board_subject(true), o);
  EXPECT_TRUE(pruned.clean() && full.clean());
  EXPECT_LT(pruned.unique_states * 20, full.unique_states) << pruned.text() << full.text();
  EXPECT_GE(pruned.unread_units, 10U);
}

TEST(read_set, does_not_miss_a_line_that_only_some_images_make_the_oracle_read) {
  const report r = explore(board_subject(false), with_reads());
  ASSERT_TRUE(r.finds_violation()) << r.text();
  const auto again = replay(board_subject(false), r.violations[0].token, with_reads());
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->finds_violation());
}

// Reads the detail only where the flag is absent, which the image with everything on it never shows.
TEST(read_set, takes_in_what_a_later_image_reads) {
  subject s = board_subject(true);
  s.run = [](machine& m) {
    auto& b = *reinterpret_cast<board*>(m.base());
    m.op_begin();
    b.detail = 5;
    b.flag = 1;
    m.media().flush(&b, sizeof b);
    m.media().fence(edge{"board/E2"});
    m.op_end();
  };
  s.oracle = [](machine& m, const window&) -> verdict {
    const auto& b = *reinterpret_cast<const board*>(m.base());
    if (b.flag == 1) return pass();
    return b.detail == 0 ? pass() : fault("the detail is there and the flag is not");
  };
  options o = with_reads();
  o.tiers = t2_all_low | t3_pairs | t6_exhaustive;  // not program order, which has the bad image too
  EXPECT_TRUE(explore(s, o).finds_violation());
}

TEST(read_set, changes_no_verdict_on_the_toy_map) {
  for (unsigned b = 0; b <= toy::bugs; ++b) {
    options o = with_reads();
    o.nesting = 2;
    const subject s = toy::make_subject(static_cast<toy::bug>(b));
    const report pruned = explore(s, o);
    o.read_set = false;
    const report full = explore(s, o);
    EXPECT_EQ(pruned.finds_violation(), full.finds_violation()) << "bug " << b;
    for (const violation& v : pruned.violations) {
      if (v.token.empty()) continue;
      const auto again = replay(s, v.token, o);
      ASSERT_TRUE(again.has_value()) << v.report;
      EXPECT_TRUE(again->finds_violation()) << v.report;
    }
  }
}

TEST(reads_of_recovery, that_nothing_guarantees_are_named_unless_they_prove_themselves) {
  subject s = board_subject(true);
  s.recover = [](machine& m) {
    const auto& b = *reinterpret_cast<const board*>(m.base());
    return b.flag == 1 && b.scratch[3].word == 99 ? fault("never") : pass();
  };
  s.self_validating = [](std::uint64_t) { return false; };
  const report strict = explore(s, with_reads());
  EXPECT_TRUE(strict.breaks_rule(finding::rule::unguaranteed_read)) << strict.text();
  s.self_validating = [](std::uint64_t offset) { return offset < 64; };  // the flag commits
  const report declared = explore(s, with_reads());
  EXPECT_FALSE(declared.breaks_rule(finding::rule::unguaranteed_read)) << declared.text();
  EXPECT_TRUE(explore(board_subject(true), with_reads()).findings.size() ==
              explore(board_subject(true)).findings.size());
}

}  // namespace
}  // namespace nvm::explore
