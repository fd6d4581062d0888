// Readers find the right bytes and no gap while others split, merge and move pieces.
#include "mapping_threads.hpp"

namespace nvm::logheap::testing {
namespace {

class mapping_threads : public ::testing::TestWithParam<mapping_step> {};
INSTANTIATE_TEST_SUITE_P(of, mapping_threads,
                         ::testing::Values(mapping_step::base, mapping_step::two_layers, mapping_step::group_update,
                                           mapping_step::node_cache, mapping_step::lock_free_readers),
                         [](const auto& i) {
                           return std::string{"step_"} + std::to_string(static_cast<unsigned>(i.param));
                         });

TEST_P(mapping_threads, find_the_right_bytes_while_others_change_them) {
  for (const std::uint64_t partition : {64, 4096}) {
    epochs e;
    skip_list_settings s = skip_list_settings::up_to(GetParam());
    s.cache_entries = node_cache::entries_min;
    skip_list_mapping m{e, {0, 1 << 20, partition}, s};
    leads_to_the_right_bytes_by_threads(m, e, {});
  }
}
// One list, so that everybody is in everybody's way.
TEST_P(mapping_threads, find_the_right_bytes_in_one_partition) {
  epochs e;
  skip_list_settings s = skip_list_settings::up_to(GetParam());
  s.cache_entries = node_cache::entries_min;
  skip_list_mapping m{e, {0, 1 << 20, 4096}, s};
  leads_to_the_right_bytes_by_threads(m, e, {.home_bytes = 1024, .writers = 3});
}

TEST(leaf_mapping_threads, find_the_right_bytes_while_others_change_them) {
  for (const std::uint64_t partition : {64, 4096}) {
    epochs e;
    leaf_mapping m{e, {0, 1 << 20, partition}};
    leads_to_the_right_bytes_by_threads(m, e, {});
  }
}
TEST(leaf_mapping_threads, find_the_right_bytes_in_one_partition) {
  epochs e;
  leaf_mapping m{e, {0, 1 << 20, 4096}};
  leads_to_the_right_bytes_by_threads(m, e, {.home_bytes = 1024, .writers = 3});
}

}  // namespace
}  // namespace nvm::logheap::testing
