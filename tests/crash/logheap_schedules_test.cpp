// A cleaner at work while a thread commits: every schedule with one preemption and many others, and the crashes of
// each.
#include <gtest/gtest.h>

#include <cstdio>

#include "logheap_player.hpp"
#include "on_fibers.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::schedule_options;
using explore::schedule_report;
using logheap::home_t;

struct meeting {
  const char* name;
  logheap_steps before;
  logheap_steps meanwhile;
};
// The first object that the heap has, and the one after it.
home_t first_of(logheap_player& p) { return p.model().begin()->first; }
home_t second_of(logheap_player& p) { return std::next(p.model().begin())->first; }

void leave_something_to_clean(logheap_player& p) {
  const home_t a = p.put(200, 1);
  (void)p.put(200, 2);
  for (int i = 3; i < 8; ++i) p.store(a + 8 * static_cast<home_t>(i), 120, i);
}
const meeting meetings[] = {
    {"what is moved is changed", leave_something_to_clean,
     [](logheap_player& p) {
       p.store(first_of(p) + 50, 60, 9);
       p.store(second_of(p), 200, 10);
     }},
    {"what is moved is freed", leave_something_to_clean,
     [](logheap_player& p) {
       p.release(first_of(p));
       (void)p.put(200, 11);
     }},
    {"a transaction of several blocks", leave_something_to_clean,
     [](logheap_player& p) {
       (void)p.commit([&](auto& t) {
         t.store(second_of(p), 100, 12);
         t.release(first_of(p));
         t.store(t.allocate(40), 40, 13);
       });
     }},
};

// All schedules with one preemption, or so many at random.
schedule_report run(const meeting& m, model under, unsigned random) {
  schedule_options so;
  so.preemptions = 1;
  so.priority_runs = random;
  explore::options o = logheap_options(under);
  o.full_points_max = 1;
  o.nested_every = 512;
  o.idempotence_every = 64;
  o.after_every = 256;
  o.tiers = explore::t1_program_order | explore::t2_all_low | explore::t5_single;
  return explore_schedules(logheap_while_cleaning({}, m.name, m.before, m.meanwhile), so, o);
}

TEST(logheap_schedules, of_a_cleaner_and_a_thread_lose_nothing) {
  for (const meeting& m : meetings) {
    for (const unsigned random : {0U, 2000U}) {
      const schedule_report r = run(m, random == 0 ? model::torn8 : model::x86, random);
      EXPECT_TRUE(r.clean()) << r.text();
      EXPECT_TRUE(r.all || random != 0);
      EXPECT_GT(r.schedules, 200U);
      std::printf("%s: %s\n", m.name, r.text().c_str());
    }
  }
}

}  // namespace
}  // namespace nvm::tests
