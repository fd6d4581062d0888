#include "scenarios.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace nvm::tests {
namespace {

// Logged, freed, reused, crashed: lane 0 writes X and frees it, lane 1 gets its room, then dies somewhere.
void a_slot_is_logged_freed_and_reused(player& p) {
  std::vector<std::uint64_t> kept;
  for (int round = 0; round < 6; ++round) {
    const unsigned mine = static_cast<unsigned>(round % 2);
    auto a = p.begin(mine);
    const std::uint64_t x = a->alloc(200, 0x11);
    const std::uint64_t y = a->alloc(200, 0x22);
    a->commit();
    auto b = p.begin(1 - mine);
    b->write(x, 8, 100, 0x33);
    b->free(x);
    b->commit();
    auto c = p.begin(mine);
    kept.push_back(c->alloc(200, 0x44));
    c->commit();
    auto d = p.begin(1 - mine);
    d->free(y);
    d->commit();
    auto e = p.begin(mine);
    e->free(kept.back());
    e->commit();
    auto f = p.begin(1 - mine);
    kept.back() = f->alloc(200, 0x55);
    f->commit();
  }
}

// Room is scarce: frees and allocations of both lanes meet in the same few words.
void rooms_change_hands(player& p) {
  std::vector<std::uint64_t> live;
  std::mt19937_64 random{7};
  for (int step = 0; step < 40; ++step) {
    auto t = p.begin(static_cast<unsigned>(random() % 2));
    if (live.size() > 3 || (!live.empty() && random() % 2 == 0)) {
      const std::size_t i = random() % live.size();
      t->free(live[i]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      live.push_back(t->alloc(240, static_cast<std::uint8_t>(step)));
    }
    t->commit();
  }
}

// Two transactions with intents in one bitmap word; one aborts.
void two_intents_in_one_word_one_aborts(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t first = setup->alloc(40, 1);
  const std::uint64_t second = setup->alloc(40, 2);
  setup->commit();
  for (int round = 0; round < 3; ++round) {
    auto a = p.begin(0);
    auto b = p.begin(1);
    const std::uint64_t x = a->alloc(40, 3);
    if (round == 0) b->free(first);
    b->alloc(40, 4);
    if (round == 1) b->free(second);
    b->commit();
    a->write(x, 0, 8, 5);
    a->abort();
    auto c = p.begin(0);
    c->alloc(40, 6);
    c->commit();
  }
}

// An object is filled and published by the root in one transaction.
void fresh_memory_is_published(player& p) {
  for (const std::uint64_t bytes : {40, 300, 3000, 9000}) {
    auto t = p.begin(0);
    const std::uint64_t old = p.committed().root;
    const std::uint64_t x = t->alloc(bytes, static_cast<std::uint8_t>(bytes));
    t->set_root(x);
    if (old != 0) t->free(old);
    t->commit();
  }
}

// A range logged inside a savepoint that aborts, then written again or not.
void a_savepoint_aborts(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->commit();
  for (int round = 0; round < 2; ++round) {
    auto t = p.begin(0);
    t->write(x, 0, 8, 2);
    t->begin();
    t->write(x, 0, 8, 3);    // logged by the outer level: a volatile copy
    t->write(x, 64, 70, 4);  // new here: durable
    t->alloc(40, 9);
    t->abort_level();
    if (round == 1) t->write(x, 64, 8, 5);
    t->begin();
    t->write(x, 140, 8, 6);
    t->commit_level();
    t->commit();
  }
  auto u = p.begin(0);
  u->begin();
  u->write(x, 0, 8, 7);
  u->commit_level();
  u->abort();
}

// Undo records beyond the lane's body, and more intents than a commit record takes.
void the_log_overflows(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(3000, 1);
  setup->commit();
  auto t = p.begin(0);
  t->write(x, 0, 700, 2);
  t->write(x, 700, 2000, 3);
  t->commit();
  auto u = p.begin(0);
  u->write(x, 100, 1500, 4);
  u->abort();
  auto v = p.begin(0);
  std::vector<std::uint64_t> many;
  for (int i = 0; i < 12; ++i) many.push_back(v->alloc(24, static_cast<std::uint8_t>(i)));
  v->commit();
  auto w = p.begin(0);
  for (const std::uint64_t m : many) w->free(m);
  w->write(x, 0, 8, 5);
  w->commit();
  auto y = p.begin(0);
  y->write(x, 0, 8, 6);
  y->commit();
}

// The pool grows in the middle of a transaction.
void the_pool_grows(player& p) {
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 5; ++i) {
    auto t = p.begin(static_cast<unsigned>(i % 2));
    all.push_back(t->alloc(6000, static_cast<std::uint8_t>(i + 1)));
    all.push_back(t->alloc(40, static_cast<std::uint8_t>(i + 1)));
    t->commit();
  }
  if (p.heap().grown() == 0) std::abort();
}
const crash_shape growing{10, 12, 64, 2, 1024, 16 * 1024};

// Undo records of two transactions open at once, on neighbouring bytes of one line.
void two_transactions_share_a_line(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(40, 1);
  setup->commit();
  auto a = p.begin(0);
  auto b = p.begin(1);
  a->write(x, 0, 8, 2);
  b->write(x, 8, 8, 3);
  a->write(x, 16, 3, 4);
  b->write(x, 19, 5, 5);
  b->commit();
  a->abort();
  auto c = p.begin(1);
  c->write(x, 0, 24, 6);
  c->commit();
}

// ---- lanes ----------------------------------------------------------------------------------------------------------

// A lane passes from thread to thread: only a thread's own fence completes its write-backs.
void a_lane_changes_threads(player& p) {
  std::vector<std::uint64_t> live;
  auto t = p.begin(0);
  for (int i = 0; i < 12; ++i) live.push_back(t->alloc(40, static_cast<std::uint8_t>(i + 1)));
  t->commit();
  for (unsigned round = 0; round < 11; ++round) {
    p.on_another_thread(8 + round, [&] {
      auto u = p.begin(0);
      u->free(live[round]);
      u->commit();
    });
  }
}

// Records that one thread has logged in vain lie before those that the next one logs in the same lane.
void an_abort_is_another_threads_past(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->commit();
  for (std::uint8_t round = 0; round < 3; ++round) {
    p.on_another_thread(8U + round, [&] {
      auto t = p.begin(0);
      t->write(x, 0, 120, 2);
      t->abort();
    });
    p.on_another_thread(16U + round, [&] {
      auto t = p.begin(0);
      t->write(x, 8U * round, 40, static_cast<std::uint8_t>(3 + round));
      t->commit();
    });
  }
}

// Everything comes to rest, the pool is opened again and used.
void the_pool_is_closed_and_opened(player& p) {
  std::uint64_t x = 0;
  for (int round = 0; round < 2; ++round) {
    auto t = p.begin(0);
    x = t->alloc(200, 1);
    t->write(x, 0, 8, 2);
    t->set_root(x);
    t->commit();
    auto u = p.begin(1);
    const std::uint64_t y = u->alloc(40, 3);
    u->commit();
    auto v = p.begin(0);
    v->write(x, 8, 120, 4);
    v->commit();
    auto w = p.begin(0);
    w->free(y);
    w->commit();
    p.close();
    p.reopen();
    auto z = p.begin(0);
    z->write(x, 0, 60, 5);
    z->abort();
  }
}

// The last that a thread does is to give pages of its log back; another one closes the pool.
void the_log_overflows_and_the_pool_is_closed(player& p) {
  for (std::uint8_t round = 0; round < 2; ++round) {
    auto setup = p.begin(0);
    const std::uint64_t x = setup->alloc(3000, 1);
    setup->commit();
    auto t = p.begin(round);
    t->write(x, 0, 2000, 2);
    if (round == 0) {
      t->commit();
    } else {
      t->abort();
    }
    p.close();
    p.reopen();
  }
}

// Pages of empty extents become something else.
void pages_get_another_use(player& p) {
  std::vector<std::uint64_t> slots;
  for (int round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < 6; ++i) {
      auto t = p.begin(i % 2);
      for (int k = 0; k < 5; ++k) {
        const std::uint64_t x = t->alloc(round == 0 ? 200 : 500, static_cast<std::uint8_t>(i * 5 + 1));
        if (x != 0) slots.push_back(x);
      }
      t->commit();
    }
    while (!slots.empty()) {
      auto t = p.begin(static_cast<unsigned>(slots.size()) % 2);
      t->free(slots.back());
      slots.pop_back();
      if (!slots.empty()) {
        t->free(slots.back());
        slots.pop_back();
      }
      t->commit();
    }
    // More than what is left without the extents' pages: user data comes to lie where their words were.
    auto u = p.begin(0);
    const std::uint64_t big = u->alloc(16000, 0xFF);
    if (big == 0) std::abort();
    u->commit();
    auto v = p.begin(1);
    v->free(big);
    v->commit();
  }
}
const crash_shape narrow{10, 25, 25, 2, 1024, 64 * 1024};

// Overflow segments of one transaction's log are the next one's pages.
void log_pages_get_another_use(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(3000, 1);
  setup->commit();
  for (std::uint8_t round = 0; round < 3; ++round) {
    auto t = p.begin(round % 2);
    t->write(x, 0, 1200, static_cast<std::uint8_t>(2 + round));
    if (round == 1) {
      t->abort();
    } else {
      t->commit();
    }
    auto u = p.begin(1);
    const std::uint64_t y = u->alloc(6000, static_cast<std::uint8_t>(0x40 + round));
    if (y == 0) std::abort();
    u->commit();
    auto v = p.begin(0);
    v->free(y);
    v->commit();
  }
}
const crash_shape tight{10, 17, 17, 2, 1024, 16 * 1024};

// Each lane allocates in extents of its own, so that nothing is ever settled: all of it is left to recovery.
void lanes_keep_to_themselves(player& p) {
  for (unsigned i = 0; i < 8; ++i) {
    auto t = p.begin(1 - i % 2);
    t->alloc(40, static_cast<std::uint8_t>(i + 1));
    t->commit();
  }
}

// The last page becomes an extent for a transaction that is still open; another one takes its room there.
void the_last_extent_is_shared(player& p) {
  auto setup = p.begin(0);
  std::uint64_t kept = 0;
  for (std::uint8_t i = 0; i < 3; ++i) kept = setup->alloc(5000, i);
  if (kept == 0) std::abort();
  setup->commit();
  auto a = p.begin(0);
  if (a->alloc(24, 1) == 0) std::abort();
  auto b = p.begin(1);
  if (b->alloc(24, 2) == 0) std::abort();
  b->commit();
  a->commit();
}

// Objects of one size, one a transaction, until there is no room for another.
std::vector<std::uint64_t> fill(player& p) {
  std::vector<std::uint64_t> live;
  for (;;) {
    auto t = p.begin(0);
    const std::uint64_t x = t->alloc(500, static_cast<std::uint8_t>(live.size() + 1));
    if (x == 0) {
      t->abort();
      return live;
    }
    live.push_back(x);
    t->commit();
  }
}

// A freed slot is the only room there is: it is used at once.
void the_last_slot_is_used_at_once(player& p) {
  std::vector<std::uint64_t> live = fill(p);
  for (std::size_t i = 0; i < 3; ++i) {
    auto t = p.begin(0);
    t->free(live[i]);
    // There is no room before the commit; with the planted bug there is.
    const bool too_early = t->alloc(500, 0xEE) != 0;
    t->abort();
    if (too_early) return;
    auto u = p.begin(0);
    u->free(live[i]);
    u->commit();
    auto v = p.begin(0);
    live[i] = v->alloc(500, static_cast<std::uint8_t>(0x80 + i));
    if (live[i] == 0) std::abort();
    v->commit();
  }
}
const crash_shape full{10, 17, 17, 2, 1024, 64 * 1024};

// A pool gets types, more of them, others; a transaction that brings them aborts, another one works meanwhile.
void the_types_change(player& p) {
  auto first = p.begin(0);
  if (!first->set_types(1, 3)) std::abort();
  first->commit();
  auto setup = p.begin(1);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->set_root(x);
  setup->commit();
  for (std::uint8_t round = 0; round < 3; ++round) {
    auto t = p.begin(round % 2);
    auto u = p.begin(1 - round % 2);
    if (!t->set_types(2 + round, 40U * (round + 1U))) std::abort();
    u->write(x, 0, 60, static_cast<std::uint8_t>(round + 2));
    u->commit();
    if (round == 1) {
      t->abort();
    } else {
      t->alloc(40, round);
      t->commit();
    }
    if (round == 1) {
      p.close();
      p.reopen();
    }
  }
}

// The same words are written by one lane after the other, round and round the logs, and brought home between.
void lanes_overwrite_each_other(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(40, 1);
  const std::uint64_t y = setup->alloc(40, 2);
  setup->commit();
  for (std::uint8_t round = 0; round < 24; ++round) {
    auto t = p.begin(round % 3 == 0 ? 1 : 0);
    t->write(x, 8, 8, round);
    if (round % 4 == 0) t->write(y, 0, 40, static_cast<std::uint8_t>(round + 100));
    t->commit();
    if (round == 9) p.checkpoint();
  }
}

// Another thread empties the log; then it goes round beyond where it began before.
void the_log_goes_round_once_it_is_emptied(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->commit();
  for (std::uint8_t i = 0; i < 4; ++i) {
    auto t = p.begin(0);
    t->write(x, 0, 8, i);
    t->commit();
  }
  p.checkpoint();
  for (std::uint8_t i = 0; i < 13; ++i) {
    auto t = p.begin(0);
    t->write(x, 8U + 8U * i, 8, static_cast<std::uint8_t>(i + 0x20));
    t->commit();
  }
}
// Two laps of records of two lines, in a ring of 15: one of them does not fit before the end.
void the_log_ends_inside_a_record(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(200, 1);
  setup->commit();
  for (std::uint8_t i = 0; i < 19; ++i) {
    if (i % 5 == 4) p.checkpoint();
    auto t = p.begin(0);
    t->write(x, 8U * i, 56, static_cast<std::uint8_t>(i + 0x20));
    t->commit();
  }
}

// Bytes written to an object are still in the log when it is freed, and its slots are the only room for the next.
void the_last_room_is_logged_freed_and_reused(player& p) {
  std::vector<std::uint64_t> live = fill(p);
  for (std::uint8_t i = 0; i < 3; ++i) {
    auto t = p.begin(0);
    t->write(live[i], 90, 60, 0x66);
    t->commit();
    auto u = p.begin(i % 2);
    u->free(live[i]);
    u->commit();
    auto v = p.begin(1);
    live[i] = v->alloc(500, static_cast<std::uint8_t>(0x80 + i));
    if (live[i] == 0) std::abort();
    v->commit();
  }
}

// The same with the pages of a large object, which get an extent, whose header no log has, and a large object again.
void the_last_pages_are_logged_freed_and_reused(player& p) {
  for (std::uint8_t round = 0; round < 2; ++round) {
    auto a = p.begin(0);
    const std::uint64_t run = a->alloc(13000, round);
    if (run == 0) std::abort();
    a->commit();
    auto b = p.begin(1);
    // The first word of each page, where an extent has its identity: little enough for a ring.
    for (std::uint64_t page = 1; page < 12; ++page) b->write(run, 1024 * page - 16, 8, 0x71);
    b->commit();
    auto c = p.begin(0);
    c->free(run);
    c->commit();
    auto d = p.begin(1);
    const std::uint64_t first = d->alloc(round == 0 ? 500 : 9000, 0x73);
    if (first == 0) std::abort();
    d->commit();
    auto e = p.begin(0);
    e->free(first);
    e->commit();
  }
}

// ---- ssd ------------------------------------------------------------------------------------------------------------

// Commits that one sync makes durable together.
void commits_are_grouped(player& p) {
  std::uint64_t x = 0;
  for (std::uint8_t round = 0; round < 4; ++round) {
    for (unsigned i = 0; i < 3; ++i) {
      auto t = p.begin(i % 2);
      if (x == 0) {
        x = t->alloc(300, 1);
      } else {
        t->write(x, i * 40, 30, static_cast<std::uint8_t>(round * 3 + i));
        t->alloc(24, round);
      }
      t->commit_async();
    }
    p.wait();
  }
}

// The ring is written round and round, by checkpoints in time and by writers that find it full.
void the_log_wraps(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(900, 1);
  setup->commit();
  for (std::uint8_t i = 0; i < 40; ++i) {
    auto t = p.begin(i % 2);
    t->write(x, i * 20, 60, static_cast<std::uint8_t>(i + 2));
    if (i % 3 == 0) {
      t->commit_async();
    } else {
      t->commit();
    }
    if (i < 16 && i % 8 == 5) p.checkpoint();
  }
  p.wait();
  if (is_image(p.kind()) && p.heap().stalls() == 0) std::abort();
}
const crash_shape small_ring{10, 40, 40, 2, 1024, 6 * 1024};

// The log's records are brought home, step by step, between commits.
void checkpoints_come_between(player& p) {
  std::uint64_t x = 0;
  for (std::uint8_t i = 0; i < 5; ++i) {
    auto t = p.begin(i % 2);
    if (x == 0) x = t->alloc(700, 1);
    t->write(x, i * 100, 150, i);
    t->alloc(40, i);
    t->commit();
    if (i % 2 == 1) {
      auto u = p.begin(0);
      u->write(x, 650, 20, i);
      u->commit_async();
    }
    p.checkpoint();
  }
}

// Two threads change bits of one word: one of them has its turn while the other is about to take its place in the
// order.
void two_threads_capture_one_line(player& p) {
  auto setup = p.begin(0);
  std::vector<std::uint64_t> live;
  for (std::uint8_t i = 0; i < 6; ++i) live.push_back(setup->alloc(40, i));
  setup->commit();
  for (std::size_t i = 0; i < live.size(); i += 2) {
    auto a = p.begin(0);
    auto b = p.begin(1);
    a->free(live[i]);
    b->free(live[i + 1]);
    static std::function<void()> turn;
    turn = [&b] { b->commit_async(); };
    other_thread = [] { turn(); };
    a->commit_async();
    p.wait();
  }
}

// A process ends without close; the next one replays and begins a lap.
void processes_follow_each_other(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(500, 1);
  setup->commit();
  for (std::uint8_t round = 0; round < 4; ++round) {
    for (std::uint8_t i = 0; i < 3; ++i) {
      auto t = p.begin(0);
      t->write(x, i * 90, 80, static_cast<std::uint8_t>(round * 3 + i + 2));
      t->alloc(30, i);
      t->commit();
    }
    if (round == 2) p.close();
    p.reopen();
  }
}

// Processes are killed between writing their log and syncing it; the next one shows what it finds, and goes on.
void processes_are_killed_while_they_sync(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(500, 1);
  setup->commit();
  for (std::uint8_t round = 0; round < 3; ++round) {
    for (std::uint8_t i = 0; i < 2; ++i) {
      auto t = p.begin(0);
      t->write(x, i * 90, 80, static_cast<std::uint8_t>(round * 3 + i + 2));
      t->alloc(30, i);
      t->commit_async();
    }
    p.kill_while_syncing();
    if (round == 1) p.reopen();  // and dies again, having done nothing
    auto t = p.begin(1);
    t->write(x, 300, 20, static_cast<std::uint8_t>(0x40 + round));
    t->commit();
  }
}

}  // namespace

const std::vector<scenario>& all_scenarios() {
  static const std::vector<scenario> all{
      {"a slot is logged, freed and reused", a_slot_is_logged_freed_and_reused},
      {"rooms change hands", rooms_change_hands},
      {"two intents in one word, one aborts", two_intents_in_one_word_one_aborts},
      {"fresh memory is published", fresh_memory_is_published, {.ring_bytes = 64 * 1024}},
      {"a savepoint aborts", a_savepoint_aborts},
      {"the log overflows", the_log_overflows},
      {"the pool grows", the_pool_grows, growing},
      {"the types change", the_types_change, {}, true, true, false},
      {"two transactions share a line", two_transactions_share_a_line, {}, true, true, false},
      {"a lane changes threads", a_lane_changes_threads, {}, true, false, false},
      {"an abort is another thread's past", an_abort_is_another_threads_past, {}, true, false, false},
      {"the pool is closed and opened", the_pool_is_closed_and_opened},
      {"the log overflows and the pool is closed", the_log_overflows_and_the_pool_is_closed},
      {"pages get another use", pages_get_another_use, narrow},
      {"log pages get another use", log_pages_get_another_use, tight, true, false},
      {"the last slot is used at once", the_last_slot_is_used_at_once, full},
      {"lanes keep to themselves", lanes_keep_to_themselves},
      {"the last extent is shared", the_last_extent_is_shared, full},
      {"lanes overwrite each other", lanes_overwrite_each_other},
      {"the log goes round once it is emptied", the_log_goes_round_once_it_is_emptied},
      {"the log ends inside a record", the_log_ends_inside_a_record},
      {"the last room is logged, freed and reused", the_last_room_is_logged_freed_and_reused, full},
      {"the last pages are logged, freed and reused", the_last_pages_are_logged_freed_and_reused, full},
      {"commits are grouped", commits_are_grouped, {}, false, true},
      {"the log wraps", the_log_wraps, small_ring, false, true},
      {"checkpoints come between", checkpoints_come_between, {}, false, true},
      {"two threads capture one line", two_threads_capture_one_line, {}, false, true},
      {"processes follow each other", processes_follow_each_other},
      {"processes are killed while they sync", processes_are_killed_while_they_sync, {}, false, true, false},
  };
  return all;
}

const scenario& named(const char* name) {
  for (const auto* stories : {&all_scenarios(), &barrier_scenarios(), &killed_scenarios()}) {
    for (const scenario& s : *stories) {
      if (std::strcmp(s.name, name) == 0) return s;
    }
  }
  std::fprintf(stderr, "no scenario '%s'\n", name);
  std::abort();
}

std::string identifier(const char* name) {
  std::string n = name;
  for (char& c : n) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return n;
}

}  // namespace nvm::tests
