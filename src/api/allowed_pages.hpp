// Pages with which a program may do something: not those of an object store for which it has not the right.
//
// Costs a load where programs have never lost a right in this process.  Otherwise the numbers of the last 128 pages
// that were found to be allowed are remembered until rights are lost again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace nvm::api {

class allowed_pages {
 public:
  // may(about, offset) tells whether the page of that place is allowed.
  using asker = bool (*)(void* about, std::uint64_t offset) noexcept;

  // Nothing is asked before this: the pool has no stores.  `lost` is store_side::rights_lost_so_far().
  void begin(const std::atomic<std::uint64_t>& lost, asker may, void* about, unsigned page_shift) noexcept {
    lost_ = &lost;
    may_ = may;
    about_ = about;
    page_shift_ = page_shift;
  }

  // Whether all pages of these bytes are allowed.
  [[nodiscard]] bool all_of(std::uint64_t place, std::uint64_t bytes) noexcept {
    if (lost_ == nullptr || bytes == 0) return true;
    // acquire: pairs with rights_are_lost(): the answer is not older.
    const std::uint64_t lost = lost_->load(std::memory_order_acquire);
    if (lost == 0) [[likely]]
      return true;
    for (std::uint64_t page = place >> page_shift_; page <= (place + bytes - 1) >> page_shift_; ++page) {
      if (!has(page, lost)) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned page_bits = 36;  // more than the window of pools has

  [[nodiscard]] bool has(std::uint64_t page, std::uint64_t lost) noexcept {
    const bool fits = page >> page_bits == 0 && lost >> (64 - page_bits) == 0;
    const std::uint64_t known = lost << page_bits | page;
    std::atomic<std::uint64_t>& at = known_[page % known_.size()];
    // relaxed: the word has all that is remembered.
    if (fits && at.load(std::memory_order_relaxed) == known) return true;
    if (!may_(about_, page << page_shift_)) return false;
    if (fits) at.store(known, std::memory_order_relaxed);
    return true;
  }

  const std::atomic<std::uint64_t>* lost_ = nullptr;
  asker may_ = nullptr;
  void* about_ = nullptr;
  unsigned page_shift_ = 0;
  // Rights lost so far, and the number of a page, counted from the pool's start.
  std::array<std::atomic<std::uint64_t>, 128> known_{};
};

}  // namespace nvm::api
