// Space that is damaged and mended: as it was wherever that is known twice, with a report of everything else.
#include <random>

#include "mended_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;

// Each byte of metadata, as check_test.cpp names them.
std::vector<std::uint64_t> metadata(typed_pool& u) {
  const geometry g = u.pool.sizes();
  std::vector<std::uint64_t> bytes;
  const auto add = [&](std::uint64_t at, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) bytes.push_back(at + i);
  };
  add(g.page_map_offset, g.size_pages * 8);
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const layout::page_entry e = layout::unpack(load_word(u.pool.base(), g.entry_offset(page)) & checked_mask);
    const std::uint64_t at = g.page_offset(page);
    if (e.kind == page_kind::run) add(at, 5);
    if (e.kind == page_kind::run) add(at + 7, 5);
    if (e.kind != page_kind::fine && e.kind != page_kind::coarse) continue;
    const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
    add(at, s.lengths_at);
    read_extent(
        u.pool.base(), at, e.kind, s,
        [&](unsigned slot, unsigned) {
          add(at + s.lengths_at + slot, 1);
          add(at + slot * s.slot_bytes, 5);
          add(at + slot * s.slot_bytes + 7, 5);
        },
        [&](const damage&) { FAIL(); });
  }
  return bytes;
}

TEST(mend, changes_nothing_in_a_sound_pool) {
  typed_pool typed;
  EXPECT_TRUE(typed.changes_nothing());
  EXPECT_TRUE(typed.told.empty()) << typed.report();
  untyped_pool untyped;
  EXPECT_TRUE(untyped.changes_nothing());
  EXPECT_TRUE(untyped.told.empty()) << untyped.report();
}

TEST(mend, need_not_tell_anybody) {
  typed_pool u;
  u.flip(u.pool.sizes().entry_offset(u.page_of(page_kind::run)), 1);
  const mend_summary s = mend_space(u.pool.base(), u.pool.sizes(), nullptr);
  EXPECT_EQ(s.mended, 1U);
  EXPECT_TRUE(u.as_before());
}

TEST(mend, takes_back_every_flipped_bit_of_metadata) {
  typed_pool u;
  std::uint64_t kept = 0, flips = 0;
  for (const std::uint64_t at : metadata(u)) {
    // Two bits of each byte; neighbouring bytes have others.
    for (const std::uint64_t bit : {at % 8, (at + 3) % 8}) {
      u.flip(at, 1U << bit);
      const mend_summary s = u.mend();
      ++flips;
      kept += s.kept != 0;
      ASSERT_EQ(s.cannot, 0U) << at << " bit " << bit << "\n" << u.report();
      ASSERT_EQ(s.lost, 0U) << at << " bit " << bit << "\n" << u.report();
      ASSERT_GT(s.mended + s.kept, 0U) << at << " bit " << bit;
      ASSERT_TRUE(u.is_sound()) << at << " bit " << bit << "\n" << u.report();
      ASSERT_TRUE(s.kept != 0 || u.as_before()) << at << " bit " << bit << "\n" << u.report();
      ASSERT_EQ(u.pool.objects(), u.objects) << at << " bit " << bit;
      u.restore();
    }
  }
  // Of headers alone: another bit may explain it as well.
  EXPECT_LT(kept, flips / 50) << flips;
}

TEST(mend, rebuilds_a_lost_byte_of_the_page_map) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  std::mt19937 dice{7};
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t at = g.entry_offset(page);
    u.flip(at + dice() % 8, 1 + dice() % 255);
    const mend_summary s = u.mend();
    ASSERT_EQ(s.cannot + s.lost + s.kept, 0U) << page << "\n" << u.report();
    ASSERT_TRUE(u.as_before()) << page << "\n" << u.report();
    u.restore();
  }
}

TEST(mend, rebuilds_entries_of_the_page_map_from_what_lies_there) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  for (const page_kind kind : {page_kind::fine, page_kind::coarse, page_kind::run}) {
    const std::uint64_t at = g.entry_offset(u.page_of(kind));
    const std::uint64_t noise = 0x5DEE'CE66'D123'4567;
    std::memcpy(u.pool.base() + at, &noise, sizeof noise);
    const mend_summary s = u.mend();
    EXPECT_EQ(s.mended, 1U) << u.report();
    EXPECT_EQ(s.cannot + s.lost + s.kept, 0U) << u.report();
    EXPECT_TRUE(u.as_before());
    u.restore();
  }
}

TEST(mend, leaves_an_entry_of_which_nothing_tells) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  const std::uint64_t at = g.entry_offset(g.size_pages - 1);  // a free page, of zeros
  const std::uint64_t noise = 0x5DEE'CE66'D123'4567;
  std::memcpy(u.pool.base() + at, &noise, sizeof noise);
  EXPECT_TRUE(u.changes_nothing());
  ASSERT_EQ(u.told.size(), 1U) << u.report();
  EXPECT_EQ(u.told[0].how, mending::cannot);
}

TEST(mend, rebuilds_allocation_words_from_the_objects) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  for (const page_kind kind : {page_kind::fine, page_kind::coarse}) {
    const std::uint64_t extent = g.page_offset(u.page_of(kind));
    for (const std::uint64_t noise : {std::uint64_t{0x5DEE'CE66'D123'4567}, std::uint64_t{0xFF00'0000'0000'0000}}) {
      std::memcpy(u.pool.base() + extent + layout::first_words_at, &noise, sizeof noise);
      const mend_summary s = u.mend();
      EXPECT_EQ(s.cannot + s.lost, 0U) << u.report();
      EXPECT_GT(s.kept, 0U);
      EXPECT_TRUE(u.is_sound()) << u.report();
      const auto now = u.pool.objects();
      for (const auto& [offset, bytes] : u.objects) {
        const auto same = now.find(offset);
        ASSERT_TRUE(same != now.end() && same->second == bytes) << offset;
      }
      u.restore();
    }
  }
}

TEST(mend, keeps_an_object_whose_header_is_gone) {
  typed_pool u;
  for (const auto& [offset, bytes] : u.objects) {
    std::memset(u.pool.base() + offset, 0xA7, sizeof(layout::object_header));
    const mend_summary s = u.mend();
    ASSERT_EQ(s.kept, 1U) << u.report();
    ASSERT_EQ(s.cannot + s.lost, 0U) << u.report();
    ASSERT_EQ(u.told.back().object, offset);
    ASSERT_EQ(u.told.back().type, 0xA7A7A7A7U);
    ASSERT_TRUE(u.is_sound()) << u.report();
    ASSERT_EQ(u.pool.objects(), u.objects);
    u.restore();
  }
}

TEST(mend, reports_an_object_of_which_nothing_holds) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  const std::uint64_t page = u.page_of(page_kind::fine);
  const layout::extent_shape shape = layout::shape_of(page_kind::fine, g.page_shift);
  const auto object = u.objects.lower_bound(g.page_offset(page));
  const std::uint64_t slot = (object->first - g.page_offset(page)) / shape.slot_bytes;
  std::memset(u.pool.base() + object->first, 0, 8);
  u.pool.base()[g.page_offset(page) + shape.lengths_at + slot] = std::byte{0};
  const mend_summary s = u.mend();
  EXPECT_EQ(s.lost, 1U) << u.report();
  EXPECT_TRUE(u.is_sound());
  auto expected = u.objects;
  expected.erase(object->first);
  EXPECT_EQ(u.pool.objects(), expected);
}

TEST(mend, settles_pages_that_two_entries_name) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  const std::uint64_t run = u.page_of(page_kind::run);
  // A stale entry inside of a sound run.
  const std::uint64_t inner = g.entry_offset(run + 1);
  const std::uint64_t stale =
      seal_word(layout::pack({1, 0, page_kind::fine, object_layout::typed, {}}), word_seed(inner));
  std::memcpy(u.pool.base() + inner, &stale, sizeof stale);
  EXPECT_FALSE(u.is_sound());
  EXPECT_EQ(u.mend().mended, 1U) << u.report();
  EXPECT_TRUE(u.as_before());
  // A run that reaches over the extent after it: its object says how far it goes.
  const std::uint64_t length =
      layout::unpack(load_word(u.pool.base(), g.entry_offset(run)) & checked_mask).length_pages;
  std::uint64_t behind = run + length;
  while (load_word(u.pool.base(), g.entry_offset(behind)) == 0) ++behind;
  layout::page_entry longer = layout::unpack(load_word(u.pool.base(), g.entry_offset(run)) & checked_mask);
  longer.length_pages = static_cast<std::uint32_t>(behind + 1 - run);
  const std::uint64_t word = seal_word(layout::pack(longer), word_seed(g.entry_offset(run)));
  std::memcpy(u.pool.base() + g.entry_offset(run), &word, sizeof word);
  EXPECT_FALSE(u.is_sound());
  EXPECT_EQ(u.mend().cannot, 0U) << u.report();
  EXPECT_TRUE(u.as_before()) << u.report();
}

// Entries inside the pages of others, all of which hold: which of two it is that counts.
TEST(mend, takes_out_only_entries_that_the_contents_refute) {
  const layout::page_entry raw_run{1, 0, page_kind::run, object_layout::raw, {}};
  const auto two = [](mended_pool& u, std::uint64_t inner) {
    EXPECT_TRUE(u.changes_nothing()) << u.report();
    ASSERT_GE(u.told.size(), 1U);
    EXPECT_EQ(u.told[0].how, mending::cannot) << u.report();
    EXPECT_STREQ(u.told[0].what, "two page map entries name the same pages");
    EXPECT_EQ(u.told[0].offset, u.pool.sizes().entry_offset(inner));
    u.restore();
  };
  typed_pool typed;
  // Nothing refutes a run without headers, in an extent or in a run of an object that fills its pages.
  const std::uint64_t coarse = typed.page_of(page_kind::coarse);
  typed.enter(coarse + 3, raw_run);
  two(typed, coarse + 3);
  const std::uint64_t run = typed.page_of(page_kind::run);
  typed.enter(run + 1, raw_run);
  two(typed, run + 1);
  // Of the outer one neither header nor anything else says how far it goes; the object is kept with a new header.
  for (const std::uint64_t inner :
       {seal_word(layout::pack(raw_run), word_seed(typed.pool.sizes().entry_offset(run + 1))), std::uint64_t{0x1234}}) {
    typed.put_raw(typed.pool.sizes().entry_offset(run + 1), inner);
    const std::uint64_t object = typed.pool.sizes().page_offset(run);
    std::memset(typed.pool.base() + object, 0, 16);
    const mend_summary s = typed.mend();
    EXPECT_EQ(s.cannot, 1U) << typed.report();
    EXPECT_STREQ(typed.told.at(0).what, "two page map entries name the same pages");
    EXPECT_EQ(s.kept, 1U) << typed.report();
    EXPECT_EQ(typed.told.back().object, object);
    typed.restore();
  }

  untyped_pool untyped;
  const std::uint64_t outer = untyped.page_of(page_kind::run);
  ASSERT_GT(untyped.entry(outer).length_pages, 2U);
  untyped.enter(outer + 2, raw_run);
  two(untyped, outer + 2);
  // What does not hold, or what the contents refute, goes.
  const std::uint64_t at = untyped.pool.sizes().entry_offset(outer + 2);
  for (const std::uint64_t word :
       {std::uint64_t{0x1234},
        seal_word(layout::pack({1, 0, page_kind::fine, object_layout::raw, {}}), word_seed(at))}) {
    untyped.put_raw(at, word);
    EXPECT_EQ(untyped.mend().mended, 1U) << untyped.report();
    EXPECT_TRUE(untyped.as_before());
  }
}

// What lies in a page is asked what its entry was; it may be anything.
TEST(mend, believes_no_contents_that_reach_behind_the_end) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  const std::uint64_t last = g.size_pages - 1;
  const std::uint64_t noise = 0x5DEE'CE66'D123'4567;
  const auto left = [&](std::uint64_t page) {
    u.put_raw(g.entry_offset(page), noise);
    EXPECT_TRUE(u.changes_nothing());
    ASSERT_EQ(u.told.size(), 1U) << u.report();
    EXPECT_STREQ(u.told[0].what, "page map entry: nothing says what it was");
    u.restore();
  };
  for (const std::uint64_t bytes : {2 * 4096ULL, 200 * 4096ULL}) {  // after the page, and larger than the pool
    const auto h = layout::make_object_header(bytes - 16, 7, g.page_offset(last));
    std::memcpy(u.pool.base() + g.page_offset(last), &h, sizeof h);
    left(last);
  }
  const std::uint64_t aligned = round_down(last, 8) + 1;
  u.put_raw(g.page_offset(aligned), extent_identity_word(g.page_offset(aligned), page_kind::coarse));
  left(aligned);
  // The same page holds an object of a run.
  const auto h = layout::make_object_header(4080, 7, g.page_offset(last));
  std::memcpy(u.pool.base() + g.page_offset(last), &h, sizeof h);
  u.put_raw(g.entry_offset(last), noise);
  EXPECT_EQ(u.mend().mended, 1U) << u.report();
  EXPECT_TRUE(u.is_sound());
  EXPECT_EQ(u.entry(last).kind, page_kind::run);
}

TEST(mend, keeps_entries_behind_the_end_that_hold) {
  test_pool pool{test_geometry(100, 200)};
  const geometry g = pool.sizes();
  const std::uint64_t at = g.entry_offset(101);
  std::vector<mended_place> told;
  const auto mend = [&](std::uint64_t word) {
    told.clear();
    std::memcpy(pool.base() + at, &word, sizeof word);
    return mend_space(pool.base(), g, [&](const mended_place& p) { told.push_back(p); });
  };
  const std::uint64_t holds = seal_word(layout::pack({1, 0, page_kind::fine, object_layout::typed, {}}), word_seed(at));
  EXPECT_EQ(mend(holds).cannot, 1U);
  EXPECT_STREQ(told.at(0).what, "page map entry behind the pool's end");
  EXPECT_EQ(told.at(0).offset, at);
  EXPECT_EQ(load_word(pool.base(), at), holds) << "the pool was larger";
  EXPECT_EQ(mend(holds ^ 1).mended, 1U);
  EXPECT_EQ(load_word(pool.base(), at), 0U);
}

// A header that holds, of an object that is larger than any in a slot: the length byte is right.
TEST(mend, believes_no_header_of_an_object_larger_than_any_in_a_slot) {
  typed_pool u;
  const geometry g = u.pool.sizes();
  const std::uint64_t extent = g.page_offset(u.page_of(page_kind::coarse));
  const auto object = u.objects.lower_bound(extent);
  const auto h = layout::make_object_header(140 * 64, 7, object->first);
  std::memcpy(u.pool.base() + object->first, &h, sizeof h);
  EXPECT_FALSE(u.is_sound());
  const mend_summary s = u.mend();
  EXPECT_EQ(s.cannot + s.lost, 0U) << u.report();
  EXPECT_EQ(s.mended + s.kept, 1U) << u.report();
  EXPECT_EQ(u.told.at(0).object, object->first);
  EXPECT_TRUE(u.is_sound()) << u.report();
  EXPECT_EQ(u.pool.objects(), u.objects);
}

// Whatever the bytes are: an answer, no fault, and a sound pool unless it says that it cannot.
TEST(mend, ends_in_a_sound_pool_or_says_that_it_cannot) {
  typed_pool u;
  const std::vector<std::uint64_t> bytes = metadata(u);
  std::mt19937 dice{11};
  unsigned sound = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    const unsigned changes = 1 + dice() % 40;
    for (unsigned i = 0; i < changes; ++i) u.flip(bytes[dice() % bytes.size()], 1 + dice() % 255);
    const mend_summary s = u.mend();
    ASSERT_TRUE(s.cannot != 0 || u.is_sound()) << "round " << round << "\n" << u.report();
    sound += s.cannot == 0;
    u.restore();
  }
  EXPECT_GT(sound, 500U);
}

}  // namespace
}  // namespace nvm::testing
