// Log-linear histogram of durations in nanoseconds: each power of two is cut into 32 equal steps, so a quantile is off
// by at most 1/32 of its value, in fixed memory, from 1 ns to the largest 64-bit number.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace nvm::bench {

class histogram {
 public:
  void add(std::uint64_t ns) noexcept {
    ++buckets_[index_of(ns)];
    ++count_;
    if (ns > max_) max_ = ns;
  }
  void add(const histogram& other) noexcept {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    if (other.max_ > max_) max_ = other.max_;
  }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t max() const noexcept { return max_; }

  // Smallest value that at least the share `q` of the entries do not exceed, rounded up to its step.
  std::uint64_t quantile(double q) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(count_) + 0.999999);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= wanted && seen > 0) return upper_of(i) < max_ ? upper_of(i) : max_;
    }
    return max_;
  }

 private:
  static constexpr unsigned step_bits = 5;
  static constexpr std::uint64_t steps = 1U << step_bits;

  // Values below `steps` have a bucket each; above, the leading bit chooses the row and the next five bits the step.
  static std::size_t index_of(std::uint64_t ns) noexcept {
    if (ns < steps) return ns;
    const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - step_bits;
    return (shift + 1) * steps + ((ns >> shift) - steps);
  }
  static std::uint64_t upper_of(std::size_t index) noexcept {
    if (index < steps) return index;
    const unsigned shift = static_cast<unsigned>(index / steps) - 1;
    return ((steps + index % steps + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - step_bits + 1) * steps> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace nvm::bench
