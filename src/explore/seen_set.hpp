// Set of 64-bit hashes: open addressing, grows by doubling up to a limit, then forgets everything and counts that.
// Two states with one hash count as one; at 2^32 states the chance of any such pair is about one half.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nvm::explore {

class seen_set {
 public:
  explicit seen_set(std::size_t entries_max = std::size_t{1} << 26)
      : entries_max_{entries_max}, slots_(1 << 12, 0), recent_(recent_slots, 0) {}

  // True if `hash` was not there.
  bool insert(std::uint64_t hash) {
    if (hash == 0) hash = 1;  // 0 marks a free slot
    // Most duplicates are of this crash point or the one before: they shall not miss the processor's cache.
    std::uint64_t& recent = recent_[hash >> 52 & (recent_slots - 1)];
    if (recent == hash) return false;
    recent = hash;
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash & mask;
    while (slots_[i] != 0) {
      if (slots_[i] == hash) return false;
      i = (i + 1) & mask;
    }
    slots_[i] = hash;
    if (++used_ * 2 > slots_.size()) grow();
    return true;
  }
  void clear() {
    slots_.assign(std::size_t{1} << 12, 0);
    recent_.assign(recent_slots, 0);
    used_ = 0;
    resets_ = 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  // Times that the set was full and started anew: duplicates may have been counted as unique since.
  [[nodiscard]] std::size_t resets() const noexcept { return resets_; }

 private:
  void grow() {
    if (slots_.size() / 2 >= entries_max_) {
      std::fill(slots_.begin(), slots_.end(), 0);
      std::fill(recent_.begin(), recent_.end(), 0);
      used_ = 0;
      ++resets_;
      return;
    }
    std::vector<std::uint64_t> old(slots_.size() * 2, 0);
    old.swap(slots_);
    const std::size_t mask = slots_.size() - 1;
    for (const std::uint64_t h : old) {
      if (h == 0) continue;
      std::size_t i = h & mask;
      while (slots_[i] != 0) i = (i + 1) & mask;
      slots_[i] = h;
    }
  }

  static constexpr std::size_t recent_slots = 4096;
  std::size_t entries_max_;
  std::vector<std::uint64_t> slots_;
  std::vector<std::uint64_t> recent_;
  std::size_t used_ = 0;
  std::size_t resets_ = 0;
};

}  // namespace nvm::explore
