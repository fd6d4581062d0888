// Stories about lock-free structures that must always be explored.
#pragma once

#include <string>
#include <vector>

#include "lockfree_player.hpp"

namespace nvm::tests {

struct lockfree_story {
  const char* name;
  void (*steps)(lockfree_player&);
  std::uint64_t pages = 96;  // of 1 KiB
  bool on_ssd = true;
  bool is_long = false;
};
[[nodiscard]] const std::vector<lockfree_story>& lockfree_stories();
[[nodiscard]] const lockfree_story& lockfree_story_named(const char* name);
[[nodiscard]] inline explore::subject subject_of(const lockfree_story& s, const lockfree_variant& v) {
  return lockfree_subject(v, s.name, s.steps, s.pages);
}
// All ways in which structures keep their promises on a medium.
[[nodiscard]] const std::vector<lockfree_variant>& lockfree_variants();

}  // namespace nvm::tests
