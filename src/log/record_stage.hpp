// Volatile memory in which a lane builds the record of a commit: a header, words of intents, then ranges of new bytes,
// as redo_record.hpp reads them. Ranges that touch become one.
//
// Memory grows and is kept.  A failed allocation is remembered until begin(), so that the caller need ask only once, at
// the end.
// Threads: one, the lane's owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "log/lane_layout.hpp"
#include "log/redo_layout.hpp"

namespace nvm::log {

class record_stage {
 public:
  void begin() noexcept {
    at_ = sizeof(layout::redo_record);
    next_ = no_offset;
    whole_ = true;
    (void)has_room(0);  // for a record without contents
  }
  void word(std::uint64_t w) noexcept {
    if (!has_room(8)) return;
    std::memcpy(bytes() + at_, &w, 8);
    at_ += 8;
  }
  [[NVM_INLINE]] void range(std::uint64_t offset, const std::byte* from, std::uint64_t n) noexcept {
    const std::uint64_t padded = round_up(n, 8);
    if (!has_room(8 + padded)) return;
    if (offset == next_ && length_ + n <= layout::redo_range_bytes_max) {
      length_ += n;
    } else {
      header_ = at_;
      at_ += 8;
      first_ = offset;
      length_ = n;
    }
    const std::uint64_t header = layout::pack_range(first_, length_);
    std::memcpy(bytes() + header_, &header, 8);
    std::byte* const to = bytes() + at_;
    if (n == 8) {
      std::memcpy(to, from, 8);
    } else {
      std::memset(to + padded - 8, 0, 8);
      std::memcpy(to, from, n);
    }
    at_ += padded;
    next_ = padded == n ? offset + n : no_offset;
  }

  // False: there was no memory for all of it.
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  // The contents, after the header.
  [[nodiscard]] const std::byte* contents() const noexcept { return bytes() + sizeof(layout::redo_record); }
  [[nodiscard]] std::uint64_t contents_bytes() const noexcept { return at_ - sizeof(layout::redo_record); }

  // The record, at a line; its header is the caller's to fill.  Zeroes follow up to the end of a line.
  [[nodiscard]] layout::redo_record* record() noexcept {
    // At least a line is there: has_room() leaves one.
    for (std::uint64_t end = round_up(at_, line_bytes), i = at_; i < end; i += 8) std::memset(bytes() + i, 0, 8);
    return reinterpret_cast<layout::redo_record*>(bytes());
  }
  [[nodiscard]] std::uint64_t record_bytes() const noexcept { return at_; }

 private:
  static constexpr std::uint64_t no_offset = ~std::uint64_t{0};
  struct alignas(line_bytes) line {
    std::byte bytes[line_bytes];
  };

  [[nodiscard]] std::byte* bytes() const noexcept { return lines_[0].bytes; }
  [[nodiscard, NVM_INLINE]] bool has_room(std::uint64_t more) noexcept {
    return at_ + more + line_bytes <= room_ || grow(more);
  }
  [[gnu::noinline]] bool grow(std::uint64_t more) noexcept {
    if (!whole_) return false;
    const std::uint64_t lines = round_up(2 * (at_ + more + line_bytes), line_bytes) / line_bytes;
    std::unique_ptr<line[]> larger{new (std::nothrow) line[lines]};
    if (larger == nullptr) return whole_ = false;
    if (lines_ != nullptr) std::memcpy(larger.get(), lines_.get(), at_);
    lines_ = std::move(larger);
    room_ = lines * line_bytes;
    return true;
  }

  std::unique_ptr<line[]> lines_;
  std::uint64_t room_ = 0;
  std::uint64_t at_ = sizeof(layout::redo_record);
  bool whole_ = false;
  // The range put last: where its header is, where it begins, its length, and its end if the next range may join it.
  std::uint64_t header_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t next_ = no_offset;
};

}  // namespace nvm::log
