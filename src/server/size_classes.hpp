// Items are counted by size, in memcached's slab classes: its tools and exporters expect them, and its statistics name
// them by number. Here they are only names: the store decides where an item lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nvm::server {

inline constexpr unsigned size_classes_max = 64;

class size_classes {
 public:
  size_classes() noexcept : size_classes{1.25, 48} {}
  // memcached's -f and -n.
  size_classes(double growth, std::size_t smallest) noexcept;

  // 1 to count().
  [[nodiscard]] unsigned of(std::size_t item_bytes) const noexcept;
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] std::size_t bytes(unsigned number) const noexcept { return bytes_[number]; }

 private:
  std::array<std::uint32_t, size_classes_max> bytes_{};
  unsigned count_ = 0;
};

}  // namespace nvm::server
