// Damage to facts that are stored once, of objects without headers and nodes of structures: mended, or only reported.
#include <set>

#include "mended_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;

// Nothing but the check says what such an entry was.
TEST(mend, takes_back_a_flipped_bit_of_an_entry_without_headers) {
  untyped_pool u;
  const geometry g = u.pool.sizes();
  std::set<page_kind> kinds;
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t at = g.entry_offset(page);
    if (u.word(at) == 0) continue;
    kinds.insert(u.entry(page).kind);
    for (unsigned bit = 0; bit < 64; ++bit) {
      u.flip(at + bit / 8, 1U << bit % 8);
      const mend_summary s = u.mend();
      ASSERT_EQ(s.mended, 1U) << page << " bit " << bit << "\n" << u.report();
      ASSERT_EQ(s.cannot + s.lost + s.kept, 0U) << page << " bit " << bit << "\n" << u.report();
      ASSERT_TRUE(u.as_before()) << page << " bit " << bit;
      u.restore();
    }
  }
  EXPECT_EQ(kinds, (std::set{page_kind::run, page_kind::fine, page_kind::coarse, page_kind::log}));
}

// Objects without headers, and nodes, are none of a program's: their pages may not become those of typed objects.
TEST(mend, gives_headers_to_nothing_that_had_none) {
  untyped_pool u;
  const geometry g = u.pool.sizes();
  unsigned extents = 0;
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const page_kind kind = u.entry(page).kind;
    const std::uint64_t at = g.entry_offset(page);
    if (kind != page_kind::fine && kind != page_kind::coarse) continue;
    for (const std::uint64_t noise :
         {u.word(at) ^ 0x5100, u.word(at) ^ 0x3000'0300, std::uint64_t{0x5DEE'CE66'D123'4567}}) {
      u.put_raw(at, noise);
      EXPECT_TRUE(u.changes_nothing()) << page << "\n" << u.report();
      ASSERT_EQ(u.told.size(), 1U) << u.report();
      EXPECT_EQ(u.told[0].how, mending::cannot);
      EXPECT_EQ(u.told[0].offset, at);
      u.restore();
    }
    ++extents;
  }
  EXPECT_EQ(extents, 4U) << "of small and of larger objects, and two of nodes, one of them empty";
}

// One bit away from the entry of a free page, and from another: either may have been there.
TEST(mend, takes_neither_of_two_entries_that_are_as_near) {
  untyped_pool u;
  const geometry g = u.pool.sizes();
  const layout::page_entry e{1, 0, page_kind::run, object_layout::raw, {}};
  unsigned pages = 0;
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t at = g.entry_offset(page);
    if (std::popcount(seal_word(layout::pack(e), word_seed(at))) != 2) continue;
    ++pages;
    ASSERT_EQ(u.word(at), 0U);
    for (const bool blank : {false, true}) {
      u.enter(page, e);
      u.flip(at, 1);
      u.pool.base()[g.page_offset(page) + 4000] = std::byte{!blank};
      EXPECT_EQ(u.changes_nothing(), !blank) << u.report();
      ASSERT_EQ(u.told.size(), 1U) << u.report();
      EXPECT_EQ(u.told[0].how, blank ? mending::mended : mending::cannot);
      EXPECT_EQ(u.told[0].offset, at);
      EXPECT_EQ(u.told[0].made, 0U) << "nothing was there";
      u.restore();
    }
  }
  EXPECT_EQ(pages, 1U) << "of the 128 places of a check";
}

// An allocation word one bit away from an empty one, and from that of an object which looks alive.
TEST(mend, keeps_an_object_that_may_have_been_freed) {
  for (const object_layout l : {object_layout::typed, object_layout::raw}) {
    mended_pool u;
    const auto a = testing::put(u.pool, 300, 0, l);
    ASSERT_TRUE(a && drop(u.pool, *a, 0, l));
    u.keep();
    const std::uint64_t extent = u.pool.sizes().page_offset(u.page_of(page_kind::coarse));
    const layout::extent_shape shape = layout::shape_of(page_kind::coarse, 12);
    unsigned ambiguous = 0;
    for (unsigned slot = shape.header_slots; slot + 5 <= shape.slots; ++slot) {
      const first_bit b = first_bit_of(extent, slot);
      const std::uint64_t word = seal_word(std::uint64_t{1} << b.bit, word_seed(b.word_offset));
      if (std::popcount(word) != 2) continue;
      ++ambiguous;
      const std::uint64_t at = extent + slot * shape.slot_bytes;
      const auto h = layout::make_object_header(300 - 16, 9, at);
      std::memcpy(u.pool.base() + at, &h, sizeof h);
      u.pool.base()[extent + shape.lengths_at + slot] = std::byte{layout::length_byte(5)};
      // The bit that is left is that of the object, or of its check.
      for (const std::uint64_t found : {word & checked_mask, word & ~checked_mask}) {
        u.put_raw(b.word_offset, found);
        const mend_summary s = u.mend();
        EXPECT_EQ(s.kept, 1U) << u.report();
        EXPECT_EQ(s.cannot + s.lost, 0U) << u.report();
        EXPECT_EQ(u.word(b.word_offset), word);
        ASSERT_EQ(u.told.size(), 2U) << u.report();
        EXPECT_EQ(u.told[1].object, at);
        EXPECT_EQ(u.told[1].bytes, l == object_layout::typed ? 284U : 0U);
        EXPECT_EQ(u.told[1].type, l == object_layout::typed ? 9U : 0U);
        EXPECT_TRUE(u.is_sound());
      }
      // And its header does not hold: its length does.
      u.put_raw(b.word_offset, word & checked_mask);
      u.put_raw(at, 0);
      EXPECT_GE(u.mend().kept, 1U) << u.report();
      EXPECT_EQ(u.told.at(1).object, at);
      EXPECT_EQ(u.told.at(1).bytes, 0U);
      EXPECT_TRUE(u.is_sound());
      u.restore();
    }
    EXPECT_GT(ambiguous, 2U);
  }
}

TEST(mend, takes_back_every_flipped_bit_of_the_nodes_of_structures) {
  for (const unsigned page_shift : {10U, 12U}) {
    untyped_pool u{page_shift};
    for (unsigned slot = u.s.header_slots; slot < u.s.slots; slot += 3 * u.slots_each) {
      u.flip(u.length_at(slot), 0x55);
      const mend_summary s = u.mend();
      ASSERT_EQ(s.mended, 1U) << slot << "\n" << u.report();
      ASSERT_TRUE(u.as_before()) << slot;
    }
    // With nodes, and empty.
    for (const bool empty : {false, true}) {
      for (unsigned w = 0; empty && w < u.s.words; ++w) u.put(u.word_at(w), 0);
      u.keep();
      std::uint64_t kept = 0;
      for (std::uint64_t bit = 0; bit < u.s.lengths_at * 8; ++bit) {
        u.flip(u.nodes + bit / 8, 1U << bit % 8);
        const mend_summary s = u.mend();
        ASSERT_EQ(s.cannot + s.lost, 0U) << bit << "\n" << u.report();
        ASSERT_EQ(s.mended, 1U) << bit << "\n" << u.report();
        ASSERT_TRUE(s.kept != 0 || u.as_before()) << bit << "\n" << u.report();
        ASSERT_TRUE(u.is_sound()) << bit << "\n" << u.report();
        kept += s.kept;
        u.restore();
      }
      EXPECT_LT(kept, u.s.lengths_at) << "words of one bit that may be a node's or none's";
    }
  }
}

// A node that is made there later does not write it: the check finds it before.
TEST(mend, takes_back_the_length_byte_of_a_place_where_no_node_is) {
  untyped_pool u;
  for (const bool empty : {false, true}) {
    for (unsigned w = 0; empty && w < u.s.words; ++w) u.put(u.word_at(w), 0);
    u.keep();
    for (unsigned slot = u.s.header_slots; slot + u.slots_each <= u.s.slots; slot += u.slots_each) {
      for (const unsigned change : {1U, 0x80U, 0x55U}) {
        u.flip(u.length_at(slot), change);
        ASSERT_FALSE(u.is_sound()) << slot;
        const mend_summary s = u.mend();
        ASSERT_EQ(s.mended, 1U) << slot << "\n" << u.report();
        ASSERT_TRUE(u.as_before()) << slot;
        ASSERT_TRUE(u.is_sound()) << slot;
        u.restore();
      }
    }
  }
}
TEST(mend, refuses_nodes_whose_length_bytes_do_not_agree) {
  untyped_pool u;
  for (unsigned slot = u.s.header_slots; slot + u.slots_each <= u.s.slots; slot += u.slots_each) {
    u.flip(u.length_at(slot), 0x80);
  }
  EXPECT_FALSE(u.is_sound());
  EXPECT_NE(u.mend().cannot, 0U);
}

// A node or none: what was one bit away from both.
TEST(mend, keeps_a_node_that_may_have_been_freed) {
  untyped_pool u;
  unsigned ambiguous = 0;
  for (unsigned w = 0; w < u.s.words; ++w) {
    for (unsigned slot = u.s.header_slots; slot + u.slots_each <= u.s.slots; slot += u.slots_each) {
      if (slot / checked_bits != w) continue;
      const std::uint64_t at = u.word_at(w);
      const std::uint64_t word = seal_word(std::uint64_t{1} << slot % checked_bits, word_seed(at));
      if (std::popcount(word) != 2) continue;
      u.put_raw(at, word & checked_mask);
      const mend_summary s = u.mend();
      EXPECT_EQ(s.kept, 1U) << u.report();
      EXPECT_EQ(u.word(at), word);
      ASSERT_EQ(u.told.size(), 2U);
      EXPECT_EQ(u.told[1].object, u.nodes + slot * u.s.slot_bytes);
      EXPECT_TRUE(u.is_sound());
      u.restore();
      ++ambiguous;
    }
  }
  EXPECT_GT(ambiguous, 2U);
}

// What holds its check and is yet no node.
TEST(mend, says_which_nodes_cannot_be) {
  for (const unsigned page_shift : {10U, 12U}) {
    untyped_pool u{page_shift};
    const auto only = [&](const char* what, std::uint64_t at) {
      EXPECT_TRUE(u.changes_nothing()) << what << "\n" << u.report();
      ASSERT_EQ(u.told.size(), 1U) << what << "\n" << u.report();
      EXPECT_EQ(u.told[0].how, mending::cannot) << what;
      EXPECT_STREQ(u.told[0].what, what);
      EXPECT_EQ(u.told[0].offset, at) << what;
      u.restore();
    };
    const auto bit = [](unsigned slot) { return std::uint64_t{1} << slot % checked_bits; };
    const unsigned w = u.s.words - 1;
    const std::uint64_t at = u.word_at(w);
    const std::uint64_t bits = u.word(at) & checked_mask;

    const char* outside = "node outside the slots of its extent";
    u.put(u.word_at(0), (u.word(u.word_at(0)) & checked_mask) | bit(u.s.header_slots - 1));
    only(outside, u.word_at(0));
    if (u.s.slots % checked_bits != 0) {
      u.put(at, bits | bit(u.s.slots));
      only(outside, at);
    }
    // Both lengths hold, and the nodes overlap.
    const unsigned first = u.s.header_slots;
    u.put(u.word_at(0), (u.word(u.word_at(0)) & checked_mask) | bit(first + 1));
    u.pool.base()[u.length_at(first + 1)] = std::byte{layout::length_byte(u.slots_each)};
    EXPECT_FALSE(u.is_sound());
    only("node where none can begin", u.word_at(0));
    // Words of which the corrected one has such nodes, and that have none: every place may be one.
    const char* unknown = "allocation word of a structure's nodes: nothing says what it was";
    const auto all = [&](unsigned word_number) {
      for (unsigned i = 0; i < checked_bits; ++i) {
        const unsigned slot = word_number * checked_bits + i;
        const bool is_place = slot >= first && slot + u.slots_each <= u.s.slots && (slot - first) % u.slots_each == 0;
        EXPECT_EQ((u.word(u.word_at(word_number)) >> i & 1) != 0, is_place) << slot;
      }
      EXPECT_EQ(u.told.size(), 1U) << u.report();
      EXPECT_EQ(u.told[0].how, mending::mended);
      EXPECT_EQ(u.told[0].offset, u.word_at(word_number));
      EXPECT_TRUE(u.is_sound()) << u.report();
      u.restore();
    };
    for (const unsigned slot : {first - 1, first + 1}) {
      u.put(u.word_at(0), (u.word(u.word_at(0)) & checked_mask) | bit(slot));
      u.flip(u.word_at(0) + 7, 1);
      u.mend();
      all(0);
    }
    u.put_raw(at, 0x5DEE'CE66'D123'4567);
    u.mend();
    all(w);
    u.put(at, bits | bit(u.s.slots - 1));
    u.flip(at + 7, 1);
    u.mend();
    all(w);
    // Lengths that say nothing together.
    std::memset(u.pool.base() + u.length_at(0), 0, u.s.slots);
    u.put(u.word_at(0), 0);
    for (unsigned i = 1; i < u.s.words; ++i) u.put(u.word_at(i), 0);
    u.put(u.word_at(0), bit(first));
    only("length byte of a node: nothing says what it was", u.length_at(first));
    std::memset(u.pool.base() + u.length_at(0), 0, u.s.slots);
    u.flip(u.word_at(0) + 7, 1);
    u.mend();
    EXPECT_STREQ(u.told.at(0).what, unknown);
    u.restore();
  }
}

// Objects without headers: nothing says whether a slot holds one but the words.
TEST(mend, takes_back_no_more_than_a_bit_of_objects_without_headers) {
  untyped_pool u;
  const geometry g = u.pool.sizes();
  for (const page_kind kind : {page_kind::fine, page_kind::coarse}) {
    const std::uint64_t extent = g.page_offset(u.page_of(kind));
    unsigned words = 0;
    for (unsigned w = 0; w < layout::shape_of(kind, g.page_shift).words; ++w) {
      const std::uint64_t at = extent + layout::first_words_at + w * 8;
      if (std::popcount(u.word(at)) < 3) continue;
      ++words;
      for (unsigned bit = 0; bit < 64; ++bit) {
        u.flip(at + bit / 8, 1U << bit % 8);
        EXPECT_EQ(u.mend().mended, 1U) << u.report();
        ASSERT_TRUE(u.as_before()) << bit;
      }
      u.flip(at, 0x11);
      u.flip(at + 2, 0x23);
      EXPECT_TRUE(u.changes_nothing()) << u.report();
      ASSERT_EQ(u.told.size(), 1U) << u.report();
      EXPECT_STREQ(u.told[0].what, "allocation word: nothing says what it was");
      EXPECT_EQ(u.told[0].offset, at);
      u.restore();
    }
    EXPECT_GE(words, 1U);
  }
}

}  // namespace
}  // namespace nvm::testing
