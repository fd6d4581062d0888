// The process ends while its threads still work on a pool: nothing crashes, and all acknowledged changes are there.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "nvm/kv.hpp"
#include "nvm/lockfree.h"
#include "nvm/nvm.hpp"
#include "nvm/region.h"
#include "nvm/stm.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct pair {
  std::uint64_t first, second;
};
constexpr int workers = 4;
struct told {
  std::atomic<std::uint64_t> commits[workers];
  std::atomic<int> wrong;
};

enum class beside { stores, structures, regions };
struct parameter {
  pool_kind kind;
  beside what;
};
std::string name_of_parameter(const testing::TestParamInfo<parameter>& p) {
  constexpr const char* names[] = {"", "_structures", "_regions"};
  return name_of({p.param.kind, 0}) + names[static_cast<unsigned>(p.param.what)];
}
struct used {
  nvm_kv* kv;
  nvm_lf* lf;          // null: the key-value store is used
  nvm_regions* set;    // the same
  std::uint64_t from;  // numbers of regions
};

// Threads 0 and 1: announced stores; 2: barriers; 3: a key-value store, a lock-free structure, or regions.
[[noreturn]] void work(NVM_POOL* pool, pair* pairs, int n, const used& u, told& t) {
  for (std::uint64_t i = 1;; ++i) {
    pair& p = pairs[n];
    bool done = false;
    if (n < 2) {
      if (n == 1) ::usleep(static_cast<useconds_t>(i % 4 * 1000));  // it may be idle when the process ends
      if (nvm_tx_begin(pool) == 0) {
        if (nvm_tx_log(&p, sizeof p) == 0) {
          p.first = i;
          p.second = i;
        }
        done = nvm_tx_commit(pool) == 0;
      }
    } else if (n == 2) {
      done = nvm_stm_run(
                 pool,
                 [](nvm_stm* tx, void* raw) {
                   auto* to = static_cast<pair*>(raw);
                   const std::uint64_t next = nvm_stm_load64(tx, &to->first) + 1;
                   nvm_stm_store64(tx, &to->first, next);
                   nvm_stm_store64(tx, &to->second, next);
                   return 0;
                 },
                 &p) == 0;
    } else {
      done = u.lf != nullptr    ? nvm_lf_put64(u.lf, 1, i, 0) >= 1
             : u.set != nullptr ? nvm_region_create_with(u.set, u.from + i, &i, sizeof i, 0) == 0
                                : nvm_kv_put(u.kv, "k", 1, &i, sizeof i) == 0;
    }
    if (!done) {
      // From now on each call is refused, by a code that says so.
      if (nvm_errno() != NVM_E_INVALID) ++t.wrong;
      for (;;) ::usleep(10);
    }
    t.commits[n].store(i);
    if (p.first != p.second && n != 3) ++t.wrong;  // its own, read plainly, while the process ends
  }
}

// Calls for which a thread needs no number.
[[noreturn]] void look(NVM_POOL* pool, const used& u) {
  for (;;) {
    std::uint64_t n = 0;
    if (u.lf != nullptr) (void)nvm_lf_get_count(u.lf, &n);
    if (u.set == nullptr) continue;
    nvm_region_statistics all;
    (void)nvm_regions_count(u.set, &n);
    (void)nvm_region_get_statistics(u.set, &all);
    (void)nvm_regions_names(pool, [](const char*, std::uint64_t, void*) { return 0; }, nullptr);
  }
}

[[noreturn]] void child(const scratch& place, beside what, std::uint64_t from, bool in_a_thread, int rounds, told& t) {
  NVM_POOL* pool = nvm_pool_open(place.path().c_str());
  if (pool == nullptr) _exit(10);
  auto* pairs = static_cast<pair*>(nvm_pool_get_root(pool));
  nvm_kv* kv = nvm_kv_open(pool, "s", nullptr);
  nvm_lf* lf = what == beside::structures ? nvm_lf_open(pool, "l", nullptr) : nullptr;
  nvm_regions* set = what == beside::regions ? nvm_regions_open(pool, "r", nullptr) : nullptr;
  if (kv == nullptr || (lf == nullptr && what == beside::structures) || (set == nullptr && what == beside::regions)) {
    _exit(11);
  }
  const used u{kv, lf, set, from};
  for (int n = 0; n < workers; ++n) std::thread{[=, &t] { work(pool, pairs, n, u, t); }}.detach();
  if (lf != nullptr || set != nullptr) std::thread{[=] { look(pool, u); }}.detach();
  for (int n = 0; n < workers; ++n) {
    while (t.commits[n].load() < static_cast<std::uint64_t>(rounds)) ::usleep(10);
  }
  if (in_a_thread) {
    std::thread{[] { std::exit(0); }}.join();
  }
  std::exit(0);
}

class exiting : public testing::TestWithParam<parameter> {};
INSTANTIATE_TEST_SUITE_P(
    kinds, exiting,
    testing::Values(parameter{pool_kind::shm, beside::stores}, parameter{pool_kind::shm, beside::structures},
                    parameter{pool_kind::shm, beside::regions}, parameter{pool_kind::log, beside::stores},
                    parameter{pool_kind::ssd, beside::stores}, parameter{pool_kind::ssd, beside::structures},
                    parameter{pool_kind::ssd, beside::regions}, parameter{pool_kind::ssd_log, beside::stores}),
    name_of_parameter);

TEST_P(exiting, stops_threads_that_commit_in_order) {
  scratch place{GetParam().kind};
  NVM_POOL* pool = place.create();
  ASSERT_TRUE(nvm::transaction(pool, [&] {
    return nvm_pool_set_root(pool, nvm_calloc(pool, 1, workers, sizeof(pair))) == 0;
  })) << nvm_errormsg();
  const beside what = GetParam().what;
  if (what == beside::regions) {
    // So many that their table takes a while.
    nvm_regions* set = nvm_regions_open(pool, "r", nullptr);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    nvm_region_group* g = nvm_region_group_begin(set, nullptr, 0);
    for (std::uint64_t i = 0; i < 6000; ++i) ASSERT_EQ(nvm_region_group_create(g, i, 8), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_region_group_commit(g), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  auto* t =
      static_cast<told*>(::mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(t), MAP_FAILED);
  const int runs = is_ssd(GetParam().kind) ? 6 : 20;
  for (int run = 0; run < runs; ++run) {
    for (auto& c : t->commits) c = 0;
    const pid_t pid = ::fork();
    const std::uint64_t from = 1'000'000 * static_cast<std::uint64_t>(run + 1);
    if (pid == 0) child(place, what, from, run % 2 == 1, 1 + run % 5, *t);
    int how = 0;
    ASSERT_EQ(::waitpid(pid, &how, 0), pid);
    ASSERT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << "run " << run << ": " << how;
    ASSERT_EQ(t->wrong, 0) << "run " << run;
    // What was told is there, and nothing is half done.
    pool = nvm_pool_open(place.path().c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    auto* pairs = static_cast<pair*>(nvm_pool_get_root(pool));
    for (int n = 0; n < 3; ++n) {
      EXPECT_EQ(pairs[n].first, pairs[n].second);
      if (n < 2) {
        EXPECT_GE(pairs[n].first, t->commits[n].load());
      }
    }
    std::uint64_t last = 0;
    if (what == beside::regions) {
      nvm_regions* set = nvm_regions_open(pool, "r", nullptr);
      ASSERT_NE(set, nullptr) << nvm_errormsg();
      for (last = t->commits[3].load(); last > 0; --last) {
        std::uint64_t found = 0;
        ASSERT_EQ(nvm_region_read(set, from + last, 0, &found, sizeof found), 8) << "run " << run << ": " << last;
        ASSERT_EQ(found, last);
      }
      last = t->commits[3].load();
    } else if (what == beside::structures) {
      EXPECT_EQ(nvm_lf_get64(nvm_lf_open(pool, "l", nullptr), 1, &last), 1);
    } else {
      auto kv = nvm::kv::open(pool, "s");
      EXPECT_EQ(nvm_kv_get(kv->handle(), "k", 1, &last, sizeof last, nullptr), 1);
    }
    EXPECT_GE(last, t->commits[3].load());
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, nullptr), 0);
  }
  ::munmap(t, sizeof(told));
}

}  // namespace
}  // namespace nvm::tests
