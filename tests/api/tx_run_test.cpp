// nvm_tx_run(): what its body does and returns, and calls inside of it that could only end the process otherwise.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "nvm/compiled.h"
#include "nvm/malloc.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

struct kind {
  std::uint32_t medium;
  std::uint32_t engine;
  const char* name;
};
const kind kinds[] = {{0, NVM_ENGINE_UNDO, "undo"},
                      {0, NVM_ENGINE_MNEMOSYNE_UNDO, "mnemosyne"},
                      {0, NVM_ENGINE_LOG, "log"},
                      {NVM_MEDIUM_SSD, NVM_ENGINE_UNDO, "ssd"}};

class runs : public testing::TestWithParam<kind> {
 protected:
  runs() : dir{GetParam().medium == NVM_MEDIUM_SSD} { pool = create("pool"); }
  ~runs() override {
    if (pool == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  // Its root: `bytes` of 1.
  NVM_POOL* create(const char* name) {
    nvm_pool_options o{};
    o.size = 16 * megabyte;
    o.capacity = o.size;
    o.medium = GetParam().medium == NVM_MEDIUM_SSD ? NVM_MEDIUM_SSD : direct_medium();
    o.engine = GetParam().engine;
    NVM_POOL* const made = nvm_pool_create_with(dir.path(name).c_str(), &o);
    EXPECT_NE(made, nullptr) << nvm_errormsg();
    if (made == nullptr || nvm_tx_begin(made) != 0) return nullptr;
    auto* const all = static_cast<char*>(nvm_alloc(made, 0, room));
    EXPECT_NE(all, nullptr) << nvm_errormsg();
    if (all != nullptr) std::memset(all, 1, room);
    EXPECT_EQ(nvm_pool_set_root(made, all), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(made), 0) << nvm_errormsg();
    return made;
  }
  // Takes what is free, so that a log cannot grow.
  void fill() {
    for (std::size_t n = megabyte; n >= 64; n /= 2) {
      for (;;) {
        ASSERT_EQ(nvm_tx_begin(pool), 0);
        const void* const p = nvm_alloc(pool, 0, n);
        if (p == nullptr) {
          ASSERT_EQ(nvm_tx_abort(pool), 0);
          break;
        }
        if (nvm_tx_commit(pool) != 0) break;
      }
    }
  }
  [[nodiscard]] char* bytes() { return static_cast<char*>(nvm_pool_get_root(pool)); }
  void expect_all(char c) {
    for (std::size_t i = 0; i < room; i += 512) ASSERT_EQ(bytes()[i], c) << i;
  }

  static constexpr std::size_t room = 5 * megabyte;
  scratch dir;
  NVM_POOL* pool = nullptr;
};
INSTANTIATE_TEST_SUITE_P(on, runs, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

// What compiled code does for a store.
void store(char* at, std::size_t n, char c) {
  __nvm_log(at, n);
  std::memset(at, c, n);
}

template <class F>
int run(NVM_POOL* pool, F f) {
  return nvm_tx_run(pool, [](void* a) { return (*static_cast<F*>(a))(); }, &f);
}

TEST_P(runs, commit_what_the_body_did_or_take_it_back) {
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), room / 100, 2);
                  return 0;
                }),
            0)
      << nvm_errormsg();
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_EQ(bytes()[0], 2);
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 100, 3);
                  return 7;
                }),
            7);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_EQ(bytes()[0], 2);
  // A level inside of another transaction.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  store(bytes(), 1, 4);
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 2, 5);
                  return -5;
                }),
            -5);
  EXPECT_EQ(nvm_tx_depth(pool), 1U);
  EXPECT_EQ(std::string(bytes(), 2), std::string("\4\2"));
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

TEST_P(runs, say_what_the_body_did_wrong) {
  EXPECT_EQ(nvm_tx_run(pool, nullptr, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(run(nullptr, [] { return 0; }), -1);
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 1, 2);
                  return nvm_tx_abort(pool);
                }),
            -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NO_TRANSACTION) << nvm_errormsg();
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 1, 2);
                  return nvm_tx_begin(pool);
                }),
            -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_THROW((void)run(pool,
                         [&]() -> int {
                           store(bytes(), 1, 2);
                           throw std::runtime_error{"by the body"};
                         }),
               std::runtime_error);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_EQ(bytes()[0], 1);
}

TEST_P(runs, are_left_by_a_store_whose_old_bytes_have_no_room) {
  fill();
  EXPECT_EQ(run(pool,
                [&] {
                  for (std::size_t at = 0; at < room; at += 1024) store(bytes() + at, 1024, 2);
                  for (std::size_t at = 0; at < room; at += 1024) store(bytes() + at, 1024, 3);
                  return 0;
                }),
            -1)
      << nvm_errormsg();
  EXPECT_TRUE(nvm_errno() == NVM_E_NO_SPACE || nvm_errno() == NVM_E_LOG_FULL || nvm_errno() == NVM_E_MUST_ABORT)
      << nvm_errormsg();
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  expect_all(1);
  // The program goes on.
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 64, 4);
                  return 0;
                }),
            0)
      << nvm_errormsg();
  EXPECT_EQ(bytes()[63], 4);
}

TEST_P(runs, that_are_left_take_back_inner_levels_and_other_pools) {
  NVM_POOL* const other = create("other");
  ASSERT_NE(other, nullptr);
  auto* const others = static_cast<char*>(nvm_pool_get_root(other));
  std::vector<int> hooks;
  EXPECT_EQ(
      run(pool,
          [&] {
            store(bytes(), 8, 2);
            EXPECT_EQ(
                nvm_tx_on(
                    pool, NVM_TX_ON_ABORT,
                    [](NVM_POOL*, nvm_tx_event, void* a) { static_cast<std::vector<int>*>(a)->push_back(1); }, &hooks),
                0);
            EXPECT_EQ(nvm_tx_begin(other), 0);
            store(others, 8, 3);
            EXPECT_EQ(nvm_tx_begin(pool), 0);
            store(bytes() + 8, 8, 3);
            __nvm_log(bytes(), 64 * megabyte);  // which leads out of the pool
            ADD_FAILURE() << "goes on";
            return 0;
          }),
      -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  EXPECT_EQ(nvm_tx_depth(other), 0U);
  EXPECT_EQ(hooks.size(), 1U);
  EXPECT_EQ(others[0], 1);
  expect_all(1);
  EXPECT_EQ(nvm_pool_close(other), 0) << nvm_errormsg();
}

TEST_P(runs, inside_of_others_fail_alone_and_transactions_begun_before_are_doomed) {
  const auto fails = [&] {
    __nvm_log(bytes(), 64 * megabyte);
    return 0;
  };
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 8, 2);
                  EXPECT_EQ(run(pool, fails), -1);
                  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
                  EXPECT_EQ(nvm_tx_depth(pool), 1U);
                  return 0;
                }),
            0)
      << nvm_errormsg();
  EXPECT_EQ(bytes()[0], 2);
  // A run of another pool is left; the transaction that could not go on is not its own.
  NVM_POOL* const other = create("other");
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  store(bytes(), 8, 3);
  EXPECT_EQ(run(other, fails), -1);
  EXPECT_EQ(nvm_tx_commit(pool), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_MUST_ABORT) << nvm_errormsg();
  EXPECT_EQ(bytes()[0], 2);
  EXPECT_EQ(nvm_pool_close(other), 0) << nvm_errormsg();
}

TEST_P(runs, leave_an_atomic_block_that_cannot_be_begun) {
  EXPECT_EQ(run(pool,
                [&] {
                  store(bytes(), 8, 2);
                  const nvm_atomic_block block = nvm_atomic_begin(nullptr);
                  ADD_FAILURE() << "goes on at depth " << block.depth;
                  return 0;
                }),
            -1);
  EXPECT_EQ(nvm_tx_depth(pool), 0U);
  expect_all(1);
}

// Whether a process that stores so ends by abort(); a child of one with open pools would find none of them open.
bool aborts(void (*stores)(NVM_POOL* pool, char* bytes)) {
  const scratch dir{false};
  const pid_t child = ::fork();
  if (child == 0) {
    NVM_POOL* const pool = dir.create();
    auto* const bytes =
        pool == nullptr || nvm_tx_begin(pool) != 0 ? nullptr : static_cast<char*>(nvm_alloc(pool, 0, 1000));
    if (bytes != nullptr) stores(pool, bytes);
    ::_exit(0);
  }
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

TEST(runs_of_others, end_the_process_where_none_is_open) {
  EXPECT_TRUE(aborts([](NVM_POOL*, char* bytes) { __nvm_log(bytes, 64 * megabyte); }));
  // One that was left by the program is none.
  EXPECT_TRUE(aborts([](NVM_POOL* pool, char* bytes) {
    static std::jmp_buf here;
    if (setjmp(here) == 0) (void)run(pool, []() -> int { std::longjmp(here, 1); });
    __nvm_log(bytes, 64 * megabyte);
  }));
  // A call of the library that waits cannot be left, but for a run of the hook's own.
  static const auto with_hook = [](NVM_POOL* pool, nvm_tx_hook hook, void* bytes) {
    (void)run(pool, [=] {
      const bool bad = nvm_tx_begin(pool) != 0 || nvm_tx_on(pool, NVM_TX_ON_ABORT, hook, bytes) != 0;
      return bad ? 1 : nvm_tx_abort(pool);
    });
  };
  EXPECT_TRUE(aborts([](NVM_POOL* pool, char* bytes) {
    with_hook(pool, [](NVM_POOL*, nvm_tx_event, void* to) { __nvm_log(to, 64 * megabyte); }, bytes);
  }));
  EXPECT_FALSE(aborts([](NVM_POOL* pool, char* bytes) {
    with_hook(
        pool,
        [](NVM_POOL* of, nvm_tx_event, void* to) {
          (void)run(of, [to] {
            __nvm_log(to, 64 * megabyte);
            return 0;
          });
        },
        bytes);
  }));
  EXPECT_FALSE(aborts([](NVM_POOL* pool, char* bytes) {
    (void)run(pool, [=] {
      __nvm_log(bytes, 64 * megabyte);
      return 0;
    });
  }));
}

}  // namespace
}  // namespace nvm::tests
