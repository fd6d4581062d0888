// Stories of regions that a group drops and makes again, or makes and drops.
#include "region_stories.hpp"

namespace nvm::tests::stories {

using player = region_player;
using mode = region::mode;

// Slots and runs, with bytes and without, larger and smaller than before.
void made_again_in_a_group(player& p) {
  p.make_set("a");
  for (const std::uint64_t rid : {1, 2}) p.create("a", rid, 100, 100);
  for (const std::uint64_t rid : {3, 4, 5}) p.create("a", rid, 3000, 3000);
  p.create("a", 6, 5000);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, 10, 50);
  p.write("a", 3, 100, 300);
  p.group("a", {p.writing(1, 0, 20), player::dropping(1), p.creation(1, 90, 90), player::dropping(2),
                p.creation(2, 2600, 2600)});
  p.group("a", {player::dropping(3), p.creation(3, 80, 30), player::dropping(4), p.creation(4, 900)});
  p.group_given_up("a", {player::dropping(5), p.creation(5, 40, 40)});
  p.group("a", {player::dropping(5), p.creation(5, 4000, 1000), p.appending(5, 100), player::dropping(6),
                p.creation(6, 10)});
  p.append("a", 4, 700);
  p.append("a", 6, 2100);
  // The room that it has left is used again.
  p.collect();
  for (const std::uint64_t rid : {7, 8}) p.create("a", rid, 2900 + rid, 2900 + rid);
}

void made_and_dropped_in_a_group(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.group("a", {p.creation(2, 100, 100), player::dropping(2)});
  p.group("a", {p.creation(2, 30, 30), player::dropping(2), p.creation(2, 700, 700), p.writing(1, 0, 10)});
  p.group("a", {p.creation(3, 3000, 3000), player::dropping(3), p.creation(3, 20, 20)});
  p.group("a", {player::dropping(1), p.creation(1, 50, 50), player::dropping(1)});
  p.group("a", {p.creation(1, 2500, 2500), player::dropping(2), p.creation(2, 700, 20), player::dropping(2)});
  p.create("a", 2, 650, 650);
}

// With a partner, and beside a lease.
void made_again_with_a_partner(player& p) {
  p.make_set("a");
  for (const std::uint64_t rid : {1, 2}) {
    p.create("a", rid, 600, 600);
    p.write("a", rid, 0, 600, rid == 1 ? mode::replica : mode::alternate);
    p.write("a", rid, 20, 560, rid == 1 ? mode::replica : mode::alternate);
  }
  p.create("a", 3, 3000, 3000);
  p.on_machine().explore_from_here();
  p.hold("a", 3);
  p.group("a", {player::dropping(1), p.creation(1, 500, 400), player::dropping(2), p.creation(2, 500),
                player::dropping(3), p.creation(3, 2900, 100)});
  p.write("a", 1, 0, 100, mode::replica);
  p.append("a", 2, 600);
  p.let_go(3);
  p.collect();
  p.create("a", 4, 3000, 3000);
}

}  // namespace nvm::tests::stories
