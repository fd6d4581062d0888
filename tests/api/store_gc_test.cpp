// Collections of object stores through the C interface: freed and kept objects, beside transactions and by the thread
// for detached stores, on each engine and medium that has stores.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../direct_place.hpp"
#include "../object/sample_types.hpp"
#include "../random_seed.hpp"
#include "../sanitized.hpp"
#include "../scratch_folder.hpp"
#include "collected_stores.hpp"
#include "nvm/gc.h"
#include "nvm/malloc.h"
#include "nvm/space.h"
#include "nvm/store.h"

namespace nvm::tests {
namespace {

using namespace collection;

INSTANTIATE_TEST_SUITE_P(on, collected_stores, testing::ValuesIn(kinds_of_build(kinds)),
                         [](const auto& i) { return i.param.name; });

TEST_P(collected_stores, lose_what_their_root_does_not_lead_to_and_nothing_else) {
  nvm_store* const s = made("s");
  nvm_store* const other = made("other");
  std::vector<std::uint64_t> kept;
  for (std::uint64_t i = 0; i < 900; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    ASSERT_NE(push(s, i), nullptr) << nvm_errormsg();
    kept.insert(kept.begin(), i);
    if (i % 3 == 0) leak(s, i);
    leak(other, i);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  // A run, of an array; and the first half of the list.
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  ASSERT_NE(nvm_store_calloc(s, link_id, 500, sizeof(link)), nullptr) << nvm_errormsg();
  link* half = static_cast<link*>(nvm_store_get_root(s));
  for (int i = 0; i < 450; ++i) half = half->next;
  set_root(s, half);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  kept.erase(kept.begin(), kept.begin() + 450);

  const nvm_store_gc_options look{.dry_run = 1, .struct_bytes = sizeof(nvm_store_gc_options), .reserved = {}};
  nvm_store_gc_report r;
  ASSERT_EQ(nvm_store_gc(pool_, "s", &look, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.objects, 900U + 300 + 1);
  EXPECT_EQ(r.reachable_objects, 450U);
  EXPECT_EQ(r.garbage_objects, 450U + 300 + 1);
  EXPECT_EQ(r.garbage_bytes, 750 * sizeof(link) + 500 * sizeof(link));
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_EQ(objects_of("s"), 1201U);

  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 751U);
  EXPECT_EQ(r.freed_bytes, r.garbage_bytes);
  EXPECT_EQ(objects_of("s"), 450U);
  EXPECT_EQ(numbers(s), kept);
  EXPECT_EQ(objects_of("other"), 900U) << "a store without a root is left alone";
  EXPECT_EQ(nvm_store_gc(pool_, "other", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.garbage_objects, 0U);
  reopen();
  nvm_store* const again = nvm_store_attach(pool_, "s", 0);
  EXPECT_EQ(numbers(again), kept);
}

TEST_P(collected_stores, keep_what_is_held_until_it_is_dropped) {
  nvm_store* const s = made("s");
  link* const first = push_alone(s, 1);
  push_alone(s, 2);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  auto* alone = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
  ASSERT_NE(alone, nullptr);
  ASSERT_EQ(nvm_tx_commit(pool_), 0);
  ASSERT_EQ(nvm_hold(alone), 0) << nvm_errormsg();
  nvm_store_gc_report r;
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_TRUE(exists(first));
  ASSERT_EQ(nvm_drop(alone), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 1U);
}

// An object that a thread without a transaction has freed waits for those that were open: it is freed once.
TEST_P(collected_stores, leave_what_others_are_about_to_free) {
  nvm_store* const s = made("s");
  link* const first = push_alone(s, 1);
  link* const second = push_alone(s, 2);
  ASSERT_EQ(nvm_store_set_root(s, first), 0) << nvm_errormsg();
  std::atomic<int> step{0};
  std::thread open{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    step = 1;
    while (step != 2) std::this_thread::yield();
    EXPECT_EQ(nvm_tx_abort(pool_), 0);
  }};
  while (step != 1) std::this_thread::yield();
  nvm_malloc_free(second);
  step = 2;
  open.join();
  ASSERT_TRUE(exists(second));
  nvm_store_gc_report r;
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_TRUE(exists(second));
  push_alone(s, 3);
  EXPECT_FALSE(exists(second));
}

// A free without a transaction waits until those are over that are open.  After a detach the object is the collector's:
// when the store is attached again, the place may be another object's.
TEST_P(collected_stores, free_nothing_late_that_was_left_before_they_were_detached) {
  static std::atomic<unsigned> mistakes{0};
  mistakes = 0;
  nvm_set_misuse_handler([](const nvm_misuse*, void*) { ++mistakes; }, nullptr);
  nvm_store* s = made("s");
  push_alone(s, 1);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  auto* const unlinked = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
  ASSERT_NE(unlinked, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  std::atomic<int> step{0};
  std::thread other{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    step = 1;
    while (step != 2) std::this_thread::yield();
    EXPECT_EQ(nvm_tx_abort(pool_), 0) << nvm_errormsg();
  }};
  while (step != 1) std::this_thread::yield();
  nvm_malloc_free(unlinked);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  // Takes what waits, as far as it may.
  const auto commit = [&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0);
    EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  };
  commit();
  EXPECT_EQ(objects_of("s"), 2U);
  s = nvm_store_attach(pool_, "s", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  step = 2;
  other.join();
  commit();
  EXPECT_TRUE(exists(unlinked));
  nvm_store_gc_report r{};
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 1U);
  // Where no transaction is open, the object is freed before the store is detached.
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  auto* const last = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  const std::uint64_t before = objects_of("s");
  nvm_malloc_free(last);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  commit();
  EXPECT_EQ(objects_of("s"), before - 1);
  EXPECT_EQ(mistakes, 0U);
  nvm_set_misuse_handler(nullptr, nullptr);
}

TEST_P(collected_stores, refuse_to_guess_what_undescribed_objects_point_to) {
  nvm_store* const s = made("s");
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  void* const unknown = nvm_store_calloc(s, unknown_id, 1, 64);
  ASSERT_NE(unknown, nullptr);
  set_root(s, static_cast<link*>(unknown));
  leak(s, 1);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  nvm_store_gc_report r;
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH) << nvm_errormsg();
  EXPECT_EQ(objects_of("s"), 2U);
  // Locally likewise, once.
  configure(NVM_STORES_COLLECT_LOCALLY);
  grow(s);
  EXPECT_TRUE(until(s, [&] { return counts().local.refused == 1; }));
  EXPECT_EQ(counts().local.freed_objects, 0U);
}

TEST_P(collected_stores, of_a_service_that_leaks_stay_near_what_lives) {
  nvm_store* const s = made("s");
  configure(NVM_STORES_COLLECT_LOCALLY);
  for (std::uint64_t i = 0; i < 500; ++i) push_alone(s, i);
  const std::vector<std::uint64_t> kept = numbers(s);
  nvm_store_info info;
  ASSERT_EQ(nvm_store_stat(pool_, "s", &info), 0);
  const std::uint64_t live = info.pages;
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    leak(s, i);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    if (i % 100 != 0) continue;
    ASSERT_EQ(nvm_store_stat(pool_, "s", &info), 0);
    most = std::max(most, info.pages);
  }
  EXPECT_EQ(numbers(s), kept);
  // Twenty thousand would take thirty times as many.
  EXPECT_LE(most, live * 4) << live;
  const auto c = counts().local;
  EXPECT_GE(c.finished, 3U);
  EXPECT_GE(c.freed_objects, 15'000U);
  EXPECT_EQ(c.freed_objects, c.garbage_objects);
  EXPECT_EQ(c.given_up, 0U);
  EXPECT_GE(c.slices, c.finished);
}

TEST_P(collected_stores, have_room_again_after_a_request_that_found_none) {
  nvm_store* const s = made("s", 256 << 10);
  configure(NVM_STORES_COLLECT_LOCALLY, 100'000);
  push_alone(s, 7);
  bool full = false;
  for (int i = 0; i < 10'000 && !full; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    full = nvm_store_calloc(s, link_id, 1, sizeof(link)) == nullptr;
    if (full) {
      EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE);
      ASSERT_EQ(nvm_tx_abort(pool_), 0);
    } else {
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
  }
  ASSERT_TRUE(full);
  bool room = false;
  for (int i = 0; i < 1000 && !room; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    room = nvm_store_calloc(s, link_id, 1, sizeof(link)) != nullptr;
    ASSERT_EQ(room ? nvm_tx_commit(pool_) : nvm_tx_abort(pool_), 0) << nvm_errormsg();
  }
  EXPECT_TRUE(room);
  EXPECT_EQ(numbers(s), std::vector<std::uint64_t>{7});
}

// A transaction that was open before the collection, and one that began beside it, know what nothing leads to.
TEST_P(collected_stores, keep_what_an_open_transaction_links_again) {
  if (!GetParam().announces) GTEST_SKIP() << "stores to old objects are barrier transactions' here";
  nvm_store* const s = made("s");
  configure(NVM_STORES_COLLECT_LOCALLY);
  link* const anchor = push_alone(s, 1);
  for (const bool before : {true, false}) {
    link* treasure = nullptr;
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    treasure = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
    ASSERT_NE(treasure, nullptr);
    treasure->number = 42;
    ASSERT_EQ(nvm_tx_log(&anchor->other, sizeof anchor->other), 0);
    anchor->other = treasure;
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();

    std::atomic<int> step{0};
    std::thread knows{[&] {
      while (step != 1) std::this_thread::yield();
      EXPECT_EQ(nvm_tx_begin(pool_), 0);
      link* const mine = anchor->other;
      step = 2;
      while (step != 3) std::this_thread::yield();
      EXPECT_EQ(nvm_tx_log(&anchor->other, sizeof anchor->other), 0);
      anchor->other = mine;
      EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
      step = 4;
    }};
    const auto unlink = [&] {
      ASSERT_EQ(nvm_tx_begin(pool_), 0);
      ASSERT_EQ(nvm_tx_log(&anchor->other, sizeof anchor->other), 0);
      anchor->other = nullptr;
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    };
    if (!before) grow(s);
    step = 1;
    while (step != 2) std::this_thread::yield();
    unlink();
    if (before) grow(s);
    const std::uint64_t finished = counts().local.finished;
    EXPECT_FALSE(until(s, [&] { return counts().local.finished != finished || !exists(treasure); }))
        << "a collection ended beside who knows";
    step = 3;
    while (step != 4) std::this_thread::yield();
    knows.join();
    EXPECT_TRUE(until(s, [&] { return counts().local.finished != finished; }));
    ASSERT_TRUE(exists(treasure));
    EXPECT_EQ(anchor->other, treasure);
    EXPECT_EQ(treasure->number, 42U);
    // Unlinked for good it goes with the next.
    unlink();
    nvm_store_gc_report r;
    ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
    EXPECT_FALSE(exists(treasure));
  }
}

// What the marks saw was another transaction's, and is rolled back: whole, a level of it, and of an engine's own kind.
// The collection looks at the store once the transaction has ended, in a pool that is larger by then.
TEST_P(collected_stores, are_collected_though_the_pool_grows_before_that_begins) {
  nvm_store* const s = made("s");
  push_alone(s, 1);
  ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
  ASSERT_NE(push(s, 2), nullptr) << nvm_errormsg();
  int done = -1, why = 0;
  std::string text;
  std::thread collector{[&] {
    nvm_store_gc_report r;
    done = nvm_store_gc(pool_, "s", nullptr, &r);
    why = done == 0 ? 0 : nvm_errno();
    text = done == 0 ? "" : nvm_errormsg();
  }};
  // It has the store, and waits for this transaction, most likely.
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  nvm_pool_info before{}, after{};
  ASSERT_EQ(nvm_pool_get_info(pool_, &before), 0);
  constexpr std::size_t links = 8192;
  do {
    ASSERT_NE(nvm_store_calloc(s, link_id, links, sizeof(link)), nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_get_info(pool_, &after), 0);
  } while (after.size == before.size);
  ASSERT_NE(nvm_store_calloc(s, link_id, links, sizeof(link)), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  collector.join();
  // A machine that is slow makes it give up; nothing is damaged.
  EXPECT_TRUE(done == 0 || why == NVM_E_BUSY) << text;
  EXPECT_EQ(numbers(s), (std::vector<std::uint64_t>{2, 1}));
}

TEST_P(collected_stores, keep_what_a_rollback_brings_back) {
  if (!GetParam().announces) GTEST_SKIP() << "stores to old objects are barrier transactions' here";
  nvm_store* const s = made("s");
  configure(NVM_STORES_COLLECT_LOCALLY);
  link* const anchor = push_alone(s, 1);
  for (const bool inner : {false, true}) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    auto* treasure = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
    ASSERT_NE(treasure, nullptr);
    ASSERT_EQ(nvm_tx_log(&anchor->other, sizeof anchor->other), 0);
    anchor->other = treasure;
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    grow(s);
    std::atomic<int> step{0};
    std::thread changes{[&] {
      EXPECT_EQ(nvm_tx_begin(pool_), 0);
      if (inner) {
        EXPECT_EQ(nvm_tx_begin(pool_), 0);
      }
      EXPECT_EQ(nvm_tx_log(&anchor->other, sizeof anchor->other), 0);
      anchor->other = nullptr;
      step = 1;
      while (step != 2) std::this_thread::yield();
      EXPECT_EQ(nvm_tx_abort(pool_), 0);
      if (inner) {
        EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
      }
      step = 3;
    }};
    while (step != 1) std::this_thread::yield();
    const std::uint64_t finished = counts().local.finished;
    EXPECT_FALSE(until(s, [&] { return counts().local.finished != finished; }));
    step = 2;
    while (step != 3) std::this_thread::yield();
    changes.join();
    EXPECT_TRUE(until(s, [&] { return counts().local.finished != finished; }));
    EXPECT_EQ(anchor->other, treasure);
    EXPECT_TRUE(exists(treasure));
  }
}

TEST_P(collected_stores, that_nobody_has_attached_are_collected_by_a_thread) {
  std::map<std::string, std::vector<std::uint64_t>> kept;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "tenant/" + std::to_string(i);
    nvm_store* const s = made(name.c_str());
    for (std::uint64_t k = 0; k < 200; ++k) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0);
      ASSERT_NE(push(s, k), nullptr);
      if (k % 10 == 0) leak(s, k);
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
    kept[name] = numbers(s);
    if (i != 0) {
      ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    }
  }
  configure(NVM_STORES_COLLECT_DETACHED);
  const auto until_idle = [&](std::uint64_t finished) {
    for (int i = 0; i < patience_ms && counts().detached.finished < finished; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_GE(counts().detached.finished, finished);
  };
  until_idle(11);
  EXPECT_EQ(counts().detached.freed_objects, 11U * 20);
  EXPECT_EQ(objects_of("tenant/0"), 220U) << "it is attached";
  for (const auto& [name, all] : kept) {
    if (name != "tenant/0") {
      EXPECT_EQ(objects_of(name.c_str()), 200U);
    }
    nvm_store* const s = nvm_store_attach(pool_, name.c_str(), 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    EXPECT_EQ(numbers(s), all) << name;
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  // Read-only is no change; all others are looked at again.
  until_idle(11 + 11);
  const auto idle = counts().detached.begun;
  nvm_store* const s = nvm_store_attach(pool_, "tenant/3", NVM_STORE_READ_ONLY);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  EXPECT_EQ(counts().detached.begun, idle);
  configure(NVM_STORES_COLLECT_NOTHING);
}

// Empty clusters at the pool's end go between two slices, and the end is cut off.
TEST_P(collected_stores, are_collected_while_the_pool_is_trimmed) {
  nvm_store* s = made("s");
  for (std::uint64_t i = 0; i < rounds_of_build(40'000U); i += 500) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    for (std::uint64_t k = i; k < i + 500; ++k) ASSERT_NE(push(s, k), nullptr) << nvm_errormsg();
    leak(s, i);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  const std::vector<std::uint64_t> all = numbers(s);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    void* const large = nvm_store_alloc(s, 0, 20'000'000);
    ASSERT_NE(large, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    ASSERT_EQ(nvm_free(pool_, large), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    const nvm_collection_counts before = counts().detached;
    configure(NVM_STORES_COLLECT_DETACHED);
    while (counts().detached.begun == before.begun) std::this_thread::yield();
    EXPECT_EQ(nvm_pool_trim(pool_, nullptr, nullptr), 0) << nvm_errormsg();
    const auto is_over = [&] { return counts().detached.finished != before.finished; };
    for (int i = 0; i < patience_ms && !is_over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_TRUE(is_over()) << "given up: " << counts().detached.given_up;
    configure(NVM_STORES_COLLECT_NOTHING);
    s = nvm_store_attach(pool_, "s", 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    EXPECT_EQ(numbers(s), all);
  }
}

TEST_P(collected_stores, are_attached_filled_and_deleted_beside_the_thread) {
  configure(NVM_STORES_COLLECT_DETACHED | NVM_STORES_COLLECT_LOCALLY);
  constexpr int threads = 3;
  constexpr int rounds = 60;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const std::string mine = "of/" + std::to_string(t);
      std::vector<std::uint64_t> expected;
      for (int round = 0; round < rounds; ++round) {
        nvm_store* const s = nvm_store_attach(pool_, mine.c_str(), NVM_STORE_CREATE);
        ASSERT_NE(s, nullptr) << nvm_errormsg();
        EXPECT_EQ(numbers(s), expected);
        for (std::uint64_t k = 0; k < 40; ++k) {
          ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
          ASSERT_NE(push(s, k), nullptr) << nvm_errormsg();
          leak(s, k);
          leak(s, k);
          ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
          expected.insert(expected.begin(), k);
        }
        EXPECT_EQ(numbers(s), expected);
        if (round % 7 == 6) {
          ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
          set_root(s, nullptr);
          ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
          expected.clear();
        }
        ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
        if (round % 20 == 19) {
          ASSERT_EQ(nvm_store_delete(pool_, mine.c_str()), 0) << nvm_errormsg();
          expected.clear();
        }
        std::this_thread::sleep_for(std::chrono::microseconds{500});
      }
    });
  }
  for (std::thread& t : all) t.join();
  const auto c = counts();
  EXPECT_GT(c.local.begun, 0U);
  // Other calls go on beside it, and so does closing the pool.
  nvm_stores_statistics s;
  EXPECT_EQ(nvm_stores_get_statistics(pool_, &s), 0) << nvm_errormsg();
}

// A store that takes many slices, until somebody attaches it between two of them.
TEST_P(collected_stores, are_given_up_by_the_thread_to_who_attaches_them) {
  nvm_store* s = made("s");
  for (std::uint64_t i = 0; i < 6000;) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    link* first = static_cast<link*>(nvm_store_get_root(s));
    for (int k = 0; k < 1000; ++k, ++i) {
      auto* const n = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
      ASSERT_NE(n, nullptr) << nvm_errormsg();
      n->number = i;
      n->next = first;
      first = n;
    }
    set_root(s, first);
    leak(s, i);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  const std::vector<std::uint64_t> all = numbers(s);
  configure(NVM_STORES_COLLECT_DETACHED);
  for (int i = 0; i < 200 && counts().detached.interrupted == 0; ++i) {
    const std::uint64_t begun = counts().detached.begun;
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    while (counts().detached.begun == begun) std::this_thread::yield();
    s = nvm_store_attach(pool_, "s", 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
  }
  EXPECT_GT(counts().detached.interrupted, 0U);
  EXPECT_EQ(numbers(s), all);
  push_alone(s, 1);
  // Left alone for long enough, it is collected after all.
  const std::uint64_t finished = counts().detached.finished;
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  for (int i = 0; i < 100'000 && counts().detached.finished == finished; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  EXPECT_EQ(counts().detached.freed_objects, 6U);
  EXPECT_EQ(objects_of("s"), 6001U);
}

// Threads move objects from list to list by announced stores, while the store is collected again and again.
TEST_P(collected_stores, keep_every_object_that_threads_move_about) {
  if (!GetParam().announces) GTEST_SKIP() << "stores to old objects are barrier transactions' here";
  nvm_store* const s = made("s");
  constexpr std::uint64_t threads = 3;
  constexpr std::uint64_t own = 60;  // of each thread, in two lists
  std::vector<link*> heads;
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (std::uint64_t t = 0; t < threads * 2; ++t) heads.push_back(push(s, 1000 + t));
  for (std::uint64_t t = 0; t < threads; ++t) {
    for (std::uint64_t k = 0; k < own; ++k) {
      auto* n = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
      ASSERT_NE(n, nullptr);
      n->number = t * own + k;
      n->other = heads[t * 2]->other;
      heads[t * 2]->other = n;
    }
  }
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  configure(NVM_STORES_COLLECT_LOCALLY, 1);
  std::vector<std::thread> all;
  std::atomic<unsigned> running{0};
  for (std::uint64_t t = 0; t < threads; ++t) {
    ++running;
    all.emplace_back([&, t] {
      std::mt19937 random{static_cast<unsigned>(t)};
      for (int i = 0; i < 4000; ++i) {
        ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
        link* from = heads[t * 2 + random() % 2];
        link* const to = heads[t * 2 + random() % 2];
        for (unsigned skip = random() % 4; skip != 0 && from->other != nullptr; --skip) from = from->other;
        link* const moved = from->other;
        if (moved != nullptr && from != to && moved != to) {
          const nvm_range ranges[] = {{&from->other, 8}, {&moved->other, 8}, {&to->other, 8}};
          ASSERT_EQ(nvm_tx_log_many(ranges, 3), 0) << nvm_errormsg();
          from->other = moved->other;
          moved->other = to->other;
          to->other = moved;
        }
        for (int k = 0; k < 3; ++k) leak(s, 5000);
        ASSERT_EQ(random() % 4 == 0 ? nvm_tx_abort(pool_) : nvm_tx_commit(pool_), 0) << nvm_errormsg();
      }
      --running;
    });
  }
  for (std::thread& t : all) t.join();
  std::set<std::uint64_t> found;
  for (link* const head : heads) {
    ASSERT_TRUE(exists(head));
    for (const link* n = head->other; n != nullptr; n = n->other) {
      ASSERT_TRUE(exists(n)) << "freed";
      EXPECT_TRUE(found.insert(n->number).second);
    }
  }
  EXPECT_EQ(found.size(), threads * own);
  const auto c = counts().local;
  EXPECT_GT(c.finished, 0U);
  EXPECT_GT(c.freed_objects, 0U);
}

// More objects wait to be followed than the stack has room for; and pointers that were never set lead anywhere.
TEST_P(collected_stores, of_any_shape_are_followed) {
  nvm_store* const s = made("s");
  constexpr std::uint64_t chain = 70'000;
  link* first = nullptr;
  for (std::uint64_t i = 0; i < chain;) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    for (int k = 0; k < 1000; ++k, ++i) {
      auto* const n = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
      ASSERT_NE(n, nullptr) << nvm_errormsg();
      n->next = static_cast<link*>(nvm_store_calloc(s, link_id, 1, sizeof(link)));
      n->other = first;
      first = n;
    }
    set_root(s, first);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool_, &info), 0);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  auto* const wild = static_cast<link*>(nvm_store_alloc(s, link_id, sizeof(link)));
  ASSERT_NE(wild, nullptr);
  std::memset(wild, 0xDB, sizeof *wild);
  wild->next = reinterpret_cast<link*>(info.base + 64);
  wild->other = first;
  set_root(s, wild);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  nvm_store_gc_report r;
  ASSERT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.reachable_objects, 2 * chain + 1);
  EXPECT_EQ(r.garbage_objects, 0U);
  EXPECT_GE(r.stray_pointers, 1U);
}

TEST_P(collected_stores, say_what_they_cannot_do) {
  nvm_store_gc_report r;
  EXPECT_EQ(nvm_store_gc(pool_, "none", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_store_gc(nullptr, "none", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_store_gc(pool_, "", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  nvm_store* const s = made("s");
  push_alone(s, 1);
  const nvm_store_gc_options wrong{.dry_run = 0, .struct_bytes = 1, .reserved = {}};
  EXPECT_EQ(nvm_store_gc(pool_, "s", &wrong, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_abort(pool_), 0);
  nvm_stores_options o{};
  o.collect = 8;
  EXPECT_EQ(nvm_stores_configure(pool_, &o), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o.collect = NVM_STORES_COLLECT_NOTHING | NVM_STORES_COLLECT_LOCALLY;
  EXPECT_EQ(nvm_stores_configure(pool_, &o), -1);
  ASSERT_EQ(nvm_store_detach(s), 0);
  nvm_store* const read_only = nvm_store_attach(pool_, "s", NVM_STORE_READ_ONLY);
  ASSERT_NE(read_only, nullptr);
  EXPECT_EQ(nvm_store_gc(pool_, "s", nullptr, &r), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY);
  const nvm_store_gc_options look{.dry_run = 1, .struct_bytes = sizeof(nvm_store_gc_options), .reserved = {}};
  EXPECT_EQ(nvm_store_gc(pool_, "s", &look, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.reachable_objects, 1U);
}

TEST(stores_that_count_references, are_collected_by_stores) {
  know_types();
  scratch_folder folder{"store_gc_counted", false};
  nvm_pool_options o{};
  o.size = 8 << 20;
  o.medium = direct_medium();
  o.collect = NVM_COLLECT_AT_REST;
  NVM_POOL* const pool = nvm_pool_create_with(folder.path("pool").c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_store_create(pool, "s", nullptr), 0) << nvm_errormsg();
  nvm_stores_options c{};
  c.collect = NVM_STORES_COLLECT_LOCALLY;
  EXPECT_EQ(nvm_stores_configure(pool, &c), 0) << nvm_errormsg();
  // A store without a root is left alone, as elsewhere.
  EXPECT_EQ(nvm_store_gc(pool, "s", nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_NE(std::string{nvm_errormsg()}.find("root"), std::string::npos) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
