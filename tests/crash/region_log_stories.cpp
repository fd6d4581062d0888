// Stories of regions about records that fit no ring, and about records after the close has counted.
#include "region_stories.hpp"

namespace nvm::tests::stories {

using player = region_player;

// Many regions, and much of one: the record gets pages of its own.
void a_record_fits_no_ring(player& p) {
  p.make_set("a");
  for (std::uint64_t rid = 1; rid < 7; ++rid) p.create("a", rid, 300, 300);
  p.create("a", 7, 6000, 6000);
  p.on_machine().explore_from_here();
  player::calls all;
  for (std::uint64_t rid = 1; rid < 7; ++rid) all.push_back(p.writing(rid, 20, 200));
  p.group("a", all);
  p.write("a", 7, 700, 2000);
  p.truncate_log();
  p.write("a", 7, 1500, 2000);
  p.reopen();
  p.group("a", all);
  p.drop("a", 2);
}

// Of one set, after another one has begun with the log: nothing else is fenced before the record.
void one_more_than_were_counted(player& p) {
  p.make_set("a");
  p.make_set("b");
  for (std::uint64_t rid = 1; rid < 4; ++rid) p.create("a", rid, 100, 100);
  p.create("b", 1, 100, 100);
  p.close();
  p.reopen();
  p.write("b", 1, 0, 60);
  p.on_machine().explore_from_here();
  p.create("a", 4, 100, 100);
  p.close();
  p.reopen();
  p.write("b", 1, 0, 50);
  p.drop("a", 2);
  p.write("a", 3, 0, 100, player::mode::replica);
  p.close();
  p.reopen();
  p.write("a", 3, 0, 90, player::mode::checked);
}

// By its number of regions a set is as it was when its table was saved.
void as_many_as_were_saved(player& p) {
  p.make_set("a");
  p.make_set("b");
  for (std::uint64_t rid = 1; rid < 6; ++rid) p.create("a", rid, 80, 80);
  p.create("a", 6, 5000, 5000);
  p.create("b", 1, 100, 100);
  p.drop("a", 2);
  p.close();
  p.reopen();
  // Another set has begun with the log, and regions are asked for that have no entry yet.
  p.write("b", 1, 0, 60);
  p.on_machine().explore_from_here();
  p.drop("a", 3);
  p.create("a", 3, 80, 80);
  p.write("a", 6, 100, 4000, player::mode::copy);
  p.close();
  p.reopen();
  p.append("a", 4, 700);  // its header moves
  p.close();
  p.reopen();
  p.group("a", {p.dropping(5), p.creation(7, 80, 80)});
}

}  // namespace nvm::tests::stories
