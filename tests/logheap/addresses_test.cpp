// Home addresses come back, to objects of any size, whatever the cleaner has done by then.
#include <algorithm>

#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::small_settings;

using transaction_type = ground<>::transaction_type;

constexpr std::uint64_t home_bytes = 1 << 19;

// Little home space, in much of a pool: addresses run out first, but for the smallest objects.
heap_settings settings_of(std::uint64_t bytes = home_bytes) {
  heap_settings s = small_settings();
  s.home_bytes = bytes;
  s.superblock_bytes = 4096;
  return s;
}

struct filled_with {
  std::uint64_t size = 0;
  std::vector<home_t> homes;
  bool by_addresses = false;  // these ran out, and not the log
};
int fill_of(std::size_t i) { return static_cast<int>(i % 250) + 1; }

// Objects of one size, many in a transaction, until there is no room.
filled_with fill_with(ground<>& g, std::uint64_t size) {
  filled_with f{size, {}, false};
  const std::size_t each = std::max<std::uint64_t>(1, 3000 / size);
  for (bool room = true; room;) {
    transaction_type t{*g, g.thread()};
    std::vector<home_t> some;
    while (some.size() < each && room) {
      const auto home = t.allocate(size);
      if (!home) {
        EXPECT_EQ(home.error(), errc::no_space) << last_message();
        f.by_addresses = true;
        room = false;
        break;
      }
      const std::vector<std::byte> bytes(size, std::byte(fill_of(f.homes.size() + some.size())));
      t.store(*home, bytes.data(), size);
      some.push_back(*home);
    }
    const auto done = t.commit();
    if (!done) {
      EXPECT_EQ(done.error(), errc::no_space) << last_message();
      f.by_addresses = false;
      break;
    }
    f.homes.insert(f.homes.end(), some.begin(), some.end());
  }
  return f;
}
void look_at(ground<>& g, const filled_with& f) {
  for (std::size_t i = 0; i < f.homes.size(); ++i) {
    ASSERT_EQ(g.look(f.homes[i], f.size), std::vector<std::byte>(f.size, std::byte(fill_of(i)))) << f.size;
  }
}
void free_all(ground<>& g, const filled_with& f) {
  for (std::size_t i = 0; i < f.homes.size();) {
    transaction_type t{*g, g.thread()};
    for (unsigned n = 0; n < 200 && i < f.homes.size(); ++n) {
      ASSERT_TRUE(t.release(f.homes[i++])) << last_message();
    }
    ASSERT_TRUE(t.commit()) << last_message();
  }
}
// Seals what the thread is filling, by commits, and cleans until nothing is left to be cleaned.
void settle(ground<>& g) {
  for (int i = 0; i < 8; ++i) g.free(g.put(3000, 1));
  while (g->clean(8, true) != 0) {
  }
}

unsigned entries_about(ground<>& g, layout::entry_kind kind, home_t home) {
  unsigned n = 0;
  for (std::uint32_t i = 0; i < g->chunks().count(); ++i) {
    const chunk& c = g->chunks().at(i);
    if (c.state.load() == chunk_state::free || c.state.load() == chunk_state::limbo) continue;
    for (std::uint64_t at = sizeof(layout::chunk_header); at < c.used.load();) {
      layout::block_header h;
      const block_place place = g->chunks().place(c, at);
      if (inspect_block(g.base(), place, g->chunks().chunk_bytes(), h) != block_fault::none) break;
      (void)for_each_entry(g.base(), place, h, [&](const entry& e) { n += e.kind == kind && e.home == home ? 1 : 0; });
      at += round_up(h.bytes, layout::block_align);
    }
  }
  return n;
}

TEST(log_heap_addresses, fit_each_size_after_any_other_for_ever) {
  std::vector<std::uint64_t> sizes{16, 200, 500, 4096, 10000};
  std::map<std::uint64_t, std::size_t> in_a_fresh_one;
  for (const std::uint64_t size : sizes) {
    ground<> g{700, settings_of()};
    in_a_fresh_one[size] = fill_with(g, size).homes.size();
  }
  ground<> g{700, settings_of()};
  std::mt19937_64 random{5};
  unsigned by_addresses = 0;
  for (int round = 0; round < 12; ++round) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    for (const std::uint64_t size : sizes) {
      const filled_with f = fill_with(g, size);
      by_addresses += f.by_addresses ? 1 : 0;
      // Some are not back when the first object of another size goes beside them.
      ASSERT_GE(f.homes.size(), in_a_fresh_one[size] * 5 / 6) << size << " bytes, round " << round;
      ASSERT_NO_FATAL_FAILURE(look_at(g, f)) << "round " << round;
      if (random() % 4 == 0) {
        ASSERT_TRUE(random() % 2 == 0 ? g.crash_and_open() : g.close_and_open()) << last_message();
        ASSERT_TRUE(g.report().damaged.empty());
        ASSERT_NO_FATAL_FAILURE(look_at(g, f)) << "round " << round << ", opened";
      }
      ASSERT_NO_FATAL_FAILURE(free_all(g, f)) << "round " << round;
      if (random() % 4 == 0) {
        ASSERT_TRUE(random() % 2 == 0 ? g.crash_and_open() : g.close_and_open()) << last_message();
      }
      ASSERT_TRUE(g.objects().empty());
      ASSERT_EQ(g->check(), "") << size << " bytes, round " << round;
    }
  }
  EXPECT_GT(by_addresses, 16U);
  settle(g);
  EXPECT_GT(g->statistics().home_free_bytes, home_bytes * 9 / 10);
}

// Everything between the sizes that fill whole superblocks and single units, against a model; crashes among them.
TEST(log_heap_addresses, are_of_one_object_at_a_time) {
  ground<> g{700, settings_of(1 << 16)};
  std::mt19937_64 random{11};
  std::map<home_t, std::vector<std::byte>> model;
  unsigned refused = 0;
  for (int step = 1; step <= 6000; ++step) {
    // Sizes drift, so that superblocks become empty.
    const std::uint64_t most = step / 500 % 2 == 0 ? 60 : 6000;
    transaction_type t{*g, g.thread()};
    auto next = model;
    if (random() % 2 == 0 || model.empty()) {
      const std::uint64_t size = most / 4 + random() % most;
      const auto home = t.allocate(size);
      if (home) {
        auto& bytes = next[*home];
        bytes.assign(size, static_cast<std::byte>(random()));
        t.store(*home, bytes.data(), size);
      } else {
        ASSERT_EQ(home.error(), errc::no_space) << last_message();
        ++refused;
      }
    } else {
      const auto which = std::next(next.begin(), static_cast<std::ptrdiff_t>(random() % next.size()));
      ASSERT_TRUE(t.release(which->first)) << last_message();
      next.erase(which);
    }
    if (random() % 10 == 0) {
      t.abort();
    } else {
      ASSERT_TRUE(t.commit()) << last_message();
      model = std::move(next);
    }
    if (step % 300 == 0) {
      while (random() % 3 != 0 && g->clean(2, true) != 0) {
      }
      ASSERT_EQ(g->check(), "") << "step " << step;
      if (step % 900 == 0) {
        ASSERT_TRUE(g.crash_and_open()) << last_message();
      }
      ASSERT_TRUE(g.report().damaged.empty());
      std::map<home_t, std::uint64_t> expected;
      for (const auto& [home, bytes] : model) {
        expected[home] = bytes.size();
        ASSERT_EQ(g.look(home, bytes.size()), bytes) << "step " << step;
      }
      ASSERT_EQ(g.objects(), expected) << "step " << step;
    }
  }
  EXPECT_GT(refused, 10U);
}

// Asks so many times for an object for which there are no addresses, while transactions go on.
void ask_in_vain(ground<>& g, unsigned times, std::uint64_t size, home_t other) {
  for (unsigned i = 0; i < times; ++i) {
    transaction_type t{*g, g.thread()};
    ASSERT_EQ(t.allocate(size).error(), errc::no_space);
    t.abort();
    g.paint(other, 8, static_cast<int>(i));
  }
}

TEST(log_heap_addresses, that_no_cleaning_can_bring_are_asked_for_without_any) {
  ground<> g{700, settings_of(1 << 16)};
  const filled_with f = fill_with(g, 4096);
  ASSERT_TRUE(f.by_addresses);
  const auto work = [&] { return g->statistics().passes + g->statistics().seals; };
  const std::uint64_t before = work();
  ASSERT_NO_FATAL_FAILURE(ask_in_vain(g, 200, 4096, f.homes[1]));
  EXPECT_EQ(work(), before);
  // An object of twice the size finds nothing in the place of one, and not in the places of two that are apart.
  g.free(f.homes[2]);
  ASSERT_NO_FATAL_FAILURE(ask_in_vain(g, 200, 8192, f.homes[1]));
  EXPECT_EQ(work(), before);
  g.free(f.homes[4]);
  ASSERT_NO_FATAL_FAILURE(ask_in_vain(g, 200, 8192, f.homes[1]));
  EXPECT_LE(g->statistics().seals, 2U);
  EXPECT_EQ(g->statistics().home_free_bytes, 8192U);
  g.free(f.homes[3]);
  g.put(3 * 4096, 1);
  EXPECT_EQ(g->check(), "");
}

// An entry about an object that is gone, in a chunk that is full of what lives, holds addresses back: logs are sealed
// when these begin to wait, and not with each allocation that fails.
TEST(log_heap_addresses, that_a_full_chunk_holds_back_are_sealed_for_once) {
  ground<> g{700, settings_of(1 << 16)};
  const home_t other = g.put(100, 1);
  home_t gone = 0;
  {
    transaction_type t{*g, g.thread()};
    gone = *t.allocate(4096);
    ASSERT_TRUE(t.commit()) << last_message();
  }
  (void)fill_with(g, 500);
  ASSERT_TRUE(fill_with(g, 4096).homes.empty());
  g.free(gone);
  ASSERT_NO_FATAL_FAILURE(ask_in_vain(g, 300, 4096, other));
  EXPECT_GE(g->statistics().seals, 1U);
  EXPECT_LE(g->statistics().seals, 4U);
  EXPECT_EQ(g->check(), "");
}

// Volatile memory: what is known of large objects goes with them, those that no transaction has committed included.
TEST(log_heap_addresses, are_forgotten_with_their_objects) {
  ground<> g{700, settings_of()};
  const auto rounds = [&](int n) {
    std::uint64_t most = 0;
    for (int i = 0; i < n; ++i) {
      transaction_type t{*g, g.thread()};
      const auto home = t.allocate(5000 + 100 * static_cast<std::uint64_t>(i % 50));
      EXPECT_TRUE(home) << last_message();
      if (!home) break;
      if (i % 2 == 0) {
        t.abort();
      } else {
        const std::vector<std::byte> bytes(5000, std::byte{1});
        t.store(*home, bytes.data(), bytes.size());
        EXPECT_TRUE(t.commit()) << last_message();
        g.free(*home);
      }
      most = std::max(most, g->statistics().superblocks);
    }
    return most;
  };
  const std::uint64_t few = rounds(300);
  EXPECT_LE(rounds(6000), few + 2 * superblocks::waiting_max);
  // As many as there is room for, and those that wait.
  EXPECT_LE(few, home_bytes / 5000 + 2 * superblocks::waiting_max);
}

// A superblock that its thread keeps for the next object is another one's when addresses are short.
TEST(log_heap_addresses, that_another_thread_keeps_are_had_where_they_are_short) {
  ground<> g{700, settings_of(1 << 16)};
  auto* other = *g->join();
  for (std::uint64_t size = 16; size <= 400; size += 48) {
    transaction_type t{*g, *other};
    ASSERT_TRUE(t.allocate(size)) << last_message();
    t.abort();
  }
  EXPECT_LT(g->statistics().home_free_bytes, std::uint64_t{1} << 16);
  transaction_type t{*g, g.thread()};
  ASSERT_TRUE(t.allocate(1 << 16)) << last_message();
  t.abort();
  transaction_type again{*g, *other};
  ASSERT_TRUE(again.allocate(16)) << last_message();
  again.abort();
  g->leave(*other);
}

// Of two tombstones whose objects' allocations are gone the older one hides nothing, and is about a larger object.
TEST(log_heap_addresses, are_of_the_newest_tombstone_where_no_allocation_is_left) {
  ground<> g{700, settings_of(4 * 4096)};
  const std::uint64_t all = g->statistics().home_free_bytes;
  const home_t filler = g.put(300, 1);
  const home_t large = g.put(8192, 2);
  const home_t rest = g.put(4096, 3);
  // The large one goes, and its entries; its tombstone stays, in a chunk that is being filled.
  g.free(large);
  for (int i = 0; i < 20 && g->statistics().home_free_bytes == 0; ++i) {
    g.paint(filler, 10, 4);
    (void)g->clean(8, true);
  }
  ASSERT_GE(g->statistics().home_free_bytes, 8192U);
  // Small ones there; an update of one of them outlives their allocations.
  std::vector<home_t> small;
  {
    transaction_type t{*g, g.thread()};
    for (int i = 0; i < 30; ++i) small.push_back(*t.allocate(100));
    ASSERT_TRUE(t.commit());
  }
  for (const home_t home : small) ASSERT_TRUE(home >= large && home < large + 8192);
  g.paint(small[0], 30, 6);
  {
    transaction_type t{*g, g.thread()};
    for (const home_t home : small) ASSERT_TRUE(t.release(home));
    ASSERT_TRUE(t.commit());
  }
  std::vector<home_t> more;
  for (int i = 0; i < 11; ++i) more.push_back(g.put(300, 7));  // beside the first one
  while (g->clean(8, true) != 0) {
  }
  ASSERT_EQ(entries_about(g, layout::entry_kind::tombstone, large), small[0] == large ? 2U : 1U);
  ASSERT_EQ(entries_about(g, layout::entry_kind::tombstone, small[0]), small[0] == large ? 2U : 1U);
  ASSERT_EQ(entries_about(g, layout::entry_kind::update, small[0]), 1U);
  ASSERT_EQ(entries_about(g, layout::entry_kind::bare, small[0]), 0U);
  for (int lives = 0; lives < 2; ++lives) {
    EXPECT_EQ(g->check(), "");
    EXPECT_EQ(g.look(small[0], 100), std::vector<std::byte>(100)) << lives;
    ASSERT_TRUE(g.crash_and_open()) << last_message();
  }
  for (const home_t home : more) g.free(home);
  g.free(rest);
  g.free(filler);
  settle(g);
  EXPECT_GT(g->statistics().home_free_bytes, all - 2 * 4096);
}

}  // namespace
}  // namespace nvm::logheap
