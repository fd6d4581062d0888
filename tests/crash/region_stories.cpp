#include "region_stories.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nvm::tests {
namespace {

using player = region_player;
using mode = region::mode;

// A set and its directory, from nothing.
void first_region(player& p) {
  p.make_set("a");
  p.create("a", 1, 100);
  p.write("a", 1, 10, 50);
  p.drop("a", 1);
}

void one_is_created(player& p) {
  p.make_set("a");
  p.create("a", 9, 10);
  p.on_machine().explore_from_here();
  p.create("a", 1, 100, 100);
  p.create("a", 2, 600, 600);
  p.create("a", 3, 3000, 3000);
  p.create("a", 4, 40);          // reads as zeros
  p.create("a", 5, 5000);        // without a place
  p.create("a", 6, 0, 0, 1000);  // room to grow
  p.create("a", 7, 2048, 2048);
  p.write("a", 5, 4000, 100);
  p.append("a", 6, 900);
}

// Small, half and whole, once in a slot of its own, once in a run.
template <mode How, std::uint64_t Bytes>
void one_is_written(player& p) {
  p.make_set("a");
  p.create("a", 1, Bytes, Bytes);
  p.create("a", 2, Bytes, Bytes);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, Bytes / 3, 20, How);
  p.write("a", 2, Bytes / 4, Bytes / 2, How);
  p.write("a", 1, 0, Bytes, How);
  p.write("a", 1, Bytes - 30, 30, How);
  p.write("a", 2, 0, Bytes - 1, How);
  p.write("a", 2, Bytes / 2, 10, How);
}

void one_is_appended_to(player& p) {
  p.make_set("a");
  p.create("a", 1, 20, 20);
  p.create("a", 2, 700, 700, 1900);
  p.create("a", 3, 3000, 3000, 6000);
  p.on_machine().explore_from_here();
  p.append("a", 1, 10);
  p.append("a", 2, 100);  // by its record
  p.append("a", 2, 700);  // beside it
  p.append("a", 3, 500);
  p.append("a", 3, 1500);
  p.write("a", 2, 650, 100);
}
// Out of the slot into a larger one, into a run, and out of that.
void one_outgrows_its_place(player& p) {
  p.make_set("a");
  p.create("a", 1, 20, 20);
  p.create("a", 2, 0);
  p.on_machine().explore_from_here();
  p.append("a", 1, 100);
  p.append("a", 1, 1000);
  p.append("a", 1, 1500);
  p.append("a", 1, 300);
  p.append("a", 1, 2500);
  p.append("a", 2, 3000);
  p.append("a", 2, 1);
}
void one_is_cut_off(player& p) {
  p.make_set("a");
  p.create("a", 1, 300, 300);
  p.create("a", 2, 5000, 5000);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.truncate("a", 1, 100);
  p.truncate("a", 1, 250);  // reads as zeros from 100 on
  p.append("a", 1, 30);
  p.truncate("a", 2, 1000);
  p.write("a", 2, 300, 600);
  p.truncate("a", 2, 5000);
  p.write("a", 2, 3000, 700);  // beside what is zero
  p.truncate("a", 2, 0);
  p.append("a", 2, 2600);
  p.truncate("a", 1, 0);
  p.truncate("a", 1, 4000);
}
// The record of a write is pending where bytes are added that no record has.
template <std::uint64_t Bytes>
void one_is_added_to_beside_a_record(player& p) {
  p.make_set("a");
  p.create("a", 1, Bytes, Bytes);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, Bytes / 2, 400);
  p.truncate("a", 1, Bytes / 2 - 50);
  p.append("a", 1, 800);
  p.write("a", 1, Bytes / 2, 20);
}
// A place that one region leaves gets another, whose bytes no record has.
void places_are_used_again(player& p) {
  p.make_set("a");
  p.create("a", 1, 3000, 3000);
  p.create("a", 2, 700, 700);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, 100, 300);
  p.write("a", 2, 100, 300);
  p.drop("a", 1);
  p.drop("a", 2);
  p.collect();
  for (std::uint64_t rid = 3; rid <= 6; ++rid) p.create("a", rid, 2900 + rid, 2900 + rid);
  p.create("a", 7, 650, 650);
}
// The pool has no room but what was left.
void last_places_are_used_again(player& p) {
  p.make_set("a");
  p.create("a", 1, 700, 700);
  std::uint64_t last = 1;
  while (last < 12 && p.try_change("a", p.creation(last + 1, 6000, 6000))) ++last;
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 2, 100, 300);
  p.write("a", 3, 100, 300, mode::marked);
  p.drop("a", 2);
  (void)p.try_change("a", p.creation(last + 1, 5900, 5900));
  p.write("a", 3, 50, 600, mode::copy);  // there is no room for one
  p.drop("a", 3);
  (void)p.try_change("a", p.appending(1, 5200));
  (void)p.try_change("a", p.creation(2, 5800, 5800));
}
void one_moves_for_levelling(player& p) {
  p.make_set("a");
  p.create("a", 1, 60, 60);
  p.create("a", 2, 2500, 2500);
  p.on_machine().explore_from_here();
  for (std::uint64_t i = 0; i < 6; ++i) {
    p.write("a", 1, i, 9);
    p.write("a", 2, 400 * i, 13);
  }
}

// The pages after its run are free.
void one_grows_in_place(player& p) {
  p.make_set("a");
  p.create("a", 1, 3000, 3000);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.append("a", 1, 300);  // by its record
  p.append("a", 1, 900);
  p.append("a", 1, 2000);  // beside it
  p.create("a", 2, 2500, 2500);
  p.append("a", 1, 3000);
  p.group("a", {p.appending(1, 400), p.appending(2, 1500)});
  p.reopen();
  p.append("a", 2, 1000);
}
// A record could be replayed into the pages that others get.
void tails_are_withdrawn(player& p) {
  p.make_set("a");
  std::uint64_t last = 1;
  while (last < 12 && p.try_change("a", p.creation(last + 1, 6000, 6000))) ++last;
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 2, 5000, 300);
  p.write("a", 3, 4000, 300, mode::marked);
  p.truncate("a", 2, 1500);
  p.collect();
  p.collect();
  (void)p.try_change("a", p.creation(1, 2100, 2100));
  p.group("a", {p.truncating(3, 2000), p.writing(2, 0, 100)});
  p.collect();
  (void)p.try_change("a", p.creation(12, 3000, 3000));
  p.append("a", 2, 300);
  (void)p.try_change("a", p.appending(2, 2000));
  p.reopen();
  p.truncate("a", 4, 100);
  (void)p.try_change("a", p.creation(11, 4000, 4000));
}
// By each technique, in a slot and in a run, alone and in a group; places come back when they are let go.
void one_is_leased(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 3000, 3000);
  p.create("a", 3, 2500, 2500);
  p.truncate_log();
  p.on_machine().explore_from_here();
  for (std::uint64_t rid = 1; rid <= 3; ++rid) p.hold("a", rid);
  p.write("a", 1, 20, 30);
  p.write("a", 1, 30, 30);  // where it is by now
  p.write("a", 2, 100, 300, mode::checked);
  p.hold("a", 2);
  p.append("a", 2, 40);
  p.truncate("a", 2, 2900);
  p.append("a", 2, 700);  // over what a lease looks at
  p.group("a", {p.writing(1, 0, 10), p.writing(3, 100, 100), p.creation(4, 30, 30)});
  p.drop("a", 3);
  p.collect();
  p.create("a", 5, 2600, 2600);
  p.let_go(3);
  p.let_go(2);
  p.collect();
  p.create("a", 6, 2700, 2700);
  p.create("a", 7, 180, 180);
  p.let_go(1);
}
// A lease in a pool with no room to move: what is refused leaves all as it was.
void leased_in_a_full_pool(player& p) {
  p.make_set("a");
  std::uint64_t last = 1;
  while (last < 12 && p.try_change("a", p.creation(last + 1, 6000, 6000))) ++last;
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.hold("a", 2);
  (void)p.try_change("a", p.writing(2, 100, 300));
  (void)p.try_group("a", {p.writing(2, 10, 30), p.writing(3, 10, 30)});
  p.truncate("a", 2, 5000);
  p.drop("a", 3);
  p.write("a", 2, 50, 30);
  p.drop("a", 2);
  (void)p.try_change("a", p.creation(3, 5900, 5900));
  p.let_go(2);
  (void)p.try_change("a", p.creation(2, 5800, 5800));
}

// Free pages are there, but regions lie between them; one that moves has a record that counts.
void regions_make_way(player& p) {
  p.make_set("a");
  std::uint64_t last = 1;
  while (last < 20 && p.try_change("a", p.creation(last + 1, 6000, 6000))) ++last;
  for (std::uint64_t rid = 2; rid <= last; rid += 2) p.drop("a", rid);
  p.collect();
  p.on_machine().explore_from_here();
  p.write("a", 5, 10, 30);
  p.create("a", 30, 19'000, 19'000);
  p.write("a", 3, 10, 30);
  p.write("a", 5, 3000, 3000);
}

void groups_of_one(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.on_machine().explore_from_here();
  p.group("a", {p.writing(1, 0, 10), p.writing(1, 5, 20), p.appending(1, 30), p.truncating(1, 110), p.appending(1, 5)});
  p.group("a", {p.creation(2, 50, 50), p.appending(2, 700), p.writing(2, 40, 20)});
  p.group("a", {p.creation(3, 50, 50), p.dropping(3)});
  p.group("a", {p.truncating(2, 10), p.appending(2, 680)});  // over what is cut off
  p.group_given_up("a", {p.writing(1, 0, 10), p.creation(4, 30, 30)});
  p.group("a", {p.writing(1, 3, 10), p.dropping(1)});
}
void groups_of_several(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.create("a", 2, 1000, 1000);
  p.create("a", 3, 3000, 3000);
  p.on_machine().explore_from_here();
  p.group("a", {p.writing(1, 10, 50), p.writing(2, 100, 60)});
  p.group("a", {p.writing(1, 10, 50), p.writing(2, 0, 700), p.writing(3, 1000, 2000), p.creation(4, 700, 700)});
  p.group("a", {p.dropping(1), p.appending(3, 900), p.creation(5, 20, 20), p.truncating(2, 100)});
  p.group("a", {p.dropping(3), p.dropping(4), p.creation(1, 30, 30), p.appending(2, 2500)});
  p.group("a", {p.creation(3, 1200, 1200), p.creation(4, 2900), p.writing(4, 1, 2600), p.dropping(5)});
}

void sets_come_and_go(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.on_machine().explore_from_here();
  p.make_set("b");
  p.create("b", 1, 3000, 3000);
  p.create("b", 2, 30, 30);
  p.write("b", 1, 5, 300);
  p.write("a", 1, 5, 20);
  p.drop_set("b");
  p.create("a", 2, 5000, 5000);
  p.make_set("c");
  p.create("c", 1, 40, 40);
  p.drop("c", 1);
  p.drop_set("a");
  p.make_set("a");
  p.create("a", 1, 2500, 2500);
  p.drop_set("c");
}

void threads_take_turns(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 3000, 3000);
  p.on_machine().explore_from_here();
  for (unsigned i = 0; i < 3; ++i) {
    p.on(i % 2);
    p.write("a", 1, 10 + i, 40);
    p.on((i + 1) % 2);
    p.write("a", 1, 20 + i, 40);
    p.write("a", 2, 100 * i, 300);
    p.on(0);
    p.append("a", 2, 600);
  }
}
void closed_and_opened(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 3000, 3000);
  p.on_machine().explore_from_here();
  p.write("a", 1, 0, 100);
  p.write("a", 2, 0, 2000);
  p.drop("a", 1);
  p.close();
  p.reopen();
  p.write("a", 2, 100, 100);
  p.create("a", 1, 300, 300);
  p.close();
  p.reopen();
  p.append("a", 2, 900);
}
void dies_and_goes_on(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 3000, 3000);
  p.write("a", 1, 0, 100);
  p.write("a", 2, 100, 200);
  p.drop("a", 1);
  p.reopen();
  p.on_machine().explore_from_here();
  p.write("a", 2, 200, 200);
  p.create("a", 1, 300, 300);
  p.truncate("a", 2, 250);
  p.reopen();
  p.append("a", 2, 900);
  p.write("a", 1, 3, 30);
}

// In place, again and again: the copy of each change is in the replica before the next.
template <mode How, std::uint64_t Bytes>
void one_is_updated_in_place(player& p) {
  p.make_set("a");
  p.create("a", 1, Bytes, Bytes);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, 0, 8, How);
  p.write("a", 1, Bytes / 2 - 4, Bytes / 2, How);
  p.write("a", 1, 4, Bytes - 4, How);
}
// Until nothing of it was written there is nothing to go back to but zeros.
template <mode How>
void a_first_write_is_given_up(player& p) {
  p.make_set("a");
  p.create("a", 9, 100, 100);
  p.create("a", 1, 130);
  p.on_machine().explore_from_here();
  p.group_given_up("a", {p.writing(1, 0, 130, How)});
  p.write("a", 1, 30, 70, How);
  p.group_given_up("a", {p.writing(1, 10, 50, How)});
  p.write("a", 1, 0, 100, How);
  p.write("a", 1, 20, 100, How);  // beyond what was written
  p.write("a", 1, 20, 100, How);
}
// There are two replicas: the third region gets that of the first.
void a_replica_is_given_away(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid <= 4; ++rid) p.create("a", rid, rid == 4 ? 300 : 120, rid == 4 ? 300 : 120);
  p.write("a", 1, 0, 100, mode::replica);
  p.write("a", 2, 0, 100, mode::replica);
  p.on_machine().explore_from_here();
  p.write("a", 3, 10, 100, mode::replica);
  p.write("a", 1, 20, 90, mode::replica);
  p.write("a", 4, 20, 270, mode::replica);  // a larger one
  p.write("a", 2, 0, 120, mode::replica);
}
// Older records are not replayed over it, and newer ones are not put back.
template <mode How>
void in_place_beside_records(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 100, 100, 800);
  p.truncate_log();
  p.on_machine().explore_from_here();
  p.write("a", 1, 0, 80);
  p.write("a", 1, 10, 150, How);
  p.write("a", 1, 5, 30, mode::checked);
  p.write("a", 2, 50, 40, How);
  p.append("a", 2, 600);
  p.write("a", 2, 0, 700, How);
  p.truncate("a", 2, 300);
  p.write("a", 2, 20, 200, How);
  p.write("a", 2, 0, 300, mode::copy);
  p.write("a", 1, 0, 200, How);
  p.drop("a", 1);
  p.collect();
  p.create("a", 3, 190, 190);
}
template <mode How>
void in_place_beside_groups(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.create("a", 2, 300, 300);
  p.write("a", 1, 0, 50, How);
  p.write("a", 2, 100, 60, How);
  p.on_machine().explore_from_here();
  p.group("a", {p.writing(1, 30, 40, How), p.writing(2, 90, 100, How)});
  p.write("a", 1, 10, 80, How);
  p.group("a", {p.writing(1, 5, 10, How), p.writing(1, 60, 20)});
  p.group("a", {p.dropping(1), p.writing(2, 0, 9, How), p.creation(3, 90, 90)});
  p.write("a", 3, 0, 90, How);
}
template <mode How>
void in_place_to_a_move_for_levelling(player& p) {
  p.make_set("a");
  p.create("a", 1, 60, 60);
  p.on_machine().explore_from_here();
  for (std::uint64_t i = 0; i < 8; ++i) p.write("a", 1, i, 50, How);
}
template <mode How>
void in_place_by_threads_in_turns(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid <= 3; ++rid) p.create("a", rid, 100, 100);
  p.on_machine().explore_from_here();
  for (unsigned i = 0; i < 3; ++i) {
    p.on(i % 2);
    p.write("a", 1 + i % 3, 10, 80, How);
    p.write("a", 1, i, 60, How);
    p.on(1 - i % 2);
    p.write("a", 1, i, 90, How);
    p.write("a", 2, i, 30, i == 1 ? mode::checked : How);
  }
}
template <mode How>
void in_place_closed_and_opened(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.create("a", 2, 600, 600);
  p.on_machine().explore_from_here();
  p.write("a", 1, 0, 90, How);
  p.write("a", 2, 0, 600, How);
  p.close();
  p.reopen();
  p.write("a", 1, 30, 60, How);
  p.reopen();  // it has died
  p.write("a", 1, 20, 60, How);
  p.write("a", 2, 10, 550);  // one fence less
  p.close();
  p.reopen();
  p.append("a", 1, 20);
}

void copies_and_a_replica_in_turns(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.create("a", 2, 700, 700);
  p.on_machine().explore_from_here();
  for (const std::uint64_t rid : {1, 2}) {
    p.write("a", rid, 0, 90, mode::alternate);
    p.write("a", rid, 10, 80, mode::replica);  // a record
    p.write("a", rid, 20, 60, mode::replica);
    p.write("a", rid, 5, 70, mode::alternate);  // a record
    p.write("a", rid, 0, 90, mode::alternate);
    p.append("a", rid, 5);  // what is newer is in the partner
    p.write("a", rid, 0, 90, mode::alternate);
    p.write("a", rid, 30, 20, mode::checked);
    p.write("a", rid, 0, 90, mode::alternate);
    p.truncate("a", rid, 95);
    p.write("a", rid, 3, 90, mode::alternate);
    p.append("a", rid, 700);
  }
}

// Killed at each write-back and fence, with the power cut at any moment after that: what the next process has seen
// stays.
template <unsigned First>
void is_killed_making_a_set(player& p) {
  unsigned point = First;
  while (p.make_set_killed(point, "a") && !p.model().contains("a")) ++point;
  p.create("a", 1, 30, 30);
  for (point = 1; p.make_set_killed(point, "b") && !p.model().contains("b"); ++point) {
  }
  p.create("b", 1, 30, 30);
}
void is_killed_dropping_a_set(player& p) {
  p.make_set("a");
  p.create("a", 1, 30, 30);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (unsigned point = 1; p.model().contains("a"); ++point) (void)p.drop_set_killed(point, "a");
  p.make_set("b");
  p.create("b", 1, 700, 700);
}
void is_killed_creating(player& p) {
  p.make_set("a");
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (unsigned point = 1; p.group_killed(point, "a", {p.creation(1, 700, 700)});) {
    if (p.model().at("a").contains(1)) {
      p.drop("a", 1);
      point += 3;
    }
    ++point;
  }
  p.create("a", 2, 30, 30);
  unsigned point = 1;
  while (p.group_killed(point, "a", {p.creation(point + 2, 2500, 2500)}) && point < 9) ++point;
}
void is_killed_changing(player& p) {
  p.make_set("a");
  p.create("a", 1, 100, 100);
  p.create("a", 2, 3000, 3000);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  unsigned point = 1;
  while (p.group_killed(point, "a", {p.writing(1, 10, 20), p.writing(2, 100, 300)})) ++point;
  for (point = 1; p.group_killed(point, "a", {p.writing(2, 0, 2000)}); point += 5) {
  }
  for (point = 1; p.group_killed(point, "a", {p.appending(2, 700)}); point += 3) {
  }
  p.write("a", 2, 100, 30);
}
// The tail of a ring may be the old one still when the next process has filled it.  That of the first lane is written
// back with the versions beside it.
void is_killed_truncating(player& p) {
  p.make_set("a");
  p.create("a", 1, 400, 400);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  p.on(1);
  for (unsigned point = 8; point < 40; ++point) {
    for (int i = 0; i < 3; ++i) p.write("a", 1, 10, 350, mode::checked);
    if (!p.truncate_log_killed(point)) break;
    for (int i = 0; i < 4; ++i) p.write("a", 1, 0, 380, mode::checked);
    p.reopen();
  }
}
// Places are given back, and others take them.
void is_killed_collecting(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid <= 4; ++rid) p.create("a", rid, 2600, 2600);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (unsigned point = 1; point < 12; ++point) {
    p.drop("a", 1);
    p.drop("a", 2);
    const bool goes_on = p.collect_killed(point);
    p.create("a", 1, 5000, 5000);
    p.drop("a", 1);
    for (std::uint64_t rid = 1; rid <= 2; ++rid) p.create("a", rid, 2600, 2600);
    if (!goes_on) break;
  }
}
// What one wrote when it was killed are the first bytes of what the next one writes.
template <mode How>
void is_killed_in_place(player& p) {
  p.make_set("a");
  p.create("a", 1, 200, 200);
  p.create("a", 2, 90, 90);
  p.write("a", 1, 0, 8, How);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (unsigned point = 1; point < 14; ++point) {
    const region_call killed = p.writing(1, 0, 8, How);
    region_call next = p.writing(1, 0, 170, How);
    std::copy(killed.bytes.begin(), killed.bytes.end(), next.bytes.begin());
    const bool goes_on = p.group_killed(point, "a", {killed});
    p.group("a", {next});
    if (!goes_on) break;
  }
  // Another that gets a partner.
  for (unsigned point = 1; p.group_killed(point, "a", {p.writing(2, 0, 60, How)}); ++point) {
    p.write("a", 1, 4, 100);
    p.write("a", 2, 4, 60);
  }
}
// There are two replicas for three regions; those that have lost one are changed by records.
void is_killed_giving_a_replica_away(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid <= 3; ++rid) p.create("a", rid, 120, 120);
  p.on_machine().explore_from_here();
  for (unsigned point = 1; point < 5; ++point) {
    p.write("a", 1, 0, 100, mode::replica);
    p.write("a", 2, 0, 100, mode::replica);
    const bool goes_on = p.group_killed(point, "a", {p.writing(3, 0, 60, mode::replica)});
    p.write("a", 1, 10, 90, mode::checked);
    p.write("a", 2, 10, 90, mode::checked);
    p.write("a", 3, 10, 90, mode::checked);
    if (!goes_on) break;
  }
}
}  // namespace

const std::vector<region_story>& region_stories() {
  static const std::vector<region_story> all{
      {"the first region", first_region},
      {"one is created", one_is_created, 120},
      {"64 bytes are written, adaptive", one_is_written<mode::adaptive, 64>},
      {"600 bytes are written, adaptive", one_is_written<mode::adaptive, 600>},
      {"2100 bytes are written, adaptive", one_is_written<mode::adaptive, 2100>},
      {"5000 bytes are written, adaptive", one_is_written<mode::adaptive, 5000>},
      {"64 bytes are written, copy", one_is_written<mode::copy, 64>},
      {"600 bytes are written, copy", one_is_written<mode::copy, 600>},
      {"2100 bytes are written, copy", one_is_written<mode::copy, 2100>},
      {"5000 bytes are written, copy", one_is_written<mode::copy, 5000>},
      {"64 bytes are written, checked", one_is_written<mode::checked, 64>},
      {"600 bytes are written, checked", one_is_written<mode::checked, 600>},
      {"2100 bytes are written, checked", one_is_written<mode::checked, 2100>},
      {"5000 bytes are written, checked", one_is_written<mode::checked, 5000>},
      {"64 bytes are written, marked", one_is_written<mode::marked, 64>},
      {"600 bytes are written, marked", one_is_written<mode::marked, 600>},
      {"2100 bytes are written, marked", one_is_written<mode::marked, 2100>},
      {"5000 bytes are written, marked", one_is_written<mode::marked, 5000>},
      {"one is appended to", one_is_appended_to},
      {"one outgrows its place", one_outgrows_its_place, 140},
      {"one is cut off", one_is_cut_off},
      {"added to beside a record, in a slot", one_is_added_to_beside_a_record<1400>},
      {"added to beside a record, in a run", one_is_added_to_beside_a_record<2400>},
      {"places are used again", places_are_used_again},
      {"the last places are used again", last_places_are_used_again, 72},
      {"one moves for levelling", one_moves_for_levelling},
      {"one grows in place", one_grows_in_place, 120},
      {"tails are withdrawn", tails_are_withdrawn, 72},
      {"regions make way", regions_make_way, 72},
      {"one is leased", one_is_leased, 120},
      {"leased in a full pool", leased_in_a_full_pool, 72},
      {"groups of one", groups_of_one, 120},
      {"groups of several", groups_of_several, 140},
      {"made again in a group", stories::made_again_in_a_group, 140},
      {"made and dropped in a group", stories::made_and_dropped_in_a_group, 120},
      {"made again with a partner", stories::made_again_with_a_partner, 120},
      {"a record fits no ring", stories::a_record_fits_no_ring, 140},
      {"sets come and go", sets_come_and_go, 120},
      {"threads take turns", threads_take_turns, 120},
      {"closed and opened", closed_and_opened},
      {"one more than were counted", stories::one_more_than_were_counted},
      {"as many as were saved", stories::as_many_as_were_saved},
      {"it dies and goes on", dies_and_goes_on},
      {"64 bytes are updated in place", one_is_updated_in_place<mode::replica, 64>},
      {"600 bytes are updated in place", one_is_updated_in_place<mode::replica, 600>},
      {"2000 bytes are updated in place", one_is_updated_in_place<mode::replica, 2000>},
      {"a first write is given up", a_first_write_is_given_up<mode::replica>},
      {"a replica is given away", a_replica_is_given_away, 140},
      {"in place beside records", in_place_beside_records<mode::replica>, 120},
      {"in place beside groups", in_place_beside_groups<mode::replica>, 120},
      {"in place to a move for levelling", in_place_to_a_move_for_levelling<mode::replica>},
      {"in place by threads in turns", in_place_by_threads_in_turns<mode::replica>, 120},
      {"in place, closed and opened", in_place_closed_and_opened<mode::replica>, 120},
      {"it is killed in place", is_killed_in_place<mode::replica>, 120, false},
      {"it is killed giving a replica away", is_killed_giving_a_replica_away, 120, false},
      {"64 bytes alternate", one_is_updated_in_place<mode::alternate, 64>},
      {"600 bytes alternate", one_is_updated_in_place<mode::alternate, 600>},
      {"2000 bytes alternate", one_is_updated_in_place<mode::alternate, 2000>},
      {"a first write of two copies is given up", a_first_write_is_given_up<mode::alternate>},
      {"copies beside records", in_place_beside_records<mode::alternate>, 120},
      {"copies beside groups", in_place_beside_groups<mode::alternate>, 120},
      {"copies to a move for levelling", in_place_to_a_move_for_levelling<mode::alternate>},
      {"copies by threads in turns", in_place_by_threads_in_turns<mode::alternate>, 120},
      {"copies, closed and opened", in_place_closed_and_opened<mode::alternate>, 120},
      {"copies and a replica in turns", copies_and_a_replica_in_turns, 120},
      {"it is killed with two copies", is_killed_in_place<mode::alternate>, 120, false},
      {"it is killed making a set", is_killed_making_a_set<1>, 96, false},
      {"it is killed naming the directory", is_killed_making_a_set<11>, 96, false},
      {"it is killed dropping a set", is_killed_dropping_a_set, 96, false},
      {"it is killed creating", is_killed_creating, 140, false},
      {"it is killed changing", is_killed_changing, 96, false},
      {"it is killed truncating its log", is_killed_truncating, 96, false},
      {"it is killed giving places back", is_killed_collecting, 72, false},
  };
  return all;
}
const region_story& region_story_named(const char* name) {
  for (const auto* stories : {&region_stories(), &straight_stories()}) {
    for (const region_story& s : *stories) {
      if (std::strcmp(s.name, name) == 0) return s;
    }
  }
  std::fprintf(stderr, "no story '%s'\n", name);
  std::abort();
}

const std::vector<region_variant>& region_variants() {
  static const std::vector<region_variant> all{{}, {.name = "ssd", .image = true}};
  return all;
}

}  // namespace nvm::tests
