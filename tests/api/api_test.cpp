// The C interface keeps its word, and wrong use gets a clear error and loses nothing; on shm and on ssd.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../sanitized.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

class api : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  ~api() override {
    if (pool != nullptr) {
      while (nvm_tx_depth(pool) != 0) nvm_tx_abort(pool);
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
  }
  void* committed(std::size_t bytes, int fill) {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    void* p = nvm_alloc(pool, 5, bytes);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    std::memset(p, fill, bytes);
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    return p;
  }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nvm_pool_open(place.path().c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  std::uint64_t objects() {
    std::uint64_t n = 0;
    EXPECT_EQ(nvm_pool_each(
                  pool,
                  [](void*, std::uint32_t, std::size_t, void* count) {
                    ++*static_cast<std::uint64_t*>(count);
                    return 0;
                  },
                  &n),
              0)
        << nvm_errormsg();
    return n;
  }
};
INSTANTIATE_TEST_SUITE_P(media, api, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

#define EXPECT_FAILS(call, code)                             \
  do {                                                       \
    EXPECT_FALSE((call) == 0) << #call;                      \
    EXPECT_EQ(nvm_errno(), code) << #call << nvm_errormsg(); \
    EXPECT_GT(std::strlen(nvm_errormsg()), 8U);              \
  } while (0)
#define EXPECT_NULL(call, code)                              \
  do {                                                       \
    EXPECT_EQ((call), nullptr) << #call;                     \
    EXPECT_EQ(nvm_errno(), code) << #call << nvm_errormsg(); \
  } while (0)

TEST_P(api, objects_and_root_are_there_after_close_and_open) {
  void* p = committed(100, 7);
  EXPECT_EQ(nvm_pool_set_root(pool, p), 0);
  reopen();
  auto* q = static_cast<char*>(nvm_pool_get_root(pool));
  EXPECT_EQ(q, p);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(q[i], 7);
  EXPECT_EQ(nvm_size_of(pool, q), 100U);
  EXPECT_EQ(nvm_type_of(pool, q), 5U);
  EXPECT_EQ(objects(), 1U);
  EXPECT_EQ(nvm_pool_of(q), pool);
}

TEST_P(api, calls_outside_a_transaction_are_refused) {
  void* p = committed(64, 1);
  EXPECT_FAILS(nvm_tx_log(p, 8), NVM_E_NO_TRANSACTION);
  EXPECT_FAILS(nvm_tx_commit(pool), NVM_E_NO_TRANSACTION);
  EXPECT_FAILS(nvm_tx_abort(pool), NVM_E_NO_TRANSACTION);
  EXPECT_FAILS(nvm_free(pool, p), NVM_E_NO_TRANSACTION);
  EXPECT_NULL(nvm_alloc(pool, 1, 8), NVM_E_NO_TRANSACTION);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
}

TEST_P(api, volatile_ranges_are_ignored_and_foreign_ones_refused) {
  scratch elsewhere{GetParam()};
  NVM_POOL* other = elsewhere.create();
  ASSERT_EQ(nvm_tx_begin(other), 0);
  void* theirs = nvm_alloc(other, 1, 64);
  ASSERT_EQ(nvm_tx_commit(other), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  int local = 0;
  EXPECT_EQ(nvm_tx_log(&local, sizeof local), 0);
  EXPECT_EQ(nvm_tx_log(nullptr, 8), 0);
  EXPECT_FAILS(nvm_tx_log(theirs, 8), NVM_E_NO_TRANSACTION);
  EXPECT_FAILS(nvm_free(pool, theirs), NVM_E_BAD_POINTER);
  EXPECT_FAILS(nvm_free(pool, &local), NVM_E_BAD_POINTER);
  EXPECT_FAILS(nvm_pool_set_root(pool, theirs), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(other), 0);
}

TEST_P(api, wrong_frees_change_nothing) {
  auto* p = static_cast<char*>(committed(200, 1));
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_FAILS(nvm_free(pool, p + 16), NVM_E_BAD_POINTER);
  EXPECT_FAILS(nvm_free(pool, p + 1), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_free(pool, nullptr), 0);
  EXPECT_EQ(nvm_free(pool, p), 0);
  EXPECT_FAILS(nvm_free(pool, p), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_FAILS(nvm_free(pool, p), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(objects(), 0U);
}

TEST_P(api, impossible_sizes_are_refused_and_allow_only_abort) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 39, SIZE_MAX}) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_EQ(nvm_alloc(pool, 1, bytes), nullptr);
    EXPECT_TRUE(nvm_errno() == NVM_E_INVALID || nvm_errno() == NVM_E_TOO_LARGE || nvm_errno() == NVM_E_NO_SPACE);
    EXPECT_FAILS(nvm_tx_commit(pool), NVM_E_MUST_ABORT);
  }
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_NULL(nvm_calloc(pool, 1, SIZE_MAX, 2), NVM_E_TOO_LARGE);
  EXPECT_FAILS(nvm_tx_commit(pool), NVM_E_MUST_ABORT);
  void* const p = committed(64, 1);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_NULL(nvm_realloc(pool, p, 1, 0), NVM_E_INVALID);
  EXPECT_FAILS(nvm_tx_commit(pool), NVM_E_MUST_ABORT);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_free(pool, p), 0);
  EXPECT_EQ(nvm_tx_commit(pool), 0);
  committed(64, 1);
  EXPECT_EQ(objects(), 1U);
}

TEST_P(api, calloc_realloc_and_strdup_do_what_their_names_say) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto* z = static_cast<char*>(nvm_calloc(pool, 1, 30, 10));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(z[i], 0);
  char* s = nvm_strdup(pool, "hold fast");
  EXPECT_STREQ(s, "hold fast");
  auto* r = static_cast<char*>(nvm_realloc(pool, nullptr, 2, 100));
  std::memset(r, 9, 100);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  auto* same = static_cast<char*>(nvm_realloc(pool, r, 2, 101));
  EXPECT_EQ(same, r);
  EXPECT_EQ(nvm_size_of(pool, same), 101U);
  auto* grown = static_cast<char*>(nvm_realloc(pool, r, 3, 9000));
  EXPECT_NE(grown, r);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(grown[i], 9);
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_type_of(pool, grown), 3U);
  EXPECT_EQ(objects(), 3U);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_NE(nvm_realloc(pool, grown, 3, 10), nullptr);
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_size_of(pool, grown), 9000U);
}

TEST_P(api, a_pool_with_an_open_transaction_does_not_close) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_FAILS(nvm_pool_close(pool), NVM_E_TX_OPEN);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
}

TEST_P(api, what_is_left_open_at_exit_is_rolled_back_and_the_pool_closed) {
  auto* p = static_cast<char*>(committed(64, 1));
  ASSERT_EQ(nvm_pool_set_root(pool, p), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* mine = nvm_pool_open(place.path().c_str());
    if (mine == nullptr) _exit(2);
    auto* q = static_cast<char*>(nvm_pool_get_root(mine));
    if (nvm_tx_begin(mine) != 0 || nvm_tx_log(q, 64) != 0) _exit(3);
    std::memset(q, 2, 64);
    std::exit(0);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how)) << how;
  ASSERT_EQ(WEXITSTATUS(how), 0);
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_inspect(place.path().c_str(), &info), 0);
  EXPECT_EQ(info.clean, 1U);
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(static_cast<char*>(nvm_pool_get_root(pool))[0], 1);
}

TEST_P(api, a_killed_owner_leaves_its_unfinished_transaction_to_be_rolled_back) {
  auto* p = static_cast<char*>(committed(64, 1));
  ASSERT_EQ(nvm_pool_set_root(pool, p), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* mine = nvm_pool_open(place.path().c_str());
    auto* q = static_cast<char*>(nvm_pool_get_root(mine));
    if (nvm_tx_begin(mine) != 0 || nvm_tx_log(q, 64) != 0) _exit(3);
    std::memset(q, 2, 64);
    raise(SIGKILL);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how));
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(static_cast<char*>(nvm_pool_get_root(pool))[63], 1);
}

// On ssd objects with pages of their own are written once, straight to them, and may be larger than the log; what a
// kill leaves of them is what was committed.
TEST(pools_on_ssd, write_large_objects_once) {
  const scratch place{true};
  constexpr std::size_t log_bytes = 2 << 20;
  constexpr std::size_t object_bytes = 3 * log_bytes + 1000;
  constexpr int rounds = 6;
  nvm_pool_options o{};
  o.size = 32 << 20;
  o.medium = NVM_MEDIUM_SSD;
  o.log_bytes = log_bytes;
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
    if (pool == nullptr) _exit(2);
    nvm_statistics before;
    if (nvm_pool_get_statistics(pool, &before) != 0) _exit(3);
    for (int i = 1; i <= rounds; ++i) {
      if (nvm_tx_begin(pool) != 0) _exit(4);
      void* const old = nvm_pool_get_root(pool);
      auto* p = static_cast<char*>(nvm_alloc(pool, 5, object_bytes));
      if (p == nullptr) _exit(5);
      std::memset(p, i, object_bytes);
      if (nvm_pool_set_root(pool, p) != 0 || (old != nullptr && nvm_free(pool, old) != 0)) _exit(6);
      if (nvm_tx_commit(pool) != 0) _exit(7);
      if (nvm_tx_begin(pool) != 0 || nvm_tx_log(p + 5000, 8) != 0) _exit(8);
      std::memcpy(p + 5000, "changed", 8);
      if (nvm_tx_commit(pool) != 0) _exit(9);
    }
    nvm_statistics after;
    if (nvm_pool_get_statistics(pool, &after) != 0) _exit(10);
    if (after.logged_bytes - before.logged_bytes > rounds * 4096) _exit(11);
    raise(SIGKILL);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how)) << WEXITSTATUS(how);
  NVM_POOL* pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  auto* p = static_cast<char*>(nvm_pool_get_root(pool));
  ASSERT_NE(p, nullptr);
  std::string expected(object_bytes, static_cast<char>(rounds));
  expected.replace(5000, 8, "changed", 8);
  EXPECT_EQ(std::memcmp(p, expected.data(), object_bytes), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
}

TEST_P(api, a_forked_child_can_do_nothing_to_the_pool) {
  void* p = committed(64, 1);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_log(p, 8), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = nvm_tx_begin(pool) == -1 && nvm_errno() == NVM_E_FORKED && nvm_pool_close(pool) == -1 &&
                         nvm_errno() == NVM_E_FORKED && nvm_tx_commit(pool) == -1 && nvm_errno() == NVM_E_FORKED;
    _exit(refused ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  *static_cast<long*>(p) = 4;
  EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_P(api, hooks_run_after_the_outermost_end_in_order_or_with_the_abort_of_their_level) {
  static std::vector<int> ran;
  ran.clear();
  const auto hook = [](NVM_POOL*, enum nvm_tx_event e, void* n) {
    ran.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(n)) * (e == NVM_TX_ON_COMMIT ? 1 : -1));
  };
  const auto number = [](std::intptr_t n) { return reinterpret_cast<void*>(n); };
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_on(pool, NVM_TX_ON_COMMIT, hook, number(1)), 0);
  EXPECT_EQ(nvm_tx_on(pool, NVM_TX_ON_ABORT, hook, number(2)), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_on(pool, NVM_TX_ON_COMMIT, hook, number(3)), 0);
  EXPECT_EQ(nvm_tx_on(pool, NVM_TX_ON_ABORT, hook, number(4)), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_tx_on(pool, NVM_TX_ON_ABORT, hook, number(5)), 0);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_TRUE(ran.empty());
  ASSERT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(ran, (std::vector<int>{-4, -5}));
  EXPECT_EQ(nvm_tx_depth(pool), 1U);
  ASSERT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(ran, (std::vector<int>{-4, -5, 1}));
}

TEST_P(api, an_async_commit_is_durable_after_its_wait) {
  auto* p = static_cast<long*>(committed(64, 0));
  ASSERT_EQ(nvm_pool_set_root(pool, p), 0);
  std::uint64_t lsn = 0;
  for (long i = 1; i <= 20; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    ASSERT_EQ(nvm_tx_log(p, sizeof *p), 0);
    *p = i;
    ASSERT_EQ(nvm_tx_commit_async(pool, &lsn), 0);
  }
  EXPECT_EQ(nvm_wait(pool, lsn), 0) << nvm_errormsg();
  reopen();
  EXPECT_EQ(*static_cast<long*>(nvm_pool_get_root(pool)), 20);
}

TEST_P(api, a_second_open_is_refused_and_names_the_owner) {
  EXPECT_NULL(nvm_pool_open(place.path().c_str()), NVM_E_BUSY);
  const pid_t child = fork();
  if (child == 0) {
    const bool busy = nvm_pool_open(place.path().c_str()) == nullptr && nvm_errno() == NVM_E_BUSY &&
                      std::strstr(nvm_errormsg(), std::to_string(getppid()).c_str()) != nullptr;
    _exit(busy ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_inspect(place.path().c_str(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.owner_pid, getpid());
}

TEST_P(api, read_only_shows_everything_and_changes_nothing) {
  void* p = committed(64, 3);
  ASSERT_EQ(nvm_pool_set_root(pool, p), 0);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  nvm_pool_options o{};
  o.read_only = 1;
  pool = nvm_pool_open_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(static_cast<char*>(nvm_pool_get_root(pool))[5], 3);
  EXPECT_FAILS(nvm_tx_begin(pool), NVM_E_READ_ONLY);
  EXPECT_FAILS(nvm_pool_set_root(pool, nullptr), NVM_E_READ_ONLY);
}

TEST_P(api, several_pools_work_in_one_thread_and_one_transaction_each) {
  scratch elsewhere{GetParam()};
  NVM_POOL* other = elsewhere.create();
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  ASSERT_EQ(nvm_tx_begin(other), 0);
  void* a = nvm_alloc(pool, 1, 64);
  void* b = nvm_alloc(other, 1, 64);
  EXPECT_EQ(nvm_pool_of(a), pool);
  EXPECT_EQ(nvm_pool_of(b), other);
  EXPECT_EQ(nvm_tx_abort(other), 0);
  EXPECT_EQ(nvm_tx_commit(pool), 0);
  EXPECT_EQ(objects(), 1U);
  EXPECT_EQ(nvm_pool_close(other), 0);
}

// A new object needs no announcements, nor do the bytes by which it has grown since.
TEST_P(api, keeps_what_a_new_object_has_grown_by) {
  for (std::size_t bytes = 20; bytes < 3000; bytes += 333) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    auto* p = static_cast<unsigned char*>(nvm_alloc(pool, 1, bytes));
    ASSERT_NE(p, nullptr);
    std::memset(p, 1, bytes);
    p = static_cast<unsigned char*>(nvm_realloc(pool, p, 1, bytes + 7));
    ASSERT_NE(p, nullptr) << nvm_errormsg();
    std::memset(p + bytes, 2, 7);
    ASSERT_EQ(nvm_pool_set_root(pool, p), 0);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    reopen();
    EXPECT_EQ(nvm_size_of(pool, p), bytes + 7);
    for (std::size_t i = 0; i < bytes + 7; ++i) ASSERT_EQ(p[i], i < bytes ? 1 : 2) << bytes << " " << i;
    // Nor those of one that was there before, and stays where it is.
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    auto* q = static_cast<unsigned char*>(nvm_realloc(pool, p, 1, bytes + 9));
    ASSERT_NE(q, nullptr) << nvm_errormsg();
    std::memset(q + bytes + 7, 3, 2);
    ASSERT_EQ(nvm_pool_set_root(pool, q), 0);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    reopen();
    for (std::size_t i = 0; i < bytes + 9; ++i)
      ASSERT_EQ(q[i], i < bytes ? 1 : i < bytes + 7 ? 2 : 3) << bytes << " " << i;
  }
}

TEST_P(api, growth_to_the_capacity_then_a_full_pool_that_still_lets_delete) {
  ASSERT_EQ(nvm_pool_close(pool), 0);
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 3 << 20;
  choose(o, GetParam());
  pool = nvm_pool_create_with(place.path("small").c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  std::vector<void*> all;
  for (;;) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    void* p = nvm_alloc(pool, 1, 50000);
    if (p == nullptr) {
      EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
      EXPECT_FAILS(nvm_tx_commit(pool), NVM_E_MUST_ABORT);
      break;
    }
    if (is_log(GetParam())) {
      // Addresses are virtual: it is the log that is full.
      std::memset(p, 1, 50000);
      if (nvm_tx_commit(pool) != 0) {
        EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
        break;
      }
    } else {
      ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    }
    all.push_back(p);
  }
  EXPECT_GT(all.size(), 40U);
  for (void* p : all) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    ASSERT_EQ(nvm_free(pool, p), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  EXPECT_EQ(objects(), 0U);
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  EXPECT_EQ(info.size, std::uint64_t{3} << 20);
}

TEST_P(api, check_finds_nothing_wrong_in_a_used_pool) {
  for (int i = 1; i < 200; ++i) committed(static_cast<std::size_t>(i) * 37, i);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check(
                place.path().c_str(),
                [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << at << ": " << what; }, nullptr, &sum),
            0);
  EXPECT_EQ(sum.objects, 199U);
}

TEST_P(api, check_tells_how_far_it_is) {
  for (int i = 1; i < 200; ++i) committed(static_cast<std::size_t>(i) * 37, i);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  struct told {
    std::vector<std::uint64_t> done;
    std::uint64_t total = 0;
  } t;
  nvm_check_options o{};
  o.progress = [](std::uint64_t done, std::uint64_t total, void* argument) {
    auto& into = *static_cast<told*>(argument);
    into.done.push_back(done);
    into.total = total;
  };
  o.argument = &t;
  nvm_check_summary sum{};
  EXPECT_EQ(nvm_pool_check_with(place.path().c_str(), &o, &sum), 0) << nvm_errormsg();
  EXPECT_EQ(sum.objects, 199U);
  ASSERT_GE(t.done.size(), 4U);  // a pool of 4 MiB has 1024 pages
  EXPECT_EQ(t.done.front(), 0U);
  EXPECT_TRUE(std::is_sorted(t.done.begin(), t.done.end()));
  EXPECT_LT(t.done[1], t.total);
  EXPECT_EQ(t.done.back(), t.total);

  EXPECT_EQ(nvm_pool_check_with(place.path().c_str(), nullptr, nullptr), 0) << nvm_errormsg();
  o.reserved[1] = 1;
  EXPECT_EQ(nvm_pool_check_with(place.path().c_str(), &o, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

}  // namespace
}  // namespace nvm::tests
