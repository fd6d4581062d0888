// Cutting out what does not hold: what recovery has said of a damaged log is what an undamaged one says afterwards.
#include "logheap/cut_out.hpp"

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

TEST(log_heap_cut_out, leaves_what_recovery_has_found) {
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
    EXPECT_EQ(cut_out_damage(*g, g.base()) != 0, found);
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
}

TEST(log_heap_cut_out, changes_nothing_where_all_holds) {
  ground<leaves> g;
  player<leaves> p{g, 5};
  for (unsigned i = 0; i < 150; ++i) p.step();
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  const std::vector<std::byte> image{g.base(), g.base() + g.bytes()};
  EXPECT_EQ(cut_out_damage(*g, g.base()), 0U);
  EXPECT_TRUE(std::equal(image.begin(), image.end(), g.base()));
}

}  // namespace
}  // namespace nvm::logheap
