// Numbers as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nvm::cli {

// Result of reading a number: `problem` is empty on success, else what was expected.
struct parsed_number {
  std::uint64_t value = 0;
  std::string problem;
};

// "4096", "64K", "64M", "1G", "2T" (powers of 1024; either case; "iB" may follow the letter).  Zero is refused: to the
// library it means "default".
[[nodiscard]] parsed_number parse_size(std::string_view text);
// A whole number in decimal, or in hexadecimal with 0x, of at most `most`.
[[nodiscard]] parsed_number parse_count(std::string_view text, std::uint64_t most = UINT64_MAX);
// "2", "0.25": nanoseconds; 1 ms to 1 h.
[[nodiscard]] parsed_number parse_seconds(std::string_view text);
// "640", "0640": permission bits.
[[nodiscard]] parsed_number parse_permissions(std::string_view text);

// "64 MiB", "1.5 GiB", "17 B".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
// "850 ns", "1.25 us", "3.10 ms", "12.0 s".
[[nodiscard]] std::string duration_text(double ns);
// "0x200000001000".
[[nodiscard]] std::string address_text(std::uint64_t address);

}  // namespace nvm::cli
