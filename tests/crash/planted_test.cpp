// Bugs planted in the code are found, and the same traces without them are clean: the explorer can see such bugs.
#include <gtest/gtest.h>

#include <cstring>

#include "scenarios.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::model;
using explore::report;
using explore::subject;

// The code under test has `bug` planted while this lives.
struct with_planted {
  explicit with_planted(plant bug) { planted_bug = bug; }
  with_planted(const with_planted&) = delete;
  with_planted& operator=(const with_planted&) = delete;
  ~with_planted() { planted_bug = plant::none; }
};

bool finds(plant bug, const subject& s, model m) {
  const with_planted p{bug};
  explore::options o = options_for(m);
  o.print_violations = false;
  return explore(s, o).finds_violation();
}

// Found when planted, clean when not.
void expect_found(plant bug, const subject& s, model m) {
  EXPECT_TRUE(finds(bug, s, m)) << "the planted bug passes under " << name_of(m);
  const report r = explore(s, options_for(m));
  EXPECT_TRUE(r.clean()) << r.text();
}

void expect_found(plant bug, const char* scenario, model m) {
  expect_found(bug, subject_of(named(scenario), medium_of(m)), m);
}

TEST(planted, intents_replayed_over_a_reused_slot_are_found) {
  expect_found(plant::no_settling, "a slot is logged, freed and reused", model::x86);
}
TEST(planted, a_slot_reused_before_its_free_is_committed_is_found) {
  // On ssd what a transaction stores stays in the process until it commits.
  for (const model m : {model::x86, model::torn8}) {
    expect_found(plant::reuse_before_commit, "the last slot is used at once", m);
  }
}
TEST(planted, an_old_word_put_back_by_an_abort_is_found) {
  expect_found(plant::word_put_back, "two intents in one word, one aborts", model::x86);
}
TEST(planted, fresh_memory_behind_the_record_that_publishes_it_is_found) {
  for (const model m : {model::x86, model::torn8, model::ssd}) {
    expect_found(plant::fresh_after_record, "fresh memory is published", m);
  }
}
// The redo engine, on the same stories.
void expect_found_in_redo(plant bug, const char* scenario, model m) {
  expect_found(bug, subject_of(named(scenario), kind_of_medium::redo), m);
}
TEST(planted, fresh_memory_behind_the_redo_record_that_publishes_it_is_found) {
  expect_found_in_redo(plant::fresh_after_record, "fresh memory is published", model::x86);
}
TEST(planted, a_record_replayed_into_fresh_memory_is_found) {
  expect_found_in_redo(plant::replay_into_fresh, "the last room is logged, freed and reused", model::x86);
  expect_found_in_redo(plant::replay_into_fresh, "the last pages are logged, freed and reused", model::x86);
}
TEST(planted, lanes_replayed_one_after_the_other_are_found) {
  expect_found_in_redo(plant::replay_by_lane, "lanes overwrite each other", model::x86);
}
TEST(planted, pages_used_again_while_records_lead_into_them_are_found) {
  expect_found_in_redo(plant::no_settling, "the last pages are logged, freed and reused", model::x86);
}
// The mnemosyne engines.
TEST(planted, fresh_memory_behind_the_commit_word_that_publishes_it_is_found) {
  for (const auto kind : {kind_of_medium::mnemosyne, kind_of_medium::mnemosyne_plain}) {
    expect_found(plant::fresh_after_record, subject_of(named("fresh memory is published"), kind), model::x86);
  }
}
TEST(planted, slots_reused_before_their_free_is_committed_are_found_with_word_logs) {
  for (const auto kind : {kind_of_medium::mnemosyne, kind_of_medium::mnemosyne_undo}) {
    expect_found(plant::reuse_before_commit, subject_of(named("the last slot is used at once"), kind), model::x86);
  }
}

// Barrier transactions: a store that the engine does not hear of, of each way to commit.
TEST(planted, a_store_that_is_kept_from_the_engine_is_found) {
  const scenario& story = named("two are open at once");  // nobody reads in it, and stumbles over what is lost
  for (const auto kind : {kind_of_medium::stm_direct, kind_of_medium::stm_direct_back, kind_of_medium::stm_redo}) {
    expect_found(plant::store_not_announced, subject_of(story, kind), model::x86);
  }
  expect_found(plant::store_not_announced, subject_of(story, kind_of_medium::stm_image), model::ssd);
}

TEST(planted, a_restored_range_that_is_not_flushed_is_found) {
  expect_found(plant::restored_not_flushed, "a savepoint aborts", model::x86);
}
TEST(planted, a_ring_used_again_before_its_header_moved_is_found) {
  expect_found(plant::ring_before_header, "the log wraps", model::ssd);
}
TEST(planted, pages_used_before_the_superblock_has_them_are_found) {
  for (const model m : {model::x86, model::torn8, model::ssd}) {
    expect_found(plant::pages_before_size, "the pool grows", m);
  }
}
TEST(planted, a_word_captured_before_its_turn_is_found) {
  expect_found(plant::captured_early, "two threads capture one line", model::ssd);
}

// ---- a torn undo record that the next transaction of its generation completes --------------------------------------

// A pool with one object whose lane 0 died while its first undo record was on its way: all of it but one word came.
std::vector<std::byte> image_with_torn_record() {
  std::vector<std::byte> image = image_after([](player& p) {
    auto t = p.begin(1);
    const std::uint64_t x = t->alloc(200, 0x11);
    t->commit();
    p.close();
    p.reopen();
    ground& heap = p.heap();
    const painted range{x, 24, 0x11};  // what is there already
    if (!heap.acquire(0) || !heap.begin(0) || !heap.paint(0, &range, 1)) std::abort();
  });
  const auto sb = pick_superblock(image.data(), image.size());
  std::byte* record = image.data() + sb->log_offset + layout::lane_body_at;
  std::memset(record + offsetof(layout::record_header, generation), 0, 8);
  return image;
}
subject torn_record_completed() {
  return subject_from(
      kind_of_medium::direct, "a torn undo record is completed",
      [](player& p) {
        const std::uint64_t x = p.committed().objects.begin()->first;
        auto t = p.begin(1);
        t->write(x, 0, 24, 0x55);
        t->commit();
        auto u = p.begin(0);
        u->write(x, 0, 24, 0x66);
        u->commit();
      },
      image_with_torn_record());
}

TEST(planted, a_torn_record_completed_by_the_next_of_its_generation_is_found) {
  {
    const with_planted bug{plant::generation_used_again};
    const subject s = torn_record_completed();
    explore::options o = options_for(model::torn8);
    o.print_violations = false;
    EXPECT_TRUE(explore(s, o).finds_violation());
  }
  const report r = explore(torn_record_completed(), options_for(model::torn8));
  EXPECT_TRUE(r.clean()) << r.text();
}

}  // namespace
}  // namespace nvm::tests
