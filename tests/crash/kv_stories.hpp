// Stories about key-value stores that must always be explored, each with every index.
#pragma once

#include <string>
#include <vector>

#include "kv_player.hpp"

namespace nvm::tests {

struct kv_story {
  const char* name;
  // Before the story, without crashes; and the story.
  void (*before)(kv_player&, enum nvm_kv_index);
  void (*steps)(kv_player&, enum nvm_kv_index);
  crash_shape shape;
  unsigned thin = 1;  // of its recoveries, and of the lives after them, every so many fewer
  bool alone = true;  // each call is about one store, in no transaction: stores of regions have no others
};

[[nodiscard]] const std::vector<kv_story>& kv_stories();
[[nodiscard]] const kv_story& kv_story_named(const char* name);
// For the continuous run; campaigns look closer.
[[nodiscard]] explore::options options_for(const kv_story& s, explore::model m);
[[nodiscard]] explore::subject subject_of(const kv_story& s, kind_of_medium kind, enum nvm_kv_index index,
                                          kv_home where = kv_home::pool);
// Those in an object store: what becomes of them with it.
[[nodiscard]] const std::vector<kv_story>& kv_stories_at_home();

// `operations` calls chosen at random, on two stores; processes end and threads take turns between.
[[nodiscard]] explore::subject random_kv_subject(std::uint64_t seed, unsigned operations, kind_of_medium kind,
                                                 enum nvm_kv_index index);

inline constexpr enum nvm_kv_index kv_indexes[] = {NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE,
                                                   NVM_KV_REGIONS};

}  // namespace nvm::tests
