// Changes whose record fits no ring: groups of many regions, and small parts of a large region.
#include <map>

#include "counted_media.hpp"
#include "ground.hpp"

namespace nvm::region::testing {
namespace {

class region_large_records : public ::testing::Test {
 protected:
  static constexpr std::uint64_t ring_bytes = 16 << 10;
  using pool_type = ground<counted_media>;

  void start(std::uint64_t pages) {
    pool = std::make_unique<pool_type>(pool_geometry(pages, pages), settings());
    join();
  }
  void join() {
    set = &pool->make("subject");
    t = &pool->join();
  }
  // One transaction: body(transaction) after the regions have joined, then commit.
  template <class Body>
  status group(const std::vector<std::uint64_t>& rids, Body&& body) {
    const domain<counted_media>::inside here{pool->all(), *t};
    transaction<counted_media> tx{pool->all(), *set, *t};
    for (const std::uint64_t rid : rids) {
      if (status s = tx.join(rid); !s) return s;
    }
    if (status s = body(tx); !s) return s;
    return tx.commit();
  }
  status make_all(std::uint64_t count, std::uint64_t bytes) {
    return group({}, [&](auto& tx) -> status {
      for (std::uint64_t rid = 0; rid < count; ++rid) {
        model[rid] = pattern(rid, bytes);
        if (status s = tx.create(rid, bytes, 0); !s) return s;
        if (status s = tx.write(rid, 0, model[rid]); !s) return s;
      }
      return {};
    });
  }
  status change_all(std::uint64_t seed, std::uint64_t bytes) {
    std::vector<std::uint64_t> rids;
    for (const auto& [rid, content] : model) rids.push_back(rid);
    auto after = model;
    const status s = group(rids, [&](auto& tx) -> status {
      for (auto& [rid, content] : after) {
        const auto part = pattern(seed + rid, bytes);
        std::copy(part.begin(), part.end(), content.begin());
        if (status done = tx.write(rid, 0, part); !done) return done;
      }
      return {};
    });
    if (s) model = after;
    return s;
  }
  void compare() {
    for (const auto& [rid, bytes] : model) {
      std::vector<std::byte> seen(bytes.size() + 1);
      const auto n = read(pool->all(), *set, *t, rid, 0, seen);
      ASSERT_TRUE(n) << last_message();
      seen.resize(*n);
      ASSERT_EQ(seen, bytes) << rid;
    }
  }
  // Runs of the log's owner: the directory, the rings, and what records have spilled into.
  [[nodiscard]] std::uint64_t runs_of_log() const { return pages_of(pool->pages(), layout::directory_owner).size(); }

  std::unique_ptr<pool_type> pool;
  set_state<counted_media>* set = nullptr;
  thread_state<counted_media>* t = nullptr;
  std::map<std::uint64_t, std::vector<std::byte>> model;
};

TEST_F(region_large_records, hold_any_number_of_regions) {
  start(2048);
  ASSERT_TRUE(make_all(1000, 100)) << last_message();
  EXPECT_EQ(runs_of_log(), 3U);
  compare();
  ASSERT_TRUE(change_all(7, 60)) << last_message();
  compare();
  EXPECT_EQ(runs_of_log(), 4U);
  // A process that dies leaves them to be replayed, and then they are free.
  pool->crash_and_open();
  join();
  EXPECT_EQ(pool->all().recovered().records, 2U);
  EXPECT_EQ(runs_of_log(), 2U);
  compare();
  ASSERT_TRUE(change_all(8, 30)) << last_message();
  EXPECT_EQ(runs_of_log(), 3U);
  pool->all().log().truncate();
  EXPECT_EQ(runs_of_log(), 2U) << "given back when the record no longer counts";
  pool->crash_and_open();
  join();
  EXPECT_EQ(pool->all().recovered().records, 0U);
  compare();
}

TEST_F(region_large_records, cost_two_fences) {
  start(2048);
  ASSERT_TRUE(make_all(1000, 100)) << last_message();
  const meter_totals before = pool->medium().totals();
  ASSERT_TRUE(change_all(7, 60)) << last_message();
  const meter_totals after = pool->medium().totals();
  EXPECT_EQ(after.fences - before.fences, 2U);
  // 1000 ranges of 8 bytes and 60, filled up to 64; the record that leads there and the entry of the page map.
  EXPECT_LE(after.lines - before.lines, 1000 * 72 / line_bytes + 3);
}

// Less is written than by a copy of all of it.
TEST_F(region_large_records, hold_what_changes_of_a_large_region) {
  start(2048);
  constexpr std::uint64_t size = 4 << 20;
  const auto first = pattern(1, size);
  ASSERT_TRUE(change_alone(pool->all(), *set, *t, 5, mode::adaptive, false, [&](auto& tx) -> status {
    if (status s = tx.create(5, size, 0); !s) return s;
    return tx.write(5, 0, first);
  })) << last_message();
  model[5] = first;
  const meter_totals before = pool->medium().totals();
  const auto part = pattern(2, 3 * ring_bytes);
  ASSERT_TRUE(change_alone(pool->all(), *set, *t, 5, mode::adaptive, true, [&](auto& tx) {
    return tx.write(5, 1000, part);
  })) << last_message();
  std::copy(part.begin(), part.end(), model[5].begin() + 1000);
  const meter_totals after = pool->medium().totals();
  EXPECT_LE(after.lines - before.lines, 3 * ring_bytes / line_bytes + 4);
  compare();
  pool->crash_and_open();
  join();
  compare();
}

// In a pool without pages for it a change is refused, and nothing has changed.
TEST_F(region_large_records, are_refused_where_there_are_no_pages) {
  start(64);
  ASSERT_TRUE(make_all(200, 200)) << last_message();
  std::uint64_t filled = 0;
  const auto fill = [&] {
    const auto bytes = pattern(filled, 4096);
    const status s = change_alone(pool->all(), *set, *t, 1000 + filled, mode::adaptive, false, [&](auto& tx) -> status {
      if (status made = tx.create(1000 + filled, 4096, 0); !made) return made;
      return tx.write(1000 + filled, 0, bytes);
    });
    if (s) model[1000 + filled] = bytes;
    return s;
  };
  while (fill()) ++filled;
  ASSERT_GT(filled, 0U);
  const std::uint64_t runs = runs_of_log();
  const status refused = change_all(9, 190);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::no_space) << last_message();
  compare();
  EXPECT_LE(runs_of_log(), runs);
  // What a ring has room for goes on.
  const auto before = model;
  std::erase_if(model, [](const auto& m) { return m.first >= 1000 || m.first > 20; });
  ASSERT_TRUE(change_all(10, 40)) << last_message();
  for (const auto& [rid, bytes] : before) model.try_emplace(rid, bytes);
  compare();
  pool->crash_and_open();
  join();
  compare();
}

}  // namespace
}  // namespace nvm::region::testing
