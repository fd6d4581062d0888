// Space that is damaged and mended: as it was wherever that is known twice, with a report of everything else.
#include <random>
#include <set>
#include <vector>

#include "space/mend.hpp"
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;

// A pool whose bytes can be damaged, mended, and put back.
class mended_pool {
 public:
  explicit mended_pool(unsigned page_shift = 12) : pool{test_geometry(128, 128, 4, page_shift)} {
    const geometry g = pool.sizes();
    std::memset(pool.base() + g.data_offset, 0, g.size_bytes() - g.data_offset);
    EXPECT_TRUE(pool.boot());
  }
  // What is there now is sound.
  void keep() {
    EXPECT_TRUE(pool.check(nullptr));
    objects = pool.objects();
    const auto* first = pool.base();
    sound.assign(first, first + pool.sizes().size_bytes());
  }
  void restore() { std::copy(sound.begin(), sound.end(), pool.base()); }
  [[nodiscard]] bool as_before() const { return std::equal(sound.begin(), sound.end(), pool.base()); }

  mend_summary mend() {
    told.clear();
    return mend_space(pool.base(), pool.sizes(), [this](const mended_place& p) { told.push_back(p); });
  }
  // Mends what is damaged, and finds nothing that it dares change.
  [[nodiscard]] bool changes_nothing() {
    const auto* first = pool.base();
    damaged.assign(first, first + pool.sizes().size_bytes());
    (void)mend();
    return std::equal(damaged.begin(), damaged.end(), first);
  }
  [[nodiscard]] bool is_sound() {
    space_summary s;
    return check_space(pool.base(), pool.sizes(), nullptr, s);
  }
  // Of the first page of this kind, and of the first object in it.
  [[nodiscard]] std::uint64_t page_of(page_kind kind) const {
    const geometry g = pool.sizes();
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      if (entry(page).kind == kind) return page;
    }
    ADD_FAILURE();
    return 0;
  }
  [[nodiscard]] layout::page_entry entry(std::uint64_t page) const {
    return layout::unpack(word(pool.sizes().entry_offset(page)) & checked_mask);
  }
  void enter(std::uint64_t page, const layout::page_entry& e) { put(pool.sizes().entry_offset(page), layout::pack(e)); }
  [[nodiscard]] std::uint64_t word(std::uint64_t at) const { return load_word(pool.base(), at); }
  // A word that holds, and one as it is.
  void put(std::uint64_t at, std::uint64_t content) { put_raw(at, seal_word(content, word_seed(at))); }
  void put_raw(std::uint64_t at, std::uint64_t word) { std::memcpy(pool.base() + at, &word, sizeof word); }
  void flip(std::uint64_t at, unsigned mask) { pool.base()[at] ^= std::byte{static_cast<unsigned char>(mask)}; }
  [[nodiscard]] std::string report() const {
    std::string text;
    for (const mended_place& p : told) {
      text += std::to_string(static_cast<int>(p.how)) + " " + std::to_string(p.offset) + ": " + p.what + "\n";
    }
    return text;
  }

  mutable test_pool pool;
  std::map<std::uint64_t, std::uint64_t> objects;
  std::vector<std::byte> sound, damaged;
  std::vector<mended_place> told;
};

// A small pool of objects as programs have them.
class typed_pool : public mended_pool {
 public:
  typed_pool() {
    std::vector<std::uint64_t> all;
    const auto add = [&](std::uint64_t bytes) {
      const auto a = testing::put(pool, bytes, 0, object_layout::typed);
      EXPECT_TRUE(a) << last_message();
      all.push_back(*a);
    };
    for (unsigned i = 0; i < 40; ++i) {
      add(17 + i * 5);
      add(300 + i * 90);
      if (i % 8 == 0) add(3 * 4096 + i);
    }
    for (std::size_t i = 0; i < all.size(); i += 3) {
      EXPECT_TRUE(drop(pool, all[i], 1, object_layout::typed));
    }
    keep();
  }
};

// What has no headers: objects without a type, nodes and runs of structures, a log.
class untyped_pool : public mended_pool {
 public:
  explicit untyped_pool(unsigned page_shift = 12) : mended_pool{page_shift} {
    for (unsigned i = 1; i < 20; ++i) EXPECT_TRUE(testing::put(pool, i * 13));
    for (unsigned i = 1; i < 8; ++i) EXPECT_TRUE(testing::put(pool, 500 + i * 77));
    const std::uint64_t page = std::uint64_t{1} << page_shift;
    for (const unsigned pages : {5U, 7U, 6U}) EXPECT_TRUE(testing::put(pool, pages * page));
    EXPECT_TRUE(pool->reserve_log_run(3 * page));
    for (const layout::slot_protocol p : {layout::slot_protocol::epoch, layout::slot_protocol::self_validating}) {
      EXPECT_TRUE(pool->take_run(0, p, 300, 3 * page));
      nodes = *pool->take_extent(0, p, 77, slots_each);
    }
    // Every third node of the last extent exists.
    s = layout::shape_of(page_kind::coarse, page_shift);
    for (unsigned w = 0; w < s.words; ++w) {
      std::uint64_t bits = 0;
      for (unsigned slot = s.header_slots; slot + slots_each <= s.slots; slot += 3 * slots_each) {
        if (slot / checked_bits == w) bits |= std::uint64_t{1} << slot % checked_bits;
      }
      put(word_at(w), bits);
    }
    // What it holds is no header of an object.
    for (std::uint64_t at = s.header_slots * s.slot_bytes; at < s.bytes; ++at) {
      pool.base()[nodes + at] = std::byte{static_cast<unsigned char>(at % 251 + 1)};
    }
    keep();
  }
  [[nodiscard]] std::uint64_t word_at(unsigned w) const { return nodes + layout::first_words_at + w * 8; }
  [[nodiscard]] std::uint64_t length_at(unsigned slot) const { return nodes + s.lengths_at + slot; }

  static constexpr unsigned slots_each = 3;
  std::uint64_t nodes = 0;  // offset of an extent of nodes
  layout::extent_shape s;
};

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
  // A run that reaches over the extent behind it: its object says how far it goes.
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
    // Words of which the corrected one has such nodes, and that have none.
    const char* unknown = "allocation word of a structure's nodes: nothing says what it was";
    for (const unsigned slot : {first - 1, first + 1}) {
      u.put(u.word_at(0), (u.word(u.word_at(0)) & checked_mask) | bit(slot));
      u.flip(u.word_at(0) + 7, 1);
      only(unknown, u.word_at(0));
    }
    u.put_raw(at, 0x5DEE'CE66'D123'4567);
    only(unknown, at);
    u.put(at, bits | bit(u.s.slots - 1));
    u.flip(at + 7, 1);
    only(unknown, at);
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
  for (const std::uint64_t bytes : {2 * 4096ULL, 200 * 4096ULL}) {  // behind the page, and larger than the pool
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
