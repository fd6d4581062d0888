// Keys in messages.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace nvm::keyed {

// A key as text: bytes that are no ordinary ASCII characters as \xHH; of a long key the first bytes.
struct readable {
  static constexpr unsigned most = 40;
  char text[4 * most + 4];
  readable(const void* bytes, std::uint64_t count) noexcept {
    char* at = text;
    for (std::uint64_t i = 0; i < count && i < most; ++i) {
      const unsigned char c = static_cast<const unsigned char*>(bytes)[i];
      if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
        *at++ = static_cast<char>(c);
      } else {
        at += std::snprintf(at, 5, "\\x%02x", c);
      }
    }
    std::memcpy(at, count > most ? "..." : "\0\0\0", 4);
  }
};

}  // namespace nvm::keyed
