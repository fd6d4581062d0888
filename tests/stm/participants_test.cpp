// Threads that take part in transactions: which may be inside at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "isolation/participants.hpp"
#include "isolation/visits.hpp"

namespace nvm::tests {
namespace {

using isolation::participant;

void wait_for(const std::atomic<bool>& what) {
  while (!what.load()) std::this_thread::yield();
}

// The favourite locks and draws versions by plain stores. Of two threads that come while it is at it, the first ends
// its favour and waits; the second must not take that for peace.
TEST(participants, nobody_enters_while_the_favourite_is_at_it) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "the system has no membarrier";
  std::atomic<bool> may_begin{false}, at_it{false}, may_end{false}, can_be_none{false};
  std::atomic<unsigned> entered{0};
  std::thread favourite{[&] {
    participant* const me = participant::join_list();
    ASSERT_NE(me, nullptr);
    wait_for(may_begin);
    bool in_peace = false;
    for (unsigned i = 0; i < 100'000 && !in_peace; ++i) {
      me->enter(nullptr);
      in_peace = me->in_peace([] {});
      if (in_peace) {
        in_peace = me->in_peace([&] {
          at_it.store(true);
          wait_for(may_end);
          // Those that came wait still.
          EXPECT_EQ(entered.load(), 0U);
        });
      }
      me->leave();
    }
    EXPECT_TRUE(in_peace);
    can_be_none.store(!in_peace);
    me->leave_list();
  }};
  std::atomic<unsigned> joined{0}, may_come{0};
  const auto come = [&](unsigned number) {
    participant* const me = participant::join_list();  // which waits, too
    ASSERT_NE(me, nullptr);
    joined.fetch_add(1);
    while (may_come.load() < number) std::this_thread::yield();
    me->enter(nullptr);
    entered.fetch_add(1);
    EXPECT_TRUE(may_end.load());
    me->leave();
    me->leave_list();
  };
  std::thread first{come, 1}, second{come, 2};
  while (joined.load() < 2) std::this_thread::yield();
  may_begin.store(true);
  while (!at_it.load() && !can_be_none.load()) std::this_thread::yield();
  for (const unsigned number : {1, 2}) {
    may_come.store(number);
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
  may_end.store(true);
  favourite.join();
  first.join();
  second.join();
  EXPECT_EQ(entered.load(), 2U);
}

// Two threads that take turns: at no moment is nobody inside.
TEST(participants, visits_end_though_somebody_is_always_inside) {
  const int ours = 0, others = 0;
  participant* const a = participant::join_list();
  participant* const b = participant::join_list();
  participant* const c = participant::join_list();
  ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr);
  EXPECT_TRUE(isolation::visits::now(&ours).over());
  c->enter(&others);
  a->enter(&ours);
  isolation::visits first = isolation::visits::now(&ours);
  for (unsigned turn = 0; turn < 3; ++turn) {
    b->enter(&ours);
    EXPECT_EQ(first.over(), turn != 0) << "each is waited for until it has ended the transaction in which it was";
    isolation::visits both = isolation::visits::now(&ours);
    a->leave();
    EXPECT_TRUE(first.over());
    EXPECT_FALSE(both.over());
    EXPECT_TRUE(participant::any_inside(&ours));
    a->enter(&ours);
    EXPECT_FALSE(both.over());
    b->leave();
    EXPECT_TRUE(both.over()) << "the other was seen outside at no time";
    EXPECT_TRUE(participant::any_inside(&ours));
  }
  isolation::visits last = isolation::visits::now(&ours);
  EXPECT_FALSE(last.over());
  a->leave();
  EXPECT_TRUE(last.over());
  c->leave();
  for (participant* p : {a, b, c}) p->leave_list();
}

}  // namespace
}  // namespace nvm::tests
