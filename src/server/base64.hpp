// Keys of meta commands may come in base64 (RFC 4648, with padding). It is read as memcached reads it: other characters
// are passed over, as is text after the padding, and bits that belong to no byte may have any value.
#pragma once

#include <cstddef>
#include <string_view>

namespace nvm::server {

constexpr std::size_t base64_bytes(std::size_t plain) noexcept { return (plain + 2) / 3 * 4; }

// There must be room for base64_bytes(plain.size()); returns the place after the last character.
char* put_base64(char* to, std::string_view plain) noexcept;

// There must be room for text.size() / 4 * 3 bytes; returns their number, 0 when `text` is no base64 of one byte or
// more.
std::size_t read_base64(std::string_view text, char* to) noexcept;

}  // namespace nvm::server
