#include "server/size_classes.hpp"

#include <algorithm>

namespace nvm::server {
namespace {

constexpr std::size_t memcached_header_bytes = 48;
constexpr std::size_t chunk_bytes_max = 512 << 10;
constexpr std::size_t align = 8;

}  // namespace

size_classes::size_classes(double growth, std::size_t smallest) noexcept {
  double bytes = static_cast<double>(memcached_header_bytes + smallest);
  count_ = 0;
  while (count_ + 2 < size_classes_max && bytes <= static_cast<double>(chunk_bytes_max) / growth) {
    const std::size_t whole = (static_cast<std::size_t>(bytes) + align - 1) / align * align;
    bytes_[++count_] = static_cast<std::uint32_t>(whole);
    bytes = static_cast<double>(whole) * growth;
  }
  bytes_[++count_] = chunk_bytes_max;
}

unsigned size_classes::of(std::size_t item_bytes) const noexcept {
  const auto* const begin = bytes_.data() + 1;
  const auto* const found = std::lower_bound(begin, begin + count_, item_bytes);
  return found == begin + count_ ? count_ : static_cast<unsigned>(found - begin) + 1;
}

}  // namespace nvm::server
