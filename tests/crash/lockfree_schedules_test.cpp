// Lock-free structures, several threads at once: every schedule with few preemptions between their atomic accesses, and
// the crashes of each.  The state after a crash must come from some order of the operations that fits their results
// (durable linearizability); nothing may have leaked, and the structures can be worked on.
//
// With the link cache each key by itself has such an order, of which the last operation that returned may be missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "../random_seed.hpp"
#include "base/plant.hpp"
#include "explore/concurrent.hpp"
#include "explore/linearize.hpp"
#include "lockfree_player.hpp"
#include "on_fibers.hpp"
#include "subjects.hpp"

namespace nvm::tests {
namespace {

using explore::concurrent;
using explore::fault;
using explore::machine;
using explore::model;
using explore::op_event;
using explore::pass;
using explore::schedule_options;
using explore::verdict;
using explore::window;
using lockfree::write_rule;

constexpr unsigned opening_thread = 100;

enum class deed : std::uint8_t { put, insert, replace, remove, get };
struct call {
  deed what;
  std::uint8_t key;
  std::uint8_t value = 0;
  [[nodiscard]] std::uint64_t code() const {
    return static_cast<std::uint64_t>(what) << 16 | std::uint64_t{key} << 8 | value;
  }
  static call of(std::uint64_t code) {
    return {static_cast<deed>(code >> 16), static_cast<std::uint8_t>(code >> 8), static_cast<std::uint8_t>(code)};
  }
};

// Keys and values; what is not there has the value 0.
using board = std::map<std::uint8_t, std::uint8_t>;
const board opening{{10, 1}, {20, 2}, {30, 3}, {40, 4}};

// What a call says, and does to the board.
std::uint64_t act(board& b, const call& c) {
  const auto at = b.find(c.key);
  const bool is_there = at != b.end();
  switch (c.what) {
    case deed::get:
      return is_there ? at->second : 0;
    case deed::remove:
      if (is_there) b.erase(at);
      return is_there ? 1 : 0;
    case deed::put:
    case deed::insert:
    case deed::replace:
      if (c.what == (is_there ? deed::insert : deed::replace)) return 0;
      b[c.key] = c.value;
      return is_there ? 2 : 1;
  }
  std::abort();
}
std::uint64_t digest_of(const board& b) {
  std::uint64_t d = 7;
  for (const auto& [key, value] : b) d = mix_seed(d, std::uint64_t{key} << 8 | value);
  return d;
}
struct board_spec {
  board begin;
  [[nodiscard]] const board& initial() const { return begin; }
  bool step(board& b, const explore::operation& o) const {
    const std::uint64_t said = act(b, call::of(o.what));
    return !o.returned || o.result == said;
  }
  [[nodiscard]] std::uint64_t digest(const board& b) const { return digest_of(b); }
};

// Events of operations on the key, numbered anew.
std::vector<op_event> about_key(std::span<const op_event> history, std::uint8_t key) {
  std::map<std::uint64_t, std::uint64_t> numbers;
  std::vector<op_event> some;
  for (op_event e : history) {
    if (!e.end && call::of(e.value).key == key) numbers.emplace(e.op, numbers.size());
    const auto at = numbers.find(e.op);
    if (at == numbers.end()) continue;
    e.op = at->second;
    some.push_back(e);
  }
  return some;
}

verdict judge(const window& w, const board& found, bool link_cache) {
  if (!link_cache) return explore::linearizer{board_spec{opening}}.check(w.history, digest_of(found));
  std::map<std::uint8_t, bool> keys;
  for (const auto& [key, value] : opening) keys[key] = true;
  for (const auto& [key, value] : found) keys[key] = true;
  for (const op_event& e : w.history) {
    if (!e.end) keys[call::of(e.value).key] = true;
  }
  for (const auto& [key, any] : keys) {
    board before, now;
    if (opening.contains(key)) before[key] = opening.at(key);
    if (found.contains(key)) now[key] = found.at(key);
    explore::linearizer search{board_spec{before}, true};
    if (verdict v = search.check(about_key(w.history, key), digest_of(now))) return v;
  }
  return pass();
}

// What the structure holds; values are codes in what the reader says.
verdict read_board(const lockfree_contents& found, board& b) {
  static const std::map<std::uint64_t, std::uint8_t> values = [] {
    std::map<std::uint64_t, std::uint8_t> all;
    for (unsigned v = 1; v < 256; ++v) {
      const value_bytes bytes = word_value(v);
      all[value_code(bytes.data(), bytes.size())] = static_cast<std::uint8_t>(v);
    }
    return all;
  }();
  if (!found.fault.empty()) return fault(found.fault);
  for (const auto& s : found.structures) {
    for (const lockfree_item& i : s.items) {
      const auto at = values.find(i.value);
      if (at == values.end()) return fault("a torn value");
      b[static_cast<std::uint8_t>(i.key)] = at->second;
    }
  }
  return pass();
}

struct ground {
  const char* name;
  shape_of_structure shape;
  bool link_cache = false;
  bool volatile_links = false;
};
lockfree_variant variant_of(const ground& g) {
  lockfree_variant v;
  v.link_cache = g.link_cache;
  v.volatile_links = g.volatile_links;
  return v;
}

// Thread t's next node in a skip list has two levels, or three, after so many.
constexpr std::array<unsigned, 3> nodes_before{3, 4, 2};

using plan = std::vector<std::vector<call>>;

concurrent program_of(const ground& g, const plan& calls) {
  const lockfree_variant v = variant_of(g);
  static std::map<std::string, std::vector<std::byte>> images;
  std::vector<std::byte>& image = images[g.name];
  if (image.empty()) {
    image = lockfree_image_after(v, [&](lockfree_player& p) {
      p.create("it", g.shape, 1);
      p.on(1);
      for (const std::uint64_t key : {30, 20, 10, 40}) p.insert("it", key, opening.at(static_cast<std::uint8_t>(key)));
      p.close();
    });
  }
  auto p = std::make_shared<std::unique_ptr<lockfree_process>>();
  concurrent c;
  c.base = lockfree_subject_from(v, std::string{g.name} + ", several threads", {}, image);
  c.base.run = {};
  c.base.before = {};
  c.base.oracle = [v](machine& m, const window& w) -> verdict {
    board found;
    if (verdict wrong = read_board(lockfree_in(m.base(), m.size(), true), found)) return wrong;
    return judge(w, found, v.link_cache);
  };
  c.start = [p, v, threads = calls.size()](machine& m) {
    p->reset();
    m.thread(opening_thread);
    *p = open_lockfree(m, v);
    if (*p == nullptr) std::abort();
    for (unsigned t = 0; t < threads; ++t) {
      m.thread(t);
      for (unsigned n = 0; n < nodes_before[t]; ++n) {
        const std::uint64_t key = 200 + n;
        const bool done = (*p)->write(t, "it", key, word_value(9), write_rule::insert_only).has_value() &&
                          (*p)->remove(t, "it", key).has_value();
        if (!done) std::abort();
      }
      (*p)->settle();
    }
    m.thread(opening_thread);
    m.explore_from_here();
  };
  for (unsigned me = 0; me < calls.size(); ++me) {
    c.threads.push_back([p, me, mine = calls[me]](machine& m) {
      for (const call& a : mine) {
        m.op_begin(a.code());
        std::uint64_t said = 0;
        if (a.what == deed::get) {
          const auto found = (*p)->look_up(me, "it", a.key);
          if (found) std::memcpy(&said, found->data(), 8);
        } else if (a.what == deed::remove) {
          const auto r = (*p)->remove(me, "it", a.key);
          if (!r) std::abort();
          said = *r ? 1 : 0;
        } else {
          const write_rule rule = a.what == deed::put      ? write_rule::either
                                  : a.what == deed::insert ? write_rule::insert_only
                                                           : write_rule::replace_only;
          const auto w = (*p)->write(me, "it", a.key, word_value(a.value), rule);
          if (!w) std::abort();
          said = *w == lockfree::written::inserted ? 1 : *w == lockfree::written::replaced ? 2 : 0;
        }
        m.op_end(said);
      }
    });
  }
  return c;
}

explore::options options_for_schedules() {
  explore::options o = options_for(model::x86);
  o.promise_at_op_end = true;
  o.full_points_max = 1;
  o.nesting = 1;
  o.nested_every = 4096;
  o.idempotence_every = 0;
  o.after_every = 1024;
  o.exhaustive_max = 128;
  o.single_units_max = 8;
  o.random_rows = 2;
  o.rules = false;
  return o;
}

class lockfree_schedules : public testing::TestWithParam<ground> {};
INSTANTIATE_TEST_SUITE_P(of, lockfree_schedules,
                         testing::Values(ground{"list", shape_of_structure::words_list},
                                         ground{"list_link_cache", shape_of_structure::words_list, true},
                                         ground{"list_volatile_links", shape_of_structure::words_list, false, true},
                                         ground{"hash", shape_of_structure::words_hash},
                                         ground{"hash_link_cache", shape_of_structure::words_hash, true},
                                         ground{"hash_volatile_links", shape_of_structure::words_hash, false, true},
                                         ground{"skip_list", shape_of_structure::words_skip},
                                         ground{"skip_list_link_cache", shape_of_structure::words_skip, true},
                                         ground{"skip_list_volatile_links", shape_of_structure::words_skip, false,
                                                true},
                                         ground{"tree", shape_of_structure::words_tree},
                                         ground{"tree_link_cache", shape_of_structure::words_tree, true}),
                         [](const auto& i) { return i.param.name; });

using enum deed;

// Of plans with a second preemption one in three has its turn each day; the others have one preemption.
constexpr std::uint64_t days_of_two_preemptions = 3;

void expect_clean(const ground& g, const std::vector<plan>& plans, schedule_options s) {
  const unsigned preemptions = s.preemptions;
  std::uint64_t number = seed_of(g.name);
  for (const plan& calls : plans) {
    s.preemptions = preemptions < 2 || is_turn_of_today(number++, days_of_two_preemptions) ? preemptions : 1;
    const auto r = explore_schedules(program_of(g, calls), s, options_for_schedules());
    EXPECT_TRUE(r.clean()) << r.text();
    EXPECT_TRUE(r.all || s.priority_runs != 0) << r.text();
    std::printf("%s\n", r.text().substr(0, r.text().find('\n')).c_str());
  }
}

// Neighbours, the same key, and a reader: what one has under way the other one meets.
TEST_P(lockfree_schedules, of_two_with_two_preemptions_leave_what_some_order_explains) {
  expect_clean(GetParam(),
               {{{{insert, 15, 50}}, {{remove, 20}}},
                {{{put, 20, 60}}, {{remove, 20}}},
                {{{remove, 10}}, {{remove, 20}}},
                {{{insert, 15, 50}}, {{insert, 16, 51}}},
                {{{put, 20, 60}}, {{put, 20, 61}}},
                {{{insert, 15, 50}}, {{get, 15}}},
                {{{remove, 20}}, {{get, 20}}}},
               {});
}
TEST_P(lockfree_schedules, of_three_with_one_preemption_leave_what_some_order_explains) {
  schedule_options s;
  s.preemptions = 1;
  expect_clean(GetParam(),
               {{{{insert, 15, 50}}, {{remove, 20}, {get, 15}}, {{get, 15}, {insert, 20, 51}}},
                {{{remove, 30}, {put, 30, 60}}, {{remove, 20}, {put, 20, 61}}, {{remove, 10}, {get, 30}}},
                {{{put, 20, 60}, {remove, 20}}, {{put, 20, 61}}, {{get, 20}, {insert, 20, 62}}}},
               s);
}
TEST_P(lockfree_schedules, of_many_calls_by_chance_leave_what_some_order_explains) {
  schedule_options s;
  s.priority_runs = runs_of_today(100, seed_of(GetParam().name));
  s.priority_depth = 4;
  expect_clean(GetParam(),
               {{{{insert, 15, 50}, {remove, 20}, {put, 30, 51}, {remove, 15}, {insert, 20, 52}},
                 {{remove, 10}, {put, 20, 60}, {remove, 30}, {insert, 15, 61}, {remove, 20}},
                 {{get, 20}, {insert, 10, 70}, {get, 15}, {remove, 40}, {put, 15, 71}}}},
               s);
}

// ---- planted bugs ---------------------------------------------------------------------------------------------------

bool finds(plant bug, const ground& g, const plan& calls, const explore::mutation& without = {}) {
  schedule_options s;
  s.preemptions = 1;
  explore::options o = options_for_schedules();
  o.print_violations = false;
  planted_bug = bug;
  const bool found = explore_schedules(program_of(g, calls), s, o, without).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST_P(lockfree_schedules, in_which_a_node_is_not_durable_before_its_link_are_found) {
  if (GetParam().volatile_links) GTEST_SKIP() << "links are not durable";
  EXPECT_TRUE(finds(plant::node_not_flushed, GetParam(), {{{insert, 15, 50}}, {{insert, 16, 51}}}));
}
TEST_P(lockfree_schedules, in_which_a_node_is_not_durable_before_its_mark_goes_are_found) {
  if (!GetParam().volatile_links) GTEST_SKIP() << "nodes do not say whether they are there";
  EXPECT_TRUE(finds(plant::none, GetParam(), {{{insert, 15, 50}}, {{get, 15}}}, explore::without(edge{"records/E1"})));
  EXPECT_TRUE(finds(plant::none, GetParam(), {{{remove, 20}}, {{get, 20}}}, explore::without(edge{"records/E2"})));
}
// A reader reports what it has met, and a crash takes it back.
TEST_P(lockfree_schedules, in_which_a_reader_does_not_wait_for_the_mark_are_found) {
  if (GetParam().link_cache) GTEST_SKIP() << "marks come and go at once";
  EXPECT_TRUE(finds(plant::mark_not_settled, GetParam(), {{{insert, 15, 50}}, {{get, 15}}}));
  EXPECT_TRUE(finds(plant::mark_not_settled, GetParam(), {{{remove, 20}}, {{get, 20}}}));
}
TEST_P(lockfree_schedules, in_which_a_reader_does_not_look_into_the_link_cache_are_found) {
  if (!GetParam().link_cache) GTEST_SKIP() << "there is none";
  // In a skip list its node has one level: others do not go into the link cache.
  EXPECT_TRUE(finds(plant::no_dependence, GetParam(), {{{put, 30, 50}}, {{get, 30}}}));
  EXPECT_TRUE(finds(plant::no_dependence, GetParam(), {{{remove, 30}}, {{get, 30}}}));
}

// A thread that unlinks above a node which another retires waits for that, or a crash finds a level that leads to a
// free node.
TEST(lockfree_schedules_of_levels, in_which_nobody_waits_for_what_another_retires_are_found) {
  const ground g{"skip_list", shape_of_structure::words_skip, false};
  // The node of key 20 has two levels, with different nodes before it, and waits for two generations of two nodes each.
  std::vector<call> many{{remove, 20}};
  for (std::uint8_t value = 50; value < 57; ++value) many.push_back({put, 30, value});
  const plan calls{many, {{remove, 21}}};
  EXPECT_TRUE(finds(plant::none, g, calls, explore::without(edge{"lockfree/E23"})));
  schedule_options s;
  s.preemptions = 1;
  EXPECT_TRUE(explore_schedules(program_of(g, calls), s, options_for_schedules()).clean());
}

}  // namespace
}  // namespace nvm::tests
