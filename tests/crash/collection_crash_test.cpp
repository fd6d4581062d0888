// Collections of stores: a crash at any point of one, also beside transactions, leaves a part of the garbage and loses
// nothing else; planted bugs are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "collection_player.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::report;
using explore::subject;
using state = collection_player::state;

// Objects of a story that a collection was wrong to free.  Filled while stories run, which is when they are recorded.
std::set<std::uint64_t> wrongly_freed;

void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story: %s\n", what);
  std::abort();
}
// What was freed is among these.
void check(const collection_player& c, const std::set<std::uint64_t>& garbage) {
  for (const std::uint64_t payload : c.freed) {
    if (garbage.count(payload) == 0) wrongly_freed.insert(payload);
  }
}
void make(store_player& p) {
  p.begin();
  p.create(1);
  p.commit();
  p.attach(1);
}
// A store with a root and so many objects besides, of several extents.
std::uint64_t fill(store_player& p, unsigned count, std::set<std::uint64_t>& garbage) {
  p.begin();
  const std::uint64_t root = p.put(1, 40, 0x01);
  p.set_root(1, root);
  for (unsigned i = 0; i < count; ++i)
    garbage.insert(p.put(1, i % 3 == 0 ? 300 : 30, static_cast<std::uint8_t>(0x10 + i)));
  p.commit();
  return root;
}

void a_store_is_collected(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  fill(p, 7, garbage);
  collection_player c{p};
  expect(c.begin(1, collection_player::with::nobody), "begin");
  expect(c.go_on() == state::done, "it is done");
  expect(c.freed == garbage, "all garbage is freed");
  c.forget();
  // Its place has another use.
  p.one(1, 30, 0x77, 0);
  p.one(1, 300, 0x78, 1);
  p.trim(1);
  p.detach(1);
}

// Rolls back after the marks have seen what it did.
void a_root_comes_back(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  const std::uint64_t root = fill(p, 4, garbage);
  const std::uint64_t other = *garbage.begin();
  collection_player c{p};
  // Nobody is open, so that this one tells.
  expect(c.begin(1), "begin");
  expect(c.listen() == state::goes_on, "it listens");
  p.begin(0);
  p.set_root(1, other, 0);
  const state now = c.go_on();
  expect(now == state::waits || planted_bug == plant::garbage_still_known, "it waits for who is open");
  p.abort(0);
  (void)c.go_on();
  check(c, garbage);
  // What was the root for a while is kept this time.
  expect(c.freed.count(other) == 0, "what was told is kept");
  expect(bool{p.engine().find(root)} || planted_bug != plant::none, "the root is there");
  c.forget();
  p.one(1, 40, 0x79, 0);
}

// The transaction was open before the collection, and after it links an object that it alone knows.
void an_open_transaction_knows_garbage(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  const std::uint64_t root = fill(p, 4, garbage);
  const std::uint64_t known = *garbage.rbegin();
  p.begin(0);
  collection_player c{p};
  expect(c.begin(1), "begin");
  expect(c.go_on() == state::waits, "it waits for who is open");
  p.set_root(1, known, 0);
  p.commit(0);
  (void)c.go_on();
  // It has ended before the survey, so that the old root goes, too.
  garbage.erase(known);
  garbage.insert(root);
  check(c, garbage);
  expect(c.freed == garbage, "the rest is freed");
  c.forget();
}

// Has told that it rolls back, and not yet done it, when the collection goes on.
void a_rollback_is_told_and_not_yet_made(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  const std::uint64_t root = fill(p, 4, garbage);
  const std::uint64_t other = *garbage.begin();
  collection_player c{p};
  expect(c.begin(1), "begin");
  p.begin(0);
  p.set_root(1, other, 0);
  c.told = [&] { expect(c.go_on() == state::waits, "it waits for who has told"); };
  p.abort(0);
  c.told = nullptr;
  expect(c.go_on() == state::done, "it is done");
  check(c, garbage);
  expect(bool{p.engine().find(root)}, "the root is there");
  c.forget();
  p.one(1, 40, 0x79, 0);
}

// Frees garbage itself, and allocates in its place, between the marks and the frees.
void garbage_is_freed_by_who_knows_it(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  fill(p, 3, garbage);
  const std::uint64_t known = *garbage.begin();
  p.begin(0);
  collection_player c{p};
  expect(c.begin(1), "begin");
  expect(c.go_on() == state::waits, "it waits for who is open");
  p.abort(0);
  expect(c.step() == state::goes_on, "it looks");
  p.begin(0);
  p.put(1, 30, 0x40, 0);
  while (c.step() == state::goes_on) {
  }
  p.free(known, 0);
  p.commit(0);
  garbage.erase(known);
  std::set<std::uint64_t> fresh;
  for (std::uint8_t i = 0; i < 6; ++i)
    fresh.insert(p.one(1, i % 2 == 0 ? 300 : 30, static_cast<std::uint8_t>(0x50 + i), 0));
  (void)c.go_on();
  check(c, garbage);
  c.forget();
}

// A process ends in the middle, and another collects what is left.
void another_process_goes_on(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  fill(p, 6, garbage);
  {
    collection_player c{p};
    expect(c.begin(1, collection_player::with::nobody), "begin");
    while (c.freed.empty()) expect(c.step() == state::goes_on, "it goes on");
    expect(c.freed.size() < garbage.size(), "it is not done");
    check(c, garbage);
    for (const std::uint64_t payload : c.freed) garbage.erase(payload);
    c.forget();
  }
  p.reopen();
  p.attach(1);
  collection_player c{p};
  expect(c.begin(1), "begin");
  expect(c.go_on(2) == state::done, "it is done");
  expect(c.freed == garbage, "the rest is freed");
  c.forget();
  p.one(1, 300, 0x5A, 1);
}

// The collection's marks are older than an attach that has linked garbage again.
void a_store_is_attached_meanwhile(store_player& p) {
  make(p);
  std::set<std::uint64_t> garbage;
  fill(p, 4, garbage);
  const std::uint64_t linked = *garbage.rbegin();
  collection_player c{p};
  expect(c.begin(1, collection_player::with::nobody), "begin");
  expect(c.step() == state::goes_on && c.step() == state::goes_on, "it looks");
  c.stop();
  p.begin(0);
  p.set_root(1, linked, 0);
  p.commit(0);
  garbage.erase(linked);
  (void)c.go_on();
  check(c, garbage);
  c.forget();
}

struct collection_story {
  const char* name;
  void (*steps)(store_player&);
  bool on_ssd = true;
};
const collection_story stories[] = {
    {"a store is collected", a_store_is_collected},
    {"a root comes back", a_root_comes_back},
    {"a rollback is told and not yet made", a_rollback_is_told_and_not_yet_made},
    {"an open transaction knows garbage", an_open_transaction_knows_garbage},
    {"garbage is freed by who knows it", garbage_is_freed_by_who_knows_it},
    {"another process goes on", another_process_goes_on, false},
    {"a store is attached meanwhile", a_store_is_attached_meanwhile},
};

struct story_case {
  collection_story of;
  store_ground on;
  model under;
};
std::vector<story_case> all_cases() {
  std::vector<story_case> all;
  for (const collection_story& s : stories) {
    for (const model m : {model::x86, model::torn8}) all.push_back({s, store_ground::undo, m});
    all.push_back({s, store_ground::redo, model::torn8});
    all.push_back({s, store_ground::mnemosyne, model::torn8});
    all.push_back({s, store_ground::mnemosyne_undo, model::torn8});
    if (s.on_ssd) all.push_back({s, store_ground::ssd, model::ssd});
  }
  return all;
}
std::string name_of_case(const testing::TestParamInfo<story_case>& i) {
  std::string name = i.param.of.name;
  std::ranges::replace(name, ' ', '_');
  return name + "_" + explore::name_of(i.param.under) + "_" + name_of(i.param.on);
}
subject subject_of(const collection_story& s, store_ground on) {
  return store_subject_from(s.name, s.steps, on, new_store_image(on));
}

class collection_crash : public testing::TestWithParam<story_case> {};
TEST_P(collection_crash, leaves_a_part_of_the_garbage) {
  const auto& [of, on, under] = GetParam();
  wrongly_freed.clear();
  const report r = explore_today(subject_of(of, on), store_options(under));
  EXPECT_TRUE(r.clean()) << r.text();
  EXPECT_TRUE(wrongly_freed.empty());
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, collection_crash, testing::ValuesIn(all_cases()), name_of_case);

// A collection has no fence of its own: it relies on those of the transactions that free.
TEST(collection_edges, of_the_transactions_that_free_are_necessary) {
  auto o = store_options(model::torn8);
  o.print_violations = false;
  for (const char* label : {"undo/E2", "undo/E3"}) {
    const report r = explore::explore(subject_of(stories[0], store_ground::undo), o, explore::without(edge{label}));
    EXPECT_TRUE(r.finds_violation()) << label;
  }
}

bool frees_wrongly(plant bug, const collection_story& s, store_ground on) {
  wrongly_freed.clear();
  planted_bug = bug;
  auto o = store_options(model::x86);
  o.print_violations = false;
  (void)explore::explore(subject_of(s, on), o);
  planted_bug = plant::none;
  return !wrongly_freed.empty();
}
TEST(planted_in_collections, garbage_freed_while_an_open_transaction_knows_it_is_found) {
  EXPECT_TRUE(frees_wrongly(plant::garbage_still_known, stories[1], store_ground::undo));
}
TEST(planted_in_collections, a_collection_that_goes_on_after_an_attach_is_found) {
  EXPECT_TRUE(frees_wrongly(plant::collected_after_attach, stories[6], store_ground::undo));
}

}  // namespace
}  // namespace nvm::tests
