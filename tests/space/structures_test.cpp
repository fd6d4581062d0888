// Pages of structures: allocation, contents, and hostile page maps.
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;
using layout::slot_protocol;

// Pages that the pool says any structure owns.
std::vector<owned_pages> owned(const test_space& s, std::uint64_t first, std::uint64_t end, std::size_t most = ~0ULL) {
  struct context {
    std::vector<owned_pages> found;
    std::size_t most;
  } c{{}, most};
  s.each_owned(first, end, &c, [](void* raw, const owned_pages& p) {
    auto& into = *static_cast<context*>(raw);
    into.found.push_back(p);
    return into.found.size() < into.most;
  });
  return c.found;
}

void enter(test_pool& pool, std::uint64_t page, const layout::page_entry& e) {
  const geometry g = pool.sizes();
  page_map map{pool.base(), g};
  map.store(page, map.seal(page, e));
}

TEST(structure_pages, are_given_until_there_are_none) {
  test_pool pool{test_geometry(32, 32)};
  ASSERT_TRUE(pool.boot());
  const auto run = [&](std::uint64_t bytes) { return pool->take_run(0, slot_protocol::epoch, 5, bytes); };
  EXPECT_EQ(run(0).error(), errc::too_large);
  EXPECT_EQ(run(32 * 4096 + 1).error(), errc::too_large);
  EXPECT_EQ(pool->used_pages(), 0U);
  ASSERT_TRUE(run(9 * 4096));
  EXPECT_EQ(run(24 * 4096).error(), errc::no_space);
  std::vector<std::uint64_t> extents;
  while (auto e = pool->take_extent(0, slot_protocol::epoch, 5, 4)) extents.push_back(*e);
  EXPECT_EQ(last_code(), errc::no_space);
  EXPECT_EQ(extents.size(), 2U);
  EXPECT_EQ(pool->used_pages(), 25U);
  EXPECT_TRUE(pool.check());
  for (const std::uint64_t e : extents) pool->give(e);
  EXPECT_EQ(pool->used_pages(), 9U);
}

TEST(structure_pages, are_visited_until_told_to_stop) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool->take_extent(0, slot_protocol::self_validating, 6, 4));
  ASSERT_TRUE(put(pool, 100));
  ASSERT_TRUE(pool->take_run(0, slot_protocol::epoch, 5, 5000));
  const auto all = owned(*pool, 0, 64);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[3].kind, page_kind::run);
  EXPECT_EQ(all[3].owner, 5U);
  EXPECT_EQ(all[3].bytes, 8192U);
  const auto two = owned(*pool, 0, ~0ULL, 2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1].offset, all[1].offset);
}

// An offset in pages that transactions own, or of which the page map says what cannot be.
TEST(structure_pages, are_owned_by_no_transaction_and_no_log) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto object = put(pool, 100);
  const auto large = put(pool, 1000);
  const auto mine = pool->take_run(0, slot_protocol::epoch, 5, 3 * 4096);
  ASSERT_TRUE(object && large && mine);
  EXPECT_EQ(pool->owned_at(*object).error(), errc::bad_pointer);
  EXPECT_EQ(pool->owned_at(*large).error(), errc::bad_pointer);
  ASSERT_TRUE(pool->owned_at(*mine + 100));
  const geometry g = pool.sizes();
  const std::uint64_t page = g.page_of(*mine);
  enter(pool, page, {3, 5, page_kind::log, object_layout::raw, slot_protocol::epoch});
  EXPECT_EQ(pool->owned_at(*mine).error(), errc::bad_pointer);
  EXPECT_TRUE(owned(*pool, 0, 64).empty());
  std::vector<damage> found;
  space_summary summary;
  EXPECT_FALSE(check_space(pool.base(), g, [&](const damage& d) { found.push_back(d); }, summary));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].what, "page map entry of a log names a structure");
  EXPECT_EQ(found[0].offset, g.entry_offset(page));
  EXPECT_EQ(found[0].found, 5U);
}

TEST(structure_pages, hold_no_objects_after_a_reboot) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto extent = pool->take_extent(0, slot_protocol::epoch, 5, 4);
  const auto run = pool->take_run(0, slot_protocol::epoch, 5, 5000);
  const auto log = pool->reserve_log_run(5000);
  ASSERT_TRUE(extent && run && log);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  for (const std::uint64_t at : {*extent, *extent + 3 * 4096, *run, log->offset}) {
    for (const object_layout l : {object_layout::raw, object_layout::typed}) {
      EXPECT_EQ(again->find(at, l).error(), errc::bad_pointer) << at;
    }
  }
  ASSERT_TRUE(again->build_index(0, 1));
  EXPECT_EQ(again->statistics().extents_unindexed, 0U);
  EXPECT_EQ(again->statistics().slot_bytes_used, 0U);
  EXPECT_EQ(owned(*again, 0, 64).size(), 2U);
  // Nor room for any, although the extent is of the same kind and layout.
  test_pool third{pool, 0};
  ASSERT_TRUE(third.boot());
  const auto object = put(third, 1000);
  ASSERT_TRUE(object);
  EXPECT_EQ(third->owned_at(*object).error(), errc::bad_pointer);
  EXPECT_EQ(third->statistics().extents_unindexed, 0U);
}

}  // namespace
}  // namespace nvm::testing
