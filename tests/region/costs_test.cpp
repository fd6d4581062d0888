// Costs of a change of a region until its call returns: counted lines written back and fences, without the log's later
// writes home.
#include "counted_media.hpp"
#include "ground.hpp"

namespace nvm::region::testing {
namespace {

struct cost {
  std::uint64_t lines = 0;
  std::uint64_t fences = 0;
  friend bool operator==(const cost&, const cost&) = default;
};
void PrintTo(const cost& c, std::ostream* to) { *to << c.lines << " lines, " << c.fences << " fences"; }

class region_costs : public ::testing::Test {
 protected:
  static options large_rings() {
    options o = settings();
    o.ring_bytes = 1 << 20;  // no truncation falls into what is counted
    o.levelling = 0;
    return o;
  }
  template <class Body>
  cost of(std::uint64_t rid, bool joins, Body&& body, mode how = mode::adaptive) {
    const meter_totals before = pool.medium().totals();
    EXPECT_TRUE(change_alone(pool.all(), set, t, rid, how, joins, body)) << last_message();
    const meter_totals after = pool.medium().totals();
    return {after.lines - before.lines, after.fences - before.fences};
  }
  cost create(std::uint64_t rid, std::uint64_t size, std::uint64_t room = 0) {
    return of(rid, false, [&](auto& tx) { return tx.create(rid, size, room); });
  }
  cost write(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how = mode::adaptive) {
    const auto b = pattern(bytes, bytes);
    return of(rid, true, [&](auto& tx) { return tx.write(rid, offset, b); }, how);
  }
  cost append(std::uint64_t rid, std::uint64_t bytes) {
    const auto b = pattern(bytes, bytes);
    return of(rid, true, [&](auto& tx) -> status {
      const auto at = tx.append(rid, b);
      return at ? status{} : status{at.error()};
    });
  }
  cost truncate(std::uint64_t rid, std::uint64_t length) {
    return of(rid, true, [&](auto& tx) { return tx.truncate(rid, length); });
  }
  cost drop(std::uint64_t rid) {
    return of(rid, true, [&](auto& tx) { return tx.drop(rid); });
  }

  ground<counted_media> pool{pool_geometry(4096, 8192), large_rings()};
  set_state<counted_media>& set = pool.make("subject");
  thread_state<counted_media>& t = pool.join();
};

constexpr std::uint64_t lines_of(std::uint64_t bytes) { return (bytes + line_bytes - 1) / line_bytes; }

TEST_F(region_costs, are_those_of_the_guide) {
  std::uint64_t rid = 1000;
  for (const std::uint64_t size : {64, 600, 2000, 9000, 65536}) {
    SCOPED_TRACE(size);
    (void)create(rid++, size);  // a new extent of slots
    (void)write(rid - 1, 0, size);
    EXPECT_EQ(create(rid, size), (cost{1, 1}));
    EXPECT_EQ(drop(rid), (cost{1, 1}));
    EXPECT_EQ(create(++rid, size), (cost{1, 1}));
    (void)write(rid, 0, size);  // the first
    // A small part, to the border of one record with a checksum.
    for (const std::uint64_t bytes : {8, 16, 64, 200, 512}) {
      if (bytes > size) continue;
      EXPECT_EQ(write(rid, 0, bytes), (cost{lines_of(32 + bytes), 1})) << bytes;
    }
    // Less than half.
    if (size > 2000) {
      EXPECT_EQ(write(rid, 0, 800), (cost{lines_of(32 + 800) + 1, 2}));
    }
    // All of it: its lines, the header's record, and of whole pages the entry of the page map.
    if (size > 512) {
      const cost all = write(rid, 0, size);
      EXPECT_EQ(all.fences, 2U);
      EXPECT_LE(all.lines, lines_of(size) + (size > layout::inside_max ? 2 : 3));
    }
    EXPECT_EQ(truncate(rid, size / 2), (cost{1, 1}));
    EXPECT_EQ(drop(rid++), (cost{1, 1}));
  }
}

TEST_F(region_costs, of_appends_are_those_of_the_guide) {
  (void)create(1, 0, 100'000);
  (void)append(1, 10);
  for (const std::uint64_t bytes : {8, 100, 500})
    EXPECT_EQ(append(1, bytes), (cost{lines_of(72 + round_up(bytes, 8)), 1}));
  const cost large = append(1, 4096);
  EXPECT_EQ(large.fences, 2U);
  EXPECT_LE(large.lines, lines_of(4096) + 2);
}

// In place: lines of the bytes, and one that says what they make of the region.
TEST_F(region_costs, of_changes_in_place_are_those_of_the_guide) {
  std::uint64_t rid = 1;
  for (const std::uint64_t size : {64, 600, 2048}) {
    SCOPED_TRACE(size);
    (void)create(rid, size);
    (void)write(rid, 0, size);
    (void)write(rid, 0, 8, mode::replica);
    for (const std::uint64_t bytes : {std::uint64_t{8}, size / 2, size}) {
      pool.all().catch_up();
      const cost first = write(rid, size - bytes, bytes, mode::replica);
      EXPECT_EQ(first.fences, 1U);
      EXPECT_LE(first.lines, lines_of(bytes) + 2);
      const cost next = write(rid, size - bytes, bytes, mode::replica);
      EXPECT_EQ(next.fences, 2U);
      EXPECT_LE(next.lines, 2 * (lines_of(bytes) + 2));
    }
    // The cheaper way, where it may be chosen: a record of up to 512 bytes, and beyond that one fence less.
    pool.all().catch_up();
    if (size > 512) {
      EXPECT_EQ(write(rid, 0, 520).fences, 1U);
    }
    statistics before, after;
    pool.all().sum_up(before);
    EXPECT_EQ(write(rid, 0, 50).fences, 1U);
    pool.all().sum_up(after);
    EXPECT_EQ(after.changes[static_cast<unsigned>(technique::record)],
              before.changes[static_cast<unsigned>(technique::record)] + 1);
    ++rid;
  }
  statistics s;
  pool.all().sum_up(s);
  EXPECT_EQ(s.replicas_made, 3U);
}

TEST_F(region_costs, of_two_copies_are_those_of_the_guide) {
  std::uint64_t rid = 1;
  for (const std::uint64_t size : {64, 600, 2048}) {
    SCOPED_TRACE(size);
    (void)create(rid, size);
    (void)write(rid, 0, size);
    (void)write(rid, 0, 8, mode::alternate);
    for (const std::uint64_t bytes : {std::uint64_t{8}, size / 2, size, size}) {
      const cost c = write(rid, size - bytes, bytes, mode::alternate);
      EXPECT_EQ(c.fences, 1U);
      EXPECT_LE(c.lines, lines_of(size) + 2);
    }
    // Adaptive takes them for the whole region, and a record for a small part of a large one.
    EXPECT_EQ(write(rid, 0, size).fences, 1U);
    statistics before, after;
    pool.all().sum_up(before);
    (void)write(rid, 0, 16);
    pool.all().sum_up(after);
    const auto records = static_cast<unsigned>(technique::record);
    EXPECT_EQ(after.changes[records], before.changes[records] + (size > 64 ? 1 : 0));
    ++rid;
  }
  statistics s;
  pool.all().sum_up(s);
  EXPECT_EQ(s.changes[static_cast<unsigned>(technique::alternate)], 3 * (1U + 4 + 1) + 1);
}

TEST_F(region_costs, of_groups_do_not_grow_with_their_regions) {
  for (std::uint64_t rid = 1; rid <= 8; ++rid) {
    (void)create(rid, 100);
    (void)write(rid, 0, 100);
  }
  const auto bytes = pattern(1, 16);
  const meter_totals before = pool.medium().totals();
  {
    const domain<counted_media>::inside here{pool.all(), t};
    transaction<counted_media> tx{pool.all(), set, t};
    for (std::uint64_t rid = 1; rid <= 8; ++rid) {
      ASSERT_TRUE(tx.join(rid));
      ASSERT_TRUE(tx.write(rid, 8, bytes));
    }
    ASSERT_TRUE(tx.commit());
  }
  const meter_totals after = pool.medium().totals();
  EXPECT_EQ(after.fences - before.fences, 1U);
  EXPECT_EQ(after.lines - before.lines, lines_of(24 + 8 * (8 + 16)));
}

TEST_F(region_costs, of_reads_are_none) {
  (void)create(1, 5000);
  (void)write(1, 0, 5000);
  std::vector<std::byte> seen(5000);
  const meter_totals before = pool.medium().totals();
  ASSERT_TRUE(read(pool.all(), set, t, 1, 0, seen));
  ASSERT_TRUE(length(pool.all(), set, t, 1));
  const meter_totals after = pool.medium().totals();
  EXPECT_EQ(after.lines, before.lines);
  EXPECT_EQ(after.fences, before.fences);
}

// ---- choosing by costs ----------------------------------------------------------------------------------------------

constexpr write_costs dear_fences{500'000, 1'000, 1'000, 10};
constexpr write_costs dear_lines{1'000, 100'000, 100'000, 1};
constexpr write_costs dear_sums{10'000, 1'000, 1'000, 1'000};

TEST(region_choice, is_the_papers_or_the_cheapest) {
  const auto paper = [](std::uint64_t changed, std::uint64_t whole) {
    return by_thresholds({changed, changed, whole, whole});
  };
  EXPECT_EQ(paper(512, 600), technique::record);
  EXPECT_EQ(paper(513, 1024), technique::copy);
  EXPECT_EQ(paper(513, 1027), technique::marked);
  const auto cheapest = [](std::uint64_t changed, std::uint64_t whole, const write_costs& c) {
    return by_costs({changed, changed, whole, whole, whole > layout::inside_max}, c);
  };
  // What is added counts for the record, and not for the half.
  EXPECT_EQ(by_thresholds({1100, 100, 1500, 2500}), technique::marked);
  // One fence, whatever the bytes.
  EXPECT_EQ(cheapest(20'000, 65'536, dear_fences), technique::record);
  EXPECT_EQ(cheapest(64, 65'536, dear_fences), technique::record);
  // The fewest lines: two for each that changes, or all of them once.
  EXPECT_EQ(cheapest(40'000, 65'536, dear_lines), technique::copy);
  EXPECT_EQ(cheapest(20'000, 65'536, dear_lines), technique::record);
  EXPECT_EQ(cheapest(500, 600, dear_lines), technique::copy);
  EXPECT_EQ(cheapest(2000, 65'536, dear_sums), technique::marked);
}

TEST_F(region_costs, decide_how_changes_are_logged_where_that_is_asked_for) {
  constexpr std::uint64_t size = 65'536;
  const auto bytes_of_1 = pattern(1, size);  // until the commit
  ASSERT_TRUE(change_alone(pool.all(), set, t, 1, mode::adaptive, false, [&](auto& tx) -> status {
    if (status s = tx.create(1, size, 0); !s) return s;
    return tx.write(1, 0, bytes_of_1);
  }));
  const auto by = [&](technique which) {
    statistics s;
    pool.all().sum_up(s);
    return s.changes[static_cast<unsigned>(which)];
  };
  const auto changes_by = [&](std::uint64_t bytes, technique which, mode how = mode::adaptive) {
    const std::uint64_t before = by(which);
    (void)write(1, 100, bytes, how);
    EXPECT_EQ(by(which), before + 1) << bytes;
  };
  changes_by(20'000, technique::marked);
  changes_by(40'000, technique::copy);
  set.decide_by_costs(true);
  pool.all().assume_costs(dear_fences);
  changes_by(20'000, technique::record);
  changes_by(40'000, technique::record);
  pool.all().assume_costs(dear_lines);
  changes_by(20'000, technique::record);
  changes_by(40'000, technique::copy);
  pool.all().assume_costs(dear_sums);
  changes_by(2000, technique::marked);
  changes_by(2000, technique::copy, mode::copy);
  changes_by(2000, technique::record, mode::checked);
  set.decide_by_costs(false);
  changes_by(40'000, technique::copy);
}

TEST_F(region_costs, are_measured_in_a_page_that_is_nobodys) {
  const std::uint64_t free = pool.free_pages();
  ASSERT_TRUE(pool.all().know_costs());
  EXPECT_EQ(pool.free_pages(), free);
  statistics s;
  pool.all().sum_up(s);
  for (const std::uint32_t ps : s.costs) EXPECT_GT(ps, 0U);
  const meter_totals before = pool.medium().totals();
  ASSERT_TRUE(pool.all().know_costs());
  EXPECT_EQ(pool.medium().totals().fences, before.fences) << "measured once";
}

}  // namespace
}  // namespace nvm::region::testing
