// Edits of a pool's image from a fuzzer's input.
//
// An input is a list of edits on one of a few images, small enough for a fuzzer to work on, not an image.  Three of
// four edits are followed by a repair of the checksums around them: otherwise everything would end at the first check.
// The images of one list are moments of one pool, so that a line from another one is a possible result of a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "media/replay.hpp"
#include "pool/pool.hpp"

namespace nvm::fuzz {

using bytes = std::vector<std::byte>;

inline constexpr std::size_t edit_bytes = 14;
inline constexpr std::size_t edits_max = 63;

struct edit {
  std::uint8_t what;
  std::uint8_t flags;
  std::uint32_t place;
  std::uint64_t value;
};

// First byte: which image.  Then edits of 14 bytes each.  Of the kinds of edits `lines_of_others` adds one: a line of
// the next image of the list, if that is as large.
[[nodiscard]] bytes edited(const std::vector<bytes>& images, std::span<const std::uint8_t> input,
                           bool lines_of_others = false);

// The edit of an input becomes one that forges nothing: bytes change, and the checks around them do not.
void make_damage(std::uint8_t* edit) noexcept;

// The ring that a superblock describes.
[[nodiscard]] ring_identity ring_of(const layout::superblock& sb);

// Says so, with the last message, and aborts the process.
[[noreturn]] void broken(const char* what);

}  // namespace nvm::fuzz
