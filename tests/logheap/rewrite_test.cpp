// A log written anew: afterwards its recovery finds what the recovery of the damaged one has found.
#include "logheap/rewrite.hpp"

#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::leaves;
using testing::player;

using contents = std::map<home_t, std::vector<std::byte>>;

template <class Ground>
contents all_of(Ground& g) {
  contents all;
  for (const auto& [home, size] : g.objects()) all[home] = g.look(home, size);
  return all;
}

template <class Ground>
void write_anew(Ground& g) {
  const auto said = [](home_t, std::uint64_t room, std::uint64_t size) { return std::min(room, size); };
  const auto objects = objects_of(*g, g.thread(), said);
  forget_log(*g);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  ASSERT_TRUE(g.objects().empty());
  ASSERT_TRUE(g->restore(g.thread(), objects)) << last_message();
}

TEST(log_heap_rewrite, leaves_what_recovery_has_found) {
  std::uint64_t damaged = 0;
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    ground<leaves> g;
    player<leaves> p{g, seed};
    for (unsigned i = 0; i < 150; ++i) p.step();
    if (seed % 3 == 0) (void)g->clean(4, true);
    const contents before = all_of(g);
    // Bytes of up to three blocks.
    std::mt19937_64 random{seed};
    const std::uint32_t count = g->chunks().count();
    for (std::uint64_t n = 0; n <= seed % 3;) {
      const chunk& c = g->chunks().at(static_cast<std::uint32_t>(random() % count));
      const std::uint32_t used = c.used.load(std::memory_order_relaxed);
      if (c.state.load(std::memory_order_relaxed) == chunk_state::free || used <= sizeof(layout::chunk_header))
        continue;
      const std::uint64_t at = sizeof(layout::chunk_header) + random() % (used - sizeof(layout::chunk_header));
      g.base()[c.offset + at] ^= std::byte{0x20};
      ++n;
    }
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    const bool found = !g.report().damaged.empty();
    const contents left = all_of(g);
    write_anew(g);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_TRUE(g.report().damaged.empty());
    EXPECT_EQ(g->check(), "");
    EXPECT_EQ(all_of(g), left);
    damaged += found ? 1 : 0;
    lost += left != before ? 1 : 0;
    // It can be worked with, cleaned and closed.
    const home_t fresh = g.put(100, 7);
    while (g->clean(4, true) != 0) {
    }
    ASSERT_TRUE(g.close_and_open()) << last_message();
    EXPECT_TRUE(g.report().clean);
    EXPECT_EQ(g.look(fresh, 100), std::vector<std::byte>(100, std::byte{7}));
    for (const auto& [home, bytes] : left) EXPECT_EQ(g.look(home, bytes.size()), bytes);
  }
  // Most of what is written is found damaged, and much of that changes what there is.
  EXPECT_GT(damaged, 80U);
  EXPECT_GT(lost, 20U);
}

// What a repair compares before and after: a byte, a size, an object less or more.
TEST(log_heap_contents, differ_where_an_object_does) {
  ground<leaves> g;
  const home_t first = g.put(100, 1);
  const home_t second = g.put(200'000, 2);
  const auto look = [&] { return contents_of(*g, g.thread()); };
  const auto before = look();
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(first_difference(before, look()), std::nullopt);
  g.paint(second + 150'000, 1, 3);
  EXPECT_EQ(first_difference(before, look()), second);
  g.paint(second + 150'000, 1, 2);
  EXPECT_EQ(first_difference(before, look()), std::nullopt);
  const home_t third = g.put(100, 1);
  EXPECT_TRUE(first_difference(before, look()));
  EXPECT_TRUE(first_difference(look(), before));
  g.free(third);
  EXPECT_EQ(first_difference(before, look()), std::nullopt);
  g.free(first);
  EXPECT_TRUE(first_difference(before, look()));
  auto longer = before;
  ++longer.front().size;
  EXPECT_EQ(first_difference(before, longer), before.front().home);
  // What only one of them has, after everything else.
  const std::vector<object_contents> shorter{before.begin(), before.end() - 1};
  EXPECT_EQ(first_difference(before, shorter), before.back().home);
  EXPECT_EQ(first_difference(shorter, before), before.back().home);
}

// Blocks that prove themselves, with entries that cannot be: recovery leaves each of them out whole, and so it stays.
TEST(log_heap_rewrite, leaves_no_entries_that_no_heap_has_written) {
  struct forgery {
    const char* what;
    std::uint64_t word;  // the first entry's, of a block of two; xor
  };
  constexpr std::uint64_t one_size = std::uint64_t{1} << layout::home_shift_size;
  const forgery forgeries[] = {
      {"more contents than the block has", one_size},
      {"an object outside of home space", std::uint64_t{1} << 46},
      {"an object between slots", 16},
  };
  for (const forgery& f : forgeries) {
    SCOPED_TRACE(f.what);
    ground<leaves> g;
    const home_t first = g.put(96, 1);
    ground<leaves>::transaction_type t{*g, g.thread()};
    std::vector<home_t> two;
    for (int i = 0; i < 2; ++i) {
      two.push_back(*t.allocate(96));
      const std::vector<std::byte> bytes(96, std::byte{2});
      t.store(two.back(), bytes.data(), bytes.size());
    }
    const std::uint64_t version = *t.commit();
    const home_t last = g.put(96, 3);
    const block_place p = testing::blocks_of(g, version).at(0);
    std::byte* const block = g.base() + p.offset();
    layout::block_header h;
    std::memcpy(&h, block, sizeof h);
    ASSERT_EQ(count_of(h), 2U);
    std::uint64_t word = 0;
    std::memcpy(&word, block + sizeof h, sizeof word);
    ASSERT_EQ(word & layout::home_mask, two[0]);
    word ^= f.word;
    std::memcpy(block + sizeof h, &word, sizeof word);
    h.content_check = content_check_of(block, h.bytes, p);
    std::memcpy(block, &h, sizeof h);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    ASSERT_EQ(g.report().damaged.size(), 1U);
    EXPECT_EQ(g.report().damaged[0].offset, p.offset());
    const contents left = all_of(g);
    EXPECT_EQ(left, (contents{{first, std::vector<std::byte>(96, std::byte{1})},
                              {last, std::vector<std::byte>(96, std::byte{3})}}));
    write_anew(g);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_TRUE(g.report().damaged.empty());
    EXPECT_EQ(g->check(), "");
    EXPECT_EQ(all_of(g), left);
  }
}

// A damaged block whose contents are a block that proves itself: contents are no blocks, then and afterwards.  Also
// after another damaged one.
TEST(log_heap_rewrite, leaves_no_block_that_was_contents_of_another) {
  for (const bool also_before : {false, true}) {
    SCOPED_TRACE(also_before);
    ground<leaves> g;
    const home_t a = g.put(300, 1);
    g.paint(a, 30, 2);
    const block_place before = testing::blocks_of(g, g->statistics().version).at(0);
    g.paint(a, 200, 3);
    const block_place outer = testing::blocks_of(g, g->statistics().version).at(0);
    g.paint(a, 20, 4);
    if (also_before) g.base()[before.offset() + 50] ^= std::byte{1};
    block_place inner = outer;
    inner.at += 64;
    std::byte* const block = g.base() + inner.offset();
    layout::block_header h{};
    h.version = g->statistics().version;
    h.peer_and_count = inner.offset() | std::uint64_t{1} << layout::peer_bits;
    h.bytes = sizeof h + 16;
    std::uint64_t word = 0;
    ASSERT_EQ(put_entry(&word, {layout::entry_kind::update, a + 250, 8, 0, 0}, false), 1U);
    std::memcpy(block + sizeof h, &word, sizeof word);
    std::memset(block + sizeof h + sizeof word, 9, 8);
    h.header_check = header_check_of(h, inner);
    h.content_check = content_check_of(block, h.bytes, inner);
    std::memcpy(block, &h, sizeof h);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    ASSERT_EQ(g.report().damaged.size(), 1U);
    EXPECT_EQ(g.report().damaged[0].offset, (also_before ? before : outer).offset());
    std::vector<std::byte> expected(300, std::byte{1});
    if (!also_before) std::fill_n(expected.begin(), 30, std::byte{2});
    std::fill_n(expected.begin(), 20, std::byte{4});
    EXPECT_EQ(g.look(a, 300), expected);
    write_anew(g);
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_TRUE(g.report().damaged.empty());
    EXPECT_EQ(g.look(a, 300), expected);
  }
}

// The end of a chunk is forged, and lies inside of a block: that block counts for nothing, then and afterwards.
TEST(log_heap_rewrite, leaves_nothing_across_the_end_of_a_chunk) {
  ground<leaves> g;
  const home_t a = g.put(100, 1);
  for (int i = 0; i < 3; ++i) g.paint(a, 50, 2 + i);
  const block_place p = testing::blocks_of(g, g->statistics().version).at(0);
  chunk& c = g->chunks().of(p.offset());
  g->chunks().mark_end(c, static_cast<std::uint32_t>(p.at + 40));
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  ASSERT_EQ(g.report().damaged.size(), 1U);
  EXPECT_EQ(g.report().damaged[0].offset, p.offset());
  EXPECT_EQ(g.report().damaged[0].version, 4U);
  EXPECT_EQ(g.look(a, 1)[0], std::byte{3});
  write_anew(g);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  EXPECT_EQ(g->check(), "");
  EXPECT_EQ(g.look(a, 1)[0], std::byte{3});
  EXPECT_EQ(g.look(a, 100)[50], std::byte{1});
}

// One word of a block, any: what its entries are about is there, but for the bytes that were hit.
TEST(log_heap_salvage, keeps_the_entries_of_a_block_whose_contents_do_not_hold) {
  ground<leaves> g;
  const home_t first = g.put(96, 1);
  ground<leaves>::transaction_type t{*g, g.thread()};
  std::vector<home_t> two;
  for (int i = 0; i < 2; ++i) {
    two.push_back(*t.allocate(96));
    const std::vector<std::byte> bytes(96, std::byte{2});
    t.store(two.back(), bytes.data(), bytes.size());
  }
  const std::uint64_t version = *t.commit();
  (void)g.put(96, 3);
  const block_place p = testing::blocks_of(g, version).at(0);
  layout::block_header h;
  std::memcpy(&h, g.base() + p.offset(), sizeof h);
  const std::vector<std::byte> image{g.base(), g.base() + g.bytes()};
  std::uint64_t kept = 0;
  for (std::uint64_t at = 0; at + 8 <= h.bytes; at += 8) {
    for (const std::uint64_t change : {std::uint64_t{1} << at % 64, ~std::uint64_t{0}}) {
      SCOPED_TRACE(at);
      std::copy(image.begin(), image.end(), g.base());
      std::uint64_t word = 0;
      std::memcpy(&word, g.base() + p.offset() + at, 8);
      word ^= change;
      std::memcpy(g.base() + p.offset() + at, &word, 8);
      g.settings().salvage = true;
      ASSERT_TRUE(g.crash_and_open()) << last_message();
      g.settings().salvage = false;
      ASSERT_EQ(g.report().damaged.size(), 1U);
      EXPECT_EQ(g.look(first, 96), std::vector<std::byte>(96, std::byte{1}));
      if (!g.report().damaged[0].kept) continue;
      ++kept;
      const std::uint64_t contents = contents_at(g.base(), p, h);
      for (int i = 0; i < 2; ++i) {
        std::vector<std::byte> expected(96, std::byte{2});
        const std::uint64_t begin = contents + 96U * static_cast<unsigned>(i);
        for (std::uint64_t b = 0; b < 8; ++b) {
          if (at >= begin && at < begin + 96) expected[at - begin + b] ^= static_cast<std::byte>(change >> 8 * b);
        }
        EXPECT_EQ(g.look(two[static_cast<unsigned>(i)], 96), expected);
      }
      write_anew(g);
      ASSERT_TRUE(g.crash_and_open()) << last_message();
      EXPECT_TRUE(g.report().damaged.empty());
      EXPECT_EQ(g->check(), "");
      EXPECT_EQ(g.objects().size(), 4U);
    }
  }
  // All but those that hit both entries' words at once, or a peer that cannot be guessed.
  EXPECT_GE(kept, 2 * h.bytes / 8 - 4);
}

}  // namespace
}  // namespace nvm::logheap
