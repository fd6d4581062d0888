// Foreign bytes in a heap: a clear error or a report of losses, all other data there, never a crash.
#include <set>

#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::blocks_of;
using testing::ground;
using testing::put_word;
using testing::root_of;
using testing::small_settings;

// Versions 1 to 3 are three objects; 4 changes the first; 5 the second, 6 the second again; 7 to 9 something else.
struct history {
  ground<> g;
  home_t a, b, c;
  history() {
    a = g.put(100, 1);
    b = g.put(100, 2);
    c = g.put(100, 3);
    g.paint(a, 50, 4);
    g.paint(b, 50, 5);
    g.paint(b, 20, 6);
    for (int i = 0; i < 3; ++i) g.paint(c, 30, 7 + i);
  }
};

TEST(log_heap_damage, in_the_middle_costs_the_damaged_block_alone) {
  for (const bool header : {false, true}) {
    history h;
    const auto places = blocks_of(h.g, 5);
    ASSERT_EQ(places.size(), 1U);
    h.g.base()[places[0].offset() + (header ? 3 : 60)] ^= std::byte{0x10};
    ASSERT_TRUE(h.g.crash_and_open()) << last_message();
    ASSERT_EQ(h.g.report().damaged.size(), 1U);
    const damaged_block& d = h.g.report().damaged[0];
    EXPECT_EQ(d.offset, places[0].offset());
    if (!header) {
      EXPECT_EQ(d.version, 5U);
    }
    char expected[64];
    std::snprintf(expected, sizeof expected, "[%lx, %lx)", h.b, h.b + 50);
    EXPECT_EQ(d.homes, expected);
    // What was there before, and what came later.
    EXPECT_EQ(h.g.look(h.b, 100)[0], std::byte{6});
    EXPECT_EQ(h.g.look(h.b, 100)[19], std::byte{6});
    EXPECT_EQ(h.g.look(h.b, 100)[20], std::byte{2});
    EXPECT_EQ(h.g.look(h.a, 100)[0], std::byte{4});
    EXPECT_EQ(h.g.look(h.c, 100)[0], std::byte{9});
    // Life goes on.
    h.g.paint(h.b, 100, 11);
    EXPECT_EQ(h.g.look(h.b, 100), std::vector<std::byte>(100, std::byte{11}));
    while (h.g->clean(4, true) != 0) {
    }
    EXPECT_EQ(h.g.look(h.a, 100)[0], std::byte{4});
  }
}
TEST(log_heap_damage, of_an_allocation_leaves_later_stores_readable) {
  history h;
  h.g.base()[blocks_of(h.g, 2)[0].offset() + 50] ^= std::byte{1};
  ASSERT_TRUE(h.g.crash_and_open()) << last_message();
  ASSERT_EQ(h.g.report().damaged.size(), 1U);
  EXPECT_EQ(h.g.report().damaged[0].version, 2U);
  EXPECT_EQ(h.g.look(h.b, 50)[0], std::byte{6});
  EXPECT_EQ(h.g.look(h.b, 50)[30], std::byte{5});
  // Nobody else gets these addresses.
  for (int i = 0; i < 20; ++i) EXPECT_NE(h.g.put(100, 1), h.b);
}
// The only object of its superblock, or a large one: nothing else says that anything was there.  Also when a clean
// close has saved what recovery found.
TEST(log_heap_damage, of_a_lonely_allocation_keeps_its_addresses_from_others) {
  for (const std::uint64_t size : {std::uint64_t{100}, std::uint64_t{20000}}) {
    for (const bool saved : {false, true}) {
      SCOPED_TRACE(std::to_string(size) + (saved ? " saved" : ""));
      ground<> g;
      const home_t lost = g.put(size, 1);
      g.paint(lost, 50, 2);
      const home_t other = g.put(3000, 3);
      for (int i = 0; i < 30; ++i) g.paint(other, 700, i);
      for (const block_place& p : blocks_of(g, 1)) {
        if (g->chunks().of(p.offset()).use == layout::chunk_use::allocation) g.base()[p.offset() + 33] ^= std::byte{1};
      }
      ASSERT_TRUE(g.crash_and_open()) << last_message();
      EXPECT_FALSE(g.report().damaged.empty());
      EXPECT_FALSE(g.objects().contains(lost));
      if (saved) {
        ASSERT_TRUE(g.close_and_open()) << last_message();
        EXPECT_TRUE(g.report().clean);
      }
      EXPECT_EQ(g.look(lost, 1)[0], std::byte{2});
      for (int i = 0; i < 30; ++i) {
        const std::uint64_t bytes = i % 2 == 0 ? 100 : 30000;
        const home_t fresh = g.put(bytes, 4);
        EXPECT_TRUE(fresh >= lost + 50 || fresh + bytes <= lost) << i;
        if (i % 3 == 0) g.free(fresh);
      }
      while (g->clean(4, true) != 0) {
      }
      EXPECT_EQ(g.look(lost, 1)[0], std::byte{2});
    }
  }
}
// A slot is used again, and that allocation is lost: to recovery the slot is free.  Whoever gets it finds zeros.
TEST(log_heap_damage, of_an_allocation_in_a_used_slot_leaves_no_stale_bytes) {
  ground<> g;
  const home_t first = g.put(100, 1);
  const home_t neighbour = g.put(100, 1);
  g.free(first);
  std::uint64_t version = 3;
  home_t again = 0;
  for (; again != first && version < 300; ++version) again = g.put(100, 2);
  ASSERT_EQ(again, first);
  g.paint(first, 60, 3);
  g.paint(first + 70, 10, 3);
  // One store over both: the neighbour's part counts.
  ASSERT_LT(first, neighbour);
  g.paint(first + 90, neighbour + 10 - (first + 90), 4);
  g.base()[blocks_of(g, version)[0].offset() + 50] ^= std::byte{1};
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  ASSERT_EQ(g.report().damaged.size(), 1U);
  for (again = 0, version = 0; again != first && version < 300; ++version) {
    ground<>::transaction_type t{*g, g.thread()};
    again = *t.allocate(100);
    const std::byte one{7};
    t.store(again, &one, 1);
    ASSERT_TRUE(t.commit());
  }
  ASSERT_EQ(again, first);
  std::vector<std::byte> expected(100);
  expected[0] = std::byte{7};
  EXPECT_EQ(g.look(first, 100), expected);
  EXPECT_EQ(g.look(neighbour, 10), std::vector<std::byte>(10, std::byte{4}));
}
// A store over two objects, and the allocation of one of them, in a used slot, is lost: the other one has its part.
TEST(log_heap_damage, of_an_allocation_in_a_used_slot_keeps_what_was_stored_beside_it) {
  constexpr std::uint64_t size = 96;  // of a slot, too
  for (const bool lower : {false, true}) {
    SCOPED_TRACE(lower);
    ground<> g;
    const home_t first = g.put(size, 1);
    const home_t second = g.put(size, 2);
    ASSERT_EQ(second, first + size);
    const home_t lost = lower ? first : second;
    const home_t kept = lower ? second : first;
    g.free(lost);
    std::uint64_t version = 3;
    for (home_t again = 0; again != lost; ++version) {
      ASSERT_LT(version, 3000U);
      again = g.put(size, 3);
    }
    g.paint(first, 2 * size, 4);
    g.base()[blocks_of(g, version)[0].offset() + 50] ^= std::byte{1};
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    ASSERT_EQ(g.report().damaged.size(), 1U);
    EXPECT_FALSE(g.objects().contains(lost));
    EXPECT_EQ(g.look(kept, size), std::vector<std::byte>(size, std::byte{4}));
    EXPECT_EQ(g.look(lost, size), std::vector<std::byte>(size));
  }
}
// The same where the slot's tombstone is cut in two, and what is about its second part leads on into the next slot.
TEST(log_heap_damage, of_an_allocation_in_a_used_slot_leaves_no_stale_bytes_behind_a_cut) {
  heap_settings s = small_settings();
  s.chunk_bytes = 32768;
  ground<> g{2048, s};
  const std::uint64_t slot = *g->slot_bytes_at(g.thread(), g.put(6000, 1));
  const auto cut_in = [&](home_t home) {
    return s.home_first + round_up(home - s.home_first, replay_record::bytes_max);
  };
  home_t lost = g.put(slot, 1);
  while (cut_in(lost) >= lost + slot) lost = g.put(slot, 1);
  const home_t next = g.put(slot, 2);
  ASSERT_EQ(next, lost + slot);
  const home_t cut = cut_in(lost);
  ASSERT_GT(cut, lost);
  g.free(lost);
  ASSERT_EQ(g.put(slot, 3), lost);
  const std::uint64_t version = g->statistics().version;
  g.paint(cut, 10, 4);
  g.paint(cut, next + 50 - cut, 5);
  const auto places = blocks_of(g, version);
  ASSERT_EQ(places.size(), 1U);
  g.base()[places[0].offset() + 50] ^= std::byte{1};
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  ASSERT_EQ(g.report().damaged.size(), 1U);
  EXPECT_FALSE(g.objects().contains(lost));
  EXPECT_EQ(g.look(lost, slot), std::vector<std::byte>(slot));
  std::vector<std::byte> expected(slot, std::byte{2});
  std::fill_n(expected.begin(), 50, std::byte{5});
  EXPECT_EQ(g.look(next, slot), expected);
}
// What is counted on from a version has to fit where versions are kept.
TEST(log_heap_damage, of_a_version_that_nobody_reaches_is_no_version) {
  history h;
  const block_place p = blocks_of(h.g, 9)[0];
  layout::block_header b;
  std::memcpy(&b, h.g.base() + p.offset(), sizeof b);
  b.version = (std::uint64_t{1} << 56) - 1;
  b.header_check = header_check_of(b, p);
  std::memcpy(h.g.base() + p.offset(), &b, sizeof b);
  ASSERT_TRUE(h.g.crash_and_open()) << last_message();
  h.g.paint(h.a, 100, 5);
  while (h.g->clean(4, true) != 0) {
  }
  ASSERT_TRUE(h.g.crash_and_open()) << last_message();
  EXPECT_EQ(h.g.look(h.a, 1)[0], std::byte{5});
  for (const std::size_t field : {offsetof(layout::root, through), offsetof(layout::root, session)}) {
    put_word(h.g, root_of(h.g) + field, (std::uint64_t{1} << 56) - 1);
    EXPECT_EQ(h.g.crash_and_open().error(), errc::corrupt);
    put_word(h.g, root_of(h.g) + field, 9);
  }
}
// Nobody counts to the last version, but somebody may have forged it: the heap can be read, and told from a damaged
// one.
TEST(log_heap_damage, of_the_last_version_leaves_a_heap_that_does_not_count_further) {
  for (const std::uint64_t left : {std::uint64_t{0}, std::uint64_t{1}, layout::versions_under_way}) {
    history h;
    const block_place p = blocks_of(h.g, 9)[0];
    layout::block_header b;
    std::memcpy(&b, h.g.base() + p.offset(), sizeof b);
    b.version = layout::version_max - left;
    b.header_check = header_check_of(b, p);
    std::memcpy(h.g.base() + p.offset(), &b, sizeof b);
    put_word(h.g, root_of(h.g) + offsetof(layout::root, session), layout::version_max);
    ASSERT_TRUE(h.g.crash_and_open()) << last_message();
    const std::byte found = h.g.look(h.a, 1)[0];
    for (int i = 0; i < 3; ++i) {
      ground<>::transaction_type t{*h.g, h.g.thread()};
      const std::byte five{5};
      t.store(h.a, &five, 1);
      const auto done = t.commit();
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error(), errc::too_large);
    }
    h.g->leave(h.g.thread());
    const status closed = h.g->close();
    if (left != 0) {
      EXPECT_TRUE(closed) << last_message();
    } else {
      EXPECT_EQ(closed.error(), errc::too_large);
    }
    ASSERT_TRUE(h.g.crash_and_open()) << last_message();
    EXPECT_EQ(h.g.report().clean, left != 0);
    EXPECT_TRUE(h.g.report().damaged.empty());
    EXPECT_EQ(h.g->check(), "");
    EXPECT_EQ(h.g.look(h.a, 1)[0], found);
  }
}
// A chunk with an end says that the transactions in it have committed: what they have elsewhere counts, too, also where
// their thread's next one is torn.
TEST(log_heap_damage, of_a_header_costs_nothing_else_of_a_transaction_that_has_a_sealed_chunk) {
  ground<> g;
  const home_t a = g.put(1000, 1);
  std::vector<home_t> old;
  for (int i = 0; i < 40; ++i) old.push_back(g.put(100, 2));
  const auto block_in = [&](std::uint64_t version, layout::chunk_use use) -> std::uint64_t {
    for (const block_place& p : blocks_of(g, version)) {
      if (g->chunks().of(p.offset()).use == use) return p.offset();
    }
    return 0;
  };
  for (std::size_t i = 0; i < old.size(); ++i) {
    ground<>::transaction_type t{*g, g.thread()};
    const home_t fresh = *t.allocate(100);
    const std::vector<std::byte> bytes(700, std::byte{3});
    t.store(fresh, bytes.data(), 100);
    t.store(a, bytes.data(), 700);
    ASSERT_TRUE(t.release(old[i]));
    ASSERT_TRUE(t.commit());
    const std::uint64_t version = g->statistics().version;
    g.paint(a, 700, 4);
    const std::uint64_t sealed = block_in(version, layout::chunk_use::update);
    const std::uint64_t next = block_in(version + 1, layout::chunk_use::update);
    if (g->chunks().number_of(sealed) == g->chunks().number_of(next)) continue;
    g.base()[block_in(version, layout::chunk_use::deallocation) + 3] ^= std::byte{1};
    g.base()[next + 60] ^= std::byte{1};
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    ASSERT_EQ(g.report().damaged.size(), 1U);
    EXPECT_EQ(g.report().damaged[0].version, version);
    EXPECT_TRUE(g.objects().contains(fresh));
    EXPECT_EQ(g.look(fresh, 100), std::vector<std::byte>(100, std::byte{3}));
    EXPECT_EQ(g.look(a, 1)[0], std::byte{3});
    return;
  }
  FAIL() << "no chunk was left";
}
// A message does not grow with what a block is about; the list of addresses is whole.
TEST(log_heap_damage, of_a_block_about_many_objects_names_the_first_of_them) {
  constexpr std::size_t stores = 20;
  ground<> g;
  const home_t a = g.put(1000, 1);
  ground<>::transaction_type t{*g, g.thread()};
  for (std::size_t i = 0; i < stores; ++i) t.store(a + 40 * i, "x", 1);
  const std::uint64_t version = *t.commit();
  g.paint(a, 1, 2);
  const block_place p = blocks_of(g, version).at(0);
  layout::block_header h;
  std::memcpy(&h, g.base() + p.offset(), sizeof h);
  g.base()[p.offset() + h.bytes - 1] ^= std::byte{1};  // of the contents
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  ASSERT_EQ(g.report().damaged.size(), 1U);
  const damaged_block& d = g.report().damaged[0];
  ASSERT_EQ(d.ranges.size(), stores);
  std::string expected;
  for (std::size_t i = 0; i < stores; ++i) {
    EXPECT_EQ(d.ranges[i].home, a + 40 * i);
    EXPECT_EQ(d.ranges[i].size, 1U);
    char text[64];
    std::snprintf(text, sizeof text, "%s[%lx, %lx)", i == 0 ? "" : " ", a + 40 * i, a + 40 * i + 1);
    if (i < 16) expected += text;
  }
  EXPECT_EQ(d.homes, expected);
}
TEST(log_heap_damage, of_a_block_that_a_cleaner_meets_keeps_its_chunk) {
  ground<> g;
  const home_t a = g.put(1000, 1);
  for (int i = 0; i < 12; ++i) g.paint(a, 700, i);
  const auto places = blocks_of(g, 3);
  g.base()[places[0].offset() + 70] ^= std::byte{1};
  while (g->clean(4, true) != 0) {
  }
  EXPECT_EQ(g.look(a, 700), std::vector<std::byte>(700, std::byte{11}));
  EXPECT_EQ(blocks_of(g, 3).size(), 0U);
  EXPECT_EQ(g->chunks().of(places[0].offset()).state.load(), chunk_state::damaged);
}
// A pass fills chunks and goes on in others; the originals are gone with it, whatever the next pass does.
TEST(log_heap_damage, of_a_copy_whose_original_is_gone_is_refused_in_any_chunk_that_a_pass_has_filled) {
  ground<> g;
  std::vector<home_t> all;
  for (int i = 0; i < 60; ++i) all.push_back(g.put(300, 1 + i));
  for (std::size_t i = 0; i < all.size(); i += 3) g.free(all[i]);
  for (int i = 0; i < 12; ++i) g.paint(all[1], 300, 2);  // other chunks come after those that are cleaned
  ASSERT_GT(g->clean(8, true), 2U);
  const std::map<home_t, std::uint64_t> objects = g.objects();
  std::vector<block_place> copies;
  std::set<std::uint64_t> chunks;
  for (std::uint64_t version = 1; version <= g->statistics().version; ++version) {
    for (const block_place& p : blocks_of(g, version)) {
      if (!g->chunks().of(p.offset()).by_cleaner) continue;
      copies.push_back(p);
      chunks.insert(p.chunk);
    }
  }
  ASSERT_GT(chunks.size(), 2U);
  g.forget();
  const std::vector<std::byte> image(g.base(), g.base() + g.bytes());
  g.settings().refuse_damage = true;
  for (const block_place& p : copies) {
    std::memcpy(g.base(), image.data(), image.size());
    g.base()[p.offset() + sizeof(layout::block_header)] ^= std::byte{1};
    EXPECT_EQ(g.crash_and_open().error(), errc::corrupt) << "block at " << p.at << " of the chunk at " << p.chunk;
    g.forget();
  }
  std::memcpy(g.base(), image.data(), image.size());
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_EQ(g.objects(), objects);
  EXPECT_EQ(g->check(), "");
}
TEST(log_heap_damage, of_the_last_block_is_a_torn_block) {
  history h;
  const auto places = blocks_of(h.g, 9);
  h.g.base()[places[0].offset() + 50] ^= std::byte{1};
  ASSERT_TRUE(h.g.crash_and_open()) << last_message();
  EXPECT_TRUE(h.g.report().damaged.empty());
  EXPECT_EQ(h.g.report().torn, 1U);
  EXPECT_EQ(h.g.look(h.c, 1)[0], std::byte{8});
}

// A block is gone, header and all, at the end of its log; that its transaction had committed its thread's next one
// says.
TEST(log_heap_damage, of_one_of_several_blocks_leaves_the_others) {
  ground<> g;
  const home_t a = g.put(100, 1);
  const home_t b = g.put(100, 2);
  home_t fresh = 0;
  {
    ground<>::transaction_type t{*g, g.thread()};
    const std::vector<std::byte> bytes(100, std::byte{3});
    fresh = *t.allocate(100);
    t.store(a, bytes.data(), 100);
    t.store(fresh, bytes.data(), 100);
    ASSERT_EQ(*t.commit(), 3U);
  }
  g.paint(b, 100, 4);
  const auto places = blocks_of(g, 3);
  ASSERT_EQ(places.size(), 2U);
  for (const block_place& p : places) {
    if (g->chunks().of(p.offset()).use == layout::chunk_use::allocation) g.base()[p.offset() + 3] ^= std::byte{0x10};
  }
  for (int lives = 0; lives < 3; ++lives) {
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    if (lives == 0) {
      ASSERT_EQ(g.report().damaged.size(), 1U);
      EXPECT_EQ(g.report().damaged[0].version, 3U);
    }
    EXPECT_EQ(g.look(a, 100), std::vector<std::byte>(100, std::byte{3}));
    EXPECT_EQ(g.look(b, 100), std::vector<std::byte>(100, std::byte{4}));
    EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{a, 100}, {b, 100}}));
    EXPECT_EQ(g->check(), "");
    while (g->clean(4, true) != 0) {
    }
  }
}

// The same, and the word that says whose chunk it is fails its check, too: the blocks after it prove that it counts.
TEST(log_heap_damage, of_one_of_several_blocks_and_of_its_threads_stamp_loses_nothing_behind_it) {
  ground<> g;
  const home_t a = g.put(100, 1);
  {
    ground<>::transaction_type t{*g, g.thread()};
    const std::vector<std::byte> bytes(100, std::byte{2});
    t.store(*t.allocate(100), bytes.data(), 100);
    t.store(a, bytes.data(), 100);
    ASSERT_EQ(*t.commit(), 2U);
  }
  g.paint(a, 50, 3);
  g.paint(a, 20, 4);
  for (const block_place& p : blocks_of(g, 2)) {
    if (g->chunks().of(p.offset()).use == layout::chunk_use::allocation) {
      g.base()[p.offset() + 3] ^= std::byte{0x10};
    } else {
      g.base()[p.chunk + offsetof(layout::chunk_header, owner)] ^= std::byte{1};
    }
  }
  for (int lives = 0; lives < 3; ++lives) {
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_EQ(g.report().dropped, 0U);
    if (lives == 0) {
      EXPECT_EQ(g.report().damaged.size(), 1U);
    }
    EXPECT_EQ(g->check(), "");
    const std::vector<std::byte> found = g.look(a, 100);
    EXPECT_EQ(found[0], std::byte{4});
    EXPECT_EQ(found[20], std::byte{3});
    EXPECT_EQ(found[50], std::byte{2});
  }
}

// A transaction of three blocks has not committed, and recovery has cut off two of them, when a crash comes: of the
// ends that it has stored any may be durable, in chunks whose blocks lead to each other.  The next recovery says the
// same.
TEST(log_heap_damage, of_a_torn_transaction_takes_all_of_it_back_whatever_of_a_recovery_is_durable) {
  for (unsigned durable = 0; durable < 8; ++durable) {
    SCOPED_TRACE(durable);
    ground<> g;
    const home_t a = g.put(100, 1);
    const home_t b = g.put(100, 2);
    ground<>::transaction_type t{*g, g.thread()};
    const std::vector<std::byte> bytes(100, std::byte{3});
    const home_t fresh = *t.allocate(100);
    t.store(fresh, bytes.data(), 100);
    t.store(a, bytes.data(), 100);
    ASSERT_TRUE(t.release(b));
    const std::uint64_t version = *t.commit();
    const std::vector<block_place> places = blocks_of(g, version);
    ASSERT_EQ(places.size(), 3U);
    for (const block_place& p : places) {
      if (g->chunks().of(p.offset()).use == layout::chunk_use::update) g.base()[p.offset() + 60] ^= std::byte{1};
    }
    std::vector<std::byte> image(g.base(), g.base() + g.bytes());
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint64_t end = places[i].chunk + offsetof(layout::chunk_header, end);
      ASSERT_NE(std::memcmp(image.data() + end, g.base() + end, 8), 0);
      if ((durable >> i & 1) != 0) std::memcpy(image.data() + end, g.base() + end, 8);
    }
    g.forget();
    std::memcpy(g.base(), image.data(), image.size());
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_TRUE(g.report().damaged.empty());
    EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{a, 100}, {b, 100}})) << fresh;
    EXPECT_EQ(g.look(a, 100), std::vector<std::byte>(100, std::byte{1}));
    EXPECT_EQ(g.look(b, 100), std::vector<std::byte>(100, std::byte{2}));
    EXPECT_EQ(g->check(), "");
  }
}

// Forged: two blocks of one version prove themselves and differ.  Which of them is read nobody has promised, and it may
// be the other one when a cleaner has moved one; everything else is as it was, whatever the next open reads.
TEST(log_heap_damage, of_a_version_that_another_block_has_costs_what_both_are_about) {
  for (const bool use_saved : {true, false}) {
    history h;
    const block_place p = blocks_of(h.g, 9)[0];
    layout::block_header b;
    std::memcpy(&b, h.g.base() + p.offset(), sizeof b);
    b.version = 8;
    b.header_check = header_check_of(b, p);
    std::memcpy(h.g.base() + p.offset(), &b, sizeof b);
    const auto objects = h.g.objects();
    const std::vector<std::byte> of_a = h.g.look(h.a, 100), of_b = h.g.look(h.b, 100);
    for (int lives = 0; lives < 3; ++lives) {
      SCOPED_TRACE(lives);
      if (lives == 2) h.g.settings().use_saved = use_saved;
      ASSERT_TRUE(lives < 2 ? h.g.crash_and_open() : h.g.close_and_open()) << last_message();
      EXPECT_EQ(h.g.report().clean, lives == 2 && use_saved);
      EXPECT_EQ(h.g.objects(), objects);
      EXPECT_EQ(h.g.look(h.a, 100), of_a);
      EXPECT_EQ(h.g.look(h.b, 100), of_b);
      const std::vector<std::byte> found = h.g.look(h.c, 100);
      EXPECT_TRUE(found[0] == std::byte{8} || found[0] == std::byte{9});
      for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(found[i], i < 30 ? found[0] : std::byte{3}) << i;
      EXPECT_EQ(h.g->check(), "");
      while (h.g->clean(4, true) != 0) {
      }
    }
  }
}

// A tombstone is older than what is there now, or forged: it frees nothing, and is no damage.
TEST(log_heap_damage, of_a_tombstone_is_none_where_no_object_can_have_been) {
  ground<> g;
  const home_t kept = g.put(100, 1);
  const home_t freed = g.put(100, 2);
  g.free(freed);
  const std::uint64_t version = g->statistics().version;
  g.paint(kept, 10, 1);
  const block_place p = blocks_of(g, version).at(0);
  std::byte* const block = g.base() + p.offset();
  layout::block_header h;
  std::memcpy(&h, block, sizeof h);
  std::uint64_t word = 0;
  std::memcpy(&word, block + sizeof h, sizeof word);
  ASSERT_EQ(word & layout::home_mask, freed);
  word += 16;
  std::memcpy(block + sizeof h, &word, sizeof word);
  h.content_check = content_check_of(block, h.bytes, p);
  std::memcpy(block, &h, sizeof h);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_TRUE(g.report().damaged.empty());
  EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{kept, 100}, {freed, 100}}));
  EXPECT_EQ(g.look(kept, 100), std::vector<std::byte>(100, std::byte{1}));
  EXPECT_EQ(g.look(freed, 100), std::vector<std::byte>(100, std::byte{2}));
  EXPECT_EQ(g->check(), "");
}
// A block that holds, with entries that do not.
TEST(log_heap_damage, of_entries_that_prove_themselves_is_reported) {
  const std::uint64_t words[] = {
      0,                                                           // no bytes, and a wide word after it that is none
      std::uint64_t{60000} << 48 | (std::uint64_t{1} << 40),       // leaves its chunk
      std::uint64_t{50} << 48 | 12,                                // outside of the home space
      std::uint64_t{50} << 48 | std::uint64_t{1} << 47 | 1 << 20,  // a tombstone with contents
  };
  for (const std::uint64_t word : words) {
    history h;
    const block_place p = blocks_of(h.g, 5)[0];
    layout::block_header b;
    std::memcpy(h.g.base() + p.offset() + sizeof b, &word, 8);
    std::memcpy(&b, h.g.base() + p.offset(), sizeof b);
    b.content_check = content_check_of(h.g.base() + p.offset(), b.bytes, p);
    std::memcpy(h.g.base() + p.offset(), &b, sizeof b);
    ASSERT_TRUE(h.g.crash_and_open()) << last_message();
    ASSERT_EQ(h.g.report().damaged.size(), 1U) << std::hex << word;
    EXPECT_EQ(h.g.report().damaged[0].version, 5U);
    EXPECT_EQ(h.g.look(h.b, 100)[0], std::byte{6});
    EXPECT_EQ(h.g.look(h.b, 100)[20], std::byte{2});
  }
}

// Any one word of what the heap has written: refused, or reported, or of no consequence but that of a torn last block.
TEST(log_heap_damage, of_any_word_is_refused_or_reported) {
  unsigned refused = 0, reported = 0, silent = 0;
  for (const bool closed : {false, true}) {
    history h;
    if (closed) {
      h.g->leave(h.g.thread());
      ASSERT_TRUE(h.g->close());
    }
    h.g.forget();
    const std::vector<std::byte> image(h.g.base(), h.g.base() + h.g.bytes());
    ASSERT_TRUE(h.g.crash_and_open());
    const auto before = h.g.objects();
    const std::vector<std::byte> of_a = h.g.look(h.a, 100), of_b = h.g.look(h.b, 100);
    std::mt19937_64 random{5};
    for (std::uint64_t at = h.g.sizes().data_offset; at < h.g.bytes(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, image.data() + at, 8);
      if (word == 0 && random() % 2048 != 0) continue;
      h.g.forget();
      std::memcpy(h.g.base(), image.data(), image.size());
      const std::uint64_t other = random() % 2 == 0 ? word ^ std::uint64_t{1} << random() % 64 : random();
      std::memcpy(h.g.base() + at, &other, 8);
      const status s = h.g.crash_and_open();
      if (!s) {
        EXPECT_EQ(s.error(), errc::corrupt) << last_message();
        ++refused;
        continue;
      }
      if (!h.g.report().damaged.empty()) {
        ++reported;
      } else {
        ++silent;
        // Nothing is lost but what may have been torn.
        // What was loaded from a closed heap does not look at the log: a check does, and cleaners.
        if (closed) continue;
        // The last blocks of the logs, which are about c, may be torn ones if their headers do not hold.
        auto found = h.g.objects();
        found.insert({h.c, 100});
        EXPECT_EQ(found, before) << "word at offset " << at;
        EXPECT_EQ(h.g.look(h.a, 100), of_a) << "word at offset " << at;
        EXPECT_EQ(h.g.look(h.b, 100), of_b) << "word at offset " << at;
      }
      // Whatever is left can be read, and worked on.
      for (const auto& [home, size] : h.g.objects()) (void)h.g.look(home, size);
      h.g.free(h.g.put(64, 1));
      while (h.g->clean(4, true) != 0) {
      }
    }
  }
  EXPECT_GT(refused, 10U);
  EXPECT_GT(reported, 10U);
  std::printf("%u refused, %u reported, %u of no consequence\n", refused, reported, silent);
}

}  // namespace
}  // namespace nvm::logheap
