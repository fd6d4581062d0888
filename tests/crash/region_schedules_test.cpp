// Regions, several threads at once: every schedule with few preemptions between their atomic accesses, and the crashes
// of each.  The state after a crash must come from some order of the operations that fits their results (durable
// linearizability), where a group is one operation; nothing may have leaked, and the regions can be worked on.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "../random_seed.hpp"
#include "base/plant.hpp"
#include "explore/concurrent.hpp"
#include "explore/linearize.hpp"
#include "nvm/record.h"
#include "on_fibers.hpp"
#include "region_player.hpp"
#include "subjects.hpp"

extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t* m);
// The thread that has it is another fiber of the same thread of the system.
int __wrap_pthread_mutex_lock(pthread_mutex_t* m) {
  static std::atomic<unsigned> looked{0};
  for (int got = pthread_mutex_trylock(m);; got = pthread_mutex_trylock(m)) {
    if (got == 0) return 0;
    __nvm_rec_steps = 0;  // it waits
    (void)looked.load(std::memory_order_relaxed);
  }
}
}

namespace nvm::tests {
namespace {

using explore::concurrent;
using explore::fault;
using explore::machine;
using explore::model;
using explore::schedule_options;
using explore::verdict;
using explore::window;
using region::mode;
using what = region_call::what;

constexpr unsigned opening_thread = 100;
constexpr const char* name_of_set = "a";
constexpr std::uint64_t read_max = 6000;

// One operation: a call, a group, a read, or what has no effect.
struct deed {
  enum class kind : std::uint8_t { calls, read, truncate_log, collect };
  kind is = kind::calls;
  std::vector<region_call> calls;
  std::uint64_t rid = 0;
};
deed reads(std::uint64_t rid) { return {deed::kind::read, {}, rid}; }
deed writes(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how = mode::adaptive) {
  return {
      deed::kind::calls, {{what::write, rid, offset, 0, region_pattern(rid * 7 + offset + bytes, bytes), how}}, rid};
}
deed appends(std::uint64_t rid, std::uint64_t bytes) {
  return {deed::kind::calls, {{what::append, rid, 0, 0, region_pattern(rid * 11 + bytes, bytes)}}, rid};
}
deed creates(std::uint64_t rid, std::uint64_t bytes) {
  return {deed::kind::calls, {{what::create, rid, bytes, 0, region_pattern(rid * 13 + bytes, bytes)}}, rid};
}
deed truncates(std::uint64_t rid, std::uint64_t length) {
  return {deed::kind::calls, {{what::truncate, rid, length}}, rid};
}
deed drops(std::uint64_t rid) { return {deed::kind::calls, {{what::drop, rid}}, rid}; }
deed group(const std::vector<deed>& all) {
  deed d;
  for (const deed& one : all) d.calls.insert(d.calls.end(), one.calls.begin(), one.calls.end());
  return d;
}
deed empties_log() { return {deed::kind::truncate_log, {}, 0}; }
deed collects() { return {deed::kind::collect, {}, 0}; }

// Operations of the plan under test, by the code that the explorer keeps.
std::vector<const deed*> deeds;

using board = std::map<std::uint64_t, region_bytes>;

std::uint64_t digest_of(const board& b) {
  std::uint64_t d = set_code(name_of_set);
  for (const auto& [rid, bytes] : b) d += region_code(name_of_set, rid, bytes);
  return d;
}
std::uint64_t said_of_error(errc e) { return 1000 + static_cast<std::uint64_t>(e); }
std::uint64_t said_of_bytes(const region_bytes& b) { return region_code("read", 0, b); }

// What a call answers, and does to the board.
errc act(board& b, const region_call& c) {
  const auto at = b.find(c.rid);
  if (c.kind == what::create) {
    if (at != b.end()) return errc::exists;
    b[c.rid] = c.bytes;
    return errc::ok;
  }
  if (at == b.end()) return errc::not_found;
  region_bytes& now = at->second;
  switch (c.kind) {
    case what::write:
      if (!range_inside(c.offset, c.bytes.size(), now.size())) return errc::invalid;
      std::copy(c.bytes.begin(), c.bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(c.offset));
      break;
    case what::append:
      now.insert(now.end(), c.bytes.begin(), c.bytes.end());
      break;
    case what::truncate:
      now.resize(c.offset);
      break;
    default:
      b.erase(at);
  }
  return errc::ok;
}
std::uint64_t act(board& b, const deed& d) {
  if (d.is == deed::kind::read) {
    const auto at = b.find(d.rid);
    return at == b.end() ? said_of_error(errc::not_found) : said_of_bytes(at->second);
  }
  board next = b;
  for (const region_call& c : d.calls) {
    if (const errc e = act(next, c); e != errc::ok) return said_of_error(e);
  }
  b = std::move(next);
  return 0;
}
struct board_spec {
  board begin;
  [[nodiscard]] const board& initial() const { return begin; }
  bool step(board& b, const explore::operation& o) const {
    const deed& d = *deeds[o.what];
    // A group that takes its regions in another order may be turned away, and has changed nothing then.
    if (o.returned && d.calls.size() > 1 && o.result == said_of_error(errc::busy)) return true;
    const std::uint64_t said = act(b, d);
    return !o.returned || o.result == said;
  }
  [[nodiscard]] std::uint64_t digest(const board& b) const { return digest_of(b); }
};

const region_variant variant{"direct", false, 8192, 100};

// Of a slot, of a larger one, of pages; and an empty one.
const board& opening() {
  static const board all{{1, region_pattern(1, 48)},
                         {2, region_pattern(2, 300)},
                         {3, region_pattern(3, 2600)},
                         {4, {}},
                         {5, region_pattern(5, 1200)}};
  return all;
}
constexpr std::uint64_t pages = 160;  // what is dropped need not come back
const std::vector<std::byte>& opening_image() {
  static const std::vector<std::byte> image = region_image_after(
      variant,
      [](region_player& p) {
        p.make_set(name_of_set);
        for (const auto& [rid, bytes] : opening()) {
          region_call c = p.creation(rid, bytes.size());
          c.bytes = bytes;
          p.change(name_of_set, c);
        }
        p.close();
      },
      pages);
  return image;
}

using plan = std::vector<std::vector<deed>>;

std::uint64_t perform(region_process& p, unsigned me, const deed& d) {
  status s;
  switch (d.is) {
    case deed::kind::read: {
      const auto found = p.read_up_to(me, name_of_set, d.rid, read_max);
      return found ? said_of_bytes(*found) : said_of_error(found.error());
    }
    case deed::kind::truncate_log:
      p.truncate_log();
      break;
    case deed::kind::collect:
      p.collect();
      break;
    case deed::kind::calls:
      s = d.calls.size() == 1 ? p.change(me, name_of_set, d.calls[0]) : p.group(me, name_of_set, d.calls, false);
  }
  return s ? 0 : said_of_error(s.error());
}

concurrent program_of(const char* title, const plan& calls) {
  auto p = std::make_shared<std::unique_ptr<region_process>>();
  deeds.clear();
  concurrent c;
  c.base = region_subject(variant, title, {}, pages);
  c.base.image = opening_image();
  c.base.run = {};
  c.base.before = {};
  c.base.oracle = [](machine& m, const window& w) -> verdict {
    const region_contents found = regions_in(m.base(), m.size());
    if (!found.fault.empty()) return fault(found.fault);
    return explore::linearizer{board_spec{opening()}}.check(w.history, found.digest());
  };
  c.start = [p, threads = calls.size()](machine& m) {
    p->reset();
    m.thread(opening_thread);
    *p = open_regions(m, variant);
    if (*p == nullptr) std::abort();
    for (unsigned t = 0; t < threads; ++t) {
      m.thread(t);
      // The thread joins, and has a ring of the log.
      if ((*p)->read_up_to(t, name_of_set, 4, 1).has_value() == false) std::abort();
    }
    m.thread(opening_thread);
    m.explore_from_here();
  };
  for (unsigned me = 0; me < calls.size(); ++me) {
    const std::size_t first = deeds.size();
    for (const deed& d : calls[me]) deeds.push_back(&d);
    c.threads.push_back([p, me, first, count = calls[me].size()](machine& m) {
      for (std::size_t i = first; i < first + count; ++i) {
        m.op_begin(i);
        m.op_end(perform(**p, me, *deeds[i]));
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
  o.after_every = 2048;
  o.exhaustive_max = 64;
  o.single_units_max = 8;
  o.random_rows = 2;
  o.rules = false;
  return o;
}

void expect_clean(const char* title, const plan& calls, const schedule_options& s) {
  const auto r = explore_schedules(program_of(title, calls), s, options_for_schedules());
  EXPECT_TRUE(r.clean()) << r.text();
  EXPECT_TRUE(r.all || s.priority_runs != 0) << r.text();
  std::printf("%s\n", r.text().substr(0, r.text().find('\n')).c_str());
}

struct pair_of_threads {
  const char* name;
  plan calls;
  int turn = -1;  // of the days on which they have a second preemption; none: one only
};
void PrintTo(const pair_of_threads& p, std::ostream* to) { *to << p.name; }

std::vector<pair_of_threads> pairs() {
  return {
      {"read_beside_record", {{writes(1, 0, 48)}, {reads(1)}}, 0},
      {"read_beside_mark", {{writes(2, 8, 90, mode::marked)}, {reads(2)}}, 1},
      {"read_beside_copy", {{writes(5, 0, 700)}, {reads(5)}}},
      {"read_beside_append", {{appends(2, 700)}, {reads(2)}}},
      {"read_beside_truncate", {{truncates(2, 30)}, {reads(2)}}, 2},
      {"two_writers", {{writes(1, 0, 40)}, {writes(1, 8, 40)}}, 0},
      {"two_appends", {{appends(4, 20)}, {appends(4, 30)}}},
      {"copy_beside_record", {{writes(2, 0, 300, mode::copy)}, {writes(2, 100, 60)}}},
      {"group_beside_group", {{group({writes(1, 0, 8), appends(4, 9)})}, {group({writes(1, 4, 8), writes(2, 0, 9)})}}},
      {"groups_in_other_orders",
       {{group({writes(2, 0, 8), writes(1, 0, 9)})}, {group({writes(1, 4, 8), writes(2, 0, 9)})}}},
      {"group_beside_read", {{group({writes(1, 0, 8), writes(2, 0, 8)})}, {reads(1), reads(2)}}},
      {"drop_beside_read", {{drops(5)}, {reads(5)}}, 1},
      {"drop_beside_write", {{drops(1)}, {writes(1, 0, 8)}}, 2},
      {"drop_beside_drop", {{drops(1)}, {drops(1)}}, 0},
      {"drop_and_use_again_beside_read", {{drops(1), collects(), creates(7, 40)}, {reads(1), reads(7)}}},
      {"create_beside_create", {{creates(6, 40)}, {creates(6, 50)}}},
      {"create_beside_read", {{creates(6, 40)}, {reads(6), reads(6)}}},
      {"create_in_group_beside_create", {{group({creates(6, 40), writes(1, 0, 8)})}, {creates(6, 50), reads(6)}}},
      {"drop_beside_create", {{drops(1)}, {creates(1, 40)}}},
      {"record_beside_emptying", {{writes(1, 0, 48)}, {empties_log()}}},
      {"append_beside_emptying", {{writes(2, 0, 8), truncates(2, 4), appends(2, 700)}, {empties_log()}}},
      {"copy_beside_giving_back", {{writes(5, 0, 700), writes(5, 0, 1200)}, {collects()}}},
  };
}

class region_schedules_of_two : public testing::TestWithParam<pair_of_threads> {};
INSTANTIATE_TEST_SUITE_P(of, region_schedules_of_two, testing::ValuesIn(pairs()),
                         [](const auto& i) { return std::string{i.param.name}; });

constexpr std::uint64_t days_of_two_preemptions = 3;

TEST_P(region_schedules_of_two, leave_what_some_order_explains) {
  schedule_options s;
  const int turn = GetParam().turn;
  const bool has_turn = turn >= 0 && is_turn_of_today(static_cast<unsigned>(turn), days_of_two_preemptions);
  s.preemptions = has_turn ? 2 : 1;
  expect_clean(GetParam().name, GetParam().calls, s);
}
TEST_P(region_schedules_of_two, by_chance_leave_what_some_order_explains) {
  schedule_options s;
  s.priority_runs = runs_of_today(60, seed_of(GetParam().name));
  s.priority_depth = 4;
  expect_clean(GetParam().name, GetParam().calls, s);
}

TEST(region_schedules_of_three, by_chance_leave_what_some_order_explains) {
  schedule_options s;
  s.priority_runs = runs_of_today(150, 0);
  s.priority_depth = 4;
  expect_clean("three threads",
               {{writes(1, 0, 48), creates(6, 40), group({appends(4, 8), drops(2)}), reads(5)},
                {appends(4, 600), drops(6), writes(5, 0, 700), creates(2, 20)},
                {reads(1), empties_log(), group({writes(5, 0, 8), appends(4, 9)}), reads(4), collects()}},
               s);
}

// ---- planted bugs ---------------------------------------------------------------------------------------------------

bool finds(plant bug, const plan& calls, const explore::mutation& without = {}) {
  schedule_options s;
  s.preemptions = 1;
  explore::options o = options_for_schedules();
  o.print_violations = false;
  planted_bug = bug;
  const bool found = explore_schedules(program_of("planted", calls), s, o, without).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST(region_schedules_planted, reads_that_a_writer_passes_are_found) {
  EXPECT_TRUE(finds(plant::reads_not_validated, {{writes(2, 0, 300)}, {reads(2)}}));
}
// A reader tells what it has met, and a crash takes it back.
TEST(region_schedules_planted, record_that_is_shown_before_it_is_durable_is_found) {
  EXPECT_TRUE(finds(plant::none, {{writes(1, 0, 48)}, {reads(1)}}, explore::without(edge{"redo/E2"})));
}

}  // namespace
}  // namespace nvm::tests
