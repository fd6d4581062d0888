// E: recovery.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/base.hpp"
#include "media/concept.hpp"
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using std::uint64_t;

// An undo record of the one line of data.
struct undone {
  alignas(64) uint64_t valid;
  alignas(64) uint64_t old[2];
  alignas(64) uint64_t data[2];
};
uint64_t digest_of(const undone& x) { return word_hash(0, x.data[0]) + word_hash(1, x.data[1]); }
subject e64(twin t) {
  const auto history = std::make_shared<digest_history>();
  subject s = on<undone>(
      "E64",
      [history](machine& m, undone& x) {
        history->clear();
        history->state(digest_of(x));
        for (uint64_t i = 1; i <= 3; ++i) {
          m.op_begin();
          std::copy_n(x.data, 2, x.old);
          persist(m.media(), x.old, sizeof x.old, edge{"zoo/E64 logged"});
          x.valid = 1;
          persist(m.media(), &x.valid, 8, edge{"zoo/E64 begun"});
          x.data[0] = 10 * i;
          x.data[1] = 11 * i;
          persist(m.media(), x.data, sizeof x.data, edge{"zoo/E64 changed"});
          x.valid = 0;
          persist(m.media(), &x.valid, 8, edge{"zoo/E64 committed"});
          m.op_end();
          history->state(digest_of(x));
        }
      },
      [history](const undone& x, const window& w) { return history->check(digest_of(x), w); });
  s.recover = [t](machine& m) {
    auto& x = *reinterpret_cast<undone*>(m.base());
    if (x.valid == 0) return pass();
    std::copy_n(x.old, 2, x.data);
    m.media().flush(x.data, sizeof x.data);
    if (!is_buggy(t)) m.media().fence(edge{"zoo/E64 restored"});
    x.valid = 0;
    persist(m.media(), &x.valid, 8, edge{"zoo/E64 let go"});
    return pass();
  };
  return s;
}

// A redo log that holds three changes; the sum of each is right only with its place.
struct redo_image {
  struct record {
    uint64_t word;
    uint64_t value;
    uint64_t sum;
  };
  alignas(64) uint64_t data[8];
  record log[3];

  static uint64_t sum_of(const record& r, std::size_t place) { return checksum(&r, offsetof(record, sum), place); }
  static bool is_right(const record& r, std::size_t place) { return r.word < 8 && r.sum == sum_of(r, place); }
};
report e65(twin t, const options& o) {
  subject s;
  s.name = "E65";
  s.image.resize(round_up(sizeof(redo_image), line_bytes));
  auto& x = *reinterpret_cast<redo_image*>(s.image.data());
  for (std::size_t i = 0; i < 3; ++i) {
    x.log[i] = {.word = 2 * i, .value = 100 + i, .sum = 0};
    x.log[i].sum = redo_image::sum_of(x.log[i], i);
  }
  s.recover = [t](machine& m) -> verdict {
    auto& x = *reinterpret_cast<redo_image*>(m.base());
    for (std::size_t i = 0; i < 3 && !is_buggy(t); ++i) {
      if (!redo_image::is_right(x.log[i], i)) return fault("a damaged record");
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (!redo_image::is_right(x.log[i], i)) return fault("a damaged record");
      x.data[x.log[i].word] = x.log[i].value;
    }
    return pass();
  };
  s.oracle = [](machine& m, const window&) -> verdict {
    const auto& x = *reinterpret_cast<const redo_image*>(m.base());
    for (uint64_t i = 0; i < 3; ++i) {
      if (x.data[2 * i] != 100 + i) return fault("a change is lost");
    }
    return pass();
  };
  return explore_hostile_bytes(s, o);
}

// A sorted array, ended by a zero.  A deletion moves what is after the key to the left, one after the other: a crash
// leaves a key twice, and a look-up does not mind.  A later deletion does.
struct shifted_keys {
  static constexpr std::size_t room = 16;
  alignas(64) uint64_t keys[room];

  [[nodiscard]] bool has(uint64_t key) const { return std::find(keys, keys + room, key) != keys + room; }
  // Moves everything after `i` one to the left.
  void close_gap(machine& m, std::size_t i) {
    do {
      keys[i] = i + 1 < room ? keys[i + 1] : 0;
      persist(m.media(), &keys[i], 8, edge{"zoo/E73"});
    } while (keys[i++] != 0);
  }
  void remove(machine& m, uint64_t key) {
    close_gap(m, static_cast<std::size_t>(std::find(keys, keys + room, key) - keys));
  }
};
subject e73(twin t) {
  constexpr uint64_t first_keys = shifted_keys::room - 1;
  subject s = on<shifted_keys>(
      "E73",
      [](machine& m, shifted_keys& x) {
        for (uint64_t key = 1; key <= first_keys; ++key) {
          m.op_begin(key);
          x.remove(m, key);
          m.op_end();
        }
      },
      [](const shifted_keys& x, const window& w) -> verdict {
        for (uint64_t key = 1; key <= first_keys; ++key) {
          if (key <= w.promised && x.has(key)) return fault("key " + std::to_string(key) + " is back");
          if (key > w.started && !x.has(key)) return fault("key " + std::to_string(key) + " is lost");
        }
        return pass();
      });
  auto& x = *reinterpret_cast<shifted_keys*>(s.image.data());
  for (uint64_t i = 0; i < first_keys; ++i) x.keys[i] = i + 1;
  s.recover = [t](machine& m) {
    auto& x = *reinterpret_cast<shifted_keys*>(m.base());
    for (std::size_t i = 1; i < shifted_keys::room && !is_buggy(t); ++i) {
      if (x.keys[i] != 0 && x.keys[i] == x.keys[i - 1]) x.close_gap(m, i);
    }
    return pass();
  };
  s.after = [](machine& m, const window&) -> verdict {
    auto& x = *reinterpret_cast<shifted_keys*>(m.base());
    for (uint64_t key = 1; key <= first_keys; ++key) {
      if (!x.has(key)) continue;
      x.remove(m, key);
      if (x.has(key)) return fault("key " + std::to_string(key) + " was deleted, and is there");
    }
    return pass();
  };
  return s;
}

// ---- hostile logs ---------------------------------------------------------------------------------------------------

// Records of any length, one after the other; a length of zero would end nowhere.
struct chain_image {
  static constexpr uint64_t room = 512;
  alignas(64) std::byte log[room];

  static uint64_t bytes_at(const std::byte* p) {
    uint64_t bytes;
    std::memcpy(&bytes, p, 8);
    return bytes;
  }
};
constexpr uint64_t end_of_log = 0x454E'4421;
report e74(twin t, const options& o) {
  subject s;
  s.name = "E74";
  s.image.resize(sizeof(chain_image));
  uint64_t at = 0;
  for (const uint64_t bytes : {24, 64, 16, 120, 8, 200}) {
    std::memcpy(&s.image[at], &bytes, 8);
    at += bytes;
  }
  std::memcpy(&s.image[at], &end_of_log, 8);
  s.recover = [t](machine& m) -> verdict {
    for (uint64_t at = 0; at <= chain_image::room - 8;) {
      const uint64_t bytes = chain_image::bytes_at(m.base() + at);
      if (bytes == end_of_log) return pass();
      if (bytes > chain_image::room - at) return fault("a record ends behind the log");
      if (!is_buggy(t) && bytes < 8) return fault("a record shorter than its head");
      at += bytes;
    }
    return fault("the log has no end");
  };
  s.oracle = [](machine&, const window&) { return pass(); };
  return explore_hostile_bytes(s, o);
}

// Undo records: of several for one word the first counts.
struct undo_words {
  static constexpr std::size_t records = 128;
  alignas(64) uint64_t data[8];
  struct record {
    uint64_t word;
    uint64_t old;
  } log[records];
};
constexpr std::int64_t steps_each = 8;  // of recovery, for each record of the log
report e74_quadratic(twin t, const options& o) {
  subject s;
  s.name = "E74, quadratic";
  s.image.resize(sizeof(undo_words));
  for (std::size_t i = 0; i < undo_words::records; ++i) {
    reinterpret_cast<undo_words*>(s.image.data())->log[i] = {i % 8, i};
  }
  s.run = [](machine& m) { m.promise(); };
  s.recover = [t](machine& m) -> verdict {
    auto& x = *reinterpret_cast<undo_words*>(m.base());
    bool restored[8] = {};
    for (std::size_t i = 0; i < undo_words::records; ++i) {
      const auto& r = x.log[i];
      if (r.word >= 8) return fault("a word that is none");
      bool before = restored[r.word];
      if (is_buggy(t)) {
        before = false;
        for (std::size_t k = 0; k < i; ++k) before = before || x.log[k].word == r.word;
      }
      if (!before) x.data[r.word] = r.old;
      restored[r.word] = true;
    }
    return pass();
  };
  s.oracle = [](machine& m, const window&) -> verdict {
    const auto& x = *reinterpret_cast<const undo_words*>(m.base());
    for (uint64_t i = 0; i < 8; ++i) {
      if (x.data[i] != i) return fault("a later record counted");
    }
    return pass();
  };
  options bounded = o;
  bounded.steps_max = 64 + steps_each * static_cast<std::int64_t>(undo_words::records);
  return explore::explore(s, bounded);
}

// ---- replicas -------------------------------------------------------------------------------------------------------

struct replica {
  alignas(64) uint64_t generation;  // commits: the value is in slot generation % 2
  alignas(64) uint64_t slots[2];

  [[nodiscard]] uint64_t value() const { return slots[generation % 2]; }
  void store(machine& m, uint64_t to_generation, uint64_t value) {
    slots[to_generation % 2] = value;
    persist(m.media(), &slots[to_generation % 2], 8, edge{"zoo/E75 value"});
    generation = to_generation;
    persist(m.media(), &generation, 8, edge{"zoo/E75 generation"});
  }
};
struct replicas {
  replica a, b;
};
// Half of the changes are made while `a` is away.
subject e75(twin t) {
  const auto history = std::make_shared<digest_history>();
  subject s = on<replicas>(
      "E75",
      [history](machine& m, replicas& x) {
        history->clear();
        history->state(0);
        for (uint64_t i = 1; i <= 4; ++i) {
          m.op_begin();
          if (i <= 2) x.a.store(m, i, 10 * i);
          x.b.store(m, i, 10 * i);
          m.op_end();
          history->state(10 * i);
        }
      },
      [history](const replicas& x, const window& w) -> verdict {
        if (x.a.value() != x.b.value()) return fault("the replicas differ");
        return history->check(x.a.value(), w);
      });
  s.recover = [t](machine& m) {
    auto& x = *reinterpret_cast<replicas*>(m.base());
    const bool a_wins = is_buggy(t) ? x.a.generation != 0 : x.a.generation >= x.b.generation;
    const replica& from = a_wins ? x.a : x.b;
    replica& to = a_wins ? x.b : x.a;
    if (to.generation != from.generation) to.store(m, from.generation, from.value());
    return pass();
  };
  return s;
}

// The two that are seen only by what is named for them.
TEST(zoo_recovery, needs_crashes_of_recovery_and_life_after_it_to_be_judged) {
  options o;
  o.nesting = 0;
  EXPECT_TRUE(explore::explore(e64(twin::buggy), o).clean()) << "its recovery is never crashed";
  subject s = e73(twin::buggy);
  s.after = nullptr;
  EXPECT_TRUE(explore::explore(s, o).clean()) << "nobody works on what is recovered";
}

}  // namespace

std::span<const entry> recovery_entries() {
  static const entry all[] = {
      {.number = 64,
       .title = "log let go before what it restored is durable",
       .make = e64,
       .tiers = t1_t3,
       .nesting = 1},
      {.number = 65, .title = "recovery stores before it has validated", .hunt = e65},
      {.number = 73, .title = "damage that only a later write minds", .make = e73, .tiers = t1_t2},
      {.number = 74, .title = "recovery without end on a hostile log", .hunt = e74},
      {.number = 74, .title = "recovery quadratic in the log", .hunt = e74_quadratic},
      {.number = 75, .title = "older replica wins", .make = e75, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
