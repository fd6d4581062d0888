// D: threads and processes.
//
// Programs are run under every schedule with a few preemptions, and crashed in each; the results that the threads were
// given must agree with the remaining state.
#include <array>
#include <atomic>
#include <vector>

#include "explore/linearize.hpp"
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::linearizer;
using explore::operation;
using std::uint64_t;

// A thread's lock, gone after a crash.
class lock {
 public:
  void acquire() {
    while (!try_acquire()) {
    }
  }
  [[nodiscard]] bool try_acquire() { return !held_.exchange(true, std::memory_order_acquire); }
  void release() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// ---- one word -------------------------------------------------------------------------------------------------------

struct cell {
  alignas(64) uint64_t value;
};
constexpr uint64_t read_it = 0;
constexpr uint64_t claim = uint64_t{1} << 32;  // | value: sets it if it is 0; gives what was there
// Any other value is set.
struct cell_spec {
  static uint64_t initial() { return 0; }
  static bool step(uint64_t& state, const operation& o) {
    const uint64_t seen = state;
    if ((o.what & claim) == 0) {
      if (o.what != read_it) state = o.what;
    } else if (state == 0) {
      state = o.what & ~claim;
    }
    const bool looked = o.what == read_it || (o.what & claim) != 0;
    return !looked || !o.returned || o.result == seen;
  }
  static uint64_t digest(uint64_t state) { return state; }
};
verdict explained(const cell& x, const window& w) { return linearizer<cell_spec>{{}}.check(w.history, x.value); }

concurrent d52(twin t) {
  concurrent c;
  c.base = on<cell>("D52", [](machine&, cell&) {}, explained);
  c.threads.push_back([](machine& m) {
    auto& x = image_of<cell>(m);
    m.op_begin(5);
    std::atomic_ref{x.value}.store(5, std::memory_order_release);
    persist(m.media(), &x, 8, edge{"zoo/D52 written"});
    m.op_end();
  });
  c.threads.push_back([t](machine& m) {
    auto& x = image_of<cell>(m);
    m.op_begin(read_it);
    const uint64_t seen = std::atomic_ref{x.value}.load(std::memory_order_acquire);
    if (!is_buggy(t)) persist(m.media(), &x, 8, edge{"zoo/D52 read"});
    m.op_end(seen);
  });
  return c;
}

concurrent d53(twin t) {
  concurrent c;
  c.base = on<cell>("D53", [](machine&, cell&) {}, explained);
  for (uint64_t mine = 1; mine <= 2; ++mine) {
    c.threads.push_back([t, mine](machine& m) {
      auto& x = image_of<cell>(m);
      m.op_begin(claim | mine);
      uint64_t seen = 0;
      const bool won = std::atomic_ref{x.value}.compare_exchange_strong(seen, mine, std::memory_order_acq_rel);
      if (won || !is_buggy(t)) persist(m.media(), &x, 8, edge{"zoo/D53"});
      m.op_end(seen);
    });
  }
  return c;
}

// A worker executes requests and answers them; a thread beside it makes durable what was executed, many at once.
concurrent d58(twin t) {
  struct progress {
    std::atomic<uint64_t> executed{0};
    std::atomic<uint64_t> durable{0};
  };
  constexpr uint64_t requests = 2;
  auto made = std::make_shared<progress>();
  concurrent c;
  c.base = on<cell>("D58", [](machine&, cell&) {}, explained);
  c.start = [made](machine&) { made->executed = made->durable = 0; };
  c.threads.push_back([made, t](machine& m) {
    auto& x = image_of<cell>(m);
    for (uint64_t i = 1; i <= requests; ++i) {
      m.op_begin(i);
      std::atomic_ref{x.value}.store(i, std::memory_order_release);
      made->executed.store(i, std::memory_order_release);
      while (!is_buggy(t) && made->durable.load(std::memory_order_acquire) < i) m.yield();
      m.op_end();
    }
  });
  c.threads.push_back([made](machine& m) {
    auto& x = image_of<cell>(m);
    for (uint64_t done = 0; done < requests;) {
      const uint64_t executed = made->executed.load(std::memory_order_acquire);
      if (executed == done) {
        m.yield();
        continue;
      }
      persist(m.media(), &x, 8, edge{"zoo/D58"});
      made->durable.store(done = executed, std::memory_order_release);
    }
  });
  return c;
}

// ---- two transactions -----------------------------------------------------------------------------------------------

struct two_words {
  struct alignas(64) {
    uint64_t valid;
    uint64_t old;
  } undo;  // of x
  alignas(64) uint64_t x;
  alignas(64) uint64_t y;
};
constexpr uint64_t set_x = 1;   // to 5
constexpr uint64_t copy_x = 2;  // y = x + 1; gives x
struct two_words_spec {
  using state = std::array<uint64_t, 2>;
  static state initial() { return {}; }
  static bool step(state& s, const operation& o) {
    if (o.what == set_x) {
      s[0] = 5;
      return true;
    }
    s[1] = s[0] + 1;
    return !o.returned || o.result == s[0];
  }
  static uint64_t digest(const state& s) { return s[0] << 32 | s[1]; }
};
concurrent d62(twin t) {
  auto held = std::make_shared<lock>();
  concurrent c;
  c.base = on<two_words>(
      "D62", [](machine&, two_words&) {},
      [](const two_words& x, const window& w) {
        return linearizer<two_words_spec>{{}}.check(w.history, two_words_spec::digest({x.x, x.y}));
      });
  c.base.recover = [](machine& m) {
    auto& x = image_of<two_words>(m);
    if (x.undo.valid == 0) return pass();
    x.x = x.undo.old;
    persist(m.media(), &x.x, 8, edge{"zoo/D62 undone"});
    x.undo.valid = 0;
    persist(m.media(), &x.undo, 8, edge{"zoo/D62 recovered"});
    return pass();
  };
  c.start = [held](machine&) { held->release(); };
  c.threads.push_back([held, t](machine& m) {
    auto& x = image_of<two_words>(m);
    held->acquire();
    m.op_begin(set_x);
    x.undo.old = x.x;
    persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D62 old"});
    x.undo.valid = 1;
    persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D62 logged"});
    x.x = 5;
    persist(m.media(), &x.x, 8, edge{"zoo/D62 changed"});
    if (is_buggy(t)) held->release();
    x.undo.valid = 0;
    persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D62 committed"});
    if (!is_buggy(t)) held->release();
    m.op_end();
  });
  c.threads.push_back([held](machine& m) {
    auto& x = image_of<two_words>(m);
    held->acquire();
    m.op_begin(copy_x);
    const uint64_t seen = x.x;
    x.y = seen + 1;
    persist(m.media(), &x.y, 8, edge{"zoo/D62 copied"});
    m.op_end(seen);
    held->release();
  });
  return c;
}

// ---- structures -----------------------------------------------------------------------------------------------------

// A stack that two threads take from; what was taken is used again.
struct stack_image {
  alignas(64) uint64_t head;  // index of a node + 1; above them, the number of the change
  struct alignas(64) node {
    uint64_t next;  // index + 1
    uint64_t value;
  };
  node nodes[2];

  static constexpr uint64_t node_of(uint64_t head) { return head & 0xFFFF'FFFF; }
};
constexpr uint64_t pop_it = 0;  // gives the value, 0 if there is none; any other value is pushed
struct stack_spec {
  using state = std::vector<uint64_t>;
  static state initial() { return {11, 10}; }
  static bool step(state& s, const operation& o) {
    if (o.what != pop_it) {
      s.push_back(o.what);
      return true;
    }
    const uint64_t top = s.empty() ? 0 : s.back();
    if (!s.empty()) s.pop_back();
    return !o.returned || o.result == top;
  }
  static uint64_t digest(const state& s) {
    uint64_t d = 7;
    for (const uint64_t v : s) d = d * 1'000'003 + v;
    return d;
  }
};
concurrent d57(twin t) {
  const auto changed = [t](uint64_t head, uint64_t to) { return is_buggy(t) ? to : ((head >> 32) + 1) << 32 | to; };
  // Index of the node + 1, or 0.
  const auto pop = [changed](machine& m) {
    auto& x = image_of<stack_image>(m);
    std::atomic_ref head{x.head};
    m.op_begin(pop_it);
    uint64_t value = 0;
    uint64_t seen = head.load(std::memory_order_acquire);
    while (stack_image::node_of(seen) != 0) {
      const auto& n = x.nodes[stack_image::node_of(seen) - 1];
      value = n.value;
      if (head.compare_exchange_strong(seen, changed(seen, n.next), std::memory_order_acq_rel)) break;
      value = 0;
    }
    persist(m.media(), &x.head, 8, edge{"zoo/D57 popped"});
    m.op_end(value);
    return stack_image::node_of(seen);
  };
  const auto push = [changed](machine& m, uint64_t node, uint64_t value) {
    auto& x = image_of<stack_image>(m);
    std::atomic_ref head{x.head};
    m.op_begin(value);
    uint64_t seen = head.load(std::memory_order_acquire);
    do {
      x.nodes[node - 1] = {stack_image::node_of(seen), value};
      persist(m.media(), &x.nodes[node - 1], sizeof x.nodes[0], edge{"zoo/D57 node"});
    } while (!head.compare_exchange_strong(seen, changed(seen, node), std::memory_order_acq_rel));
    persist(m.media(), &x.head, 8, edge{"zoo/D57 pushed"});
    m.op_end();
  };
  concurrent c;
  c.base = on<stack_image>(
      "D57, threads", [](machine&, stack_image&) {},
      [](const stack_image& x, const window& w) {
        stack_spec::state left;
        for (uint64_t at = stack_image::node_of(x.head); at != 0 && left.size() < 3; at = x.nodes[at - 1].next) {
          left.insert(left.begin(), x.nodes[at - 1].value);
        }
        return linearizer<stack_spec>{{}}.check(w.history, stack_spec::digest(left));
      });
  auto& start = *reinterpret_cast<stack_image*>(c.base.image.data());
  start.head = 1;
  start.nodes[0] = {2, 10};
  start.nodes[1] = {0, 11};
  c.threads.push_back([pop](machine& m) { (void)pop(m); });
  c.threads.push_back([pop, push](machine& m) {
    const uint64_t first = pop(m);
    (void)pop(m);
    if (first != 0) push(m, first, 12);
  });
  return c;
}

// Keys move to a larger table while another thread puts one in.
struct growing_image {
  alignas(64) uint64_t current;
  alignas(64) uint64_t small[4];
  alignas(64) uint64_t large[8];
};
concurrent d59(twin t) {
  auto held = std::make_shared<lock>();
  concurrent c;
  c.base = on<growing_image>(
      "D59, threads", [](machine&, growing_image&) {},
      [](const growing_image& x, const window& w) -> verdict {
        const auto has = [&](uint64_t key) { return (x.current == 0 ? x.small[key % 4] : x.large[key]) == key; };
        if (!has(1)) return fault("key 1 is lost");
        for (const operation& o : explore::operations_of(w.history)) {
          if (o.returned && !has(o.what)) return fault("key " + std::to_string(o.what) + " is lost");
        }
        return pass();
      });
  reinterpret_cast<growing_image*>(c.base.image.data())->small[1] = 1;
  c.start = [held](machine&) { held->release(); };
  c.threads.push_back([held](machine& m) {
    auto& x = image_of<growing_image>(m);
    held->acquire();
    for (const uint64_t key : x.small) x.large[key] = key;
    persist(m.media(), x.large, sizeof x.large, edge{"zoo/D59 copied"});
    std::atomic_ref{x.current}.store(1, std::memory_order_release);
    persist(m.media(), &x.current, 8, edge{"zoo/D59 published"});
    held->release();
  });
  c.threads.push_back([held, t](machine& m) {
    auto& x = image_of<growing_image>(m);
    constexpr uint64_t key = 2;
    if (!is_buggy(t)) held->acquire();
    m.op_begin(key);
    uint64_t& place = std::atomic_ref{x.current}.load(std::memory_order_acquire) == 0 ? x.small[key % 4] : x.large[key];
    std::atomic_ref{place}.store(key, std::memory_order_release);
    persist(m.media(), &place, 8, edge{"zoo/D59 key"});
    m.op_end();
    if (!is_buggy(t)) held->release();
  });
  return c;
}

// ---- two processes --------------------------------------------------------------------------------------------------

// Thread 0 is a process that has the pool open and runs transactions on it; thread 1 is another process.
struct pool_image {
  struct alignas(64) {
    uint64_t valid;
    uint64_t old;
  } undo;  // of both words, which are the same outside transactions
  struct alignas(64) {
    uint64_t value;
  } words[2];
};
struct system_state {
  lock file_lock;                             // the operating system's: released when its process ends
  std::atomic<bool> transaction_open{false};  // of process 0
};
verdict recover_pool(machine& m) {
  auto& x = image_of<pool_image>(m);
  if (x.undo.valid == 0) return pass();
  for (auto& w : x.words) {
    w.value = x.undo.old;
    m.media().flush(&w, 8);
  }
  m.media().fence(edge{"zoo/D63 undone"});
  x.undo.valid = 0;
  persist(m.media(), &x.undo, 8, edge{"zoo/D63 recovered"});
  return pass();
}
template <class Other>
concurrent on_pool(const char* name, Other other) {
  auto state = std::make_shared<system_state>();
  concurrent c;
  c.base = on<pool_image>(
      name, [](machine&, pool_image&) {},
      [](const pool_image& x, const window& w) -> verdict {
        if (x.words[0].value != x.words[1].value) return fault("half of a transaction");
        return linearizer<cell_spec>{{}}.check(w.history, x.words[0].value);
      });
  c.base.recover = recover_pool;
  c.start = [state](machine&) {
    state->file_lock.release();
    (void)state->file_lock.try_acquire();
    state->transaction_open = false;
  };
  c.threads.push_back([state](machine& m) {
    auto& x = image_of<pool_image>(m);
    for (uint64_t value = 1; value <= 2; ++value) {
      m.op_begin(value);
      state->transaction_open.store(true, std::memory_order_release);
      x.undo.old = x.words[0].value;
      persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D63 old"});
      x.undo.valid = 1;
      persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D63 logged"});
      for (auto& w : x.words) {
        w.value = value;
        persist(m.media(), &w, 8, edge{"zoo/D63 changed"});
      }
      x.undo.valid = 0;
      persist(m.media(), &x.undo, sizeof x.undo, edge{"zoo/D63 committed"});
      state->transaction_open.store(false, std::memory_order_release);
      m.op_end();
    }
    state->file_lock.release();
  });
  c.threads.push_back([state, other](machine& m) { other(m, *state); });
  return c;
}
// Opens the pool: recovery, whoever has it open.
concurrent d63_open(twin t) {
  return on_pool("D63, second process", [t](machine& m, system_state& s) {
    if (!is_buggy(t) && !s.file_lock.try_acquire()) return;
    (void)recover_pool(m);
  });
}
// A child of process 0, with a copy of its memory, leaves by exit(), which closes what is open.
concurrent d63_fork(twin t) {
  return on_pool("D63, fork", [t](machine& m, system_state& s) {
    const bool copied = s.transaction_open.load(std::memory_order_acquire);
    constexpr unsigned opened_by = 0;
    if (copied && (is_buggy(t) || opened_by == m.thread())) (void)recover_pool(m);
  });
}

}  // namespace

std::span<const entry> concurrency_entries() {
  static const entry all[] = {
      {.number = 52, .title = "reader acts on what is not durable", .threads = d52, .tiers = t1_t2},
      {.number = 53, .title = "loser of a race does not help", .threads = d53, .tiers = t1_t2},
      {.number = 57, .title = "node recycled while another thread looks at it", .threads = d57, .tiers = t1},
      {.number = 58, .title = "answer before it is durable", .threads = d58, .preemptions = 0, .tiers = t1_t2},
      {.number = 59, .title = "key put into a table that was copied already", .threads = d59, .tiers = t1},
      {.number = 62, .title = "dependent transaction commits first", .threads = d62, .tiers = t1_t2},
      {.number = 63, .title = "second process recovers a pool that is open", .threads = d63_open, .tiers = t1},
      {.number = 63, .title = "child of a fork closes its parent's pool", .threads = d63_fork, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
