// The B+tree; compiled once for each of its two versions.
#include "map_suite.hpp"

#if defined(EXAMPLE_COMPILED)
#include "compiled_structures.h"
#elif defined(EXAMPLE_DURABLE)
#include "bptree/bptree_durable.h"
#else
#include "bptree/bptree_volatile.h"
#endif

namespace {

struct tree_calls {
  using handle = bptree*;

#ifdef EXAMPLE_DURABLE
  static bptree* create(NVM_POOL* pool) { return bptree_create(pool); }
  static bptree* open(NVM_POOL* pool) { return bptree_open(pool); }
#else
  static bptree* create() { return bptree_create(); }
#endif
  static void close(bptree* tree) { bptree_close(tree); }
  static int put(bptree* tree, std::uint64_t key, const std::string& value) {
    return bptree_put(tree, key, value.data(), value.size());
  }
  static std::optional<std::string> get(bptree* tree, std::uint64_t key) {
    std::size_t size = 0;
    const void* bytes = bptree_get(tree, key, &size);
    if (bytes == nullptr) return std::nullopt;
    return std::string(static_cast<const char*>(bytes), size);
  }
  static int remove(bptree* tree, std::uint64_t key) { return bptree_remove(tree, key); }
  static std::uint64_t count(bptree* tree) { return bptree_count(tree); }
  static const char* check(bptree* tree) { return bptree_check(tree); }

  static examples::model contents(bptree* tree) {
    examples::model found;
    const int stopped = bptree_scan(
        tree, 0, UINT64_MAX,
        [](std::uint64_t key, const void* bytes, std::size_t size, void* argument) {
          auto& into = *static_cast<examples::model*>(argument);
          const bool ascending = into.empty() || into.rbegin()->first < key;
          into.emplace(key, std::string(static_cast<const char*>(bytes), size));
          return ascending ? 0 : 1;
        },
        &found);
    EXPECT_EQ(stopped, 0) << "the scan is not in ascending order";
    return found;
  }
};

#ifdef EXAMPLE_DURABLE

TEST(bptree_durable, equals_a_map_after_random_steps_reopens_and_aborts_on_shm) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<tree_calls>(0.6, NVM_MEDIUM_SHM));
}

TEST(bptree_durable, equals_a_map_after_random_steps_reopens_and_aborts_on_ssd) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<tree_calls>(0.3, NVM_MEDIUM_SSD));
}

TEST(bptree_durable, goes_on_behind_a_level_that_was_taken_back) {
  examples::goes_on_behind_a_level_that_was_taken_back<tree_calls>();
}

TEST(bptree_durable, refuses_to_open_a_pool_whose_root_is_no_tree) {
  examples::refuses_a_pool_with_another_root<tree_calls>();
}

#else

TEST(bptree_volatile, equals_a_map_after_random_steps) {
  EXPECT_TRUE(examples::equals_a_map_after_random_steps<tree_calls>(1));
}

#endif

TEST(bptree, keeps_every_key_through_splits_and_merges_of_many_levels) {
  examples::keeps_every_key_while_it_grows_and_empties<tree_calls>();
}

int stop_at_third(std::uint64_t key, const void*, std::size_t, void* argument) {
  auto& seen = *static_cast<std::vector<std::uint64_t>*>(argument);
  seen.push_back(key);
  return seen.size() == 3 ? 42 : 0;
}

TEST(bptree, scans_exactly_the_range_in_order_until_told_to_stop) {
  examples::subject<tree_calls> tree;
  for (std::uint64_t key = 1000; key > 0; key -= 10) ASSERT_EQ(bptree_put(*tree, key, "", 0), 1);
  std::vector<std::uint64_t> seen;
  EXPECT_EQ(bptree_scan(*tree, 15, 900, stop_at_third, &seen), 42);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{20, 30, 40}));
  seen.clear();
  EXPECT_EQ(bptree_scan(*tree, 510, 520, stop_at_third, &seen), 0);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{510, 520}));
  seen.clear();
  EXPECT_EQ(bptree_scan(*tree, 521, 529, stop_at_third, &seen), 0);
  EXPECT_TRUE(seen.empty());
}

}  // namespace
