// Lock-free structures inside of object stores: their pages and names are the store's; they come, go, and are refused
// with it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nvm/gc.h"
#include "store_structures.hpp"

namespace nvm::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(everywhere, structures_in_store, testing::ValuesIn(grounds()), name_of_ground);

TEST_P(structures_in_store, have_names_of_their_own_and_all_memory_in_its_pages) {
  nvm_store* const a = attached("a");
  nvm_store* const b = attached("b");
  const std::uint64_t before = info("b").pages;
  nvm_lf* const in_a = opened(a, "same");
  nvm_lf* const in_b = opened(b, "same");
  nvm_lf_options o{};
  o.kind = GetParam().kind;
  nvm_lf* const of_pool = nvm_lf_open(pool_, "same", &o);
  ASSERT_NE(of_pool, nullptr) << nvm_errormsg();
  const std::uint64_t pages_of_b = info("b").pages;
  const model of_a = put(in_a, 900);
  EXPECT_EQ(info("b").pages, pages_of_b);
  EXPECT_GT(pages_of_b, before);
  EXPECT_GT(info("a").pages * info("a").page_bytes, 900U * 64);
  ASSERT_EQ(nvm_lf_put64(in_b, 1, 2, 0), 1);
  ASSERT_EQ(nvm_lf_put64(of_pool, 1, 3, 0), 1);
  std::uint64_t value = 0;
  ASSERT_EQ(nvm_lf_get64(in_b, 1, &value), 1);
  EXPECT_EQ(value, 2U);
  ASSERT_EQ(nvm_lf_get64(of_pool, 1, &value), 1);
  EXPECT_EQ(value, 3U);
  EXPECT_EQ(entries_of(in_a), of_a);
  EXPECT_EQ(nvm_lf_store_of(in_a), a);
  EXPECT_EQ(nvm_lf_store_of(of_pool), nullptr);
  EXPECT_EQ(names(a), std::set<std::string>{"same"});
  EXPECT_EQ(opened(a, "same", 1), in_a);
  for (nvm_lf* lf : {in_a, in_a, in_b}) EXPECT_EQ(nvm_lf_close(lf), 0);
  detach(a);
  detach(b);
}

TEST_P(structures_in_store, are_found_again_after_a_detach_and_after_the_pool_was_closed) {
  nvm_store* s = attached("home");
  nvm_lf* one = opened(s, "one");
  model all = put(one, 500);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(nvm_lf_remove64(one, i * 7919 % 100003), 1);
    all.erase(i * 7919 % 100003);
  }
  ASSERT_EQ(nvm_lf_close(one), 0);
  for (int round = 0; round < 3; ++round) {
    detach(s);
    if (round == 1) reopen();
    if (round == 2) {
      ASSERT_EQ(nvm_store_rename(pool_, "home", "house"), 0) << nvm_errormsg();
    }
    s = attached(round == 2 ? "house" : "home", 0);
    one = opened(s, "one", 1);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(entries_of(one), all) << round;
    std::uint64_t count = 0;
    EXPECT_EQ(nvm_lf_get_count(one, &count), 0);
    EXPECT_EQ(count, all.size());
    ASSERT_EQ(nvm_lf_put64(one, 200000U + static_cast<unsigned>(round), 1, 0), 1);
    all[200000U + static_cast<unsigned>(round)] = 1;
    ASSERT_EQ(nvm_lf_close(one), 0);
  }
  // The pool is closed with one open: later calls are refused.
  one = opened(s, "one", 1);
  close();
  EXPECT_EQ(nvm_lf_put64(one, 1, 1, 0), -1);
  open();
}

// Their links are made anew when they are opened, from nodes in pages of the store.
TEST_P(structures_in_store, with_volatile_links_are_found_again) {
  if (GetParam().kind == NVM_LF_TREE) GTEST_SKIP() << "the links of a tree are durable";
  nvm_store* s = attached("home");
  nvm_lf* one = opened(s, "one", 0, NVM_LF_VOLATILE_LINKS);
  model all = put(one, 300);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(nvm_lf_remove64(one, all.begin()->first), 1);
    all.erase(all.begin());
    ASSERT_EQ(nvm_lf_close(one), 0);
    detach(s);
    if (round == 1) reopen();
    s = attached("home", 0);
    one = opened(s, "one", 1, NVM_LF_VOLATILE_LINKS);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(entries_of(one), all) << round;
  }
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
}

TEST_P(structures_in_store, keep_it_from_being_detached_while_they_are_open) {
  nvm_store* s = attached("home");
  nvm_lf* one = opened(s, "one");
  (void)put(one, 10);
  EXPECT_EQ(nvm_store_detach(s), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_NE(std::string{nvm_errormsg()}.find("lock-free structure 'one' is open"), std::string::npos) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_enter(one), 0);
  ASSERT_EQ(nvm_lf_close(one), 0);
  EXPECT_EQ(nvm_store_detach(s), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_EQ(nvm_pool_close(pool_), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  ASSERT_EQ(nvm_lf_leave(one), 0) << nvm_errormsg();
  detach(s);
  EXPECT_EQ(nvm_lf_put64(one, 1, 1, 0), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_open_in(s, "one", nullptr), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  // Attached again, by the same thread: it has a number in what is open now.
  s = attached("home", 0);
  one = opened(s, "one", 1);
  EXPECT_EQ(entries_of(one).size(), 10U);
  ASSERT_EQ(nvm_lf_put64(one, 1, 1, 0), 1) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
}

TEST_P(structures_in_store, go_with_it_and_leave_nothing) {
  const auto free_pages = [&] {
    close();
    nvm_check_summary sum;
    EXPECT_EQ(nvm_pool_check(path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
    open();
    return sum.free_pages;
  };
  std::uint64_t after_first = 0;
  for (int round = 0; round < 3; ++round) {
    nvm_store* const s = attached("home");
    for (const char* name : {"one", "two"}) {
      nvm_lf* const lf = opened(s, name);
      (void)put(lf, 400);
      ASSERT_EQ(nvm_lf_close(lf), 0);
    }
    ASSERT_EQ(nvm_lf_drop_in(s, "two"), 0) << nvm_errormsg();
    EXPECT_EQ(names(s), std::set<std::string>{"one"});
    detach(s);
    ASSERT_EQ(nvm_store_delete(pool_, "home"), 0) << nvm_errormsg();
    const std::uint64_t now = free_pages();
    if (round == 0) after_first = now;
    EXPECT_EQ(now, after_first) << round;
  }
}

TEST_P(structures_in_store, take_no_more_than_its_quota_and_give_what_was_removed) {
  nvm_store_options o{};
  o.quota = 256 << 10;
  ASSERT_EQ(nvm_store_create(pool_, "small", &o), 0) << nvm_errormsg();
  nvm_store* const s = attached("small", 0);
  nvm_lf* const one = opened(s, "one");
  std::uint64_t full = 0;
  for (int round = 0; round < 3; ++round) {
    std::uint64_t i = 0;
    while (nvm_lf_put64(one, i * 7919 % 100003, i, 0) == 1) ++i;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    if (round == 0) full = i;
    EXPECT_GT(i, 500U);
    EXPECT_GE(i, full - full / 8) << round;
    EXPECT_EQ(entries_of(one).size(), i);
    for (std::uint64_t k = 0; k < i; ++k) ASSERT_EQ(nvm_lf_remove64(one, k * 7919 % 100003), 1) << k << nvm_errormsg();
  }
  EXPECT_LE(info("small").pages * info("small").page_bytes, std::uint64_t{256} << 10);
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
}

TEST_P(structures_in_store, are_out_of_reach_where_it_is_attached_read_only) {
  nvm_store* s = attached("home");
  nvm_lf* const one = opened(s, "one");
  const model all = put(one, 30);
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
  s = attached("home", NVM_STORE_READ_ONLY);
  EXPECT_EQ(nvm_lf_open_in(s, "one", nullptr), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_drop_in(s, "one"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  detach(s);
  s = attached("home");
  nvm_lf* const again = opened(s, "one", 1);
  EXPECT_EQ(entries_of(again), all);
  ASSERT_EQ(nvm_lf_close(again), 0);
  detach(s);
}

TEST_P(structures_in_store, refuse_what_cannot_be) {
  nvm_store* const s = attached("home");
  nvm_lf_options o{};
  o.kind = GetParam().kind;
  EXPECT_EQ(nvm_lf_open_in(nullptr, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_open_in(s, nullptr, &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_open_in(s, "", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_drop_in(nullptr, "one"), -1);
  EXPECT_EQ(nvm_lf_drop_in(s, nullptr), -1);
  EXPECT_EQ(nvm_lf_drop_in(s, "one"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_lf_names_in(nullptr, [](const char*, int, void*) { return 0; }, nullptr), -1);
  EXPECT_EQ(nvm_lf_names_in(s, nullptr, nullptr), -1);
  EXPECT_EQ(names(s).size(), 0U);
  o.mode = 1;
  EXPECT_EQ(nvm_lf_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  nvm_lf* const one = opened(s, "one");
  o.mode = 2;
  EXPECT_EQ(nvm_lf_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  o.mode = 0;
  o.kind = GetParam().kind % 4 + 1;
  EXPECT_EQ(nvm_lf_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
}

// A node of a structure is no object of the store, wherever one points into it.
TEST_P(structures_in_store, have_no_objects_of_the_store) {
  nvm_store* const s = attached("home");
  nvm_lf* const one = opened(s, "one", 0, NVM_LF_BYTES);
  const std::string value(600, 'v');
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(nvm_lf_put(one, key.data(), key.size(), value.data(), value.size(), 0, 0), 1) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  void* const root = nvm_store_calloc(s, 1, 1, 100);
  void* const garbage = nvm_store_calloc(s, 1, 1, 100);
  ASSERT_NE(root, nullptr) << nvm_errormsg();
  ASSERT_NE(garbage, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_store_set_root(s, root), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_enter(one), 0);
  nvm_lf_entry e;
  ASSERT_EQ(nvm_lf_find(one, "key7", 4, &e), 1);
  EXPECT_EQ(nvm_size_of(pool_, e.value), 0U);
  ASSERT_EQ(nvm_lf_leave(one), 0);
  EXPECT_EQ(info("home").objects, 2U);
  // A collection frees the object that nothing leads to, and no node.
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
  EXPECT_EQ(nvm_store_gc(pool_, "home", nullptr, nullptr), 0) << nvm_errormsg();
  EXPECT_EQ(info("home").objects, 1U);
  nvm_store* const again = attached("home");
  nvm_lf* const there = opened(again, "one", 1, NVM_LF_BYTES);
  std::uint64_t count = 0;
  ASSERT_EQ(nvm_lf_get_count(there, &count), 0);
  EXPECT_EQ(count, 100U);
  ASSERT_EQ(nvm_lf_close(there), 0);
  detach(again);
}

TEST_P(structures_in_store, keep_what_they_lead_to_from_a_conservative_collection) {
  nvm_store* const s = attached("home");
  nvm_lf* const one = opened(s, "one");
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  void* const root = nvm_calloc(pool_, 1, 1, 64);
  void* const kept = nvm_calloc(pool_, 1, 1, 64);
  void* const lost = nvm_calloc(pool_, 1, 1, 64);
  ASSERT_EQ(nvm_pool_set_root(pool_, root), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_lf_put64(one, 1, reinterpret_cast<std::uint64_t>(kept), 0), 1);
  nvm_gc_options o{};
  o.conservative = 1;
  ASSERT_EQ(nvm_gc(pool_, &o, nullptr), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_size_of(pool_, kept), 64U);
  EXPECT_EQ(nvm_size_of(pool_, lost), 0U);
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
}

// Threads work in structures of stores of their own and of one that they share, while those of their own come and go.
TEST_P(structures_in_store, are_used_by_threads_while_others_come_and_go) {
  constexpr unsigned threads = 4;
  nvm_store* const shared = attached("shared");
  nvm_lf* const common = opened(shared, "common");
  std::vector<std::thread> users;
  for (unsigned t = 0; t < threads; ++t) {
    users.emplace_back([&, t] {
      const std::string home = "home/" + std::to_string(t);
      for (unsigned round = 0; round < 12; ++round) {
        nvm_store* const s = nvm_store_attach(pool_, home.c_str(), NVM_STORE_CREATE);
        ASSERT_NE(s, nullptr) << nvm_errormsg();
        nvm_lf_options o{};
        o.kind = GetParam().kind;
        nvm_lf* const mine = nvm_lf_open_in(s, "mine", &o);
        ASSERT_NE(mine, nullptr) << nvm_errormsg();
        for (std::uint64_t i = 0; i < 40; ++i) {
          ASSERT_EQ(nvm_lf_put64(mine, round * 40 + i, t, 0), 1) << nvm_errormsg();
          ASSERT_EQ(nvm_lf_put64(common, (round * 40 + i) * threads + t, t, 0), 1) << nvm_errormsg();
          if (i % 2 == 0) {
            ASSERT_EQ(nvm_lf_remove64(common, (round * 40 + i) * threads + t), 1) << nvm_errormsg();
          }
        }
        std::uint64_t count = 0;
        ASSERT_EQ(nvm_lf_get_count(mine, &count), 0);
        EXPECT_EQ(count, (round + 1) * 40);
        ASSERT_EQ(nvm_lf_close(mine), 0);
        ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
      }
    });
  }
  std::atomic<bool> over{false};
  std::thread trims{[&] {
    while (!over) {
      EXPECT_GE(nvm_store_trim(shared), 0) << nvm_errormsg();
      std::this_thread::sleep_for(std::chrono::microseconds{200});
    }
  }};
  for (auto& u : users) u.join();
  over = true;
  trims.join();
  EXPECT_EQ(entries_of(common).size(), std::size_t{threads} * 12 * 20);
  ASSERT_EQ(nvm_lf_close(common), 0);
  detach(shared);
}

// Two threads that detach it at once, and a third one that ends with a number in its structures: the last detach of
// both has closed them.
TEST_P(structures_in_store, are_closed_by_whichever_detach_is_the_last) {
  for (int round = 0; round < 60; ++round) {
    nvm_store* const s = attached("home");
    ASSERT_EQ(attached("home"), s);
    nvm_lf* const one = opened(s, "one");
    std::atomic<int> ready{0};
    std::atomic<bool> over{false};
    std::thread user{[&] {
      EXPECT_EQ(nvm_lf_put64(one, static_cast<unsigned>(round), 1, 0), 1) << nvm_errormsg();
      EXPECT_EQ(nvm_lf_close(one), 0);
      ++ready;
      while (!over) std::this_thread::yield();
    }};
    while (ready == 0) std::this_thread::yield();
    std::thread both[2];
    for (std::thread& t : both) {
      t = std::thread{[&] {
        ++ready;
        while (ready != 3) std::this_thread::yield();
        EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
      }};
    }
    for (std::thread& t : both) t.join();
    EXPECT_EQ(nvm_store_find(pool_, "home"), nullptr);
    over = true;
    user.join();
  }
}

TEST_P(structures_in_store, refuse_to_be_left_after_a_detach) {
  nvm_store* const s = attached("home");
  nvm_lf* const one = opened(s, "one");
  ASSERT_EQ(nvm_lf_put64(one, 1, 1, 0), 1);
  ASSERT_EQ(nvm_lf_close(one), 0);
  detach(s);
  EXPECT_EQ(nvm_lf_leave(one), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
