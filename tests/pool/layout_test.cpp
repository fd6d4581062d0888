// Every place of format 1, stated a second time in numbers: an edit of the structures that moves a byte fails here.
#include <gtest/gtest.h>

#include "pool/pool.hpp"

namespace nvm {
namespace {

using layout::superblock;

struct field {
  const char* name;
  std::size_t found, expected;
};
#define FIELD(type, name, at) \
  field { #name, offsetof(type, name), at }

TEST(pool_layout, superblock_fields_lie_where_format_1_says) {
  const field fields[] = {
      FIELD(superblock, magic, 0),
      FIELD(superblock, version, 8),
      FIELD(superblock, superblock_bytes, 12),
      FIELD(superblock, features_compat, 16),
      FIELD(superblock, features_ro_compat, 20),
      FIELD(superblock, features_incompat, 24),
      FIELD(superblock, page_shift, 28),
      FIELD(superblock, uuid, 32),
      FIELD(superblock, medium, 48),
      FIELD(superblock, lane_count, 52),
      FIELD(superblock, lane_bytes, 56),
      FIELD(superblock, capacity_pages, 64),
      FIELD(superblock, page_map_offset, 72),
      FIELD(superblock, log_offset, 80),
      FIELD(superblock, log_bytes, 88),
      FIELD(superblock, data_offset, 96),
      FIELD(superblock, created_unix_s, 104),
      FIELD(superblock, sequence, 112),
      FIELD(superblock, size_pages, 120),
      FIELD(superblock, state, 128),
      FIELD(superblock, base_history_count, 132),
      FIELD(superblock, base_address, 136),
      FIELD(superblock, generation, 144),
      FIELD(superblock, base_history, 152),
      FIELD(superblock, type_map_offset, 280),
      FIELD(superblock, type_map_bytes, 288),
      FIELD(superblock, gc_offset, 296),
      FIELD(superblock, gc_bytes, 304),
      FIELD(superblock, engine, 312),
      FIELD(superblock, validation, 316),
      FIELD(superblock, home_bytes, 320),
      FIELD(superblock, reserved, 328),
      FIELD(superblock, crc, 504),
  };
  for (const field& f : fields) EXPECT_EQ(f.found, f.expected) << f.name;
  EXPECT_EQ(sizeof(superblock), 512U);
  EXPECT_EQ(sizeof(layout::base_record), 16U);
}

TEST(pool_layout, owner_record_and_anchor_lie_where_format_1_says) {
  EXPECT_EQ(offsetof(layout::owner_record, pid), 0U);
  EXPECT_EQ(offsetof(layout::owner_record, opened_unix_s), 8U);
  EXPECT_EQ(offsetof(layout::owner_record, inode), 16U);
  EXPECT_EQ(offsetof(layout::owner_record, birth_ns), 24U);
  EXPECT_EQ(offsetof(layout::owner_record, check), 32U);
  EXPECT_EQ(offsetof(layout::owner_record, reserved), 40U);
  EXPECT_EQ(sizeof(layout::owner_record), 512U);
  EXPECT_EQ(offsetof(layout::anchor, root), 0U);
  EXPECT_EQ(offsetof(layout::anchor, stores), 16U);
  EXPECT_EQ(sizeof(layout::anchor), 512U);
  EXPECT_EQ(layout::superblock_sector, 0U);
  EXPECT_EQ(layout::anchor_sector, 512U);
  EXPECT_EQ(layout::owner_sector, 1024U);
}

TEST(pool_layout, constants_are_those_of_format_1) {
  EXPECT_EQ(layout::pool_magic, 0x54534146444C4F48U);
  EXPECT_EQ(layout::pool_version, 1U);
  EXPECT_EQ(layout::page_shift_min, 10U);
  EXPECT_EQ(layout::page_shift_default, 12U);
  EXPECT_EQ(layout::page_shift_max, 12U);
  EXPECT_EQ(layout::pages_per_chunk, 64U);
  EXPECT_EQ(layout::chunks_per_group, 64U);
  EXPECT_EQ(layout::extent_align_pages, 8U);
  EXPECT_EQ(layout::pool_bytes_max, std::uint64_t{1} << 44);
  EXPECT_EQ(layout::base_history_max, 8U);
  EXPECT_EQ(static_cast<int>(layout::pool_state::clean), 1);
  EXPECT_EQ(static_cast<int>(layout::pool_state::open), 2);
  EXPECT_EQ(NVM_MEDIUM_SHM, 1);
  EXPECT_EQ(NVM_MEDIUM_DAX, 2);
  EXPECT_EQ(NVM_MEDIUM_AUTO, 3);
  EXPECT_EQ(NVM_MEDIUM_SSD, 4);
}

TEST(pool_layout, magic_reads_HOLDFAST_in_the_file) {
  char text[9] = {};
  const std::uint64_t magic = layout::pool_magic;
  std::memcpy(text, &magic, 8);
  EXPECT_STREQ(text, "HOLDFAST");
}

TEST(pool_layout, places_follow_from_sizes) {
  geometry_request r;
  r.size_pages = 64;
  r.capacity_pages = 1024;
  r.lane_count = 2;
  r.lane_bytes = 4096;
  const geometry g = lay_out(r);
  EXPECT_EQ(g.page_map_offset, 8192U);
  EXPECT_EQ(g.log_offset, 16384U);  // 1024 entries fill two pages
  EXPECT_EQ(g.log_bytes, 8192U);
  EXPECT_EQ(g.data_offset, 32768U);  // 24576, rounded up to 8 pages
  EXPECT_EQ(g.size_bytes(), 32768U + 64 * 4096U);
  EXPECT_EQ(g.capacity_bytes(), 32768U + 1024 * 4096U);
  EXPECT_EQ(g.entry_offset(3), 8192U + 24U);
  EXPECT_EQ(g.superblock_at(0), 0U);
  EXPECT_EQ(g.superblock_at(1), 4096U);
  EXPECT_EQ(root_word_at(g, 0), 512U);
  EXPECT_EQ(root_word_at(g, 1), 4096U + 512U);
  EXPECT_TRUE(g.in_data(32768, 64 * 4096));
  EXPECT_FALSE(g.in_data(32768, 64 * 4096 + 1));
  EXPECT_FALSE(g.in_data(32767, 1));
}

// The checksum is part of the format: another algorithm or seed would make every old pool unreadable.
TEST(pool_layout, superblock_of_fixed_content_has_a_fixed_crc) {
  superblock_request r;
  r.shape.size_pages = 64;
  r.shape.capacity_pages = 1024;
  r.shape.lane_count = 2;
  r.shape.lane_bytes = 4096;
  r.medium = NVM_MEDIUM_SHM;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i + 1);
  r.base_address = 0x200040000000;
  r.created_unix_s = 1700000000;
  const auto sb = make_superblock(r);
  ASSERT_TRUE(sb) << last_message();
  EXPECT_EQ(sb->crc, 0x6B5C2031B014F545U);
}

}  // namespace
}  // namespace nvm
