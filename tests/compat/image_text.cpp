#include "image_text.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace nvm::compat {
namespace {
constexpr std::size_t row_bytes = 32;
constexpr std::size_t image_bytes_max = std::size_t{1} << 30;
}  // namespace

std::string to_text(const bytes& image) {
  std::string out = "holdfast image, " + std::to_string(image.size()) + " bytes\n";
  for (std::size_t at = 0; at < image.size(); at += row_bytes) {
    const std::size_t end = std::min(image.size(), at + row_bytes);
    if (std::all_of(&image[at], &image[0] + end, [](unsigned char b) { return b == 0; })) continue;
    char digits[24];
    std::snprintf(digits, sizeof digits, "%zx ", at);
    out += digits;
    for (std::size_t i = at; i < end; ++i) {
      std::snprintf(digits, sizeof digits, "%02x", image[i]);
      out += digits;
    }
    out += '\n';
  }
  return out;
}

std::optional<bytes> from_text(const std::string& text) {
  std::istringstream in{text};
  std::size_t size = 0;
  std::string line;
  if (!std::getline(in, line) || std::sscanf(line.c_str(), "holdfast image, %zu bytes", &size) != 1)
    return std::nullopt;
  if (size > image_bytes_max) return std::nullopt;
  bytes image(size);
  while (std::getline(in, line)) {
    std::istringstream row{line};
    std::size_t at = 0;
    std::string digits;
    if (!(row >> std::hex >> at >> digits) || digits.size() % 2 != 0) return std::nullopt;
    if (at > size || digits.size() / 2 > size - at) return std::nullopt;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      unsigned value = 0;
      if (std::sscanf(digits.c_str() + i, "%2x", &value) != 1) return std::nullopt;
      image[at + i / 2] = static_cast<unsigned char>(value);
    }
  }
  return image;
}

}  // namespace nvm::compat
