// Stories about regions that must always be explored.
#pragma once

#include <string>
#include <vector>

#include "region_player.hpp"

namespace nvm::tests {

struct region_story {
  const char* name;
  void (*steps)(region_player&);
  std::uint64_t pages = 96;  // of 1 KiB
  bool on_ssd = true;
};
namespace stories {  // region_log_stories.cpp
void a_record_fits_no_ring(region_player& p);
void one_more_than_were_counted(region_player& p);
void as_many_as_were_saved(region_player& p);
// region_renewal_stories.cpp
void made_again_in_a_group(region_player& p);
void made_and_dropped_in_a_group(region_player& p);
void made_again_with_a_partner(region_player& p);
}  // namespace stories
[[nodiscard]] const std::vector<region_story>& region_stories();
[[nodiscard]] const std::vector<region_story>& straight_stories();  // on ssd (region_straight_stories.cpp)
[[nodiscard]] const region_story& region_story_named(const char* name);
[[nodiscard]] inline explore::subject subject_of(const region_story& s, const region_variant& v) {
  return region_subject(v, s.name, s.steps, s.pages);
}
[[nodiscard]] const std::vector<region_variant>& region_variants();

}  // namespace nvm::tests
