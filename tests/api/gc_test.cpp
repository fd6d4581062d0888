// The tracing collector at rest: what it frees, what it keeps, what it refuses.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "gc_graph.hpp"
#include "nvm/gc.hpp"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/stm.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

nvm_gc_report collect(NVM_POOL* pool, nvm_gc_options o = {}) {
  nvm_gc_report r{};
  EXPECT_EQ(nvm_gc(pool, &o, &r), 0) << nvm_errormsg();
  return r;
}
std::string refused(NVM_POOL* pool, int code, nvm_gc_options o = {}) {
  nvm_gc_report r{};
  EXPECT_EQ(nvm_gc(pool, &o, &r), -1);
  EXPECT_EQ(nvm_errno(), code) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 0U);
  return nvm_errormsg();
}

// Options with one field that is not 0.
nvm_gc_options with(std::uint32_t nvm_gc_options::* field, std::uint32_t value = 1) {
  nvm_gc_options o{};
  o.*field = value;
  return o;
}
const nvm_gc_options dry_run = with(&nvm_gc_options::dry_run);
const nvm_gc_options untyped = with(&nvm_gc_options::untyped);

// Pointers of a dry run that lead to no object.
std::vector<nvm_gc_pointer> pointers_told(NVM_POOL* pool, std::uint32_t how_untyped) {
  std::vector<nvm_gc_pointer> all;
  nvm_gc_options o = dry_run;
  o.untyped = how_untyped;
  o.argument = &all;
  o.pointer = [](const nvm_gc_pointer* p, void* to) { static_cast<std::vector<nvm_gc_pointer>*>(to)->push_back(*p); };
  (void)collect(pool, o);
  return all;
}

class gc : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { know_gc_types(); }
  scratch place_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(kinds, gc, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(gc, frees_what_the_root_does_not_lead_to_and_nothing_else) {
  NVM_POOL* pool = place_.create("pool", std::size_t{16} << 20);
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make(4);
  g.set_root(root);
  gc_node* a = g.make();
  gc_node* b = g.make(700);  // of pages
  gc_node* c = g.make();
  g.link(root, 2, a, 17);  // into the middle
  g.link(a, 0, b, 3000);
  g.link(b, 600, c);
  gc_node* x = g.make();  // a cycle, with a tail
  gc_node* y = g.make(700);
  g.link(x, 0, y);
  g.link(y, 1, x);
  g.link(y, 300, g.make());
  g.link(y, 301, a);  // garbage keeps nothing, and leads to what stays
  const nvm_gc_report dry = collect(pool, dry_run);
  EXPECT_EQ(dry.garbage_objects, 3U);
  EXPECT_EQ(dry.freed_objects, 0U);
  g.expect_same(pool);
  const nvm_gc_report r = collect(pool);
  EXPECT_EQ(r.objects, 7U);
  EXPECT_EQ(r.reachable_objects, 4U);
  EXPECT_EQ(r.pointers, 3U);
  EXPECT_EQ(r.garbage_objects, 3U);
  EXPECT_EQ(r.freed_objects, 3U);
  EXPECT_EQ(r.freed_bytes, r.garbage_bytes);
  EXPECT_EQ(r.transactions, 1U);
  EXPECT_EQ(r.stray_pointers + r.foreign_pointers, 0U);
  g.keep(g.reachable());
  g.expect_same(pool);
  EXPECT_EQ(collect(pool).garbage_objects, 0U) << "nothing twice";
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, agrees_with_a_twin_over_random_graphs) {
  NVM_POOL* pool = place_.create("pool", std::size_t{32} << 20);
  ASSERT_NE(pool, nullptr);
  std::mt19937_64 random{20261126};
  gc_graph g{pool};
  for (unsigned round = 0; round < 12; ++round) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (unsigned i = 0; i < 60; ++i) {
      const std::size_t sizes[] = {0, 1, 9, 40, 300, 600};
      (void)g.make(sizes[random() % std::size(sizes)]);
    }
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    const auto all = g.numbers();
    const auto any = [&] { return g.at(all[random() % all.size()]); };
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (unsigned i = 0; i < 150; ++i) {
      gc_node* from = any();
      g.link(from, random() % g.links_of(from->number), random() % 3 == 0 ? nullptr : any(), random() % 32);
    }
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    g.set_root(random() % 6 == 0 ? nullptr : any());
    std::set<std::uint64_t> held;
    for (unsigned i = 0; i < 3; ++i) held.insert(any()->number);
    for (const auto n : held) ASSERT_EQ(nvm_hold(g.at(n)), 0) << nvm_errormsg();
    const auto stays = g.reachable(held);
    const nvm_gc_report r = collect(pool, with(&nvm_gc_options::threads, round % 4 + 1));
    EXPECT_EQ(r.reachable_objects, stays.size());
    EXPECT_EQ(r.freed_objects, g.size() - stays.size());
    EXPECT_EQ(r.held_objects, held.size());
    g.keep(stays);
    g.expect_same(pool);
    for (const auto n : held) ASSERT_EQ(nvm_drop(g.at(n)), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, a_process_that_dies_in_the_middle_loses_nothing) {
  const std::string path = place_.path();
  NVM_POOL* pool = place_.create("pool", std::size_t{16} << 20);
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  gc_node* root = g.make(100);
  std::vector<gc_node*> kept;
  for (unsigned i = 0; i < 2000; ++i) {
    gc_node* n = g.make(i % 5);
    if (i % 20 == 0) g.link(root, i / 20 + 2, n);
    if (i % 20 != 0 && i % 20 != 10) g.link(n, 0, kept.back());
    kept.push_back(n);
  }
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  g.set_root(root);
  const auto stays = g.reachable();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  std::uint64_t left = g.size() - stays.size();
  for (unsigned deaths = 0; deaths < 3; ++deaths) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      nvm_gc_options o{};
      o.progress = [](nvm_gc_phase phase, std::uint64_t done, std::uint64_t, void*) {
        if (phase == NVM_GC_FREEING && done >= 512) (void)::raise(SIGKILL);
      };
      nvm_gc_report r;
      NVM_POOL* p = nvm_pool_open(path.c_str());
      (void)(p != nullptr && nvm_gc(p, &o, &r) == 0);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    nvm_check_summary s{};
    EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, &s), 0) << nvm_errormsg();
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    const nvm_gc_report dry = collect(pool, dry_run);
    EXPECT_EQ(dry.reachable_objects, stays.size());
    // On ssd what was freed is durable when the collection returns.
    EXPECT_LE(dry.garbage_objects + (GetParam() == pool_kind::ssd ? 0 : 512), left);
    left = dry.garbage_objects;
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(collect(pool).freed_objects, left);
  g.keep(stays);
  g.expect_same(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, a_full_pool_needs_no_room) {
  nvm_pool_options o{};
  o.size = o.capacity = std::size_t{4} << 20;
  choose(o, GetParam());
  NVM_POOL* pool = nvm_pool_create_with(place_.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  std::uint64_t made = 0;
  for (const std::size_t bytes : {100000, 5000, 1000, 100, 16}) {
    for (;; ++made) {
      ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
      if (nvm_alloc(pool, gc_bytes_id, bytes) == nullptr || nvm_tx_commit(pool) != 0) break;
    }
    ASSERT_TRUE(nvm_tx_depth(pool) == 0 || nvm_tx_abort(pool) == 0);
  }
  EXPECT_EQ(collect(pool).freed_objects, made);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, refuses_while_a_transaction_is_open_and_what_is_not_described) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  g.set_root(g.make());
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  (void)refused(pool, NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << "a refusal leaves the transaction as it was";
  std::thread{[&] {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    std::thread{[&] { (void)refused(pool, NVM_E_TX_OPEN); }}.join();
    ASSERT_EQ(nvm_tx_abort(pool), 0);
  }}.join();
  nvm_gc_options unknown{};
  unknown.reserved[1] = 1;
  (void)refused(pool, NVM_E_INVALID, unknown);

  ASSERT_EQ(nvm_tx_begin(pool), 0);
  void* odd = nvm_alloc(pool, 77, 40);
  ASSERT_NE(nvm_alloc(pool, 78, 40), nullptr);
  std::memset(odd, 0, 40);
  auto* root = static_cast<gc_node*>(nvm_pool_get_root(pool));
  ASSERT_EQ(nvm_tx_log(&root->left, 8), 0);
  root->left = static_cast<gc_node*>(odd);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  const std::string text = refused(pool, NVM_E_TYPE_MISMATCH);
  EXPECT_NE(text.find("1 of type 0x0000004d"), std::string::npos) << text;
  EXPECT_EQ(text.find("0x0000004e"), std::string::npos)
      << "what cannot be reached points to nothing that stays: " << text;
  const nvm_gc_report r = collect(pool, untyped);
  EXPECT_EQ(r.freed_objects, 1U);
  EXPECT_EQ(nvm_type_of(pool, odd), 77U);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();

  nvm_pool_options o{};
  o.read_only = 1;
  pool = nvm_pool_open_with(place_.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  (void)refused(pool, NVM_E_READ_ONLY, untyped);
  nvm_gc_options both = dry_run;
  both.untyped = 1;
  EXPECT_EQ(collect(pool, both).reachable_objects, 2U);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(nvm_gc(pool, nullptr, nullptr) == -1 && nvm_errno() == NVM_E_FORKED ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, values_that_lead_nowhere_are_counted_and_keep_nothing) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make(8);
  gc_node* gone = g.make();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, gone), 0);
  ASSERT_EQ(nvm_tx_log(root, sizeof *root + 8 * 8), 0);
  auto* const base = reinterpret_cast<char*>(pool != nullptr ? root : nullptr);
  root->left = gone;
  root->right = reinterpret_cast<gc_node*>(0x1234);
  root->more[0] = reinterpret_cast<gc_node*>(base + (std::size_t{900} << 20));
  root->more[1] = reinterpret_cast<gc_node*>(~std::uintptr_t{0});
  root->more[2] = reinterpret_cast<gc_node*>(NVM_WINDOW_BASE + (std::uint64_t{1} << (NVM_WINDOW_BITS - 1)));
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, root), 0);
  const nvm_gc_report r = collect(pool);
  EXPECT_EQ(r.pointers, 5U);
  EXPECT_EQ(r.stray_pointers, 2U);
  EXPECT_EQ(r.foreign_pointers, 3U);
  EXPECT_EQ(r.garbage_objects, 0U);
  const std::vector<nvm_gc_pointer> told = pointers_told(pool, 0);
  ASSERT_EQ(told.size(), 5U);
  constexpr nvm_gc_place places[] = {NVM_GC_NO_OBJECT, NVM_GC_ELSEWHERE, NVM_GC_NO_OBJECT, NVM_GC_ELSEWHERE,
                                     NVM_GC_OTHER_POOL};
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].object, root);
    EXPECT_EQ(told[i].type, gc_node_id);
    EXPECT_EQ(told[i].at, 16 + 8 * i);
    EXPECT_EQ(told[i].value, reinterpret_cast<std::uintptr_t>((&root->left)[i]));
    EXPECT_EQ(told[i].place, static_cast<std::uint32_t>(places[i])) << i;
    EXPECT_EQ(told[i].guessed, 0U);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, words_of_unknown_types_are_guessed_where_that_is_asked_for) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* kept = g.make();
  (void)g.make();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto** odd = static_cast<void**>(nvm_calloc(pool, 77, 6, 8));
  ASSERT_NE(odd, nullptr);
  odd[0] = kept;
  odd[1] = reinterpret_cast<void*>(0x1234);  // a number
  odd[2] = reinterpret_cast<void*>(0x7F00'0000'1000);
  odd[3] = reinterpret_cast<void*>(NVM_WINDOW_BASE + (std::uint64_t{1} << (NVM_WINDOW_BITS - 1)));
  odd[4] = &odd[5];
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, odd), 0);
  const std::vector<nvm_gc_pointer> told = pointers_told(pool, 2);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].at, 16U);
  EXPECT_EQ(told[0].place, static_cast<std::uint32_t>(NVM_GC_ELSEWHERE));
  EXPECT_EQ(told[1].at, 24U);
  EXPECT_EQ(told[1].place, static_cast<std::uint32_t>(NVM_GC_OTHER_POOL));
  EXPECT_EQ(told[0].guessed + told[1].guessed, 2U);
  EXPECT_TRUE(pointers_told(pool, 1).empty());
  const nvm_gc_report r = collect(pool, with(&nvm_gc_options::untyped, 2));
  EXPECT_EQ(r.reachable_objects, 2U);
  EXPECT_EQ(r.freed_objects, 1U);
  EXPECT_EQ(r.foreign_pointers, 0U) << "a guess that leads out of the pool is none";
  (void)refused(pool, NVM_E_INVALID, with(&nvm_gc_options::untyped, 3));
  nvm_gc_options o = with(&nvm_gc_options::beside);
  o.untyped = 2;
  (void)refused(pool, NVM_E_INVALID, o);
  o = with(&nvm_gc_options::beside);
  o.pointer = [](const nvm_gc_pointer*, void*) {};
  (void)refused(pool, NVM_E_INVALID, o);
  o.beside = 0;
  o.conservative = 1;
  (void)refused(pool, NVM_E_INVALID, o);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, the_check_notes_such_values_and_finds_no_damage) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* root = g.make(2);
  gc_node* gone = g.make();
  (void)g.make();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_free(pool, gone), 0);
  ASSERT_EQ(nvm_tx_log(root, sizeof *root + 16), 0);
  root->more[1] = gone;
  root->right = reinterpret_cast<gc_node*>(0x1234);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, root), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  std::string notes;
  nvm_check_options o{};
  o.argument = &notes;
  o.note = [](std::uint64_t, const char* text, void* to) {
    *static_cast<std::string*>(to) += std::string{text} + "\n";
  };
  nvm_check_summary s{};
  EXPECT_EQ(nvm_pool_check_with(place_.path().c_str(), &o, &s), 0) << nvm_errormsg();
  if (is_log(GetParam())) return;  // its objects are not looked at in place
  EXPECT_EQ(s.stray_pointers, 1U);
  EXPECT_EQ(s.foreign_pointers, 1U);
  EXPECT_EQ(s.garbage_objects, 1U);
  EXPECT_NE(notes.find("gc_node.right of the object at offset"), std::string::npos) << notes;
  EXPECT_NE(notes.find("leads to address 0x1234, which is not in the pool"), std::string::npos) << notes;
  EXPECT_NE(notes.find("gc_node.more[1]"), std::string::npos) << notes;
  EXPECT_NE(notes.find(", where no object is"), std::string::npos) << notes;
}

TEST_P(gc, conservatively_every_word_may_be_a_pointer) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto** a = static_cast<void**>(nvm_calloc(pool, 5, 4, 8));  // of no described type
  auto** b = static_cast<void**>(nvm_calloc(pool, 6, 4, 8));
  ASSERT_NE(nvm_calloc(pool, 7, 4, 8), nullptr);
  a[3] = b + 2;
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, a), 0);
  const nvm_gc_report r = collect(pool, with(&nvm_gc_options::conservative));
  EXPECT_EQ(r.reachable_objects, 2U);
  EXPECT_EQ(r.freed_objects, 1U);
  EXPECT_EQ(nvm_size_of(pool, b), 32U);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, a_long_list_dies_without_recursion_and_stores_stay) {
  NVM_POOL* pool = place_.create("pool", std::size_t{64} << 20);
  ASSERT_NE(pool, nullptr);
  nvm_kv_options o{};
  nvm_kv* store = nvm_kv_open(pool, "store", &o);
  ASSERT_NE(store, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_put(store, "key", 3, "value", 5), 0) << nvm_errormsg();
  gc_node* first = nullptr;
  constexpr unsigned length = 30000;
  for (unsigned i = 0; i < length;) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (unsigned k = 0; k < 500; ++k, ++i) {
      auto* n = static_cast<gc_node*>(nvm_calloc(pool, gc_node_id, 1, sizeof(gc_node)));
      ASSERT_NE(n, nullptr) << nvm_errormsg();
      n->left = first;
      first = n;
    }
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_set_root(pool, first), 0);
  EXPECT_EQ(collect(pool).reachable_objects, length);
  ASSERT_EQ(nvm_pool_set_root(pool, nullptr), 0);
  std::string told;
  nvm_gc_options options{};
  options.ways = 1;
  options.argument = &told;
  options.type = [](const nvm_gc_type* t, void* to) {
    *static_cast<std::string*>(to) += std::to_string(t->type == gc_node_id) + " " + std::to_string(t->objects) + " " +
                                      std::to_string(t->unlinked) + " " + std::to_string(t->steps);
  };
  const nvm_gc_report r = collect(pool, options);
  EXPECT_EQ(told, "1 30000 1 1");
  EXPECT_EQ(r.freed_objects, length);
  EXPECT_EQ(r.transactions, (length + 255) / 256);
  char value[8] = {};
  std::size_t bytes = 0;
  EXPECT_EQ(nvm_kv_get(store, "key", 3, value, sizeof value, &bytes), 1) << nvm_errormsg();
  EXPECT_EQ(bytes, 5U);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, tells_the_shortest_way_that_once_led_to_each_type) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  g.set_root(g.make());
  gc_node* head = g.make(3);
  gc_node* middle = g.make();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto* leaf = static_cast<char*>(nvm_calloc(pool, gc_bytes_id, 1, 100));
  ASSERT_NE(leaf, nullptr);
  ASSERT_EQ(nvm_tx_log(&middle->right, 8), 0);
  middle->right = reinterpret_cast<gc_node*>(leaf + 40);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  g.link(head, 4, middle);
  struct told {
    std::vector<std::vector<nvm_gc_step>> ways;
    std::vector<nvm_gc_type> types;
  } t;
  nvm_gc_options o{};
  o.dry_run = o.ways = 1;
  o.argument = &t;
  o.type = [](const nvm_gc_type* garbage, void* to) {
    auto* all = static_cast<told*>(to);
    all->types.push_back(*garbage);
    all->ways.emplace_back(garbage->way, garbage->way + garbage->steps);
  };
  EXPECT_EQ(collect(pool, o).garbage_objects, 3U);
  ASSERT_EQ(t.types.size(), 2U);
  const std::size_t bytes = t.types[0].type == gc_bytes_id ? 0 : 1;
  EXPECT_EQ(t.types[bytes].bytes, 100U);
  EXPECT_EQ(t.types[bytes].unlinked, 0U);
  EXPECT_EQ(t.types[1 - bytes].unlinked, 1U);
  ASSERT_EQ(t.ways[bytes].size(), 3U);
  EXPECT_EQ(t.ways[bytes][0].object, head);
  EXPECT_EQ(t.ways[bytes][0].pointer, offsetof(gc_node, more) + 16);
  EXPECT_EQ(t.ways[bytes][1].object, middle);
  EXPECT_EQ(t.ways[bytes][1].pointer, offsetof(gc_node, right));
  EXPECT_EQ(t.ways[bytes][2].object, leaf);
  ASSERT_EQ(t.ways[1 - bytes].size(), 1U);
  EXPECT_EQ(t.ways[1 - bytes][0].object, head);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST_P(gc, holds_are_counted_and_found_again) {
  NVM_POOL* pool = place_.create();
  ASSERT_NE(pool, nullptr);
  gc_graph g{pool};
  gc_node* a = g.make(600);
  gc_node* b = g.make();
  g.link(a, 0, b);
  EXPECT_EQ(nvm_object_around(pool, &a->more[599]), a);
  EXPECT_EQ(nvm_object_around(pool, &a->more[600]), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  int local = 0;
  EXPECT_EQ(nvm_object_around(pool, &local), nullptr);
  EXPECT_EQ(nvm_hold(&local), -1);
  EXPECT_EQ(nvm_drop(b), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_hold(nullptr), 0);
  {
    held<gc_node> h{a};
    ASSERT_TRUE(h) << nvm_errormsg();
    held<gc_node> copy{h};
    h = nullptr;
    EXPECT_EQ(nvm_hold(&copy->more[3]), 0) << nvm_errormsg();
    EXPECT_EQ(collect(pool).freed_objects, 0U);
  }
  EXPECT_EQ(collect(pool).held_objects, 1U);
  EXPECT_EQ(nvm_drop(a), 0) << nvm_errormsg();
  EXPECT_EQ(collect(pool).freed_objects, 2U);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

TEST(gc_engines, collects_on_engines_that_take_barriers_only) {
  know_gc_types();
  const scratch place{pool_kind::shm};
  for (const auto engine : {NVM_ENGINE_REDO, NVM_ENGINE_MNEMOSYNE, NVM_ENGINE_MNEMOSYNE_UNDO}) {
    nvm_pool_options o{};
    o.size = std::size_t{4} << 20;
    o.medium = direct_medium();
    o.engine = static_cast<std::uint32_t>(engine);
    const std::string path = place.path(std::to_string(engine).c_str());
    NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    const auto fill = [](nvm_stm* tx, void*) {
      gc_node* first = nullptr;
      for (unsigned i = 0; i < 1000; ++i) {
        auto* n = static_cast<gc_node*>(nvm_stm_alloc(tx, gc_node_id, sizeof(gc_node)));
        if (n == nullptr) return -1;
        nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&n->left),
                        i % 100 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(first));
        nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(&n->right), 0);
        first = n;
      }
      return nvm_stm_set_root(tx, first);
    };
    ASSERT_EQ(nvm_stm_run(pool, fill, nullptr), 0) << nvm_errormsg();
    const nvm_gc_report r = collect(pool);
    EXPECT_EQ(r.reachable_objects, 100U);
    EXPECT_EQ(r.freed_objects, 900U);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    nvm_check_summary s{};
    EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, &s), 0) << nvm_errormsg();
    EXPECT_EQ(s.objects, 100U);
  }
}

}  // namespace
}  // namespace nvm::tests
