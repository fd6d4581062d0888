// The first work of the next open of a crashed pool, on a private copy.
#pragma once

#include "pool/pool.hpp"
#include "tx/face.hpp"

namespace nvm::engines {

// Applies the logs of a pool on direct media, of any engine but the log-structured one, to the image of a file that is
// open for reading.  errc::corrupt: a log fails its checks.
[[nodiscard]] status recover_image(pool_file& file) noexcept;
// The same of bytes in memory.
[[nodiscard]] status recover_image(std::byte* base, const geometry& g, const layout::superblock& sb,
                                   tx::recovery_report& report) noexcept;

}  // namespace nvm::engines
