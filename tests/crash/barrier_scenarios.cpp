#include <cstdlib>

#include "scenarios.hpp"

namespace nvm::tests {
namespace {

void need(bool good) {
  if (!good) std::abort();
}

// An object of `bytes` bytes.
std::uint64_t object(player& p, std::uint64_t bytes, std::uint8_t fill, unsigned lane = 0) {
  auto t = p.begin(lane);
  const std::uint64_t x = t->alloc(bytes, fill);
  need(x != 0);
  t->commit();
  return x;
}

// One byte to more than a line, over the ends of words and lines, again and again in one transaction.
void stores_of_every_size(player& p) {
  const std::uint64_t x = object(p, 300, 1);
  for (std::uint8_t round = 0; round < 4; ++round) {
    auto t = p.begin(round % 2);
    std::uint64_t at = round;
    for (const std::uint64_t bytes : {1, 2, 4, 8, 13, 63, 64}) {
      need(t->write(x, at, bytes, static_cast<std::uint8_t>(0x10 * round + bytes)));
      at += bytes + 3;
    }
    need(t->write(x, 4, 8, static_cast<std::uint8_t>(0xE0 + round)));
    need(t->look(x));
    if (round == 2) {
      t->abort();
    } else {
      t->commit();
    }
  }
}

// Both are open; the first has read what the second changes, and has to begin again.
void one_has_read_what_another_changes(player& p) {
  const std::uint64_t x = object(p, 40, 1);
  const std::uint64_t y = object(p, 40, 2);
  for (std::uint8_t round = 0; round < 3; ++round) {
    const unsigned first = round % 2;
    auto a = p.begin(first);
    need(a->look(x) && a->write(y, 0, 24, static_cast<std::uint8_t>(0x20 + round)));
    const std::uint64_t made = a->alloc(100, 0x77);
    need(made != 0);
    auto b = p.begin(1 - first);
    need(b->look(x) && b->write(x, 8, 16, static_cast<std::uint8_t>(0x40 + round)));
    b->commit();
    need(!a->commit_or_meet());
    auto again = p.begin(first);
    need(again->look(x) && again->write(y, 0, 24, static_cast<std::uint8_t>(0x60 + round)));
    again->commit();
  }
}

// The first has read nothing of what the second changes, but looks at it afterwards: its snapshot moves on.
void a_snapshot_moves_on(player& p) {
  const std::uint64_t x = object(p, 40, 1);
  const std::uint64_t y = object(p, 40, 2);
  const std::uint64_t z = object(p, 40, 3);
  for (std::uint8_t round = 0; round < 3; ++round) {
    auto a = p.begin(round % 2);
    need(a->look(x) && a->write(x, 0, 8, static_cast<std::uint8_t>(0x20 + round)));
    auto b = p.begin(1 - round % 2);
    need(b->write(y, 0, 40, static_cast<std::uint8_t>(0x40 + round)));
    b->commit();
    need(a->look(y) && a->write(z, 0, 8, static_cast<std::uint8_t>(0x60 + round)));
    a->commit();
  }
}

// Each reads what the one before has left, on the other thread, and leaves something for the next: none of them may be
// there without those before.
void each_reads_the_one_before(player& p) {
  std::vector<std::uint64_t> chain{object(p, 24, 1)};
  for (std::uint8_t i = 1; i < 12; ++i) {
    auto t = p.begin(i % 2);
    need(t->look(chain.back()));
    if (i % 3 == 0) {
      need(t->write(chain[i / 3], 8, 8, i));
    } else if (i % 4 == 0) {
      need(t->free(chain.front()));
      chain.erase(chain.begin());
    }
    chain.push_back(t->alloc(24, static_cast<std::uint8_t>(i + 1)));
    need(chain.back() != 0 && t->set_root(chain.back()));
    t->commit();
  }
}

// Levels in levels, with objects that come and go in them; some are taken back.
void levels_are_taken_back(player& p) {
  const std::uint64_t x = object(p, 200, 1);
  std::uint64_t kept = object(p, 100, 2);
  for (std::uint8_t round = 0; round < 3; ++round) {
    auto t = p.begin(round % 2);
    need(t->write(x, 0, 70, static_cast<std::uint8_t>(0x10 + round)));
    t->begin();
    const std::uint64_t inner = t->alloc(100, 0x33);
    need(inner != 0 && t->write(x, 60, 20, 0x34));
    t->begin();
    need(t->free(kept) && t->write(x, 100, 64, 0x35) && t->write(inner, 0, 8, 0x36));
    need(t->set_root(inner));
    if (round == 0) {
      t->abort_level();
    } else {
      need(t->commit_level());
    }
    need(t->look(x) && t->look(inner));
    if (round == 1) {
      t->abort_level();
    } else {
      need(t->commit_level());
      if (round == 2) kept = inner;
    }
    need(t->look(x) && t->write(x, 190, 5, static_cast<std::uint8_t>(0x50 + round)));
    t->commit();
  }
}

// What nothing can stop any more, between transactions that can be.
void one_runs_alone(player& p) {
  const std::uint64_t x = object(p, 200, 1);
  std::uint64_t y = object(p, 60, 2);
  for (std::uint8_t round = 0; round < 3; ++round) {
    auto t = p.begin(round % 2);
    need(t->run_alone());
    need(t->write(x, 0, 100, static_cast<std::uint8_t>(0x10 + round)) && t->look(x) && t->free(y));
    y = t->alloc(60, static_cast<std::uint8_t>(0x20 + round));
    need(y != 0 && t->write(x, 90, 20, static_cast<std::uint8_t>(0x30 + round)));
    t->commit();
    auto u = p.begin(1 - round % 2);
    need(u->look(x) && u->write(x, 130, 8, static_cast<std::uint8_t>(0x40 + round)));
    u->commit();
  }
}

// Both are open all the time, and end in one order or the other.
void two_are_open_at_once(player& p) {
  std::uint64_t x = object(p, 200, 1, 0);
  std::uint64_t y = object(p, 200, 2, 1);
  for (std::uint8_t round = 0; round < 4; ++round) {
    auto a = p.begin(0);
    auto b = p.begin(1);
    need(a->write(x, 0, 80, static_cast<std::uint8_t>(0x10 + round)));
    need(b->write(y, 40, 80, static_cast<std::uint8_t>(0x20 + round)));
    const std::uint64_t more = a->alloc(200, 0x31);
    need(more != 0 && a->free(x));
    need(b->write(y, 0, 8, static_cast<std::uint8_t>(0x40 + round)));
    if (round % 2 == 0) {
      a->commit();
      need(b->write(y, 150, 8, 0x51));
      b->commit();
    } else {
      b->commit();
      a->commit();
    }
    x = more;
  }
}

}  // namespace

const std::vector<scenario>& barrier_scenarios() {
  static const std::vector<scenario> all{
      {"stores of every size", stores_of_every_size},
      {"one has read what another changes", one_has_read_what_another_changes},
      {"a snapshot moves on", a_snapshot_moves_on},
      {"each reads the one before", each_reads_the_one_before},
      {"levels are taken back", levels_are_taken_back},
      {"one runs alone", one_runs_alone},
      {"two are open at once", two_are_open_at_once},
  };
  return all;
}

}  // namespace nvm::tests
