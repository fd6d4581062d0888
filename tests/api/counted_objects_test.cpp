// Reference counts where it is hard: memory that had another use, changes of size, full pools, rings that are read one
// after the other, object stores.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../sanitized.hpp"
#include "api/pool_object.hpp"
#include "gc_graph.hpp"
#include "nvm/gc.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "platform/threads.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

nvm_settle_report settle_now(NVM_POOL* pool) {
  nvm_settle_report r{};
  EXPECT_EQ(nvm_settle(pool, &r), 0) << nvm_errormsg();
  return r;
}
std::uint32_t strong(const void* p) {
  nvm_reference_counts c{};
  EXPECT_EQ(nvm_references(p, &c), 0) << nvm_errormsg();
  return c.strong;
}
std::string check_of(const std::string& path) {
  std::string all;
  const auto add = [](std::uint64_t, const char* text, void* to) { *static_cast<std::string*>(to) += text; };
  EXPECT_GE(nvm_pool_check(path.c_str(), add, &all, nullptr), 0) << nvm_errormsg();
  return all;
}
void store_to(gc_node** word, gc_node* to) {
  ASSERT_EQ(nvm_tx_log(word, sizeof *word), 0) << nvm_errormsg();
  *word = to;
}
gc_node* new_node(NVM_POOL* pool, std::size_t links = 0) {
  auto* n = static_cast<gc_node*>(nvm_calloc(pool, gc_node_id, 1, sizeof(gc_node) + links * sizeof(gc_node*)));
  EXPECT_NE(n, nullptr) << nvm_errormsg();
  return n;
}
// A root with that many links.
gc_node* new_root(NVM_POOL* pool, std::size_t links) {
  EXPECT_EQ(nvm_tx_begin(pool), 0);
  gc_node* const root = new_node(pool, links);
  EXPECT_EQ(nvm_pool_set_root(pool, root), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  return root;
}
template <class Body>
void in_tx(NVM_POOL* pool, Body&& body) {
  ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
  body();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}
// Makes `n` objects of a size live and die again: what they have left lies in free memory.
void leave_pointers_to(NVM_POOL* pool, gc_node* root, gc_node* x, std::size_t n, std::size_t links) {
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(root->more, n * sizeof(gc_node*)), 0);
    for (std::size_t i = 0; i < n; ++i) {
      gc_node* const a = new_node(pool, links);
      std::fill_n(a->more, links, x);
      root->more[i] = a;
    }
  });
  settle_now(pool);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(root->more, n * sizeof(gc_node*)), 0);
    std::fill_n(root->more, n, nullptr);
  });
  EXPECT_EQ(settle_now(pool).freed_objects, n);
}

class counted_objects : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { know_gc_types(); }
  NVM_POOL* create(std::size_t size = std::size_t{16} << 20, std::size_t capacity = 0) {
    nvm_pool_options o{};
    o.size = size;
    o.capacity = capacity;
    o.collect = NVM_COLLECT_AT_REST;
    choose(o, GetParam());
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
  void close(NVM_POOL* pool) {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(check_of(place_.path()), "");
  }
  // Until nothing more fits.
  void fill(NVM_POOL* pool, gc_node* list) {
    for (std::size_t size = std::size_t{1} << 20; size >= 64; size /= 2) {
      for (bool fits = true; fits;) {
        ASSERT_EQ(nvm_tx_begin(pool), 0);
        void* const bytes = nvm_alloc(pool, gc_bytes_id, size);
        auto* n = bytes == nullptr ? nullptr : static_cast<gc_node*>(nvm_calloc(pool, gc_node_id, 1, sizeof(gc_node)));
        if (n == nullptr) {
          (void)nvm_tx_abort(pool);
          break;
        }
        n->left = static_cast<gc_node*>(bytes);
        n->right = list->right;
        store_to(&list->right, n);
        fits = nvm_tx_commit(pool) == 0;
      }
    }
  }
  scratch place_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(kinds, counted_objects, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

// ---- memory that had another use -----------------------------------------------------------------------------------

TEST_P(counted_objects, fields_that_are_not_written_yet_refer_to_nothing) {
  constexpr std::size_t n = 40;
  constexpr std::size_t links = 6;
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, n + 1);
  in_tx(pool, [&] { store_to(&root->more[n], new_node(pool)); });
  gc_node* const x = root->more[n];
  leave_pointers_to(pool, root, x, n, links);
  EXPECT_EQ(strong(x), 1U);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(root->more, n * sizeof(gc_node*)), 0);
    for (std::size_t i = 0; i < n; ++i) {
      auto* a = static_cast<gc_node*>(nvm_alloc(pool, gc_node_id, sizeof(gc_node) + links * sizeof(gc_node*)));
      ASSERT_NE(a, nullptr) << nvm_errormsg();
      EXPECT_EQ(std::count(a->more, a->more + links, nullptr), static_cast<std::ptrdiff_t>(links));
      root->more[i] = a;
    }
  });
  EXPECT_EQ(settle_now(pool).drifted_counts, 0U);
  EXPECT_EQ(strong(x), 1U);
  // Each is written later.
  in_tx(pool, [&] {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t l = 0; l < links; ++l) store_to(&root->more[i]->more[l], x);
    }
  });
  EXPECT_EQ(settle_now(pool).freed_objects, 0U);
  EXPECT_EQ(strong(x), 1U + n * links);
  close(pool);
}

TEST_P(counted_objects, an_object_that_grows_or_shrinks_in_place_refers_to_what_it_has) {
  constexpr std::size_t n = 40;
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, n + 1);
  in_tx(pool, [&] { store_to(&root->more[n], new_node(pool)); });
  gc_node* const x = root->more[n];
  leave_pointers_to(pool, root, x, n, 2);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(root->more, n * sizeof(gc_node*)), 0);
    for (std::size_t i = 0; i < n; ++i) root->more[i] = new_node(pool);
  });
  settle_now(pool);
  constexpr std::size_t bytes = sizeof(gc_node) + 2 * sizeof(gc_node*);
  std::size_t in_place = 0;
  in_tx(pool, [&] {
    for (std::size_t i = 0; i < n; ++i) {
      auto* const grown = static_cast<gc_node*>(nvm_realloc(pool, root->more[i], gc_node_id, bytes));
      ASSERT_NE(grown, nullptr) << nvm_errormsg();
      in_place += grown == root->more[i] ? 1 : 0;
      store_to(&root->more[i], grown);
      store_to(&grown->more[0], x);  // the other is not written
    }
  });
  const nvm_settle_report grew = settle_now(pool);
  EXPECT_EQ(grew.freed_objects, n - in_place);
  EXPECT_EQ(grew.drifted_counts, 0U);
  EXPECT_EQ(strong(x), 1U + n);
  in_tx(pool, [&] {
    for (std::size_t i = 0; i < n; ++i) {
      auto* const cut = static_cast<gc_node*>(nvm_realloc(pool, root->more[i], gc_node_id, sizeof(gc_node)));
      ASSERT_NE(cut, nullptr) << nvm_errormsg();
      store_to(&root->more[i], cut);
    }
  });
  EXPECT_EQ(settle_now(pool).drifted_counts, 0U);
  EXPECT_EQ(strong(x), 1U);
  // Bytes from now on.
  in_tx(pool, [&] {
    store_to(&root->more[0]->left, x);
    store_to(&root->more[1]->left, x);
    ASSERT_EQ(nvm_realloc(pool, root->more[0], gc_bytes_id, sizeof(gc_node)), root->more[0]) << nvm_errormsg();
  });
  settle_now(pool);
  EXPECT_EQ(strong(x), 2U);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_realloc(pool, root->more[1], gc_bytes_id, sizeof(gc_node)), root->more[1]) << nvm_errormsg();
  });
  settle_now(pool);
  EXPECT_EQ(strong(x), 1U);
  close(pool);
}

// ---- full pools ----------------------------------------------------------------------------------------------------

// A log that is full takes no transaction at all.
constexpr pool_kind kinds_in_place[] = {pool_kind::shm, pool_kind::ssd};
class counted_in_full_pools : public counted_objects {};
INSTANTIATE_TEST_SUITE_P(kinds, counted_in_full_pools, testing::ValuesIn(kinds_of_build(kinds_in_place)), name_of);

TEST_P(counted_in_full_pools, in_a_full_pool_are_unlinked_counted_and_freed) {
  constexpr std::size_t n = 3000;
  NVM_POOL* pool = create(std::size_t{64} << 20, std::size_t{64} << 20);
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, n);
  for (std::size_t i = 0; i < n;) {
    in_tx(pool, [&] {
      ASSERT_EQ(nvm_tx_log(&root->more[i], 50 * sizeof(gc_node*)), 0);
      for (std::size_t k = 0; k < 50; ++k, ++i) root->more[i] = new_node(pool);
    });
  }
  settle_now(pool);
  fill(pool, root);
  for (std::size_t i = 0; i < n; ++i) in_tx(pool, [&] { store_to(&root->more[i], nullptr); });
  const nvm_settle_report r = settle_now(pool);
  EXPECT_EQ(r.waiting_objects + r.drifted_counts, 0U);
  // Also by an open that counts anew.
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = open(NVM_COLLECT_OFF);
  ASSERT_NE(pool, nullptr);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = open();
  ASSERT_NE(pool, nullptr);
  close(pool);
}

TEST_P(counted_in_full_pools, in_a_full_pool_garbage_is_collected_without_room) {
  constexpr std::size_t n = 2000;
  NVM_POOL* pool = create(std::size_t{8} << 20, std::size_t{8} << 20);
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, 0);
  for (std::size_t i = 0; i < n; i += 20) {
    in_tx(pool, [&] {
      for (std::size_t k = 0; k < 20; ++k) {
        gc_node* const ring = new_node(pool);
        ring->left = ring;
        ring->right = root;
      }
    });
  }
  settle_now(pool);
  fill(pool, root);
  nvm_gc_report r{};
  ASSERT_EQ(nvm_gc(pool, nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, n);
  close(pool);
}

TEST_P(counted_in_full_pools, records_that_rings_have_no_room_for_go_with_the_rings) {
  constexpr std::size_t links = 20000;
  std::vector<std::uint64_t> used;
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      NVM_POOL* pool = round == 0 ? create() : open();
      if (pool == nullptr) _exit(1);
      gc_node* root = round == 0 ? new_root(pool, links) : static_cast<gc_node*>(nvm_pool_get_root(pool));
      if (nvm_tx_begin(pool) != 0 || nvm_tx_log(root->more, links * sizeof(gc_node*)) != 0) _exit(2);
      std::fill_n(root->more, links, new_node(pool));
      _exit(nvm_tx_commit(pool) == 0 ? 0 : 3);
    }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_EQ(state, 0);
    NVM_POOL* pool = open(NVM_COLLECT_OFF);
    ASSERT_NE(pool, nullptr);
    ASSERT_EQ(nvm_gc(pool, nullptr, nullptr), 0) << nvm_errormsg();
    nvm_pool_info info{};
    ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
    used.push_back(info.used_pages);
    close(pool);
  }
  EXPECT_LE(used[2], used[1] + 4) << "first " << used[0];
}

// ---- objects that are looked at whole ------------------------------------------------------------------------------

// Its visitor tells which words are pointers; `first` and `second` are two threads'.
struct gc_pair {
  std::uint64_t has_first;
  gc_node* first;
  gc_node* second;
};
constexpr std::uint32_t gc_pair_id = layout::type_id_of("gc_pair");
std::function<void()> in_visitor;  // of the next visit

void visit_pair(const void* object, nvm_visit* visit) {
  const auto* const o = static_cast<const gc_pair*>(object);
  if (o->has_first != 0) nvm_visit_field(visit, &o->first, NVM_FIELD_POINTER);
  nvm_visit_field(visit, &o->second, NVM_FIELD_POINTER);
  if (in_visitor) std::exchange(in_visitor, nullptr)();
}
void know_pairs() {
  static const bool known = [] {
    type_map_writer w;
    w.add({"gc_pair", 24, 8, {field("all", 0, layout::field_kind::by_visitor, 24, 1, gc_pair_id)}});
    const auto words = w.finish();
    return nvm_register_visitor(gc_pair_id, visit_pair) == 0 && nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}

TEST_P(counted_objects, a_field_that_another_thread_stores_to_meanwhile_is_counted_by_that_thread) {
  know_pairs();
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, 3);
  gc_pair* pair = nullptr;
  in_tx(pool, [&] {
    for (std::size_t i = 0; i < 2; ++i) store_to(&root->more[i], new_node(pool));
    pair = static_cast<gc_pair*>(nvm_calloc(pool, gc_pair_id, 1, sizeof(gc_pair)));
    ASSERT_NE(pair, nullptr) << nvm_errormsg();
    pair->second = root->more[0];
    store_to(&root->more[2], reinterpret_cast<gc_node*>(pair));
  });
  settle_now(pool);
  ASSERT_EQ(strong(root->more[0]), 2U);
  std::atomic<int> step{0};
  const auto go_to = [&](int n) {
    step = n;
    step.notify_all();
  };
  std::thread other{[&] {
    in_tx(pool, [&] {
      ASSERT_EQ(nvm_tx_log(&pair->second, sizeof pair->second), 0) << nvm_errormsg();
      go_to(1);
      step.wait(1);
      pair->second = nullptr;
      go_to(3);
    });
  }};
  step.wait(0);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(pair, offsetof(gc_pair, second)), 0) << nvm_errormsg();
    pair->has_first = 1;
    pair->first = root->more[1];
    in_visitor = [&] {
      go_to(2);
      step.wait(2);
    };
  });
  EXPECT_FALSE(in_visitor);
  other.join();
  EXPECT_EQ(settle_now(pool).drifted_counts, 0U);
  EXPECT_EQ(nvm_object_around(pool, root->more[0]), root->more[0]);
  EXPECT_EQ(strong(root->more[0]), 1U);
  EXPECT_EQ(strong(root->more[1]), 2U);
  close(pool);
}

// ---- weak pointers where threads are busy ---------------------------------------------------------------------------

struct gc_weak {
  gc_node* to;
};
constexpr std::uint32_t gc_weak_id = layout::type_id_of("gc_weak");
void know_weak() {
  static const bool known = [] {
    type_map_writer w;
    w.add({"gc_weak", 8, 8, {field("to", 0, layout::field_kind::weak_pointer, 8, 1, gc_node_id)}});
    const auto words = w.finish();
    return nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}

TEST_P(counted_objects, that_died_are_forgotten_beside_a_transaction_that_ends_soon) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  know_weak();
  NVM_POOL* pool = create();
  ASSERT_NE(pool, nullptr);
  gc_node* const root = new_root(pool, 1);
  gc_weak* watcher = nullptr;
  in_tx(pool, [&] {
    watcher = static_cast<gc_weak*>(nvm_calloc(pool, gc_weak_id, 1, sizeof(gc_weak)));
    ASSERT_NE(watcher, nullptr) << nvm_errormsg();
    store_to(&root->more[0], reinterpret_cast<gc_node*>(watcher));
  });
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = open(NVM_COLLECT_BACKGROUND);
  ASSERT_NE(pool, nullptr);
  gc_node* const top = static_cast<gc_node*>(nvm_pool_get_root(pool));
  watcher = reinterpret_cast<gc_weak*>(top->more[0]);
  // A thread that waits for a processor takes longer than nvm_settle() waits for it.
  std::uint64_t cleared = 0;
  for (unsigned tries = 0; tries < 8 && cleared == 0; ++tries) {
    in_tx(pool, [&] {
      store_to(&top->left, new_node(pool));
      store_to(&watcher->to, top->left);
    });
    in_tx(pool, [&] { store_to(&top->left, nullptr); });
    std::atomic<bool> begun{false}, is_over{false};
    std::thread brief{[&] {
      in_tx(pool, [&] {
        begun = true;
        while (!pool->paused && !is_over) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      });
    }};
    while (!begun) std::this_thread::yield();
    cleared += settle_now(pool).cleared_pointers;
    is_over = true;
    brief.join();
  }
  EXPECT_GT(cleared, 0U);
  close(pool);
}

// ---- object stores -------------------------------------------------------------------------------------------------

class counted_stores : public counted_objects {
 protected:
  void SetUp() override {
    counted_objects::SetUp();
    pool_ = create();
    ASSERT_NE(pool_, nullptr);
    root_ = new_root(pool_, 4);
    attach(NVM_STORE_CREATE);
  }
  void attach(unsigned how = 0) {
    store_ = nvm_store_attach(pool_, "tenant", how);
    ASSERT_NE(store_, nullptr) << nvm_errormsg();
  }
  gc_node* in_store(std::size_t links = 0) {
    auto* n =
        static_cast<gc_node*>(nvm_store_calloc(store_, gc_node_id, 1, sizeof(gc_node) + links * sizeof(gc_node*)));
    EXPECT_NE(n, nullptr) << nvm_errormsg();
    return n;
  }
  NVM_POOL* pool_ = nullptr;
  gc_node* root_ = nullptr;
  nvm_store* store_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(kinds, counted_stores, testing::ValuesIn(kinds_of_build(kinds_in_place)), name_of);

TEST_P(counted_stores, objects_are_kept_by_the_root_of_their_store_alone) {
  gc_node* head = nullptr;
  in_tx(pool_, [&] {
    head = in_store();
    head->left = in_store();
    head->left->left = head;
    ASSERT_EQ(nvm_store_set_root(store_, head), 0) << nvm_errormsg();
    store_to(&root_->more[0], head->left);
  });
  settle_now(pool_);
  nvm_reference_counts c{};
  EXPECT_EQ(nvm_references(head, &c), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
  in_tx(pool_, [&] {
    store_to(&head->left->left, nullptr);
    store_to(&root_->more[0], nullptr);
  });
  EXPECT_EQ(settle_now(pool_).freed_objects, 0U);
  EXPECT_EQ(nvm_object_around(pool_, head), head);
  // What hangs from no root is collected with its store, and freed at once where the program says so.
  gc_node* const rest = head->left;
  in_tx(pool_, [&] { store_to(&head->left, nullptr); });
  nvm_store_gc_report r{};
  ASSERT_EQ(nvm_store_gc(pool_, "tenant", nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 1U);
  EXPECT_EQ(nvm_object_around(pool_, rest), nullptr);
  in_tx(pool_, [&] {
    ASSERT_EQ(nvm_store_set_root(store_, nullptr), 0);
    ASSERT_EQ(nvm_free(pool_, head), 0) << nvm_errormsg();
  });
  EXPECT_EQ(nvm_object_around(pool_, head), nullptr);
  ASSERT_EQ(nvm_store_detach(store_), 0);
  close(pool_);
}

TEST_P(counted_stores, records_do_not_outlive_a_detach_or_a_deletion) {
  gc_node* head = nullptr;
  in_tx(pool_, [&] {
    head = in_store();
    head->left = in_store();
    ASSERT_EQ(nvm_store_set_root(store_, head), 0) << nvm_errormsg();
  });
  in_tx(pool_, [&] {
    store_to(&head->right, head->left);
    store_to(&root_->more[0], head->left);
  });
  ASSERT_EQ(nvm_store_detach(store_), 0);
  settle_now(pool_);
  attach();
  in_tx(pool_, [&] {
    store_to(&head->left, nullptr);
    store_to(&root_->more[0], nullptr);
  });
  settle_now(pool_);
  EXPECT_EQ(nvm_object_around(pool_, head->right), head->right);
  in_tx(pool_, [&] { store_to(&head->right, nullptr); });
  ASSERT_EQ(nvm_store_detach(store_), 0);
  ASSERT_EQ(nvm_store_delete(pool_, "tenant"), 0) << nvm_errormsg();
  // The pool's own objects take the pages.
  constexpr std::size_t n = 2000;
  gc_node* many = nullptr;
  in_tx(pool_, [&] {
    many = new_node(pool_, n);
    for (std::size_t i = 0; i < n; ++i) many->more[i] = new_node(pool_);
    store_to(&root_->more[1], many);
  });
  const nvm_settle_report r = settle_now(pool_);
  EXPECT_EQ(r.freed_objects + r.drifted_counts, 0U);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(nvm_object_around(pool_, many->more[i]), many->more[i]) << i;
  close(pool_);
}

TEST_P(counted_stores, what_a_deleted_store_referred_to_goes_after_the_next_open) {
  in_tx(pool_, [&] {
    gc_node* const head = in_store();
    ASSERT_EQ(nvm_store_set_root(store_, head), 0);
    head->left = new_node(pool_);
    store_to(&root_->more[0], head->left);
  });
  gc_node* const x = root_->more[0];
  settle_now(pool_);
  EXPECT_EQ(strong(x), 2U);
  ASSERT_EQ(nvm_store_detach(store_), 0);
  ASSERT_EQ(nvm_store_delete(pool_, "tenant"), 0) << nvm_errormsg();
  in_tx(pool_, [&] { store_to(&root_->more[0], nullptr); });
  EXPECT_EQ(settle_now(pool_).freed_objects, 0U);
  ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
  EXPECT_EQ(check_of(place_.path()), "");
  pool_ = open();
  ASSERT_NE(pool_, nullptr);
  nvm_gc_report r{};
  ASSERT_EQ(nvm_gc(pool_, nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.mended_counts, 0U);
  close(pool_);
}

TEST_P(counted_stores, an_object_that_hangs_from_no_root_keeps_what_it_refers_to) {
  gc_node* alone = nullptr;
  in_tx(pool_, [&] {
    alone = in_store();
    alone->left = new_node(pool_);
    alone->left->left = new_node(pool_);
  });
  nvm_gc_report r{};
  ASSERT_EQ(nvm_gc(pool_, nullptr, &r), 0) << nvm_errormsg();
  EXPECT_EQ(r.freed_objects, 0U);
  EXPECT_EQ(nvm_object_around(pool_, alone->left->left), alone->left->left);
  ASSERT_EQ(nvm_store_detach(store_), 0);
  close(pool_);
}

// ---- rings that are read one after the other -----------------------------------------------------------------------

// Each half of the records is more than one transaction of the library applies.
TEST(counted_rings, a_count_that_is_paid_from_another_ring_does_not_drift) {
  know_gc_types();
  constexpr std::size_t n = 3000;
  const scratch place{pool_kind::shm};
  nvm_pool_options o{};
  o.size = std::size_t{1} << 30;
  o.collect = NVM_COLLECT_AT_REST;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  gc_node* const root = new_root(pool, 2 * n);
  const auto produce = [&](std::size_t from) {
    for (std::size_t i = from; i < from + n; ++i) in_tx(pool, [&] { store_to(&root->more[i], new_node(pool)); });
  };
  const auto consume = [&](std::size_t from) {
    for (std::size_t i = from; i < from + n; ++i) in_tx(pool, [&] { store_to(&root->more[i], nullptr); });
  };
  std::atomic<int> step{0};
  std::thread other{[&] {
    produce(0);
    step = 1;
    step.notify_all();
    step.wait(1);
    consume(n);
  }};
  step.wait(0);
  consume(0);
  produce(n);
  step = 2;
  step.notify_all();
  other.join();
  const nvm_settle_report r = settle_now(pool);
  EXPECT_EQ(r.drifted_counts, 0U);
  EXPECT_EQ(r.freed_objects, 2 * n);
  EXPECT_EQ(r.waiting_objects, 0U);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(check_of(place.path()), "");
}

// Objects that only dying ones refer to are freed with them where no transaction is open.  One begins meanwhile.
TEST(counted_rings, a_transaction_keeps_what_it_has_read_while_families_die) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "the system has no membarrier";
  know_gc_types();
  constexpr std::size_t n = 20000;
  constexpr std::size_t tail = 200;
  const scratch place{pool_kind::shm};
  nvm_pool_options o{};
  o.size = std::size_t{64} << 20;
  o.collect = NVM_COLLECT_BACKGROUND;
  o.emulation.fence_ns = 20000;
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  gc_node* const top = new_root(pool, 0);
  in_tx(pool, [&] {
    store_to(&top->left, new_node(pool, n));
    store_to(&top->right, new_node(pool, n));
  });
  gc_node* const parents = top->left;
  gc_node* const all = top->right;
  for (std::size_t i = 0; i < n;) {
    in_tx(pool, [&] {
      ASSERT_EQ(nvm_tx_log(&parents->more[i], 100 * sizeof(gc_node*)), 0);
      ASSERT_EQ(nvm_tx_log(&all->more[i], 100 * sizeof(gc_node*)), 0);
      for (std::size_t k = 0; k < 100; ++k, ++i) {
        all->more[i] = new_node(pool);
        parents->more[i] = new_node(pool, 1);
        parents->more[i]->left = parents->more[i]->right = parents->more[i]->more[0] = all->more[i];
      }
    });
  }
  settle_now(pool);
  const std::vector<gc_node*> dying{parents->more[0], parents->more[n - 1]};
  const auto is_there = [&](gc_node* p) { return nvm_object_around(pool, p) != nullptr; };
  std::atomic<int> step{0};
  std::thread reader{[&] {
    step.wait(0);
    in_tx(pool, [&] {
      const std::vector<gc_node*> mine{all->more + n - tail, all->more + n};
      step = 2;
      step.notify_all();
      step.wait(2);
      while (is_there(dying[1])) std::this_thread::yield();
      EXPECT_EQ(std::count_if(mine.begin(), mine.end(), is_there), static_cast<std::ptrdiff_t>(tail));
    });
  }};
  in_tx(pool, [&] { store_to(&top->left, nullptr); });
  while (is_there(dying[0])) std::this_thread::yield();  // the frees have begun
  step = 1;
  step.notify_all();
  step.wait(1);
  in_tx(pool, [&] {
    ASSERT_EQ(nvm_tx_log(&all->more[n - tail], tail * sizeof(gc_node*)), 0);
    std::fill_n(&all->more[n - tail], tail, nullptr);
  });
  step = 3;
  step.notify_all();
  reader.join();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(check_of(place.path()), "");
}

}  // namespace
}  // namespace nvm::tests
