// Nesting, the ways out of a body, hooks, and which transactions may be open together; in C++ and C.
#include <stdexcept>
#include <string>
#include <thread>

#include "place.hpp"

namespace nvm::tests {
namespace {

class stm_levels : public everywhere {};
NVM_EVERYWHERE(stm_levels);

TEST_P(stm_levels, an_inner_level_is_rolled_back_alone) {
  auto* x = here.shared<long>(32);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    t.store(x + 20, 1);
    const outcome inner = atomic(here.pool(), [&](tx& u) {
      EXPECT_EQ(nvm_stm_depth(u.handle()), 2U);
      u.store(x, 2);
      u.store(x + 8, 2);
      u.cancel(9);
    });
    EXPECT_EQ(inner.code(), 9);
    EXPECT_EQ(t.load(x), 1);
    EXPECT_EQ(t.load(x + 8), 0);
    t.store(x + 16, 3);
  }));
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[8], 0);
  EXPECT_EQ(x[16], 3);
  EXPECT_EQ(x[20], 1);
}

TEST_P(stm_levels, what_a_committed_level_did_goes_with_the_outer_one) {
  auto* x = here.shared<long>(16);
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    EXPECT_TRUE(atomic(here.pool(), [&](tx& u) {
      u.store(x, 2);
      u.store(x + 8, 2);
    }));
    EXPECT_EQ(t.load(x + 8), 2);
    t.store(x + 8, 3);
    return false;
  }));
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(x[8], 0);
}

TEST_P(stm_levels, an_exception_rolls_back_and_goes_on) {
  auto* x = here.shared<long>(2);
  try {
    (void)atomic(here.pool(), [&](tx& t) {
      t.store(x, 1);
      throw std::runtime_error{"mine"};
    });
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "mine");
  }
  EXPECT_EQ(*x, 0);
  EXPECT_EQ(nvm_stm_current(), nullptr);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    try {
      (void)atomic(here.pool(), [&](tx& u) {
        u.store(x, 2);
        throw 7;
      });
    } catch (int) {
    }
    EXPECT_EQ(t.load(x), 1);
  }));
  EXPECT_EQ(*x, 1);
}

TEST_P(stm_levels, a_body_that_swallows_the_end_is_left_all_the_same) {
  auto* x = here.shared<long>(2);
  int after = 0;
  const outcome done = atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    try {
      t.cancel(4);
    } catch (...) {
    }
    t.store(x, 2);
    ++after;
  });
  EXPECT_EQ(done.code(), 4);
  EXPECT_EQ(after, 0);
  EXPECT_EQ(*x, 0);
  EXPECT_EQ(nvm_stm_current(), nullptr);
}

TEST_P(stm_levels, retry_runs_again_when_something_has_changed) {
  auto* x = here.shared<long>(16);
  std::thread setter{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    EXPECT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x, 1); }));
  }};
  int runs = 0;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    ++runs;
    t.store(x + 8, 5);
    // From an inner level the whole transaction starts again.
    (void)atomic(here.pool(), [&](tx& u) {
      if (u.load(x) == 0) u.retry();
    });
  }));
  setter.join();
  EXPECT_GE(runs, 2);
  EXPECT_EQ(x[8], 5);
}

TEST_P(stm_levels, an_irrevocable_transaction_runs_alone_and_commits) {
  auto* x = here.shared<long>(16);
  const bool in_place =
      GetParam() != where::redo && GetParam() != where::redo_by_mark && GetParam() != where::mnemosyne;
  int effects = 0;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(x, t.load(x) + 1);
    t.become_irrevocable();
    EXPECT_TRUE(nvm_stm_is_irrevocable(t.handle()));
    EXPECT_EQ(nvm_stm_is_in_place(t.handle()) != 0, in_place);
    ++effects;
    if (in_place) {
      EXPECT_EQ(x[0], 1);  // for code without barriers
      nvm_stm_log(t.handle(), x + 4, sizeof x[4]);
      x[4] = 7;
    }
    t.store(x + 8, 1);
  }));
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[4], in_place ? 7 : 0);
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    t.become_irrevocable();
    if (in_place) {
      nvm_stm_log(t.handle(), x + 4, sizeof x[4]);
      x[4] = 8;
    }
    t.cancel();
  }));
  EXPECT_EQ(x[4], in_place ? 7 : 0);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    EXPECT_FALSE(nvm_stm_is_irrevocable(t.handle()));
    t.store(x, 2);
  }));
}

struct calls {
  int commits = 0, aborts = 0;
};
void count(NVM_POOL*, enum nvm_tx_event event, void* argument) {
  auto* c = static_cast<calls*>(argument);
  event == NVM_TX_ON_COMMIT ? ++c->commits : ++c->aborts;
}

TEST_P(stm_levels, hooks_run_when_it_is_over) {
  auto* x = here.shared<long>(2);
  calls c;
  const auto body = [&](tx& t) {
    EXPECT_EQ(nvm_stm_on(t.handle(), NVM_TX_ON_COMMIT, count, &c), 0);
    EXPECT_EQ(nvm_stm_on(t.handle(), NVM_TX_ON_ABORT, count, &c), 0);
    t.store(x, 1);
    EXPECT_EQ(c.commits + c.aborts, 0);
  };
  ASSERT_TRUE(atomic(here.pool(), body));
  EXPECT_EQ(c.commits, 1);
  EXPECT_EQ(c.aborts, 0);
  c = {};
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    body(t);
    t.cancel();
  }));
  EXPECT_EQ(c.aborts, 1);
  EXPECT_EQ(c.commits, 0);
  c = {};
  ASSERT_TRUE(atomic(here.pool(), [&](tx&) {
    EXPECT_FALSE(atomic(here.pool(), [&](tx& u) {
      EXPECT_EQ(nvm_stm_on(u.handle(), NVM_TX_ON_ABORT, count, &c), 0);
      u.cancel();
    }));
    EXPECT_EQ(c.aborts, 1);  // at once
  }));
  EXPECT_EQ(c.aborts, 1);
  int committed = 0;
  int aborted = 0;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.on_commit([&] { ++committed; });
    t.on_abort([&] { ++aborted; });
  }));
  EXPECT_EQ(committed, 1);
  EXPECT_EQ(aborted, 0);
}

// ---- the C face

struct job {
  NVM_POOL* pool;
  long* x;
  int inner_code;
  int runs;
};

int add_in_a_level(nvm_stm* tx, void* argument) {
  auto* j = static_cast<job*>(argument);
  auto* at = reinterpret_cast<std::uint64_t*>(j->x);
  nvm_stm_store64(tx, at, nvm_stm_load64(tx, at) + 1);
  if (j->inner_code < 0) nvm_stm_cancel(tx, -j->inner_code);
  return j->inner_code;
}
int outer(nvm_stm* tx, void* argument) {
  auto* j = static_cast<job*>(argument);
  ++j->runs;
  nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(j->x + 8), 1);
  const int code = nvm_stm_run(nullptr, add_in_a_level, j);
  EXPECT_EQ(code, j->inner_code < 0 ? -j->inner_code : j->inner_code);
  EXPECT_EQ(nvm_stm_depth(tx), 1U);
  return 0;
}

TEST_P(stm_levels, run_returns_what_ended_the_body) {
  auto* x = here.shared<long>(16);
  job j{here.pool(), x, 0, 0};
  EXPECT_EQ(nvm_stm_run(here.pool(), outer, &j), 0);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[8], 1);
  j.inner_code = 3;
  EXPECT_EQ(nvm_stm_run(here.pool(), outer, &j), 0);
  EXPECT_EQ(x[0], 1);
  j.inner_code = -6;
  EXPECT_EQ(nvm_stm_run(here.pool(), outer, &j), 0);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(nvm_stm_run(here.pool(), add_in_a_level, &j), 6);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(nvm_stm_current(), nullptr);
}

int wait_for_ready(nvm_stm* tx, void* argument) {
  auto* j = static_cast<job*>(argument);
  ++j->runs;
  if (nvm_stm_load64(tx, reinterpret_cast<std::uint64_t*>(j->x)) == 0) nvm_stm_retry(tx);
  return 0;
}
int wait_inside(nvm_stm* tx, void* argument) {
  auto* j = static_cast<job*>(argument);
  nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(j->x + 8), 2);
  // C around C++ around C: each frame is left in its own way.
  return atomic(j->pool,
                [&](nvm::tx&) {
                  const std::string ended_by_the_way(100, 'x');
                  return nvm_stm_run(j->pool, wait_for_ready, j) == 0;
                })
             ? 0
             : 1;
}

TEST_P(stm_levels, faces_nest_in_each_other) {
  auto* x = here.shared<long>(16);
  job j{here.pool(), x, 0, 0};
  std::thread setter{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    EXPECT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x, 1); }));
  }};
  EXPECT_EQ(nvm_stm_run(here.pool(), wait_inside, &j), 0);
  setter.join();
  EXPECT_GE(j.runs, 2);
  EXPECT_EQ(x[8], 2);
}

// ---- who may be open beside whom

class stm_together : public everywhere {};
NVM_EVERY_POOL(stm_together);

TEST_P(stm_together, announced_stores_and_barriers_do_not_mix) {
  auto* x = here.shared<long>(2);
  ASSERT_EQ(nvm_tx_begin(here.pool()), 0) << nvm_errormsg();
  EXPECT_EQ(atomic(here.pool(), [](tx&) {}).code(), NVM_E_TX_OPEN);
  EXPECT_EQ(atomic([](tx&) {}).code(), NVM_E_TX_OPEN);
  EXPECT_EQ(nvm_tx_commit(here.pool()), -1);  // it has been left to be rolled back
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    EXPECT_EQ(nvm_tx_begin(here.pool()), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
    EXPECT_EQ(nvm_tx_log(x, sizeof *x), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
    EXPECT_EQ(nvm_alloc(here.pool(), 1, 16), nullptr);
    EXPECT_EQ(nvm_stm_quiesce(), -1);
  }));
  EXPECT_EQ(*x, 0);
  EXPECT_EQ(nvm_stm_quiesce(), 0);
}

TEST_P(stm_together, a_pool_is_not_closed_under_a_transaction) {
  auto* x = here.shared<long>(2);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    (void)t.load(x);  // no lane is taken for that
    EXPECT_EQ(nvm_pool_close(here.pool()), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TX_OPEN);
    EXPECT_EQ(nvm_stm_set_policy(here.pool(), NVM_STM_POLICY_ENGINE), -1);
  }));
}

TEST_P(stm_together, one_transaction_has_one_pool) {
  place other{where::undo};
  auto* x = here.shared<long>(2);
  auto* y = other.shared<long>(2);
  const outcome done = atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    EXPECT_EQ(t.load(y), 0);
    EXPECT_EQ(atomic(other.pool(), [](tx&) {}).code(), NVM_E_INVALID);
    t.store(y, 1);
    ADD_FAILURE() << "stored into another pool";
  });
  EXPECT_EQ(done.code(), NVM_E_BAD_POINTER);
  EXPECT_EQ(*x, 0);
  EXPECT_EQ(*y, 0);
}

TEST_P(stm_together, a_volatile_transaction_finds_its_pool_in_a_level) {
  auto* x = here.shared<long>(2);
  long mine = 0;
  ASSERT_TRUE(atomic([&](tx& t) {
    t.store(&mine, 1);
    EXPECT_TRUE(atomic(here.pool(), [&](tx& u) {
      u.store(x, 2);
      u.store(&mine, u.load(&mine) + 1);
    }));
    EXPECT_EQ(t.load(&mine), 2);
  }));
  EXPECT_EQ(mine, 2);
  EXPECT_EQ(*x, 2);
  EXPECT_FALSE(atomic([&](tx& t) {
    t.store(&mine, 10);
    EXPECT_TRUE(atomic(here.pool(), [&](tx& u) {
      u.store(x, 20);
      u.store(&mine, 20);
    }));
    return false;
  }));
  EXPECT_EQ(mine, 2);
  EXPECT_EQ(*x, 2);
}

// What only an inner level that is gone has stored to is as if it had never been touched, for the next transaction too.
TEST_P(stm_together, lines_of_a_level_that_is_gone_are_forgotten) {
  auto* x = here.shared<long>(64);
  for (const int lines : {1, 3}) {
    for (const bool backwards : {false, true}) {
      ASSERT_TRUE(atomic(here.pool(), [&](tx&) {
        EXPECT_FALSE(atomic([&](tx& inner) {
          for (int i = 0; i < lines; ++i) inner.store(x + 8 * i, -1);
          inner.cancel(1);
        }));
      }));
      const long value = x[0] + 1;
      ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
        for (int i = 0; i < 5; ++i) t.store(x + 8 * (backwards ? 4 - i : i), value);
      }));
      here.reopen();
      for (int i = 0; i < 5; ++i) EXPECT_EQ(x[8 * i], value) << i;
    }
  }
}

// A level that has announced more than the log has room for leaves nothing of that in the log.
TEST_P(stm_together, a_level_that_found_no_room_leaves_none_of_its_words) {
  if (GetParam() == where::ssd) GTEST_SKIP() << "so large an object cannot even be made there";
  constexpr std::size_t large = std::size_t{3} << 20;  // more than a ring has
  auto* x = here.shared<std::byte>(large + 64);
  for (const bool stored_before : {false, true}) {
    ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
      if (stored_before) t.store(reinterpret_cast<long*>(x), 1);
      const outcome inner = atomic([&](tx& u) {
        const nvm_range ranges[] = {{x, 64}, {x + 64, large}};
        u.expect(ranges, 2);
        u.cancel(1);
      });
      EXPECT_FALSE(inner);
    })) << nvm_errormsg();
    ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(reinterpret_cast<long*>(x + 8), 2); })) << nvm_errormsg();
  }
  here.reopen();
  EXPECT_EQ(*reinterpret_cast<long*>(x), 1);
  EXPECT_EQ(*reinterpret_cast<long*>(x + 8), 2);
}

TEST_P(stm_together, a_thread_that_ends_inside_is_rolled_back) {
  auto* x = here.shared<long>(2);
  std::thread{[&] {
    nvm_stm* t = nvm_stm_begin(here.pool(), [](nvm_stm*, int, void*) {}, nullptr);
    ASSERT_NE(t, nullptr);
    nvm_stm_store64(t, reinterpret_cast<std::uint64_t*>(x), 5);
  }}.join();
  EXPECT_EQ(*x, 0);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x, 1); }));
}

}  // namespace
}  // namespace nvm::tests
