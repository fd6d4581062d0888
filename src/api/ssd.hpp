// Pools on ssd: how the log ring of src/media meets the pool file.
#pragma once

#include <memory>

#include "api/engine.hpp"
#include "pool/pool.hpp"

namespace nvm::api {

// Steps of pool_file on a pool of medium ssd; nothing on other media.
[[nodiscard]] file_step prepare_log() noexcept;  // creation: an empty ring
[[nodiscard]] file_step replay_log() noexcept;   // open: the log's valid prefix goes home

// The engine of an open pool on ssd, its log continued.
[[nodiscard]] result<std::unique_ptr<engine>> start_on_ssd(pool_file& file, unsigned lanes, bool measured);

// For a pool opened read-only: applies the log's valid prefix to the private mapping.  Returns the records applied.
[[nodiscard]] result<std::uint64_t> apply_log_in_memory(pool_file& file) noexcept;

}  // namespace nvm::api
