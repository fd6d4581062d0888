// From options to the shape of a new pool: defaults, rounding, limits.  Pure.
#pragma once

#include "pool/pool_file.hpp"

namespace nvm {

inline constexpr std::uint64_t file_page_bytes = std::uint64_t{1} << layout::page_shift_default;
inline constexpr std::uint64_t chunk_bytes = layout::pages_per_chunk * file_page_bytes;

inline constexpr std::uint64_t size_bytes_default = std::uint64_t{64} << 20;
inline constexpr std::uint64_t capacity_bytes_default_min = std::uint64_t{1} << 30;
inline constexpr std::uint64_t lane_bytes_default = 16 * 1024;
inline constexpr std::uint64_t redo_ring_bytes_least = 32 * 1024;
inline constexpr std::uint64_t redo_ring_bytes_most = 1024 * 1024;
inline constexpr std::uint64_t lane_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint64_t ring_bytes_min = 64 * 1024;

// Shape of a pool on `medium` (not DETECT).  `window_bytes` limits it as pool_bytes_max does.  errc::invalid or
// errc::too_large, naming the option.
[[nodiscard]] result<geometry_request> shape_of_new_pool(const pool_create_options& options, std::uint32_t medium,
                                                         std::uint64_t window_bytes) noexcept;

// The address that a pool of this uuid prefers: a granule of the window, such that `bytes` fit after it.
[[nodiscard]] std::uint64_t preferred_base(const std::uint8_t uuid[16], std::uint64_t bytes) noexcept;

}  // namespace nvm
