// Pools on ssd: how the log ring of src/media meets the pool file.
#pragma once

#include <memory>

#include "api/engine.hpp"
#include "pool/pool.hpp"

namespace nvm::api {

// Steps of pool_file on a pool of medium ssd; nothing on other media.
[[nodiscard]] file_step prepare_log() noexcept;  // creation: an empty ring
// Open: the log's valid prefix goes home.  Adds the number of its records, which stays alive as long as the step.
[[nodiscard]] file_step replay_log(std::uint64_t& records) noexcept;

// The engine of an open pool on ssd, its log continued.  Adds the records that it replayed, which it does for a pool
// that was opened read-only.
[[nodiscard]] result<std::unique_ptr<engine>> start_on_ssd(pool_file& file, unsigned lanes, bool measured,
                                                           std::uint64_t& records);

// For a pool opened read-only: applies the log's valid prefix to the private mapping.  Returns the records applied.
[[nodiscard]] result<std::uint64_t> apply_log_in_memory(pool_file& file) noexcept;

}  // namespace nvm::api
