#include "pool/pool_options.hpp"

#include <gtest/gtest.h>

#include <string>

namespace nvm {
namespace {

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB, TiB = 1024 * GiB;
constexpr std::uint64_t window = 32 * TiB;

geometry_request shape(const pool_create_options& o, std::uint32_t medium, std::uint64_t window_bytes = window) {
  const auto s = shape_of_new_pool(o, medium, window_bytes);
  EXPECT_TRUE(s) << last_message();
  return s ? *s : geometry_request{};
}
errc refusal(const pool_create_options& o, std::uint32_t medium = NVM_MEDIUM_SHM) {
  return shape_of_new_pool(o, medium, window).error();
}

TEST(pool_options, default_to_64_MiB_that_may_grow_to_1_GiB) {
  const auto s = shape({}, NVM_MEDIUM_SHM);
  EXPECT_EQ(s.size_pages * 4096, 64 * MiB);
  EXPECT_EQ(s.capacity_pages * 4096, 1 * GiB);
  EXPECT_EQ(s.lane_count, 64U);
  EXPECT_EQ(s.lane_bytes, 16 * KiB);
  EXPECT_EQ(s.ring_bytes, 0U);
}

TEST(pool_options, size_is_rounded_up_to_whole_chunks) {
  pool_create_options o;
  o.size_bytes = 1;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SHM).size_pages, 64U);
  EXPECT_EQ(shape(o, NVM_MEDIUM_SHM).lane_count, 8U);  // below 4 MiB
  o.size_bytes = 256 * KiB + 1;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SHM).size_pages, 128U);
}

TEST(pool_options, default_capacity_is_16_times_a_large_size) {
  pool_create_options o;
  o.size_bytes = 8 * GiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SHM).capacity_pages * 4096, 128 * GiB);
}

TEST(pool_options, default_capacity_leaves_the_window_room_for_others) {
  pool_create_options o;
  o.size_bytes = 1 * TiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SHM).capacity_pages * 4096, 4 * TiB);
  EXPECT_EQ(shape({}, NVM_MEDIUM_SHM, 4 * GiB).capacity_pages * 4096, 512 * MiB);
}

TEST(pool_options, ring_is_a_quarter_of_the_size_within_limits) {
  pool_create_options o;
  o.size_bytes = 256 * KiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SSD).ring_bytes, 256 * KiB);
  o.size_bytes = 8 * MiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SSD).ring_bytes, 2 * MiB);
  o.size_bytes = 8 * GiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SSD).ring_bytes, 64 * MiB);
  o.log_bytes = 64 * KiB;
  EXPECT_EQ(shape(o, NVM_MEDIUM_SSD).ring_bytes, 64 * KiB);
  EXPECT_EQ(shape(o, NVM_MEDIUM_SSD).lane_count, 0U);
  o.log_bytes = 64 * KiB - 1;
  EXPECT_EQ(refusal(o, NVM_MEDIUM_SSD), errc::invalid);
}

TEST(pool_options, lanes_are_as_asked_within_limits) {
  pool_create_options o;
  o.lanes = 1024;
  o.log_bytes = 5000;
  const auto s = shape(o, NVM_MEDIUM_DAX);
  EXPECT_EQ(s.lane_count, 1024U);
  EXPECT_EQ(s.lane_bytes, 8192U);
  o.lanes = 1025;
  EXPECT_EQ(refusal(o), errc::invalid);
  o.lanes = 1;
  o.log_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(o), errc::too_large);
}

TEST(pool_options, nothing_larger_than_a_pool_is_accepted) {
  pool_create_options o;
  o.size_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(o), errc::too_large);
  o.size_bytes = 16 * TiB;  // no room for header and log
  EXPECT_EQ(refusal(o), errc::too_large);
  o.size_bytes = 1 * MiB;
  o.capacity_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(o), errc::too_large);
  o.capacity_bytes = 17 * TiB;
  EXPECT_EQ(refusal(o), errc::too_large);
  o.capacity_bytes = 512 * KiB;
  EXPECT_EQ(refusal(o), errc::invalid);
  o.capacity_bytes = 0;
  o.log_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(o, NVM_MEDIUM_SSD), errc::too_large);
}

// Whatever is accepted can be laid out: sizes around every limit.
TEST(pool_options, what_is_accepted_makes_a_superblock) {
  unsigned accepted = 0;
  for (const std::uint64_t size :
       {std::uint64_t{1}, 4 * MiB - 1, 4 * MiB, 1 * GiB, 4 * TiB, 15 * TiB, 16 * TiB - 1 * GiB})
    for (const std::uint64_t capacity : {std::uint64_t{0}, 1 * GiB, 15 * TiB, 16 * TiB - 40 * GiB, 16 * TiB})
      for (const std::uint64_t log : {std::uint64_t{0}, 64 * KiB, 1 * GiB, 1 * TiB})
        for (const std::uint32_t medium : {NVM_MEDIUM_SHM, NVM_MEDIUM_SSD}) {
          pool_create_options o;
          o.size_bytes = size;
          o.capacity_bytes = capacity;
          o.log_bytes = log;
          const auto s = shape_of_new_pool(o, medium, window);
          if (!s) continue;
          ++accepted;
          superblock_request r;
          r.shape = *s;
          r.medium = medium;
          r.uuid[0] = 1;
          EXPECT_TRUE(make_superblock(r)) << size << " " << capacity << " " << log << ": " << last_message();
        }
  EXPECT_GT(accepted, 40U);
}

TEST(pool_options, preferred_base_is_in_the_window_on_a_granule_and_fits) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::uint8_t uuid[16] = {};
    std::memcpy(uuid, &seed, sizeof seed);
    for (const std::uint64_t bytes : {std::uint64_t{1}, platform::granule_bytes, platform::granule_bytes + 1,
                                      platform::window_bytes / 2, platform::window_bytes}) {
      const std::uint64_t base = preferred_base(uuid, bytes);
      ASSERT_EQ(base % platform::granule_bytes, 0U);
      ASSERT_GE(base, platform::window_base);
      ASSERT_LE(base - platform::window_base, platform::window_bytes - bytes);
    }
  }
}

TEST(pool_options, preferred_base_spreads_over_the_window) {
  std::uint64_t low = ~std::uint64_t{0}, high = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::uint8_t uuid[16] = {};
    std::memcpy(uuid, &seed, sizeof seed);
    const std::uint64_t place = preferred_base(uuid, platform::granule_bytes) - platform::window_base;
    low = std::min(low, place);
    high = std::max(high, place);
  }
  EXPECT_LT(low, platform::window_bytes / 16);
  EXPECT_GT(high, platform::window_bytes / 16 * 15);
}

}  // namespace
}  // namespace nvm
