// Metadata that is damaged in any way: the check reports it, and nothing faults or hangs.
#include <random>
#include <set>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;

// A small pool with something of everything in it.
class used_pool {
 public:
  explicit used_pool(std::uint64_t pages, unsigned page_shift = 12) : pool{test_geometry(pages, pages, 4, page_shift)} {
    EXPECT_TRUE(pool.boot());
    const std::uint64_t page = std::uint64_t{1} << page_shift;
    for (unsigned i = 0; i < 40; ++i) {
      const object_layout l = i % 2 == 0 ? object_layout::raw : object_layout::typed;
      add(17 + i * 5, l);
      add(300 + i * 90, l);
      if (i % 8 == 0) add(3 * page + i, l);
    }
    // Holes between the objects.
    for (std::size_t i = 0; i < all.size(); i += 3) EXPECT_TRUE(drop(pool, all[i].first, 1, all[i].second));
    EXPECT_TRUE(pool->reserve_log_run(2 * page));
    EXPECT_TRUE(pool.check(&summary));
    objects = pool.objects();
  }
  void add(std::uint64_t bytes, object_layout l) {
    const auto a = put(pool, bytes, 0, l);
    EXPECT_TRUE(a) << last_message();
    all.emplace_back(*a, l);
  }

  test_pool pool;
  std::vector<std::pair<std::uint64_t, object_layout>> all;
  std::map<std::uint64_t, std::uint64_t> objects;
  space_summary summary;
};

// Everything that reads metadata, on bytes that may be anything: an answer, no fault.  Returns what the check says.
bool survive(test_pool& pool, const std::map<std::uint64_t, std::uint64_t>& objects, bool use) {
  const geometry g = pool.sizes();
  space_summary summary;
  unsigned reports = 0;
  const bool good = check_space(
      pool.base(), g,
      [&](const damage& d) {
        ++reports;
        EXPECT_LT(d.offset, g.size_bytes());
      },
      summary);
  EXPECT_EQ(good, reports == 0);
  EXPECT_EQ(summary.damages, reports);
  std::uint64_t visited = 0;
  const status walked = for_each_object(pool.base(), g, [&](std::uint64_t offset, std::uint64_t bytes, object_layout) {
    EXPECT_TRUE(g.in_data(offset, bytes));
    ++visited;
    return true;
  });
  EXPECT_TRUE(walked || !good);
  test_pool again{pool, 0};
  if (!again.boot(2)) {
    EXPECT_FALSE(good);
    return good;
  }
  for (const auto& [offset, bytes] : objects) {
    const auto o = again->find(offset, object_layout::raw);
    if (o && use) {
      test_tx t{again, 2};
      if (t.free(offset)) t.commit();
    }
    (void)again->find(offset, object_layout::typed);
  }
  if (use) {
    for (const std::uint64_t bytes : {20, 64, 1000, 4160, 9000}) {
      for (int i = 0; i < 4; ++i) (void)put(again, bytes, i);
    }
  }
  for (unsigned part = 0; part < 2; ++part) EXPECT_TRUE(again->build_index(part, 2));
  return good;
}

TEST(check, sums_up_what_is_there) {
  used_pool u{128};
  const space_summary& s = u.summary;
  EXPECT_EQ(s.pages, 128U);
  EXPECT_EQ(s.objects, u.objects.size());
  EXPECT_EQ(s.log_runs, 1U);
  EXPECT_EQ(s.log_pages, 2U);
  EXPECT_EQ(s.free_pages + s.run_pages + s.log_pages + s.fine_extents + 8 * s.coarse_extents, 128U);
  EXPECT_GT(s.runs, 0U);
  EXPECT_GT(s.fine_extents, 0U);
  EXPECT_GT(s.coarse_extents, 0U);
  std::uint64_t bytes = 0;
  for (const auto& [offset, n] : u.objects) bytes += n;
  EXPECT_EQ(s.object_bytes, bytes);
  EXPECT_EQ(s.free_pages, 128 - u.pool->used_pages());
}

// Page map, extent headers, length bytes of objects, headers of typed objects: each bit of them.
TEST(check, reports_every_flipped_bit_of_metadata) {
  for (const unsigned page_shift : {10U, 12U}) {
    used_pool u{std::uint64_t{160} << (12 - page_shift), page_shift};
    const geometry g = u.pool.sizes();
    std::set<std::uint64_t> bytes;
    const auto add = [&](std::uint64_t at, std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) bytes.insert(at + i);
    };
    add(g.page_map_offset, g.size_pages * 8);
    page_map map{u.pool.base(), g};
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      const layout::page_entry e = layout::unpack(map.load(page) & checked_mask);
      if (e.kind != page_kind::fine && e.kind != page_kind::coarse) {
        if (e.kind == page_kind::run && e.layout == object_layout::typed) add(g.page_offset(page), 5);
        continue;
      }
      const layout::extent_shape s = layout::shape_of(e.kind, page_shift);
      const std::uint64_t at = g.page_offset(page);
      add(at, s.lengths_at);
      read_extent(
          u.pool.base(), at, e.kind, s,
          [&](unsigned slot, unsigned) {
            add(at + s.lengths_at + slot, 1);
            if (e.layout != object_layout::typed) return;
            add(at + slot * s.slot_bytes, 5);      // size
            add(at + slot * s.slot_bytes + 7, 5);  // its check, the type
          },
          [&](const damage&) { FAIL(); });
    }
    ASSERT_GT(bytes.size(), 1500U);
    for (const std::uint64_t at : bytes) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        u.pool.base()[at] ^= std::byte{static_cast<unsigned char>(1U << bit)};
        space_summary summary;
        EXPECT_FALSE(check_space(u.pool.base(), g, nullptr, summary)) << "byte at offset " << at << ", bit " << bit;
        u.pool.base()[at] ^= std::byte{static_cast<unsigned char>(1U << bit)};
      }
    }
    EXPECT_TRUE(u.pool.check());
  }
}

TEST(check, and_everything_else_survives_every_flipped_bit) {
  used_pool u{72};
  const geometry g = u.pool.sizes();
  std::vector<std::uint64_t> bytes;
  for (std::uint64_t i = 0; i < g.size_pages * 8; ++i) bytes.push_back(g.page_map_offset + i);
  page_map map{u.pool.base(), g};
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const layout::page_entry e = layout::unpack(map.load(page) & checked_mask);
    if (e.kind != page_kind::fine && e.kind != page_kind::coarse) continue;
    const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
    for (std::uint64_t i = 0; i < s.lengths_at + s.slots; ++i) bytes.push_back(g.page_offset(page) + i);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto mask = std::byte{static_cast<unsigned char>(1U << i % 8)};
    u.pool.base()[bytes[i]] ^= mask;
    (void)survive(u.pool, u.objects, i % 16 < 8);
    u.pool.base()[bytes[i]] ^= mask;
  }
}

TEST(check, and_everything_else_survives_random_words) {
  used_pool u{72};
  const geometry g = u.pool.sizes();
  const image clean = make_image(g);
  std::memcpy(clean.get(), u.pool.base(), g.size_bytes());
  std::mt19937_64 random{42};
  for (int round = 0; round < 2000; ++round) {
    for (std::uint64_t n = random() % 4 + 1; n > 0; --n) {
      // In the page map, the header of a page, or anywhere.
      const std::uint64_t page = random() % g.size_pages;
      std::uint64_t at = g.entry_offset(page);
      if (random() % 3 == 0) at = g.page_offset(page) + random() % 128 * 8;
      if (random() % 5 == 0) at = g.page_map_offset + random() % ((g.size_bytes() - g.page_map_offset) / 8) * 8;
      std::uint64_t word = random() >> random() % 64;
      // Words that pass their check, to get after it.
      if (random() % 2 == 0) word = seal_word(word & checked_mask, word_seed(at));
      if (random() % 4 == 0) {
        const layout::page_entry e{static_cast<std::uint32_t>(random() % 9 == 0 ? random() : random() % 10), 0,
                                   static_cast<page_kind>(random() % 6), static_cast<object_layout>(random() % 4),
                                   layout::slot_protocol::transactional};
        word = seal_word(layout::pack(e), word_seed(at));
      }
      std::memcpy(u.pool.base() + at, &word, sizeof word);
    }
    (void)survive(u.pool, u.objects, round % 2 == 0);
    std::memcpy(u.pool.base(), clean.get(), g.size_bytes());
  }
}

TEST(check, and_everything_else_survives_noise) {
  const geometry g = test_geometry(64, 64);
  test_pool pool{g};
  std::mt19937_64 random{4};
  for (int round = 0; round < 50; ++round) {
    for (std::uint64_t at = g.page_map_offset; at < g.size_bytes(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(pool.base() + at, &word, sizeof word);
    }
    EXPECT_FALSE(survive(pool, {}, true));
  }
}

TEST(check, tells_objects_that_overlap) {
  test_pool pool{test_geometry(8, 8)};
  ASSERT_TRUE(pool.boot());
  const auto a = put(pool, 1024);
  const auto b = put(pool, 1024);
  ASSERT_TRUE(a && b);
  const layout::extent_shape s = layout::shape_of(page_kind::coarse, 12);
  const geometry g = pool.sizes();
  const std::uint64_t slot = (*a - g.data_offset) / s.slot_bytes;
  pool.base()[g.data_offset + s.lengths_at + slot] = std::byte{layout::length_byte(17)};
  std::vector<damage> found;
  space_summary summary;
  EXPECT_FALSE(check_space(pool.base(), g, [&](const damage& d) { found.push_back(d); }, summary));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].what, "object begins inside the one before");
}

}  // namespace
}  // namespace nvm::testing
