// Reference counts of the C interface: what dies, when, and what does not.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../sanitized.hpp"
#include "api/pool_object.hpp"
#include "care/repair.hpp"
#include "gc_graph.hpp"
#include "nvm/gc.hpp"
#include "nvm/stm.h"
#include "object/reference_layout.hpp"
#include "platform/platform.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

nvm_pool_options counted(pool_kind kind, std::uint32_t collect = NVM_COLLECT_AT_REST) {
  nvm_pool_options o{};
  o.size = std::size_t{16} << 20;
  o.collect = collect;
  choose(o, kind);
  return o;
}
nvm_settle_report settled(NVM_POOL* pool) {
  nvm_settle_report r{};
  EXPECT_EQ(nvm_settle(pool, &r), 0) << nvm_errormsg();
  return r;
}
nvm_reference_counts counts_of(const void* p) {
  nvm_reference_counts c{};
  EXPECT_EQ(nvm_references(p, &c), 0) << nvm_errormsg();
  return c;
}
// Findings of a full check.
std::string findings(const std::string& path) {
  std::string all;
  const auto add = [](std::uint64_t, const char* text, void* to) { *static_cast<std::string*>(to) += text; };
  EXPECT_GE(nvm_pool_check(path.c_str(), add, &all, nullptr), 0) << nvm_errormsg();
  return all;
}

class references : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { know_gc_types(); }
  NVM_POOL* create(std::uint32_t collect = NVM_COLLECT_AT_REST) {
    const nvm_pool_options o = counted(GetParam(), collect);
    NVM_POOL* p = nvm_pool_create_with(place_.path().c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }
  NVM_POOL* open(std::uint32_t collect = NVM_COLLECT_AT_REST) {
    nvm_pool_options o{};
    o.collect = collect;
    NVM_POOL* p = nvm_pool_open_with(place_.path().c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }
  scratch place_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(kinds, references, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(references, an_object_dies_with_its_last_reference_and_what_it_kept_with_it) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make(1);
  g.set_root(root);
  gc_node* a = g.make();
  gc_node* b = g.make(700);  // of pages
  gc_node* c = g.make();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  g.link(root, 0, a);
  g.link(root, 1, b, 3000);  // into the middle
  g.link(a, 0, c);
  g.link(b, 600, c);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(settled(pool).freed_objects, 0U);
  EXPECT_EQ(counts_of(root).strong, 1U) << "by the pool";
  EXPECT_EQ(counts_of(c).strong, 2U);
  EXPECT_EQ(counts_of(b).strong, 1U);
  g.link(root, 0, nullptr);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  g.keep(g.reachable());
  g.expect_same(pool);
  EXPECT_EQ(counts_of(c).strong, 1U);
  g.link(root, 1, nullptr);
  const nvm_settle_report r = settled(pool);
  EXPECT_EQ(r.freed_objects, 2U);
  EXPECT_EQ(r.waiting_objects + r.drifted_counts + r.damaged_records, 0U);
  g.keep(g.reachable());
  g.expect_same(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(findings(place_.path()), "");
}

// What an object refers to whose pointers nobody can tell would not be counted, and die while it is referred to.
TEST_P(references, objects_that_nobody_describes_are_refused_where_references_are_counted) {
  constexpr std::uint32_t unknown = 4711;
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  g.set_root(g.make(1));
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_NE(nvm_alloc(pool, unknown, 100), nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH) << nvm_errormsg();
  EXPECT_NE(std::string{nvm_errormsg()}.find("4711"), std::string::npos) << nvm_errormsg();
  g.expect_same(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();

  pool = open(NVM_COLLECT_OFF);
  ASSERT_NE(pool, nullptr);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_NE(nvm_alloc(pool, unknown, 100), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_pool_options o{};
  o.collect = NVM_COLLECT_AT_REST;
  EXPECT_EQ(nvm_pool_open_with(place_.path().c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH) << nvm_errormsg();
  EXPECT_NE(std::string{nvm_errormsg()}.find("1 of type 0x00001267"), std::string::npos) << nvm_errormsg();
  EXPECT_EQ(findings(place_.path()), "");

  // Unless the pool says that they are bytes.
  o.untyped = NVM_UNTYPED_BYTES;
  pool = nvm_pool_open_with(place_.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_NE(nvm_alloc(pool, unknown, 100), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(references, what_was_never_linked_stays_until_the_program_lets_it_go) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* alone = g.make();
  EXPECT_EQ(settled(pool).freed_objects, 0U);
  EXPECT_EQ(counts_of(alone).strong, 0U);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, alone), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_abort(pool), 0);  // the inner level
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(settled(pool).freed_objects, 0U);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, alone), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(references, a_freed_object_that_is_referred_to_stays_until_it_is_not) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  gc_node* a = g.make();
  g.link(root, 0, a);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, a), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(settled(pool).freed_objects, 0U);
  g.expect_same(pool);
  g.link(root, 0, nullptr);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(references, a_held_object_lives_and_dies_when_it_is_dropped) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  g.link(root, 0, g.make());
  {
    held<gc_node> kept{root->left};
    g.link(root, 0, nullptr);
    const nvm_settle_report r = settled(pool);
    EXPECT_EQ(r.freed_objects, 0U);
    EXPECT_EQ(r.waiting_objects, 1U);
    EXPECT_EQ(counts_of(kept.get()).dying, 1U);
    g.link(root, 0, kept.get());  // and back again
    EXPECT_EQ(settled(pool).waiting_objects, 0U);
    g.link(root, 0, nullptr);
    EXPECT_EQ(settled(pool).waiting_objects, 1U);
  }
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

// Two thousand nodes with two links each: their records do not fit the rings of a pool of this size.
TEST_P(references, a_long_list_dies_in_bounded_transactions_and_a_large_transaction_has_room) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  constexpr unsigned nodes = 5000;
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  gc_node* last = root;
  for (unsigned i = 0; i < nodes; ++i) {
    gc_node* n = g.make();
    g.link(last, i % 2, n);
    last = n;
  }
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(settled(pool).freed_objects, 0U);
  EXPECT_EQ(counts_of(last).strong, 1U);
  g.link(root, 0, nullptr);
  const nvm_settle_report r = settled(pool);
  EXPECT_EQ(r.freed_objects, nodes);
  EXPECT_GE(r.transactions, nodes / 256);
  g.keep(g.reachable());
  g.expect_same(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

TEST_P(references, an_object_with_more_pointers_than_a_record_takes_dies) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  constexpr unsigned links = 9000;
  gc_node* wide = g.make(links);
  gc_node* leaf = g.make();
  g.link(root, 1, leaf);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  g.link(root, 0, wide);
  for (unsigned i = 2; i < links + 2; ++i) g.link(wide, i, leaf);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  settled(pool);
  EXPECT_EQ(counts_of(leaf).strong, links + 1);
  g.link(root, 0, nullptr);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  EXPECT_EQ(counts_of(leaf).strong, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

TEST_P(references, many_commits_between_two_settlings_wait_for_nobody) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  gc_node* two[] = {g.make(), g.make()};
  for (unsigned i = 0; i < 5000; ++i) g.link(root, 0, two[i % 2]);
  EXPECT_EQ(counts_of(root).strong, 1U);
  EXPECT_EQ(settled(pool).freed_objects, 1U) << "the other one";
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(references, closing_and_opening_settle_and_counts_go_on) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  gc_node* a = g.make();
  g.link(root, 0, a);
  g.link(root, 1, a);
  g.link(root, 0, nullptr);
  const auto at = reinterpret_cast<char*>(a) - reinterpret_cast<char*>(root);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
  pool = open();
  root = static_cast<gc_node*>(nvm_pool_get_root(pool));
  a = reinterpret_cast<gc_node*>(reinterpret_cast<char*>(root) + at);
  EXPECT_EQ(counts_of(a).strong, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  // Changed by a process that does not count: the next that does counts all anew.
  pool = open(NVM_COLLECT_OFF);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  root = static_cast<gc_node*>(nvm_pool_get_root(pool));
  ASSERT_EQ(nvm_tx_log(&root->left, sizeof root->left), 0);
  root->left = root->right;
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  nvm_reference_counts none{};
  EXPECT_EQ(nvm_references(root, &none), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_settle(pool, nullptr), -1);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
  pool = open();
  root = static_cast<gc_node*>(nvm_pool_get_root(pool));
  EXPECT_EQ(counts_of(root->left).strong, 2U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(references, random_changes_leave_what_a_twin_says) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  std::mt19937_64 random{20261127};
  gc_graph g{pool};
  gc_node* root = g.make(6);
  g.set_root(root);
  for (unsigned round = 0; round < 60; ++round) {
    // Links go from older to newer objects: no cycles, which counts do not find.
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (unsigned i = 0; i < 20; ++i) {
      const auto all = g.numbers();
      const std::uint64_t from = all[random() % all.size()];
      const std::size_t which = random() % g.links_of(from);
      if (random() % 3 == 0) {
        g.link(g.at(from), which, nullptr);
      } else if (random() % 2 == 0) {
        g.link(g.at(from), which, g.make(random() % 5));
      } else {
        const std::uint64_t to = all[random() % all.size()];
        if (to > from) g.link(g.at(from), which, g.at(to), random() % 32);
      }
    }
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    if (round % 3 != 0) continue;
    const nvm_settle_report r = settled(pool);
    ASSERT_EQ(r.drifted_counts + r.damaged_records, 0U);
    // What was unlinked in the transaction that made it has never had a count above 0.
    nvm_gc_report swept{};
    ASSERT_EQ(nvm_gc(pool, nullptr, &swept), 0) << nvm_errormsg();
    EXPECT_EQ(swept.mended_counts, 0U);
    g.keep(g.reachable());
    g.expect_same(pool);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

// A process is killed while objects die; the next opens find the rest.
TEST_P(references, a_killed_process_leaves_nothing_that_is_not_freed_later) {
  constexpr unsigned nodes = 3000;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    NVM_POOL* pool = create();
    gc_graph g{pool};
    gc_node* root = g.make();
    g.set_root(root);
    gc_node* last = root;
    (void)nvm_tx_begin(pool);
    for (unsigned i = 0; i < nodes; ++i) {
      gc_node* n = g.make();
      g.link(last, 0, n);
      last = n;
    }
    (void)nvm_tx_commit(pool);
    g.link(root, 0, nullptr);
    std::thread later{[] {
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
      ::kill(::getpid(), SIGKILL);
    }};
    (void)nvm_settle(pool, nullptr);
    later.join();
    ::_exit(1);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how));
  EXPECT_EQ(findings(place_.path()), "");
  NVM_POOL* pool = open();
  ASSERT_NE(pool, nullptr);
  unsigned left = 0;
  ASSERT_EQ(nvm_pool_each(
                pool,
                [](void*, std::uint32_t type, std::size_t, void* n) {
                  *static_cast<unsigned*>(n) += type == gc_node_id ? 1 : 0;
                  return 0;
                },
                &left),
            0);
  EXPECT_EQ(left, 1U) << "the root";
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

// In a checked build.
struct wrong_frees {
  static void add(const nvm_misuse* m, void* to) {
    static_cast<wrong_frees*>(to)->all += std::string{m->message} + (m->caller != nullptr ? " at a place\n" : "\n");
  }
  wrong_frees() {
    ::setenv("NVM_CHECK", "1", 1);
    nvm_set_misuse_handler(add, this);
  }
  ~wrong_frees() {
    nvm_set_misuse_handler(nullptr, nullptr);
    ::unsetenv("NVM_CHECK");
  }
  wrong_frees(const wrong_frees&) = delete;
  wrong_frees& operator=(const wrong_frees&) = delete;
  std::string take() { return std::exchange(all, {}); }
  std::string all;
};
TEST_P(references, objects_that_are_freed_twice_or_while_they_are_referred_to_are_told_with_the_place) {
  wrong_frees wrong;
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  gc_node* a = g.make();
  gc_node* b = g.make();
  g.link(root, 0, a);
  g.link(root, 1, b);
  const auto free_in_one = [&](std::initializer_list<gc_node*> all, bool commit = true) {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    for (gc_node* n : all) EXPECT_EQ(nvm_free(pool, n), 0) << nvm_errormsg();
    EXPECT_EQ(commit ? nvm_tx_commit(pool) : nvm_tx_abort(pool), 0) << nvm_errormsg();
    return wrong.take();
  };
  EXPECT_EQ(free_in_one({a}, false), "");
  EXPECT_NE(free_in_one({a}).find("found 1 references to it, expected none at a place"), std::string::npos);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  g.link(root, 0, nullptr);
  g.link(root, 1, nullptr);
  EXPECT_EQ(free_in_one({b}), "");  // an inner level
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(wrong.take(), "");
  ASSERT_EQ(nvm_hold(b), 0);
  settled(pool);
  EXPECT_NE(free_in_one({b}).find("was freed twice at a place"), std::string::npos);
  ASSERT_EQ(nvm_drop(b), 0);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  gc_node* c = g.make();
  EXPECT_NE(free_in_one({c, c}).find("was freed twice at a place"), std::string::npos);
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

// ---- while the program runs -----------------------------------------------------------------------------------------

bool is_there(NVM_POOL* pool, const void* p) { return nvm_object_around(pool, p) != nullptr; }

TEST_P(references, a_transaction_keeps_what_was_there_when_it_began) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  NVM_POOL* pool = create(NVM_COLLECT_BACKGROUND);
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  g.link(root, 0, g.make());
  gc_node* const known = root->left;
  std::atomic<int> turn{0};
  std::thread reader{[&] {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_EQ(root->left, known);
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    EXPECT_EQ(known->number, 2U);
    EXPECT_EQ(nvm_tx_commit(pool), 0);
    turn = 3;
  }};
  while (turn != 1) std::this_thread::yield();
  g.link(root, 0, nullptr);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(settled(pool).freed_objects, 0U);
  EXPECT_TRUE(is_there(pool, known));
  turn = 2;
  reader.join();
  while (is_there(pool, known)) EXPECT_EQ(nvm_settle(pool, nullptr), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST_P(references, threads_exchange_objects_while_they_are_collected) {
  NVM_POOL* pool = create(NVM_COLLECT_BACKGROUND);
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  constexpr unsigned cells = 4;
  gc_node* root = g.make(cells);
  g.set_root(root);
  std::mutex locks[cells];
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random{seed};
    for (unsigned i = 0; i < 400; ++i) {
      const std::size_t a = random() % cells;
      const std::size_t b = random() % cells;
      const std::scoped_lock both{locks[std::min(a, b)]};
      std::unique_lock<std::mutex> other;
      if (a != b) other = std::unique_lock{locks[std::max(a, b)]};
      ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
      gc_node** from = &root->more[a];
      gc_node** to = &root->more[b];
      if (*from == nullptr) {
        auto* n = static_cast<gc_node*>(nvm_calloc(pool, gc_node_id, 1, sizeof(gc_node)));
        ASSERT_NE(n, nullptr) << nvm_errormsg();
        n->number = 77;
        ASSERT_EQ(nvm_tx_log(from, sizeof *from), 0);
        *from = n;
      } else if (a != b) {  // moves over what was there
        ASSERT_EQ((*from)->number, 77U);
        ASSERT_EQ(nvm_tx_log(from, sizeof *from), 0);
        ASSERT_EQ(nvm_tx_log(to, sizeof *to), 0);
        *to = *from;
        *from = nullptr;
      }
      ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    }
  };
  std::thread threads[] = {std::thread{work, 1}, std::thread{work, 2}, std::thread{work, 3}};
  for (std::thread& t : threads) t.join();
  unsigned linked = 0;
  for (unsigned i = 0; i < cells; ++i) {
    if (root->more[i] == nullptr) continue;
    ++linked;
    EXPECT_EQ(root->more[i]->number, 77U);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = open();
  unsigned left = 0;
  ASSERT_EQ(nvm_pool_each(
                pool,
                [](void* p, std::uint32_t type, std::size_t, void* n) {
                  *static_cast<unsigned*>(n) += type == gc_node_id && static_cast<gc_node*>(p)->number == 77 ? 1 : 0;
                  return 0;
                },
                &left),
            0);
  EXPECT_EQ(left, linked);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

// ---- what it costs --------------------------------------------------------------------------------------------------

// Fences and logged bytes of some commits.
struct price {
  std::uint64_t fences, logged;
};
price price_of(const nvm_pool_options& how, const std::string& path) {
  nvm_pool_options o = how;
  o.meter = 1;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  gc_node* a = g.make();
  nvm_statistics before{}, after{};
  EXPECT_EQ(nvm_pool_get_statistics(pool, &before), 0);
  for (unsigned i = 0; i < 20; ++i) {
    g.link(root, 0, i % 2 == 0 ? a : nullptr);
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    g.link(root, 1, g.make());
    EXPECT_EQ(nvm_tx_commit(pool), 0);
  }
  EXPECT_EQ(nvm_pool_get_statistics(pool, &after), 0);
  EXPECT_EQ(nvm_pool_close(pool), 0);
  // The checkpointer makes syncs of its own, whenever it runs.
  return {after.fences - before.fences + (after.durable_waits - before.durable_waits),
          after.logged_bytes - before.logged_bytes};
}
TEST_P(references, counting_takes_no_fence_more) {
  const price off = price_of(counted(GetParam(), NVM_COLLECT_OFF), place_.path("off"));
  const price on = price_of(counted(GetParam(), NVM_COLLECT_AT_REST), place_.path("on"));
  EXPECT_EQ(on.fences, off.fences);
  EXPECT_GT(off.fences, 0U);
}

// ---- what is refused, found and mended ------------------------------------------------------------------------------

TEST(references_of_all, options_and_calls_are_checked) {
  know_gc_types();
  scratch place{pool_kind::shm};
  nvm_pool_options o = counted(pool_kind::shm, NVM_COLLECT_BACKGROUND + 1);
  EXPECT_EQ(nvm_pool_create_with(place.path().c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_settle(nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o.collect = NVM_COLLECT_AT_REST;
  o.lanes = 1;
  EXPECT_EQ(nvm_pool_create_with(place.path().c_str(), &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  o.lanes = 2;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_reference_counts c{};
  EXPECT_EQ(nvm_references(&c, &c), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_settle(pool, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

TEST(references_of_all, the_redo_engine_counts_through_barriers) {
  know_gc_types();
  scratch place{pool_kind::shm};
  nvm_pool_options o = counted(pool_kind::shm);
  o.engine = NVM_ENGINE_REDO;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const auto link = [](nvm_stm* tx, void*) {
    auto* root = static_cast<gc_node*>(nvm_stm_alloc(tx, gc_node_id, sizeof(gc_node)));
    auto* a = static_cast<gc_node*>(nvm_stm_alloc(tx, gc_node_id, sizeof(gc_node)));
    *root = {1, nullptr, a, a};
    *a = {2, nullptr, nullptr, nullptr};
    return nvm_stm_set_root(tx, root);
  };
  ASSERT_EQ(nvm_stm_run(pool, link, nullptr), 0) << nvm_errormsg();
  settled(pool);
  auto* root = static_cast<gc_node*>(nvm_pool_get_root(pool));
  gc_node* a = root->left;
  EXPECT_EQ(counts_of(root).strong, 1U);
  EXPECT_EQ(counts_of(a).strong, 2U);
  const auto unlink = [](nvm_stm* tx, void* raw) {
    auto* r = static_cast<gc_node*>(raw);
    nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&r->left), 0);
    nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&r->right), 0);
    return 0;
  };
  ASSERT_EQ(nvm_stm_run(pool, unlink, root), 0) << nvm_errormsg();
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place.path()), "");
}

// Gives the object a count that its references do not say.
void tamper(NVM_POOL* pool, const gc_node* o, const layout::reference_count& c) {
  unsigned lane = 0;
  bool parked = false;
  const auto t = pool->engine->begin(lane, parked);
  ASSERT_TRUE(t) << last_message();
  const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(o) - pool->base());
  const tx::assigned_bytes wrong{at - sizeof(std::uint32_t), layout::pack(c), 4};
  ASSERT_TRUE((*t)->assign_all({&wrong, 1})) << last_message();
  std::vector<tx::hook> none;
  ASSERT_TRUE((*t)->commit(none)) << last_message();
  if (parked) pool->engine->give_back(lane);
}

TEST_P(references, a_wrong_count_is_found_and_mended) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  g.link(root, 0, g.make());
  g.link(root, 1, root->left);
  settled(pool);
  ASSERT_EQ(counts_of(root->left).strong, 2U);
  tamper(pool, root->left, {1, 3, false});
  ASSERT_EQ(nvm_pool_close(pool), 0);
  const std::string found = findings(place_.path());
  EXPECT_NE(found.find("found 1 and 3 weak ones"), std::string::npos) << found;
  care::repair_request request;
  request.path = place_.path();
  request.in_place = true;
  care::repair_report report;
  ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0].what, "references: 1 counts were not what the pointers say");
  EXPECT_EQ(findings(place_.path()), "");
}

// A saturated count kept the object alive.  No record says that the count has fallen.
TEST_P(references, a_held_object_whose_count_a_collection_mends_dies_when_it_is_dropped) {
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make();
  g.set_root(root);
  g.link(root, 0, g.make());
  settled(pool);
  {
    held<gc_node> kept{root->left};
    tamper(pool, kept.get(), {layout::strong_max, 0, false});
    g.link(root, 0, nullptr);
    EXPECT_EQ(settled(pool).freed_objects, 0U);
    EXPECT_EQ(counts_of(kept.get()).saturated, 1U);
    ASSERT_EQ(nvm_gc(pool, nullptr, nullptr), 0) << nvm_errormsg();
    EXPECT_EQ(counts_of(kept.get()).dying, 1U);
    EXPECT_EQ(settled(pool).waiting_objects, 1U);
  }
  EXPECT_EQ(settled(pool).freed_objects, 1U);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(findings(place_.path()), "");
}

}  // namespace
}  // namespace nvm::tests
