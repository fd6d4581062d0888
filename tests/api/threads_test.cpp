// Many threads on one pool: every committed transaction is there, objects pass from thread to thread, lanes are shared.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/malloc.h"
#include "scratch.hpp"
#include "worker.hpp"

namespace nvm::tests {
namespace {

class threads : public testing::TestWithParam<pool_kind> {};
INSTANTIATE_TEST_SUITE_P(media, threads, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(threads, each_commits_its_own_objects_and_frees_those_of_others) {
  scratch place{GetParam()};
  nvm_pool_options o{};
  o.size = 8 << 20;
  o.lanes = 3;  // fewer than threads: some wait
  choose(o, GetParam());
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  const int rounds = rounds_of_build(is_ssd(GetParam()) ? 60 : 600);
  std::mutex lock;
  std::vector<void*> shared;
  std::atomic<int> failures{0};
  const auto work = [&](unsigned seed) {
    for (int i = 0; i < rounds; ++i) {
      seed = seed * 1664525 + 1013904223;
      void* victim = nullptr;
      {
        const std::lock_guard guard{lock};
        if (shared.size() > 20) {
          victim = shared[seed % shared.size()];
          std::erase(shared, victim);
        }
      }
      std::uint64_t lsn = 0;
      void* made = nullptr;
      if (nvm_tx_begin(pool) != 0) ++failures;
      if (victim != nullptr && nvm_free(pool, victim) != 0) ++failures;
      made = nvm_alloc(pool, 1, 16 + seed / 7 % 2000);
      if (made == nullptr) ++failures;
      if (made != nullptr) std::memset(made, 1, 16);
      const bool abort = seed % 16 == 0 && victim == nullptr;
      if ((abort ? nvm_tx_abort(pool) : nvm_tx_commit_async(pool, &lsn)) != 0) ++failures;
      if (!abort) {
        const std::lock_guard guard{lock};
        shared.push_back(made);
      }
      if (i % 20 == 0 && nvm_wait(pool, lsn) != 0) ++failures;
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < 6; ++i) running.emplace_back(work, i + 1);
  for (std::thread& t : running) t.join();
  EXPECT_EQ(failures, 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.objects, shared.size());
}

// Of frees without a transaction: whatever commits meanwhile takes them over, each once.
TEST_P(threads, that_only_free_leave_it_to_those_that_commit) {
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  const int rounds = rounds_of_build(is_ssd(GetParam()) ? 100 : 600);
  std::mutex lock;
  std::vector<void*> unlinked;
  std::atomic<int> failures{0};
  std::atomic<int> makers{3};
  const auto make = [&] {
    for (int i = 0; i < rounds; ++i) {
      std::uint64_t lsn = 0;
      void* made = nullptr;
      if (nvm_tx_begin(pool) != 0 || (made = nvm_alloc(pool, 1, 64)) == nullptr) ++failures;
      if (nvm_tx_commit_async(pool, &lsn) != 0) ++failures;
      const std::lock_guard guard{lock};
      unlinked.push_back(made);
    }
    --makers;
  };
  const auto free_all = [&] {
    for (bool last = false; !last;) {
      last = makers == 0;
      std::vector<void*> mine;
      {
        const std::lock_guard guard{lock};
        mine.swap(unlinked);
      }
      for (void* p : mine) nvm_malloc_free(p);
    }
  };
  std::vector<std::thread> running;
  for (int i = 0; i < 3; ++i) running.emplace_back(make);
  for (int i = 0; i < 2; ++i) running.emplace_back(free_all);
  for (std::thread& t : running) t.join();
  EXPECT_EQ(failures, 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.objects, 0U);
}

TEST_P(threads, a_thread_that_ends_leaves_no_transaction_behind) {
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  std::thread{[&] {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_NE(nvm_alloc(pool, 1, 64), nullptr);
  }}.join();
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, &sum), 0);
  EXPECT_EQ(sum.objects, 0U);
}

// A thread keeps its lane between transactions (number_owners::park); that must not be felt by others.

NVM_POOL* with_lanes(const scratch& place, unsigned lanes, const char* name = "pool") {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.lanes = lanes;
  choose(o, place.kind());
  NVM_POOL* pool = nvm_pool_create_with(place.path(name).c_str(), &o);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  return pool;
}
// One transaction that leaves an object behind.
bool add_object(NVM_POOL* pool) {
  if (nvm_tx_begin(pool) != 0) return false;
  if (nvm_calloc(pool, 1, 1, 32) != nullptr) return nvm_tx_commit(pool) == 0;
  (void)nvm_tx_abort(pool);
  return false;
}
void expect_objects(const scratch& place, std::uint64_t count, const char* name = "pool") {
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(place.path(name).c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
  EXPECT_EQ(sum.objects, count);
}

TEST_P(threads, that_are_idle_keep_no_lane_from_others) {
  scratch place{GetParam()};
  NVM_POOL* pool = with_lanes(place, 2);
  std::vector<std::unique_ptr<worker>> workers;
  for (int i = 0; i < 7; ++i) workers.push_back(std::make_unique<worker>());
  for (int round = 0; round < 20; ++round) {
    for (const auto& w : workers) ASSERT_TRUE(w->does([&] { return add_object(pool); })) << nvm_errormsg();
  }
  EXPECT_TRUE(add_object(pool)) << nvm_errormsg();
  // One lane is in use; the other goes round.
  ASSERT_TRUE(workers[0]->does([&] { return nvm_tx_begin(pool) == 0; }));
  for (const auto& w : workers) {
    if (w != workers[0]) {
      ASSERT_TRUE(w->does([&] { return add_object(pool); })) << nvm_errormsg();
    }
  }
  EXPECT_TRUE(workers[0]->does([&] { return nvm_tx_abort(pool) == 0; }));
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  workers.clear();
  expect_objects(place, 20 * 7 + 1 + 6);
}

// The log-structured heap has numbers for 256 threads, some of them its own.
TEST(threads_of_a_heap, that_are_idle_keep_no_number_from_others) {
  for (const pool_kind kind : {pool_kind::log, pool_kind::ssd_log}) {
    scratch place{kind};
    NVM_POOL* pool = with_lanes(place, 0);
    ASSERT_NE(pool, nullptr);
    constexpr std::uint64_t count = sanitized ? 300 : 1000;
    std::vector<std::unique_ptr<worker>> workers;
    for (std::uint64_t i = 0; i < count; ++i) workers.push_back(std::make_unique<worker>());
    for (int round = 0; round < 3; ++round) {
      for (const auto& w : workers) ASSERT_TRUE(w->does([&] { return add_object(pool); })) << nvm_errormsg();
    }
    // One that is in a transaction keeps its number; what it does meanwhile is not another's.
    ASSERT_TRUE(workers[0]->does([&] { return nvm_tx_begin(pool) == 0 && nvm_calloc(pool, 1, 1, 32) != nullptr; }));
    for (std::uint64_t i = 1; i < count; ++i) {
      ASSERT_TRUE(workers[i]->does([&] { return add_object(pool); })) << nvm_errormsg();
    }
    ASSERT_TRUE(workers[0]->does([&] { return nvm_tx_commit(pool) == 0; })) << nvm_errormsg();
    // Those that end, and those whose number was taken over, leave it to others.
    for (std::uint64_t i = 0; i < count; i += 2) workers[i].reset();
    for (std::uint64_t i = 1; i < count; i += 2) {
      ASSERT_TRUE(workers[i]->does([&] { return add_object(pool); })) << nvm_errormsg();
    }
    // All at once.
    std::vector<std::thread> running;
    std::atomic<int> failures{0};
    for (std::uint64_t i = 0; i < count; ++i) {
      running.emplace_back([&] {
        for (int n = 0; n < 3; ++n) failures += add_object(pool) ? 0 : 1;
      });
    }
    for (std::thread& t : running) t.join();
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    workers.clear();
    expect_objects(place, 3 * count + count + count / 2 + 3 * count);
  }
}

TEST_P(threads, that_end_give_their_lanes_back) {
  scratch place{GetParam()};
  NVM_POOL* pool = with_lanes(place, 2);
  const int count = rounds_of_build(is_ssd(GetParam()) ? 50 : 300);
  for (int i = 0; i < count; ++i) {
    std::thread{[&] { EXPECT_TRUE(add_object(pool)) << nvm_errormsg(); }}.join();
  }
  // And when they end in a transaction.
  for (int i = 0; i < 10; ++i) {
    std::thread{[&] {
      EXPECT_TRUE(add_object(pool));
      EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
      EXPECT_NE(nvm_calloc(pool, 1, 1, 32), nullptr);
    }}.join();
  }
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  expect_objects(place, static_cast<std::uint64_t>(count) + 10);
}

TEST_P(threads, that_come_and_go_beside_steady_ones_share_two_lanes) {
  scratch place{GetParam()};
  NVM_POOL* pool = with_lanes(place, 2);
  std::atomic<std::uint64_t> done{0};
  std::atomic<int> failures{0};
  const int rounds = rounds_of_build(is_ssd(GetParam()) ? 20 : 300);
  const auto some = [&](int n) {
    for (int i = 0; i < n; ++i) add_object(pool) ? ++done : static_cast<std::uint64_t>(++failures);
  };
  std::vector<std::thread> running;
  for (int i = 0; i < 3; ++i) running.emplace_back([&] { some(rounds); });
  for (int i = 0; i < 2; ++i) {
    running.emplace_back([&] {
      for (int k = 0; k < rounds / 4; ++k) std::thread{[&] { some(2); }}.join();
    });
  }
  for (std::thread& t : running) t.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  expect_objects(place, done);
}

TEST_P(threads, whose_lane_was_of_a_closed_pool_begin_in_the_next_one) {
  scratch place{GetParam()};
  worker other;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "pool" + std::to_string(i);
    NVM_POOL* pool = with_lanes(place, 1 + i % 3, name.c_str());
    EXPECT_TRUE(add_object(pool)) << nvm_errormsg();
    EXPECT_TRUE(other.does([&] { return add_object(pool); })) << nvm_errormsg();
    EXPECT_TRUE(add_object(pool)) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    expect_objects(place, 3, name.c_str());
    pool = nvm_pool_open(place.path(name.c_str()).c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_TRUE(other.does([&] { return add_object(pool); })) << nvm_errormsg();
    EXPECT_TRUE(add_object(pool)) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    expect_objects(place, 5, name.c_str());
  }
}

TEST_P(threads, may_outlive_the_pool_and_the_pool_a_thread) {
  scratch place{GetParam()};
  NVM_POOL* first = with_lanes(place, 2, "first");
  NVM_POOL* second = with_lanes(place, 2, "second");
  worker w;
  EXPECT_TRUE(w.does([&] { return add_object(first) && add_object(second); })) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(first), 0) << nvm_errormsg();
  w.end();
  EXPECT_TRUE(add_object(second)) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(second), 0) << nvm_errormsg();
  expect_objects(place, 1, "first");
  expect_objects(place, 2, "second");
}

TEST_P(threads, that_keep_lanes_do_not_hinder_exit) {
  scratch place{GetParam()};
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* pool = with_lanes(place, 2);
    static worker* const idle = new worker;
    static worker* const other = new worker;
    if (!idle->does([&] { return add_object(pool); }) || !other->does([&] { return add_object(pool); })) _exit(1);
    if (!add_object(pool) || nvm_tx_begin(pool) != 0 || nvm_calloc(pool, 1, 1, 64) == nullptr) _exit(2);
    std::exit(0);  // this thread's transaction is rolled back, the pool closed
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_inspect(place.path().c_str(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.clean, 1U);
  expect_objects(place, 3);
}

// The child has the parent's memory of who holds which lane, locks that other threads held at that moment included.
// Made before the library's own memory of the thread, hence destroyed after it: ends a child of fork where its thread
// ends, without what the process does at exit.
struct end_of_child {
  int code = -1;  // of the child
  ~end_of_child() {
    if (code >= 0) _exit(code);
  }
};

TEST_P(threads, that_fork_leave_the_child_nothing_to_wait_for) {
  scratch place{GetParam()};
  NVM_POOL* pool = with_lanes(place, 2);
  ASSERT_TRUE(add_object(pool));
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!stop) {
        std::thread{[&] {
          if (!add_object(pool)) ++failures;
        }}.join();
      }
    });
  }
  int hung = 0;
  std::thread{[&] {
    thread_local end_of_child end;
    end.code = -1;
    for (int i = 0; i < 400 && hung == 0; ++i) {
      if (!add_object(pool)) ++failures;  // the thread has a lane now
      const pid_t child = fork();
      if (child == 0) {
        alarm(10);
        end.code = nvm_tx_begin(pool) == -1 && nvm_errno() == NVM_E_FORKED ? 0 : 1;
        return;
      }
      int how = 0;
      if (waitpid(child, &how, 0) != child || !WIFEXITED(how) || WEXITSTATUS(how) != 0) ++hung;
    }
  }}.join();
  stop = true;
  for (std::thread& t : others) t.join();
  EXPECT_EQ(hung, 0);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

}  // namespace
}  // namespace nvm::tests
