// A process with four threads that make, attach, fill, rename and delete stores is killed at any time: the next one
// finds each store as the calls that had returned have left it, of the call that each thread died in all or nothing,
// and every page and name accounted for.  NVM_KILLS=n: so many kills in place of a few.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../direct_place.hpp"
#include "../random_seed.hpp"
#include "../scratch_folder.hpp"
#include "nvm/store.h"

namespace nvm::tests {
namespace {

constexpr unsigned threads = 4;
constexpr unsigned names = 6;  // of a thread
constexpr std::int64_t absent = -1;

enum class op : std::uint64_t { none, create, push, drop, rename };

// Memory that survives the process.
struct told {
  struct thread {
    std::atomic<std::int64_t> items[names];  // as of the last call that returned
    std::atomic<std::uint64_t> doing;        // op | name << 8 | other name << 16
  } of[threads];
  std::atomic<std::uint64_t> calls;
};

struct node {
  std::uint64_t number;
  node* next;
};

std::string name_of_killed(unsigned t, unsigned k) { return "thread/" + std::to_string(t) + "/" + std::to_string(k); }

bool push(NVM_POOL* pool, nvm_store* s, std::uint64_t number) {
  if (nvm_tx_begin(pool) != 0) return false;
  auto* const n = static_cast<node*>(nvm_store_alloc(s, 9, sizeof(node)));
  if (n == nullptr) return false;
  *n = {number, static_cast<node*>(nvm_store_get_root(s))};
  return nvm_store_set_root(s, n) == 0 && nvm_tx_commit(pool) == 0;
}

void work(NVM_POOL* pool, told& all, unsigned t, std::uint64_t seed) {
  std::mt19937_64 random{seed * threads + t};
  auto& mine = all.of[t];
  const auto must = [](bool good) {
    if (good) return;
    std::fprintf(stderr, "a call about a store failed: %s\n", nvm_errormsg());
    _exit(3);
  };
  const auto run = [&](op what, unsigned k, unsigned other, auto&& call, auto&& then) {
    mine.doing.store(static_cast<std::uint64_t>(what) | k << 8 | other << 16, std::memory_order_release);
    must(call());
    then();
    mine.doing.store(0, std::memory_order_release);
    all.calls.fetch_add(1, std::memory_order_relaxed);
  };
  for (;;) {
    const auto k = static_cast<unsigned>(random() % names);
    const auto other = static_cast<unsigned>(random() % names);
    const std::string name = name_of_killed(t, k);
    const std::int64_t items = mine.items[k].load();
    if (items == absent) {
      run(
          op::create, k, 0, [&] { return nvm_store_create(pool, name.c_str(), nullptr) == 0; },
          [&] { mine.items[k] = 0; });
    } else if (const auto what = random() % 8; what == 0) {
      run(op::drop, k, 0, [&] { return nvm_store_delete(pool, name.c_str()) == 0; }, [&] { mine.items[k] = absent; });
    } else if (what == 1 && other != k) {
      run(
          op::rename, k, other,
          [&] { return nvm_store_rename(pool, name.c_str(), name_of_killed(t, other).c_str()) == 0; },
          [&] {
            mine.items[other] = items;
            mine.items[k] = absent;
          });
    } else {
      nvm_store* const s = nvm_store_attach(pool, name.c_str(), 0);
      must(s != nullptr);
      for (std::int64_t i = items; i < items + 1 + static_cast<std::int64_t>(random() % 40); ++i) {
        run(
            op::push, k, 0, [&] { return push(pool, s, static_cast<std::uint64_t>(i)); },
            [&] { mine.items[k] = i + 1; });
      }
      must(nvm_store_detach(s) == 0);
    }
  }
}

// What the pool has: items of each store, or `absent`; -2: damaged.
std::map<std::string, std::int64_t> found_in(NVM_POOL* pool) {
  std::map<std::string, std::int64_t> found;
  std::vector<std::string> all;
  EXPECT_EQ(nvm_store_names(
                pool, nullptr,
                [](const char* name, void* to) {
                  static_cast<std::vector<std::string>*>(to)->emplace_back(name);
                  return 0;
                },
                &all),
            0)
      << nvm_errormsg();
  for (const std::string& name : all) {
    nvm_store* const s = nvm_store_attach(pool, name.c_str(), NVM_STORE_READ_ONLY);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    if (s == nullptr) continue;
    const auto* n = static_cast<node*>(nvm_store_get_root(s));
    std::int64_t count = n == nullptr ? 0 : static_cast<std::int64_t>(n->number) + 1;
    const std::int64_t said = count;
    for (; n != nullptr; n = n->next) count -= n->number + 1 == static_cast<std::uint64_t>(count) ? 1 : count + 1;
    found[name] = count == 0 ? said : -2;
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  return found;
}

// Makes what was told equal to what is there where the call that the thread died in may have done it.
void judge(const std::map<std::string, std::int64_t>& found, told& all, unsigned t) {
  auto& of = all.of[t];
  const std::uint64_t doing = of.doing.load();
  const auto what = static_cast<op>(doing & 0xFF);
  const unsigned k = doing >> 8 & 0xFF;
  const unsigned other = doing >> 16 & 0xFF;
  const auto there = [&](unsigned i) {
    const auto at = found.find(name_of_killed(t, i));
    return at == found.end() ? absent : at->second;
  };
  std::int64_t after[names];
  for (unsigned i = 0; i < names; ++i) after[i] = of.items[i].load();
  switch (what) {
    case op::create:
      after[k] = 0;
      break;
    case op::push:
      ++after[k];
      break;
    case op::drop:
      after[k] = absent;
      break;
    case op::rename:
      after[other] = after[k];
      after[k] = absent;
      break;
    default:
      break;
  }
  bool as_before = true;
  bool as_after = true;
  for (unsigned i = 0; i < names; ++i) {
    as_before = as_before && there(i) == of.items[i].load();
    as_after = as_after && there(i) == after[i];
  }
  for (unsigned i = 0; i < names && !as_before && !as_after; ++i) {
    ADD_FAILURE() << name_of_killed(t, i) << ": found " << there(i) << ", expected " << of.items[i].load() << " or "
                  << after[i] << ", of call " << doing;
  }
  for (unsigned i = 0; i < names; ++i) of.items[i] = there(i);
  of.doing = 0;
}

struct killed_kind {
  const char* name;
  bool ssd;
  std::uint32_t engine;
};
class killed_stores : public testing::TestWithParam<killed_kind> {};
INSTANTIATE_TEST_SUITE_P(on, killed_stores,
                         testing::Values(killed_kind{"undo", false, NVM_ENGINE_UNDO},
                                         killed_kind{"redo", false, NVM_ENGINE_REDO},
                                         killed_kind{"ssd", true, NVM_ENGINE_UNDO}),
                         [](const auto& i) { return i.param.name; });

TEST_P(killed_stores, are_as_the_calls_that_returned_have_left_them) {
  const scratch_folder folder{"stores", GetParam().ssd};
  const std::string path = folder.path("pool");
  {
    nvm_pool_options o{};
    o.size = 32 << 20;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = GetParam().engine;
    NVM_POOL* const pool = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_close(pool), 0);
  }
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& all = *static_cast<told*>(shared);
  for (auto& t : all.of) {
    for (auto& i : t.items) i = absent;
  }
  const char* const wanted = std::getenv("NVM_KILLS");
  const unsigned kills = wanted == nullptr ? 12 : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
  std::mt19937_64 random{seed_from_environment()};
  // A machine with much else to do may do little between two kills.
  const auto much_was_done = [&] { return all.calls.load() > kills * 10U; };
  for (unsigned round = 0; round < kills || (!much_was_done() && round < std::max(2 * kills, 200U)); ++round) {
    const std::uint64_t seed = random();
    const pid_t child = ::fork();
    if (child == 0) {
      NVM_POOL* const pool = nvm_pool_open(path.c_str());
      if (pool == nullptr) {
        std::fprintf(stderr, "%s\n", nvm_errormsg());
        _exit(2);
      }
      std::vector<std::thread> workers;
      for (unsigned t = 0; t < threads; ++t) workers.emplace_back([&, t] { work(pool, all, t, seed); });
      for (auto& w : workers) w.join();
    }
    ::usleep(static_cast<useconds_t>(10'000 + random() % 30'000));
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << "ended by " << ended;
    std::string faults;
    ASSERT_EQ(nvm_pool_check(
                  path.c_str(),
                  [](std::uint64_t at, const char* what, void* to) {
                    *static_cast<std::string*>(to) += std::string{what} + " at " + std::to_string(at) + "\n";
                  },
                  &faults, nullptr),
              0)
        << "round " << round << ": " << nvm_errormsg() << faults;
    NVM_POOL* const pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    const auto found = found_in(pool);
    for (unsigned t = 0; t < threads; ++t) judge(found, all, t);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    ASSERT_FALSE(HasFailure()) << "round " << round << ", seed " << seed_from_environment();
  }
  EXPECT_TRUE(much_was_done()) << all.calls.load() << " calls";
  ::munmap(shared, 4096);
}

}  // namespace
}  // namespace nvm::tests
