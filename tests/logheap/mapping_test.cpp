// Mappings agree with a model by the byte, in every configuration, and run out of memory only before a change.
#include "mapping_model.hpp"

namespace nvm::logheap::testing {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t gib = kib * kib * kib;

struct ground {
  const char* name;
  mapping_step step;
  std::uint64_t partition_bytes;
  std::uint64_t cache_entries = node_cache::entries_min;
};
constexpr ground grounds[] = {{"base", mapping_step::base, 4096},
                              {"two_layers", mapping_step::two_layers, 4096},
                              {"group_update", mapping_step::group_update, 4096},
                              {"node_cache", mapping_step::node_cache, 4096},
                              {"full", mapping_step::lock_free_readers, 4096},
                              {"full_small_partitions", mapping_step::lock_free_readers, 64},
                              {"full_large_partitions", mapping_step::lock_free_readers, 65536},
                              {"full_larger_partitions", mapping_step::lock_free_readers, 1 << 20, 1 << 20}};

skip_list_settings settings_of(const ground& g) {
  skip_list_settings s = skip_list_settings::up_to(g.step);
  s.cache_entries = g.cache_entries;
  return s;
}

class skip_list_mappings : public ::testing::TestWithParam<ground> {};
INSTANTIATE_TEST_SUITE_P(of, skip_list_mappings, ::testing::ValuesIn(grounds),
                         [](const auto& i) { return i.param.name; });

TEST_P(skip_list_mappings, say_what_a_model_says) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    epochs e;
    skip_list_mapping m{e, {1 << 16, 1 << 20, GetParam().partition_bytes}, settings_of(GetParam())};
    follows_a_model(m, e, {(1 << 16) + 8000, 20'000, seed % 2 == 0 ? 300U : 9000U, 1500, seed});
    if (HasFatalFailure()) return;
  }
}
TEST_P(skip_list_mappings, say_what_a_model_says_of_few_bytes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    epochs e;
    skip_list_mapping m{e, {0, 1 << 20, GetParam().partition_bytes}, settings_of(GetParam())};
    follows_a_model(m, e, {4096 - 30, 60, 30, 1000, seed});
    if (HasFatalFailure()) return;
  }
}
// Addresses in nodes have 32 bits.
TEST_P(skip_list_mappings, go_on_at_the_end_of_a_stretch_of_home_space) {
  epochs e;
  const home_t first = 5 * gib;
  skip_list_mapping m{e, {first, 16 * gib, GetParam().partition_bytes}, settings_of(GetParam())};
  follows_a_model(m, e, {first + 8 * gib - 5000, 10'000, 2000, 2000, 3});
  if (HasFatalFailure()) return;
  // The same place of another stretch has nothing.
  mapping_thread<skip_list_mapping> t{m, e};
  t.inside([&] {
    m.for_each_piece(t.client, first + 4 * gib - 5000, 10'000, [](const piece&) { FAIL(); });
    m.for_each_piece(t.client, first + 12 * gib - 5000, 10'000, [](const piece&) { FAIL(); });
  });
}
TEST_P(skip_list_mappings, split_pieces_that_are_longer_than_a_node_can_tell) {
  epochs e;
  skip_list_mapping m{e, {0, 1 << 20, GetParam().partition_bytes}, settings_of(GetParam())};
  follows_a_model(m, e, {0, 300'000, 140'000, 150, 9});
}

// What was freed is used again while others hold it in their caches.
TEST_P(skip_list_mappings, remember_no_node_that_has_become_another) {
  epochs e;
  skip_list_mapping m{e, {0, 1 << 20, GetParam().partition_bytes}, settings_of(GetParam())};
  mapping_thread<skip_list_mapping> changer{m, e};
  mapping_thread<skip_list_mapping> looker{m, e};
  std::mt19937_64 random{5};
  byte_model model{0, std::vector<log_t>(4096)};
  log_t log = 1;
  for (unsigned round = 0; round < 20'000; ++round) {
    const home_range a{random() % 4000, 1 + random() % 96};
    ASSERT_TRUE(m.reserve(changer.client, {&a, 1}));
    changer.inside([&] {
      if (random() % 2 == 0) {
        m.erase(changer.client, a, [](const piece&) {});
        for (std::uint64_t i = 0; i < a.size; ++i) model.at(a.home + i) = 0;
      } else {
        const piece p{a.home, a.size, log};
        m.assign(changer.client, {&p, 1}, [](const piece&) {});
        for (std::uint64_t i = 0; i < a.size; ++i) model.at(a.home + i) = log + i;
        log += a.size + 1;
      }
    });
    m.release(changer.client);
    for (unsigned i = 0; i < 4; ++i) {
      const home_t x = random() % 4096;
      log_t found = 0;
      looker.inside([&] { m.for_each_piece(looker.client, x, 1, [&](const piece& p) { found = p.log; }); });
      ASSERT_EQ(found, model.at(x));
    }
  }
  if (m.settings().node_cache) {
    EXPECT_GT(looker.client.hits(), 10'000U);
  }
}

TEST(skip_list_mapping, groups_what_is_contiguous_in_both) {
  for (const bool group : {false, true}) {
    epochs e;
    skip_list_mapping m{e,
                        {0, 1 << 20, 4096},
                        skip_list_settings::up_to(group ? mapping_step::group_update : mapping_step::two_layers)};
    mapping_thread<skip_list_mapping> t{m, e};
    const home_range all{100, 64};
    std::vector<piece> words;
    words.reserve(8);
    for (std::uint64_t i = 0; i < 8; ++i) words.push_back({100 + 8 * i, 8, 1000 + 8 * i});
    for (const piece& w : words) {
      const home_range one{w.home, w.size};
      ASSERT_TRUE(m.reserve(t.client, {&one, 1}));
    }
    ASSERT_TRUE(m.reserve(t.client, {&all, 1}));
    t.inside([&] { m.assign(t.client, words, [](const piece&) {}); });
    unsigned pieces = 0;
    m.for_each([&](const piece&) { ++pieces; });
    EXPECT_EQ(pieces, group ? 1U : 8U);
  }
}

TEST(skip_list_mapping, takes_less_than_a_sixth_of_values_of_128_bytes) {
  epochs e;
  constexpr std::uint64_t values = 200'000;
  skip_list_settings s;
  s.cache_entries = 0;
  s.node_cache = false;
  skip_list_mapping m{e, {0, values * 128, 4096}, s};
  mapping_thread<skip_list_mapping> t{m, e};
  for (std::uint64_t i = 0; i < values; ++i) {
    const home_t home = i * 77'773 % values * 128;
    const home_range a{home, 128};
    ASSERT_TRUE(m.reserve(t.client, {&a, 1}));
    const piece p{home, 128, 4096 + i * 136};
    t.inside([&] { m.assign(t.client, {&p, 1}, [](const piece&) {}); });
    m.release(t.client);
  }
  EXPECT_LT(static_cast<double>(m.bytes_used()), 0.169 * values * 128);
}

// Whoever reserves for one change after the other does not hold more and more.
template <class M>
void spends_what_it_reserves(M& m, epochs& e) {
  mapping_thread<M> t{m, e};
  std::uint64_t early = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    const home_range two[] = {{i % 64 * 640, 100 + i % 7}, {i % 64 * 640 + 200, 10}};
    ASSERT_TRUE(m.reserve(t.client, two));
    const piece first{two[0].home, 50, 4096 + i * std::uint64_t{1000}};
    const piece rest{two[0].home + 50, two[0].size - 50, first.log + 300};
    t.inside([&] {
      m.assign(t.client, {&first, 1}, [](const piece&) {});
      m.assign(t.client, {&rest, 1}, [](const piece&) {});
      if (i % 2 == 0) {
        m.erase(t.client, two[1], [](const piece&) {});
      } else {
        (void)m.compare_and_move(t.client, two[1].home, two[1].size, 1, 2);
      }
    });
    if (i == 2000) early = m.bytes_used();
  }
  EXPECT_LT(m.bytes_used(), early + 65536);
}
TEST(skip_list_mapping, holds_no_more_than_is_reserved) {
  epochs e;
  skip_list_mapping m{e, {0, 1 << 20, 4096}};
  spends_what_it_reserves(m, e);
}
TEST(leaf_mapping, holds_no_more_than_is_reserved) {
  epochs e;
  leaf_mapping m{e, {0, 1 << 20, 4096}};
  spends_what_it_reserves(m, e);
}

// Every slab may be the last one.
TEST(skip_list_mapping, runs_out_of_memory_before_a_change_and_nothing_is_lost) {
  unsigned failed = 0;
  for (std::uint64_t slabs = 0; slabs < 14; ++slabs) {
    epochs e;
    skip_list_settings s;
    s.node_bytes_max = slabs * node_store::slab_bytes;
    skip_list_mapping m{e, {0, 1 << 26, 4096}, s};
    mapping_thread<skip_list_mapping> t{m, e};
    mapping_thread<skip_list_mapping> early{m, e};
    const home_range promised{500, 100};
    const bool is_promised = m.reserve(early.client, {&promised, 1}).has_value();
    std::map<home_t, log_t> model;
    std::mt19937_64 random{slabs};
    bool out = false;
    for (unsigned i = 0; i < 200'000 && !out; ++i) {
      home_range many[3];
      for (home_range& a : many) a = {(random() % ((1 << 26) / 16) * 16 + 4096) % (1 << 26) / 16 * 16, 16};
      if (many[0].home < 4096 || many[1].home == many[0].home) continue;
      if (!m.reserve(t.client, many)) {
        EXPECT_EQ(last_code(), errc::no_memory);
        out = true;
        break;
      }
      const piece p{many[0].home, 16, 4096 + i * 32};
      t.inside([&] { m.assign(t.client, {&p, 1}, [](const piece&) {}); });
      m.release(t.client);
      model[p.home] = p.log;
    }
    EXPECT_TRUE(out);
    failed += out ? 1 : 0;
    if (is_promised) {
      const piece p{promised.home, promised.size, 64};
      early.inside([&] { m.assign(early.client, {&p, 1}, [](const piece&) {}); });
      model[p.home] = p.log;
    }
    std::map<home_t, log_t> found;
    m.for_each([&](const piece& p) { found[p.home] = p.log; });
    EXPECT_EQ(found, model);
  }
  EXPECT_EQ(failed, 14U);
}

// ---- leaves ----

class leaf_mappings : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(of_partitions, leaf_mappings, ::testing::Values(64, 4096, 65536));

TEST_P(leaf_mappings, say_what_a_model_says) {
  for (const bool vectors : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      epochs e;
      leaf_mapping m{e, {1 << 16, 1 << 20, GetParam()}, {vectors}};
      follows_a_model(m, e, {(1 << 16) + 8000, 20'000, seed % 2 == 0 ? 300U : 9000U, 1500, seed});
      if (HasFatalFailure()) return;
    }
  }
}
TEST_P(leaf_mappings, say_what_a_model_says_of_few_bytes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    epochs e;
    leaf_mapping m{e, {0, 1 << 20, GetParam()}};
    follows_a_model(m, e, {4096 - 30, 60, 30, 1000, seed});
    if (HasFatalFailure()) return;
  }
}
TEST_P(leaf_mappings, say_what_a_model_says_of_long_pieces) {
  epochs e;
  leaf_mapping m{e, {0, 1 << 20, GetParam()}};
  follows_a_model(m, e, {0, 300'000, 140'000, 150, 9});
}
TEST_P(leaf_mappings, are_filled_as_a_model) {
  for (const std::uint64_t piece_max : {1, 40, 9000}) {
    epochs e;
    leaf_mapping m{e, {1 << 16, 1 << 20, GetParam()}};
    ASSERT_NO_FATAL_FAILURE(is_filled_as_a_model(m, e, piece_max, piece_max));
  }
}
TEST(leaf_mapping, is_filled_with_no_room_to_spare) {
  epochs e;
  leaf_mapping m{e, {0, 1 << 20, 4096}};
  mapping_thread<leaf_mapping> t{m, e};
  std::vector<piece> pieces;
  for (home_t home = 0; home < 1 << 20; home += 128) pieces.push_back({home, 120, home * 2});
  ASSERT_TRUE(m.fill(t.client, pieces));
  const std::uint64_t tables = 4096 * 8 + 64;
  EXPECT_LE(m.bytes_used(), tables + (1 << 20) / 4096 * (16 + 32 * 12 + 16));
}
TEST_P(skip_list_mappings, are_filled_as_a_model) {
  epochs e;
  skip_list_mapping m{e, {1 << 16, 1 << 20, GetParam().partition_bytes}, settings_of(GetParam())};
  is_filled_as_a_model(m, e, 40, 3);
}

TEST(leaf, counts_by_vectors_as_it_does_plainly) {
  std::mt19937_64 random{1};
  std::vector<std::uint16_t> numbers;
  for (unsigned n : {0, 1, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 1000, 4096}) {
    for (unsigned round = 0; round < 50; ++round) {
      numbers.resize(n);
      for (auto& x : numbers) x = static_cast<std::uint16_t>(random() % (round % 2 == 0 ? 65536 : 5000));
      std::sort(numbers.begin(), numbers.end());
      numbers.resize(n + 8);
      for (unsigned i = 0; i < 100; ++i) {
        const auto x = static_cast<std::uint16_t>(i == 0 ? 65535 : i == 1 ? 0 : random() % 5000);
        const auto expected = std::upper_bound(numbers.begin(), numbers.begin() + n, x) - numbers.begin();
        ASSERT_EQ(count_up_to(numbers.data(), n, x), expected);
        ASSERT_EQ(count_up_to_plainly(numbers.data(), n, x), expected);
      }
    }
  }
}

struct failing_memory {
  static inline std::uint64_t left = 0;
  static inline std::uint64_t blocks = 0;
  static void* take(std::size_t bytes) noexcept {
    if (left == 0) return nullptr;
    --left;
    ++blocks;
    return std::malloc(bytes);
  }
  static void give(void* p) noexcept {
    if (p != nullptr) --blocks;
    std::free(p);
  }
  static constexpr std::uint64_t taken(std::uint64_t bytes) noexcept { return bytes; }
};

// Every allocation may be the one that fails.
TEST(leaf_mapping, runs_out_of_memory_before_a_change_and_nothing_is_lost) {
  for (std::uint64_t allocations = 0; allocations < 120; ++allocations) {
    failing_memory::left = allocations;
    {
      epochs e;
      using mapping_type = basic_leaf_mapping<failing_memory>;
      mapping_type m{e, {0, 1 << 26, 4096}};
      mapping_thread<mapping_type> t{m, e};
      mapping_thread<mapping_type> early{m, e};
      const home_range promised[] = {{500, 100}, {700, 100}};
      const bool is_promised = m.reserve(early.client, promised).has_value();
      std::map<home_t, log_t> model;
      std::mt19937_64 random{allocations};
      bool out = false;
      for (unsigned i = 0; i < 1000 && !out; ++i) {
        // The first partitions, so that others grow what is promised.
        const home_range two[] = {{random() % 512 * 16 + 4096 * 8, 16}, {random() % 29 * 16, 16}};
        if (!m.reserve(t.client, two)) {
          EXPECT_EQ(last_code(), errc::no_memory);
          out = true;
          break;
        }
        for (const home_range& a : two) {
          const piece p{a.home, 16, 4096 + i * std::uint64_t{64} + (a.home < 4096 ? 32U : 0U)};
          t.inside([&] { m.assign(t.client, {&p, 1}, [](const piece&) {}); });
          model[p.home] = p.log;
        }
        m.release(t.client);
      }
      EXPECT_TRUE(out);
      if (is_promised) {
        for (const home_range& a : promised) {
          const piece p{a.home, a.size, 64 + a.home};
          early.inside([&] { m.assign(early.client, {&p, 1}, [](const piece&) {}); });
          // In one piece before, two may be contiguous.
          model[p.home] = p.log;
        }
      }
      for (const auto& [home, log] : model) {
        log_t found = 0;
        t.inside([&] { m.for_each_piece(t.client, home, 1, [&](const piece& p) { found = p.log; }); });
        EXPECT_EQ(found, log);
      }
    }
    EXPECT_EQ(failing_memory::blocks, 0U);
  }
}

// As a cleaner's are, whose victims are reserved one after the other: a change of many bytes must not spend what was
// reserved for several changes of few.
TEST(leaf_mapping, keeps_promises_for_changes_in_any_order) {
  epochs e;
  leaf_mapping m{e, {0, 1 << 20, 4096}};
  mapping_thread<leaf_mapping> t{m, e};
  const auto assign = [&](home_t home, std::uint64_t size, log_t log) {
    const piece p{home, size, log};
    m.assign(t.client, {&p, 1}, [](const piece&) {});
  };
  std::vector<home_range> few;
  for (home_t home = 1000; home < 1000 + 40 * 16; home += 16) few.push_back({home, 8});
  const home_range many{0, 600};
  ASSERT_TRUE(m.reserve(t.client, few));
  ASSERT_TRUE(m.reserve(t.client, {&many, 1}));
  t.inside([&] {
    assign(many.home, many.size, 8);
    for (const home_range& r : few) assign(r.home, r.size, 10'000 + r.home);
    m.release(t.client);
  });
  std::uint64_t found = 0;
  t.inside([&] { m.for_each_piece(t.client, 0, 4096, [&](const piece& p) { found += p.size; }); });
  EXPECT_EQ(found, many.size + 8 * few.size());
}

// Changes of others between the promise and what it is for.
TEST(leaf_mapping, keeps_promises_in_a_partition_that_others_fill) {
  std::mt19937_64 random{1};
  epochs e;
  leaf_mapping m{e, {0, 4096, 4096}};
  std::vector<std::unique_ptr<mapping_thread<leaf_mapping>>> clients;
  std::vector<std::vector<home_range>> held(6);
  clients.reserve(held.size());
  for (unsigned i = 0; i < held.size(); ++i) clients.push_back(std::make_unique<mapping_thread<leaf_mapping>>(m, e));
  byte_model model{0, std::vector<log_t>(4096)};
  log_t log = 1;
  for (unsigned round = 0; round < 20'000; ++round) {
    const unsigned who = static_cast<unsigned>(random() % held.size());
    auto& mine = held[who];
    auto& c = clients[who]->client;
    switch (random() % 4) {
      case 0:
      case 1: {
        if (mine.size() >= 5) break;
        // Of 680 bytes each, so that nobody's ranges are another's.
        const home_range a{who * 680 + random() % 600, 1 + random() % 20};
        ASSERT_TRUE(m.reserve(c, {&a, 1}));
        mine.push_back(a);
        break;
      }
      case 2:
        clients[who]->inside([&] {
          for (const home_range& a : mine) {
            if (random() % 3 == 0) {
              m.erase(c, a, [](const piece&) {});
              for (std::uint64_t i = 0; i < a.size; ++i) model.at(a.home + i) = 0;
              continue;
            }
            const piece p{a.home, a.size, log};
            m.assign(c, {&p, 1}, [](const piece&) {});
            for (std::uint64_t i = 0; i < a.size; ++i) model.at(a.home + i) = log + i;
            log += a.size + 1;
          }
        });
        [[fallthrough]];
      default:
        m.release(c);
        mine.clear();
    }
  }
  std::vector<log_t> found(4096);
  m.for_each([&](const piece& p) {
    for (std::uint64_t i = 0; i < p.size; ++i) found[p.home + i] = p.log + i;
  });
  EXPECT_EQ(found, model.bytes);
}

// What is reserved whole and keeps its bounds needs no memory: overwriting, freeing, and allocating again.
TEST(leaf_mapping, changes_in_place_without_memory) {
  failing_memory::left = 1'000'000;
  {
    epochs e;
    using mapping_type = basic_leaf_mapping<failing_memory>;
    mapping_type m{e, {0, 1 << 20, 4096}};
    mapping_thread<mapping_type> t{m, e};
    std::vector<home_range> objects;
    for (home_t home = 0; home < 8192; home += 160) objects.push_back({home, 150});
    log_t log = 4096;
    const auto assign_all = [&] {
      for (const home_range& o : objects) {
        const piece p{o.home, o.size, log += 160};
        t.inside([&] { m.assign(t.client, {&p, 1}, [](const piece&) {}); });
      }
      m.release(t.client);
    };
    ASSERT_TRUE(m.reserve_whole(t.client, objects, {}));
    assign_all();
    const std::uint64_t bytes = m.bytes_used();
    failing_memory::left = 0;
    ASSERT_TRUE(m.reserve_whole(t.client, objects, {}));
    assign_all();
    // All of each slot.
    std::vector<home_range> slots = objects;
    for (home_range& s : slots) s.size = 160;
    ASSERT_TRUE(m.reserve_whole(t.client, {}, slots));
    std::uint64_t gone = 0;
    t.inside([&] {
      for (const home_range& s : slots) m.erase(t.client, s, [&](const piece& p) { gone += p.size; });
    });
    m.release(t.client);
    EXPECT_EQ(gone, objects.size() * 150);
    m.for_each([](const piece&) { FAIL(); });
    t.inside([&] { m.for_each_piece(t.client, 0, 8192, [](const piece&) { FAIL(); }); });
    ASSERT_TRUE(m.reserve_whole(t.client, objects, {}));
    assign_all();
    std::uint64_t found = 0;
    m.for_each([&](const piece& p) { found += p.size; });
    EXPECT_EQ(found, objects.size() * 150);
    EXPECT_EQ(m.bytes_used(), bytes);
  }
  EXPECT_EQ(failing_memory::blocks, 0U);
}

// Bounds that a commit counts on stay while others cut, erase and make new leaves around them and a cleaner moves what
// lies between them; nobody keeps holes that nobody counts on.
// Mostly the same bounds again, contiguous with their neighbours.
void draw_changes(std::mt19937_64& random, home_range in, std::vector<home_range>& assigned,
                  std::vector<home_range>& erased) {
  for (home_t at = 0; at + 40 <= in.size; at += 32) {
    home_range r{in.home + at, 32};
    if (random() % 8 == 0) r = {r.home + random() % 8, 1 + random() % 24};
    const unsigned what = static_cast<unsigned>(random() % 4);
    if (what == 0) assigned.push_back(r);
    if (what == 1) erased.push_back(r);
  }
}
TEST(leaf_mapping, holds_bounds_for_commits_that_are_under_way) {
  constexpr home_t stretch = 512;
  constexpr unsigned committers = 6;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random{seed};
    epochs e;
    leaf_mapping m{e, {0, 4096, 4096}};
    std::vector<std::unique_ptr<mapping_thread<leaf_mapping>>> clients;
    clients.reserve(committers + 1);
    for (unsigned i = 0; i <= committers; ++i) clients.push_back(std::make_unique<mapping_thread<leaf_mapping>>(m, e));
    struct held {
      std::vector<home_range> assigned, erased;
      bool open = false;
    };
    std::vector<held> commits(committers);
    byte_model model{0, std::vector<log_t>(4096)};
    log_t log = 1;
    for (unsigned round = 0; round < 20'000; ++round) {
      const unsigned who = static_cast<unsigned>(random() % (committers + 1));
      auto& c = clients[who]->client;
      if (who == committers) {
        home_range a{random() % (committers * stretch), 1 + random() % 60};
        const log_t from = model.at(a.home);
        if (from == 0) continue;
        ASSERT_TRUE(m.reserve(c, {&a, 1}));
        clients[who]->inside([&] { (void)m.compare_and_move(c, a.home, a.size, from, log); });
        m.release(c);
        for (std::uint64_t i = 0; i < a.size; ++i) {
          if (model.at(a.home + i) == from + i) model.at(a.home + i) = log + i;
        }
        log += a.size + random() % 2;
        continue;
      }
      held& mine = commits[who];
      if (!mine.open) {
        mine = {};
        draw_changes(random, {who * stretch, stretch}, mine.assigned, mine.erased);
        ASSERT_TRUE(m.reserve_whole(c, mine.assigned, mine.erased));
        mine.open = true;
        continue;
      }
      mine.open = false;
      if (random() % 4 != 0) {
        clients[who]->inside([&] {
          std::vector<piece> pieces;
          for (const home_range& r : mine.assigned) {
            pieces.push_back({r.home, r.size, log});
            for (std::uint64_t i = 0; i < r.size; ++i) model.at(r.home + i) = log + i;
            log += r.size + random() % 2;
          }
          m.assign(c, pieces, [](const piece&) {});
          for (const home_range& r : mine.erased) {
            m.erase(c, r, [](const piece&) {});
            for (std::uint64_t i = 0; i < r.size; ++i) model.at(r.home + i) = 0;
          }
        });
      }
      m.release(c);
    }
    std::vector<log_t> found(4096);
    m.for_each([&](const piece& p) {
      for (std::uint64_t i = 0; i < p.size; ++i) found[p.home + i] = p.log + i;
    });
    ASSERT_EQ(found, model.bytes) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nvm::logheap::testing
