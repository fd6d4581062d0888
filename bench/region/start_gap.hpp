// Start-gap: wear levelling below everything, by moving what is stored a block further round now and then (Qureshi et
// al., MICRO 2009), as a peer of what regions do themselves.
//
// Addresses are mapped to blocks by two registers; each time that memory was written `threshold` times,
// the gap moves: in the paper that is measured again here (Lewat, section VII-F) by 16 blocks of 256 bytes at once.
// What is stored stays where it is; what counts is which block each write would go to, and what moving costs.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "media/media.hpp"

namespace nvm::bench {

template <media M>
class start_gap_media {
 public:
  static constexpr bool atomic_batches = false;
  using batch = no_batch;
  static constexpr std::uint64_t block = meter::block_bytes;
  static constexpr std::uint64_t moved = 16;  // blocks at a time

  // `threshold` writes between two moves; 0: nothing ever moves, and what is counted is as it is written.
  start_gap_media(M& inner, std::uint64_t threshold)
      : inner_{inner}, threshold_{threshold}, scratch_(2 * moved * block) {}
  void watch(std::byte* base, std::uint64_t bytes) {
    base_ = base;
    units_ = bytes / (moved * block);
    gap_ = units_;
    counts_.assign((units_ + 1) * moved, 0);
  }
  [[nodiscard]] const std::vector<std::uint32_t>& counts() const { return counts_; }

  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept {
    inner_.flush(p, bytes, s);
    written(p, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
    copy_out(inner_, to, from, bytes, s);
    written(to, bytes);
  }
  void fence(edge e) noexcept { inner_.fence(e); }
  lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }

 private:
  void written(const void* p, std::size_t bytes) noexcept {
    const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
    if (base_ == nullptr || bytes == 0 || at >= units_ * moved * block) return;
    for (std::uint64_t b = at / block; b <= (at + bytes - 1) / block && b < units_ * moved; ++b) {
      ++counts_[unit_of(b / moved) * moved + b % moved];
      if (threshold_ != 0 && ++since_ == threshold_) move();
    }
  }
  [[nodiscard]] std::uint64_t unit_of(std::uint64_t unit) const noexcept {
    const std::uint64_t turned = (unit + start_) % units_;
    return turned + (turned >= gap_ ? 1 : 0);
  }
  void move() noexcept {
    since_ = 0;
    if (gap_ == 0) {
      gap_ = units_;
      start_ = (start_ + 1) % units_;
      return;
    }
    // The unit before the gap goes there.
    std::memcpy(scratch_.data() + moved * block, scratch_.data(), moved * block);
    inner_.flush(scratch_.data() + moved * block, moved * block);
    inner_.fence(edge{"bench/gap"});
    for (std::uint64_t i = 0; i < moved; ++i) ++counts_[gap_ * moved + i];
    --gap_;
  }

  M& inner_;
  const std::uint64_t threshold_;
  std::byte* base_ = nullptr;
  std::uint64_t units_ = 0;
  std::uint64_t gap_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t since_ = 0;
  std::vector<std::uint32_t> counts_;
  std::vector<std::byte> scratch_;
};

}  // namespace nvm::bench
