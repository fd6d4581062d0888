// Places that are taken for nothing come back.
#include <algorithm>

#include "ground.hpp"

namespace nvm::region::testing {
namespace {

using media_type = direct_media;

// While there are more replicas than the limit that was set since, one goes for each region that asks for one.
TEST(region_places, of_replicas_that_are_too_many_are_free_again) {
  ground<media_type> pool{pool_geometry(256, 256), settings(), isa::best_write_back()};
  auto& set = pool.make("subject");
  auto& t = pool.join();
  constexpr std::uint64_t size = layout::inside_max;
  const auto in_extent =
      static_cast<std::uint32_t>(layout::slots_in(set.where.extent_bytes(), layout::partner_class_of(size)));
  const auto write = [&](std::uint64_t rid) {
    const auto b = pattern(rid, size);
    for (unsigned i = 0; i < 2; ++i) {
      ASSERT_TRUE(change_alone(pool.all(), set, t, rid, mode::replica, true, [&](auto& tx) {
        return tx.write(rid, 0, b);
      })) << last_message();
    }
  };
  for (std::uint64_t rid = 0; rid <= in_extent; ++rid) {
    const auto b = pattern(rid, size);
    ASSERT_TRUE(change_alone(pool.all(), set, t, rid, mode::adaptive, false, [&](auto& tx) -> status {
      if (status s = tx.create(rid, size, 0); !s) return s;
      return tx.write(rid, 0, b);
    })) << last_message();
  }
  set.partners_of.limit(in_extent);
  for (std::uint64_t rid = 0; rid < in_extent; ++rid) write(rid);
  ASSERT_EQ(set.partners_of.count(), in_extent);
  ASSERT_EQ(set.where.partner_extents().size(), 1U);
  set.partners_of.limit(1);
  for (unsigned i = 0; i < in_extent; ++i) write(in_extent);
  ASSERT_LT(set.partners_of.count(), 3U);
  pool.all().collect(true);
  set.partners_of.limit(in_extent);
  for (std::uint64_t rid = 0; rid < in_extent; ++rid) write(rid);
  EXPECT_GT(set.partners_of.count(), in_extent / 2);
  EXPECT_EQ(set.where.partner_extents().size(), 1U);
}

}  // namespace
}  // namespace nvm::region::testing
