// A process that is killed in the middle of its threads' transactions leaves the state between some of them: the total
// is what it was, no object is lost, and all that it has reported is there.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "place.hpp"

namespace nvm::tests {
namespace {

constexpr int accounts = 16;
constexpr long opening = 1000;

struct receipt {
  receipt* next;
  long number;
};
struct bank {
  long balance[accounts];
  long done;
  receipt* last;
};

// One line each, told to the parent: what the child has been promised.
struct reports {
  std::atomic<long> done;
};

// Two threads until killed.  Each transfer writes a receipt; the oldest go when there are too many.
[[noreturn]] void work(const std::string& path, bool write_back, unsigned seed, reports* told) {
  NVM_POOL* pool = nvm_pool_open(path.c_str());
  if (pool == nullptr) _exit(3);
  if (write_back && nvm_stm_set_policy(pool, NVM_STM_POLICY_WRITE_BACK) != 0) _exit(4);
  auto* b = static_cast<bank*>(nvm_pool_get_root(pool));
  const auto run = [&](unsigned me) {
    std::mt19937 random{seed * 2 + me};
    for (;;) {
      const unsigned from = random() % accounts;
      const unsigned to = random() % accounts;
      const long amount = static_cast<long>(random() % 100);
      long number = 0;
      const outcome done = atomic(pool, [&](tx& t) {
        t.store(&b->balance[from], t.load(&b->balance[from]) - amount);
        t.store(&b->balance[to], t.load(&b->balance[to]) + amount);
        number = t.load(&b->done) + 1;
        t.store(&b->done, number);
        t.store(&b->last, t.make<receipt>(2, receipt{t.load(&b->last), number}));
        if (number % 16 != 0) return;
        receipt* r = t.load(&b->last);
        for (int k = 0; k < 8; ++k) r = t.load(&r->next);
        receipt* old = t.load(&r->next);
        t.store(&r->next, static_cast<receipt*>(nullptr));
        while (old != nullptr) {
          receipt* next = t.load(&old->next);
          t.free(old);
          old = next;
        }
      });
      if (!done) _exit(5);
      long known = told->done.load(std::memory_order_relaxed);
      while (known < number && !told->done.compare_exchange_weak(known, number)) {
      }
    }
  };
  std::thread other{run, 1U};
  run(0);
  _exit(6);
}

class stm_kills : public everywhere {};
NVM_EVERY_POOL(stm_kills);

TEST_P(stm_kills, keep_the_total_the_receipts_and_what_was_reported) {
  bank* b = nullptr;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    b = t.make<bank>(1, bank{});
    for (long& balance : b->balance) balance = opening;
    t.set_root(b);
  }));
  void* shared = ::mmap(nullptr, sizeof(reports), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* told = new (shared) reports{};
  std::mt19937 random{static_cast<unsigned>(GetParam())};
  const int kills = 12;
  long reported = 0;
  for (int i = 0; i < kills; ++i) {
    here.close();
    told->done = 0;
    const pid_t child = ::fork();
    ASSERT_NE(child, -1);
    if (child == 0) work(here.path(), GetParam() == where::undo_write_back, static_cast<unsigned>(i), told);
    // Killed while it works, not while it opens the pool; but not for ever on a machine that is busy.
    for (int k = 0; k < 2000 && told->done == 0; ++k) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 20000});
    ::kill(child, SIGKILL);
    int end = 0;
    ASSERT_EQ(::waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL) << "ended by " << end;
    reported = told->done;
    here.open();
    b = static_cast<bank*>(nvm_pool_get_root(here.pool()));
    ASSERT_NE(b, nullptr);
    long total = 0;
    for (const long balance : b->balance) total += balance;
    EXPECT_EQ(total, accounts * opening) << "after kill " << i;
    EXPECT_GE(b->done, reported);
    long number = b->done;
    std::uint64_t receipts = 0;
    for (receipt* r = b->last; r != nullptr; r = r->next, ++receipts) EXPECT_EQ(r->number, number--);
    EXPECT_LE(receipts, 24U);
    EXPECT_EQ(here.objects(), receipts + 1) << "after kill " << i;
  }
  EXPECT_GT(reported, 0);
  ::munmap(shared, sizeof(reports));
}

}  // namespace
}  // namespace nvm::tests
