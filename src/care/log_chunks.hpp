// The chunks of a pool of the log-structured engine, also while another process has it open.
#pragma once

#include <cstdint>

#include "base/base.hpp"

namespace nvm::care {

// Bytes of a chunk; 0: the pool has another engine, or no root of a log that holds.  Takes no lock and changes nothing.
// errc::system, not_a_pool, corrupt, version.
[[nodiscard]] result<std::uint64_t> log_chunk_bytes_in(const char* path) noexcept;

}  // namespace nvm::care
