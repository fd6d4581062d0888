// Mistakes of a program are reported: stores outside of transactions, calls of one kind of transaction inside another.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "../sanitized.hpp"
#include "nvm/kv.hpp"
#include "nvm/nvm.hpp"
#include "nvm/stm.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct account {
  nvm::p<long> balance{0};
};

class misuse : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  NVM_POOL* pool = place.create();
  account* a = nullptr;
  void SetUp() override {
    ASSERT_TRUE(nvm::transaction(pool, [&] {
      a = nvm::make<account>(pool, 1);
      return a != nullptr && nvm_pool_set_root(pool, a) == 0;
    })) << nvm_errormsg();
  }
  void TearDown() override {
    nvm_set_misuse_handler(nullptr, nullptr);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
};
INSTANTIATE_TEST_SUITE_P(kinds, misuse, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

struct noted {
  int calls = 0;
  int code = 0;
  std::string message;
  const void* address = nullptr;
  NVM_POOL* pool = nullptr;
  const void* caller = nullptr;
};
void note(const nvm_misuse* m, void* argument) {
  auto& n = *static_cast<noted*>(argument);
  ++n.calls;
  n.code = m->code;
  n.message = m->message;
  n.address = m->address;
  n.pool = m->pool;
  n.caller = m->caller;
}

using misuse_death = misuse;
INSTANTIATE_TEST_SUITE_P(kinds, misuse_death, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);
TEST_P(misuse_death, a_store_outside_of_transactions_ends_the_process_with_the_place) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child makes a pool of its own
  EXPECT_DEATH(a->balance = 5,
               "misuse: 0x[0-9a-f]+ lies in .*no transaction open.*\n.*the address is 0x[0-9a-f]+, in pool /"
               ".*\n.*called from .*\\+0x[0-9a-f]+\\)\n"
               "file and line: addr2line -Cfie /.* 0x[0-9a-f]+\n.*by these calls.*\n.*\\(.*\\)\\[0x");
  EXPECT_EQ(a->balance, 0);
}

// The command that the message names leads to the program's own function, and to the line where there is one.
[[gnu::noinline]] void store_outside_of_transactions(account* to) { to->balance += 5; }
constexpr int line_of_store = __LINE__ - 1;
std::string first_command_of(const std::string& message) {
  const std::size_t at = message.find("addr2line ");
  return at == std::string::npos ? "" : message.substr(at, message.find('\n', at) - at);
}
TEST_P(misuse_death, the_place_is_the_programs_own_line) {
  const std::string told = place.path("told");
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* mine = place.create("of_child");
    account* made = nullptr;
    (void)nvm::transaction(mine, [&] { return (made = nvm::make<account>(mine, 1)) != nullptr; });
    (void)std::freopen(told.c_str(), "w", stderr);
    store_outside_of_transactions(made);
    _exit(0);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
  std::ostringstream message;
  message << std::ifstream{told}.rdbuf();
  const std::string command = first_command_of(message.str());
  ASSERT_NE(command, "") << message.str();
  std::FILE* const answer = popen(command.c_str(), "r");
  ASSERT_NE(answer, nullptr);
  std::string lines(4096, '\0');
  lines.resize(std::fread(lines.data(), 1, lines.size(), answer));
  if (pclose(answer) != 0 || lines.find("??:") != std::string::npos) GTEST_SKIP() << command << ": " << lines;
  const std::string line = "misuse_test.cpp:" + std::to_string(line_of_store);
  EXPECT_NE(lines.find("store_outside_of_transactions"), std::string::npos) << lines;
  EXPECT_NE(lines.find(line), std::string::npos) << lines;
}

TEST_P(misuse, a_store_outside_of_transactions_is_told_to_the_handler_and_left_out) {
  noted n;
  nvm_set_misuse_handler(note, &n);
  a->balance = 5;
  a->balance += 7;
  --a->balance;
  EXPECT_EQ(n.calls, 3);
  EXPECT_EQ(n.code, NVM_E_NO_TRANSACTION);
  EXPECT_EQ(n.address, a);
  EXPECT_EQ(n.pool, pool);
  EXPECT_NE(n.caller, nullptr);
  EXPECT_NE(n.message.find(place.path()), std::string::npos) << n.message;
  EXPECT_EQ(a->balance, 0);
}

TEST_P(misuse, a_handler_may_throw) {
  nvm_set_misuse_handler([](const nvm_misuse* m, void*) { throw m->code; }, nullptr);
  EXPECT_THROW(a->balance = 5, int);
  EXPECT_EQ(a->balance, 0);
}

TEST_P(misuse, a_store_while_only_another_pool_has_a_transaction_is_told) {
  NVM_POOL* other = place.create("other");
  noted n;
  nvm_set_misuse_handler(note, &n);
  ASSERT_EQ(nvm_tx_begin(other), 0);
  a->balance = 5;
  EXPECT_EQ(nvm_tx_commit(other), 0);
  EXPECT_EQ(n.calls, 1);
  EXPECT_EQ(nvm_pool_close(other), 0);
}

TEST_P(misuse, a_store_after_a_failure_is_rolled_back_and_the_commit_fails) {
  const auto done = nvm::transaction(pool, [&] {
    EXPECT_EQ(nvm_alloc(pool, 1, std::size_t{1} << 45), nullptr);
    a->balance = 77;
    return true;
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(a->balance, 0);
}

TEST_P(misuse, a_field_whose_announcement_fails_dooms_its_transaction) {
  // A field that lies across the end of the pool's data cannot be announced.
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  auto* beyond = reinterpret_cast<nvm::p<long>*>(info.base + 8);
  const auto done = nvm::transaction(pool, [&] {
    a->balance = 5;
    *beyond = 7;
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(done.code(), nvm_errno());
  EXPECT_EQ(a->balance, 0);
}

// ---- two kinds of transaction

// The call fails inside of a barrier transaction, which is rolled back, and the sentence names what to call instead.
template <class Call>
void dooms_barriers(NVM_POOL* pool, account* a, const char* instead, Call&& call) {
  std::string sentence;
  const auto done = nvm::atomic(pool, [&](nvm::tx&) {
    a->balance = 5;
    call();
    sentence = nvm_errormsg();
    a->balance = 6;
    return true;
  });
  EXPECT_FALSE(done) << instead;
  EXPECT_EQ(done.code(), NVM_E_TX_OPEN) << instead;
  EXPECT_EQ(a->balance, 0) << instead;
  EXPECT_NE(sentence.find(instead), std::string::npos) << sentence;
}

TEST_P(misuse, calls_of_announced_stores_doom_a_barrier_transaction) {
  const auto no = [&](const char* instead, auto&& call) { dooms_barriers(pool, a, instead, call); };
  no("tx.make()", [&] { EXPECT_EQ(nvm_alloc(pool, 1, 8), nullptr); });
  no("nvm_stm_alloc()", [&] { EXPECT_EQ(nvm_calloc(pool, 1, 1, 8), nullptr); });
  no("tx.make()", [&] { EXPECT_EQ(nvm::make<account>(pool, 1), nullptr); });
  no("nvm_stm_alloc()", [&] { EXPECT_EQ(nvm_realloc(pool, a, 1, 8), nullptr); });
  no("nvm_stm_alloc()", [&] { EXPECT_EQ(nvm_strdup(pool, "text"), nullptr); });
  no("tx.free()", [&] { EXPECT_EQ(nvm_free(pool, a), -1); });
  no("tx.set_root()", [&] { EXPECT_EQ(nvm_pool_set_root(pool, nullptr), -1); });
  no("tx.store()", [&] { EXPECT_EQ(nvm_tx_log(a, 8), -1); });
  no("nvm::atomic()", [&] { EXPECT_EQ(nvm_tx_begin(pool), -1); });
  no("nvm::atomic()", [&] { EXPECT_FALSE(nvm::transaction(pool, [] {})); });
  no("nvm_stm_cancel()", [&] { EXPECT_EQ(nvm_tx_abort(pool), -1); });
  no("nvm_stm_cancel()", [&] { EXPECT_EQ(nvm_tx_commit(pool), -1); });
  no("tx.store()", [&] { EXPECT_FALSE(nvm::destroy(pool, a)); });
  EXPECT_EQ(nvm_pool_get_root(pool), a);
}

TEST_P(misuse, calls_of_barriers_doom_a_transaction_of_announced_stores) {
  auto store = nvm::kv::open(pool, "s");
  ASSERT_TRUE(store) << nvm_errormsg();
  const auto no = [&](auto&& call) {
    std::string sentence;
    const auto done = nvm::transaction(pool, [&] {
      a->balance = 5;
      call();
      sentence = nvm_errormsg();
      return true;
    });
    EXPECT_FALSE(done);
    EXPECT_EQ(a->balance, 0);
    EXPECT_NE(sentence.find("nvm_alloc()"), std::string::npos) << sentence;
  };
  no([&] { EXPECT_EQ(nvm_stm_run(pool, [](nvm_stm*, void*) { return 0; }, nullptr), -1); });
  no([&] { EXPECT_FALSE(nvm::atomic(pool, [](nvm::tx&) {})); });
  no([&] { EXPECT_FALSE(nvm::atomic([] {})); });
  no([&] { EXPECT_FALSE(store->put("k", "v")); });
  no([&] { EXPECT_EQ(store->get("k").code(), NVM_E_TX_OPEN); });
  no([&] { EXPECT_FALSE(nvm::kv::open(pool, "t")); });
  no([&] { EXPECT_EQ(nvm_stm_alloc(nvm_stm_current(), 1, 8), nullptr); });
  no([&] { EXPECT_EQ(nvm_stm_free(nvm_stm_current(), a), -1); });
  no([&] { EXPECT_EQ(nvm_stm_set_root(nvm_stm_current(), a), -1); });
  EXPECT_FALSE(store->contains("k"));
}

TEST_P(misuse, a_doomed_level_takes_the_transaction_with_it) {
  EXPECT_FALSE(nvm::atomic(pool, [&](nvm::tx&) {
    a->balance = 5;
    EXPECT_FALSE(nvm::atomic(pool, [&] {
      a->balance = 6;
      EXPECT_EQ(nvm_free(pool, a), -1);
    }));
  }));
  EXPECT_EQ(a->balance, 0);
}

TEST_P(misuse, an_outcome_of_a_body_is_its_verdict) {
  const auto outer = [&](int code) {
    return nvm::transaction(pool, [&] {
      a->balance += 1;
      return nvm::outcome{code};
    });
  };
  EXPECT_EQ(outer(NVM_E_NO_SPACE).code(), NVM_E_NO_SPACE);
  EXPECT_EQ(a->balance, 0);
  EXPECT_TRUE(outer(NVM_OK));
  EXPECT_EQ(a->balance, 1);
  EXPECT_EQ(nvm::atomic(pool, [&] { return nvm::outcome{NVM_E_NOT_FOUND}; }).code(), NVM_E_NOT_FOUND);
}

}  // namespace
}  // namespace nvm::tests
