// The numbers of docs/format.md for space and logs, stated a second time; tests/pool/layout_test.cpp has the pool's.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "log/intent.hpp"
#include "log/lane_layout.hpp"
#include "media/ring_layout.hpp"
#include "space/clusters_layout.hpp"
#include "space/space_layout.hpp"

namespace nvm {
namespace {

TEST(format, checked_words_are_those_of_the_document) {
  EXPECT_EQ(word_seed(512), 0x81U);
  EXPECT_EQ(seal_word(0x8010, word_seed(512)), 0x4e00000000008010U);
  EXPECT_EQ(crc8_56(1, 0), 0x2FU);
  EXPECT_EQ(crc8_56(0x123456789ABCDE, 200), 0x5EU);
}

TEST(format, checksums_are_those_of_the_document) {
  std::uint8_t uuid[16];
  for (unsigned i = 0; i < 16; ++i) uuid[i] = static_cast<std::uint8_t>(i + 1);
  EXPECT_EQ(checksum(uuid, sizeof uuid, 0), 0xeb5aeb9a32450f6aU);
  EXPECT_EQ(mix_seed(1, 2), (std::uint64_t{1} ^ 2 * 0x9E3779B97F4A7C15U) * 0xD6E8FEB86659FD93U);
}

TEST(format, page_map_entry_has_the_bits_of_the_document) {
  const layout::page_entry e{.length_pages = 0xFFFFFFFF};
  EXPECT_EQ(layout::pack(e), 0xFFFFFFFFU);
  EXPECT_EQ(layout::pack({.store = 1}), std::uint64_t{1} << 32);
  EXPECT_EQ(layout::pack({.kind = layout::page_kind::run}), std::uint64_t{1} << 48);
  EXPECT_EQ(layout::pack({.kind = layout::page_kind::fine}), std::uint64_t{2} << 48);
  EXPECT_EQ(layout::pack({.kind = layout::page_kind::coarse}), std::uint64_t{3} << 48);
  EXPECT_EQ(layout::pack({.kind = layout::page_kind::log}), std::uint64_t{4} << 48);
  EXPECT_EQ(layout::pack({.kind = layout::page_kind::cluster}), std::uint64_t{5} << 48);
  EXPECT_EQ(layout::pack({.layout = layout::object_layout::typed}), std::uint64_t{1} << 52);
  EXPECT_EQ(layout::pack({.protocol = layout::slot_protocol::epoch}), std::uint64_t{1} << 54);
}

TEST(format, clusters_have_the_places_of_the_document) {
  EXPECT_EQ(layout::cluster_identity, 0x554C4348U);
  EXPECT_EQ(layout::cluster_is_first, std::uint64_t{1} << 52);
  EXPECT_EQ(layout::cluster_map_at, 256U);
  EXPECT_EQ(offsetof(layout::cluster_header, number), 8U);
  EXPECT_EQ(offsetof(layout::cluster_header, room), 16U);
  EXPECT_EQ(offsetof(layout::cluster_header, next), 24U);
  EXPECT_EQ(offsetof(layout::cluster_header, head), 64U);
  EXPECT_EQ(offsetof(layout::cluster_header, in_work), 72U);
  EXPECT_EQ(offsetof(layout::cluster_header, root), 128U);
  EXPECT_EQ(offsetof(layout::cluster_header, owner_mode), 136U);
  EXPECT_EQ(offsetof(layout::cluster_header, group), 144U);
  EXPECT_EQ(offsetof(layout::cluster_header, quota_pages), 152U);
  EXPECT_EQ(offsetof(layout::cluster_header, created), 160U);
  EXPECT_EQ(layout::cluster_room_max(1, 12), 480U);
}

TEST(format, slotted_extents_have_the_shape_of_the_document) {
  const auto fine = layout::shape_of(layout::page_kind::fine, 12);
  EXPECT_EQ(fine.bytes, 4096U);
  EXPECT_EQ(fine.slot_bytes, 16U);
  EXPECT_EQ(fine.slots, 256U);
  EXPECT_EQ(fine.words, 5U);
  EXPECT_EQ(fine.lengths_at, 16U + 5 * 8);
  EXPECT_EQ(fine.header_slots, 20U);
  const auto coarse = layout::shape_of(layout::page_kind::coarse, 12);
  EXPECT_EQ(coarse.bytes, 32768U);
  EXPECT_EQ(coarse.slot_bytes, 64U);
  EXPECT_EQ(coarse.slots, 512U);
  EXPECT_EQ(coarse.words, 10U);
  EXPECT_EQ(coarse.lengths_at, 16U + 10 * 8);
  EXPECT_EQ(coarse.header_slots, 10U);
  EXPECT_EQ(layout::fine_object_max, 256U);
  EXPECT_EQ(layout::coarse_object_max, 4160U);
  EXPECT_EQ(layout::extent_identity, 0x54584548U);
  EXPECT_EQ(layout::length_byte(1), 0x01U);
  EXPECT_EQ(layout::length_byte(3), 0x83U);
}

TEST(format, object_header_has_the_bits_of_the_document) {
  EXPECT_EQ(sizeof(layout::object_header), 16U);
  EXPECT_EQ(offsetof(layout::object_header, type), 8U);
  EXPECT_EQ(offsetof(layout::object_header, references), 12U);
  const auto h = layout::make_object_header(100, 7, 40960);
  EXPECT_EQ(h.size_generation_check & 0x00FFFFFFFFFFFFFF, 100U);
  EXPECT_EQ(h.size_generation_check >> 56, crc8_56(100, crc8_56(7, word_seed(40960))) ^ 0x5AU);
}

TEST(format, lane_structures_lie_where_the_document_says) {
  EXPECT_EQ(offsetof(layout::lane_header, retired), 0U);
  EXPECT_EQ(sizeof(layout::lane_header), 64U);
  EXPECT_EQ(layout::lane_commit_at, 64U);
  EXPECT_EQ(layout::commit_slots, 8U);
  EXPECT_EQ(layout::commit_slot_at(9), 128U);
  EXPECT_EQ(layout::lane_body_at, 576U);
  EXPECT_EQ(sizeof(layout::commit_record), 64U);
  EXPECT_EQ(offsetof(layout::commit_record, generation), 8U);
  EXPECT_EQ(offsetof(layout::commit_record, kind), 16U);
  EXPECT_EQ(offsetof(layout::commit_record, intent_words), 18U);
  EXPECT_EQ(offsetof(layout::commit_record, attached), 20U);
  EXPECT_EQ(offsetof(layout::commit_record, intents), 24U);
  EXPECT_EQ(sizeof(layout::record_header), 32U);
  EXPECT_EQ(offsetof(layout::record_header, generation), 8U);
  EXPECT_EQ(offsetof(layout::record_header, previous), 16U);
  EXPECT_EQ(offsetof(layout::record_header, bytes), 24U);
  EXPECT_EQ(offsetof(layout::record_header, kind), 28U);
  EXPECT_EQ(offsetof(layout::record_header, count), 30U);
  EXPECT_EQ(layout::pack_range(0x123, 0x45), 0x45U * (std::uint64_t{1} << 44) + 0x123);
  EXPECT_EQ(static_cast<int>(layout::outcome::commit), 1);
  EXPECT_EQ(static_cast<int>(layout::outcome::abort), 2);
  EXPECT_EQ(static_cast<int>(layout::outcome::rest), 3);
  EXPECT_EQ(static_cast<int>(layout::record_kind::undo), 1);
  EXPECT_EQ(static_cast<int>(layout::record_kind::intents), 2);
  EXPECT_EQ(static_cast<int>(layout::record_kind::link), 3);
  EXPECT_EQ(static_cast<int>(layout::record_kind::large_undo), 4);
  EXPECT_EQ(layout::large_undo_data_at(64), 128U);
  EXPECT_EQ(layout::large_undo_data_at(96), 192U);
  EXPECT_EQ(layout::record_room(64), 64U);
  EXPECT_EQ(layout::record_room(72), 128U);
}

TEST(format, intents_have_the_bits_of_the_document) {
  const auto i = log::intent::make(log::intent_op::set_entry, 8 * 5, 3, 99);
  EXPECT_EQ(i.code, 5U | std::uint64_t{3} << 41 | std::uint64_t{3} << 47);
  EXPECT_EQ(i.words(), 2U);
  const auto object = log::intent::make_object(8 * 5, 3, 0x83, 8 * 9);
  EXPECT_EQ(object.code,
            5U | std::uint64_t{3} << 41 | std::uint64_t{1} << 47 | std::uint64_t{0x83} << 49 | std::uint64_t{9} << 57);
  EXPECT_EQ(static_cast<int>(log::intent_op::clear_bit), 0);
  EXPECT_EQ(static_cast<int>(log::intent_op::set_bit), 1);
  EXPECT_EQ(static_cast<int>(log::intent_op::clear_entry), 2);
}

TEST(format, ring_structures_lie_where_the_document_says) {
  char text[9] = {};
  std::memcpy(text, &layout::ring_magic, 8);
  EXPECT_STREQ(text, "HNVMRING");
  EXPECT_EQ(sizeof(layout::ring_header), 512U);
  EXPECT_EQ(offsetof(layout::ring_header, sequence), 8U);
  EXPECT_EQ(offsetof(layout::ring_header, checkpoint_lsn), 16U);
  EXPECT_EQ(offsetof(layout::ring_header, ring_bytes), 24U);
  EXPECT_EQ(offsetof(layout::ring_header, uuid), 32U);
  EXPECT_EQ(offsetof(layout::ring_header, proved_lsn), 48U);
  EXPECT_EQ(offsetof(layout::ring_header, reserved), 56U);
  EXPECT_EQ(offsetof(layout::ring_header, checksum), 504U);
  EXPECT_EQ(layout::straight_bit, 0x8000'0000'0000'0000U);
  EXPECT_EQ(layout::straight_entry_bytes, 32U);
  EXPECT_EQ(offsetof(layout::straight_rest, home_lsn), 8U);
  EXPECT_EQ(sizeof(layout::ring_record), 32U);
  EXPECT_EQ(offsetof(layout::ring_record, lsn), 8U);
  EXPECT_EQ(offsetof(layout::ring_record, durable_lsn), 16U);
  EXPECT_EQ(offsetof(layout::ring_record, units), 24U);
  EXPECT_EQ(offsetof(layout::ring_record, count), 28U);
  EXPECT_EQ(layout::ring_unit, 32U);
  EXPECT_EQ(sizeof(layout::ring_entry), 16U);
  EXPECT_EQ(offsetof(layout::ring_entry, bytes), 8U);
  const layout::ring_place large{.log_offset = 8192, .log_bytes = 65536};
  EXPECT_EQ(large.header_offset(1), 8192U + 4096);
  EXPECT_EQ(large.ring_offset(), 8192U + 8192);
  EXPECT_EQ(large.ring_bytes(), 65536U - 8192);
  const layout::ring_place small{.log_offset = 8192, .log_bytes = 4096};
  EXPECT_EQ(small.header_offset(1), 8192U + 512);
  EXPECT_EQ(small.ring_bytes(), 3072U);
}

}  // namespace
}  // namespace nvm
