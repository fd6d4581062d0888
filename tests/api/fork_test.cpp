// fork(): a child that accesses a pool ends with a message, and a daemon goes on with the pools that its parent had
// open.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "../sanitized.hpp"
#include "nvm/malloc.h"
#include "nvm/space.h"
#include "nvm/store.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

// What a child printed to standard error, and how it ended.
struct ended {
  std::string said;
  int how = 0;
};
ended child_of(const std::function<void()>& does) {
  int told[2];
  EXPECT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(told[1], STDERR_FILENO);
    ::close(told[0]);
    ::close(told[1]);
    does();
    ::_exit(7);
  }
  ::close(told[1]);
  ended all;
  char buffer[512];
  for (ssize_t n; (n = ::read(told[0], buffer, sizeof buffer)) > 0;)
    all.said.append(buffer, static_cast<std::size_t>(n));
  ::close(told[0]);
  EXPECT_EQ(::waitpid(child, &all.how, 0), child);
  return all;
}

class forks : public testing::TestWithParam<pool_kind> {
 protected:
  forks() {
    EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    words = static_cast<long*>(nvm_calloc(pool, 0, 8, sizeof(long)));
    EXPECT_TRUE(words != nullptr && nvm_pool_set_root(pool, words) == 0 && nvm_tx_commit(pool) == 0) << nvm_errormsg();
  }
  ~forks() override {
    if (pool == nullptr) return;
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
  void store(NVM_POOL* p, long value) const {
    EXPECT_TRUE(nvm_tx_begin(p) == 0 && nvm_tx_log(words, sizeof *words) == 0) << nvm_errormsg();
    words[0] = value;
    EXPECT_EQ(nvm_tx_commit(p), 0) << nvm_errormsg();
  }

  scratch dir{GetParam()};
  NVM_POOL* pool = dir.create();
  long* words = nullptr;
};
INSTANTIATE_TEST_SUITE_P(media, forks, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(forks, tell_a_child_whose_memory_it_accesses) {
  const ended all = child_of([&] { words[0] = *static_cast<volatile long*>(words) + 1; });
  EXPECT_TRUE(WIFSIGNALED(all.how) || WIFEXITED(all.how)) << all.how;
  EXPECT_FALSE(WIFEXITED(all.how) && WEXITSTATUS(all.how) == 7) << "it had the memory";
  EXPECT_NE(all.said.find("in pool " + dir.path() + ": a forked child does not have the pools"), std::string::npos)
      << all.said;
}

void leave_by_handler(int) { ::_exit(42); }
TEST_P(forks, leave_a_fault_to_the_handler_that_was_there) {
  struct sigaction mine{}, before{};
  mine.sa_handler = leave_by_handler;
  ASSERT_EQ(::sigaction(SIGSEGV, &mine, &before), 0);
  const ended in_pool = child_of([&] { words[0] = *static_cast<volatile long*>(words) + 1; });
  const ended elsewhere = child_of([] { *reinterpret_cast<volatile long*>(16) = 1; });
  ASSERT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
  EXPECT_TRUE(WIFEXITED(in_pool.how) && WEXITSTATUS(in_pool.how) == 42) << in_pool.how;
  EXPECT_NE(in_pool.said.find("a forked child"), std::string::npos) << in_pool.said;
  EXPECT_TRUE(WIFEXITED(elsewhere.how) && WEXITSTATUS(elsewhere.how) == 42) << elsewhere.how;
  EXPECT_EQ(elsewhere.said, "");
}

struct link {
  link* next;
  long number;
  char text[200];
};
constexpr long links = 1500;

// What is wrong with the list as it was made; empty: nothing.
std::string fault_of(const link* at) {
  for (long i = 0; i < links; ++i, at = at->next) {
    if (at == nullptr) return "it ends at " + std::to_string(i);
    if (at->number != i || std::strlen(at->text) != static_cast<std::size_t>(i % 199)) return std::to_string(i);
  }
  return at == nullptr ? "" : "it goes on";
}

link* list_of(NVM_POOL* pool) {
  link* first = nullptr;
  for (long i = links; i-- > 0;) {
    auto* const l = static_cast<link*>(nvm_calloc(pool, 0, 1, sizeof(link)));
    if (l == nullptr) return nullptr;
    l->next = first;
    l->number = i;
    std::memset(l->text, 'x', static_cast<std::size_t>(i % 199));
    first = l;
  }
  return first;
}

// Half of the list is freed, the other half written over; what was freed becomes other objects.
void change_all(NVM_POOL* pool, link* first, void* root) {
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  for (link* l = first; l != nullptr;) {
    link* const next = l->next;
    if (l->number % 2 == 0) {
      ASSERT_EQ(nvm_free(pool, l), 0) << nvm_errormsg();
    } else {
      ASSERT_EQ(nvm_tx_log(l, sizeof *l), 0) << nvm_errormsg();
      std::memset(l->text, 'y', sizeof l->text);
      l->number = -5;
    }
    l = next;
  }
  ASSERT_EQ(nvm_pool_set_root(pool, root), 0);
  ASSERT_EQ(nvm_tx_next(pool), 0) << nvm_errormsg();
  for (long i = 0; i < links; ++i) {
    void* const over = nvm_malloc(sizeof(link));
    ASSERT_NE(over, nullptr) << nvm_errormsg();
    std::memset(over, 'z', sizeof(link));
  }
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}

// In the child.
std::string fault_of_picture(NVM_POOL* pool, link* first) {
  std::string wrong = fault_of(first);
  first->next->number = -1;  // its own
  nvm_malloc_free(first);
  if (first->number != 0 || first->next->number != -1) wrong += " it has no memory of its own";
  if (nvm_malloc_usable_size(first) != sizeof(link)) wrong += " size " + std::to_string(nvm_malloc_usable_size(first));
  void* const fresh = nvm_malloc(10);
  if (fresh == nullptr || nvm_is_durable(fresh) != 0) wrong += " no heap";
  auto* const larger = static_cast<link*>(nvm_malloc_resize(first, 2 * sizeof(link)));
  if (larger == nullptr || nvm_is_durable(larger) != 0 || larger->next != first->next) wrong += " no copy";
  nvm_malloc_free(larger);
  nvm_malloc_free(fresh);
  if (nvm_tx_commit(pool) != -1 || nvm_errno() != NVM_E_FORKED) wrong += " it can commit";
  const pid_t grandchild = ::fork();
  if (grandchild == 0) ::_exit(nvm_malloc_usable_size(first) == sizeof(link) && first->next->number == -1 ? 0 : 1);
  int how = 0;
  if (::waitpid(grandchild, &how, 0) != grandchild || how != 0) wrong += " its own child has none";
  return wrong;
}

TEST_P(forks, give_a_child_a_picture_of_what_was_there) {
  if (is_log(GetParam())) {
    EXPECT_EQ(nvm_pool_set_fork(pool, NVM_FORK_PICTURE), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_ENGINE);
    return;
  }
  EXPECT_EQ(nvm_pool_set_fork(pool, 2), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  // The list is of a transaction that is open at the fork.
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  link* const first = list_of(pool);
  ASSERT_NE(first, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool, first), 0);
  ASSERT_EQ(nvm_pool_set_fork(pool, NVM_FORK_PICTURE), 0) << nvm_errormsg();
  nvm_scope scope = nvm_scope_begin(pool);
  int go[2], told[2];
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go[1]);
    char byte = 0;
    (void)!::read(go[0], &byte, 1);  // until the parent has changed everything
    const std::string wrong = fault_of_picture(pool, first);
    (void)!::write(told[1], wrong.data(), wrong.size());
    ::_exit(0);
  }
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  change_all(pool, first, words);
  nvm_scope_end(&scope);
  ::close(go[0]);
  ::close(go[1]);
  ::close(told[1]);
  char buffer[512];
  const ssize_t n = ::read(told[0], buffer, sizeof buffer);
  ::close(told[0]);
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  EXPECT_EQ((std::string{buffer, static_cast<std::size_t>(n > 0 ? n : 0)}), "");
  EXPECT_EQ(nvm_pool_set_fork(pool, NVM_FORK_NOTHING), 0);
  const ended none = child_of([&] { words[0] = *static_cast<volatile long*>(words) + 1; });
  EXPECT_FALSE(WIFEXITED(none.how) && WEXITSTATUS(none.how) == 7) << "it had a picture";
}

std::atomic<bool> about_to_copy{false};

// The pages of an object that another thread frees while they are copied: they stay in the file until that is over.
TEST_P(forks, copy_pages_that_a_trim_gives_back) {
  if (is_log(GetParam())) return;
  nvm_pool_options o{};
  o.size = 4 << 20;
  o.capacity = 128 << 20;
  choose(o, GetParam());
  NVM_POOL* const large = nvm_pool_create_with(dir.path("large").c_str(), &o);
  ASSERT_NE(large, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(large), 0) << nvm_errormsg();
  void* const freed = nvm_alloc(large, 0, 40 << 20);
  ASSERT_NE(freed, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(large), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_fork(large, NVM_FORK_PICTURE), 0) << nvm_errormsg();
  // Registered after the library's: called before it.
  static const int registered = ::pthread_atfork([] { about_to_copy = true; }, nullptr, nullptr);
  ASSERT_EQ(registered, 0);
  about_to_copy = false;
  nvm_trim_report r{};
  std::thread trims{[&] {
    while (!about_to_copy.load()) std::this_thread::yield();
    EXPECT_TRUE(nvm_tx_begin(large) == 0 && nvm_free(large, freed) == 0 && nvm_tx_commit(large) == 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_trim(large, nullptr, &r), 0) << nvm_errormsg();
  }};
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  trims.join();
  EXPECT_GE(r.cut, std::uint64_t{40} << 20);
  EXPECT_TRUE(nvm_tx_begin(large) == 0 && nvm_alloc(large, 0, 64) != nullptr && nvm_tx_commit(large) == 0)
      << nvm_errormsg();
  EXPECT_EQ(nvm_pool_close(large), 0) << nvm_errormsg();
}

TEST_P(forks, give_a_picture_in_the_midst_of_a_trim) {
  if (is_log(GetParam())) return;
  store(pool, 42);
  ASSERT_EQ(nvm_pool_set_fork(pool, NVM_FORK_PICTURE), 0) << nvm_errormsg();
  struct asked {
    const long* word;
    unsigned good, bad;
  } children{words, 0, 0};
  nvm_trim_options o{};
  o.argument = &children;
  o.progress = [](std::uint64_t, std::uint64_t, void* to) {
    asked& a = *static_cast<asked*>(to);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(*a.word == 42 ? 0 : 1);
    int how = 0;
    (::waitpid(child, &how, 0) == child && how == 0 ? a.good : a.bad) += 1;
    return 0;
  };
  EXPECT_EQ(nvm_pool_trim(pool, &o, nullptr), 0) << nvm_errormsg();
  EXPECT_GT(children.good, 0U);
  EXPECT_EQ(children.bad, 0U);
}

// Their pages cannot be read while they are detached.
TEST_P(forks, give_no_picture_of_a_pool_that_has_got_stores) {
  if (is_log(GetParam())) return;
  ASSERT_EQ(nvm_pool_set_fork(pool, NVM_FORK_PICTURE), 0) << nvm_errormsg();
  nvm_store* const s = nvm_store_attach(pool, "s", NVM_STORE_CREATE);
  ASSERT_NE(s, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  const ended none = child_of([&] { words[0] = *static_cast<volatile long*>(words) + 1; });
  EXPECT_FALSE(WIFEXITED(none.how) && WEXITSTATUS(none.how) == 7) << "it had a picture";
  EXPECT_NE(none.said.find("a forked child does not have the pools"), std::string::npos) << none.said;
  EXPECT_EQ(nvm_pool_set_fork(pool, NVM_FORK_PICTURE), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_ENGINE);
  store(pool, 43);
}

// As daemon() does: the parent ends at once, and the child goes on.
TEST_P(forks, let_a_daemon_go_on_with_its_pools) {
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const ended all = child_of([&] {
    NVM_POOL* mine = nvm_pool_open(dir.path().c_str());
    if (mine == nullptr || !nvm_scope_begin(mine).begun) ::_exit(1);
    store(mine, 5);
    // Open at the fork, and rolled back by it.
    if (nvm_tx_begin(mine) != 0 || nvm_tx_log(words, sizeof *words) != 0) ::_exit(1);
    words[0] = 6;
    int told[2];
    if (::pipe(told) != 0) ::_exit(1);
    const pid_t daemon = ::fork();
    if (daemon != 0) {
      ::close(told[1]);
      // The test waits for the daemon by this pipe; this process ends as a parent does.
      ::usleep(20'000);
      ::_exit(0);
    }
    ::close(told[0]);
    NVM_POOL* const again = nvm_pool_after_fork(mine, nullptr, 20'000);
    const bool good = again != nullptr && nvm_pool_get_root(again) == words && words[0] == 5 &&
                      nvm_scope_pool() == again && nvm_tx_begin(mine) == -1 && nvm_errno() == NVM_E_FORKED;
    if (!good) {
      const char* why = again == nullptr ? nvm_errormsg() : "not what the parent had committed";
      (void)!::write(STDERR_FILENO, why, std::strlen(why));
      ::_exit(1);
    }
    store(again, 7);
    (void)!::write(STDERR_FILENO, nvm_pool_close(again) == 0 ? "done" : nvm_errormsg(), 4);
    ::_exit(0);
  });
  EXPECT_EQ(all.said, "done");
  pool = nvm_pool_open(dir.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(words[0], 7);
}

TEST_P(forks, keep_a_pool_that_the_parent_has_open_still) {
  const ended all = child_of([&] {
    const bool busy = nvm_pool_after_fork(pool, nullptr, 30) == nullptr && nvm_errno() == NVM_E_BUSY;
    ::_exit(busy ? 9 : 1);
  });
  EXPECT_TRUE(WIFEXITED(all.how) && WEXITSTATUS(all.how) == 9) << all.said;
  EXPECT_EQ(nvm_pool_after_fork(pool, nullptr, 0), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  store(pool, 3);
}

}  // namespace
}  // namespace nvm::tests
