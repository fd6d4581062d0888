// Every input that once found a fault, and some random ones, without a fuzzer: part of the ordinary tests.
#include <cstring>

#include "../sanitized.hpp"
#include "base/base.hpp"
#include "hostile.hpp"
#include "replay.hpp"

namespace nvm::fuzz {
namespace {

TEST(hostile_images, are_good_pools_before_they_are_edited) {
  for (const bytes& image : direct_images()) EXPECT_TRUE(use_direct(image)) << last_message();
  for (const bytes& image : ring_images()) EXPECT_TRUE(use_ring(image)) << last_message();
  for (const bytes& image : log_images()) EXPECT_TRUE(use_log(image, false)) << last_message();
}

// Each bit of the metadata of a small pool, one at a time, its checksum left wrong and then made right.
TEST(hostile_images, every_flipped_bit_of_lanes_and_page_map_is_refused_or_harmless) {
  const auto& images = direct_images();
  tests::turns_of_build turns{7};
  for (std::uint32_t byte = 0; byte < 512 + 2048; ++byte) {
    for (std::uint8_t bit = 0; bit < 8; ++bit) {
      if (!turns.takes()) continue;
      for (const std::uint8_t repaired : {0, 1}) {
        const std::uint32_t in_log = byte - 512;
        const bool map = byte < 512;
        std::uint8_t input[15] = {static_cast<std::uint8_t>(1 + (byte & 1)), 1,
                                  static_cast<std::uint8_t>((map ? 2U : 4U) << 2 | repaired)};
        const std::uint32_t place = map ? byte : in_log;
        std::memcpy(input + 3, &place, 4);
        input[7] = bit;
        use_direct(edited(images, input));
      }
    }
  }
}

TEST(hostile_images, corpus_of_direct_media) { replay("direct", direct_images(), use_direct); }
TEST(hostile_images, corpus_of_ring) { replay("ring", ring_images(), use_ring); }
TEST(hostile_images, random_edits_on_direct_media) {
  random_edits(direct_images(), use_direct, 1, tests::rounds_of_build(30000U));
}
TEST(hostile_images, random_edits_on_a_ring) {
  random_edits(ring_images(), use_ring, 2, tests::rounds_of_build(10000U));
}
TEST(hostile_images, corpus_of_log) {
  replay("log", log_images(), [](const bytes& image) { return use_log(image); }, true);
}
TEST(hostile_images, random_edits_on_a_log_structured_heap) {
  random_edits(log_images(), [](const bytes& image) { return use_log(image); }, 3, tests::rounds_of_build(1000U));
}
// No check is made right afterwards: whatever a block says then was written by the heap.
TEST(hostile_images, random_damage_of_a_log_structured_heap) {
  random_edits(
      log_images(), [](const bytes& image) { return use_log(image, false); }, 4, tests::rounds_of_build(1000U), false);
}

}  // namespace
}  // namespace nvm::fuzz
