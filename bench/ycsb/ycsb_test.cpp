// The choices are YCSB's.
#include <gtest/gtest.h>

#include <map>

#include "ycsb/choice.hpp"

namespace nvm::bench::ycsb {
namespace {

TEST(ycsb, hashes_as_its_utils_do) {
  // Utils.fnvhash64() of YCSB 0.17: FNV-1a steps over eight bytes, and Math.abs().
  EXPECT_EQ(fnv(0), 6284781860667377211U);
  EXPECT_EQ(fnv(1), 8517097267634966620U);
  EXPECT_EQ(key_of(0), "user6284781860667377211");
}

TEST(ycsb, mixes_have_their_shares) {
  for (const mix& m : mixes) {
    records all{1000};
    chooser choose{m, all, 1};
    unsigned reads = 0;
    for (unsigned i = 0; i < 10'000; ++i) {
      const operation op = choose.next();
      if (op.kind == kind::read) {
        ++reads;
        EXPECT_LT(op.record, all.known());
      } else {
        EXPECT_EQ(op.kind, m.other);
        if (op.kind == kind::insert) all.answered(op.record);
      }
    }
    EXPECT_NEAR(reads / 100.0, m.read_percent, 2) << m.name;
  }
}

TEST(ycsb, few_records_are_popular_wherever_they_are) {
  records all{100'000};
  chooser choose{mixes[2], all, 7};
  std::map<std::uint64_t, unsigned> drawn;
  for (unsigned i = 0; i < 100'000; ++i) ++drawn[choose.next().record];
  unsigned most = 0;
  std::uint64_t popular = 0;
  for (const auto& [record, times] : drawn) {
    if (times > most) popular = record;
    most = std::max(most, times);
  }
  // 1 in 26.5 draws is item 0, which fnv() puts somewhere.
  EXPECT_NEAR(most, 100'000 / 26.47, 600);
  EXPECT_EQ(popular, fnv(0) % 100'000);
}

TEST(ycsb, the_latest_records_are_read_most_and_only_answered_ones) {
  records all{1000};
  chooser choose{mixes[3], all, 3};
  const std::uint64_t first = all.insert();
  const std::uint64_t second = all.insert();
  all.answered(second);
  EXPECT_EQ(all.known(), 1000U);
  all.answered(first);
  EXPECT_EQ(all.known(), 1002U);
  unsigned newest = 0;
  unsigned reads = 0;
  for (unsigned i = 0; i < 10'000; ++i) {
    const operation op = choose.next();
    if (op.kind != kind::read) continue;  // no insert is answered: the newest stays the newest
    ++reads;
    ASSERT_LT(op.record, 1002U);
    if (op.record == 1001) ++newest;
  }
  // The sum of n^-0.99 over 1002 items is 7.73.
  EXPECT_NEAR(static_cast<double>(newest) / reads, 1 / 7.73, 0.02);
}

}  // namespace
}  // namespace nvm::bench::ycsb
