// The collector beside transactions: pools are collected again and again while threads move, unlink, free and bring
// back what is in them.  A model in ordinary memory says what must be there, and shares no code with the collector.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collected_stores.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/stm.h"

namespace nvm::tests {
namespace {

using namespace collection;

nvm_gc_options beside() {
  nvm_gc_options o{};
  o.beside = 1;
  return o;
}

class pools_in_use : public collected_stores {
 protected:
  [[nodiscard]] link* make(std::uint64_t number) {
    auto* const n = static_cast<link*>(nvm_calloc(pool_, link_id, 1, sizeof(link)));
    EXPECT_NE(n, nullptr) << nvm_errormsg();
    if (n != nullptr) n->number = number;
    return n;
  }
  // A list of so many that the root leads to; each engine takes the stores to new objects.
  void make_list(std::uint64_t count) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    link* first = nullptr;
    for (std::uint64_t i = 0; i < count; ++i) {
      link* const n = make(i);
      n->next = first;
      first = n;
    }
    ASSERT_EQ(nvm_pool_set_root(pool_, first), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  [[nodiscard]] nvm_gc_report collect(nvm_gc_options o = beside()) {
    nvm_gc_report r{};
    EXPECT_EQ(nvm_gc(pool_, &o, &r), 0) << nvm_errormsg();
    return r;
  }
  void expect_refused(int code, nvm_gc_options o) {
    nvm_gc_report r{};
    EXPECT_EQ(nvm_gc(pool_, &o, &r), -1);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
    EXPECT_EQ(r.freed_objects, 0U);
  }
  // Collects until none is `running`; returns how often it came to an end.
  unsigned collect_until(const std::atomic<unsigned>& running, std::uint64_t& freed, nvm_gc_options o = beside()) {
    unsigned finished = 0;
    while (running != 0 || finished == 0) {
      nvm_gc_report r{};
      const int ended = nvm_gc(pool_, &o, &r);
      EXPECT_TRUE(ended == 0 || nvm_errno() == NVM_E_BUSY) << nvm_errormsg();
      finished += ended == 0 ? 1 : 0;
      freed += r.freed_objects;
    }
    return finished;
  }
};
INSTANTIATE_TEST_SUITE_P(on, pools_in_use, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

TEST_P(pools_in_use, lose_what_the_root_does_not_lead_to_and_nothing_else) {
  make_list(700);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (std::uint64_t i = 0; i < 500; ++i) make(i)->other = nullptr;
  ASSERT_NE(nvm_calloc(pool_, link_id, 500, sizeof(link)), nullptr);  // a run
  ASSERT_NE(nvm_calloc(pool_, unknown_id, 1, 50), nullptr);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  nvm_gc_options o = beside();
  o.dry_run = 1;
  std::map<std::uint32_t, std::uint64_t> told;
  o.argument = &told;
  o.type = [](const nvm_gc_type* t, void* to) {
    (*static_cast<std::map<std::uint32_t, std::uint64_t>*>(to))[t->type] = t->objects;
  };
  nvm_gc_report r = collect(o);
  EXPECT_EQ(r.reachable_objects, 700U);
  EXPECT_EQ(r.garbage_objects, 502U);
  EXPECT_EQ(r.garbage_bytes, 1000 * sizeof(link) + 50);
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_EQ(told, (std::map<std::uint32_t, std::uint64_t>{{link_id, 501}, {unknown_id, 1}}));
  EXPECT_EQ(links(), 1201U);
  r = collect();
  EXPECT_EQ(r.freed_objects, 502U);
  EXPECT_EQ(r.freed_bytes, r.garbage_bytes);
  EXPECT_EQ(links(), 700U);
  // As the collector at rest has it.
  nvm_gc_options rest{};
  r = collect(rest);
  EXPECT_EQ(r.reachable_objects, 700U);
  EXPECT_EQ(r.garbage_objects, 0U);
}

TEST_P(pools_in_use, keep_what_is_held_until_it_is_dropped) {
  make_list(3);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  link* const alone = make(7);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_hold(alone), 0) << nvm_errormsg();
  nvm_gc_report r = collect();
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_EQ(r.held_objects, 1U);
  ASSERT_EQ(nvm_drop(alone), 0) << nvm_errormsg();
  EXPECT_EQ(collect().freed_objects, 1U);
}

// Key-value stores, lock-free structures and regions are never garbage, and go on meanwhile.
TEST_P(pools_in_use, keep_what_the_library_keeps) {
  make_list(2);
  nvm_kv_options o{};
  nvm_kv* const kv = nvm_kv_open(pool_, "values", &o);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  nvm_lf* const set = nvm_lf_open(pool_, "set", nullptr);
  ASSERT_NE(set, nullptr) << nvm_errormsg();
  std::atomic<unsigned> running{1};
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t key = i % 500;
      ASSERT_GE(nvm_kv_put(kv, &key, sizeof key, &i, sizeof i), 0) << nvm_errormsg();
      if (i >= 500) continue;
      ASSERT_GE(nvm_lf_put64(set, i + 1, i * 3, 0), 0) << nvm_errormsg();
    }
    running = 0;
  }};
  std::uint64_t freed = 0;
  EXPECT_GT(collect_until(running, freed), 0U);
  writer.join();
  EXPECT_EQ(freed, 0U);
  for (std::uint64_t key = 0; key < 500; ++key) {
    std::uint64_t value = 0;
    std::size_t bytes = 0;
    ASSERT_EQ(nvm_kv_get(kv, &key, sizeof key, &value, sizeof value, &bytes), 1) << nvm_errormsg();
    EXPECT_EQ(value, 2500 + key);
    ASSERT_EQ(nvm_lf_get64(set, key + 1, &value), 1) << nvm_errormsg();
    EXPECT_EQ(value, key * 3);
  }
  ASSERT_EQ(nvm_kv_close(kv), 0);
  EXPECT_EQ(links(), 2U);
}

// What leads out of object stores keeps objects of the pool's own; theirs are theirs to collect, attached or not.
TEST_P(pools_in_use, follow_object_stores_and_free_nothing_there) {
  make_list(1);
  nvm_store* s = made("s");
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  link* const own = make(42);
  link* const first = push(s, 1);
  leak(s, 2);
  first->other = own;
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  EXPECT_EQ(collect().freed_objects, 0U);
  EXPECT_EQ(objects_of("s"), 2U);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  EXPECT_EQ(collect().freed_objects, 0U);
  EXPECT_TRUE(exists(own));
  s = nvm_store_attach(pool_, "s", 0);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  set_root(s, nullptr);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  EXPECT_EQ(collect().freed_objects, 1U);
  EXPECT_EQ(objects_of("s"), 2U);
}

TEST_P(pools_in_use, are_collected_while_stores_come_and_go) {
  make_list(10);
  configure(NVM_STORES_COLLECT_LOCALLY | NVM_STORES_COLLECT_DETACHED);
  std::atomic<unsigned> running{2};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 2; ++t) {
    all.emplace_back([&, t] {
      const std::string mine = "of/" + std::to_string(t);
      for (std::uint64_t round = 0; round < 40; ++round) {
        nvm_store* const s = nvm_store_attach(pool_, mine.c_str(), NVM_STORE_CREATE);
        ASSERT_NE(s, nullptr) << nvm_errormsg();
        for (std::uint64_t k = 0; k < 60; ++k) {
          ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
          ASSERT_NE(push(s, k), nullptr) << nvm_errormsg();
          leak(s, k);
          ASSERT_NE(make(k), nullptr);
          ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
        }
        EXPECT_EQ(numbers(s).size() % 60, 0U);
        ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
        // A page is made a store's while a collection looks at what it was.
        for (unsigned again = 0; again < 20; ++again) {
          nvm_store* const brief = nvm_store_attach(pool_, (mine + "b").c_str(), NVM_STORE_CREATE);
          ASSERT_EQ(nvm_store_detach(brief), 0) << nvm_errormsg();
          ASSERT_EQ(nvm_store_delete(pool_, (mine + "b").c_str()), 0) << nvm_errormsg();
        }
        if (round % 10 != 9) continue;
        ASSERT_EQ(nvm_store_delete(pool_, mine.c_str()), 0) << nvm_errormsg();
      }
      --running;
    });
  }
  std::uint64_t freed = 0;
  EXPECT_GT(collect_until(running, freed), 0U);
  for (std::thread& t : all) t.join();
  freed += collect().freed_objects;
  EXPECT_EQ(freed, 2U * 40 * 60);
}

// ---- a model that threads keep --------------------------------------------------------------------------------------

// Lists that hang from anchors; numbers of what is in each, first to last.
struct modelled_list {
  link* anchor = nullptr;
  std::vector<std::uint64_t> numbers;
};

class moving_threads : public pools_in_use {
 protected:
  static constexpr unsigned lists_of_each = 3;
  static constexpr unsigned shared_lists = 2;

  // Anchors from the root, one after the other.
  void make_lists(unsigned threads, unsigned items) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    link* before = nullptr;
    for (unsigned i = 0; i < threads * lists_of_each + shared_lists; ++i) {
      link* const anchor = make(1'000'000 + i);
      anchor->next = before;
      before = anchor;
      modelled_list l{anchor, {}};
      for (unsigned k = 0; k < items; ++k) {
        link* const n = make(++next_);
        n->other = anchor->other;
        anchor->other = n;
        l.numbers.insert(l.numbers.begin(), n->number);
      }
      lists_.push_back(l);
    }
    ASSERT_EQ(nvm_pool_set_root(pool_, before), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }
  static link* at(link* anchor, std::size_t place) {
    for (; place != 0; --place) anchor = anchor->other;
    return anchor;
  }
  static void announce(link* a, link* b = nullptr, link* c = nullptr) {
    const nvm_range ranges[] = {{&a->other, 8},
                                {b == nullptr ? nullptr : &b->other, b == nullptr ? 0U : 8U},
                                {c == nullptr ? nullptr : &c->other, c == nullptr ? 0U : 8U}};
    ASSERT_EQ(nvm_tx_log_many(ranges, c != nullptr ? 3 : b != nullptr ? 2 : 1), 0) << nvm_errormsg();
  }

  // One transaction over two lists that nobody else has now.
  void turn(std::mt19937_64& random, modelled_list& from, modelled_list& to) {
    ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    auto left = from.numbers;
    auto come = to.numbers;
    const std::size_t place = left.empty() ? 0 : random() % left.size();
    switch (left.empty() ? 0 : random() % 6) {
      case 0: {  // a new one, and garbage
        link* const n = make(++next_);
        ASSERT_NE(n, nullptr);
        come.insert(come.begin(), n->number);
        n->other = to.anchor->other;
        announce(to.anchor);
        to.anchor->other = n;
        make(0)->other = n;
        break;
      }
      case 1: {  // the rest of a list is unlinked, and forgotten
        announce(at(from.anchor, place));
        at(from.anchor, place)->other = nullptr;
        left.resize(place);
        break;
      }
      case 2: {  // one is freed
        link* const before = at(from.anchor, place);
        link* const n = before->other;
        announce(before);
        before->other = n->other;
        ASSERT_EQ(nvm_free(pool_, n), 0) << nvm_errormsg();
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
        break;
      }
      case 3: {  // the rest of a list moves after the other's anchor, whose own are forgotten: by one pointer
        link* const before = at(from.anchor, place);
        link* const moved = before->other;
        announce(before, to.anchor);
        before->other = nullptr;
        for (int i = 0; i < 5; ++i) make(0)->number = 1;
        to.anchor->other = moved;
        come.assign(left.begin() + static_cast<std::ptrdiff_t>(place), left.end());
        left.resize(place);
        break;
      }
      default: {  // one moves
        link* const before = at(from.anchor, place);
        link* const n = before->other;
        announce(before, n, to.anchor);
        before->other = n->other;
        n->other = to.anchor->other;
        to.anchor->other = n;
        come.insert(come.begin(), left[place]);
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
      }
    }
    if (random() % 4 == 0) {
      ASSERT_EQ(nvm_tx_abort(pool_), 0) << nvm_errormsg();
      return;
    }
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    from.numbers = left;
    to.numbers = come;
  }
  void work(unsigned t, unsigned turns) {
    std::mt19937_64 random{t};
    for (unsigned i = 0; i < turns; ++i) {
      std::unique_lock<std::mutex> guard{shared_, std::defer_lock};
      const auto pick = [&]() -> modelled_list& {
        if (!guard.owns_lock() || random() % 2 == 0) return lists_[t * lists_of_each + random() % lists_of_each];
        return lists_[lists_.size() - 1 - random() % shared_lists];
      };
      if (random() % 3 == 0) guard.lock();
      modelled_list& from = pick();
      modelled_list& to = pick();
      if (&from != &to) turn(random, from, to);
    }
  }
  [[nodiscard]] std::uint64_t expected_objects() const {
    std::uint64_t n = lists_.size();
    for (const modelled_list& l : lists_) n += l.numbers.size();
    return n;
  }
  void expect_model() {
    for (const modelled_list& l : lists_) {
      std::vector<std::uint64_t> found;
      for (const link* n = l.anchor->other; n != nullptr && found.size() <= l.numbers.size(); n = n->other) {
        ASSERT_TRUE(exists(n)) << "freed";
        found.push_back(n->number);
      }
      EXPECT_EQ(found, l.numbers);
    }
  }

  std::vector<modelled_list> lists_;
  std::mutex shared_;
  std::atomic<std::uint64_t> next_{0};
};
INSTANTIATE_TEST_SUITE_P(on, moving_threads, testing::Values(kinds[0], kinds[3]),
                         [](const auto& i) { return i.param.name; });

TEST_P(moving_threads, keep_what_the_model_has_and_all_else_goes) {
  constexpr unsigned threads = 3;
  make_lists(threads, 600);
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      work(t, GetParam().ssd ? 1200 : 6000);
      --running;
    });
  }
  std::uint64_t freed = 0;
  const unsigned finished = collect_until(running, freed);
  for (std::thread& t : all) t.join();
  EXPECT_GT(finished, 0U);
  expect_model();
  freed += collect().freed_objects;
  EXPECT_GT(freed, 100U);
  EXPECT_EQ(links(), expected_objects());
  expect_model();
  reopen();
  EXPECT_EQ(links(), expected_objects());
}

TEST_P(moving_threads, take_as_much_of_a_processor_as_they_leave) {
  make_lists(1, 200);
  std::atomic<unsigned> running{1};
  std::thread other{[&] {
    work(0, 1000);
    running = 0;
  }};
  nvm_gc_options o = beside();
  o.processor_percent = 20;
  std::uint64_t freed = 0;
  EXPECT_GT(collect_until(running, freed, o), 0U);
  other.join();
  (void)collect();
  EXPECT_EQ(links(), expected_objects());
  expect_model();
}

// A transaction that was open knows garbage, and links it.
TEST_P(moving_threads, bring_back_what_nothing_led_to) {
  make_lists(1, 5);
  modelled_list& l = lists_[0];
  link* const known = at(l.anchor, 2)->other;
  const std::vector<std::uint64_t> tail(l.numbers.begin() + 2, l.numbers.end());
  std::atomic<int> step{0};
  std::thread open{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    step = 1;
    while (step != 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    link* const anchor = lists_[1].anchor;
    announce(anchor);
    anchor->other = known;
    EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }};
  while (step != 1) std::this_thread::yield();
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  announce(at(l.anchor, 2));
  at(l.anchor, 2)->other = nullptr;
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  l.numbers.resize(2);
  step = 2;
  const nvm_gc_report r = collect();
  open.join();
  // The list that was there before has been forgotten.
  EXPECT_EQ(r.freed_objects, 5U);
  lists_[1].numbers = tail;
  expect_model();
}

TEST_P(moving_threads, that_do_not_end_are_not_waited_for_long) {
  make_lists(1, 5);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  ASSERT_NE(make(9), nullptr);
  ASSERT_EQ(nvm_tx_commit(pool_), 0);
  std::atomic<int> step{0};
  std::thread open{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    step = 1;
    while (step != 2) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_EQ(nvm_tx_abort(pool_), 0);
  }};
  while (step != 1) std::this_thread::yield();
  expect_refused(NVM_E_BUSY, beside());
  step = 2;
  open.join();
  EXPECT_EQ(collect().freed_objects, 1U);
}

TEST_P(pools_in_use, keep_what_pages_lead_to_that_came_while_they_were_waited_for) {
  make_list(300);
  const auto add_run = [&] {  // objects in a run, whose first leads to the root
    auto* const first = static_cast<link*>(nvm_calloc(pool_, link_id, 30'000, sizeof(link)));
    ASSERT_NE(first, nullptr) << nvm_errormsg();
    first->next = static_cast<link*>(nvm_pool_get_root(pool_));
    EXPECT_EQ(nvm_pool_set_root(pool_, first), 0) << nvm_errormsg();
  };
  std::atomic<int> step{0};
  std::thread open{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
    step = 1;
    while (step != 3) std::this_thread::yield();
    add_run();
    EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  }};
  std::thread grows{[&] {
    while (step != 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{20});  // the collection waits
    for (unsigned i = 0; i < 20; ++i) {
      EXPECT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      add_run();
      EXPECT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
    step = 3;
  }};
  while (step != 1) std::this_thread::yield();
  step = 2;
  std::uint64_t freed = 0;
  (void)collect_until(0, freed);
  open.join();
  grows.join();
  unsigned found = 0;
  for (auto* n = static_cast<link*>(nvm_pool_get_root(pool_)); n != nullptr && found < 400; n = n->next, ++found)
    EXPECT_EQ(nvm_type_of(pool_, n), link_id) << "object " << found;
  EXPECT_EQ(found, 321U);
}

// Barrier transactions of several threads move numbers between lists.
TEST_P(pools_in_use, keep_what_barrier_transactions_move) {
  make_list(4);
  auto* const first = static_cast<link*>(nvm_pool_get_root(pool_));
  struct deed {
    link* from;
    link* to;
    std::uint64_t number;
    unsigned what;
  };
  const auto body = [](nvm_stm* tx, void* argument) {
    const deed& d = *static_cast<deed*>(argument);
    const auto word = [](link* n) { return reinterpret_cast<std::uint64_t*>(&n->other); };
    const auto load = [&](link* n) { return reinterpret_cast<link*>(nvm_stm_load64(tx, word(n))); };
    const auto set = [&](link* n, link* to) { nvm_stm_store64(tx, word(n), reinterpret_cast<std::uintptr_t>(to)); };
    link* const n = load(d.from);
    if (d.what == 0 || n == nullptr) {
      auto* const fresh = static_cast<link*>(nvm_stm_alloc(tx, link_id, sizeof(link)));
      if (fresh == nullptr) return -1;
      nvm_stm_store64(tx, &fresh->number, d.number);
      nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&fresh->next), 0);
      set(fresh, load(d.to));
      set(d.to, fresh);
    } else if (d.what == 1) {
      set(d.from, load(n));  // n is garbage
    } else {
      set(d.from, load(n));
      set(n, load(d.to));
      set(d.to, n);
    }
    return d.what == 3 ? 1 : 0;
  };
  constexpr unsigned threads = 2;
  std::atomic<unsigned> running{threads};
  std::atomic<std::uint64_t> made{0};
  std::vector<link*> heads;
  for (link* n = first; n != nullptr; n = n->next) heads.push_back(n);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937_64 random{t};
      for (unsigned i = 0; i < (GetParam().ssd ? 500U : 3000U); ++i) {
        deed d{heads[random() % 4], heads[random() % 4], ++made, static_cast<unsigned>(random() % 4)};
        if (d.from == d.to) continue;
        EXPECT_GE(nvm_stm_run(pool_, body, &d), 0) << nvm_errormsg();
      }
      --running;
    });
  }
  std::uint64_t freed = 0;
  EXPECT_GT(collect_until(running, freed), 0U);
  for (std::thread& t : all) t.join();
  (void)collect();
  std::set<std::uint64_t> found;
  for (link* const head : heads) {
    for (const link* n = head->other; n != nullptr; n = n->other) {
      ASSERT_TRUE(exists(n)) << "freed";
      EXPECT_TRUE(found.insert(n->number).second);
    }
  }
  EXPECT_EQ(links(), found.size() + heads.size());
}

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST_P(pools_in_use, say_what_is_not_to_be_had) {
  make_list(2);
  nvm_gc_options o = beside();
  o.conservative = 1;
  expect_refused(NVM_E_INVALID, o);
  o = beside();
  o.ways = 1;
  expect_refused(NVM_E_INVALID, o);
  o = beside();
  o.processor_percent = 101;
  expect_refused(NVM_E_INVALID, o);
  o = beside();
  o.beside = 2;
  expect_refused(NVM_E_INVALID, o);
  o = beside();
  o.struct_bytes = 1;
  expect_refused(NVM_E_INVALID, o);
  o = {};
  o.processor_percent = 10;
  expect_refused(NVM_E_INVALID, o);
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  expect_refused(NVM_E_TX_OPEN, beside());
  auto* const unknown = nvm_calloc(pool_, unknown_id, 1, 64);
  ASSERT_NE(unknown, nullptr);
  ASSERT_EQ(nvm_pool_set_root(pool_, unknown), 0);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  expect_refused(NVM_E_TYPE_MISMATCH, beside());
  o = beside();
  o.untyped = 1;
  EXPECT_EQ(collect(o).freed_objects, 2U);
}

TEST(other_pools, are_collected_at_rest_alone) {
  know_types();
  const scratch_folder folder{"gc_beside", false};
  const auto refused = [&](const char* name, const nvm_pool_options& o, int code) {
    NVM_POOL* const pool = nvm_pool_create_with(folder.path(name).c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    const nvm_gc_options b = beside();
    EXPECT_EQ(nvm_gc(pool, &b, nullptr), -1);
    EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
    EXPECT_EQ(nvm_gc(pool, nullptr, nullptr), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  };
  nvm_pool_options o{};
  o.size = 8 << 20;
  o.medium = direct_medium();
  o.collect = NVM_COLLECT_AT_REST;
  refused("counted", o, NVM_E_INVALID);
  o.collect = NVM_COLLECT_OFF;
  o.engine = NVM_ENGINE_LOG;
  refused("log", o, NVM_E_ENGINE);
}

// ---- kills ----------------------------------------------------------------------------------------------------------

// Each anchor counts what hangs from it, in the transaction that changes that.
[[noreturn]] void unlink_and_collect(const std::string& path, std::uint64_t seed) {
  NVM_POOL* const pool = nvm_pool_open(path.c_str());
  if (pool == nullptr) _exit(3);
  std::vector<std::thread> all;
  unsigned which = 0;
  for (auto* anchor = static_cast<link*>(nvm_pool_get_root(pool)); anchor != nullptr; anchor = anchor->next) {
    all.emplace_back([pool, anchor, random = std::mt19937_64{seed * 8 + which++}]() mutable {
      for (;;) {
        if (nvm_tx_begin(pool) != 0) _exit(4);
        if (nvm_tx_log(&anchor->number, 8) != 0 || nvm_tx_log(&anchor->other, 8) != 0) _exit(5);
        if (random() % 3 == 0 && anchor->other != nullptr) {
          anchor->other = anchor->other->other;
          --anchor->number;
        } else if (anchor->number < 300) {
          auto* const n = static_cast<link*>(nvm_calloc(pool, link_id, 1, sizeof(link)));
          if (n == nullptr) _exit(6);
          n->other = anchor->other;
          anchor->other = n;
          ++anchor->number;
        } else {
          anchor->other = nullptr;
          anchor->number = 0;
        }
        if ((random() % 5 == 0 ? nvm_tx_abort(pool) : nvm_tx_commit(pool)) != 0) _exit(7);
      }
    });
  }
  const nvm_gc_options o = beside();
  for (;;) {
    if (nvm_gc(pool, &o, nullptr) != 0 && nvm_errno() != NVM_E_BUSY) _exit(8);
  }
}

TEST_P(moving_threads, that_are_killed_lose_nothing) {
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  link* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    link* const anchor = make(0);
    anchor->next = first;
    first = anchor;
  }
  ASSERT_EQ(nvm_pool_set_root(pool_, first), 0);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  const char* const wanted = std::getenv("NVM_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 8;
  std::mt19937_64 random{seed_from_environment()};
  for (int i = 0; i < kills; ++i) {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    pool_ = nullptr;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) unlink_and_collect(path(), random());
    ::usleep(20'000 + random() % 60'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended)) << WEXITSTATUS(ended);
    nvm_check_summary sum{};
    ASSERT_EQ(nvm_pool_check(path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
    pool_ = nvm_pool_open(path().c_str());
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    std::uint64_t expected = 0;
    for (const auto* anchor = static_cast<link*>(nvm_pool_get_root(pool_)); anchor != nullptr; anchor = anchor->next) {
      std::uint64_t length = 0;
      for (const link* n = anchor->other; n != nullptr && length <= anchor->number; n = n->other, ++length)
        ASSERT_TRUE(exists(n)) << "freed";
      EXPECT_EQ(length, anchor->number);
      expected += 1 + length;
    }
    (void)collect();
    EXPECT_EQ(links(), expected);
  }
}

}  // namespace
}  // namespace nvm::tests
