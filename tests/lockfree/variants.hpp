// How structures keep their promises in these tests.
#pragma once

#include "lockfree/lockfree.hpp"

namespace nvm::lockfree::testing {

struct variant {
  const char* name;
  bool link_cache;
  bool all_at_once;
  isa::write_back with;
};
inline constexpr variant variants[] = {
    {"link_and_persist", false, true, isa::write_back::clflushopt},
    {"one_at_a_time", false, false, isa::write_back::clflushopt},
    {"link_cache", true, true, isa::write_back::clflushopt},
    {"plain", false, true, isa::write_back::none},
};
inline domain_settings settings_of(const variant& v) {
  domain_settings s;
  s.with_link_cache = v.link_cache;
  s.all_at_once = v.all_at_once;
  s.generation_nodes = 16;
  return s;
}

}  // namespace nvm::lockfree::testing
