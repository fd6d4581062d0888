// Stories of regions on ssd whose new bytes go straight to their pages.
#include "region_stories.hpp"

namespace nvm::tests {
namespace {

using player = region_player;
using mode = region::mode;

// New ones, whole ones, and what is added to them; then changes of bytes that have come straight.
void bytes_come_straight(player& p) {
  p.make_set("a");
  p.on_machine().explore_from_here();
  p.create("a", 1, 3000, 3000);
  p.create("a", 2, 20'000, 20'000);
  p.write("a", 1, 0, 3000, mode::copy);
  p.append("a", 1, 2600);
  p.write("a", 2, 700, 40);
  p.truncate_log();
  p.write("a", 2, 9000, 100);
  p.truncate("a", 1, 1000);
  p.append("a", 1, 4000);
  p.group("a", {p.writing(1, 0, 2500, mode::copy), p.creation(3, 2048, 2048), p.writing(2, 0, 20'000, mode::copy)});
}
// The record and the first change of its bytes become durable by one sync: nothing in the log says that they did.
void bytes_change_before_they_are_proved(player& p) {
  p.make_set("a");
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.change_soon("a", p.creation(1, 3000, 3000));
  p.write("a", 1, 1100, 100);
  p.truncate_log();
  p.change_soon("a", p.writing(1, 0, 3000, mode::copy));
  p.write("a", 1, 50, 600);
  p.reopen();
  p.write("a", 1, 2000, 20);
}
// Pages of a region that a crash may bring back.
void pages_are_free_soon(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.create("a", rid, 6000, 6000);
  p.truncate_log();
  p.on_machine().explore_from_here();
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.change_soon("a", player::dropping(rid));
  p.collect();
  for (std::uint64_t rid = 5; rid < 10; ++rid) p.change_soon("a", p.creation(rid, 7000, 7000));
  p.write("a", 5, 100, 100);
}
// Pages that the log has something for, when they get the bytes of another region: a short one, and a long one.
template <std::uint64_t Bytes>
void pages_are_logged_to(player& p) {
  p.make_set("a");
  p.create("a", 1, 16'000, 16'000);
  p.create("a", 2, 16'000, 16'000);
  p.truncate_log();
  p.on_machine().explore_from_here();
  for (std::uint64_t at = 0; at < 16'000; at += 2000) {
    p.change_soon("a", p.writing(1, at, 300));
    p.change_soon("a", p.writing(2, at, 300));
  }
  p.change_soon("a", player::dropping(1));
  p.drop("a", 2);
  p.collect();
  for (std::uint64_t rid = 3; rid < 3 + 40'000 / Bytes; ++rid) p.create("a", rid, Bytes, Bytes);
  p.truncate_log();
  p.write("a", 3, 0, 100);
}
// Straight bytes over straight bytes whose record was synced together with the one that freed them.
void bytes_go_over_unproved_ones(player& p) {
  p.make_set("a");
  p.create("a", 9, 100, 100);
  p.truncate_log();
  p.on_machine().explore_from_here();
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.change_soon("a", p.creation(rid, 8000, 8000));
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.change_soon("a", player::dropping(rid));
  p.collect();
  p.write("a", 9, 0, 50);
  for (std::uint64_t rid = 5; rid < 9; ++rid) p.change_soon("a", p.creation(rid, 9000, 9000));
  p.write("a", 5, 100, 100);
}
// They become an extent, whose slots are logged.
void pages_become_an_extent(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.create("a", rid, 8000, 8000);
  p.on_machine().explore_from_here();
  for (std::uint64_t rid = 1; rid < 5; ++rid) p.drop("a", rid);
  p.collect();
  for (std::uint64_t rid = 5; rid < 12; ++rid) p.create("a", rid, 30 << (rid - 5), 30 << (rid - 5));
  p.truncate_log();
  p.create("a", 1, 5000, 5000);
}

}  // namespace

const std::vector<region_story>& straight_stories() {
  static const std::vector<region_story> all{
      {"bytes come straight", bytes_come_straight, 140},
      {"bytes change before they are proved", bytes_change_before_they_are_proved},
      {"pages are free soon", pages_are_free_soon, 64},
      {"pages are logged to, short", pages_are_logged_to<7000>, 96},
      {"pages are logged to, long", pages_are_logged_to<20'000>, 96},
      {"bytes go over unproved ones", bytes_go_over_unproved_ones, 96},
      {"pages become an extent", pages_become_an_extent, 96},
  };
  return all;
}

}  // namespace nvm::tests
