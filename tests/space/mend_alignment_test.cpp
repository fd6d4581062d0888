// What says where the payload of an aligned object lies is said twice: damage of either is found, and mended by the
// other.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "space/aligned_layout.hpp"
#include "space/mend_alignment.hpp"

namespace nvm::tests {
namespace {

struct image {
  static constexpr std::uint64_t offset = 4096 + 64;
  std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{1} << 17);
  layout::alignment at;

  explicit image(std::uint64_t alignment) : at{layout::align_at(offset, alignment)} {
    layout::object_header h = layout::make_object_header(100 + at.padding(), 7, offset);
    h.size_generation_check |= layout::alignment_bits(at);
    const layout::signpost s = layout::signpost_at(offset + at.signpost(), at);
    std::memcpy(bytes.data() + offset, &h, sizeof h);
    std::memcpy(bytes.data() + offset + at.signpost(), &s, sizeof s);
  }
  void flip(std::uint64_t place, unsigned bit) { bytes[place + bit / 8] ^= std::byte{1} << bit % 8; }
};

TEST(mend_alignment, lies_behind_header_and_signpost_at_the_alignment) {
  for (std::uint64_t alignment = 32; alignment <= layout::alignment_max; alignment *= 2) {
    const image i{alignment};
    EXPECT_EQ((image::offset + i.at.gap) % alignment, 0U);
    EXPECT_GE(i.at.gap, 32U);
    layout::object_header h;
    std::memcpy(&h, i.bytes.data() + image::offset, sizeof h);
    const auto read = layout::alignment_of(h, image::offset);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->bytes, alignment);
    EXPECT_EQ(read->gap, i.at.gap);
  }
}

TEST(mend_alignment, puts_back_any_bit_of_header_or_signpost) {
  for (const std::uint64_t alignment : {32U, 64U, 256U, 4096U, 32768U}) {
    const image whole{alignment};
    image damaged{alignment};
    EXPECT_EQ(mend_alignment(damaged.bytes.data(), image::offset).what, nullptr);
    for (unsigned bit = 40; bit < 56; ++bit) {
      damaged.flip(image::offset, bit);
      const mended_alignment m = mend_alignment(damaged.bytes.data(), image::offset);
      ASSERT_NE(m.what, nullptr) << alignment << ", bit " << bit;
      EXPECT_TRUE(m.certain);
      ASSERT_EQ(damaged.bytes, whole.bytes) << alignment << ", bit " << bit;
    }
    for (unsigned bit = 0; bit < 128; ++bit) {
      damaged.flip(image::offset + whole.at.signpost(), bit);
      ASSERT_NE(mend_alignment(damaged.bytes.data(), image::offset).what, nullptr) << alignment << ", bit " << bit;
      ASSERT_EQ(damaged.bytes, whole.bytes) << alignment << ", bit " << bit;
    }
  }
}

TEST(mend_alignment, takes_an_alignment_back_that_an_object_never_had) {
  std::vector<std::byte> bytes(std::size_t{1} << 17);
  const layout::object_header h = layout::make_object_header(1 << 16, 7, image::offset);
  for (unsigned bit = 40; bit < 56; ++bit) {
    layout::object_header damaged = h;
    damaged.size_generation_check ^= std::uint64_t{1} << bit;
    std::memcpy(bytes.data() + image::offset, &damaged, sizeof damaged);
    EXPECT_TRUE(mend_alignment(bytes.data(), image::offset).certain);
    EXPECT_EQ(std::memcmp(bytes.data() + image::offset, &h, sizeof h), 0) << bit;
  }
}

}  // namespace
}  // namespace nvm::tests
