// A pool file as text: its length, then each row of 32 bytes that is not zero.  Small for a sparse pool, and a
// difference between two images can be read.
//
//   holdfast image, <bytes> bytes
//   <offset, hexadecimal> <64 hexadecimal digits>
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace nvm::compat {

using bytes = std::vector<unsigned char>;

[[nodiscard]] std::string to_text(const bytes& image);
// Empty if the text is no image.
[[nodiscard]] std::optional<bytes> from_text(const std::string& text);

}  // namespace nvm::compat
