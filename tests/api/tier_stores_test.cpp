// Object stores in a pool that is partly in a second file: attached stores are whole and usable, others can neither be
// read nor written, wherever their pages are, while threads attach, change, detach, and pages come and go.
#include <gtest/gtest.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../clocks.hpp"
#include "../random_seed.hpp"
#include "../scratch_folder.hpp"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "nvm/tier.h"

namespace nvm::tests {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t page_bytes = 4096;

struct node {
  node* next;
  std::uint64_t number;
  std::uint64_t changed;
  unsigned char bytes[2000];
};
void fill(node& n) {
  for (std::size_t i = 0; i < sizeof n.bytes; ++i)
    n.bytes[i] = static_cast<unsigned char>(n.number * 7 + n.changed * 13 + i / (1 + n.number % 40));
}
bool holds(const node& n) {
  node expected{nullptr, n.number, n.changed, {}};
  fill(expected);
  return std::memcmp(n.bytes, expected.bytes, sizeof n.bytes) == 0;
}

thread_local sigjmp_buf after_stray;
void strayed(int) { siglongjmp(after_stray, 1); }
// An access of the program's own mistake, on this thread.
bool load_is_refused(const volatile unsigned char* at) {
  if (sigsetjmp(after_stray, 1) != 0) return true;
  (void)*at;
  return false;
}
bool store_is_refused(volatile unsigned char* at) {
  if (sigsetjmp(after_stray, 1) != 0) return true;
  *at = 0x5A;
  return false;
}

class tiered_stores : public testing::Test {
 protected:
  void SetUp() override {
    begin_clocks_anew();
    struct sigaction action{};
    action.sa_handler = strayed;
    sigemptyset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override { sigaction(SIGSEGV, &before_, nullptr); }

  // nullptr: this system lets no pages come and go.
  NVM_POOL* create(std::uint64_t size, std::uint64_t fast_bytes, std::uint32_t engine) {
    const std::string second = slow_.path("pool.tier");
    nvm_tier_options t{};
    t.path = second.c_str();
    t.fast_bytes = fast_bytes;
    nvm_pool_options o{};
    o.size = size;
    o.medium = NVM_MEDIUM_SHM;
    o.engine = engine;
    o.tier = &t;
    NVM_POOL* const p = nvm_pool_create_with(path().c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    nvm_tier_statistics s{};
    if (p != nullptr && nvm_tier_get_statistics(p, &s) == 0 && s.active == 1) return p;
    EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
    return nullptr;
  }
  [[nodiscard]] std::string path() const { return fast_.path("pool"); }
  static std::string name_of(unsigned i) { return "tenant/" + std::to_string(i); }
  // Nodes, the newest of which is the root.
  static void grow(NVM_POOL* p, nvm_store* s, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(nvm_tx_begin(p), 0) << nvm_errormsg();
      auto* const n = static_cast<node*>(nvm_store_alloc(s, 3, sizeof(node)));
      ASSERT_NE(n, nullptr) << nvm_errormsg();
      auto* const first = static_cast<node*>(nvm_store_get_root(s));
      n->next = first;
      n->number = first == nullptr ? 0 : first->number + 1;
      n->changed = 0;
      fill(*n);
      ASSERT_EQ(nvm_store_set_root(s, n), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
    }
  }
  static void expect_whole(nvm_store* s, std::uint64_t count) {
    std::uint64_t found = 0;
    for (const auto* n = static_cast<node*>(nvm_store_get_root(s)); n != nullptr; n = n->next, ++found)
      ASSERT_TRUE(n->number == count - 1 - found && holds(*n)) << n->number;
    EXPECT_EQ(found, count);
  }
  static void change(NVM_POOL* p, nvm_store* s, std::mt19937_64& random, std::uint64_t count) {
    auto* n = static_cast<node*>(nvm_store_get_root(s));
    for (std::uint64_t skip = random() % count; skip-- != 0;) n = n->next;
    // By a barrier transaction: engines that write back take no other store in place.
    struct change_of {
      node* at;
      node with;
    } c{n, *n};
    ++c.with.changed;
    fill(c.with);
    const auto write = [](nvm_stm* tx, void* raw) {
      const auto& of = *static_cast<change_of*>(raw);
      nvm_stm_write(tx, &of.at->changed, &of.with.changed, sizeof of.with.changed + sizeof of.with.bytes);
      return 0;
    };
    ASSERT_EQ(nvm_stm_run(p, write, &c), 0) << nvm_errormsg();
  }
  void expect_sound() const {
    std::string found;
    EXPECT_EQ(
        nvm_pool_check(
            path().c_str(), [](std::uint64_t, const char* what, void* to) { *static_cast<std::string*>(to) += what; },
            &found, nullptr),
        0)
        << nvm_errormsg() << found;
  }

  scratch_folder fast_{"tiered-stores", false};
  scratch_folder slow_{"tiered-stores", true};

 private:
  struct sigaction before_{};
};

// The library reads what it pins.
TEST_F(tiered_stores, are_pinned_only_while_they_are_attached) {
  NVM_POOL* const p = create(16 * mib, 2 * mib, NVM_ENGINE_UNDO);
  if (p == nullptr) GTEST_SKIP() << "no user faults";
  nvm_store* s = nvm_store_attach(p, "pinned", NVM_STORE_CREATE);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  grow(p, s, 50);
  const void* const at = nvm_store_get_root(s);
  EXPECT_EQ(nvm_tier_pin(p, at, sizeof(node)), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tier_unpin(p, at, sizeof(node)), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  for (const std::size_t bytes : {sizeof(node), std::size_t{1}}) {
    EXPECT_EQ(nvm_tier_pin(p, at, bytes), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
  }
  s = nvm_store_attach(p, "pinned", NVM_STORE_READ_ONLY);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_tier_pin(p, at, sizeof(node)), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tier_unpin(p, at, sizeof(node)), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_sound();
}

// Pages that are nobody's when they are pinned become those of stores that are protected at once.
TEST_F(tiered_stores, are_created_while_their_pages_are_being_pinned) {
  NVM_POOL* const p = create(16 * mib, 8 * mib, NVM_ENGINE_UNDO);
  if (p == nullptr) GTEST_SKIP() << "no user faults";
  nvm_store* const first = nvm_store_attach(p, "first", NVM_STORE_CREATE);
  ASSERT_NE(first, nullptr) << nvm_errormsg();
  grow(p, first, 1);
  const auto* const there = static_cast<const unsigned char*>(nvm_store_get_root(first));
  ASSERT_EQ(nvm_store_detach(first), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_delete(p, "first"), 0) << nvm_errormsg();
  std::atomic<bool> over{false};
  std::atomic<unsigned> pinned{0};
  std::thread pins{[&] {
    if (sigsetjmp(after_stray, 1) != 0) {
      std::fprintf(stderr, "a page became inaccessible while it was being pinned\n");
      std::abort();
    }
    // Pages around those that were the first store's: the more, the more likely is it that one becomes a store's.
    constexpr std::size_t bytes = 32 * page_bytes;
    for (const unsigned char* at = there; !over; at = at < there - mib / 2 ? there + mib / 8 : at - 5 * page_bytes) {
      if (nvm_tier_pin(p, at, bytes) == 0) {
        ++pinned;
        ASSERT_EQ(nvm_tier_unpin(p, at, bytes), 0) << nvm_errormsg();
      } else {
        ASSERT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
      }
    }
  }};
  // As long as it takes until the other thread has had its turn.
  for (unsigned round = 0; round < 10'000 || (pinned < 400 && round < 1'000'000); ++round) {
    ASSERT_EQ(nvm_store_create(p, name_of(0).c_str(), nullptr), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_store_delete(p, name_of(0).c_str()), 0) << nvm_errormsg();
  }
  over = true;
  pins.join();
  EXPECT_GT(pinned.load(), 0U);
  EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_sound();
}

TEST_F(tiered_stores, are_protected_wherever_their_pages_are) {
  NVM_POOL* p = create(16 * mib, 2 * mib, NVM_ENGINE_UNDO);
  if (p == nullptr) GTEST_SKIP() << "no user faults";
  constexpr unsigned stores = 6;
  constexpr std::uint64_t nodes = 200;
  std::vector<unsigned char*> of;
  for (unsigned i = 0; i < stores; ++i) {
    nvm_store* const s = nvm_store_attach(p, name_of(i).c_str(), NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    grow(p, s, nodes);
    of.push_back(static_cast<unsigned char*>(nvm_store_get_root(s)));
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  nvm_stores_statistics sum;
  ASSERT_EQ(nvm_stores_get_statistics(p, &sum), 0) << nvm_errormsg();
  EXPECT_GT(sum.closed_bytes, stores * nodes * sizeof(node));
  EXPECT_EQ(sum.given_up, 0U);
  nvm_tier_statistics t;
  ASSERT_EQ(nvm_tier_get_statistics(p, &t), 0);
  EXPECT_GT(t.slow_bytes, 0U) << "some pages have left";
  const std::uint64_t in = t.pages_in;
  for (unsigned char* const at : of) {
    EXPECT_TRUE(load_is_refused(at));
    EXPECT_TRUE(store_is_refused(at));
  }
  ASSERT_EQ(nvm_tier_get_statistics(p, &t), 0);
  EXPECT_EQ(t.pages_in, in) << "a stray access brings nothing";
  // Read-only: can be read, from wherever, and not be written.
  nvm_store* const s = nvm_store_attach(p, name_of(0).c_str(), NVM_STORE_READ_ONLY);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tier_shrink(p, mib), 0) << nvm_errormsg();
  EXPECT_TRUE(store_is_refused(of[0]));
  expect_whole(s, nodes);
  EXPECT_TRUE(store_is_refused(of[0]));
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  EXPECT_TRUE(load_is_refused(of[0]));
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_sound();
  p = nvm_pool_open(path().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  for (unsigned i = 0; i < stores; ++i) {
    nvm_store* const again = nvm_store_attach(p, name_of(i).c_str(), 0);
    ASSERT_NE(again, nullptr) << nvm_errormsg();
    expect_whole(again, nodes);
  }
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
}

// Stores that are attached stay, of two that have been used alike.
TEST_F(tiered_stores, that_are_attached_are_referenced) {
  NVM_POOL* p = create(24 * mib, 6 * mib, NVM_ENGINE_UNDO);
  if (p == nullptr) GTEST_SKIP() << "no user faults";
  constexpr std::uint64_t nodes = 800;
  for (unsigned i = 0; i < 2; ++i) {
    nvm_store* const s = nvm_store_attach(p, name_of(i).c_str(), NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    grow(p, s, nodes);
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  const auto faults_of_a_walk = [&](unsigned i, bool keeps) {
    nvm_store* const s = nvm_store_attach(p, name_of(i).c_str(), 0);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    nvm_tier_statistics before, after;
    EXPECT_EQ(nvm_tier_get_statistics(p, &before), 0);
    expect_whole(s, nodes);
    EXPECT_EQ(nvm_tier_get_statistics(p, &after), 0);
    if (!keeps) {
      EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    }
    return after.pages_in - before.pages_in;
  };
  // Both are in memory, the first one attached; then half of that leaves.
  (void)faults_of_a_walk(1, false);
  (void)faults_of_a_walk(0, true);
  ASSERT_EQ(nvm_tier_shrink(p, 3 * mib), 0) << nvm_errormsg();
  const std::uint64_t of_attached = faults_of_a_walk(0, false);
  const std::uint64_t of_other = faults_of_a_walk(1, false);
  EXPECT_LT(2 * of_attached, of_other);
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
}

class tiered_threads : public tiered_stores, public testing::WithParamInterface<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(on, tiered_threads, testing::Values(NVM_ENGINE_UNDO, NVM_ENGINE_REDO),
                         [](const auto& i) { return i.param == NVM_ENGINE_UNDO ? "undo" : "redo"; });

// Each thread has stores of its own, one of which is attached at a time; another lets pages go all the while; a third
// strays into whatever is not attached.
TEST_P(tiered_threads, attach_change_and_stray_while_pages_come_and_go) {
  NVM_POOL* p = create(24 * mib, 3 * mib, GetParam());
  if (p == nullptr) GTEST_SKIP() << "no user faults";
  constexpr unsigned threads = 3;
  constexpr unsigned stores_each = 3;
  constexpr std::uint64_t nodes = 120;
  unsigned char* never_at = nullptr;  // in one that nobody attaches any more
  {
    nvm_store* const s = nvm_store_attach(p, "never", NVM_STORE_CREATE);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    grow(p, s, nodes);
    never_at = static_cast<unsigned char*>(nvm_store_get_root(s));
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  std::atomic<bool> over{false};
  std::atomic<unsigned> refused{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937_64 random{seed_from_environment() * threads + t};
      for (unsigned round = 0; round < 60; ++round) {
        const unsigned i = t * stores_each + static_cast<unsigned>(random() % stores_each);
        nvm_store* const s = nvm_store_attach(p, name_of(i).c_str(), NVM_STORE_CREATE);
        ASSERT_NE(s, nullptr) << nvm_errormsg();
        if (nvm_store_get_root(s) == nullptr) grow(p, s, nodes);
        for (unsigned k = 0; k < 5; ++k) change(p, s, random, nodes);
        expect_whole(s, nodes);
        ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
      }
    });
  }
  std::thread shrinks{[&] {
    while (!over) {
      ASSERT_EQ(nvm_tier_shrink(p, mib), 0) << nvm_errormsg();
      pause_between_rounds();
    }
  }};
  std::thread strays{[&] {
    std::mt19937_64 random{seed_from_environment()};
    while (!over) {
      unsigned char* const at = never_at + random() % sizeof(node);
      ASSERT_TRUE(random() % 2 == 0 ? load_is_refused(at) : store_is_refused(at));
      refused.fetch_add(1, std::memory_order_relaxed);
    }
  }};
  for (auto& t : all) t.join();
  over = true;
  shrinks.join();
  strays.join();
  EXPECT_GT(refused.load(), 100U);
  nvm_tier_statistics t;
  ASSERT_EQ(nvm_tier_get_statistics(p, &t), 0);
  EXPECT_GT(t.pages_out + t.pages_dropped, 0U);
  EXPECT_GT(t.pages_in, 0U);
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_sound();
  p = nvm_pool_open(path().c_str());
  ASSERT_NE(p, nullptr) << nvm_errormsg();
  nvm_store* const never = nvm_store_attach(p, "never", 0);
  ASSERT_NE(never, nullptr) << nvm_errormsg();
  expect_whole(never, nodes);
  ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
