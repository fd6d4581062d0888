// Many threads at once: their reads and results agree with some order of their transactions, no thread waits for ever,
// and memory that one frees stays while others read it.  Also run under ThreadSanitizer.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "place.hpp"

namespace nvm::tests {
namespace {

class stm_threads : public everywhere {
 protected:
  // A commit on ssd waits for the device.
  int rounds(int fast, int ssd) const { return is_ssd(GetParam()) ? ssd : rounds_of_build(fast); }
  static void run(unsigned threads, const std::function<void(unsigned)>& work) {
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i);
    for (std::thread& t : all) t.join();
  }
};
NVM_EVERYWHERE(stm_threads);

TEST_P(stm_threads, transfers_keep_the_total_and_every_reader_sees_it) {
  constexpr int accounts = 24;
  struct account {
    long balance;
    long unused[3];  // two on a line: neighbours conflict, too
  };
  auto* a = here.shared<account>(accounts);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    for (int i = 0; i < accounts; ++i) t.store(&a[i].balance, 100);
  }));
  std::atomic<int> wrong{0};
  std::atomic<int> refused{0};
  run(4, [&](unsigned me) {
    std::mt19937 random{me};
    for (int i = rounds(20000, 60); i-- > 0;) {
      account* from = a + random() % accounts;
      account* to = a + random() % accounts;
      const long amount = static_cast<long>(random() % 60);
      const outcome done = atomic(here.pool(), [&](tx& t) {
        const long have = t.load(&from->balance);
        if (have < amount) t.cancel(1000);
        t.store(&from->balance, have - amount);
        t.store(&to->balance, t.load(&to->balance) + amount);
        // What an inner level has done is seen by nobody when it is taken back.
        if (i % 7 == 0) {
          (void)atomic(here.pool(), [&](tx& u) {
            u.store(&from->balance, -1000000);
            return false;
          });
        }
      });
      if (done.code() == 1000) {
        ++refused;
      } else if (!done) {
        ++wrong;
      }
      if (i % 8 != 0) continue;
      long total = 0;
      bool negative = false;
      const outcome seen = atomic(here.pool(), [&](tx& t) {
        total = 0;
        for (int k = 0; k < accounts; ++k) {
          const long b = t.load(&a[k].balance);
          negative = b < 0;
          total += b;
          // In the middle of the transaction, too: what does not fit is never returned.
          if (negative) ++wrong;
        }
      });
      if (!seen || total != accounts * 100) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0) << nvm_errormsg();
  EXPECT_GT(refused, 0);
  long total = 0;
  for (int k = 0; k < accounts; ++k) total += a[k].balance;
  EXPECT_EQ(total, accounts * 100);
}

// An ordered list whose nodes are allocated and freed all the time: a reader that stood on a freed node, or on one that
// was used anew, would read keys out of order, or fall off the world.
TEST_P(stm_threads, a_list_stays_in_order_while_nodes_come_and_go) {
  struct node {
    long key;
    node* next;
    long copy;  // of the key, at the other end of the node
  };
  auto* head = here.shared<node>(1);
  std::atomic<int> wrong{0};
  const int keys = is_ssd(GetParam()) ? 32 : 128;
  std::vector<std::atomic<int>> present(static_cast<std::size_t>(keys));
  const auto make = [&](tx& t) {
    return static_cast<node*>(here.durable() ? t.alloc(3, sizeof(node)) : t.malloc(sizeof(node)));
  };
  run(4, [&](unsigned me) {
    std::mt19937 random{me + 77};
    for (int i = rounds(8000, 60); i-- > 0;) {
      const long key = static_cast<long>(random() % static_cast<unsigned>(keys));
      const bool insert = random() % 2 == 0;
      int change = 0;
      const outcome done = atomic(here.pool(), [&](tx& t) {
        change = 0;
        node* before = head;
        node* at = t.load(&head->next);
        long last = -1;
        while (at != nullptr) {
          const long k = t.load(&at->key);
          if (k <= last || t.load(&at->copy) != k) ++wrong;
          if (k >= key) break;
          last = k;
          before = at;
          at = t.load(&at->next);
        }
        const bool found = at != nullptr && t.load(&at->key) == key;
        if (insert && !found) {
          node* n = make(t);
          *n = {key, at, key};
          t.store(&before->next, n);
          change = 1;
        } else if (!insert && found) {
          t.store(&before->next, t.load(&at->next));
          t.free(at);
          change = -1;
        }
      });
      if (!done) {
        ++wrong;
      } else {
        present[static_cast<std::size_t>(key)] += change;
      }
    }
  });
  EXPECT_EQ(wrong, 0) << nvm_errormsg();
  std::set<long> left;
  for (node* n = head->next; n != nullptr; n = n->next) EXPECT_TRUE(left.insert(n->key).second);
  for (long k = 0; k < keys; ++k) {
    EXPECT_EQ(present[static_cast<std::size_t>(k)].load(), left.count(k) != 0 ? 1 : 0) << "key " << k;
  }
  if (here.durable()) {
    EXPECT_EQ(here.objects(), left.size() + 1);
  }
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    for (node* n = t.load(&head->next); n != nullptr; n = t.load(&n->next)) t.free(n);
    t.store(&head->next, nullptr);
  }));
}

TEST_P(stm_threads, two_lines_in_opposite_order_is_no_deadlock_and_no_livelock) {
  auto* x = here.shared<long>(64);
  long* const line[2] = {x, x + 32};
  const int each = rounds(20000, 80);
  run(4, [&](unsigned me) {
    for (int i = 0; i < each; ++i) {
      (void)atomic(here.pool(), [&](tx& t) {
        t.store(line[me % 2], t.load(line[me % 2]) + 1);
        if (i % 64 == 0) std::this_thread::yield();  // while it holds the first
        t.store(line[1 - me % 2], t.load(line[1 - me % 2]) + 1);
      });
    }
  });
  EXPECT_EQ(*line[0], 4L * each);
  EXPECT_EQ(*line[1], 4L * each);
}

// A long reader among writers that never pause would be rolled back for ever if nobody made way for it.
TEST_P(stm_threads, a_long_transaction_gets_through_among_many_short_ones) {
  constexpr int cells = 256;
  auto* x = here.shared<long>(cells * 8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (unsigned w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      std::mt19937 random{w};
      while (!stop) {
        const std::size_t i = random() % cells * 8;
        (void)atomic(here.pool(), [&](tx& t) { t.store(x + i, t.load(x + i) + 1); });
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    long sum = 0;
    EXPECT_TRUE(atomic(here.pool(), [&](tx& t) {
      sum = 0;
      for (int k = 0; k < cells; ++k) sum += t.load(x + k * 8);
      t.store(x + 1, sum);
    }));
    EXPECT_GE(sum, 0);
  }
  stop = true;
  for (std::thread& t : writers) t.join();
}

TEST_P(stm_threads, irrevocable_ones_run_once_each) {
  auto* x = here.shared<long>(16);
  std::atomic<int> effects{0};
  const int each = rounds(400, 20);
  run(4, [&](unsigned me) {
    for (int i = 0; i < each; ++i) {
      EXPECT_TRUE(atomic(here.pool(), [&](tx& t) {
        t.store(x, t.load(x) + 1);
        if ((i + static_cast<int>(me)) % 3 != 0) return;
        t.become_irrevocable();
        ++effects;
        t.store(x + 8, t.load(x + 8) + 1);
      }));
    }
  });
  EXPECT_EQ(x[0], 4L * each);
  EXPECT_EQ(x[8], effects.load());
}

// What was unlinked and waited for is this thread's alone: plain accesses find no other transaction's store in it.
TEST_P(stm_threads, after_quiescence_memory_is_private) {
  struct box {
    long a, b;
  };
  auto* slot = here.shared<box*>(1);
  auto* boxes = here.shared<box>(64);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int w = 0; w < 2; ++w) {
    users.emplace_back([&] {
      while (!stop) {
        (void)atomic(here.pool(), [&](tx& t) {
          box* b = t.load(slot);
          if (b == nullptr) return;
          if (t.load(&b->a) != t.load(&b->b)) ++wrong;
          t.store(&b->a, t.load(&b->a) + 1);
          t.store(&b->b, t.load(&b->b) + 1);
        });
        std::this_thread::yield();
      }
    });
  }
  const int all = rounds(3000, 40);
  for (int i = 0; i < all; ++i) {
    box* mine = boxes + i % 64;
    EXPECT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(slot, mine); }));
    if (i % 4 == 0) std::this_thread::yield();
    if (i % 2 == 0) {
      EXPECT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(slot, static_cast<box*>(nullptr)); }));
      EXPECT_EQ(nvm_stm_quiesce(), 0);
    } else {
      EXPECT_TRUE(atomic(here.pool(), [&](tx& t) {
        t.store(slot, static_cast<box*>(nullptr));
        nvm_stm_quiesce_at_commit(t.handle());
      }));
    }
    // Plain, and only volatile memory may be written so.
    if (mine->a != mine->b) ++wrong;
    if (!here.durable()) mine->a = mine->b = i;
  }
  stop = true;
  for (std::thread& t : users) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(stm_threads, the_root_is_isolated_too) {
  if (!here.durable()) GTEST_SKIP() << "volatile memory has no root";
  auto* x = here.shared<long>(64);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { t.set_root(x); }));
  std::atomic<int> wrong{0};
  run(3, [&](unsigned me) {
    for (int i = rounds(3000, 40); i-- > 0;) {
      EXPECT_TRUE(atomic(here.pool(), [&](tx& t) {
        // The object that the root names carries the mark, and no other.
        auto* now = t.root<long>();
        if (me != 0) {
          for (int k = 0; k < 4; ++k) {
            if ((t.load(x + k * 16) == 1) != (x + k * 16 == now)) {
              // Before the first change nobody carries it.
              if (now != x || t.load(x) != 0) ++wrong;
            }
          }
          return;
        }
        long* next = x + i % 4 * 16;
        t.store(now, 0L);
        t.store(next, 1L);
        t.set_root(next);
      }));
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(stm_threads, more_threads_than_lanes_and_processors) {
  auto* x = here.shared<long>(8);
  const int each = rounds(500, 10);
  run(24, [&](unsigned) {
    for (int i = 0; i < each; ++i) {
      EXPECT_TRUE(atomic(here.pool(), [&](tx& t) { t.store(x, t.load(x) + 1); })) << nvm_errormsg();
    }
  });
  EXPECT_EQ(*x, 24L * each);
}

}  // namespace
}  // namespace nvm::tests
