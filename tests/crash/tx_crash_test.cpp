// Transactions on direct media survive a crash at any point, and each step of the protocol is needed.
#include <gtest/gtest.h>

#include "tx_subject.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::mutation_score;
using explore::options;
using explore::report;
using explore::subject;
using explore::without;

options with_model(model m) {
  options o;
  o.persistency = m;
  o.nesting = 2;
  o.nested_every = 16;
  return o;
}

// The code under test has `bug` planted while this lives.
struct with_planted {
  explicit with_planted(plant bug) { planted_bug = bug; }
  ~with_planted() { planted_bug = plant::none; }
};

// ---- the scenarios that must always be explored ---------------------------------------------------------------------

// Logged, freed, reused, crashed: lane 0 writes X and frees it, lane 1 gets its room, then dies somewhere.
void a_slot_is_logged_freed_and_reused(player& p) {
  std::vector<std::uint64_t> kept;
  for (int round = 0; round < 6; ++round) {
    const unsigned mine = static_cast<unsigned>(round % 2);
    auto a = p.begin(mine);
    const std::uint64_t x = a->alloc(200, 0x11);
    const std::uint64_t y = a->alloc(200, 0x22);
    a->commit();
    auto b = p.begin(1 - mine);
    b->write(x, 8, 100, 0x33);
    b->free(x);
    b->commit();
    auto c = p.begin(mine);
    kept.push_back(c->alloc(200, 0x44));
    c->commit();
    auto d = p.begin(1 - mine);
    d->free(y);
    d->commit();
    auto e = p.begin(mine);
    e->free(kept.back());
    e->commit();
    auto f = p.begin(1 - mine);
    kept.back() = f->alloc(200, 0x55);
    f->commit();
  }
}

// Room is scarce: frees and allocations of both lanes meet in the same few words.
void rooms_change_hands(player& p) {
  std::vector<std::uint64_t> live;
  std::mt19937_64 random{7};
  for (int step = 0; step < 40; ++step) {
    auto t = p.begin(static_cast<unsigned>(random() % 2));
    if (live.size() > 3 || (!live.empty() && random() % 2 == 0)) {
      const std::size_t i = random() % live.size();
      t->free(live[i]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      live.push_back(t->alloc(240, static_cast<std::uint8_t>(step)));
    }
    t->commit();
  }
}

// Two transactions with intents in one bitmap word; one aborts.
void two_intents_in_one_word_one_aborts(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t first = setup->alloc(40, 1);
  const std::uint64_t second = setup->alloc(40, 2);
  setup->commit();
  for (int round = 0; round < 3; ++round) {
    auto a = p.begin(0);
    auto b = p.begin(1);
    const std::uint64_t x = a->alloc(40, 3);
    if (round == 0) b->free(first);
    b->alloc(40, 4);
    if (round == 1) b->free(second);
    b->commit();
    a->write(x, 0, 8, 5);
    a->abort();
    auto c = p.begin(0);
    c->alloc(40, 6);
    c->commit();
  }
}

// An object is filled and published by the root in one transaction.
void fresh_memory_is_published(player& p) {
  for (const std::uint64_t bytes : {40, 300, 3000, 9000}) {
    auto t = p.begin(0);
    const std::uint64_t old = p.committed().root;
    const std::uint64_t x = t->alloc(bytes, static_cast<std::uint8_t>(bytes));
    t->set_root(x);
    if (old != 0) t->free(old);
    t->commit();
  }
}

// A range logged inside a savepoint that aborts, then written again or not.
void a_savepoint_aborts(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->commit();
  for (int round = 0; round < 2; ++round) {
    auto t = p.begin(0);
    t->write(x, 0, 8, 2);
    t->begin();
    t->write(x, 0, 8, 3);    // logged by the outer level: a volatile copy
    t->write(x, 64, 70, 4);  // new here: durable
    t->alloc(40, 9);
    t->abort_level();
    if (round == 1) t->write(x, 64, 8, 5);
    t->begin();
    t->write(x, 140, 8, 6);
    t->commit_level();
    t->commit();
  }
  auto u = p.begin(0);
  u->begin();
  u->write(x, 0, 8, 7);
  u->commit_level();
  u->abort();
}

// Undo records beyond the lane's body, and more intents than a commit record takes.
void the_log_overflows(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(3000, 1);
  setup->commit();
  auto t = p.begin(0);
  t->write(x, 0, 700, 2);
  t->write(x, 700, 2000, 3);
  t->commit();
  auto u = p.begin(0);
  u->write(x, 100, 1500, 4);
  u->abort();
  auto v = p.begin(0);
  std::vector<std::uint64_t> many;
  for (int i = 0; i < 12; ++i) many.push_back(v->alloc(24, static_cast<std::uint8_t>(i)));
  v->commit();
  auto w = p.begin(0);
  for (const std::uint64_t m : many) w->free(m);
  w->write(x, 0, 8, 5);
  w->commit();
  auto y = p.begin(0);
  y->write(x, 0, 8, 6);
  y->commit();
}

// The pool grows in the middle of a transaction.
void the_pool_grows(player& p) {
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 5; ++i) {
    auto t = p.begin(static_cast<unsigned>(i % 2));
    all.push_back(t->alloc(6000, static_cast<std::uint8_t>(i + 1)));
    all.push_back(t->alloc(40, static_cast<std::uint8_t>(i + 1)));
    t->commit();
  }
  if (p.grown == 0) std::abort();
}
const crash_shape growing{10, 12, 64, 2, 1024};

// Undo records of two transactions open at once, on neighbouring bytes of one line.
void two_transactions_share_a_line(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(40, 1);
  setup->commit();
  auto a = p.begin(0);
  auto b = p.begin(1);
  a->write(x, 0, 8, 2);
  b->write(x, 8, 8, 3);
  a->write(x, 16, 3, 4);
  b->write(x, 19, 5, 5);
  b->commit();
  a->abort();
  auto c = p.begin(1);
  c->write(x, 0, 24, 6);
  c->commit();
}

struct scenario {
  const char* name;
  void (*steps)(player&);
  crash_shape shape = {};
};
const scenario scenarios[] = {
    {"a slot is logged, freed and reused", a_slot_is_logged_freed_and_reused},
    {"rooms change hands", rooms_change_hands},
    {"two intents in one word, one aborts", two_intents_in_one_word_one_aborts},
    {"fresh memory is published", fresh_memory_is_published},
    {"a savepoint aborts", a_savepoint_aborts},
    {"the log overflows", the_log_overflows},
    {"the pool grows", the_pool_grows, growing},
    {"two transactions share a line", two_transactions_share_a_line},
};
subject subject_of(const scenario& s) { return tx_subject(s.name, s.steps, s.shape); }

class tx_crash : public testing::TestWithParam<scenario> {};

TEST_P(tx_crash, is_all_or_nothing_under_x86) {
  const report r = explore(subject_of(GetParam()), with_model(model::x86));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
TEST_P(tx_crash, is_all_or_nothing_when_lines_tear) {
  const report r = explore(subject_of(GetParam()), with_model(model::torn8));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
TEST_P(tx_crash, is_all_or_nothing_for_a_killed_process) {
  const report r = explore(subject_of(GetParam()), with_model(model::eadr));
  EXPECT_TRUE(r.clean()) << r.text();
}
INSTANTIATE_TEST_SUITE_P(scenarios, tx_crash, testing::ValuesIn(scenarios), [](const auto& i) {
  std::string n = i.param.name;
  for (char& c : n) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return n;
});

// ---- each fence is needed
// ---------------------------------------------------------------------------------------------

bool dies_without(const char* label, std::initializer_list<scenario> where) {
  for (const scenario& s : where) {
    for (const model m : {model::x86, model::torn8}) {
      options o = with_model(m);
      o.print_violations = false;
      if (explore(subject_of(s), o, without(edge{label})).finds_violation()) return true;
    }
  }
  return false;
}

TEST(tx_crash_edges, undo_E1_old_bytes_before_their_overwrite) {
  EXPECT_TRUE(dies_without("undo/E1", {scenarios[5], scenarios[4]}));
}
TEST(tx_crash_edges, undo_E2_new_bytes_before_the_log_lets_go) { EXPECT_TRUE(dies_without("undo/E2", {scenarios[3]})); }
TEST(tx_crash_edges, undo_E3_commit_point_before_success) {
  EXPECT_TRUE(dies_without("undo/E3", {scenarios[3], scenarios[0]}));
}
TEST(tx_crash_edges, undo_E4_old_bytes_back_before_the_log_lets_go) {
  EXPECT_TRUE(dies_without("undo/E4", {scenarios[5]}));
}
TEST(tx_crash_edges, undo_E5_abort_recorded_before_others_may_write) {
  EXPECT_TRUE(dies_without("undo/E5", {scenarios[7], scenarios[5]}));
}

// ---- planted bugs are found
// -------------------------------------------------------------------------------------------

bool found(plant bug, const scenario& s) {
  const with_planted p{bug};
  options o = with_model(model::x86);
  o.print_violations = false;
  return explore(subject_of(s), o).finds_violation();
}

TEST(tx_crash_planted, a_lane_that_is_not_settled_is_found) {
  EXPECT_TRUE(found(plant::no_settling, scenarios[0]) || found(plant::no_settling, scenarios[1]));
}
TEST(tx_crash_planted, an_old_word_put_back_by_an_abort_is_found) {
  EXPECT_TRUE(found(plant::word_put_back, scenarios[2]));
}
TEST(tx_crash_planted, a_restored_range_that_is_not_flushed_is_found) {
  EXPECT_TRUE(found(plant::restored_not_flushed, scenarios[4]));
}

}  // namespace
}  // namespace nvm::tests
