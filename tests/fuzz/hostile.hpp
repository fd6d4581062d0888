// Hostile pool images: what a fuzzer's input does to an image that a crash left, and what must hold for whatever it
// became.
//
// An input is a list of edits on one of a few images, small enough for a fuzzer to work on, not an image.  Three of
// four edits are followed by a repair of the checksums around them: otherwise everything would end at the first check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nvm::fuzz {

using bytes = std::vector<std::byte>;

// A pool on direct media (lanes) or on an image medium (log ring), in the states that a crash left.
[[nodiscard]] const std::vector<bytes>& direct_images();
[[nodiscard]] const std::vector<bytes>& ring_images();

// First byte: which image.  Then edits of 14 bytes each.
[[nodiscard]] bytes edited(const std::vector<bytes>& images, std::span<const std::uint8_t> input);

// Opens, walks, checks and writes the image as nvm_pool_open() and its callers would.  Aborts the process where a
// promise is broken: a pool in which the full check finds nothing stays so under use.
// False: it was refused.
bool use_direct(const bytes& image);
bool use_ring(bytes image);

}  // namespace nvm::fuzz
