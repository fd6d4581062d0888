// Names of policies and compressions of tiers, by their numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nvm::cli {

inline constexpr std::string_view tier_policy_names[] = {"detect", "steady",        "uflru", "lru",
                                                         "cflru",  "second-chance", "fifo"};
inline constexpr std::string_view tier_compression_names[] = {"detect", "plain", "lz4", "zstd"};

[[nodiscard]] inline std::string_view name_in(std::uint32_t number, std::span<const std::string_view> names) noexcept {
  return number < names.size() ? names[number] : "?";
}

}  // namespace nvm::cli
