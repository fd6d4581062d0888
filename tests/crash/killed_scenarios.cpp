// Scenarios of processes that are killed: what they had stored is in caches, the next one sees it and goes on, and then
// the power is cut.
#include <cstdlib>

#include "scenarios.hpp"

namespace nvm::tests {
namespace {

// Writes to the first object, frees the last, allocates another.
std::unique_ptr<open_tx> a_change(player& p, unsigned lane, unsigned fill) {
  const auto& objects = p.committed().objects;
  const std::uint64_t first = objects.begin()->first;
  const std::uint64_t last = objects.rbegin()->first;
  auto t = p.begin(lane);
  t->write(first, 0, 150, static_cast<std::uint8_t>(fill));
  t->free(last);
  t->alloc(40, static_cast<std::uint8_t>(fill + 1));
  return t;
}
void begin_killing(player& p) {
  auto setup = p.begin(1);
  setup->alloc(200, 0x11);
  for (std::uint8_t i = 0; i < 2; ++i) setup->alloc(40, i);
  setup->commit();
  p.close();
  p.reopen();
  p.on().explore_from_here();
}
void close_and_reopen(player& p) {
  p.close();
  p.reopen();
}

// A process is killed while its record is on its way, at each write-back and fence: the next one replays what it sees.
void committers_are_killed(player& p) {
  begin_killing(p);
  for (unsigned point = 1; a_change(p, 0, point)->commit_killed(point) != open_tx::killed::never;) ++point;
}

// The next one, too, at each write-back and fence of its recovery; and_then() is what the third one does.
template <class Then>
void kill_recoveries(player& p, Then&& and_then) {
  begin_killing(p);
  for (unsigned point = 1;; ++point) {
    for (unsigned in_recovery = 1;; ++in_recovery) {
      const auto killed = a_change(p, 0, point + in_recovery)->commit_killed(point, in_recovery);
      if (killed == open_tx::killed::never) return;
      if (killed != open_tx::killed::in_both) break;
      and_then(point + in_recovery);
    }
  }
}
void recoveries_are_killed(player& p) {
  kill_recoveries(p, [&](unsigned fill) { a_change(p, 1, fill)->commit(); });
}
// It finds nothing to recover, and says so.
void recoveries_are_killed_and_the_pool_is_closed(player& p) {
  kill_recoveries(p, [&](unsigned) { close_and_reopen(p); });
}

// Who empties the logs of lanes.  Some of their records are in runs, which then are free.
void checkpoints_are_killed(player& p) {
  begin_killing(p);
  auto t = p.begin(0);
  const std::uint64_t large = t->alloc(3000, 0x70);
  std::uint64_t other = t->alloc(1500, 0x71);
  t->commit();
  for (unsigned point = 1;; ++point) {
    t = p.begin(0);
    t->write(large, 0, 2000, static_cast<std::uint8_t>(point));
    t->commit();
    if (!p.checkpoint_killed(point)) break;
    auto u = p.begin(1);
    u->free(other);
    other = u->alloc(1500, static_cast<std::uint8_t>(point));
    u->commit();
  }
}

// While it looks for room.
bool killed_when_it_allocates(player& p, unsigned point, std::uint64_t bytes) {
  auto t = p.begin(0);
  const bool killed = p.killed(point, 0, [&] { (void)t->alloc(bytes, 0x41); });
  if (!killed) t->abort();
  return killed;
}
void come_and_go(player& p, std::uint64_t bytes) {
  auto t = p.begin(0);
  const std::uint64_t x = t->alloc(bytes, 0x21);
  if (x == 0) std::abort();
  t->commit();
  auto u = p.begin(1);
  u->free(x);
  u->commit();
}
// Extents of one page and of eight are given back when a large object wants their pages; the next process gives them to
// it as well.
void who_gives_pages_back_is_killed(player& p) {
  constexpr std::uint64_t nearly_all = 15 * 1024;
  for (unsigned point = 1;; ++point) {
    come_and_go(p, 40);
    come_and_go(p, 500);
    const bool killed = killed_when_it_allocates(p, point, nearly_all);
    come_and_go(p, nearly_all);
    if (!killed) return;
  }
}
// The next process puts its objects into the extent that it finds.
void who_makes_an_extent_is_killed(player& p) {
  for (unsigned point = 1;; ++point) {
    const bool killed = killed_when_it_allocates(p, point, 40);
    for (unsigned lane = 0; lane < 2; ++lane) {
      auto t = p.begin(lane);
      t->alloc(40, static_cast<std::uint8_t>(lane));
      t->commit();
    }
    if (!killed) return;
    // The extent goes, so that the next round begins with another.
    const auto objects = p.committed().objects;
    auto t = p.begin(0);
    for (const auto& [at, content] : objects) t->free(at);
    t->commit();
    come_and_go(p, 15 * 1024);
  }
}
const crash_shape little_room{10, 17, 17, 2, 1024, 64 * 1024};

// The pages of logs that overflow are free again when the transaction ends, or when the process after it has recovered.
void overflowing_logs_are_killed(player& p) {
  auto setup = p.begin(0);
  const std::uint64_t x = setup->alloc(3000, 1);
  setup->commit();
  for (unsigned point = 1;; ++point) {
    auto t = p.begin(0);
    t->write(x, 0, 2000, static_cast<std::uint8_t>(point));
    const auto killed = t->commit_killed(point, point % 2);
    auto u = p.begin(1);
    const std::uint64_t y = u->alloc(5000, 0x31);
    if (y == 0) std::abort();
    u->commit();
    close_and_reopen(p);
    auto v = p.begin(1);
    v->free(y);
    v->commit();
    if (killed == open_tx::killed::never) return;
  }
}

}  // namespace

const std::vector<scenario>& killed_scenarios() {
  static const std::vector<scenario> all{
      {"committers are killed", committers_are_killed, {}, true, false, false},
      {"recoveries are killed", recoveries_are_killed, {}, true, false, false},
      {"recoveries are killed and the pool is closed",
       recoveries_are_killed_and_the_pool_is_closed,
       {},
       true,
       false,
       false},
      {"checkpoints are killed", checkpoints_are_killed, {}, true, false, false},
      {"who gives pages back is killed", who_gives_pages_back_is_killed, little_room, true, false, false},
      {"who makes an extent is killed", who_makes_an_extent_is_killed, little_room, true, false, false},
      {"overflowing logs are killed", overflowing_logs_are_killed, little_room, true, false, false},
  };
  return all;
}

}  // namespace nvm::tests
