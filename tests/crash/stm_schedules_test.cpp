// Barrier transactions of two threads at once: every schedule with few preemptions between their atomic accesses, and
// the crashes of each.  The state after a crash must come from some order of the transactions that fits what each of
// them read: no transaction is there without one whose value it has seen.
//
// The threads are fibers, which share what C++ keeps for each thread; so each has its transaction object, its place
// among the participants and its lane by itself, as the C interface would give to threads.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "api/pool_object.hpp"
#include "base/plant.hpp"
#include "explore/concurrent.hpp"
#include "explore/linearize.hpp"
#include "nvm/stm.h"
#include "on_fibers.hpp"
#include "stm/stm.hpp"
#include "subjects.hpp"
#include "whole_pool.hpp"

namespace nvm::tests {
namespace {

using explore::concurrent;
using explore::fault;
using explore::machine;
using explore::model;
using explore::pass;
using explore::verdict;
using explore::window;
using stm::transaction;

constexpr unsigned threads = 2;
constexpr unsigned words = 4;  // each in a line of its own

unsigned running = 0;  // the fiber

// The pool as each fiber's transactions see it.
class fibers_side final : public stm::durable_side {
 public:
  explicit fibers_side(NVM_POOL& pool) : pool_{pool} {
    const geometry g = pool.file->geometry();
    lies_at(pool.base(), g.capacity_bytes(), g.data_offset, false);
  }
  result<tx::open_transaction*> begin() noexcept override {
    return pool_.engine->begin(lanes_[running].lane, lanes_[running].parked);
  }
  result<stm::home_reader*> reader() noexcept override { std::abort(); }
  [[nodiscard]] std::uint64_t data_end() const noexcept override { return pool_.file->geometry().size_bytes(); }
  [[nodiscard]] two_words words_of(anchor_word) const noexcept override { std::abort(); }
  [[nodiscard]] bool takes_announced_stores() const noexcept override { return false; }
  status wait(lsn_t lsn) noexcept override { return pool_.engine->wait(lsn); }
  status wait_for_seen(lsn_t lsn) noexcept override { return pool_.engine->wait(lsn); }
  void clear_new(std::uint32_t, void*, std::size_t) noexcept override {}
  status let_go(tx::open_transaction& t, std::uint64_t payload) noexcept override { return t.let_go(payload); }
  status admit_alignment() noexcept override { return {}; }

 private:
  NVM_POOL& pool_;
  struct {
    unsigned lane = 0;
    bool parked = false;
  } lanes_[threads];
};

// What a transaction does: all of them read before they write.
enum class deed : std::uint64_t {
  move,  // from word 0 to word 1
  copy,  // words 0 and 1 to word 2
  grow,  // word 1, and word 3 says how far
  undo_move,
};
using board = std::array<std::uint64_t, words>;
constexpr board opening{100, 200, 0, 0};

template <class Load, class Store>
std::uint64_t act(deed d, Load&& load, Store&& store) {
  switch (d) {
    case deed::move: {
      const std::uint64_t a = load(0), b = load(1);
      store(0, a - 7);
      store(1, b + 7);
      return a * 1000 + b;
    }
    case deed::copy: {
      const std::uint64_t a = load(0), b = load(1);
      store(2, a * 1000 + b);
      return a * 1000 + b;
    }
    case deed::grow: {
      const std::uint64_t b = load(1);
      store(1, b + 1);
      store(3, b + 1);
      return b;
    }
    case deed::undo_move: {
      const std::uint64_t b = load(1), a = load(0);
      store(1, b - 7);
      store(0, a + 7);
      return a * 1000 + b;
    }
  }
  std::abort();
}

std::uint64_t digest_of(const board& b) {
  std::uint64_t d = 7;
  for (const std::uint64_t w : b) d = d * 1'000'003 + w;
  return d;
}
struct board_spec {
  board initial() const { return opening; }
  bool step(board& b, const explore::operation& o) const {
    const std::uint64_t seen = act(
        static_cast<deed>(o.what), [&](unsigned i) { return b[i]; }, [&](unsigned i, std::uint64_t v) { b[i] = v; });
    return !o.returned || o.result == seen;
  }
  std::uint64_t digest(const board& b) const { return digest_of(b); }
};

// The object of a pool that has no other.
std::uint64_t only_object(const std::byte* base, const geometry& g) {
  std::uint64_t at = 0;
  (void)for_each_object(base, g, [&](std::uint64_t offset, std::uint64_t, layout::object_layout) {
    at = offset + sizeof(layout::object_header);
    return true;
  });
  return at;
}
std::uint64_t word_at(std::uint64_t object, unsigned i) { return object + 64 * i + 48; }

std::vector<std::byte> image_with_board(kind_of_medium kind) {
  const std::vector<std::byte> fresh = new_image({}, kind);
  machine m(fresh.size(), place_of_whole_pools());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  const auto pool = open_whole(m, kind);
  if (pool == nullptr) std::abort();
  const int made = nvm_stm_run(
      pool->handle(),
      [](nvm_stm* tx, void*) {
        auto* object = static_cast<std::byte*>(nvm_stm_alloc(tx, 1, 64 * words));
        if (object == nullptr) return 1;
        std::memset(object, 0, 64 * words);
        for (unsigned i = 0; i < words; ++i) std::memcpy(object + word_at(0, i), &opening[i], 8);
        return 0;
      },
      nullptr);
  if (made != 0 || !pool->close()) std::abort();
  return {m.base(), m.base() + m.size()};
}

struct program {
  std::unique_ptr<whole_pool> pool;
  std::unique_ptr<fibers_side> side;
  std::unique_ptr<transaction> transactions[threads];
  std::uint64_t* word[words] = {};
};

// The participants of this program; a schedule's transactions take the places of those before.
isolation::participant& participant_of(unsigned thread) {
  static isolation::participant* const all[threads] = {isolation::participant::join_list(),
                                                       isolation::participant::join_list()};
  return *all[thread];
}

std::uint64_t run(program& p, unsigned me, deed d) {
  transaction& t = *p.transactions[me];
  struct met {};
  for (;;) {
    const auto must = [](stm::verdict v) {
      if (v == stm::verdict::conflict) throw met{};
      if (v == stm::verdict::failed) std::abort();
    };
    must(t.begin(p.side.get()));
    try {
      const std::uint64_t seen = act(
          d,
          [&](unsigned i) {
            std::uint64_t v = 0;
            must(t.load(p.word[i], v));
            return v;
          },
          [&](unsigned i, std::uint64_t v) { must(t.store(p.word[i], v)); });
      must(t.commit());
      t.end_series();
      if (!t.finish_wait(t.last())) std::abort();
      return seen;
    } catch (const met&) {
      t.roll_back(transaction::reason::conflict);
    }
  }
}

void warm_up(program& p, unsigned me) {
  transaction& t = *p.transactions[me];
  const bool done = t.begin(p.side.get()) == stm::verdict::done &&
                    t.store(p.word[3], opening[3]) == stm::verdict::done && t.commit() == stm::verdict::done;
  if (!done) std::abort();
  t.end_series();
}

concurrent program_of(kind_of_medium kind, bool write_back, const std::vector<std::vector<deed>>& deeds) {
  auto p = std::make_shared<program>();
  concurrent c;
  c.base.name = "two threads at once";
  c.base.image = image_with_board(kind);
  c.base.at = place_of_whole_pools();
  c.base.recover = [kind](machine& m) -> verdict {
    const status done = recover_image(m, kind);
    return done ? pass() : fault(last_message());
  };
  c.base.oracle = [](machine& m, const window& w) -> verdict {
    const auto sb = pick_superblock(m.base(), m.size());
    if (!sb) return fault(last_message());
    const geometry g = geometry_of(*sb);
    space_summary summary;
    if (!check_space(m.base(), g, nullptr, summary)) return fault("the pool is damaged");
    const std::uint64_t object = only_object(m.base(), g);
    board found{};
    for (unsigned i = 0; i < words; ++i) std::memcpy(&found[i], m.base() + word_at(object, i), 8);
    explore::linearizer<board_spec> search{board_spec{}};
    return search.check(w.history, digest_of(found));
  };
  c.start = [p, kind, write_back](machine& m) {
    for (auto& t : p->transactions) t.reset();
    p->side.reset();
    p->pool.reset();
    p->pool = open_whole(m, kind);
    if (p->pool == nullptr) std::abort();
    NVM_POOL& pool = *p->pool->handle();
    p->side = std::make_unique<fibers_side>(pool);
    p->side->always_write_back = write_back;
    const std::uint64_t object = only_object(pool.base(), pool.file->geometry());
    for (unsigned i = 0; i < words; ++i) {
      p->word[i] = reinterpret_cast<std::uint64_t*>(pool.base() + word_at(object, i));
    }
    for (unsigned t = 0; t < threads; ++t) p->transactions[t] = std::make_unique<transaction>(participant_of(t));
    // The first commits of a process take a lock of the system's, which fibers cannot wait for: they write what is
    // there.
    for (running = 0; running < threads; ++running) warm_up(*p, running);
    running = 0;
  };
  for (unsigned me = 0; me < deeds.size(); ++me) {
    c.threads.push_back([p, me, mine = deeds[me]](machine& m) {
      for (const deed d : mine) {
        m.op_begin(static_cast<std::uint64_t>(d));
        const std::uint64_t seen = run(*p, me, d);
        m.op_end(seen);
      }
    });
  }
  c.on_switch = [](unsigned thread) { running = thread; };
  return c;
}

explore::options options_for_schedules() {
  explore::options o = options_for(model::x86);
  o.nesting = 1;
  o.nested_every = 64;
  return o;
}

class stm_schedules : public testing::TestWithParam<kind_of_medium> {
 protected:
  static concurrent told(const std::vector<std::vector<deed>>& deeds) {
    const kind_of_medium& on = GetParam();
    return program_of(plain(on), is_redo(on) || on.with == kind_of_medium::barriers::write_back, deeds);
  }
  static explore::options options() { return options_for_schedules(); }
};
INSTANTIATE_TEST_SUITE_P(on, stm_schedules,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.schedules; })),
                         [](const auto& i) { return std::string{i.param.name.substr(std::strlen("stm_"))}; });

const std::vector<std::vector<deed>> one_each{{deed::move}, {deed::grow}};
const std::vector<std::vector<deed>> reader_and_writer{{deed::move}, {deed::copy}};

TEST_P(stm_schedules, with_two_preemptions_leave_what_some_order_explains) {
  for (const auto& deeds : {one_each, reader_and_writer}) {
    const auto r = explore_schedules(told(deeds), {}, options());
    EXPECT_TRUE(r.clean() && r.all) << r.text();
    std::printf("%s\n", r.text().c_str());
  }
}

TEST_P(stm_schedules, of_more_transactions_leave_what_some_order_explains) {
  explore::schedule_options s;
  s.priority_runs = runs_of_today(1500, seed_of(GetParam().name));
  const auto r = explore_schedules(
      told({{deed::move, deed::copy, deed::undo_move}, {deed::grow, deed::copy, deed::move}}), s, options());
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}

bool finds(plant bug, const concurrent& c, explore::options o) {
  explore::schedule_options s;
  s.preemptions = 1;
  o.print_violations = false;
  planted_bug = bug;
  const bool found = explore_schedules(c, s, o).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST_P(stm_schedules, that_lose_an_update_are_found) {
  EXPECT_TRUE(finds(plant::reads_not_validated, told(one_each), options()));
}

// It takes a schedule and a crash: a transaction that has read is durable, and the one that it has read is not.
TEST(stm_schedules_without_a_ground, in_which_one_survives_without_what_it_has_read_are_found) {
  const concurrent c = program_of(kind_of_medium::direct, false, reader_and_writer);
  EXPECT_TRUE(finds(plant::unlocked_too_early, c, options_for_schedules()));
}

}  // namespace
}  // namespace nvm::tests
