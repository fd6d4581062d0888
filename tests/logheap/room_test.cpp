// When there is no room: commits clean, or fail as if they had not been tried; reading and freeing go on.
#include <chrono>
#include <thread>

#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::plain_mapping;
using testing::player;
using testing::small_settings;

using heap_type = ground<>::heap_type;
using transaction_type = ground<>::transaction_type;

// Fills the heap with objects of `size` bytes until a commit finds no room.
std::vector<home_t> fill_up(ground<>& g, std::uint64_t size) {
  std::vector<home_t> all;
  for (;;) {
    transaction_type t{*g, g.thread()};
    const auto home = t.allocate(size);
    EXPECT_TRUE(home) << last_message();
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(all.size()));
    t.store(*home, bytes.data(), size);
    const auto done = t.commit();
    if (!done) {
      EXPECT_EQ(done.error(), errc::no_space) << last_message();
      return all;
    }
    all.push_back(*home);
  }
}

TEST(log_heap_room, that_is_used_up_aborts_and_leaves_reading_and_freeing) {
  ground<> g{200};
  const std::vector<home_t> all = fill_up(g, 900);
  EXPECT_GT(all.size() * 900, 200U * 4096 * 3 / 4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(g.look(all[i], 900), std::vector<std::byte>(900, static_cast<std::byte>(i)));
  }
  EXPECT_EQ(g->check(), "");
  // A store finds no room either, and the old bytes stay.
  {
    transaction_type t{*g, g.thread()};
    const std::vector<std::byte> bytes(5000, std::byte{0xEE});
    for (int i = 0; i < 5; ++i) t.store(all[static_cast<std::size_t>(i)], bytes.data(), 900);
    EXPECT_EQ(t.commit().error(), errc::no_space);
  }
  EXPECT_EQ(g.look(all[0], 900), std::vector<std::byte>(900, std::byte{0}));
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_EQ(g.objects().size(), all.size());
  for (std::size_t i = 0; i < all.size(); i += 2) g.free(all[i]);
  EXPECT_EQ(g->check(), "");
  // What was freed can be filled again.
  const std::vector<home_t> more = fill_up(g, 900);
  EXPECT_GT(more.size(), all.size() / 2 * 3 / 4);
  EXPECT_EQ(g->check(), "");
  for (std::size_t i = 1; i < all.size(); i += 2) {
    ASSERT_EQ(g.look(all[i], 900), std::vector<std::byte>(900, static_cast<std::byte>(i)));
  }
}

TEST(log_heap_room, at_ninety_percent_is_enough_for_ever) {
  heap_settings s = small_settings();
  ground<> g{300, s};
  // Nine tenths of the pool, with what an object takes in the end: an allocation without its contents, and an update.
  std::vector<home_t> all;
  const std::uint64_t size = 200;
  while (all.size() * (48 + 40 + size) < 300 * 4096 * 9 / 10) all.push_back(g.put(size, static_cast<int>(all.size())));
  std::vector<std::byte> last(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) last[i] = static_cast<std::byte>(i);
  std::mt19937_64 random{3};
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t which = random() % all.size();
    last[which] = static_cast<std::byte>(random());
    g.paint(all[which], size, static_cast<int>(last[which]));
    if (HasFailure()) break;
  }
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(g.look(all[i], size), std::vector<std::byte>(size, last[i]));
  EXPECT_EQ(g->check(), "");
  const heap_statistics st = g->statistics();
  EXPECT_GT(st.cleaned, 500U);
  std::printf("%lu chunks cleaned, %lu of them fast, %lu bytes moved for %d stored\n", st.cleaned, st.cleaned_fast,
              st.moved_bytes, 20'000 * 200);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(g.look(all[i], size), std::vector<std::byte>(size, last[i]));
}

// Whatever a commit needs it takes before it writes: a shortage at any point leaves everything as it was.
TEST(log_heap_room, that_is_missing_is_missed_before_anything_is_durable) {
  ground<> g{400};
  player<> p{g, 7};
  for (int i = 0; i < 50; ++i) p.step();
  const home_t a = g.put(3000, 1);
  const home_t b = g.put(500, 2);
  const std::vector<std::byte> image(g.base(), g.base() + g.bytes());
  const auto before = g.objects();
  for (unsigned shortage = 1; shortage <= 2; ++shortage) {
    transaction_type t{*g, g.thread()};
    const std::vector<std::byte> bytes(3000, std::byte{9});
    t.store(a, bytes.data(), 3000);
    ASSERT_TRUE(t.release(b));
    ASSERT_TRUE(t.allocate(100));
    plain_mapping::shortages = 1;
    EXPECT_EQ(t.commit().error(), errc::no_memory);
    EXPECT_EQ(plain_mapping::shortages, 0U);
    EXPECT_EQ(g.objects(), before);
    EXPECT_EQ(g.look(a, 3000), std::vector<std::byte>(3000, std::byte{1}));
    EXPECT_EQ(g->check(), "");
  }
  // No block was written: what differs are headers of chunks that were taken from the pool's pages.
  for (std::uint32_t i = 0; i < g->chunks().count(); ++i) {
    const chunk& c = g->chunks().at(i);
    if (c.state.load() == chunk_state::free) continue;
    EXPECT_EQ(std::memcmp(g.base() + c.offset, image.data() + c.offset, 4096), 0) << "chunk at " << c.offset;
  }
  g.free(b);
  g.paint(a, 3000, 5);
  ASSERT_TRUE(g.crash_and_open());
  EXPECT_EQ(g.look(a, 3000), std::vector<std::byte>(3000, std::byte{5}));
}
// Pieces that a copy cuts, where it goes on in another chunk, need memory of the mapping.
TEST(log_heap_room, that_a_cleaner_misses_keeps_the_chunk) {
  ground<> g;
  std::vector<home_t> all;
  constexpr int objects = 150;
  constexpr std::uint64_t size = 700;
  const auto fill_of = [](int i) { return i % 3 != 0 ? i % 100 + 100 : i % 100; };
  for (int i = 0; i < objects; ++i) all.push_back(g.put(size, i % 100));
  for (int i = 0; i < objects; ++i) {
    if (i % 3 != 0) g.paint(all[static_cast<std::size_t>(i)], size, fill_of(i));
  }
  plain_mapping::shortages = 1000;
  for (int i = 0; i < 40; ++i) {
    (void)g->clean(4, true);
    ASSERT_EQ(g->check(), "");
  }
  EXPECT_LT(plain_mapping::shortages, 1000U);
  plain_mapping::shortages = 0;
  while (g->clean(4, true) != 0) {
  }
  for (int lives = 0; lives < 2; ++lives) {
    EXPECT_EQ(g->check(), "");
    for (int i = 0; i < objects; ++i) {
      EXPECT_EQ(g.look(all[static_cast<std::size_t>(i)], size), std::vector<std::byte>(size, std::byte(fill_of(i))));
    }
    ASSERT_TRUE(g.crash_and_open()) << last_message();
  }
}
// Background cleaners take what is cheap; dear chunks only where there is hardly another one; then they rest.
TEST(log_heap_room, that_is_left_is_left_alone_by_cleaners) {
  heap_settings s = small_settings();
  s.cleaners = 2;
  s.clean_from = 50;
  ground<> g{2000, s};
  ASSERT_TRUE(g->start_cleaners()) << last_message();
  constexpr std::uint64_t size = 200;
  std::vector<home_t> all;
  const auto in_use = [&] {
    const heap_statistics st = g->statistics();
    return (st.chunks - st.free_chunks) * 4096 * 100 / (2000 * 4096);
  };
  const auto when_at_rest = [&] {
    std::uint64_t passes = ~std::uint64_t{0};
    for (int tries = 0; tries < 200 && g->statistics().passes != passes; ++tries) {
      passes = g->statistics().passes;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(g->statistics().passes, passes) << "cleaners do not rest";
    return g->statistics();
  };
  while (in_use() < 66) all.push_back(g.put(size, static_cast<int>(all.size())));
  // Half of what each chunk holds.
  std::size_t painted = 0;
  for (; painted < all.size() && in_use() < 92; painted += 2) g.paint(all[painted], size, 1);
  ASSERT_GE(in_use(), 92U);
  const heap_statistics half = when_at_rest();
  EXPECT_EQ(half.moved_bytes, 0U);
  EXPECT_LE(half.passes, 4 * half.chunks);
  // Until there are hardly any free ones.
  for (int i = 0; i < 3000; ++i) g.paint(all[static_cast<std::size_t>(i) * 7919 % all.size()], size, 2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  heap_statistics last = g->statistics();
  while ((last.moved_bytes == 0 || last.cleaned <= half.cleaned) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    last = g->statistics();
  }
  last = when_at_rest();
  EXPECT_NE(last.moved_bytes, 0U);
  EXPECT_GT(last.cleaned, half.cleaned);
  g->stop_cleaners();
  EXPECT_EQ(g->check(), "");
}

TEST(log_heap_room, of_random_transactions_at_the_limit_is_as_their_model) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    ground<> g{96};
    player<> p{g, seed};
    p.objects_max = 1000;
    for (unsigned round = 0; round < 30; ++round) {
      for (unsigned i = 0; i < 100; ++i) p.step();
      ASSERT_NO_FATAL_FAILURE(p.compare()) << "seed " << seed << " round " << round;
      if (round % 7 == 6) {
        ASSERT_TRUE(g.crash_and_open()) << last_message();
        ASSERT_NO_FATAL_FAILURE(p.compare()) << "seed " << seed << " round " << round << " recovered";
      }
    }
    EXPECT_GT(p.refused, 0U);
  }
}

TEST(log_heap_room, outside_of_objects_takes_no_stores) {
  ground<> g;
  const home_t a = g.put(100, 1);
  for (const home_t at : {a + 5000, g.settings().home_first + (std::uint64_t{1} << 29), home_t{8}}) {
    transaction_type t{*g, g.thread()};
    t.store(at, "x", 1);
    EXPECT_EQ(t.commit().error(), errc::bad_pointer) << last_message();
  }
  {
    transaction_type t{*g, g.thread()};
    EXPECT_EQ(t.release(a + 8).error(), errc::bad_pointer);
    EXPECT_TRUE(t.release(a));
    EXPECT_EQ(t.release(a).error(), errc::bad_pointer);
  }
  EXPECT_EQ(g.look(a, 100), std::vector<std::byte>(100, std::byte{1}));
  EXPECT_EQ(g->allocate(g.thread(), 0).error(), errc::invalid);
  EXPECT_EQ(g->allocate(g.thread(), std::uint64_t{1} << 40).error(), errc::too_large);
  EXPECT_EQ(g->check(), "");
}

// A heap is made where there are pages for its root, or not at all.
TEST(log_heap_room, for_the_root_of_a_new_heap_is_needed) {
  const geometry sizes = testing::pool_geometry(64);
  std::vector<std::byte> memory(sizes.capacity_bytes() + 4096);
  auto* const base = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(memory.data()), 4096));
  direct_media inner;
  any_direct medium{inner};
  log::nothing_logged lanes;
  space<any_direct, log::nothing_logged> pages{medium, lanes, base, sizes};
  ASSERT_TRUE(pages.boot(0, 1)) << last_message();
  const auto take = [&] { return pages.take_run(0, nvm::layout::slot_protocol::self_validating, 7, 4096); };
  std::uint64_t last = 0;
  for (auto run = take(); run; run = take()) last = *run;
  heap_type h{medium, base, pages, small_settings()};
  recovery_report report;
  EXPECT_EQ(h.create(1).error(), errc::no_space) << last_message();
  std::uint64_t word = 0;
  std::memcpy(&word, base + testing::root_word, sizeof word);
  EXPECT_EQ(word, 0U);
  pages.give(last);
  EXPECT_TRUE(h.create(1)) << last_message();
  EXPECT_TRUE(h.open(report)) << last_message();
}

// A block counts its entries in 16 bits.
TEST(log_heap_room, of_a_block_is_used_up_by_as_many_entries_as_it_can_count) {
  heap_settings s = small_settings();
  s.chunk_bytes = layout::chunk_bytes_max;
  ground<testing::leaves> g{8192, s};
  const home_t kept = g.put(100, 1);
  constexpr std::uint64_t more = 10;
  std::vector<home_t> all;
  {
    ground<testing::leaves>::transaction_type t{*g, g.thread()};
    for (std::uint64_t i = 0; i < layout::entries_max + more; ++i) all.push_back(*t.allocate(16));
    ASSERT_TRUE(t.commit()) << last_message();
  }
  ASSERT_EQ(g.objects().size(), all.size() + 1);
  ground<testing::leaves>::transaction_type t{*g, g.thread()};
  for (const home_t home : all) ASSERT_TRUE(t.release(home));
  const auto version = t.commit();
  ASSERT_TRUE(version) << last_message();
  std::vector<unsigned> counts;
  for (const block_place& p : testing::blocks_of(g, *version)) {
    layout::block_header h;
    std::memcpy(&h, g.base() + p.offset(), sizeof h);
    counts.push_back(count_of(h));
  }
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (std::vector<unsigned>{more, layout::entries_max}));
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{kept, 100}}));
  EXPECT_EQ(g->check(), "");
}

// Objects of more than a chunk, and of more than 64 KiB.
TEST(log_heap_room, is_split_where_an_object_is_larger_than_a_chunk) {
  ground<> g;
  const home_t large = g.put(200'000, 5);
  transaction_type t{*g, g.thread()};
  const auto zeros = t.allocate(300'000);
  t.store(*zeros + 100'000, "abc", 3);
  ASSERT_TRUE(t.commit()) << last_message();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(g.look(large, 200'000), std::vector<std::byte>(200'000, std::byte{5}));
    std::vector<std::byte> expected(300'000);
    std::memcpy(expected.data() + 100'000, "abc", 3);
    EXPECT_EQ(g.look(*zeros, 300'000), expected);
    EXPECT_EQ(g->check(), "");
    ASSERT_TRUE(i == 0 ? g.crash_and_open() : g.close_and_open()) << last_message();
  }
  g.free(large);
  while (g->clean(4, true) != 0) {
  }
  EXPECT_EQ(g->check(), "");
  ASSERT_TRUE(g.crash_and_open());
  EXPECT_EQ(g.objects(), (std::map<home_t, std::uint64_t>{{*zeros, 300'000}}));
}

}  // namespace
}  // namespace nvm::logheap
