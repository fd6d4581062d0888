// Schedules of a change beside one reader, all those with one preemption between atomic accesses and some with more:
// each byte is seen old or new, bytes beside the change are never seen changed, and no reader that comes after the
// change sees old bytes.  No crash: nothing here is durable.
#include <functional>

#include "base/plant.hpp"
#include "explore/machine.hpp"
#include "explore/scheduler.hpp"
#include "mapping_model.hpp"

namespace nvm::logheap::testing {
namespace {

constexpr std::uint64_t window_bytes = 256;

struct story {
  const char* name;
  std::vector<piece> before;  // in changes of their own
  std::vector<piece> assigned;
  home_range erased;
  piece moved;  // from, with `moved_to`
  log_t moved_to = 0;
};

std::vector<log_t> bytes_of(const std::vector<piece>& pieces) {
  std::vector<log_t> b(window_bytes);
  for (const piece& p : pieces) {
    for (std::uint64_t i = 0; i < p.size; ++i) b[p.home + i] = p.log + i;
  }
  return b;
}
std::vector<log_t> bytes_after(const story& s) {
  std::vector<log_t> b = bytes_of(s.before);
  for (const piece& p : s.assigned) {
    for (std::uint64_t i = 0; i < p.size; ++i) b[p.home + i] = p.log + i;
  }
  for (std::uint64_t i = 0; i < s.erased.size; ++i) b[s.erased.home + i] = 0;
  for (std::uint64_t i = 0; i < s.moved.size; ++i) {
    log_t& x = b[s.moved.home + i];
    if (x == s.moved.log + i) x = s.moved_to + i;
  }
  return b;
}

const story stories[] = {
    {"inside_of_a_piece", {{0, 128, 1000}}, {{40, 24, 5000}}, {}, {}},
    {"the_same_range", {{0, 64, 1000}, {64, 64, 3000}}, {{64, 64, 5000}}, {}, {}},
    {"over_several", {{0, 30, 1000}, {30, 30, 2000}, {60, 30, 3000}, {100, 28, 4000}}, {{20, 90, 5000}}, {}, {}},
    {"the_first_part", {{0, 64, 1000}, {64, 64, 3000}}, {{64, 20, 5000}}, {}, {}},
    {"grown_at_both_ends", {{0, 40, 1000}, {40, 20, 2000}, {60, 40, 1060}}, {{40, 20, 1040}}, {}, {}},
    {"a_hole_filled", {{0, 40, 1000}, {80, 40, 2000}}, {{30, 60, 5000}}, {}, {}},
    {"erased_inside", {{0, 128, 1000}}, {}, {40, 24}, {}},
    {"erased_over_several", {{0, 30, 1000}, {30, 30, 2000}, {60, 30, 3000}, {90, 28, 4000}}, {}, {20, 80}, {}},
    {"a_range_of_two_pieces", {{0, 30, 1000}, {30, 30, 2000}, {60, 30, 3000}}, {{30, 60, 5000}}, {}, {}},
    {"erased_a_piece", {{0, 30, 1000}, {30, 30, 2000}, {60, 30, 3000}}, {}, {30, 30}, {}},
    {"moved", {{0, 30, 1000}, {30, 30, 2000}, {60, 30, 3000}}, {}, {}, {30, 30, 2000}, 7000},
    {"moved_inside", {{0, 128, 1000}}, {}, {}, {40, 24, 1040}, 7000},
};

// What the one who looks asks for: a byte, twice (the second time it remembers), or all.
enum class look { each_byte, all };

template <class M, class Make>
struct trial {
  Make make;
  const story& s;
  look how;
  bool looker_first = false;  // so that it is the one who is interrupted
  std::vector<log_t> old = bytes_of(s.before);
  std::vector<log_t> now = bytes_after(s);
  std::vector<home_t> asked{};
  std::string wrong{};

  // Runs all schedules; returns how many, and stops at the first that goes wrong.
  std::uint64_t run() {
    for (home_t x = 0; x < window_bytes; ++x) {
      const bool edge = x == 0 || old[x] != old[x - 1] + 1 || now[x] != now[x - 1] + 1;
      if (edge && x != 0) asked.push_back(x - 1);
      if (edge) asked.push_back(x);
    }
    asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
    std::uint64_t schedules = 0;
    if (how == look::all) {
      schedules += each_schedule(0, window_bytes);
    } else {
      for (const home_t x : asked) schedules += each_schedule(x, 1);
    }
    return schedules;
  }

  std::uint64_t each_schedule(home_t from, std::uint64_t size) {
    explore::bounded_chooser all(1);
    explore::priority_chooser some(from + size, 4, 50);
    return each_schedule(from, size, all) + each_schedule(from, size, some);
  }
  std::uint64_t each_schedule(home_t from, std::uint64_t size, explore::chooser& chooser) {
    explore::machine machine(64);
    explore::scheduler scheduler;
    std::uint64_t schedules = 0;
    do {
      epochs e;
      auto m = make(e);
      mapping_thread<M> changer{*m, e};
      mapping_thread<M> looker{*m, e};
      for (const piece& p : s.before) {
        const home_range a{p.home, p.size};
        if (!m->reserve(changer.client, {&a, 1})) std::abort();
        changer.inside([&] { m->assign(changer.client, {&p, 1}, [](const piece&) {}); });
      }
      look_at(*m, looker, from, size, false);  // and remembers it
      std::vector<home_range> ranges;
      for (const piece& p : s.assigned) ranges.push_back({p.home, p.size});
      ranges.push_back(s.erased);
      ranges.push_back({s.moved.home, s.moved.size});
      if (!m->reserve(changer.client, ranges)) std::abort();
      bool done = false;
      std::vector<std::function<void(explore::machine&)>> bodies{
          [&](explore::machine&) {
            changer.inside([&] {
              m->assign(changer.client, s.assigned, [](const piece&) {});
              m->erase(changer.client, s.erased, [](const piece&) {});
              (void)m->compare_and_move(changer.client, s.moved.home, s.moved.size, s.moved.log, s.moved_to);
            });
            done = true;
          },
          [&](explore::machine&) {
            for (unsigned i = 0; i < 1 + (size == 1 ? 1U : 0U); ++i) look_at(*m, looker, from, size, done);
          }};
      if (looker_first) std::swap(bodies[0], bodies[1]);
      machine.attach();
      scheduler.run(machine, bodies, chooser, nullptr);
      machine.detach();
      look_at(*m, looker, from, size, true);
      ++schedules;
    } while (wrong.empty() && chooser.next());
    return schedules;
  }

  void look_at(M& m, mapping_thread<M>& t, home_t from, std::uint64_t size, bool after) {
    log_t seen[window_bytes] = {};
    t.inside([&] {
      m.for_each_piece(t.client, from, size, [&](const piece& p) {
        for (std::uint64_t i = 0; i < p.size; ++i) seen[p.home + i] = p.log + i;
      });
    });
    for (home_t x = from; x < from + size; ++x) {
      if (seen[x] == now[x] || (!after && seen[x] == old[x])) continue;
      wrong = "byte " + std::to_string(x) + " at " + std::to_string(seen[x]) + (after ? " after" : " during") +
              " the change";
    }
  }
};

template <class M, class Make>
std::string what_goes_wrong(Make make, const story& s, std::uint64_t& schedules) {
  for (const look how : {look::each_byte, look::all}) {
    trial<M, Make> t{make, s, how};
    schedules += t.run();
    if (!t.wrong.empty()) return t.wrong;
  }
  return {};
}

auto skip_lists(mapping_step step, std::size_t cache_entries = node_cache::entries_min) {
  return [=](epochs& e) {
    skip_list_settings s = skip_list_settings::up_to(step);
    s.node_bytes_max = 1 << 18;
    s.cache_entries = cache_entries;
    return std::make_unique<skip_list_mapping>(e, mapping_settings{0, 4096, 4096}, s);
  };
}
auto leaves() {
  return [](epochs& e) { return std::make_unique<leaf_mapping>(e, mapping_settings{0, 4096, 4096}); };
}

// The one who looks goes from node to node, all of them, and is interrupted.
std::string what_goes_wrong_on_the_way(const story& s) {
  const auto make = skip_lists(mapping_step::lock_free_readers, 0);
  trial<skip_list_mapping, decltype(make)> t{make, s, look::all, true};
  (void)t.run();
  return t.wrong;
}

class mapping_schedules : public ::testing::TestWithParam<story> {};
INSTANTIATE_TEST_SUITE_P(of, mapping_schedules, ::testing::ValuesIn(stories),
                         [](const auto& i) { return i.param.name; });

TEST_P(mapping_schedules, of_skip_lists_tell_each_byte_as_it_was_or_is) {
  for (const mapping_step step : {mapping_step::lock_free_readers}) {
    std::uint64_t schedules = 0;
    EXPECT_EQ(what_goes_wrong<skip_list_mapping>(skip_lists(step), GetParam(), schedules), "");
    std::printf("%s, %s: %llu schedules\n", GetParam().name, name_of(step), static_cast<unsigned long long>(schedules));
  }
}
TEST_P(mapping_schedules, of_skip_lists_show_no_gap_to_who_is_on_the_way) {
  EXPECT_EQ(what_goes_wrong_on_the_way(GetParam()), "");
}
TEST_P(mapping_schedules, of_leaves_tell_each_byte_as_it_was_or_is) {
  std::uint64_t schedules = 0;
  EXPECT_EQ(what_goes_wrong<leaf_mapping>(leaves(), GetParam(), schedules), "");
}

std::string with(plant bug, unsigned number) {
  planted_bug = bug;
  std::uint64_t schedules = 0;
  std::string wrong =
      what_goes_wrong<skip_list_mapping>(skip_lists(mapping_step::lock_free_readers), stories[number], schedules);
  planted_bug = plant::none;
  return wrong;
}
TEST(mapping_schedules_with_a_fault, in_which_a_piece_is_cut_first_are_found) {
  EXPECT_NE(with(plant::piece_cut_first, 0), "");
}
TEST(mapping_schedules_with_a_fault, in_which_the_rest_of_a_piece_comes_last_are_found) {
  EXPECT_NE(with(plant::rest_last, 0), "");
  EXPECT_NE(with(plant::rest_last, 2), "");
}
TEST(mapping_schedules_with_a_fault, in_which_nobody_sees_that_a_piece_has_grown_are_found) {
  planted_bug = plant::grown_unseen;
  EXPECT_NE(what_goes_wrong_on_the_way(stories[4]), "");
  EXPECT_NE(what_goes_wrong_on_the_way(stories[8]), "");
  planted_bug = plant::none;
}

// A node that is unlinked, freed and used again while its old place in a cache is looked at.
std::string cache_goes_wrong(bool checks) {
  planted_bug = checks ? plant::none : plant::node_checked_once;
  std::string wrong{};
  explore::machine machine(64);
  explore::scheduler scheduler;
  explore::bounded_chooser chooser(4);
  do {
    node_cache cache{node_cache::entries_min};
    skip_node node{};
    node.home.store(64);
    node.where.store(live_node(1000, 32));
    cache.add(70, 1);
    bool dead = false;
    const std::vector<std::function<void(explore::machine&)>> bodies{
        [&](explore::machine&) {
          node.where.store(dead_node(5), std::memory_order_release);
          dead = true;
          node.home.store(3, std::memory_order_relaxed);  // in a stock
          node.home.store(68, std::memory_order_relaxed);
          node.where.store(live_node(9000, 32), std::memory_order_release);
        },
        [&](explore::machine&) {
          const bool after = dead;
          const node_cache::hit h = cache.find(70, [&](node_number) -> skip_node& { return node; });
          if (h.where == 0) return;
          const log_t log = log_of(h.where) + 70 - h.home;
          if (log != 9002 && (after || log != 1006)) wrong = "byte 70 at " + std::to_string(log);
        }};
    machine.attach();
    scheduler.run(machine, bodies, chooser, nullptr);
    machine.detach();
  } while (wrong.empty() && chooser.next());
  planted_bug = plant::none;
  return wrong;
}
TEST(node_cache, tells_no_log_address_of_another_piece) { EXPECT_EQ(cache_goes_wrong(true), ""); }
TEST(node_cache, that_does_not_look_twice_is_found) { EXPECT_NE(cache_goes_wrong(false), ""); }

}  // namespace
}  // namespace nvm::logheap::testing
