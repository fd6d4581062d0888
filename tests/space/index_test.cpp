// The index of space: what it refuses at boot and later, and that it takes nothing for known that is not.
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;
using layout::slot_protocol;

// A pool of 300 pages with these runs in its page map, booted in parts from the last to the first.
status boot_of(const std::vector<std::pair<std::uint64_t, std::uint32_t>>& runs, unsigned parts = 1) {
  test_pool pool{test_geometry(300, 300)};
  const geometry g = pool.sizes();
  page_map map{pool.base(), g};
  for (const auto& [page, pages] : runs) {
    map.store(page, map.seal(page, {pages, 0, page_kind::run, object_layout::raw, slot_protocol::transactional}));
  }
  for (unsigned part = parts; part-- > 0;) {
    if (status s = pool->boot(part, parts); !s) return s;
  }
  return {};
}

// Pages are counted in words of 64, and runs across words on their own.
TEST(space_index, boots_no_page_map_whose_runs_overlap) {
  EXPECT_TRUE(boot_of({{10, 40}, {60, 10}, {70, 200}}));
  EXPECT_TRUE(boot_of({{10, 40}, {60, 10}, {70, 200}}, 5));
  const auto refused = [](const std::vector<std::pair<std::uint64_t, std::uint32_t>>& runs, unsigned parts = 1) {
    const status s = boot_of(runs, parts);
    EXPECT_FALSE(s);
    EXPECT_EQ(s.error(), errc::corrupt);
    EXPECT_NE(std::string{last_message()}.find("belongs to two entries"), std::string::npos) << last_message();
  };
  refused({{10, 5}, {12, 1}});             // inside a word
  refused({{10, 100}, {50, 30}});          // both across words
  refused({{60, 10}, {66, 1}, {130, 1}});  // one across, found when the next word begins
  refused({{60, 10}, {66, 1}});            // and at the end
  refused({{60, 10}, {66, 1}}, 5);         // the word was counted by another part
}

// Chunks of 64 pages that are alike are taken at once.
class pages_alike : public ::testing::Test {
 protected:
  pages_alike() {
    for (std::uint64_t page = 64; page < 128; ++page) put(page, {1, 0, page_kind::cluster, object_layout::raw, {}});
  }
  void put(std::uint64_t page, const layout::page_entry& e) { map.store(page, map.seal(page, e)); }
  bool are_alike(std::uint64_t page) { return map.has_alike(page, g.size_pages, entry); }

  test_pool pool{test_geometry(300, 300)};
  geometry g = pool.sizes();
  page_map map{pool.base(), g};
  layout::page_entry entry{};
};

TEST_F(pages_alike, are_free_or_of_one_page_each) {
  EXPECT_TRUE(are_alike(0));
  EXPECT_EQ(entry.length_pages, 0U);
  EXPECT_TRUE(are_alike(64));
  EXPECT_EQ(entry.length_pages, 1U);
  EXPECT_EQ(entry.kind, page_kind::cluster);
  EXPECT_FALSE(are_alike(256)) << "the last chunk ends with the pool";
  put(100, {1, 0, page_kind::run, object_layout::raw, slot_protocol::transactional});
  EXPECT_FALSE(are_alike(64));
  for (std::uint64_t page = 128; page < 192; page += 2) put(page, {2, 0, page_kind::run, object_layout::raw, {}});
  EXPECT_FALSE(are_alike(128));
}
TEST_F(pages_alike, have_no_bit_that_differs) {
  for (std::uint64_t page = 64; page < 192; ++page) {
    const std::uint64_t word = map.load(page);
    for (unsigned bit = 0; bit < 64; ++bit) {
      map.store(page, word ^ std::uint64_t{1} << bit);
      EXPECT_FALSE(are_alike(page / 64 * 64)) << page << ", bit " << bit;
    }
    map.store(page, word);
    EXPECT_TRUE(are_alike(page / 64 * 64));
  }
  // An entry at another's place, and the same everywhere.
  const std::uint64_t first = map.load(64), second = map.load(65);
  map.store(64, second);
  map.store(65, first);
  EXPECT_FALSE(are_alike(64));
  for (std::uint64_t page = 64; page < 128; ++page) map.store(page, first);
  EXPECT_FALSE(are_alike(64));
}
TEST_F(pages_alike, are_booted_as_others_are) {
  // One page less, so that each is looked at.
  const auto busy_of = [&](std::uint64_t pages) {
    for (std::uint64_t page = 64; page < 128; ++page) {
      map.store(page, 0);
      if (page < 64 + pages) put(page, {1, 0, page_kind::cluster, object_layout::raw, {}});
    }
    space_index index{pool.base(), g};
    EXPECT_TRUE(index.boot(0, 1)) << last_message();
    for (std::uint64_t page = 64; page < 64 + pages; ++page) {
      EXPECT_TRUE(index.of_stores.may_have(page, page));
      EXPECT_FALSE(index.pages.mark_busy(page, 1)) << page;
    }
    EXPECT_FALSE(index.of_stores.may_have(64 + pages, 299));
    return g.size_pages - index.pages.free_pages();
  };
  const std::uint64_t less = busy_of(63), all = busy_of(64);
  EXPECT_EQ(all, less + 1);
  // A run before them that reaches in.
  put(60, {6, 0, page_kind::run, object_layout::raw, slot_protocol::transactional});
  space_index index{pool.base(), g};
  EXPECT_EQ(index.boot(0, 1).error(), errc::corrupt);
}

TEST(space_index, says_that_there_is_no_memory_for_its_tables) {
  test_pool pool{test_geometry(64, 64)};
  geometry g = pool.sizes();
  g.capacity_pages = std::uint64_t{1} << 56;
  space_index index{pool.base(), g};
  EXPECT_EQ(index.exists().error(), errc::no_memory);
  EXPECT_EQ(index.boot(0, 1).error(), errc::no_memory);
  EXPECT_EQ(index.build_index(0, 1).error(), errc::no_memory);
}

TEST(space_index, looks_a_page_up_as_often_as_asked) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto small = put(pool, 100);
  const auto large = put(pool, 20000);
  ASSERT_TRUE(small && large);
  const geometry g = pool.sizes();
  space_index index{pool.base(), g};
  ASSERT_TRUE(index.boot(0, 1));
  for (int i = 0; i < 2; ++i) {
    const auto in_extent = index.look_up(g.page_of(*small));
    EXPECT_TRUE(in_extent && *in_extent);
    EXPECT_EQ(index.count().extents_unindexed, 0U);
    const auto run = index.look_up(g.page_of(*large));
    EXPECT_TRUE(run && *run);
    const auto inside = index.look_up(g.page_of(*large) + 1);
    EXPECT_TRUE(inside && !*inside);
  }
}

// An extent goes to the arena that asks for it, unless it is on its way to another or there already.
TEST(space_index, moves_only_extents_that_are_filed_elsewhere) {
  test_pool pool{test_geometry(64, 64)};
  const geometry g = pool.sizes();
  space_index index{pool.base(), g};
  ASSERT_TRUE(index.boot(0, 1));
  ASSERT_NE(index.arena_at(0), nullptr);
  ASSERT_NE(index.arena_at(1), nullptr);
  extent* e = index.descriptors(page_kind::fine).get();
  ASSERT_NE(e, nullptr);
  e->make_empty(object_layout::raw, index.shape(page_kind::fine));
  const unsigned set = slot_set_of(page_kind::fine, object_layout::raw);
  index.name(*e, 3, 0, space_index::nobody);
  index.move(*e, 1, space_index::nobody);
  EXPECT_EQ(e->arena, 0U) << "on its way";
  EXPECT_EQ(index.arena_at(1)->sets[set].candidate(1), nullptr);
  index.file(*e, 0, space_index::nobody);
  index.move(*e, 0, space_index::nobody);
  EXPECT_EQ(index.arena_at(0)->sets[set].candidate(1), e) << "there already";
  index.move(*e, 1, space_index::nobody);
  EXPECT_EQ(e->arena, 1U);
  EXPECT_EQ(index.arena_at(0)->sets[set].candidate(1), nullptr);
  EXPECT_EQ(index.arena_at(1)->sets[set].candidate(1), e);
}

// Boot has read the page map; what changes there afterwards is damage, found when it matters.
TEST(space_index, reads_no_extent_whose_entry_was_damaged_since_boot) {
  test_pool pool{test_geometry(128, 128)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 300; ++i) all.push_back(*put(pool, 1000));
  const geometry g = pool.sizes();
  const std::uint64_t victim = round_down(g.page_of(all[0]), 8);
  const auto in_victim = [&](std::uint64_t at) { return round_down(g.page_of(at), 8) == victim; };
  for (const bool build : {false, true}) {
    test_pool again{pool, 0};
    ASSERT_TRUE(again.boot());
    again.base()[g.entry_offset(victim)] ^= std::byte{1};
    if (build) {
      EXPECT_TRUE(again->build_index(0, 1));
    } else {
      const auto fresh = put(again, 1000);
      ASSERT_TRUE(fresh);
      EXPECT_FALSE(in_victim(*fresh));
    }
    for (const std::uint64_t at : all) {
      const auto o = again->find(at, object_layout::raw);
      EXPECT_EQ(bool{o}, !in_victim(at)) << at;
      if (!o) {
        EXPECT_EQ(o.error(), errc::corrupt);
        EXPECT_NE(std::string{last_message()}.find("page map entry fails its check"), std::string::npos);
      }
    }
    EXPECT_EQ(again->statistics().extents_unindexed, 1U);
  }
}

}  // namespace
}  // namespace nvm::testing
