#include <random>
#include <set>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;

TEST(space, refuses_what_is_no_size) {
  test_pool pool{test_geometry(64, 128)};
  ASSERT_TRUE(pool.boot());
  const auto code_of = [&](std::uint64_t bytes) { return pool->reserve(0, bytes, object_layout::raw).error(); };
  EXPECT_EQ(code_of(0), errc::invalid);
  EXPECT_EQ(code_of(~std::uint64_t{0}), errc::too_large);
  EXPECT_EQ(code_of(std::uint64_t{1} << 63), errc::too_large);
  EXPECT_EQ(code_of((128 << 12) + 1), errc::too_large);
  EXPECT_EQ(pool->used_pages(), 0U);
  EXPECT_TRUE(pool->reserve(0, 128 << 12, object_layout::raw)) << "all of the capacity";
}

TEST(space, aligns_objects_to_slots_lines_and_pages) {
  test_pool pool{test_geometry(1024, 1024)};
  ASSERT_TRUE(pool.boot());
  for (std::uint64_t bytes = 1; bytes < 20000; bytes += 7) {
    const auto r = pool->reserve(0, bytes, object_layout::raw);
    ASSERT_TRUE(r) << last_message();
    const layout::room room = layout::room_of(bytes, 12);
    const std::uint64_t unit = room.kind == page_kind::fine ? 16 : room.kind == page_kind::coarse ? 64 : 4096;
    EXPECT_EQ(r->offset % unit, 0U) << bytes;
    EXPECT_EQ(r->bytes, room.units * unit) << bytes;
    EXPECT_EQ(r->length_byte == nullptr, room.kind == page_kind::run);
    pool->cancel(*r, 0);
  }
}

TEST(space, puts_nothing_on_media_for_what_is_only_reserved) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  std::vector<test_space::reservation> all;
  for (const std::uint64_t bytes : {48, 64, 4000, 5000, 20000}) {
    all.push_back(*pool->reserve(0, bytes, object_layout::raw));
    EXPECT_TRUE(pool.objects().empty());
  }
  test_pool crashed{pool, 0};
  ASSERT_TRUE(crashed.boot());
  EXPECT_TRUE(crashed.objects().empty());
  for (const auto& r : all) EXPECT_EQ(crashed->find(r.offset, object_layout::raw).error(), errc::bad_pointer);
}

TEST(space, frees_an_object_once) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  for (const std::uint64_t bytes : {48, 1000, 9000}) {
    const auto a = put(pool, bytes);
    ASSERT_TRUE(a);
    test_tx t0{pool, 0};
    test_tx t1{pool, 1};
    ASSERT_TRUE(t0.free(*a));
    EXPECT_EQ(t0.free(*a).error(), errc::bad_pointer) << "by the same transaction";
    EXPECT_EQ(t1.free(*a).error(), errc::bad_pointer) << "by another";
    t0.abort();
    ASSERT_TRUE(t1.free(*a)) << "the first one gave it up";
    t1.commit();
    EXPECT_EQ(t0.free(*a).error(), errc::bad_pointer) << "it is gone";
  }
}

TEST(space, keeps_a_slot_until_the_transaction_that_frees_it_commits) {
  test_pool pool{test_geometry(8, 8)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  while (auto a = put(pool, 4160)) all.push_back(*a);
  ASSERT_EQ(all.size(), 7U) << "what one coarse extent holds";
  test_tx t{pool, 1};
  ASSERT_TRUE(t.free(all[3]));
  EXPECT_FALSE(put(pool, 4160)) << "freed, but not yet for good";
  t.commit();
  const auto again = put(pool, 4160);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, all[3]);
}

// Between finding an object and freeing it a transaction takes locks of its own.
TEST(space, frees_no_other_object_than_the_one_that_was_found) {
  test_pool pool{test_geometry(8, 8)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  while (auto a = put(pool, 4160)) all.push_back(*a);
  ASSERT_EQ(all.size(), 7U);
  const auto found = pool->find(all[3], layout::object_layout::raw);
  ASSERT_TRUE(found);
  ASSERT_TRUE(drop(pool, all[3]));
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "it is gone";
  const auto shorter = put(pool, 3072);
  ASSERT_TRUE(shorter);
  ASSERT_EQ(*shorter, all[3]);
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "a shorter one is there";
  ASSERT_TRUE(drop(pool, *shorter));
  for (const std::uint64_t a : all) {
    if (a != all[3]) {
      ASSERT_TRUE(drop(pool, a));
    }
  }
  ASSERT_TRUE(pool->trim());
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "not even the extent is there";
}

TEST(space, frees_no_other_run_than_the_one_that_was_found) {
  test_pool pool{test_geometry(16, 16)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 16 * 4096);
  ASSERT_TRUE(a);
  const auto found = pool->find(*a, object_layout::raw);
  ASSERT_TRUE(found);
  ASSERT_TRUE(drop(pool, *a));
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "it is gone";
  const auto shorter = put(pool, 15 * 4096);
  ASSERT_TRUE(shorter);
  ASSERT_EQ(*shorter, *a);
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "a shorter one is there";
  ASSERT_TRUE(drop(pool, *shorter));
  for (std::uint64_t small = 0; small - *a >= 4096;) {
    const auto next = put(pool, 250);
    ASSERT_TRUE(next) << last_message();
    small = *next;
  }
  EXPECT_EQ(pool->begin_free(*found, 1).error(), errc::bad_pointer) << "an extent is there";
}

// After a reboot its extent is nobody's; it comes to the arena of whoever frees something in it, and only then.
TEST(space, moves_an_extent_only_for_an_object_that_can_be_freed) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 100);
  ASSERT_TRUE(a);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  auto found = again->find(*a, object_layout::raw);
  ASSERT_TRUE(found);
  const std::uint64_t bytes = found->bytes;
  found->bytes += 16;  // when it was found a longer one was there
  EXPECT_EQ(again->begin_free(*found, 1).error(), errc::bad_pointer);
  EXPECT_EQ(found->in->arena, again->index().orphans());
  found->bytes = bytes;
  ASSERT_TRUE(again->begin_free(*found, 1));
  EXPECT_EQ(found->in->arena, 1U);
  again->cancel_free(*found, 1);
  EXPECT_TRUE(again->find(*a, object_layout::raw));
}

TEST(space, works_on_after_it_was_exhausted) {
  for (const std::uint64_t bytes : {48, 64, 300, 4160, 4096 * 3}) {
    test_pool pool{test_geometry(100, 100)};
    ASSERT_TRUE(pool.boot());
    std::vector<std::uint64_t> all;
    for (;;) {
      const auto a = put(pool, bytes, static_cast<unsigned>(all.size() % 4));
      if (!a) {
        EXPECT_EQ(a.error(), errc::no_space);
        break;
      }
      all.push_back(*a);
    }
    for (unsigned lane = 0; lane < 4; ++lane) EXPECT_FALSE(put(pool, bytes, lane)) << "room was left";
    for (unsigned lane = 0; lane < 4; ++lane) {
      ASSERT_TRUE(drop(pool, all[lane * 5], (lane + 1) % 4));
      const auto a = put(pool, bytes, (lane + 2) % 4);
      ASSERT_TRUE(a) << "what one lane frees any lane may have";
      EXPECT_EQ(*a, all[lane * 5]);
    }
    EXPECT_TRUE(pool.check());
    for (const std::uint64_t a : all) ASSERT_TRUE(drop(pool, a, 3));
    EXPECT_TRUE(put(pool, 100 * 4096)) << "and all pages are one run again";
  }
}

TEST(space, spreads_allocations_over_all_slots) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  for (const std::uint64_t bytes : {48, 1024}) {
    std::map<std::uint64_t, unsigned> wear;
    for (int i = 0; i < 5000; ++i) {
      const auto a = put(pool, bytes);
      ASSERT_TRUE(a);
      ++wear[*a];
      ASSERT_TRUE(drop(pool, *a));
    }
    unsigned most = 0;
    for (const auto& [offset, times] : wear) most = std::max(most, times);
    EXPECT_LE(most, 5000 / wear.size() + 1) << "one slot more often than the others";
    EXPECT_GE(wear.size(), bytes == 48 ? 70U : 28U);
  }
}

TEST(space, spreads_runs_over_the_pages_of_a_chunk) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  std::map<std::uint64_t, unsigned> wear;
  for (int i = 0; i < 640; ++i) {
    const auto a = put(pool, 8192);
    ASSERT_TRUE(a);
    ++wear[*a];
    ASSERT_TRUE(drop(pool, *a));
  }
  EXPECT_EQ(wear.size(), 32U);
}

// ---- what boot finds -----------------------------------------------------------------------------------------------

TEST(space, boots_in_parts_to_the_same_state) {
  test_pool pool{test_geometry(700, 700)};
  ASSERT_TRUE(pool.boot());
  std::mt19937_64 random{5};
  while (put(pool, random() % (random() % 8 == 0 ? 600000 : 6000) + 1, random() % 4)) {
  }
  const auto objects = pool.objects();
  for (const unsigned parts : {1, 2, 3, 7, 64}) {
    test_pool again{pool, 0};
    ASSERT_TRUE(again.boot(parts));
    EXPECT_EQ(again->used_pages(), pool->used_pages());
    EXPECT_EQ(again.objects(), objects);
    for (unsigned part = 0; part < parts; ++part) EXPECT_TRUE(again->build_index(part, parts));
    EXPECT_EQ(again->statistics().extents_unindexed, 0U);
    for (const auto& [offset, bytes] : objects) {
      ASSERT_TRUE(drop(again, offset, static_cast<unsigned>(offset / 4096 % 4)));
    }
    again->trim();
    EXPECT_EQ(again->used_pages(), 0U);
  }
}

TEST(space, indexes_on_demand_no_more_than_a_few_extents) {
  test_pool pool{test_geometry(4096, 4096)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 10000; ++i) all.push_back(*put(pool, 1024));
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  const std::uint64_t extents = again->statistics().extents_unindexed;
  EXPECT_GE(extents, 10000U / 31);
  ASSERT_TRUE(put(again, 1024));
  EXPECT_GE(again->statistics().extents_unindexed, extents - 16);
  ASSERT_TRUE(again->find(all[5000], object_layout::raw));
  EXPECT_GE(again->statistics().extents_unindexed, extents - 17);
}

// Free slots of extents that nobody has looked at are used rather than reported as no space.
TEST(space, finds_the_last_free_slot_of_a_full_pool_after_a_reboot) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  while (auto a = put(pool, 1024)) all.push_back(*a);
  ASSERT_TRUE(drop(pool, all[all.size() / 2]));
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  const auto a = put(again, 1024, 2);
  ASSERT_TRUE(a) << last_message();
  EXPECT_EQ(*a, all[all.size() / 2]);
  EXPECT_EQ(put(again, 1024, 1).error(), errc::no_space);
}

TEST(space, gives_empty_extents_that_nobody_has_looked_at_to_runs) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  while (auto a = put(pool, 1024)) all.push_back(*a);
  for (const std::uint64_t a : all) ASSERT_TRUE(drop(pool, a));
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  EXPECT_EQ(again->used_pages(), 512U);
  EXPECT_TRUE(put(again, 512 * 4096));
}

class bad_page_maps : public ::testing::Test {
 protected:
  void refuse(std::uint64_t page, const layout::page_entry& e, const char* why) {
    test_pool pool{test_geometry(100, 200)};
    page_map map{pool.base(), sizes_};
    map.store(40, map.seal(40, {10, 0, page_kind::run, object_layout::raw, layout::slot_protocol::transactional}));
    map.store(page, map.seal(page, e));
    for (const unsigned parts : {1, 2}) {
      test_pool again{pool, 0};
      const status s = again.boot(parts);
      ASSERT_FALSE(s) << why;
      EXPECT_EQ(s.error(), errc::corrupt) << why;
    }
    space_summary summary;
    EXPECT_FALSE(check_space(pool.base(), sizes_, nullptr, summary)) << why;
  }
  const geometry sizes_ = test_geometry(100, 200);
};

TEST_F(bad_page_maps, are_refused_by_boot) {
  refuse(0, {101, 0, page_kind::run, object_layout::raw, {}}, "run behind the end");
  refuse(99, {8, 0, page_kind::log, object_layout::raw, {}}, "log run behind the end");
  refuse(99, {~0U, 0, page_kind::run, object_layout::raw, {}}, "run of 2^32 pages");
  refuse(3, {0, 0, page_kind::run, object_layout::raw, {}}, "run of no pages");
  refuse(3, {1, 0, static_cast<page_kind>(9), object_layout::raw, {}}, "unknown kind");
  refuse(3, {1, 0, page_kind::free, object_layout::raw, {}}, "free with a length");
  refuse(3, {1, 0, page_kind::run, static_cast<object_layout>(3), {}}, "unknown layout");
  refuse(3, {2, 0, page_kind::fine, object_layout::raw, {}}, "fine extent of two pages");
  refuse(8, {1, 0, page_kind::coarse, object_layout::raw, {}}, "coarse extent of one page");
  refuse(9, {8, 0, page_kind::coarse, object_layout::raw, {}}, "coarse extent between multiples of 8");
  refuse(96, {8, 0, page_kind::coarse, object_layout::raw, {}}, "coarse extent behind the end");
  refuse(30, {11, 0, page_kind::run, object_layout::raw, {}}, "run into another");
  refuse(49, {1, 0, page_kind::run, object_layout::raw, {}}, "run inside another");
  refuse(48, {8, 0, page_kind::coarse, object_layout::raw, {}}, "extent inside a run");
}

// ---- damage on demand ----------------------------------------------------------------------------------------------

TEST(space, leaves_a_damaged_extent_alone_and_uses_the_rest) {
  test_pool pool{test_geometry(24, 24)};
  ASSERT_TRUE(pool.boot());
  std::vector<std::uint64_t> all;
  while (auto a = put(pool, 1000)) all.push_back(*a);
  const geometry g = pool.sizes();
  const std::uint64_t victim = g.page_of(all[0]) / 8 * 8;
  pool.base()[g.page_offset(victim) + layout::first_words_at] ^= std::byte{1};

  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  std::vector<std::uint64_t> good;
  for (const std::uint64_t a : all) {
    const auto o = again->find(a, object_layout::raw);
    if (g.page_of(a) / 8 * 8 == victim) {
      ASSERT_FALSE(o);
      EXPECT_EQ(o.error(), errc::corrupt);
    } else {
      ASSERT_TRUE(o) << last_message();
      good.push_back(a);
    }
  }
  ASSERT_FALSE(good.empty());
  ASSERT_LT(good.size(), all.size());
  EXPECT_EQ(again->statistics().extents_quarantined, 1U);
  for (const std::uint64_t a : good) ASSERT_TRUE(drop(again, a));
  while (auto a = put(again, 1000)) EXPECT_NE(g.page_of(*a) / 8 * 8, victim);
  EXPECT_EQ(last_code(), errc::no_space);
}

TEST(space, tells_a_damaged_object_header_or_length) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  for (const std::uint64_t bytes : {100, 1000, 10000}) {
    const auto a = put(pool, bytes, 0, object_layout::typed);
    ASSERT_TRUE(a);
    ASSERT_TRUE(pool->find(*a, object_layout::typed));
    pool.base()[*a + 1] ^= std::byte{0x10};
    EXPECT_EQ(pool->find(*a, object_layout::typed).error(), errc::corrupt);
    const auto wrong = layout::make_object_header(bytes * 2, 7, *a);
    std::memcpy(pool.base() + *a, &wrong, sizeof wrong);
    EXPECT_EQ(pool->find(*a, object_layout::typed).error(), errc::corrupt) << "a size that does not fit the room";
  }
  const auto r = pool->reserve(0, 100, object_layout::raw);
  ASSERT_TRUE(r);
  pool->committed(*r, 0, pool.lanes().commit(0, {r->set}));
  pool.base()[r->length_byte - pool.base()] ^= std::byte{1};
  EXPECT_EQ(pool->find(r->offset, object_layout::raw).error(), errc::corrupt);
}

// ---- log runs ------------------------------------------------------------------------------------------------------

TEST(space, gives_lanes_log_runs_that_are_no_objects) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto run = pool->reserve_log_run(10000);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->bytes, 12288U);
  EXPECT_EQ(run->offset % 4096, 0U);
  EXPECT_EQ(pool->used_pages(), 3U);
  EXPECT_EQ(pool->find(run->offset, object_layout::raw).error(), errc::bad_pointer);
  space_summary s;
  EXPECT_TRUE(pool.check(&s));
  EXPECT_EQ(s.log_pages, 3U);
  test_pool crashed{pool, 0};
  ASSERT_TRUE(crashed.boot());
  EXPECT_EQ(crashed->used_pages(), 3U) << "until recovery has freed it";
  pool->release_log_run(run->offset);
  EXPECT_EQ(pool->used_pages(), 0U);
  EXPECT_TRUE(pool.check(&s));
  EXPECT_EQ(s.free_pages, 64U);
  EXPECT_EQ(pool->reserve_log_run(65 * 4096).error(), errc::too_large);
  EXPECT_EQ(pool->reserve_log_run(0).error(), errc::too_large);
  ASSERT_TRUE(put(pool, 60 * 4096));
  EXPECT_EQ(pool->reserve_log_run(5 * 4096).error(), errc::no_space);
}

TEST(space, visits_objects_in_address_order_until_told_to_stop) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  std::set<std::uint64_t> all;
  for (int i = 0; i < 500; ++i) all.insert(*put(pool, 17 + i * 13, i % 4, object_layout::typed));
  std::vector<std::uint64_t> seen;
  ASSERT_TRUE(pool->for_each_object([&](std::uint64_t offset, std::uint64_t bytes, object_layout l) {
    EXPECT_GE(bytes, 17U);
    EXPECT_EQ(l, object_layout::typed);
    seen.push_back(offset);
    return true;
  }));
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{all.begin(), all.end()}));
  unsigned visits = 0;
  ASSERT_TRUE(pool->for_each_object([&](std::uint64_t, std::uint64_t, object_layout) { return ++visits < 10; }));
  EXPECT_EQ(visits, 10U);
}

}  // namespace
}  // namespace nvm::testing
