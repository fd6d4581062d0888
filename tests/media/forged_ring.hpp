// A file whose log nobody has written who follows the rules.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "image_rig.hpp"

namespace nvm::test {

// A file whose ring begins with one record that claims what a test wants, with a good checksum.
struct forged {
  forged() : content(file_bytes) {
    memory_device device{file_bytes};
    const auto state = format_ring(device, ring);
    EXPECT_TRUE(state);
    content = device.content();
    header(0, [this](layout::ring_header& h) { h.checkpoint_lsn = ring.place.ring_bytes(); });  // not closed
  }
  void record(std::vector<layout::ring_entry> entries, std::uint64_t bytes, std::uint32_t count) {
    std::byte* at = &content[ring.place.ring_offset()];
    std::size_t used = sizeof(layout::ring_record);
    for (const auto& entry : entries) {
      std::memcpy(at + used, &entry, sizeof entry);
      used += sizeof entry + round_up(std::min<std::uint64_t>(entry.bytes, 64), 8);
    }
    seal_record(at, 0, 0, bytes, count, ring.uuid);
  }
  void header(unsigned copy, auto change) {
    layout::ring_header h;
    std::byte* at = &content[ring.place.header_offset(copy)];
    std::memcpy(&h, at, sizeof h);
    change(h);
    h.checksum = checksum(&h, offsetof(layout::ring_header, checksum), layout::ring_magic);
    std::memcpy(at, &h, sizeof h);
  }
  [[nodiscard]] errc outcome() {
    memory_device device{content};
    const auto state = replay(device, ring);
    EXPECT_EQ(device.content() == content, !state || state->bytes == 0) << "refused, but written to";
    return state.error();
  }
  ring_identity ring = small_ring();
  std::vector<std::byte> content;
};

}  // namespace nvm::test
