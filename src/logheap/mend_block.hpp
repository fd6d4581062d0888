// A block that fails its checks, put right as far as that can be proved, on an image that no other process has.
//
// The old value of one damaged word of a header is found by trying possible values, and proved by the header's check;
// for the word with both checks by the check of the entries.  In the entries one bit is changed back, if their check
// holds then.  Contents are taken as they are.
#pragma once

#include <bit>
#include <cstring>

#include "logheap/block.hpp"

namespace nvm::logheap {

class block_mender {
 public:
  // `room`: bytes from the block on to where the next one that holds is.
  block_mender(std::byte* base, const block_place& p, std::uint64_t chunk_bytes, std::uint64_t room) noexcept
      : base_{base}, place_{p}, chunk_bytes_{chunk_bytes}, room_{room} {}

  // The header as it was.  `near`: a version of about its time.
  [[nodiscard]] bool header(std::uint64_t near, layout::block_header& h) noexcept {
    std::memcpy(&h, base_ + place_.offset(), sizeof h);
    if (proved(h)) return true;
    const layout::block_header found = h;
    const auto start = [&]() -> layout::block_header& { return h = found; };
    for (unsigned bit = 0; bit < 8 * offsetof(layout::block_header, content_check); ++bit) {
      reinterpret_cast<unsigned char*>(&start())[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
      if (proved(h)) return true;
    }
    for (std::uint64_t back = 0; back < versions_tried; ++back) {
      start().version = near + versions_tried / 2 - back;
      if (proved(h)) return true;
    }
    // Most blocks are alone in their transaction, and lead to themselves.
    for (std::uint64_t count = 1; count < counts_tried; ++count) {
      start().peer_and_count = place_.offset() | count << layout::peer_bits;
      if (proved(h)) return true;
    }
    for (unsigned i = 0; i < layout::block_align * 4 && i / 4 < room_; ++i) {
      start().bytes = static_cast<std::uint32_t>(room_ - i / 4);
      h.flags = i % 4;
      if (const std::uint64_t contents = fits(h) ? contents_at(base_, place_, h) : 0; contents != 0) {
        h.flags |= entry_check_of(base_ + place_.offset(), contents, h, place_);
        if (proved(h)) return true;
      }
    }
    return fits(start()) && entries_hold(base_, place_, h);
  }
  // The entries as they were.
  [[nodiscard]] bool entries(const layout::block_header& h) noexcept {
    if (entries_hold(base_, place_, h)) return true;
    if ((h.flags & layout::block_entries_checked) == 0) return false;
    const std::uint64_t most = std::min<std::uint64_t>(h.bytes - sizeof h, entry_bytes_tried);
    for (std::uint64_t bit = 0; bit < 8 * std::min<std::uint64_t>(most, 16 * count_of(h)); ++bit) {
      std::byte& at = base_[place_.offset() + sizeof h + bit / 8];
      at ^= static_cast<std::byte>(1U << bit % 8);
      if (entries_hold(base_, place_, h)) return true;
      at ^= static_cast<std::byte>(1U << bit % 8);
    }
    return false;
  }

 private:
  static constexpr std::uint64_t versions_tried = 1 << 16;
  static constexpr std::uint64_t counts_tried = 4096;
  static constexpr std::uint64_t entry_bytes_tried = 1024;
  [[nodiscard]] bool fits(const layout::block_header& h) const noexcept {
    return h.version != 0 && h.version <= layout::version_max && h.bytes >= sizeof h &&
           h.bytes <= chunk_bytes_ - place_.at;
  }
  [[nodiscard]] bool proved(const layout::block_header& h) const noexcept {
    return fits(h) && h.header_check == header_check_of(h, place_);
  }
  std::byte* base_;
  const block_place place_;
  const std::uint64_t chunk_bytes_, room_;
};

// True: header and entries are proved, and stand in the image as they were.
[[nodiscard]] inline bool mend_block(std::byte* base, const block_place& p, std::uint64_t chunk_bytes,
                                     std::uint64_t room, std::uint64_t near, layout::block_header& h) noexcept {
  if (p.at < sizeof(layout::chunk_header) || p.at > chunk_bytes - sizeof h || p.at % layout::block_align != 0) {
    return false;
  }
  block_mender mender{base, p, chunk_bytes, room};
  if (!mender.header(near, h) || !mender.entries(h)) return false;
  std::memcpy(base + p.offset(), &h, sizeof h);
  return true;
}

}  // namespace nvm::logheap
