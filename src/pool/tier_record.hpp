// A pool's record of its second file (layout::tier_record), read and written by file operations.
#pragma once

#include "platform/platform.hpp"
#include "pool/pool_layout.hpp"

namespace nvm {

// errc::corrupt: it fails its check, or is impossible.
[[nodiscard]] result<layout::tier_record> read_tier_record(const platform::file& file) noexcept;
// Seals it and writes it; all but `sequence` if `keep_sequence`.
[[nodiscard]] status write_tier_record(const platform::file& file, layout::tier_record& record,
                                       bool keep_sequence) noexcept;

}  // namespace nvm
