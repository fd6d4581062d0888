// Bytes as hexadecimal text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace nvm::cli {

// "00ff12": two digits a byte.
[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);

// Lines of 16 bytes with their place and their printable characters, each after `indent` spaces.
[[nodiscard]] std::string hex_lines(std::span<const std::byte> bytes, unsigned indent);

}  // namespace nvm::cli
