// Pools on ssd that work in an image: how the log ring of src/media meets the pool file.
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "media/replay.hpp"
#include "pool/pool.hpp"

namespace nvm::engines {

// Steps of pool_file for a pool with an image; other pools skip them.
[[nodiscard]] file_step prepare_log() noexcept;  // creation: an empty ring
// Open: the log's valid prefix goes to the image, and to `run` for start_on_ssd().
[[nodiscard]] image_step open_log_into(log_run& run) noexcept;

// The engine of an open pool with an image, its log continued after `run`.
[[nodiscard]] result<std::unique_ptr<engine>> start_on_ssd(pool_file& file, unsigned lanes, bool measured, log_run run);
// The ring of a pool that was just created.
[[nodiscard]] result<log_run> new_log(pool_file& file) noexcept;

// For a pool opened read-only: applies the log's valid prefix to the private mapping.  Returns the records applied.
[[nodiscard]] result<std::uint64_t> apply_log_in_memory(pool_file& file) noexcept;

}  // namespace nvm::engines
