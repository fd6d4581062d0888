// Volatile memory runs out where space needs some: an error, nothing lost, and later everything goes on.
#include <cerrno>

#include "../fault_injection.hpp"
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;
using layout::page_kind;
using tests::fault;
using tests::injected;

// All allocations from here to the end of the scope fail.
struct without_memory {
  without_memory() { injected.arm(fault::memory, ENOMEM, 1, true); }
  ~without_memory() { injected.relieve(); }
};

TEST(space_no_memory, for_an_arena_or_a_descriptor_reserves_nothing) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto refused = [&](std::uint64_t bytes) {
    const without_memory none;
    const auto r = pool->reserve(0, bytes, object_layout::raw);
    EXPECT_FALSE(r);
    EXPECT_EQ(r.error(), errc::no_memory);
  };
  refused(100);
  {
    const without_memory none;
    EXPECT_TRUE(pool->reserve(0, 20000, object_layout::raw)) << "pages of its own need no memory";
  }
  const auto run = put(pool, 1000);  // there is an arena now, and descriptors of coarse extents
  ASSERT_TRUE(run);
  refused(100);
  EXPECT_STREQ(last_message(), "no volatile memory for the descriptor of an extent");
  EXPECT_EQ(pool->used_pages(), 5U + 8U);
  ASSERT_TRUE(put(pool, 100));
  EXPECT_TRUE(pool.check());
}

TEST(space_no_memory, for_the_index_finds_nothing_and_loses_nothing) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto object = put(pool, 100);
  ASSERT_TRUE(object);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  {
    const without_memory none;
    EXPECT_EQ(again->find(*object, object_layout::raw).error(), errc::no_memory);
    EXPECT_EQ(again->build_index(0, 1).error(), errc::no_memory);
  }
  EXPECT_EQ(again->statistics().extents_unindexed, 1U);
  EXPECT_EQ(again->statistics().extents_quarantined, 0U);
  EXPECT_TRUE(again->find(*object, object_layout::raw)) << last_message();
  EXPECT_EQ(again->statistics().extents_unindexed, 0U);
}

// An object whose extent nobody owns is freed where it is.
TEST(space_no_memory, for_an_arena_still_lets_objects_be_freed) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  const auto object = put(pool, 100);
  ASSERT_TRUE(object);
  test_pool again{pool, 0};
  ASSERT_TRUE(again.boot());
  ASSERT_TRUE(again->build_index(0, 1));
  const auto o = again->find(*object, object_layout::raw);
  ASSERT_TRUE(o);
  {
    const without_memory none;
    ASSERT_TRUE(again->begin_free(*o, 1)) << last_message();
  }
  again->finish_free(*o, 1, again.lanes().commit(1, {o->clear}));
  EXPECT_EQ(again->find(*object, object_layout::raw).error(), errc::bad_pointer);
  EXPECT_TRUE(again.objects().empty());
  EXPECT_TRUE(again->trim());
  EXPECT_EQ(again->used_pages(), 0U);
}

}  // namespace
}  // namespace nvm::testing
