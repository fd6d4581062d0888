// Stories of regions about records that fit no ring.
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

}  // namespace nvm::tests::stories
